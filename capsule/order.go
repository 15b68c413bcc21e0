package capsule

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/hived/hived/agent"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
)

// pass is how far a run of the task's steps came: agents/<id>/.work/<task>-<epoch>.pass.
// A run names step 1, then each next, then new ones, so that a script that is begun again
// goes through the same steps.
type pass struct {
	Last int `json:"last"` // the number of the step that was named last; 0: none
}

func (c *Capsule) passFile() string {
	return fmt.Sprintf("%s/%s-%d.pass", protocol.WorkDir(c.Box.ID()), c.Task, c.Epoch)
}

func (c *Capsule) lastNamed() int {
	var p pass
	data, _, err := durable.ReadFile(c.Disk, c.passFile(), 1<<10)
	if err != nil || json.Unmarshal(data, &p) != nil {
		return 0
	}
	return p.Last
}

// named records that a run came to a step.
func (c *Capsule) named(n int) error {
	data, err := json.Marshal(pass{n})
	if err != nil {
		return err
	}
	if err := c.Disk.MkdirAll(protocol.WorkDir(c.Box.ID()), 0o755); err != nil {
		return err
	}
	if _, err := c.Disk.Lstat(c.passFile()); errors.Is(err, fs.ErrNotExist) {
		agent.TidyWork(c.Disk, c.Box.ID(), func(of protocol.TaskID, name string) bool { // a pass of an earlier epoch
			return of == c.Task && strings.HasSuffix(name, ".pass")
		})
	}
	return durable.Publish(c.Disk, c.passFile(), data, 0o644, durable.Unsynced)
}

// turn returns the number of the step of a name, or of a new one, if it is its turn.
func turn(known []string, last int, name string, skip []string) (n int, err error) {
	n = slices.Index(known, name) + 1
	isNew := n == 0
	if isNew {
		n = len(known) + 1
	}
	if n == 1 || n == last {
		return n, nil
	}
	for i := last + 1; i < n; i++ {
		if due := known[i-1]; !slices.Contains(skip, due) {
			return 0, orderError(name, due, isNew)
		}
	}
	if n < last {
		return 0, orderError(name, nextAfter(known, last), isNew)
	}
	return n, nil
}

func nextAfter(known []string, last int) string {
	if last < len(known) {
		return known[last]
	}
	return ""
}

// orderError says which step is due.
func orderError(name, due string, isNew bool) error {
	var text strings.Builder
	fmt.Fprintf(&text, "step %s is not the next one: ", name)
	if due == "" {
		text.WriteString("all steps that were begun before have been named, so that a new one is due, or the first again")
	} else {
		fmt.Fprintf(&text, "%s is due, which was begun before; name the steps in their order", due)
		if isNew {
			fmt.Fprintf(&text, ", or leave it out with --skip %s", due)
		}
	}
	return fmt.Errorf("%w: %s", ErrOrder, text.String())
}
