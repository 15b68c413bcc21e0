package router

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

// TestNoRoom checks that an agent that has as many tasks as slots can take no more in any
// way, and is told what it has and when there is room.
func TestNoRoom(t *testing.T) {
	for _, slots := range []int{1, 2} {
		t.Run(strconv.Itoa(slots), func(t *testing.T) {
			scenario(t, "anna berta", func(h *crew) {
				h.slots("anna", slots)
				var has []protocol.TaskID
				var names []string
				for range slots {
					has = append(has, h.create("human", `{"title": "dig", "to": ["anna"]}`))
					h.does("anna", "accept", has[len(has)-1], "")
					names = append(names, string(has[len(has)-1]))
				}
				more := h.create("human", `{"title": "plant", "to": ["anna"]}`)
				h.wantHistory(more, "create")
				for _, ask := range []struct {
					event string
					id    protocol.TaskID
				}{{"accept", more}, {"claim", more}, {"claim", ""}} {
					no := h.refused(protocol.CodeNoRoom, "anna", ask.event, ask.id, "")
					for _, want := range []string{fmt.Sprintf("you have %d of %d in hand: %s", slots, slots, strings.Join(names, ", ")), `"event": "release", "task": "` + string(has[0]) + `", "epoch": 1`} {
						if !strings.Contains(no.Detail, want) {
							t.Errorf("%s of %q: the refusal does not say %s: %s", ask.event, ask.id, want, no.Detail)
						}
					}
				}
				h.does("anna", "start", has[0], "")
				h.does("anna", "complete", has[0], "")
				h.does("anna", "accept", more, "")
				h.wantHistory(more, "create offer accept")
			})
		})
	}
}

// TestNoRoomIsOfWhoMayHaveIt checks that an agent that may not have the task at all is told
// that, and not that it has no room.
func TestNoRoomIsOfWhoMayHaveIt(t *testing.T) {
	scenario(t, "anna berta", func(h *crew) {
		h.begin("anna", h.create("human", `{"title": "dig", "to": ["anna"]}`))
		other := h.create("human", `{"title": "plant", "to": ["berta"]}`)
		h.refused(protocol.CodeNotOffered, "anna", "accept", other, "")
		h.refused(protocol.CodeNotEligible, "anna", "claim", other, "")
	})
}

// TestRoomWhileItWaits checks that a task that waits for others takes no slot of its holder.
func TestRoomWhileItWaits(t *testing.T) {
	scenario(t, "anna", func(h *crew) {
		first, second := h.create("human", `{"title": "dig"}`), h.create("human", `{"title": "plant"}`)
		h.begin("anna", first)
		h.refused(protocol.CodeNoRoom, "anna", "claim", second, "")
		h.does("anna", "pause_for_approval", first, `{"question": "May I?"}`)
		h.does("anna", "accept", second, "")
		h.does("human", "approval_granted", first, "")
		h.is(first, task.InProgress)
	})
}

// TestTwoOffersOneSlot checks that an agent is offered no more than it can take, and that
// of two tasks that it accepts at once, the second is refused.
func TestTwoOffersOneSlot(t *testing.T) {
	scenario(t, "anna", func(h *crew) {
		h.create("human", many(2, `{"title": "task %d", "to": ["anna"]}`))
		first, second := h.created()[0], h.created()[1]
		h.is(first, task.Offered)
		h.is(second, task.Unassigned)
		h.posts("anna", "accept", first, "")
		late := h.posts("anna", "accept", second, "")
		h.collect()
		h.is(first, task.Pending)
		if no := h.answer("anna", late); no == nil || no.Code != protocol.CodeNoRoom {
			t.Errorf("the second accept was answered with %+v", no)
		}
		h.is(second, task.Unassigned)
	})
}

// TestFullHandsGiveOffersBack checks that when an agent with two slots and two offers
// takes other tasks, the offers go to others at once, and a task that nobody else can
// take waits for it without a pause.
func TestFullHandsGiveOffersBack(t *testing.T) {
	scenario(t, "berta", func(h *crew) {
		h.slots("anna", 2)
		busy := h.create("human", `{"title": "busy", "to": ["berta"]}`)
		h.begin("berta", busy)
		h.create("human", `{"tasks": [{"title": "for both", "to": ["anna", "berta"]}, {"title": "for one", "to": ["anna"]}]}`)
		both, one := h.created()[1], h.created()[2]
		h.is(both, task.Offered)
		h.is(one, task.Offered)
		h.does("berta", "complete", busy, "")
		h.create("human", `{"tasks": [{"title": "x", "to": ["anna", "human"]}, {"title": "y", "to": ["anna", "human"]}]}`)
		x, y := h.created()[3], h.created()[4]
		h.does("anna", "claim", x, "")
		h.is(both, task.Offered)
		h.does("anna", "claim", y, "")
		if v := h.is(both, task.Offered); !slices.Equal(v.Offered, []protocol.AgentID{"berta"}) {
			t.Errorf("the task for both is offered to %v", v.Offered)
		}
		h.wantHistory(one, "create offer offer_exhausted")
		if v := h.is(one, task.Unassigned); !v.Until.IsZero() || v.Reason != "anna has no room for more" {
			t.Errorf("the task for anna alone waits until %s: %s", v.Until, v.Reason)
		}
		h.does("anna", "start", x, "")
		h.does("anna", "complete", x, "")
		h.wantHistory(one, "create offer offer_exhausted offer")
	})
}

// TestFewerSlots checks that when a person takes slots away, the offers for them are
// withdrawn.
func TestFewerSlots(t *testing.T) {
	scenario(t, "", func(h *crew) {
		h.slots("anna", 2)
		first := h.create("human", `{"title": "dig"}`)
		h.begin("anna", first)
		second := h.create("human", `{"title": "plant"}`)
		h.is(second, task.Offered)
		h.slots("anna", 1)
		h.is(second, task.Unassigned)
		h.slots("anna", 2)
		h.is(second, task.Offered)
	})
}

// TestOffersOfTheHeld checks that what was offered to an agent that is held or archived is
// offered to others at once, that the agent is not counted as silent for it, and that it
// is asked again when it is back.
func TestOffersOfTheHeld(t *testing.T) {
	for leave, back := range map[string]string{"agent-hold": "agent-release", "agent-archive": "agent-restore"} {
		t.Run(leave, func(t *testing.T) {
			scenario(t, "anna berta", func(h *crew) {
				command := func(event string) {
					h.post("human", `{"to": "hive", "event": "`+event+`", "data": {"agent": "anna"}}`)
					h.collect()
				}
				busy := h.create("human", `{"title": "busy", "to": ["berta"]}`)
				h.begin("berta", busy)
				h.slots("anna", 3)
				h.create("human", `{"tasks": [{"title": "for both", "to": ["anna", "berta"]}, {"title": "for one", "to": ["anna"]}, {"title": "offered to both", "to": ["anna", "berta"]}]}`)
				both, one, shared := h.created()[1], h.created()[2], h.created()[3]
				h.does("anna", "accept", both, "")
				h.does("anna", "release", both, "")
				h.does("berta", "complete", busy, "")
				before := len(all[*protocol.TaskEvent](h))
				command(leave)
				for _, id := range []protocol.TaskID{both, one, shared} {
					if v := h.view(id); slices.Contains(v.Offered, "anna") {
						t.Errorf("%s, %s, is still offered to %v", v.Title, v.State, v.Offered)
					}
				}
				if n := len(all[*protocol.TaskEvent](h)) - before; n > 4 {
					t.Errorf("%d events of tasks", n)
				}
				h.is(one, task.Unassigned)
				h.pass(10 * time.Minute)
				if n := strings.Count(h.happenedTo(one), "offer_expired"); n > 0 {
					t.Errorf("%d offers ran out", n)
				}
				command(back)
				h.is(one, task.Offered)
				h.does("anna", "accept", one, "")
			})
		})
	}
}

// TestAcceptOfTheHeld checks that an accept in the outbox of a held agent is not lost: it
// is answered when the hold ends, and the agent has the task if nobody else took it.
func TestAcceptOfTheHeld(t *testing.T) {
	scenario(t, "anna berta", func(h *crew) {
		id := h.create("human", `{"title": "dig", "to": ["anna"]}`)
		h.post("human", `{"to": "hive", "event": "agent-hold", "data": {"agent": "anna"}}`)
		h.collect()
		h.is(id, task.Unassigned)
		late := h.posts("anna", "accept", id, "")
		h.collect()
		h.pass(time.Hour)
		h.is(id, task.Unassigned)
		h.post("human", `{"to": "hive", "event": "agent-release", "data": {"agent": "anna"}}`)
		h.collect()
		if no := h.answer("anna", late); no != nil {
			t.Errorf("the accept was refused with %s: %s", no.Code, no.Detail)
		}
		h.is(id, task.Pending)
	})
}
