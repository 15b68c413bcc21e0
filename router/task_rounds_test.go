package router

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

// team returns n agents, as ids and as one text.
func team(n int) (ids []protocol.AgentID, names string) {
	list := make([]string, n)
	for i := range n {
		list[i] = fmt.Sprintf("agent%02d", i)
		ids = append(ids, protocol.AgentID(list[i]))
	}
	return ids, strings.Join(list, " ")
}

// offersOf returns to whom a task was offered, each time.
func (h *crew) offersOf(id protocol.TaskID) (list [][]protocol.AgentID) {
	for _, e := range h.stepsOf(id) {
		if e.Event == task.Offer {
			list = append(list, e.Agents)
		}
	}
	return list
}

// rejectsAll has all that a task is offered to reject it, until one of the willing is
// asked or nobody is. It returns how many rejected it.
func (h *crew) rejectsAll(id protocol.TaskID, willing ...protocol.AgentID) (n int) {
	h.Helper()
	for {
		offered := slices.Clone(h.router.state.Tasks.Get(id).Offered)
		offered = slices.DeleteFunc(offered, func(a protocol.AgentID) bool { return slices.Contains(willing, a) })
		if len(offered) == 0 {
			return n
		}
		for _, who := range offered {
			h.posts(who, "reject", id, `{"reason": "no"}`)
			n++
		}
		h.collect()
	}
}

// TestWillingOne checks that the one willing agent of many idle ones is asked without a
// pause.
func TestWillingOne(t *testing.T) {
	ids, names := team(24)
	scenario(t, names, func(h *crew) {
		willing := ids[23]
		id := h.create("human", `{"title": "dull"}`)
		h.rejectsAll(id, willing)
		h.does(willing, "accept", id, "")
		if n := len(h.offersOf(id)); n != 8 {
			t.Errorf("the task was offered %d times: %v", n, h.offersOf(id))
		}
		if n := len(h.told("human", protocol.CodeNobodyTakes)); n != 0 {
			t.Errorf("the creator was told %d times that nobody takes the task", n)
		}
	})
}

// TestPauseWhenAllWereAsked checks that there is a pause when all agents with room were
// asked, that they are then asked again, and that the next pause is twice as long.
func TestPauseWhenAllWereAsked(t *testing.T) {
	ids, names := team(7)
	scenario(t, names, func(h *crew) {
		id := h.create("human", `{"title": "dull"}`)
		for _, pause := range []time.Duration{30 * time.Second, time.Minute, 2 * time.Minute} {
			before := len(h.offersOf(id)) - 1
			if n := h.rejectsAll(id); n != len(ids) {
				t.Errorf("%d of %d agents were asked", n, len(ids))
			}
			h.is(id, task.Unassigned)
			h.pass(pause - time.Second)
			h.is(id, task.Unassigned)
			h.pass(time.Second)
			h.is(id, task.Offered)
			asked := slices.Concat(h.offersOf(id)[before : len(h.offersOf(id))-1]...)
			if slices.Sort(asked); len(slices.Compact(asked)) != len(ids) {
				t.Errorf("in one round the task was offered to %v", asked)
			}
		}
		h.wantTold("human", protocol.CodeNobodyTakes, 3)
	})
}

// TestSilentAgents checks that where agents do not answer, each offer goes to twice as many.
func TestSilentAgents(t *testing.T) {
	_, names := team(24)
	scenario(t, names, func(h *crew) {
		id := h.create("human", `{"title": "dull"}`)
		h.pass(4*30*time.Second + time.Second)
		var sizes []int
		for _, to := range h.offersOf(id) {
			sizes = append(sizes, len(to))
		}
		if !slices.Equal(sizes, []int{3, 6, 12, 3}) {
			t.Errorf("agents were asked in groups of %v", sizes)
		}
	})
}

// TestRoomInAPause checks that an agent that gets room while a task pauses is asked at
// once, and that the pause does not become longer if it rejects the task too.
func TestRoomInAPause(t *testing.T) {
	scenario(t, "anna berta", func(h *crew) {
		other := h.create("human", `{"title": "other", "to": ["berta"]}`)
		h.begin("berta", other)
		id := h.create("human", `{"title": "dull"}`)
		h.does("anna", "reject", id, "")
		h.is(id, task.Unassigned)
		h.pass(10 * time.Second)
		h.does("berta", "complete", other, "")
		if got := h.is(id, task.Offered); !slices.Equal(got.Offered, []protocol.AgentID{"berta"}) {
			t.Errorf("the task is offered to %v", got.Offered)
		}
		h.does("berta", "reject", id, "")
		h.pass(19 * time.Second)
		h.is(id, task.Unassigned)
		h.pass(time.Second)
		if got := h.is(id, task.Offered); len(got.Offered) != 2 {
			t.Errorf("in the next round the task is offered to %v", got.Offered)
		}
		h.does("human", "cancel", id, "")
	})
}

// TestNewcomerInAPause checks the same for an agent that joins, or gets the role that the
// task is for.
func TestNewcomerInAPause(t *testing.T) {
	scenario(t, "anna berta", func(h *crew) {
		h.post("human", `{"to": "hive", "event": "agent-add", "data": {"agent": "anna", "role": "digger"}}`)
		h.collect()
		id := h.create("human", `{"title": "dull", "to": ["@digger"]}`)
		h.does("anna", "reject", id, "")
		h.is(id, task.Unassigned)
		h.post("human", `{"to": "hive", "event": "agent-add", "data": {"agent": "berta", "role": "digger"}}`)
		h.collect()
		if got := h.is(id, task.Offered); !slices.Equal(got.Offered, []protocol.AgentID{"berta"}) {
			t.Errorf("the task is offered to %v", got.Offered)
		}
	})
}

// TestGivenBack checks that an agent that gave a task back is not asked again while there
// are others.
func TestGivenBack(t *testing.T) {
	scenario(t, "anna berta", func(h *crew) {
		id := h.create("human", `{"title": "dull"}`)
		h.does("anna", "accept", id, "")
		h.does("anna", "start", id, "")
		h.does("anna", "release", id, "")
		if got := h.is(id, task.Offered); !slices.Equal(got.Offered, []protocol.AgentID{"berta"}) {
			t.Errorf("the task is offered to %v", got.Offered)
		}
		h.does("berta", "reject", id, "")
		h.is(id, task.Unassigned) // there is nobody else
		h.pass(30 * time.Second)
		h.is(id, task.Offered)
	})
}

// TestFruitless checks that executions that reach nothing new are counted, that the task
// waits from the second on, and that after max_executions of them it fails and its creator
// and a person are told.
func TestFruitless(t *testing.T) {
	scenario(t, "anna boss", func(h *crew) {
		id := h.create("boss", `{"title": "dull", "to": ["anna"]}`)
		for n := range 10 {
			h.begin("anna", id)
			h.does("anna", "release", id, `{"reason": "not for me"}`)
			if n == 9 {
				break
			}
			if n == 1 {
				h.refused(protocol.CodeNotYet, "anna", "claim", id, "")
			}
			h.pass(2 * time.Minute) // more than any backoff
			if h.router.state.Tasks.Get(id).State == task.Offered {
				h.does("anna", "reject", id, "")
			}
		}
		v := h.is(id, task.Failed)
		if want := "10 executions in a row reached nothing new; the last ended because: not for me"; v.Reason != want {
			t.Errorf("the task failed because %q", v.Reason)
		}
		h.wantTold("boss", protocol.CodeTaskFailed, 1, "10 executions", `{"to": "hive", "event": "resume", "task": "`)
		h.wantTold("human", protocol.CodeTaskFailed, 1, "10 executions")
	})
}

// TestProgressIsNotFruitless checks that a task that passes through many agents goes on as
// long as each reaches something new, and that what is not new does not count.
func TestProgressIsNotFruitless(t *testing.T) {
	scenario(t, "anna", func(h *crew) {
		id := h.create("human", `{"title": "long"}`)
		hands := func(n int, data func(i int) string) {
			for i := range n {
				h.begin("anna", id)
				if data != nil {
					h.does("anna", "progress", id, data(i))
				}
				h.does("anna", "release", id, "")
				h.pass(2 * time.Minute)
			}
		}
		hands(8, nil)
		hands(15, func(i int) string { return fmt.Sprintf(`{"checkpoint": {"n": %d}}`, i) })
		if h.router.state.Tasks.Get(id).Fruitless != 0 {
			t.Error("an execution with progress is counted as fruitless")
		}
		hands(9, func(int) string { return `{"checkpoint": {"n": 14}}` })
		h.is(id, h.view(id).State)
		if task.Ended(h.view(id).State) {
			t.Fatal("the task ended too early")
		}
		hands(1, nil)
		h.is(id, task.Failed)
		if got := h.happenedTo(id); !strings.HasSuffix(got, "release max_retries_exceeded") {
			t.Errorf("the task ended with %s", got)
		}
	})
}
