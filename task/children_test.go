package task

import (
	"slices"
	"testing"

	"github.com/hived/hived/protocol"
)

// TestChildren checks that the tasks that wait for another are listed in the order
// of ids, in whatever order they begin and stop to wait.
func TestChildren(t *testing.T) {
	b := NewBook()
	parent := []protocol.TaskID{"P"}
	for _, step := range []struct {
		child protocol.TaskID
		waits bool
		want  []protocol.TaskID
	}{
		{"B", true, []protocol.TaskID{"B"}},
		{"D", true, []protocol.TaskID{"B", "D"}},
		{"A", true, []protocol.TaskID{"A", "B", "D"}},
		{"C", true, []protocol.TaskID{"A", "B", "C", "D"}},
		{"C", true, []protocol.TaskID{"A", "B", "C", "D"}},
		{"A", false, []protocol.TaskID{"B", "C", "D"}},
		{"A", false, []protocol.TaskID{"B", "C", "D"}},
		{"C", false, []protocol.TaskID{"B", "D"}},
		{"A", true, []protocol.TaskID{"A", "B", "D"}},
		{"D", false, []protocol.TaskID{"A", "B"}},
		{"A", false, []protocol.TaskID{"B"}},
		{"B", false, nil},
	} {
		if step.waits {
			b.wait(&Task{ID: step.child}, nil, parent)
		} else {
			b.wait(&Task{ID: step.child}, parent, nil)
		}
		if got := b.Children("P"); !slices.Equal(got, step.want) {
			t.Errorf("after %+v: %v", step, got)
		}
	}
	if len(b.children) > 0 {
		t.Errorf("left behind: %v", b.children)
	}
}
