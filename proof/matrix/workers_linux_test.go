package matrix

import (
	"errors"
	"os/exec"
	"strings"

	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

// works has a worker of bob's do one task with an adapter of the row, and checks how it
// exits and what it says.
func (h *hive) works(status int, says, adapter string) {
	h.t.Helper()
	name := "row-" + h.row
	h.mkdir("adapters")
	h.write("adapters/"+name+".yaml", "name: "+name+"\n"+adapter)
	p := h.program("", "--hive", h.dir, "--agent", h.bob, "work", "--adapter", name, "--once")
	err := p.Run()
	got := 0
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		got = exit.ExitCode()
	}
	if said := p.said.String(); got != status || !strings.Contains(said, says) {
		h.t.Errorf("the worker exited with %d and printed %q, want %d and %q", got, said, status, says)
	}
}

// script is an adapter that runs the body of a task in the agent's directory.
const script = "run: [sh, -c, \"{body}\"]\nprompt: argument\nenvironment: [PATH]\n"

// unread is a row of an adapter that is wrong: nothing is claimed.
func unread(name, given, adapter, says string) row {
	return row{
		name: name, given: given, answer: "refused in one line that names the file, its line and the key (exit status 2); no task is taken",
		run: func(h *hive) {
			id := h.creates("work", "", h.bob)
			h.step(task.Offer, of(id))
			h.others()
			h.works(2, says, adapter)
			if list := all(h, func(e *protocol.TaskEvent) bool { return e.Task == id && e.Event == task.Claim }); len(list) > 0 {
				h.t.Errorf("it was claimed: %v", list)
			}
		},
	}
}

// enveloped is a row of a bad envelope: it is noted, and counts as none.
func enveloped(name, given, body string) row {
	return row{
		name: name, given: given, answer: "noted in the worker's log, and counts as none: the exit status says how the execution ended",
		run: func(h *hive) {
			id := h.creates("work", `,"body":"`+body+`"`, h.bob)
			h.step(task.Offer, of(id))
			h.others()
			h.works(0, "the envelope counts as none", script)
			if e := h.step(task.Complete, of(id)); e.Outcome == nil || e.Outcome.Kind != protocol.OutcomeCompleted {
				h.t.Errorf("it ended with %+v", e.Outcome)
			}
		},
	}
}

// reports is a row of an outcome that is refused.
func reports(name, given, data, remedy string) row {
	return refusedCommand(name, given, protocol.CodeBadCommand, remedy, func(h *hive) said {
		return said{h.bob, "outcome", about(h.begun(), 1, data)}
	})
}

var workers = []row{
	{
		name: "alert-told-before", given: "two agents raise an alert of the same cause", answer: "people are told once; the second is refused (`already-told`), with when they can be told again",
		run: func(h *hive) {
			raise := func(from string) {
				h.taskCommand(from, "alert-"+from, "alert", `,"data":{"cause":"`+h.row+`","text":"no room"}`)
			}
			raise(h.alice)
			h.others()
			raise(h.bob)
			h.told(h.bob, protocol.CodeAlreadyTold)
			if list := all(h, func(e *protocol.AlertEvent) bool { return e.Cause == h.row }); len(list) != 1 {
				h.t.Errorf("the alerts are %v", list)
			}
		},
	},
	unread("adapter-with-an-unknown-key", "an adapter has `enviroment`", script+"enviroment: [HOME]\n", "did you mean environment"),
	unread("adapter-with-an-unknown-variable", "an adapter uses `{modell}`, which nothing sets", "run: [sh, -c, \"{body}\", \"{modell}\"]\nprompt: argument\n", "{modell}"),
	unread("adapter-with-an-unknown-outcome", "an exit map names an outcome that there is not", script+"exit: {7: sad}\n", "sad"),
	{
		name: "adapter-without-its-program", given: "the program of an adapter is not installed", answer: "`unusable`: the task is given back and charged nothing; the worker says which program is missing",
		run: func(h *hive) {
			id := h.creates("work", "", h.bob)
			h.step(task.Offer, of(id))
			h.others()
			h.works(1, "no-such-program", "run: [no-such-program, \"{prompt}\"]\nprompt: argument\n")
			e := h.step(task.Release, of(id))
			if e.Outcome == nil || e.Outcome.Kind != protocol.OutcomeUnusable || e.Charge != protocol.ChargeFree {
				h.t.Errorf("it ended with %+v, charged %s", e.Outcome, e.Charge)
			}
		},
	},
	{
		name: "second-worker", given: "a second worker is started for an agent that has one", answer: "refused with exit status 75; the first goes on",
		run: func(h *hive) {
			id := h.creates("work", `,"body":"touch begun; while ! test -e go-on; do sleep 0.01; done"`, h.bob)
			h.step(task.Offer, of(id))
			first := h.program("", "--hive", h.dir, "--agent", h.bob, "work", "--adapter", "shell", "--once")
			h.must(first.Start())
			h.eventually("the first worker's program", func() bool { return h.exists(protocol.AgentDir(protocol.AgentID(h.bob)) + "/begun") })
			h.others()
			h.exits(protocol.ExitLocked, "has a worker already", "--hive", h.dir, "--agent", h.bob, "work", "--adapter", "shell", "--once")
			h.write(protocol.AgentDir(protocol.AgentID(h.bob))+"/go-on", "")
			h.must(first.Wait())
			h.step(task.Complete, of(id))
		},
	},
	enveloped("envelope-half-written", "an agent leaves half of an envelope", `printf '{\"outcome\": \"fai' >\"$HIVE_OUTCOME\"`),
	enveloped("envelope-of-2-mb", "an agent leaves an envelope of 2 MB", `head -c 2000000 /dev/zero >\"$HIVE_OUTCOME\"`),
	enveloped("envelope-is-a-link", "an agent leaves a link to a file in the place of its envelope", `ln -s /etc/passwd \"$HIVE_OUTCOME\"`),
	enveloped("envelope-is-a-fifo", "an agent leaves a FIFO in the place of its envelope", `mkfifo \"$HIVE_OUTCOME\"`),
	enveloped("envelope-above-its-station", "an agent says in its envelope that it was cancelled", `echo '{\"outcome\": \"cancelled\"}' >\"$HIVE_OUTCOME\"`),
	reports("outcome-without-a-kind", "an outcome does not say how the execution ended", `{"exit":1}`, `"kind": "failed"`),
	reports("outcome-with-a-large-exit", "an outcome has the exit status 300", `{"kind":"failed","exit":300}`, "0 to 255"),
	{
		name: "outcome-twice", given: "a worker reports an execution again, whose task is completed", answer: "an `effort`: what it cost is kept, and nothing else changes",
		run: func(h *hive) {
			id := h.begun()
			h.taskCommand(h.bob, "first", "outcome", about(id, 1, `{"kind":"completed"}`))
			h.step(task.Complete, of(id))
			h.others()
			h.taskCommand(h.bob, "second", "outcome", about(id, 1, `{"kind":"failed","cost_micros":5}`))
			e := h.step(task.Effort, of(id))
			if e.To != task.Completed || e.Outcome == nil || e.Outcome.CostMicros != 5 {
				h.t.Errorf("it led to %s with %+v", e.To, e.Outcome)
			}
		},
	},
	refusedCommand("outcome-of-no-kind", "an outcome of a kind that there is not", protocol.CodeBadCommand, "did you mean timed-out?", func(h *hive) said {
		return said{h.bob, "outcome", about(h.begun(), 1, `{"kind":"timedout"}`)}
	}),
	refusedCommand("outcome-without-a-task-in-hand", "a worker reports that its queue is empty", protocol.CodeBadCommand, "who has no task in hand", func(h *hive) said {
		return said{h.bob, "outcome", about(h.begun(), 1, `{"kind":"queue-empty"}`)}
	}),
	refusedCommand("outcome-with-a-long-tail", "an outcome with 20,001 characters of output", protocol.CodeBadCommand, "send the last 20000", func(h *hive) said {
		return said{h.bob, "outcome", about(h.begun(), 1, `{"kind":"failed","tail":"`+strings.Repeat("x", 20_001)+`"}`)}
	}),
	refusedCommand("outcome-too-late", "an outcome of an execution whose epoch is over", protocol.CodeFenced, "stop working on it", func(h *hive) said {
		id := h.begun()
		h.taskCommand(h.bob, "release", "release", about(id, 1, `{}`))
		return said{h.bob, "outcome", about(id, 1, `{"kind":"crashed","tokens_in":7}`)}
	}),
	refusedCommand("outcome-of-another", "an agent reports the outcome of another's task", protocol.CodeNotHolder, "has this task", func(h *hive) said {
		return said{h.alice, "outcome", about(h.begun(), 1, `{"kind":"crashed"}`)}
	}),
}
