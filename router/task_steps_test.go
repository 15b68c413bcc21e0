package router

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

// step returns the record of a step of a task, and whether its lock is there.
func (h *crew) step(origin protocol.TaskID, n int, name string) (r *protocol.StepRecord, locked bool) {
	h.Helper()
	path := protocol.StepFile(origin, n, name)
	data, _, err := durable.ReadFile(h.disk, path, -1)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false
	}
	h.must(err)
	r, err = protocol.DecodeStep(data)
	h.must(err)
	info, err := h.disk.Lstat(protocol.LockOf(path))
	return r, err == nil && info.Size == 0
}

// begins has the holder of a task report the intent of a step, and returns its message.
func (h *crew) begins(who protocol.AgentID, id protocol.TaskID, step string) (message protocol.MessageID) {
	h.Helper()
	message = protocol.MessageID(h.posts(who, "step_started", id, `{"step": `+step+`}`))
	h.collect()
	if no := h.answer(who, string(message)); no != nil {
		h.Fatalf("step_started of %s was refused: %s, %s", step, no.Code, no.Detail)
	}
	return message
}

// TestStepHasARecord checks that the record of a step and its lock are there when its
// command may begin, that its end is in the record, and that neither changes task.json.
func TestStepHasARecord(t *testing.T) {
	scenario(t, "anna", func(h *crew) {
		id := h.create("human", `{"title": "send the mail"}`)
		h.begin("anna", id)
		view := h.file(id, protocol.TaskView)

		begun := h.begins("anna", id, `{"name": "mail", "argv": ["mail", "bob"], "cwd": "/tmp", "undo": "unsend", "boot": "b1", "pid": 7}`)
		r, locked := h.step(id, 1, "mail")
		if r == nil || !locked || r.Command != begun || r.Status != protocol.StepExecuting || r.By != "anna" || r.Epoch != 1 || r.Key != string(id)+":mail" || r.Round != 1 || r.Try != 1 || r.Undo != "unsend" {
			t.Fatalf("the record is %+v, its lock is there: %v", r, locked)
		}
		h.does("anna", "step_ended", id, fmt.Sprintf(`{"step": {"n": 1, "command": %q, "exit": 0, "output": {"bytes": 2, "sha256": "2689367b205c16ce32ed4200942b8b8b1e262dfc70d9bc9fbc77c49699a4f1df", "text": "ok"}}}`, begun))
		if r, _ = h.step(id, 1, "mail"); r.Status != protocol.StepDone || r.Output.Text != "ok" || *r.Exit != 0 || r.EndedAt.IsZero() {
			t.Errorf("after its end the record is %+v", r)
		}
		if now := h.file(id, protocol.TaskView); now != view {
			t.Errorf("task.json changed from\n%s\nto\n%s", view, now)
		}
		h.refused(protocol.CodeStepDone, "anna", "step_started", id, `{"step": {"name": "mail"}}`)
		if told := h.told("anna", protocol.CodeStepDone); !strings.Contains(told[0].Body, "done before") {
			t.Errorf("anna was told %v", told)
		}
	})
}

// TestLateEndOfAStepCounts checks that an end whose intent still stands closes its step,
// although the epoch went on, and changes nothing else; and that one which was judged
// meanwhile is fenced.
func TestLateEndOfAStepCounts(t *testing.T) {
	scenario(t, "anna berta", func(h *crew) {
		id := h.create("human", `{"title": "deploy"}`)
		h.begin("anna", id)
		one := h.begins("anna", id, `{"name": "one", "idempotent": true}`)
		h.pass(3 * time.Minute) // anna falls silent
		h.pass(time.Minute)
		h.begin("berta", id)
		h.refused(protocol.CodeStepRunning, "berta", "step_started", id, `{"step": {"name": "one"}}`)
		h.refused(protocol.CodeFenced, "anna", "step_started", id, `{"step": {"name": "two"}}`)
		view := h.file(id, protocol.TaskView)

		h.does("anna", "step_ended", id, fmt.Sprintf(`{"step": {"n": 1, "command": %q, "exit": 0}}`, one))
		if r, _ := h.step(id, 1, "one"); r.Status != protocol.StepDone || h.file(id, protocol.TaskView) != view {
			t.Errorf("after anna's late end the record is %+v", r)
		}

		two := h.begins("berta", id, `{"name": "two", "idempotent": true}`)
		h.does("berta", "step_started", id, `{"step": {"name": "two", "idempotent": true}, "again": "idempotent"}`)
		h.refused(protocol.CodeFenced, "berta", "step_ended", id, fmt.Sprintf(`{"step": {"n": 2, "command": %q, "exit": 0}}`, two))
		if r, _ := h.step(id, 2, "two"); r.Status != protocol.StepExecuting || r.Try != 2 {
			t.Errorf("after a fenced end the record is %+v", r)
		}
		h.refused(protocol.CodeStepsLeft, "berta", "complete", id, "")

		h.does("berta", "fatal_error", id, `{"reason": "no power"}`)
		r, _ := h.step(id, 2, "two")
		h.does("berta", "step_ended", id, fmt.Sprintf(`{"step": {"n": 2, "command": %q, "exit": 0}}`, r.Command))
		if r, _ = h.step(id, 2, "two"); r.Status != protocol.StepDone {
			t.Errorf("an end after the task has ended left the record %+v", r)
		}
		h.is(id, task.Failed)
	})
}

// TestStepsOutliveTheirTask checks that a task which resumes another finds its steps, with
// the same keys, that they stay as long as any task of the chain, and go with the last.
func TestStepsOutliveTheirTask(t *testing.T) {
	scenario(t, "anna", func(h *crew) {
		first := h.create("human", `{"title": "deploy"}`)
		h.begin("anna", first)
		begun := h.begins("anna", first, `{"name": "one"}`)
		h.does("anna", "step_ended", first, fmt.Sprintf(`{"step": {"n": 1, "command": %q, "exit": 0}}`, begun))
		h.does("anna", "fatal_error", first, `{"reason": "no power"}`)

		h.pass(100 * time.Hour)
		h.does("human", "resume", first, "")
		list := h.created()
		second := list[len(list)-1]
		h.begin("anna", second)
		h.refused(protocol.CodeStepDone, "anna", "step_started", second, `{"step": {"name": "one"}}`)
		h.begins("anna", second, `{"name": "two"}`)
		if r, locked := h.step(first, 2, "two"); r == nil || !locked || r.Task != second || r.Key != string(first)+":two" {
			t.Fatalf("the second step is %+v", r)
		}
		h.refused(protocol.CodeChainOpen, "human", "resume", first, "")

		h.pass(100 * time.Hour) // the first task is swept
		if h.file(first, protocol.TaskView) != "" {
			t.Error("the first task is still there")
		}
		if r, _ := h.step(first, 1, "one"); r == nil {
			t.Error("its steps went before the chain")
		}
		if v := h.view(second); !task.Ended(v.State) {
			h.does("human", "cancel", second, "")
		}
		h.pass(200 * time.Hour)
		if _, err := h.disk.Lstat(protocol.TaskDir(first)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("after the last task of the chain its directory is left: %v", err)
		}
	})
}

// TestLockIsNotMadeAgain checks that the lock of a step that somebody removed while it is
// under way is not made again by an intent on the same boot, and is by one on another.
func TestLockIsNotMadeAgain(t *testing.T) {
	scenario(t, "anna", func(h *crew) {
		id := h.create("human", `{"title": "deploy"}`)
		h.begin("anna", id)
		h.begins("anna", id, `{"name": "one", "idempotent": true, "boot": "b1"}`)
		again := func(boot string) (locked bool) {
			h.must(durable.IgnoreNotExist(h.disk.Remove(protocol.LockOf(protocol.StepFile(id, 1, "one")))))
			h.does("anna", "step_started", id, `{"step": {"name": "one", "idempotent": true, "boot": "`+boot+`"}, "again": "idempotent"}`)
			_, locked = h.step(id, 1, "one")
			return locked
		}
		if again("b1") {
			t.Error("the lock was made again on the same boot")
		}
		if !again("b2") {
			t.Error("the lock was not made again on another boot")
		}
	})
}

// TestStepReportsAreChecked checks that a report about a step that cannot be is refused,
// and that an output of any bytes is kept as it was.
func TestStepReportsAreChecked(t *testing.T) {
	scenario(t, "anna", func(h *crew) {
		id := h.create("human", `{"title": "deploy"}`)
		h.begin("anna", id)
		for _, step := range []string{
			`{}`, `{"name": ""}`, `{"name": "../x"}`, `{"name": ".x"}`, `{"name": "a b"}`, `{"name": "` + strings.Repeat("x", 65) + `"}`,
			`{"name": "a", "undo": "` + strings.Repeat("x", 5<<10) + `"}`, `{"name": "a", "verify": "` + strings.Repeat("x", 5<<10) + `"}`,
			`{"name": "a", "pid": -1}`, `{"name": "a", "cwd": "` + strings.Repeat("x", 5<<10) + `"}`,
		} {
			h.refused(protocol.CodeBadCommand, "anna", "step_started", id, `{"step": `+step+`}`)
		}
		h.refused(protocol.CodeBadCommand, "anna", "step_started", id, `{"step": {"name": "a"}, "unwind": true}`)

		begun := h.begins("anna", id, `{"name": "a", "argv": ["`+strings.Repeat("é", 4<<10)+`", "x"]}`)
		if r, _ := h.step(id, 1, "a"); len(r.Argv) != 1 || len(r.Argv[0]) > protocol.StepTextMost+3 || !utf8.ValidString(r.Argv[0]) {
			t.Errorf("of a long argv the record has %d words, the first of %d bytes", len(r.Argv), len(r.Argv[0]))
		}
		end := func(members string) string {
			return fmt.Sprintf(`{"step": {"n": 1, "command": %q, %s}}`, begun, members)
		}
		binary := protocol.NewStepOutput([]byte("\xff\x00ok"))
		output := func(change func(*protocol.StepOutput)) string {
			o := *binary
			change(&o)
			text, err := json.Marshal(o)
			h.must(err)
			return `"exit": 0, "output": ` + string(text)
		}
		for _, members := range []string{
			`"error": "x"`, `"exit": -1`, `"exit": 256`, `"exit": 0, "how": "verified"`, `"how": "person"`, `"how": "idempotent"`, `"signal": "` + strings.Repeat("K", 17) + `"`,
			output(func(o *protocol.StepOutput) { o.Bytes++ }), output(func(o *protocol.StepOutput) { o.SHA256 = binary.SHA256[1:] + "0" }),
			output(func(o *protocol.StepOutput) { o.B64 = nil }), output(func(o *protocol.StepOutput) { o.Path = "agents/anna/.work/out" }),
			output(func(o *protocol.StepOutput) { *o = *protocol.NewStepOutput(make([]byte, protocol.StepOutputMost+1)) }),
		} {
			h.refused(protocol.CodeBadCommand, "anna", "step_ended", id, end(members))
		}
		for _, step := range []string{`{"n": 2, "command": "x", "exit": 0}`, `{"command": "x", "exit": 0}`, `{"n": 1, "exit": 0}`} {
			h.refused(protocol.CodeBadCommand, "anna", "step_ended", id, `{"step": `+step+`}`)
		}
		h.refused(protocol.CodeNotAllowed, "human", "step_ended", id, end(`"exit": 0`))
		h.does("anna", "step_ended", id, end(`"signal": "KILL", "error": "`+strings.Repeat("x", 3000)+`end"`))
		if r, _ := h.step(id, 1, "a"); r.Status != protocol.StepExecuting || r.Signal != "KILL" || len(r.Error) != protocol.StepErrorMost || !strings.HasSuffix(r.Error, "end") {
			t.Errorf("a step whose command was killed is %+v", r)
		}
		h.does("anna", "step_ended", id, end(output(func(*protocol.StepOutput) {})))
		r, _ := h.step(id, 1, "a")
		if data, err := r.Output.Data(); err != nil || string(data) != "\xff\x00ok" {
			t.Errorf("the output is %q, %v", data, err)
		}
	})
}

// TestTooManySteps checks the limit of the steps of a task.
func TestTooManySteps(t *testing.T) {
	scenarioWith(t, "anna", func(s *protocol.Settings) { s.Tasks.Steps = 2 }, func(h *crew) {
		id := h.create("human", `{"title": "deploy"}`)
		h.begin("anna", id)
		h.begins("anna", id, `{"name": "one"}`)
		h.begins("anna", id, `{"name": "two"}`)
		h.refused(protocol.CodeTooMany, "anna", "step_started", id, `{"step": {"name": "three"}}`)
	})
}

// TestStepIsSilentAndProgress checks that a holder may be silent for as long as it said
// with the step, and that a step that ended well is progress.
func TestStepIsSilentAndProgress(t *testing.T) {
	scenario(t, "anna", func(h *crew) {
		id := h.create("human", `{"title": "deploy"}`)
		h.begin("anna", id)
		begun := protocol.MessageID(h.posts("anna", "step_started", id, `{"step": {"name": "one"}, "expected_for": "50m"}`))
		h.collect()
		h.pass(45 * time.Minute)
		h.is(id, task.InProgress)
		h.does("anna", "step_ended", id, fmt.Sprintf(`{"step": {"n": 1, "command": %q, "exit": 0}}`, begun))
		h.pass(20 * time.Minute) // the announcement was over with the step
		if v := h.view(id); v.State == task.InProgress {
			t.Errorf("anna was silent for 20 minutes after the step, and the task is %s", v.State)
		}
	})
}

// asksAbout has the holder of a task ask what became of a step, and returns the number of
// the question.
func (h *crew) asksAbout(who protocol.AgentID, id protocol.TaskID, data string) protocol.Seq {
	h.Helper()
	h.does(who, "pause_for_approval", id, data)
	v := h.view(id)
	if v.State != task.Paused || v.Question == nil {
		h.Fatalf("after the question the task is %s, with the question %+v", v.State, v.Question)
	}
	return v.Question.Ask
}

// TestPersonSaysWhatBecameOfAStep checks what each answer to a question about a step
// leaves in its record, and what may follow.
func TestPersonSaysWhatBecameOfAStep(t *testing.T) {
	for _, c := range []struct {
		end, choices, choice, result string // the end that is reported before the question, if any
		status                       protocol.StepStatus
		output                       string
		stands, again                bool // the intent; a new one may begin
	}{
		{choice: "happened", result: `"paid\n"`, status: protocol.StepDone, output: "paid\n"},
		{choice: "happened", result: `{"paid": 3}`, status: protocol.StepDone, output: `{"paid":3}`},
		{choice: "happened", status: protocol.StepDone},
		{choice: "again", status: protocol.StepExecuting, again: true},
		{choices: `["wait", "happened"]`, choice: "wait", status: protocol.StepExecuting, stands: true},
		{end: `"signal": "KILL"`, choice: "happened", status: protocol.StepDone},
		{end: `"exit": 3`, choice: "again", status: protocol.StepExecuting, again: true},
		{end: `"exit": 0`, choices: `["again", "without"]`, choice: "without", status: protocol.StepDone},
		{end: `"exit": 0`, choices: `["again", "without"]`, choice: "again", status: protocol.StepExecuting, again: true},
	} {
		t.Run(c.end+c.choice+c.result, func(t *testing.T) {
			scenario(t, "anna", func(h *crew) {
				id := h.create("human", `{"title": "pay"}`)
				h.begin("anna", id)
				begun := h.begins("anna", id, `{"name": "pay", "argv": ["pay", "bob"]}`)
				if c.end != "" {
					h.does("anna", "step_ended", id, fmt.Sprintf(`{"step": {"n": 1, "command": %q, %s}}`, begun, c.end))
				}
				data := `{"step": {"n": 1}}`
				if c.choices != "" {
					data = `{"step": {"n": 1}, "choices": ` + c.choices + `}`
				}
				if strings.Contains(c.end, "exit\": 0") { // asked by somebody who does not know that it is done
					h.refused(protocol.CodeStepDone, "anna", "pause_for_approval", id, `{"step": {"n": 1}}`)
					h.refused(protocol.CodeStepDone, "anna", "pause_for_approval", id, `{"step": {"n": 1}, "choices": ["wait", "again"]}`)
				}
				ask := h.asksAbout("anna", id, data)
				r, _ := h.step(id, 1, "pay")
				if v := h.view(id); r.Ask != ask || r.Stands(begun) || !v.Until.IsZero() || !strings.Contains(v.Question.Question, "pay bob") || !slices.Contains(v.Question.Choices, c.choice) {
					t.Fatalf("the record is %+v, and the question %+v, until %v", r, v.Question, v.Until)
				}
				h.refused(protocol.CodeChoose, "human", "approval_granted", id, fmt.Sprintf(`{"ask": %s}`, ask))
				answer := fmt.Sprintf(`{"ask": %s, "choice": %q}`, ask, c.choice)
				if c.result != "" {
					answer = fmt.Sprintf(`{"ask": %s, "choice": %q, "result": %s}`, ask, c.choice, c.result)
				}
				h.does("human", "approval_granted", id, answer)
				h.is(id, task.InProgress)
				r, _ = h.step(id, 1, "pay")
				got := ""
				if r.Output != nil {
					data, err := r.Output.Data()
					h.must(err)
					got = string(data)
				}
				if r.Ask != 0 || r.Status != c.status || got != c.output || r.Stands(begun) != c.stands || r.How != protocol.JudgedPerson {
					t.Errorf("after the answer the record is %+v with output %q", r, got)
				}
				if c.again {
					h.refused(protocol.CodeStepsLeft, "anna", "complete", id, "")
					h.begins("anna", id, `{"name": "pay"}`)
					return
				}
				code := protocol.CodeStepDone
				if c.stands {
					code = protocol.CodeStepRunning
				}
				h.refused(code, "anna", "step_started", id, `{"step": {"name": "pay"}}`)
			})
		})
	}
}

// TestQuestionAboutAStepHasNoTimeLimit checks that people are reminded once a day of a
// question about a step, that it does not end by itself, and that an end of the step that
// comes meanwhile is fenced.
func TestQuestionAboutAStepHasNoTimeLimit(t *testing.T) {
	scenario(t, "anna", func(h *crew) {
		id := h.create("human", `{"title": "pay"}`)
		h.begin("anna", id)
		begun := h.begins("anna", id, `{"name": "pay"}`)
		ask := h.asksAbout("anna", id, `{"step": {"n": 1}}`)
		for day := range 5 {
			h.pass(24*time.Hour + time.Minute)
			if n := len(h.told("human", protocol.CodeReminder)); n != day+1 {
				t.Fatalf("after day %d there were %d reminders", day+1, n)
			}
		}
		h.refused(protocol.CodeFenced, "anna", "step_ended", id, fmt.Sprintf(`{"step": {"n": 1, "command": %q, "exit": 0}}`, begun))
		h.does("human", "approval_granted", id, fmt.Sprintf(`{"ask": %s, "choice": "happened"}`, ask))
		h.is(id, task.InProgress)
	})
}

// TestQuestionAboutAStepThatIsOver checks that a question about a step which ended without
// an answer, or with a denial, leaves the step in doubt for the next task of the chain.
func TestQuestionAboutAStepThatIsOver(t *testing.T) {
	for _, end := range []string{"approval_denied", "cancel"} {
		t.Run(end, func(t *testing.T) {
			scenario(t, "anna", func(h *crew) {
				id := h.create("human", `{"title": "pay"}`)
				h.begin("anna", id)
				h.begins("anna", id, `{"name": "pay", "idempotent": true}`)
				ask := h.asksAbout("anna", id, `{"step": {"n": 1}}`)
				h.does("human", end, id, fmt.Sprintf(`{"ask": %s}`, ask))
				h.pass(time.Hour) // for the grace period of a cancel
				h.does("human", "resume", id, "")
				list := h.created()
				next := list[len(list)-1]
				h.begin("anna", next)
				h.refused(protocol.CodeStepRunning, "anna", "step_started", next, `{"step": {"name": "pay"}}`)
				again := h.asksAbout("anna", next, `{"step": {"n": 1}}`)
				if r, _ := h.step(id, 1, "pay"); r.Ask != again || again == ask {
					t.Fatalf("the second question left the record %+v", r)
				}
				h.does("human", "approval_granted", next, fmt.Sprintf(`{"ask": %s, "choice": "happened"}`, again))
				h.refused(protocol.CodeStepDone, "anna", "step_started", next, `{"step": {"name": "pay"}}`)
			})
		})
	}
}

// TestWrongQuestionsAboutSteps checks that a question about a step is refused that could
// not be answered.
func TestWrongQuestionsAboutSteps(t *testing.T) {
	scenario(t, "anna", func(h *crew) {
		id := h.create("human", `{"title": "pay"}`)
		h.begin("anna", id)
		h.begins("anna", id, `{"name": "pay"}`)
		for data, want := range map[string]string{
			`{"step": {"n": 2}}`:                                "there is no step 2",
			`{"step": {"name": "pay"}}`:                         "name one by its n",
			`{"step": {"n": 1}, "choices": ["without"]}`:        "it can offer happened, again, wait",
			`{"step": {"n": 1}, "choices": ["again", "x"]}`:     `offers "x"`,
			`{"step": {"n": 1}, "choices": ["again", "again"]}`: "there twice",
		} {
			if no := h.refused(protocol.CodeBadCommand, "anna", "pause_for_approval", id, data); !strings.Contains(no.Detail, want) {
				t.Errorf("%s was refused with %q, without %q", data, no.Detail, want)
			}
		}
		h.is(id, task.InProgress)
	})
}

// TestStepSendsItsMessages checks that the messages of a step are sent by the decision
// that ends it as done, once, and by none that does not.
func TestStepSendsItsMessages(t *testing.T) {
	scenario(t, "anna berta", func(h *crew) {
		id := h.create("human", `{"title": "pay"}`)
		h.begin("anna", id)
		sent := func() (list []string) {
			for _, e := range all[*protocol.MessageEvent](h) {
				if e.From == "anna" && slices.Contains(e.Delivered, "berta") {
					list = append(list, e.Subject)
				}
			}
			return list
		}
		end := func(n int, how, send string) *protocol.StepRecord {
			h.Helper()
			name := fmt.Sprint("pay", n)
			r, _ := h.step(id, n, name)
			h.does("anna", "step_ended", id, fmt.Sprintf(`{"step": {"n": %d, "command": %q, %s}, "send": [%s]}`, n, r.Command, how, send))
			r, _ = h.step(id, n, name)
			return r
		}
		const one, two = `"{\"to\": \"berta\", \"subject\": \"one\", \"id\": \"m1\"}"`, `"{\"to\": \"berta\", \"subject\": \"two\"}"`
		for i, c := range []struct {
			how, send string
			status    protocol.StepStatus
			error     string
			sent      []string // by now
		}{
			{`"exit": 1`, one, protocol.StepFailed, "", nil},
			{`"exit": 0`, one + "," + two, protocol.StepDone, "", []string{"one", "two"}},
			{`"exit": 0`, one, protocol.StepDone, "", []string{"one", "two"}}, // it was sent before
			{`"how": "verified"`, two, protocol.StepDone, "", []string{"one", "two", "two"}},
			{`"exit": 0`, two + `, "{"`, protocol.StepFailed, "bad-outbox: message 2 of 2 is no message", []string{"one", "two", "two"}},
			{`"exit": 0`, `"{\"to\": \"hive\", \"event\": \"claim\"}"`, protocol.StepFailed, "is a command", []string{"one", "two", "two"}},
			{`"exit": 0`, `"{\"to\": \"berta\", \"subject\": \"other\", \"id\": \"m1\"}"`, protocol.StepFailed, "has the id m1, which was used before", []string{"one", "two", "two"}},
			{`"exit": 0`, strings.Repeat(two+",", 64) + two, protocol.StepFailed, "it has 65 messages, and may have 64", []string{"one", "two", "two"}},
		} {
			h.begins("anna", id, fmt.Sprintf(`{"name": "pay%d"}`, i+1))
			r := end(i+1, c.how, c.send)
			if got := sent(); r.Status != c.status || !strings.Contains(r.Error, c.error) || !slices.Equal(got, c.sent) {
				t.Errorf("step %d is %s, %q, and berta got %v", i+1, r.Status, r.Error, got)
			}
		}
		h.refused(protocol.CodeStepDone, "anna", "step_started", id, `{"step": {"name": "pay2"}}`)
	})
}
