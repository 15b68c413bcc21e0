package mailbox

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
)

// moves is a disk that records the order in which files get their names.
type moves struct {
	durable.FS
	mu    sync.Mutex
	names map[string][]string // guarded by mu; by directory
}

func (m *moves) RenameNew(from, to string) error {
	err := m.FS.RenameNew(from, to)
	m.mu.Lock()
	defer m.mu.Unlock()
	if err == nil {
		m.names[path.Dir(to)] = append(m.names[path.Dir(to)], path.Base(to))
	}
	return err
}

// TestDeliverAll delivers many messages to many agents, one of whom no longer has
// an inbox.
func TestDeliverAll(t *testing.T) {
	for _, per := range []int{1, 40} {
		t.Run(strconv.Itoa(per), func(t *testing.T) {
			h := diskHive(t)
			m := &moves{FS: h.fs, names: map[string][]string{}}
			b := New(m, options)
			var list []Delivery
			for i := range 5 * per {
				id := protocol.AgentID(fmt.Sprintf("agent-%d", i%5))
				if i < 5 {
					_, err := b.Ensure(id)
					h.ok(err)
				}
				list = append(list, Delivery{id, fmt.Sprintf("%04d.json", i), fmt.Appendf(nil, "%d", i)})
			}
			h.ok(b.Remove("agents/agent-3/inbox"))
			for i, err := range b.DeliverAll(list) {
				x := list[i]
				if gone := x.Agent == "agent-3"; gone != errors.Is(err, fs.ErrNotExist) || !gone && err != nil {
					t.Errorf("%s to %s: %v", x.File, x.Agent, err)
				} else if !gone {
					h.equal(x.File, h.read("agents/"+string(x.Agent)+"/inbox/"+x.File), string(x.Data))
				}
			}
			for dir, names := range m.names {
				if len(names) != per || !slices.IsSortedFunc(names, strings.Compare) {
					t.Errorf("%s was filled in this order: %v", dir, names)
				}
			}
			h.equal("inboxes", len(m.names), 4)
		})
	}
}

// TestPutAll writes many files, into directories that exist, that do not, and whose
// place is taken.
func TestPutAll(t *testing.T) {
	for _, per := range []int{1, 20} {
		t.Run(strconv.Itoa(per), func(t *testing.T) {
			h := diskHive(t)
			h.ok(h.fs.MkdirAll("tasks/0", 0o755))
			h.write("tasks/0/0.json", "old")
			h.write("tasks/2", "no directory")
			h.ok(h.fs.MkdirAll("tasks/3/0.json", 0o755))
			var list []File
			for i := range 4 * per {
				list = append(list, File{fmt.Sprintf("tasks/%d/%d.json", i%4, i/4), fmt.Appendf(nil, "%d", i)})
			}
			for i, err := range New(h.fs, options).PutAll(list) {
				switch x := list[i]; {
				case path.Dir(x.Name) == "tasks/2":
					if err == nil {
						t.Errorf("%s was written below a file", x.Name)
					}
				case x.Name == "tasks/3/0.json":
					if !errors.Is(err, ErrTaken) {
						t.Errorf("over a directory: %v, want ErrTaken", err)
					}
				default:
					h.ok(err)
					h.equal(x.Name, h.read(x.Name), string(x.Data))
				}
			}
		})
	}
}
