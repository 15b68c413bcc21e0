package matrix

import (
	"fmt"
	"strings"

	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

// begunStep returns a task of bob's with a step that he began: its intent is the message
// with that id.
func (h *hive) begunStep(intent string) protocol.TaskID {
	h.t.Helper()
	id := h.begun()
	h.taskCommand(h.bob, intent, "step_started", about(id, 1, `{"step":{"name":"pay"}}`))
	h.eventually("the record of the step", func() bool { return h.exists(protocol.StepFile(id, 1, "pay")) })
	return id
}

// unwound returns a task with two steps of bob's that has failed, and the task that
// undoes them, which bob has.
func (h *hive) unwound() (id, by protocol.TaskID) {
	h.t.Helper()
	id = h.begun()
	for n, name := range []string{"pay", "ship"} {
		h.taskCommand(h.bob, name, "step_started", about(id, 1, `{"step":{"name":"`+name+`","undo":"true"}}`))
		h.taskCommand(h.bob, name+"-ends", "step_ended", about(id, 1, fmt.Sprintf(`{"step":{"n":%d,"command":%q,"exit":0}}`, n+1, name)))
	}
	h.taskCommand(h.bob, "fails", "fatal_error", about(id, 1, `{"reason":"no power"}`))
	by = h.step(task.Unwind, of(id)).UnwoundBy
	h.step(task.Offer, of(by))
	h.taskCommand(h.bob, "accept-undo", "accept", about(by, 0, `{"start":true}`))
	h.step(task.Start, of(by))
	return id, by
}

// begins is a row of a bad intent of a step.
func begins(name, given, step, remedy string) row {
	return refusedCommand(name, given, protocol.CodeBadCommand, remedy, func(h *hive) said {
		return said{h.bob, "step_started", about(h.begun(), 1, `{"step":`+step+`}`)}
	})
}

// ends is a row of a bad end of a step; its text has %s for the intent.
func ends(name, given, data string, code protocol.Code, remedy string) row {
	return refusedCommand(name, given, code, remedy, func(h *hive) said {
		id := h.begunStep("i")
		return said{h.bob, "step_ended", about(id, 1, fmt.Sprintf(data, "i"))}
	})
}

var stepCommands = []row{
	begins("step-without-a-name", "the intent of a step that has no name", `{"name":""}`, "a step needs a name"),
	begins("step-named-like-a-path", "a step named `../x`", `{"name":"../x"}`, "letters, digits, dots"),
	begins("step-with-a-long-name", "a step with a name of 65 characters", `{"name":"`+strings.Repeat("a", 65)+`"}`, "may have 64"),
	begins("step-with-a-long-undo", "a step with an undo of 5 KiB", `{"name":"pay","undo":"`+strings.Repeat("x", 5<<10)+`"}`, "put it into a script"),
	begins("step-judged-otherwise", "an intent that says `again` with a word of its own", `{"name":"pay"},"again":"sure"`, "verified or idempotent"),
	refusedCommand("step-of-an-old-epoch", "an intent of a holder that has lost the task", protocol.CodeFenced, "stop working on it", func(h *hive) said {
		id := h.begun()
		h.taskCommand(h.bob, "release", "release", about(id, 1, `{}`))
		return said{h.bob, "step_started", about(id, 1, `{"step":{"name":"pay"}}`)}
	}),
	refusedCommand("step-begun-twice", "an intent beside one whose end nobody has reported", protocol.CodeStepRunning, "judge it first", func(h *hive) said {
		return said{h.bob, "step_started", about(h.begunStep("i"), 1, `{"step":{"name":"pay"}}`)}
	}),
	refusedCommand("step-done-before", "an intent of a step that is done", protocol.CodeStepDone, "data.record", func(h *hive) said {
		id := h.begunStep("i")
		h.taskCommand(h.bob, "end", "step_ended", about(id, 1, `{"step":{"n":1,"command":"i","exit":0}}`))
		return said{h.bob, "step_started", about(id, 1, `{"step":{"name":"pay"}}`)}
	}),
	refusedCommand("step-of-a-cancelled-task", "an intent in a task that is to be cancelled", protocol.CodeCancelRequested, "no more steps begin", func(h *hive) said {
		id := h.begun()
		h.taskCommand(h.alice, "cancel", "cancel", about(id, 0, `{}`))
		return said{h.bob, "step_started", about(id, 1, `{"step":{"name":"pay"}}`)}
	}),
	ends("step-end-of-no-step", "the end of a step that there is not", `{"step":{"n":2,"command":%q,"exit":0}}`, protocol.CodeBadCommand, "there is no step 2"),
	ends("step-end-without-its-intent", "an end that does not say which intent it ends", `{"step":{"n":1,"exit":0},"reason":%q}`, protocol.CodeBadCommand, "which intent"),
	ends("step-end-that-says-nothing", "an end without exit status, signal or judgement", `{"step":{"n":1,"command":%q}}`, protocol.CodeBadCommand, "how the command ended"),
	ends("step-end-with-a-false-sum", "an output whose sum is not that of its bytes", `{"step":{"n":1,"command":%q,"exit":0,"output":{"bytes":2,"sha256":"00","text":"ok"}}}`, protocol.CodeBadCommand, "its output cannot be taken"),
	refusedCommand("step-end-of-another-intent", "the end of an intent that was judged meanwhile", protocol.CodeFenced, "counts no more", func(h *hive) said {
		id := h.begun()
		h.taskCommand(h.bob, "i", "step_started", about(id, 1, `{"step":{"name":"pay","idempotent":true}}`))
		h.taskCommand(h.bob, "j", "step_started", about(id, 1, `{"step":{"name":"pay","idempotent":true},"again":"idempotent"}`))
		return said{h.bob, "step_ended", about(id, 1, `{"step":{"n":1,"command":"i","exit":0}}`)}
	}),
	refusedCommand("step-left-open", "a task is reported as completed while a step is under way", protocol.CodeStepsLeft, "end it first", func(h *hive) said {
		return said{h.bob, "complete", about(h.begunStep("i"), 1, `{}`)}
	}),
	refusedCommand("undo-in-a-task-that-undoes-nothing", "an undo in a task that was not made to undo anything", protocol.CodeBadCommand, "this task undoes nothing", func(h *hive) said {
		return said{h.bob, "step_started", about(h.begunStep("i"), 1, `{"step":{"name":"pay"},"unwind":true}`)}
	}),
	refusedCommand("step-in-a-task-that-undoes", "a new step in a task that undoes what another did", protocol.CodeBadCommand, "does no steps", func(h *hive) said {
		_, u := h.unwound()
		return said{h.bob, "step_started", about(u, 1, `{"step":{"name":"more"}}`)}
	}),
	refusedCommand("undo-before-later-steps", "the undo of a step before that of one which came after it", protocol.CodeStepsLeft, "undo that first", func(h *hive) said {
		_, u := h.unwound()
		return said{h.bob, "step_started", about(u, 1, `{"step":{"name":"pay"},"unwind":true}`)}
	}),
	refusedCommand("undo-left-open", "a task that undoes is reported as completed while steps are not undone", protocol.CodeStepsLeft, "is not undone", func(h *hive) said {
		_, u := h.unwound()
		return said{h.bob, "complete", about(u, 1, `{}`)}
	}),
	refusedCommand("resume-before-undone", "a task is resumed before what it did is undone", protocol.CodeUnwinding, "undoes what it did", func(h *hive) said {
		id, _ := h.unwound()
		return said{h.alice, "resume", about(id, 0, `{}`)}
	}),
	refusedCommand("unwind-of-an-open-task", "what a task did that has not ended is to be undone", protocol.CodeIllegalTransition, "knows no unwind", func(h *hive) said {
		return said{h.alice, "unwind", about(h.begun(), 0, `{}`)}
	}),
	refusedCommand("unwind-by-another", "an agent has undone what the task of another creator did", protocol.CodeNotAllowed, "who created it", func(h *hive) said {
		id := h.begun()
		h.taskCommand(h.bob, "complete", "complete", about(id, 1, `{}`))
		return said{h.bob, "unwind", about(id, 0, `{}`)}
	}),
	refusedCommand("step-question-about-none", "a question about a step that there is not", protocol.CodeBadCommand, "there is no step 7", func(h *hive) said {
		return said{h.bob, "pause_for_approval", about(h.begunStep("i"), 1, `{"step":{"n":7}}`)}
	}),
	refusedCommand("step-question-with-other-answers", "a question about a step that offers what cannot be", protocol.CodeBadCommand, "it can offer happened, again, wait", func(h *hive) said {
		return said{h.bob, "pause_for_approval", about(h.begunStep("i"), 1, `{"step":{"n":1},"choices":["perhaps"]}`)}
	}),
}
