package main

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hived/hived/agent"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/durable/faultfs"
	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
	"github.com/hived/hived/view"
)

const (
	one   = protocol.TaskID("01M7YWEVEB97VS93BY45E8GWCS")
	two   = protocol.TaskID("01M7YWEVEB97VS93BY45E8AAAA")
	three = protocol.TaskID("01M8YWEVEB97VS93BY45E8BBBB")
	four  = protocol.TaskID("01M9YWEVEB97VS93BY45E8CCCC")
)

// withTasks is a disk with the files of tasks, each a name and what it holds.
func withTasks(t *testing.T, files map[string]string) durable.FS {
	t.Helper()
	disk := faultfs.New()
	for name, text := range files {
		dir, _, _ := strings.Cut(name, "/")
		testenv.Must(t, disk.MkdirAll("tasks/"+dir, 0o755))
		testenv.Must(t, durable.Publish(disk, "tasks/"+name, []byte(text), 0o644, false))
	}
	return disk
}

// reader is the command line of somebody who reads, and what it printed.
func reader(env map[string]string) (a *app, out, said *bytes.Buffer) {
	out, said = &bytes.Buffer{}, &bytes.Buffer{}
	return &app{out: &printer{w: out}, stderr: said, stdin: strings.NewReader(""), getenv: func(k string) string { return env[k] }, json: true}, out, said
}

// A command that names no task, or several, is refused with what to do.
func TestTaskArg(t *testing.T) {
	t.Parallel()
	disk := withTasks(t, map[string]string{string(one) + "/task.json": "", string(two) + "/task.json": "", string(three) + "/task.json": ""})
	for said, want := range map[string]struct {
		id     protocol.TaskID
		status int
		text   string
	}{
		"gwcs":   {one, protocol.ExitDone, ""},
		"01M7":   {"", protocol.ExitUsage, `"01M7" fits 2 tasks, ` + string(two) + ` and ` + string(one) + ` among them; write more of the id`},
		"nosuch": {"", protocol.ExitNotFound, `there is no task "nosuch"; ` + "`hived task list` shows all"},
	} {
		id, err := resolveTask(disk, said)
		if id != want.id || err == nil != (want.text == "") || err != nil && (exitStatus(err) != want.status || err.Error() != want.text) {
			t.Errorf("%s: %s, %v", said, id, err)
		}
	}
}

// What was said counts before all else. Who does not know his epoch is told how to
// say it.
func TestHolderEpoch(t *testing.T) {
	t.Parallel()
	disk := withTasks(t, map[string]string{
		string(one) + "/task.json": `{"id":"` + string(one) + `","state":"pending","epoch":2,"taken":[{"by":"bob","epoch":1},{"by":"bob","epoch":2}],"history":[]}`,
		string(two) + "/task.json": `{"id":`,
	})
	for name, tt := range map[string]struct {
		env  map[string]string
		said uint64
		id   protocol.TaskID
		want string
	}{
		"said":             {map[string]string{"HIVE_AGENT": "bob", "HIVE_EPOCH": "8"}, 7, one, "7"},
		"said, and torn":   {map[string]string{}, 7, two, "7"},
		"HIVE_EPOCH":       {map[string]string{"HIVE_AGENT": "bob", "HIVE_EPOCH": "8"}, 0, one, "8"},
		"no such task":     {map[string]string{}, 0, three, "0"},
		"more than once":   {map[string]string{"HIVE_AGENT": "bob"}, 0, one, "exit 2: bob has had this task more than once, at last under epoch 2, and an earlier run may be at work still; give --epoch N, or export HIVE_EPOCH=N, as accept or claim printed it"},
		"HIVE_EPOCH wrong": {map[string]string{"HIVE_EPOCH": "x"}, 0, one, `exit 2: HIVE_EPOCH is "x"; it is the number that accept or claim gave`},
		"a torn view":      {map[string]string{}, 0, two, "exit 1: find the epoch: read tasks/" + string(two) + "/task.json: it is not what hived wrote: "},
	} {
		a, _, _ := reader(tt.env)
		n, err := a.holderEpoch(disk, tt.said, tt.id)
		got := digits(n)
		if err != nil {
			got = "exit " + digits(exitStatus(err)) + ": " + err.Error()
		}
		if said, torn := strings.CutSuffix(got, "; or give --epoch N"); got != tt.want && (!torn || !strings.HasPrefix(said, tt.want)) {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
}

// What there is of a task is shown as one object, with what its files hold.
func TestShowTask(t *testing.T) {
	t.Parallel()
	disk := withTasks(t, map[string]string{
		string(one) + "/task.json": `{"id":"` + string(one) + `","title":"cut…","state":"completed","epoch":2,"attempt":1,"creator":"human","brief":"b",
			"checkpoint":{"path":"tasks/x/checkpoint.json","seq":7,"milestone":"half"},"result":"tasks/x/result.json","history":[{"seq":9,"event":"complete","to":"completed","by":"bob"}]}`,
		string(one) + "/brief.json":      `{"id":"` + string(one) + `","title":"the whole title","body":"do it","gate":"make","data":{"n":1},"creator":"human"}`,
		string(one) + "/checkpoint.json": `{"task":"` + string(one) + `","seq":7,"by":"bob","epoch":2,"at":"2026-11-21T09:00:00Z","milestone":"half","schema":"s/1","sha256":"ab","data":{"done":3}}`,
		string(one) + "/result.json":     `{"task":"` + string(one) + `","seq":9,"by":"bob","epoch":2,"at":"2026-11-21T09:00:00Z","result":{"ok":true}}`,
	})
	shown, problems, err := readTask(disk, one)
	if err != nil || len(problems) > 0 {
		t.Fatal(err, problems)
	}
	a, out, _ := reader(nil)
	testenv.Must(t, a.answer(shown, func(*printer) {}))
	var got map[string]any
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err, out)
	}
	for key, want := range map[string]any{
		"id": string(one), "title": "the whole title", "state": "completed", "epoch": 2.0, "attempt": 1.0, "body": "do it", "gate": "make",
		"data": map[string]any{"n": 1.0}, "result": map[string]any{"ok": true},
		"checkpoint": map[string]any{
			"path": "tasks/x/checkpoint.json", "task": string(one), "seq": 7.0, "by": "bob", "epoch": 2.0, "at": "2026-11-21T09:00:00Z",
			"milestone": "half", "schema": "s/1", "sha256": "ab", "data": map[string]any{"done": 3.0},
		},
	} {
		if diff := cmp.Diff(want, got[key]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", key, diff)
		}
	}
	if steps, ok := got["history"].([]any); !ok || len(steps) != 1 {
		t.Errorf("history %v", got["history"])
	}
}

// Files that are missing or torn are reported, and the rest is shown.
func TestShowTaskWithoutItsFiles(t *testing.T) {
	t.Parallel()
	disk := withTasks(t, map[string]string{
		string(one) + "/task.json":       `{"id":"` + string(one) + `","title":"x\u001b","state":"paused","question":{"ask":7,"question":"?","approvers":["human"],"needed":2,"given":["ann"]},"checkpoint":{"path":"p","seq":7,"milestone":"half"},"result":"r","history":[]}`,
		string(one) + "/checkpoint.json": `{"task":`,
		string(two) + "/brief.json":      `{}`,
		string(three) + "/task.json":     `{"id":"` + string(one) + `","state":"pending","history":[]}`,
	})
	shown, problems, err := readTask(disk, one)
	if err != nil || len(problems) != 3 {
		t.Fatalf("%v, problems %v; want the brief, the checkpoint and the result", err, problems)
	}
	if c := shown.Checkpoint; c == nil || c.Seq != 7 || c.Milestone != "half" || c.Path != "p" {
		t.Errorf("checkpoint %+v, want what the view has", c)
	}
	a, out, _ := reader(nil)
	a.showTask(a.out, shown)
	if got := out.String(); !strings.Contains(got, `x\x1b`) || !strings.Contains(got, "1 of 2 ann") || strings.Contains(got, "\x1b") {
		t.Errorf("shown %s", got)
	}
	for id, want := range map[protocol.TaskID]string{two: "hived verify", three: "not what hived wrote", "01M9YWEVEB97VS93BY45E8BBBB": "there is no task"} {
		if _, _, err := readTask(disk, id); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", id, err, want)
		}
	}
}

func TestListTasks(t *testing.T) {
	t.Parallel()
	line := func(id protocol.TaskID, rest string) string {
		return `{"id":"` + string(id) + `","title":"t\u202e",` + rest + `,"history":[]}`
	}
	disk := withTasks(t, map[string]string{
		string(one) + "/task.json":   line(one, `"state":"offered","offered":["bob"]`),
		string(two) + "/task.json":   line(two, `"state":"pending","holder":"bob"`),
		string(three) + "/task.json": `{"torn`,
	})
	a, out, said := reader(nil)
	testenv.Must(t, a.listTasks(disk, unheard, func(v *task.View) bool { return concerns(v, "bob") }))
	var got []task.View
	if err := json.Unmarshal(out.Bytes(), &got); err != nil || len(got) != 2 || got[0].ID != two || got[1].State != task.Offered {
		t.Errorf("%v, %v", got, err)
	}
	if !strings.Contains(said.String(), string(three)) {
		t.Errorf("said %q, want the torn one", said)
	}
	a, out, _ = reader(nil)
	a.json = false
	if err := a.listTasks(disk, unheard, func(v *task.View) bool { return v.State == task.Pending }); err != nil || strings.Count(out.String(), "\n") != 2 || strings.Contains(out.String(), "\u202e") {
		t.Errorf("%v: %s", err, out)
	}
	a, out, _ = reader(nil)
	if err := a.listTasks(faultfs.New(), unheard, nil); err != nil || out.String() != "[]\n" {
		t.Errorf("without tasks: %v, %s", err, out)
	}
	if err := checkState("runing"); exitStatus(err) != protocol.ExitUsage {
		t.Error(err)
	}
	if err := checkState("in_progres"); err == nil || !strings.Contains(err.Error(), "did you mean in_progress?") {
		t.Error(err)
	}
}

// The last event about the task that a command names is how it went; of one that
// names none, the task that it did something to.
func TestTaskAnswer(t *testing.T) {
	t.Parallel()
	taken := &protocol.MessageEvent{ID: "m", From: "bob", Original: mine}
	create := func(id protocol.TaskID, name string) protocol.Body {
		return &protocol.TaskEvent{Task: id, Event: task.Create, To: task.Unassigned, Of: 1, Spec: &protocol.TaskSpec{Name: name, Title: "T"}}
	}
	for name, tt := range map[string]struct {
		ask    agent.Command
		events []protocol.Body
		want   taskAnswer
	}{
		"recovered first": {
			agent.Command{Event: "complete", Task: one},
			bodies(taken, &protocol.TaskEvent{Task: one, Event: task.Recovered, To: task.InProgress, Of: 1}, &protocol.TaskEvent{Task: one, Event: task.Complete, To: task.Completed, Of: 1, Epoch: 2, Attempt: 1}),
			taskAnswer{ID: one, State: task.Completed, Epoch: 2, Attempt: 1, Event: task.Complete, Seq: 3, Message: "m"},
		},
		"a repair beside": {
			agent.Command{Event: task.Failure, Task: one},
			bodies(taken, &protocol.TaskEvent{Task: one, Event: task.BlockOnDependency, To: task.Blocked, Of: 1}, create(two, "")),
			taskAnswer{ID: one, State: task.Blocked, Event: task.BlockOnDependency, Seq: 2, Message: "m"},
		},
		"claimed the best": {
			agent.Command{Event: "claim"},
			bodies(taken, &protocol.TaskEvent{Task: two, Event: task.Claim, To: task.Pending, Of: 1, Epoch: 4}),
			taskAnswer{ID: two, State: task.Pending, Epoch: 4, Event: task.Claim, Seq: 2, Message: "m"},
		},
		"created two": {
			agent.Command{Event: "create"},
			bodies(taken, create(one, "a"), create(two, "")),
			taskAnswer{ID: one, State: task.Unassigned, Event: task.Create, Seq: 2, Message: "m", Tasks: []createdTask{{"a", one, "T"}, {"", two, "T"}}},
		},
		"resumed": {
			agent.Command{Event: task.Resume, Task: one},
			bodies(taken, create(two, "")),
			taskAnswer{ID: two, State: task.Unassigned, Event: task.Create, Seq: 2, Message: "m", Tasks: []createdTask{{"", two, "T"}}},
		},
		"refused": {
			agent.Command{Event: "start", Task: one},
			bodies(taken, &protocol.TaskRejectedEvent{Task: string(one), Of: 1, State: task.Pending, Code: protocol.CodeFenced, Detail: "too late"}),
			taskAnswer{ID: one, State: task.Pending, Event: task.Start, Seq: 2, Message: "m", Code: "fenced", Detail: "too late"},
		},
		"queued": {agent.Command{Event: "start", Task: one}, nil, taskAnswer{ID: one, State: "queued", Event: task.Start, Message: "m"}},
	} {
		c, f := view.NewCommand(view.Sent{By: "bob", ID: "m", File: "f.json"}, string(tt.ask.Event))
		for i, body := range tt.events {
			last := i == len(tt.events)-1
			if f.See(protocol.Event{Seq: protocol.Seq(i + 1), Body: body, More: !last}) != last {
				t.Errorf("%s: it did not see the end of what was decided at event %d", name, i+1)
			}
		}
		if diff := cmp.Diff(tt.want, answerOf(tt.ask, c)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestRefusalStatus(t *testing.T) {
	t.Parallel()
	for code, want := range map[protocol.Code]int{"": protocol.ExitDone, protocol.CodeFenced: protocol.ExitRefused, protocol.CodeUnknownTask: protocol.ExitNotFound} {
		err := refusal(&view.Command{Event: "start", Code: code})
		if got := exitStatus(err); (err == nil) != (want == protocol.ExitDone) || err != nil && got != want {
			t.Errorf("%q: %v with status %d, want %d", code, err, got, want)
		}
	}
}

// A command is no larger than the hive takes.
func TestTaskDraft(t *testing.T) {
	t.Parallel()
	d, err := draftTask(faultfs.New(), agent.Command{Event: task.Accept, Task: one, Within: time.Minute})
	if err != nil || d.MaxBytes != protocol.DefaultSettings().MaxMessageBytes || d.Task != one || d.ExpiresAt.IsZero() {
		t.Errorf("%+v, %v", d, err)
	}
}

// An agent approves nothing.
func TestRefuseAgents(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		env  map[string]string
		want bool
	}{
		"a person":    {nil, true},
		"human":       {map[string]string{"HIVE_AGENT": "human"}, true},
		"an agent":    {map[string]string{"HIVE_AGENT": "bob"}, false},
		"with a task": {map[string]string{"HIVE_AGENT": "human", "HIVE_TASK": string(one)}, false},
	} {
		a, _, _ := reader(tt.env)
		if err := a.refuseAgents("approve"); (err == nil) != tt.want || err != nil && exitStatus(err) != protocol.ExitRefused {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A reader that comes after a command finds what it did.
func TestWaitForViews(t *testing.T) {
	t.Parallel()
	disk := withTasks(t, map[string]string{string(one) + "/task.json": `{"id":"` + string(one) + `","state":"offered","history":[{"seq":1}]}`})
	l := &faultfs.Later{FS: disk, Name: "tasks/" + string(one) + "/task.json", Text: `{"id":"` + string(one) + `","state":"pending","history":[{"seq":1},{"seq":5}]}`}
	waitForViews(t.Context(), l, []view.TaskStep{{Seq: 5, Event: &protocol.TaskEvent{Task: one}}})
	if l.Reads != 3 {
		t.Errorf("it looked %d times, want 3", l.Reads)
	}
}

// Resulting JSON is sent as it is, other text as text.
func TestReadJSON(t *testing.T) {
	t.Parallel()
	a, _, _ := reader(nil)
	a.stdin = io.MultiReader(strings.NewReader(`{"a":`), strings.NewReader(`1}`))
	if v, err := a.readJSON("--data", "-"); err != nil || string(v) != `{"a":1}` {
		t.Error(string(v), err)
	}
	if v, err := a.readJSON("--data", ""); err != nil || v != nil {
		t.Error(v, err)
	}
	if _, err := a.readJSON("--data", "{a}"); exitStatus(err) != protocol.ExitUsage {
		t.Error(err)
	}
}

func unheard(*task.View) protocol.Signs { return protocol.Signs{} }
