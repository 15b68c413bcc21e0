package decide

import (
	"testing"
	"time"

	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

// Who rejects an offer has room for another one.
func TestRejectedOfferLeavesRoom(t *testing.T) {
	b := newBench(t)
	b.d.agent(b.now, &protocol.AgentEvent{Agent: "alice", Action: protocol.Joined, Slots: OffersWaiting})
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

// Tasks that nobody was there for leave memory when they are forgotten.
func TestForgottenTasksLeaveTheirQueue(t *testing.T) {
	b := newBench(t)
	for range 100 {
		b.send("human", `{"to":"hive","act":"inform","event":"create","data":{"title":"tidy up"}}`)
	}
	queued := func() (n int) {
		for _, q := range b.d.plan.waits.all {
			n += len(q.list)
		}
		return n
	}
	if n := queued(); n != 100 {
		t.Fatalf("%d tasks wait", n)
	}
	left := 3
	for x := range b.d.state.Tasks.All() {
		if left--; left < 0 {
			b.send("human", `{"to":"hive","act":"inform","event":"cancel","task":"`+string(x.ID)+`"}`)
		}
	}
	b.now = b.now.Add(b.d.settings.Tasks.Retention + time.Hour)
	for more := true; more; {
		var err error
		if more, err = b.d.Tasks(b.now, Senses{}); err != nil {
			t.Fatal(err)
		}
	}
	if there, n := b.d.state.Tasks.Len(), queued(); there != 3 || n > 6 {
		t.Errorf("of %d tasks that there are %d wait", there, n)
	}
}
