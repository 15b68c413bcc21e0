package router

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

// TestCancelBeforeStart checks that a task that nobody has started is cancelled at once.
func TestCancelBeforeStart(t *testing.T) {
	scenario(t, "anna berta", func(h *crew) {
		offered := h.create("berta", `{"title": "offered", "to": ["anna"]}`)
		h.refused(protocol.CodeNotAllowed, "anna", "cancel", offered, "")
		h.does("berta", "cancel", offered, `{"reason": "a mistake"}`)
		h.is(offered, task.Cancelled)
		h.wantTold("anna", protocol.CodeCancelled, 1, "which you were offered, was cancelled")
		h.refused(protocol.CodeIllegalTransition, "anna", "accept", offered, "")

		pending := h.create("berta", `{"title": "pending", "to": ["anna"]}`)
		h.does("anna", "accept", pending, "")
		h.does("human", "cancel", pending, "")
		h.is(pending, task.Cancelled)
		h.refused(protocol.CodeFenced, "anna", "start", pending, "")
	})
}

// TestCancelConfirmed checks that a holder is asked to stop, can clean up, and confirms.
func TestCancelConfirmed(t *testing.T) {
	scenario(t, "anna", func(h *crew) {
		id := h.create("human", `{"title": "dig"}`)
		h.begin("anna", id)
		h.does("human", "cancel", id, `{"reason": "wrong garden"}`)
		if v := h.is(id, task.InProgress); !v.CancelRequested {
			t.Error("task.json does not show that the task is to be cancelled")
		}
		h.wantTold("anna", protocol.CodeCancelRequested, 1, "wrong garden", "`cancelled` with epoch 1")
		h.pass(50 * time.Second)
		h.does("anna", "progress", id, `{"milestone": "the hole is filled"}`)
		h.does("anna", "cancelled", id, `{"reason": "all is as it was"}`)
		h.is(id, task.Cancelled)
		h.wantTold("human", protocol.CodeCancelled, 1, "all is as it was")
		h.refused(protocol.CodeIllegalTransition, "anna", "complete", id, "")
		h.wantHistory(id, "create offer claim start cancel progress cancelled")
	})
}

// TestCancelIgnored checks that hived cancels the task after the grace time, and that what
// the holder reports then is fenced.
func TestCancelIgnored(t *testing.T) {
	scenario(t, "anna", func(h *crew) {
		id := h.create("human", `{"title": "dig"}`)
		h.begin("anna", id)
		h.does("human", "cancel", id, "")
		h.passAlive(30*time.Second, "anna")
		h.does("human", "cancel", id, "") // asking again does not prolong the time
		h.passAlive(29*time.Second, "anna")
		h.is(id, task.InProgress)
		h.pass(time.Second)
		if v := h.is(id, task.Cancelled); !strings.Contains(v.Reason, "did not confirm in time") {
			t.Errorf("the task was cancelled because %q", v.Reason)
		}
		h.wantTold("anna", protocol.CodeCancelled, 1, "Epoch 1 is over")
		h.refused(protocol.CodeFenced, "anna", "complete", id, `{"result": 1}`)
		h.is(id, task.Cancelled)
	})
}

// TestCancelAgainstCompletion checks that a completion that is logged first wins.
func TestCancelAgainstCompletion(t *testing.T) {
	scenario(t, "anna", func(h *crew) {
		id := h.create("human", `{"title": "dig"}`)
		h.begin("anna", id)
		h.does("human", "cancel", id, "")
		h.does("anna", "complete", id, `{"result": "a hole"}`)
		h.pass(2 * time.Minute)
		h.is(id, task.Completed)
		h.refused(protocol.CodeIllegalTransition, "human", "cancel", id, "")
		h.refused(protocol.CodeIllegalTransition, "anna", "cancelled", id, "")
		h.wantHistory(id, "create offer claim start cancel complete")
	})
}

// TestCancelWhileWaiting checks that the grace time ends in every state in which a holder
// waits.
func TestCancelWhileWaiting(t *testing.T) {
	tests := map[task.State]string{
		task.Paused:   "pause_for_approval {\"question\": \"May I?\"}",
		task.Blocked:  "failure {\"category\": \"schema\"}",
		task.Retrying: "transient_error {\"not_before\": \"2000-01-01T02:00:00Z\"}",
	}
	for state, does := range tests {
		t.Run(string(state), func(t *testing.T) {
			scenario(t, "anna", func(h *crew) {
				id := h.create("human", `{"title": "dig"}`)
				h.begin("anna", id)
				event, data, _ := strings.Cut(does, " ")
				h.does("anna", event, id, data)
				h.does("human", "cancel", id, "")
				h.pass(59 * time.Second)
				if v := h.is(id, state); !v.CancelRequested {
					t.Error("task.json does not show that the task is to be cancelled")
				}
				h.pass(time.Second)
				h.is(id, task.Cancelled)
			})
		})
	}
}

// TestCancelAfterTheReminder checks that it also ends where approvers were reminded.
func TestCancelAfterTheReminder(t *testing.T) {
	scenario(t, "anna", func(h *crew) {
		id := asking(h, "")
		h.pass(16 * time.Minute)
		h.does("human", "cancel", id, "")
		h.pass(time.Minute)
		h.is(id, task.Cancelled)
	})
}

// TestCancelledIsNotOfferedAgain checks that a task that is to be cancelled goes to nobody
// else when its holder gives it up or is gone.
func TestCancelledIsNotOfferedAgain(t *testing.T) {
	scenario(t, "anna berta", func(h *crew) {
		h.create("human", `{"tasks": [{"title": "given back", "to": ["anna"]}, {"title": "left", "to": ["berta"]}]}`)
		given, left := h.created()[0], h.created()[1]
		h.begin("anna", given)
		h.begin("berta", left)
		h.pass(2*time.Minute + time.Second)
		h.does("human", "cancel", left, "")
		h.does("human", "cancel", given, "")
		h.does("anna", "release", given, `{"reason": "I stop"}`)
		h.is(given, task.Cancelled)
		h.pass(59 * time.Second)
		h.is(left, task.Stalled)
		h.pass(time.Second)
		h.is(left, task.Cancelled)
		h.pass(10 * time.Minute)
		h.wantHistory(given, "create offer claim start heartbeat_lost cancel recovered cancelled")
		h.wantHistory(left, "create offer claim start heartbeat_lost cancel cancelled")
		h.refused(protocol.CodeFenced, "berta", "complete", left, "")
	})
}

// TestCancelledUnasked checks that a holder can confirm a cancellation only if somebody
// asked for it, and that one that cannot go on is told how to say so.
func TestCancelledUnasked(t *testing.T) {
	tests := []struct {
		state task.State
		does  string // the command that brings the task there, and its data
		says  []string
	}{
		{task.InProgress, `progress {"milestone": "begun"}`, []string{`"event": "release"`, `"event": "failure"`, `"epoch": 1`}},
		{task.Retrying, `transient_error {"not_before": "2000-01-01T02:00:00Z"}`, []string{`"event": "release"`, `"event": "fatal_error"`}},
		{task.Blocked, `failure {"category": "schema"}`, []string{`"event": "fatal_error"`}},
		{task.Paused, `pause_for_approval {"question": "May I?"}`, []string{"wait for the answer"}},
	}
	for _, x := range tests {
		t.Run(string(x.state), func(t *testing.T) {
			scenario(t, "anna", func(h *crew) {
				id := h.create("human", `{"title": "dig"}`)
				h.begin("anna", id)
				event, data, _ := strings.Cut(x.does, " ")
				h.does("anna", event, id, data)
				h.is(id, x.state)

				no := h.refused(protocol.CodeIllegalTransition, "anna", "cancelled", id, `{"reason": "I do not want it"}`)
				for _, want := range append(x.says, "nobody asked to cancel it") {
					if !strings.Contains(no.Detail, want) {
						t.Errorf("the refusal does not say %s: %s", want, no.Detail)
					}
				}
				if strings.Contains(no.Detail, `"event": "release"`) != slices.Contains(x.says, `"event": "release"`) {
					t.Errorf("the refusal shows a command that would be refused too, or misses one that would not: %s", no.Detail)
				}
				h.does("human", "cancel", id, "")
				h.does("anna", "cancelled", id, "")
				h.is(id, task.Cancelled)
			})
		})
	}
}

// TestCancelledUnaskedByAPerson checks that a person who holds the task is shown commands.
func TestCancelledUnaskedByAPerson(t *testing.T) {
	scenario(t, "anna", func(h *crew) {
		id := h.create("anna", `{"title": "dig", "to": ["human"]}`)
		h.begin("human", id)
		no := h.refused(protocol.CodeIllegalTransition, "human", "cancelled", id, "")
		if !strings.Contains(no.Detail, "`hived task release "+string(id)) || strings.Contains(no.Detail, `"event"`) {
			t.Errorf("the refusal to a person says: %s", no.Detail)
		}
	})
}

// TestCancelledUnaskedWhileStalled checks the same for a holder that is stalled.
func TestCancelledUnaskedWhileStalled(t *testing.T) {
	scenario(t, "anna", func(h *crew) {
		id := h.create("human", `{"title": "dig"}`)
		h.begin("anna", id)
		h.pass(2*time.Minute + time.Second)
		h.is(id, task.Stalled)
		no := h.refused(protocol.CodeIllegalTransition, "anna", "cancelled", id, "")
		if !strings.Contains(no.Detail, `"event": "failure"`) {
			t.Errorf("the refusal says: %s", no.Detail)
		}
	})
}
