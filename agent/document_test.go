package agent

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

// TestSignsAreOfTheHolder checks that the signs of life in the daemon's status are
// shown only for the task and holder that they are about, and not once the task has
// ended.
func TestSignsAreOfTheHolder(t *testing.T) {
	said := protocol.Signs{HeardAt: time.Unix(1, 0)}
	of := SignsIn([]protocol.HeldTask{{Task: one, Holder: "bob", Signs: said}})
	for _, tt := range []struct {
		view task.View
		want protocol.Signs
	}{
		{task.View{ID: one, Holder: "bob", State: task.InProgress}, said},
		{task.View{ID: one, Holder: "bob", State: task.Completed}, protocol.Signs{}},
		{task.View{ID: one, Holder: "zoe", State: task.InProgress}, protocol.Signs{}},
		{task.View{ID: one, State: task.Unassigned}, protocol.Signs{}},
		{task.View{ID: two, Holder: "bob", State: task.InProgress}, protocol.Signs{}},
	} {
		if diff := cmp.Diff(tt.want, of(&tt.view)); diff != "" {
			t.Errorf("signs for %+v: %s", tt.view, diff)
		}
	}
}
