package router

import (
	"strings"
	"testing"
	"time"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

// twoClocks sets the longer time-outs of holders that do not beat.
func twoClocks(s *protocol.Settings) {
	s.Tasks.TurnHeartbeat, s.Tasks.TurnProgress = 10*time.Minute, 30*time.Minute
}

// writesAlive has an agent write text to its alive file now.
func (h *crew) writesAlive(who protocol.AgentID, text string) {
	h.Helper()
	h.must(durable.Publish(h.disk, protocol.AliveFile(who), []byte(text), 0o644, true))
}

// lives has an agent write its alive file every half minute.
func (h *crew) lives(d time.Duration, who protocol.AgentID, text string) {
	h.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); {
		h.writesAlive(who, text)
		h.pass(30 * time.Second)
	}
}

const everyHalfMinute = `{"every":"30s"}`

// TestTurns checks that a holder that does not beat has the time of a model's turn.
func TestTurns(t *testing.T) {
	scenarioWith(t, "anna", twoClocks, func(h *crew) {
		id := h.create("human", `{"title": "think", "to": ["anna"]}`)
		h.begin("anna", id)
		h.pass(10*time.Minute - time.Second)
		h.is(id, task.InProgress)
		h.pass(time.Second)
		h.is(id, task.Stalled)
		h.does("anna", "progress", id, `{"checkpoint": {"n": 1}}`)
		h.lives(30*time.Minute-30*time.Second, "anna", "")
		h.is(id, task.InProgress)
		h.pass(30 * time.Second)
		if v := h.is(id, task.Stalled); v.Reason != "anna is alive and reached nothing new for 30m0s" {
			t.Errorf("the task stalled because %q", v.Reason)
		}
	})
}

// TestBeats checks that a holder that named a period in its alive file since it took the
// task is missed soon, and that one is not that only touched its file, named too long a
// period, wrote other text, or beat only in an earlier epoch.
func TestBeats(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		tell  func(h *crew, id protocol.TaskID)
		stays time.Duration // since its last sign of life
	}{
		{"beats", func(h *crew, _ protocol.TaskID) { h.lives(2*time.Minute, "anna", everyHalfMinute) }, 2 * time.Minute},
		{"beats, then touches", func(h *crew, _ protocol.TaskID) {
			h.lives(2*time.Minute, "anna", everyHalfMinute)
			h.lives(time.Minute, "anna", "")
		}, 2 * time.Minute},
		{"touches", func(h *crew, _ protocol.TaskID) { h.lives(2*time.Minute, "anna", "") }, 10 * time.Minute},
		{"says something else", func(h *crew, _ protocol.TaskID) { h.lives(2*time.Minute, "anna", `{"every": 30}`) }, 10 * time.Minute},
		{"beats too slowly", func(h *crew, _ protocol.TaskID) { h.lives(2*time.Minute, "anna", `{"every":"61s"}`) }, 10 * time.Minute},
		{"did not beat again", func(h *crew, _ protocol.TaskID) { h.pass(2 * time.Minute) }, 10 * time.Minute},
		{"beat in an epoch before", func(h *crew, id protocol.TaskID) {
			h.lives(2*time.Minute, "anna", everyHalfMinute)
			h.does("anna", "release", id, "")
			h.begin("anna", id)
			h.lives(2*time.Minute, "anna", "")
		}, 10 * time.Minute},
	}
	for _, x := range tests {
		t.Run(x.name, func(t *testing.T) {
			scenarioWith(t, "anna", twoClocks, func(h *crew) {
				id := h.create("human", `{"title": "think", "to": ["anna"]}`)
				h.begin("anna", id)
				x.tell(h, id)
				h.does("anna", "progress", id, `{"checkpoint": {"n": 1}}`)
				h.pass(x.stays - time.Second)
				h.is(id, task.InProgress)
				h.pass(time.Second)
				h.is(id, task.Stalled)
			})
		})
	}
}

// TestBeatsReachNothing checks that a program that beats and reaches nothing new is stalled
// sooner than a model.
func TestBeatsReachNothing(t *testing.T) {
	scenarioWith(t, "anna", twoClocks, func(h *crew) {
		id := h.create("human", `{"title": "think", "to": ["anna"]}`)
		h.begin("anna", id)
		h.lives(5*time.Minute-30*time.Second, "anna", everyHalfMinute)
		h.is(id, task.InProgress)
		h.lives(2*time.Minute, "anna", everyHalfMinute)
		if got := h.happenedTo(id); !strings.HasPrefix(got, "create offer claim start progress_stalled release") {
			t.Errorf("what happened to the task: %s", got) // a beat is no progress
		}
	})
}

// TestTakenAway checks that the creator and a person are told when a task was taken from
// its holder.
func TestTakenAway(t *testing.T) {
	scenario(t, "anna boss", func(h *crew) {
		stalls := h.create("boss", `{"title": "dig", "to": ["anna"]}`)
		h.begin("anna", stalls)
		h.pass(3 * time.Minute)
		h.wantTold("boss", protocol.CodeTakenAway, 1, string(stalls), "anna was not heard of for 2m0s", "nothing is asked of you")
		h.wantTold("human", protocol.CodeTakenAway, 1)
		h.wantTold("anna", protocol.CodeTakenAway, 0)
		waits := h.create("anna", `{"title": "dig deeper", "to": ["anna"]}`)
		h.does("anna", "claim", waits, "")
		h.pass(time.Minute)
		h.wantTold("anna", protocol.CodeTakenAway, 0)
		h.wantTold("human", protocol.CodeTakenAway, 2)
		h.wantTold("boss", protocol.CodeTakenAway, 1)
	})
}
