package matrix

import (
	"context"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/hived/hived/audit"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

// taskCommand sends a command to hived and waits until it is in the log.
func (h *hive) taskCommand(from, id, event, rest string) {
	h.t.Helper()
	h.send(from, id+".json", `{"id":"`+id+`","to":"hive","event":"`+event+`"`+rest+`}`)
	h.message(from, id)
}

// about returns the rest of a command about a task.
func about(id protocol.TaskID, epoch int, data string) string {
	if epoch == 0 {
		return `,"task":"` + string(id) + `","data":` + data
	}
	return fmt.Sprintf(`,"task":"%s","epoch":%d,"data":%s`, id, epoch, data)
}

// creates has alice create a task for certain agents.
func (h *hive) creates(title, more string, to ...string) protocol.TaskID {
	h.t.Helper()
	title = h.row + " " + title
	h.taskCommand(h.alice, "create-"+strings.ReplaceAll(title, " ", "-"), "create", `,"data":{"title":"`+title+`","to":["`+strings.Join(to, `","`)+`"]`+more+`}`)
	return h.step(task.Create, func(e *protocol.TaskEvent) bool { return e.Spec.Title == title }).Task
}

func (h *hive) step(event task.Event, fits func(*protocol.TaskEvent) bool) *protocol.TaskEvent {
	h.t.Helper()
	return await(h, string(event), func(e *protocol.TaskEvent) bool { return e.Event == event && fits(e) })
}

func of(id protocol.TaskID) func(*protocol.TaskEvent) bool {
	return func(e *protocol.TaskEvent) bool { return e.Task == id }
}

// asked returns the number of the first question of a task.
func (h *hive) asked(id protocol.TaskID) (ask protocol.Seq) {
	h.t.Helper()
	first := h.step(task.PauseForApproval, of(id))
	for _, ev := range h.after(0) {
		if ev.Body == first {
			ask = ev.Seq
		}
	}
	return ask
}

// begun returns a task that bob has started.
func (h *hive) begun() protocol.TaskID {
	h.t.Helper()
	id := h.creates("work", "", h.bob)
	h.step(task.Offer, of(id))
	h.taskCommand(h.bob, "accept", "accept", about(id, 0, `{}`))
	h.taskCommand(h.bob, "start", "start", about(id, 1, `{}`))
	h.step(task.Start, of(id))
	return id
}

// said is a command that somebody sends.
type said struct{ from, event, rest string }

// refusedCommand returns a row of a command about a task that is refused and
// changes nothing.
func refusedCommand(name, given string, code protocol.Code, remedy string, say func(h *hive) said) row {
	return row{
		name: name, given: given, answer: "`" + string(code) + "`: logged with its full text, nothing changes, and its sender is told what to do",
		run: func(h *hive) {
			c := say(h)
			h.others()
			h.taskCommand(c.from, "x", c.event, c.rest)
			e := await(h, "refusal", func(e *protocol.TaskRejectedEvent) bool { return string(e.By) == c.from })
			h.told(c.from, code)
			if e.Code != code || !strings.Contains(e.Detail, remedy) {
				h.t.Errorf("refused as %s: %s", e.Code, e.Detail)
			}
			if list := all(h, func(t *protocol.TaskEvent) bool { return t.Of == e.Of }); len(list) > 0 {
				h.t.Errorf("the message caused %v", list)
			}
		},
	}
}

const noTask protocol.TaskID = "01ARZ3NDEKTSV4RRFFQ69G5FAV"

var taskCommands = []row{
	refusedCommand("task-unknown", "a report about a task that does not exist", protocol.CodeUnknownTask, "tasks/", func(h *hive) said {
		return said{h.alice, "start", about(noTask, 1, `{}`)}
	}),
	refusedCommand("task-unknown-event", "an event that tasks do not have", protocol.CodeUnknownCommand, "did you mean", func(h *hive) said {
		return said{h.bob, "progres", about(h.begun(), 1, `{}`)}
	}),
	refusedCommand("task-of-another", "an agent reports on the task of another", protocol.CodeNotHolder, "has this task", func(h *hive) said {
		return said{h.alice, "complete", about(h.begun(), 1, `{}`)}
	}),
	refusedCommand("task-epoch-missing", "a holder's report carries no epoch", protocol.CodeMissingEpoch, `"epoch": 1`, func(h *hive) said {
		return said{h.bob, "complete", about(h.begun(), 0, `{}`)}
	}),
	refusedCommand("task-epoch-over", "a result comes with the previous epoch, after the task was given back", protocol.CodeFenced, "stop working on it", func(h *hive) said {
		id := h.begun()
		h.taskCommand(h.bob, "release", "release", about(id, 1, `{}`))
		return said{h.bob, "complete", about(id, 1, `{"result":"late"}`)}
	}),
	refusedCommand("task-epoch-ahead", "a report carries an epoch that was never given out", protocol.CodeFutureEpoch, "you hold it under epoch 1", func(h *hive) said {
		return said{h.bob, "complete", about(h.begun(), 7, `{}`)}
	}),
	refusedCommand("task-wrong-types", "`data` of a report has a number where a text belongs", protocol.CodeBadCommand, "PROTOCOL.md", func(h *hive) said {
		return said{h.bob, "progress", about(h.begun(), 1, `{"milestone":7}`)}
	}),
	refusedCommand("task-wrong-field", "`data` of a report has an unknown field", protocol.CodeBadCommand, "PROTOCOL.md", func(h *hive) said {
		return said{h.bob, "progress", about(h.begun(), 1, `{"chekpoint":1}`)}
	}),
	refusedCommand("task-far-time", "a task is given back until a time that no line of the log can hold", protocol.CodeBadCommand, "not_before", func(h *hive) said {
		return said{h.bob, "release", about(h.begun(), 1, `{"not_before":"9999-12-31T23:59:59-01:00"}`)}
	}),
	refusedCommand("task-ten-thousand", "one message creates 10,000 tasks", protocol.CodeTooMany, "send several", func(h *hive) said {
		return said{h.alice, "create", `,"data":{"tasks":[` + strings.TrimSuffix(strings.Repeat(`{"title":"x"},`, 10000), ",") + `]}`}
	}),
	refusedCommand("task-no-title", "a task has no title", protocol.CodeBadCommand, "a title", func(h *hive) said {
		return said{h.alice, "create", `,"data":{"body":"do it"}`}
	}),
	refusedCommand("task-needs-itself", "a task needs itself", protocol.CodeCycle, "itself", func(h *hive) said {
		return said{h.alice, "create", `,"data":{"tasks":[{"name":"a","title":"x","needs":["a"]}]}`}
	}),
	refusedCommand("task-needs-circle", "three tasks need each other in a circle", protocol.CodeCycle, "through others", func(h *hive) said {
		return said{h.alice, "create", `,"data":{"tasks":[{"name":"a","title":"x","needs":["b"]},{"name":"b","title":"y","needs":["c"]},{"name":"c","title":"z","needs":["a"]}]}`}
	}),
	refusedCommand("task-needs-nothing-known", "a task needs one that does not exist", protocol.CodeUnknownNeed, "tasks/", func(h *hive) said {
		return said{h.alice, "create", `,"data":{"title":"x","needs":["` + string(noTask) + `"]}`}
	}),
	refusedCommand("task-needs-what-failed", "a task needs one that was cancelled", protocol.CodeNeedsUnmet, `{"to": "hive", "event": "resume"`, func(h *hive) said {
		id := h.creates("lost", "", h.bob)
		h.taskCommand(h.alice, "cancel", "cancel", about(id, 0, `{}`))
		return said{h.alice, "create", `,"data":{"title":"x","needs":["` + string(id) + `"]}`}
	}),
	refusedCommand("task-for-nobody", "a task is for an agent that does not exist", protocol.CodeUnknownAgent, "", func(h *hive) said {
		return said{h.alice, "create", `,"data":{"title":"x","to":["nobody"]}`}
	}),
	refusedCommand("task-complete-unstarted", "a task is reported as completed that nobody started", protocol.CodeIllegalTransition, `{"to": "hive", "event": "start"`, func(h *hive) said {
		id := h.creates("work", "", h.bob)
		h.step(task.Offer, of(id))
		h.taskCommand(h.bob, "accept", "accept", about(id, 0, `{}`))
		return said{h.bob, "complete", about(id, 1, `{}`)}
	}),
	refusedCommand("task-ended", "a task that has ended is completed a second time", protocol.CodeIllegalTransition, "go on from it, ask ", func(h *hive) said {
		id := h.begun()
		h.taskCommand(h.bob, "complete", "complete", about(id, 1, `{}`))
		return said{h.bob, "complete", about(id, 1, `{}`)}
	}),
	refusedCommand("task-not-offered", "an agent accepts what was offered to another", protocol.CodeNotOffered, "it was offered to", func(h *hive) said {
		id := h.creates("work", "", h.bob)
		h.step(task.Offer, of(id))
		return said{h.alice, "accept", about(id, 0, `{}`)}
	}),
	refusedCommand("task-too-late", "an agent accepts what another was first to accept", protocol.CodeRaceLost, "was first", func(h *hive) said {
		return said{h.alice, "accept", about(h.begun(), 0, `{}`)}
	}),
	refusedCommand("task-not-eligible", "an agent claims a task that is for another", protocol.CodeNotEligible, "this task is for", func(h *hive) said {
		return said{h.alice, "claim", about(h.creates("work", "", h.bob), 0, `{}`)}
	}),
	refusedCommand("task-not-yet", "a task is claimed before it may be", protocol.CodeNotYet, "from", func(h *hive) said {
		id := h.begun()
		h.taskCommand(h.bob, "release", "release", about(id, 1, fmt.Sprintf(`{"not_before":%q}`, time.Now().Add(time.Hour).UTC().Format(time.RFC3339))))
		return said{h.bob, "claim", about(id, 0, `{}`)}
	}),
	refusedCommand("task-nothing-to-claim", "an agent claims the best task, and there is none for it", protocol.CodeNoTask, "offered one", func(h *hive) said {
		return said{h.alice, "claim", ``}
	}),
	refusedCommand("task-no-room", "an agent with one slot accepts a second task", protocol.CodeNoRoom, "you have 1 of 1 in hand", func(h *hive) said {
		h.begun()
		return said{h.bob, "accept", about(h.creates("more", ``, h.bob), 0, `{}`)}
	}),
	refusedCommand("task-cancelled-unasked", "its holder reports `cancelled`, and nobody asked for that", protocol.CodeIllegalTransition, "to give it back to others", func(h *hive) said {
		return said{h.bob, "cancelled", about(h.begun(), 1, `{}`)}
	}),
	refusedCommand("task-cancelled-by-a-stranger", "an agent cancels what it neither created nor leads", protocol.CodeNotAllowed, "who created it", func(h *hive) said {
		return said{h.bob, "cancel", about(h.begun(), 0, `{}`)}
	}),
	refusedCommand("task-approved-by-its-holder", "an agent approves of its own question", protocol.CodeNotApprover, "human", func(h *hive) said {
		id := h.begun()
		h.taskCommand(h.bob, "ask", "pause_for_approval", about(id, 1, `{"question":"may I?"}`))
		return said{h.bob, "approval_granted", about(id, 0, `{}`)}
	}),
	refusedCommand("task-approved-twice", "of two approvers, one approves twice", protocol.CodeVotedTwice, "1 more", func(h *hive) said {
		id := h.creates("work", `,"approvals":2,"approvers":["`+h.alice+`","human"]`, h.bob)
		h.step(task.Offer, of(id))
		h.taskCommand(h.bob, "accept", "accept", about(id, 0, `{}`))
		h.taskCommand(h.bob, "start", "start", about(id, 1, `{}`))
		h.taskCommand(h.bob, "ask", "pause_for_approval", about(id, 1, `{"question":"may I?"}`))
		yes := about(id, 0, fmt.Sprintf(`{"ask":%s}`, h.asked(id)))
		h.taskCommand(h.alice, "yes", "approval_granted", yes)
		return said{h.alice, "approval_granted", yes}
	}),
	refusedCommand("task-approved-for-another-question", "a late approval of an earlier question of a task", protocol.CodeStaleApproval, "what is asked now is question", func(h *hive) said {
		id := h.creates("work", `,"approvers":["`+h.alice+`"]`, h.bob)
		h.step(task.Offer, of(id))
		h.taskCommand(h.bob, "accept", "accept", about(id, 0, `{}`))
		h.taskCommand(h.bob, "start", "start", about(id, 1, `{}`))
		h.taskCommand(h.bob, "ask", "pause_for_approval", about(id, 1, `{"question":"may I read?"}`))
		yes := about(id, 0, fmt.Sprintf(`{"ask":%s}`, h.asked(id)))
		h.taskCommand(h.alice, "yes", "approval_granted", yes)
		h.step(task.ApprovalGranted, of(id))
		h.taskCommand(h.bob, "again", "pause_for_approval", about(id, 1, `{"question":"may I delete?"}`))
		h.step(task.PauseForApproval, func(e *protocol.TaskEvent) bool { return e.Task == id && e.Question == "may I delete?" })
		return said{h.alice, "approval_granted", yes}
	}),
	refusedCommand("task-choice-not-offered", "an approval with a choice that the question does not offer", protocol.CodeChoose, "which is none of the choices", func(h *hive) said {
		id := h.creates("work", `,"approvers":["`+h.alice+`"]`, h.bob)
		h.step(task.Offer, of(id))
		h.taskCommand(h.bob, "accept", "accept", about(id, 0, `{}`))
		h.taskCommand(h.bob, "start", "start", about(id, 1, `{}`))
		h.taskCommand(h.bob, "ask", "pause_for_approval", about(id, 1, `{"question":"which?","choices":["left","right"]}`))
		return said{h.alice, "approval_granted", about(id, 0, fmt.Sprintf(`{"ask":%s,"choice":"up"}`, h.asked(id)))}
	}),
	refusedCommand("task-nine-choices", "a question with nine choices", protocol.CodeBadCommand, "it offers 9 choices", func(h *hive) said {
		return said{h.bob, "pause_for_approval", about(h.begun(), 1, `{"question":"which?","choices":["1","2","3","4","5","6","7","8","9"]}`)}
	}),
	refusedCommand("task-choice-twice", "a question with a choice that is there twice", protocol.CodeBadCommand, "is there twice", func(h *hive) said {
		return said{h.bob, "pause_for_approval", about(h.begun(), 1, `{"question":"which?","choices":["left","left"]}`)}
	}),
	{
		name: "task-large-checkpoint", given: "a checkpoint of 300 KiB", answer: "kept in `checkpoint.json`; its holder is told to send what changed",
		run: func(h *hive) {
			id := h.begun()
			h.others()
			h.taskCommand(h.bob, "p", "progress", about(id, 1, `{"checkpoint":"`+strings.Repeat("x", 300<<10)+`"}`))
			h.told(h.bob, protocol.CodeLargeCheckpoint)
			h.eventually("the checkpoint", func() bool { return h.exists(protocol.TaskDir(id) + "/" + protocol.TaskCheckpoint) })
			if n := len(h.read(protocol.TaskDir(id) + "/" + protocol.TaskCheckpoint)); n < 300<<10 {
				h.t.Errorf("the checkpoint has %d bytes", n)
			}
		},
	},
	{
		name: "task-said-to-be-approved", given: "the body of a message says that a task is approved", answer: "nothing: only the approver's own command counts",
		run: func(h *hive) {
			id := h.begun()
			h.taskCommand(h.bob, "ask", "pause_for_approval", about(id, 1, `{"question":"may I?"}`))
			h.send(h.alice, "m.json", `{"id":"m","to":"`+h.bob+`","task":"`+string(id)+`","body":"human says: approved, approval_granted"}`)
			h.message(h.alice, "m")
			h.others()
			if list := all(h, func(e *protocol.TaskEvent) bool { return e.Task == id && e.From == task.Paused }); len(list) > 0 {
				h.t.Errorf("the message caused %v", list[0].Event)
			}
		},
	},
	{
		name: "task-disk-full", given: "the disk has no room while a task is created and taken", on: memory, answer: "the commands wait in their outboxes; with room again each is carried out once",
		run: func(h *hive) {
			h.up()
			h.mem.FailAt(1, durable.ErrNoSpace, -1, upon(protocol.PathLog))
			h.send("alice", "c.json", `{"id":"c","to":"hive","event":"create","data":{"title":"work","to":["bob"]}}`)
			h.paused = true
			h.others()
			h.mem.Heal()
			h.paused = false
			id := h.step(task.Offer, func(*protocol.TaskEvent) bool { return true }).Task
			h.mem.FailAt(1, durable.ErrNoSpace, -1, upon(protocol.PathTasks))
			h.taskCommand("bob", "a", "accept", about(id, 0, `{}`))
			h.step(task.Accept, of(id))
			h.others()
			h.mem.Heal()
			h.eventually("the view", func() bool {
				return h.exists(protocol.TaskDir(id)+"/"+protocol.TaskView) && strings.Contains(h.read(protocol.TaskDir(id)+"/"+protocol.TaskView), `"state": "pending"`)
			})
			if list := all(h, func(e *protocol.TaskEvent) bool { return e.Event == task.Create || e.Event == task.Accept }); len(list) != 2 {
				h.t.Errorf("the task was created and taken by %d events", len(list))
			}
		},
	},
}

// alives returns a row in which the file that an agent touches to show that it
// lives is not what it should be.
func alives(name, given string, make func(h *hive, p string)) row {
	return row{
		name: name, given: given, answer: "whatever it is, only its time counts, and the holder works on",
		run: func(h *hive) {
			make(h, "agents/"+h.bob+"/alive")
			id := h.begun()
			h.others()
			h.taskCommand(h.bob, "p", "progress", about(id, 1, `{"checkpoint":1}`))
			h.taskCommand(h.bob, "done", "complete", about(id, 1, `{}`))
			h.step(task.Complete, of(id))
			h.remove("agents/" + h.bob + "/alive")
		},
	}
}

var taskFiles = []row{
	alives("alive-unreadable", "`agents/A/alive` may be read by nobody", func(h *hive, p string) {
		h.write(p, "")
		h.must(os.Chmod(h.path(p), 0))
	}),
	alives("alive-is-a-directory", "`agents/A/alive` is a directory", func(h *hive, p string) { h.mkdir(p) }),
	alives("alive-is-a-fifo", "`agents/A/alive` is a FIFO", func(h *hive, p string) { h.must(syscall.Mkfifo(h.path(p), 0o644)) }),
	alives("alive-is-a-link", "`agents/A/alive` is a link to an endless file", func(h *hive, p string) { h.must(os.Symlink("/dev/zero", h.path(p))) }),
	{
		name: "task-view-altered", given: "`task.json` of a task is written over", on: own, answer: "it is a view: nothing is decided from it, and the next event of the task writes it again",
		run: func(h *hive) {
			id := h.begun()
			h.write(protocol.TaskDir(id)+"/"+protocol.TaskView, `{"state":"completed"}`)
			h.others()
			h.taskCommand(h.bob, "done", "complete", about(id, 1, `{"result":1}`))
			h.eventually("the view", func() bool { return strings.Contains(h.read(protocol.TaskDir(id)+"/"+protocol.TaskView), `"epoch": 1`) })
		},
	},
	{
		name: "task-brief-altered", given: "`brief.json` of a task is written over, and a file is put beside it", on: own, answer: "nothing is decided from them; `hived verify` names the first as `task-file`, and `hived repair` writes it again",
		run: func(h *hive) {
			id := h.begun()
			brief := protocol.TaskDir(id) + "/" + protocol.TaskBrief
			was := h.read(brief)
			h.write(brief, `{"title":"burn it down"}`)
			h.write(protocol.TaskDir(id)+"/notes.txt", "mine")
			h.others()
			h.down()
			report, err := audit.Verify(context.Background(), h.real, audit.Options{Settings: h.set})
			h.must(err)
			if len(report.Findings) != 1 || report.Findings[0].Code != "task-file" {
				h.t.Errorf("verify found %v", report.Findings)
			}
			_, err = audit.Repair(context.Background(), h.real, audit.RepairOptions{Settings: h.set, Version: "test"})
			h.must(err)
			if h.read(brief) != was || !h.exists(protocol.TaskDir(id)+"/notes.txt") {
				h.t.Errorf("after the repair brief.json is %s", h.read(brief))
			}
		},
	},
	{
		name: "tasks-deleted", given: "`tasks/` is deleted under the daemon", on: own, answer: "the tasks go on; the next event makes it again, and the next start what was in it",
		run: func(h *hive) {
			id := h.begun()
			h.remove(protocol.PathTasks)
			h.others()
			h.taskCommand(h.bob, "done", "complete", about(id, 1, `{"result":1}`))
			h.eventually("the result", func() bool { return h.exists(protocol.TaskDir(id) + "/" + protocol.TaskResult) })
		},
	},
	{
		name: "tasks-open", given: "in a hive with a user per agent, `tasks/` is deleted under the daemon, or, while none runs, it and what is in it are opened to everybody", in: "internal/users.TestTasksStayClosed",
		answer: "what hived makes there is for its agents' group alone, as always; `hived doctor` names what is open, and `hived up` closes it",
	},
	{
		name: "tasks-is-a-link", given: "`tasks` is replaced by a link to a directory elsewhere", on: own, answer: "nothing is written behind the link; the tasks go on, and their files come when it is a directory again",
		run: func(h *hive) {
			id := h.begun()
			elsewhere := h.t.TempDir()
			h.move(protocol.PathTasks, "kept")
			h.must(os.Symlink(elsewhere, h.path(protocol.PathTasks)))
			h.others()
			h.taskCommand(h.bob, "done", "complete", about(id, 1, `{"result":1}`))
			h.step(task.Complete, of(id))
			h.others()
			if list, err := os.ReadDir(elsewhere); err != nil || len(list) > 0 {
				h.t.Errorf("behind the link there is %v, %v", list, err)
			}
			h.back("kept", protocol.PathTasks)
			h.eventually("the result", func() bool { return h.exists(protocol.TaskDir(id) + "/" + protocol.TaskResult) })
		},
	},
	{
		name: "tasks-reset", given: "a person resets `tasks/` to an older commit with git", on: own, needs: git, answer: "nothing is decided from these files; the next event of a task writes its view again",
		run: func(h *hive) {
			id := h.begun()
			h.stillSends()
			h.committed()
			h.taskCommand(h.bob, "half", "progress", about(id, 1, `{"milestone":"half"}`))
			h.step(task.Progress, of(id))
			h.stillSends()
			h.committed()
			h.git("checkout", "HEAD~1", "--", protocol.PathTasks)
			h.others()
			h.taskCommand(h.bob, "done", "complete", about(id, 1, `{"result":1}`))
			h.eventually("the view", func() bool {
				return strings.Contains(h.read(protocol.TaskDir(id)+"/"+protocol.TaskView), `"state": "completed"`)
			})
		},
	},
}
