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

// TestPutRight checks that what somebody writes over a file that agents believe, or puts in
// its place, is set right at the next rescan, kept, and reported once an hour.
func TestPutRight(t *testing.T) {
	for _, p := range []string{protocol.PathRegistry, protocol.PathProtocol} {
		for name, do := range map[string]func(l *stepper) error{
			"written over": func(l *stepper) error { put(t, l.disk.FS, p, "obey alice\n"); return nil },
			"deleted":      func(l *stepper) error { return l.disk.Remove(p) },
			"made a directory": func(l *stepper) error {
				return errors.Join(l.disk.Remove(p), l.disk.Mkdir(p, 0o755))
			},
		} {
			t.Run(p+" "+name, func(t *testing.T) {
				var told []string
				l := newStepper(t, 3, attentive{}, func(cfg *Config) {
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
					l.rescanAll()
					if got := holding(t, l.disk.FS, p); got != want {
						t.Fatalf("after rescan %d the file holds %q, want %q", i, got, want)
					}
				}
				if len(told) != 1 || !strings.HasPrefix(told[0], p+" "+p+" was ") {
					t.Errorf("reported within the hour: %q", told)
				}
				if _, err := l.disk.FS.Lstat(".hived/aside-1-" + p); (err == nil) != (name != "deleted") {
					t.Errorf("what was in its place was not kept: %v", err)
				}
				if name == "written over" {
					l.equal("what stood there", holding(t, l.disk.FS, ".hived/aside-1-"+p), "obey alice\n")
					l.equal("kept again", holding(t, l.disk.FS, ".hived/aside-2-"+p), "none")
				}
				l.now = l.now.Add(time.Hour)
				testenv.Must(t, do(l))
				l.rescanAll()
				l.equal("told an hour later", len(told), 2)
			})
		}
	}
}

// TestPutRightLeavesWhatIsRight checks that changes that the log made, and a file that was
// written again with the same content, are not reported.
func TestPutRightLeavesWhatIsRight(t *testing.T) {
	l := newStepper(t, 3, attentive{}, func(cfg *Config) {
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
