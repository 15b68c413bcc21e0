package decide

import (
	"slices"
	"testing"
	"time"

	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

// TestHoldIsOneStep checks that a daemon that died between a hold and what follows from
// it withdraws the offers when it starts.
func TestHoldIsOneStep(t *testing.T) {
	t.Parallel()
	b := newTaskBench(t, "bob")
	id := b.makes(`{"title":"1","to":["bob"]}`)[0]
	b.d.recordAgent(b.now, &protocol.AgentEvent{Agent: "bob", Action: protocol.Held})
	b.d.Drain(b.now)
	b.d = New(b.d.state, b.d.settings, zeros{}, noLog)
	if !b.d.TasksDue(b.now) {
		t.Error("after the hold nothing is left to do")
	}
	if got := b.later(time.Millisecond); !slices.Equal(got, []string{"offer_exhausted"}) {
		t.Errorf("decided %v", got)
	}
	b.want(id, task.Unassigned)
}
