package protocol

import (
	"strings"
	"testing"
	"time"
	"unicode"
)

func TestSummary(t *testing.T) {
	many := []Address{"a", "b", "c", "d", "e"}
	content := NewContent([]byte("four"))
	for _, tt := range []struct {
		body Body
		want string
	}{
		{&HiveEvent{Action: Settled, Through: 7}, "hive settled through 7"},
		{&HiveEvent{Action: Sealed, Segment: &Segment{Name: "000000000001.jsonl", First: 1, Last: 9}}, "hive sealed 000000000001.jsonl, events 1 to 9"},
		{&HiveEvent{Action: Swept, Paths: []string{"x", "y"}}, "hive swept 2 files: x, y"},
		{&HiveEvent{Action: Continued, Conversation: "c", By: "human"}, "hive continued conversation c by human"},
		{&HiveEvent{Action: Recovered, Note: "torn\ntail"}, `hive recovered: torn\ntail`},
		{&HiveEvent{Action: Adopted, Adopted: &AdoptedFile{Path: "agents/a/inbox/x.json"}}, "hive adopted agents/a/inbox/x.json"},
		{&AgentEvent{Agent: "bob", Action: Joined, Role: "builder", Caps: []string{"go", "sql"}, By: "human"}, "agent bob joined as builder with go, sql by human"},
		{&AgentEvent{Agent: "bob", Action: LeadSet}, "agent bob is the lead now"},
		{&AgentEvent{Action: LeadSet, By: "human"}, "agent lead is nobody now by human"},
		{&MessageEvent{ID: "m1", From: "a", To: []Address{"b"}, Act: Request, Subject: "\x1b[2Jhi"}, `a → b: request "\x1b[2Jhi" (m1)`},
		{&MessageEvent{ID: "m2", From: "a", To: many, Act: Done, InReplyTo: "m1"}, "a → a, b, c and 2 more: done (m2, answers m1)"},
		{&DropEvent{ID: "m1", From: "a", To: []Address{"x"}, Reason: NoInbox, Detail: "there is no x"}, "a ↛ x: dropped, no-inbox (m1): there is no x"},
		{&QuarantineEvent{Agent: "a", Path: "p", Code: CodeMalformed, Detail: "empty"}, "a: set aside p, malformed: empty"},
		{&DuplicateEvent{Agent: "a", ID: "m1", Of: 3}, "a: sent m1 again, accepted before as 3"},
		{&HandledEvent{Agent: "a", ID: "m1", How: HowDone}, "a handled m1"},
		{&HandledEvent{Agent: "a", File: "f.json", How: HowDeleted}, "a deleted f.json"},
		{&HandledEvent{Agent: "a", ID: "m1", How: HowReopened}, "a reopened m1"},
		{&FileEvent{Path: "board.md", Content: &content}, "file board.md, 4 bytes"},
		{&FileEvent{Path: "board.md", Deleted: true}, "file board.md deleted"},
		{&TaskEvent{Task: "T", Event: "create", To: "unassigned", By: "planner", Spec: &TaskSpec{Title: "mend\nit"}}, `task T create, new → unassigned "mend\nit" by planner`},
		{&TaskEvent{Task: "T", Event: "offer", From: "unassigned", To: "offered", By: Hive, Agents: []AgentID{"a", "b"}}, "task T offer, unassigned → offered to a, b by hive"},
		{&TaskEvent{Task: "T", Event: "progress", From: "in_progress", To: "in_progress", By: "a", Checkpoint: &Checkpoint{Milestone: "half"}}, `task T progress "half" by a`},
		{&TaskEvent{Task: "T", Event: "unwind", From: "failed", To: "failed", By: "hive", UnwoundBy: "U", Reason: "it failed"}, "task T unwind, undone by task U by hive: it failed"},
		{&TaskEvent{Task: "U", Event: "create", To: "unassigned", By: "hive", Unwinds: "T", Spec: &TaskSpec{Title: "Undo: it"}}, `task U create, new → unassigned "Undo: it", undoes task T by hive`},
		{&TaskEvent{Task: "T", Event: "release", From: "in_progress", To: "unassigned", By: "a", Outcome: &Outcome{Kind: OutcomeTimedOut}, Charge: ChargeRetry}, "task T release, in_progress → unassigned, outcome timed-out, counted as retry by a"},
		{&TaskRejectedEvent{Task: "T", Event: "outcome", By: "a", Code: "fenced", Detail: "late", Outcome: &Outcome{Kind: OutcomeLeaseLost}}, "task T refused outcome lease-lost by a, fenced: late"},
		{&TaskEvent{Task: "T", Event: "step_ended", From: "in_progress", To: "in_progress", By: "a", Step: &StepRecord{N: 3, Name: "pay", Status: StepDone}}, "task T step_ended, step 3 pay done by a"},
		{&TaskEvent{Task: "T", Event: "fatal_error", From: "blocked", To: "failed", By: "human", Reason: "no\x1bway"}, `task T fatal_error, blocked → failed by human: no\x1bway`},
		{&TaskRejectedEvent{Task: "T", Event: "start", By: "a", Code: CodeFenced, Detail: "epoch 1 is over"}, "task T refused start by a, fenced: epoch 1 is over"},
		{&TaskRejectedEvent{Event: "claim", By: "a", Code: CodeNoTask}, "task refused claim by a, no-task"},
		{&AlertEvent{Code: CodeGitLock, Text: "no repository"}, "alert git-stale-lock: no repository"},
	} {
		if got := Summary(Event{Seq: 1, TS: time.Unix(0, 0), Body: tt.body}); got != tt.want {
			t.Errorf("Summary(%T) = %s, want %s", tt.body, got, tt.want)
		}
	}
}

func FuzzSummaryIsOneInertLine(f *testing.F) {
	f.Add("\x1b]0;x\a\n\u202e", "p\x00")
	f.Add("0", strings.Repeat("\xda", 2700))
	f.Fuzz(func(t *testing.T, a, b string) {
		for _, body := range []Body{
			&HiveEvent{Action: HiveAction(a), Note: b},
			&MessageEvent{ID: MessageID(a), To: []Address{Address(b), Address(a)}, Subject: b},
			&DropEvent{Reason: Reason(a), Detail: b},
			&QuarantineEvent{Path: a, Detail: b},
			&FileEvent{Path: b},
			&AlertEvent{Text: a},
			&TaskEvent{Task: TaskID(a), Event: TaskAction(b), From: TaskState(a), To: TaskState(b), By: AgentID(b), Reason: a, Agents: []AgentID{AgentID(a)}, Spec: &TaskSpec{Title: b}, Checkpoint: &Checkpoint{Milestone: a}, Step: &StepRecord{Name: b, Status: StepStatus(a)}},
			&TaskRejectedEvent{Task: a, Event: b, By: AgentID(a), Code: Code(b), Detail: a},
		} {
			line := Summary(Event{Seq: 1, Body: body})
			if strings.ContainsFunc(line, unicode.IsControl) {
				t.Errorf("%q holds a control character", line)
			}
			if len(line) > 8000+4*len(a) {
				t.Errorf("%d bytes are too many for a line", len(line))
			}
		}
	})
}
