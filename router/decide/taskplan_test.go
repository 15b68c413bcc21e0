package decide

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/ledger"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

// TestRejectedOfferLeavesRoom checks that an agent that rejects an offer gets another.
func TestRejectedOfferLeavesRoom(t *testing.T) {
	b := newBench(t)
	b.d.recordAgent(b.now, &protocol.AgentEvent{Agent: "alice", Action: protocol.Joined, Slots: OffersWaiting})
	for range OffersWaiting + 1 {
		b.send("human", `{"to":"hive","act":"inform","event":"create","data":{"title":"tidy up"}}`)
	}
	offers := func(list []Decision) (ids []protocol.TaskID) {
		for _, d := range list {
			if e, ok := d.Event.Body.(*protocol.TaskEvent); ok && e.Event == task.Offer {
				ids = append(ids, e.Task)
			}
		}
		return ids
	}
	first := b.d.plan.hand("alice").offers[0]
	got := offers(b.send("alice", `{"to":"hive","act":"inform","event":"reject","task":"`+string(first.ID)+`"}`))
	if len(got) != 1 || len(b.d.plan.hand("alice").offers) != OffersWaiting {
		t.Errorf("after a rejection %v is offered, and %d offers wait for an answer", got, len(b.d.plan.hand("alice").offers))
	}
}

// TestEndedTasksLeaveTheirQueues checks that tasks that nobody could take leave their
// queues when they end, and that an audience of no waiting task is forgotten, also if
// each task has an audience of its own.
func TestEndedTasksLeaveTheirQueues(t *testing.T) {
	b := newBench(t, "a")
	b.d.Record(b.now, &protocol.AgentEvent{Agent: "a", Action: protocol.Held})
	queued := func() (audiences, listeners, tasks int) {
		for _, q := range []queues{b.d.plan.waits, b.d.plan.resting, b.d.plan.asked} {
			for _, of := range q.all {
				tasks += len(of.list)
			}
			audiences, listeners = audiences+len(q.all), listeners+len(q.byAddress)
		}
		return audiences, listeners, tasks
	}
	const many, left = 5_000, 3
	for n := range many {
		b.send("human", fmt.Sprintf(`{"to":"hive","act":"inform","event":"create","data":{"title":"tidy up","to":["a","@job-%d"]}}`, n))
	}
	if audiences, _, tasks := queued(); audiences != many || tasks != many {
		t.Fatalf("%d tasks of %d audiences wait", tasks, audiences)
	}
	n := 0
	for x := range b.d.state.Tasks.All() {
		if n++; n > left {
			b.send("human", `{"to":"hive","act":"inform","event":"cancel","task":"`+string(x.ID)+`"}`)
		}
	}
	if audiences, listeners, tasks := queued(); audiences != left || listeners != left+1 || tasks != left {
		t.Errorf("%d tasks of %d audiences wait for %d", tasks, audiences, listeners)
	}
	b.now = b.now.Add(b.d.settings.Tasks.Retention + time.Hour)
	b.timers(b.d)
	if there := b.d.state.Tasks.Len(); there != left || len(b.d.plan.next) > left || len(b.d.plan.taken) > 0 {
		t.Errorf("there are %d tasks, %d with a time when they are due, %d with the time when they were taken", there, len(b.d.plan.next), len(b.d.plan.taken))
	}
	if room := cap(b.d.plan.wakes); room > 4*roomKept || b.d.plan.nextMost > 4*roomKept {
		t.Errorf("there is room for %d tasks that are due, and in the map for %d", room, b.d.plan.nextMost)
	}
	snapshot, err := stateBytes(b.d.state)
	testenv.Must(t, err)
	state, _, err := ledger.Decode(strings.NewReader(snapshot), b.d.settings.Remember)
	testenv.Must(t, err)
	again := New(state, b.d.settings, zeros{}, noLog)
	b.timers(again)
	for key, q := range b.d.plan.waits.all {
		if is := again.plan.waits.all[key]; is == nil || len(is.list) != 1 || is.list[0].ID != q.list[0].ID {
			t.Errorf("after a restart %+v waits as %q", is, key)
		}
	}
	if len(again.plan.waits.all) != left {
		t.Errorf("after a restart there are %d audiences", len(again.plan.waits.all))
	}
}

// timers has a Decider do all that is due.
func (b *bench) timers(d *Decider) {
	b.t.Helper()
	for more := true; more; {
		var err error
		more, err = d.Tasks(b.now, Senses{})
		testenv.Must(b.t, err)
	}
}
