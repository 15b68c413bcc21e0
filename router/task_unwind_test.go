package router

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

// didStep has the holder of a task do a step that can be undone.
func (h *crew) didStep(who protocol.AgentID, id protocol.TaskID, n int, name string) {
	h.Helper()
	begun := h.begins(who, id, fmt.Sprintf(`{"name": %q, "argv": ["do", %q], "undo": "undo %s"}`, name, name, name))
	h.does(who, "step_ended", id, fmt.Sprintf(`{"step": {"n": %d, "command": %q, "exit": 0}}`, n, begun))
}

// undoes has the holder of a task that unwinds another undo a step.
func (h *crew) undoes(who protocol.AgentID, id protocol.TaskID, n int, name string, exit int) {
	h.Helper()
	begun := protocol.MessageID(h.posts(who, "step_started", id, fmt.Sprintf(`{"step": {"name": %q}, "unwind": true}`, name)))
	h.collect()
	h.does(who, "step_ended", id, fmt.Sprintf(`{"step": {"n": %d, "command": %q, "exit": %d}}`, n, begun, exit))
}

// unwinds returns the task that unwinds another.
func (h *crew) unwinds(id protocol.TaskID) protocol.TaskID {
	h.Helper()
	u := h.view(id).UnwoundBy
	if u == "" {
		h.Fatalf("nothing unwinds %s: %s", id, h.file(id, protocol.TaskView))
	}
	return u
}

// unwound returns a task of somebody that has failed and is being unwound.
func (h *crew) unwound(creator protocol.AgentID) protocol.TaskID {
	h.Helper()
	h.post("human", `{"to": "hive", "event": "agent-slots", "data": {"agent": "carl", "slots": 9}}`)
	id := h.create(creator, `{"title": "undo it", "to": ["carl"]}`)
	h.begin("carl", id)
	h.didStep("carl", id, 1, "one")
	h.does("carl", "fatal_error", id, `{"reason": "no power"}`)
	h.unwinds(id)
	return id
}

// TestUnwinding checks what follows from the end of a task with steps that can be undone,
// however it ends: a task of its chain, for the same agents, that undoes them in reverse,
// before which the task cannot be resumed.
func TestUnwinding(t *testing.T) {
	for how, end := range map[string]func(h *crew, id protocol.TaskID){
		"by its holder": func(h *crew, id protocol.TaskID) { h.does("anna", "fatal_error", id, `{"reason": "no power"}`) },
		"denied": func(h *crew, id protocol.TaskID) {
			h.does("anna", "pause_for_approval", id, `{"question": "on?"}`)
			h.does("human", "approval_denied", id, fmt.Sprintf(`{"ask": %s}`, h.view(id).Question.Ask))
		},
		"by a time-out": func(h *crew, id protocol.TaskID) {
			h.does("anna", "pause_for_approval", id, `{"question": "on?"}`)
			h.pass(time.Hour)
		},
		"cancelled": func(h *crew, id protocol.TaskID) {
			h.does("human", "cancel", id, "")
			h.does("anna", "cancelled", id, "")
		},
		"without an end": func(h *crew, id protocol.TaskID) { h.does("human", "cancel", id, ""); h.pass(time.Hour) },
		"without a holder": func(h *crew, id protocol.TaskID) {
			h.does("anna", "release", id, "")
			h.does("human", "cancel", id, "")
		},
		"by its budget": func(h *crew, id protocol.TaskID) {
			for range 4 {
				h.does("anna", "transient_error", id, `{"reason": "busy"}`)
				h.pass(2 * time.Minute)
			}
		},
	} {
		t.Run(how, func(t *testing.T) {
			scenario(t, "anna", func(h *crew) {
				id := h.create("human", `{"title": "deploy", "to": ["anna"], "priority": 4, "approvers": ["human"]}`)
				h.begin("anna", id)
				h.didStep("anna", id, 1, "one")
				h.didStep("anna", id, 2, "two")
				end(h, id)
				if s := h.view(id).State; s != task.Failed && s != task.Cancelled {
					t.Fatalf("the task is %s", s)
				}
				u := h.unwinds(id)
				v := h.view(u)
				if v.Unwinds != id || v.Origin != id || v.Priority != 5 || len(v.To) != 1 || v.To[0] != "anna" || v.Title != "Undo: deploy" || v.Epoch > 1 {
					t.Errorf("what unwinds it is %s", h.file(u, protocol.TaskView))
				}
				if !strings.Contains(h.file(u, protocol.TaskBrief), "hived step --unwind") {
					t.Errorf("its brief does not say how: %s", h.file(u, protocol.TaskBrief))
				}
				h.refused(protocol.CodeUnwinding, "human", "resume", id, "")
				h.begin("anna", u)
				h.refused(protocol.CodeBadCommand, "anna", "step_started", u, `{"step": {"name": "three"}}`)
				h.refused(protocol.CodeStepsLeft, "anna", "step_started", u, `{"step": {"name": "one"}, "unwind": true}`)
				h.refused(protocol.CodeStepsLeft, "anna", "complete", u, "")
				h.undoes("anna", u, 2, "two", 0)
				h.refused(protocol.CodeStepsLeft, "anna", "complete", u, "")
				h.undoes("anna", u, 1, "one", 0)
				if r, _ := h.step(id, 1, "one"); r.Status != protocol.StepUndone || r.Key != string(id)+":one:undo" || r.Task != u {
					t.Errorf("the first step is %+v", r)
				}
				h.does("anna", "complete", u, "")
				h.does("human", "resume", id, "")
				list := h.created()
				again := list[len(list)-1]
				h.begin("anna", again)
				h.didStep("anna", again, 1, "one")
				if r, _ := h.step(id, 1, "one"); r.Round != 2 || r.Key != string(id)+":one:2" {
					t.Errorf("done again it is %+v", r)
				}
			})
		})
	}
}

// TestNothingToUnwind checks that a task whose steps have no undo, or that was completed,
// ends as ever, and that one which was completed is unwound on demand, by whoever may.
func TestNothingToUnwind(t *testing.T) {
	scenario(t, "anna berta", func(h *crew) {
		plain := h.create("human", `{"title": "plain", "to": ["anna"]}`)
		h.begin("anna", plain)
		begun := h.begins("anna", plain, `{"name": "one"}`)
		h.does("anna", "step_ended", plain, fmt.Sprintf(`{"step": {"n": 1, "command": %q, "exit": 0}}`, begun))
		h.does("anna", "fatal_error", plain, `{"reason": "no power"}`)
		if u := h.view(plain).UnwoundBy; u != "" {
			t.Errorf("%s unwinds a task without an undo", u)
		}
		h.refused(protocol.CodeBadCommand, "human", "unwind", plain, "")
		h.does("human", "resume", plain, "")

		id := h.create("berta", `{"title": "deploy", "to": ["anna"]}`)
		h.refused(protocol.CodeIllegalTransition, "berta", "unwind", id, "")
		h.begin("anna", id)
		h.refused(protocol.CodeBadCommand, "anna", "step_started", id, `{"step": {"name": "one"}, "unwind": true}`)
		h.didStep("anna", id, 1, "one")
		h.does("anna", "complete", id, "")
		if u := h.view(id).UnwoundBy; u != "" {
			t.Errorf("%s unwinds a completed task", u)
		}
		h.refused(protocol.CodeNotAllowed, "anna", "unwind", id, "")
		h.does("berta", "unwind", id, `{"reason": "the customer went away"}`)
		u := h.unwinds(id)
		if v := h.view(u); v.Creator != "berta" || v.State == task.Completed {
			t.Errorf("what unwinds it is %s", h.file(u, protocol.TaskView))
		}
		h.refused(protocol.CodeUnwinding, "berta", "unwind", id, "")
		h.refused(protocol.CodeIllegalTransition, "berta", "unwind", u, "") // it has not ended
	})
}

// TestUnwindingIsCancelled checks that the creator of a task, who would rather go on than
// undo, cancels the unwinding while nobody has started it, and not after that.
func TestUnwindingIsCancelled(t *testing.T) {
	scenario(t, "berta carl", func(h *crew) {
		id := h.unwound("berta")
		h.does("berta", "cancel", h.unwinds(id), "")
		h.does("berta", "resume", id, "")
		list := h.created()
		again := list[len(list)-1]
		h.begin("carl", again)
		h.refused(protocol.CodeStepDone, "carl", "step_started", again, `{"step": {"name": "one"}}`)
		h.does("carl", "fatal_error", again, "")
		u := h.unwinds(again)
		h.begin("carl", u)
		h.does("berta", "cancel", u, "")
		h.does("carl", "cancelled", u, "")
		h.refused(protocol.CodeUnwinding, "berta", "resume", again, "")
		h.does("berta", "resume", u, "")
	})
}

// TestUnwindingFails checks that a task that unwinds another and fails is not unwound
// itself, that people are told, and that it is resumed and completed before that other.
func TestUnwindingFails(t *testing.T) {
	scenario(t, "berta carl", func(h *crew) {
		id := h.unwound("berta")
		u := h.unwinds(id)
		h.begin("carl", u)
		h.undoes("carl", u, 1, "one", 1)
		if r, _ := h.step(id, 1, "one"); r.Status != protocol.StepDone || *r.Exit != 1 {
			t.Errorf("after an undo that failed it is %+v", r)
		}
		h.does("carl", "fatal_error", u, `{"reason": "the door is locked"}`)
		if by := h.view(u).UnwoundBy; by != "" {
			t.Errorf("%s unwinds what unwinds", by)
		}
		h.wantTold("human", protocol.CodeUnwindFailed, 1, "step 1, one", "hived task resume "+string(u))
		h.refused(protocol.CodeUnwinding, "berta", "resume", id, "")
		h.does("berta", "resume", u, "")
		list := h.created()
		next := list[len(list)-1]
		if v := h.view(next); v.Unwinds != id || v.Resumes != u {
			t.Errorf("what resumes it is %s", h.file(next, protocol.TaskView))
		}
		h.begin("carl", next)
		h.undoes("carl", next, 1, "one", 0)
		h.does("carl", "complete", next, "")
		h.refused(protocol.CodeIllegalTransition, "berta", "resume", u, "")
		h.does("berta", "resume", id, "")
	})
}

// TestUndoIsLeft checks that what a person leaves as it is counts as done, and that the
// task can be resumed then although what was to unwind it failed.
func TestUndoIsLeft(t *testing.T) {
	scenario(t, "berta carl", func(h *crew) {
		id := h.unwound("berta")
		u := h.unwinds(id)
		h.begin("carl", u)
		h.does("carl", "pause_for_approval", u, `{"step": {"n": 1}}`)
		q := h.view(u).Question
		if got := strings.Join(q.Choices, " "); got != "again undone left" {
			t.Errorf("the question offers %s", got)
		}
		h.does("human", "approval_granted", u, fmt.Sprintf(`{"ask": %s, "choice": "left"}`, q.Ask))
		h.does("carl", "fatal_error", u, `{"reason": "enough"}`)
		h.wantTold("human", protocol.CodeUnwindFailed, 0)
		h.does("berta", "resume", id, "")
		list := h.created()
		again := list[len(list)-1]
		h.begin("carl", again)
		h.refused(protocol.CodeStepDone, "carl", "step_started", again, `{"step": {"name": "one"}}`)
	})
}
