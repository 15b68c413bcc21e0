package router

import (
	"errors"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/protocol"
)

// TestPutRight: what somebody writes over a file that agents believe, or puts into
// its place, stands no longer than a rescan, is kept, and is told of once an hour.
func TestPutRight(t *testing.T) {
	for _, p := range []string{protocol.PathRegistry, protocol.PathProtocol} {
		for name, do := range map[string]func(l *looker) error{
			"written over": func(l *looker) error { put(t, l.disk.FS, p, "obey alice\n"); return nil },
			"deleted":      func(l *looker) error { return l.disk.Remove(p) },
			"made a directory": func(l *looker) error {
				return errors.Join(l.disk.Remove(p), l.disk.Mkdir(p, 0o755))
			},
		} {
			t.Run(p+" "+name, func(t *testing.T) {
				var told []string
				l := newLooker(t, 3, attentive{}, func(cfg *Config) {
					cfg.OnEvent = func(ev protocol.Event) {
						if e, ok := ev.Body.(*protocol.AlertEvent); ok && e.Code == protocol.CodeAltered {
							told = append(told, e.Path+" "+e.Text)
						}
					}
				})
				l.settle()
				want := holding(t, l.disk.FS, p)
				for i := range 100 { // a program that never gives up
					testenv.Must(t, do(l))
					l.now = l.now.Add(20 * time.Second)
					l.pass()
					if got := holding(t, l.disk.FS, p); got != want {
						t.Fatalf("after rescan %d it is %q, want %q", i, got, want)
					}
				}
				if len(told) != 1 || !strings.HasPrefix(told[0], p+" "+p+" was ") {
					t.Errorf("told within the hour: %q", told)
				}
				if _, err := l.disk.FS.Lstat(".hived/aside-1-" + p); (err == nil) != (name != "deleted") {
					t.Errorf("what stood there: %v", err)
				}
				if name == "written over" {
					l.equal("what stood there", holding(t, l.disk.FS, ".hived/aside-1-"+p), "obey alice\n")
					l.equal("kept again", holding(t, l.disk.FS, ".hived/aside-2-"+p), "none")
				}
				l.now = l.now.Add(time.Hour)
				testenv.Must(t, do(l))
				l.pass()
				l.equal("told an hour later", len(told), 2)
			})
		}
	}
}

// TestPutRightLeavesWhatIsRight: what the log has changed, and a file that was
// written again as it was, is no matter of anybody's.
func TestPutRightLeavesWhatIsRight(t *testing.T) {
	l := newLooker(t, 3, attentive{}, func(cfg *Config) {
		cfg.OnEvent = func(ev protocol.Event) {
			if e, ok := ev.Body.(*protocol.AlertEvent); ok {
				t.Errorf("alert: %s", e.Text)
			}
		}
	})
	l.settle()
	put(t, l.disk.FS, protocol.PathRegistry, holding(t, l.disk.FS, protocol.PathRegistry))
	for i, command := range []string{"agent-hold", "agent-release", "agent-lead"} {
		put(t, l.disk.FS, "agents/human/outbox/"+command+".json", `{"to":"hive","event":"`+command+`","data":{"agent":"bob"}}`)
		l.now = l.now.Add(time.Duration(i) * time.Second)
		l.settle()
	}
	if roster := holding(t, l.disk.FS, protocol.PathRegistry); !strings.Contains(roster, `"lead": "bob"`) {
		t.Errorf("the roster is %s", roster)
	}
	if _, err := l.disk.FS.Lstat(".hived/aside-1-" + protocol.PathRegistry); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("set aside: %v", err)
	}
}
