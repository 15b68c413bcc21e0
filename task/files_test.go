package task

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/protocol"
)

// TestChanges checks the files of a task on the disk (spec §8.5).
func TestChanges(t *testing.T) {
	for _, tt := range []struct {
		name string
		e    protocol.TaskEvent
		want map[string]string
	}{
		{"nothing", protocol.TaskEvent{Event: Start}, map[string]string{}},
		{
			"create",
			protocol.TaskEvent{
				Event: Create, By: "planner", Needs: []protocol.TaskID{two}, Resumes: three, Repairs: four,
				Spec: &protocol.TaskSpec{
					Name: "local", Title: "mend\u2028it", Body: "b", To: []protocol.Address{"@r"}, Needs: []string{"n"}, Priority: 3, Gate: "make", Approvals: 2,
					Approvers: []protocol.Address{"eve"}, Data: jsontext.Value(`{"z":1,"a":[ ]}`),
				},
				Checkpoint: &protocol.Checkpoint{Milestone: "m", Schema: "s", SHA256: "ab", Data: jsontext.Value(`[1]`)},
			},
			map[string]string{
				"brief.json": `{
  "id": "` + string(one) + `",
  "title": "mend` + "\u2028" + `it",
  "body": "b",
  "to": [
    "@r"
  ],
  "needs": [
    "` + string(two) + `"
  ],
  "priority": 3,
  "gate": "make",
  "approvals": 2,
  "approvers": [
    "eve"
  ],
  "data": {
    "z": 1,
    "a": []
  },
  "resumes": "` + string(three) + `",
  "repairs": "` + string(four) + `",
  "creator": "planner",
  "created_at": "2026-11-21T09:00:00.000000000Z"
}
`,
				"checkpoint.json": `{
  "task": "` + string(one) + `",
  "seq": 7,
  "by": "planner",
  "epoch": 0,
  "at": "2026-11-21T09:00:00.000000000Z",
  "milestone": "m",
  "schema": "s",
  "sha256": "ab",
  "data": [
    1
  ]
}
`,
			},
		},
		{
			"complete",
			protocol.TaskEvent{Event: Complete, By: "alice", Epoch: 2, Result: &protocol.TaskOutput{Value: jsontext.Value(`"done"`)}},
			map[string]string{"result.json": `{
  "task": "` + string(one) + `",
  "seq": 7,
  "by": "alice",
  "epoch": 2,
  "at": "2026-11-21T09:00:00.000000000Z",
  "result": "done"
}
`},
		},
	} {
		tt.e.Task = one
		list, err := Changes(protocol.Event{Seq: 7, TS: start.In(time.FixedZone("", 3600))}, &tt.e)
		testenv.Must(t, err)
		got := map[string]string{}
		for _, c := range list {
			if c.Op != protocol.Put {
				t.Errorf("%s: %+v", tt.name, c)
			}
			got[strings.TrimPrefix(c.Path, "tasks/"+string(one)+"/")] = string(c.Data)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: %s", tt.name, diff)
		}
	}
	bad := protocol.TaskEvent{Task: one, Event: Complete, Result: &protocol.TaskOutput{Value: jsontext.Value(`{`)}}
	if list, err := Changes(protocol.Event{}, &bad); err == nil {
		t.Errorf("invalid JSON returned %v", list)
	}
}

// TestChangesComeBack checks that an event that was read from its line in the log
// writes the same bytes as when it was new, and leads to the same task.
func TestChangesComeBack(t *testing.T) {
	for _, data := range []string{
		`{"b":1,"a":2}`, " { \"x\" :\t[ 1 ,\n2 ] } ", `"\u0041\u00e9\/\u2028\u001f"`, "\"\u2028\u2029é\"", `"\ud83d\ude00 <&>"`, `123456789012345678901234567890.5000`, `1E400`, `-0`, `-0.0`, `null`, `[]`, `{}`, `{"":""}`,
	} {
		v := jsontext.Value(data)
		e := &protocol.TaskEvent{
			Task: one, Event: Create, To: Unassigned, By: "planner", Reason: "r\u2029", NotBefore: start.Add(time.Hour + 1),
			Spec: &protocol.TaskSpec{Title: "t\u2028\x00", Body: "\ufeffa\r\n", Data: v}, Checkpoint: &protocol.Checkpoint{Schema: "s", Data: v}, Result: &protocol.TaskOutput{Value: v},
		}
		ev := protocol.Event{Seq: 1, TS: start.Add(123456789), Body: e}
		line, _, err := protocol.AppendLine(nil, ev, protocol.Sum{})
		testenv.Must(t, err)
		back, _, err := protocol.DecodeLine(bytes.TrimSuffix(line, []byte("\n")))
		testenv.Must(t, err)
		again, ok := back.Body.(*protocol.TaskEvent)
		if !ok {
			t.Fatalf("%T", back.Body)
		}
		want, err := Changes(ev, e)
		got, err2 := Changes(back, again)
		if err != nil || err2 != nil || len(want) != 3 {
			t.Fatalf("%s: %v, %v", data, err, err2)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", data, diff)
		}
		a, b := NewBook(), NewBook()
		if err, err2 := a.Apply(ev, e), b.Apply(back, again); err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		if diff := cmp.Diff(records(a), records(b)); diff != "" {
			t.Errorf("%s: %s", data, diff)
		}
	}
}

// TestDocument checks that task.json is one object, with a line for each step, and
// says where the rest is.
func TestDocument(t *testing.T) {
	s := in(t, InProgress)
	s.do(protocol.TaskEvent{Event: Progress, By: "alice", Checkpoint: &protocol.Checkpoint{Milestone: "half"}, Expected: s.now.Add(time.Hour)})
	task := s.on("planner", Cancel)
	s.Jumped(time.Hour, s.now.Add(time.Hour))
	want := `{
  "id": "` + string(one) + `",
  "title": "mend the roof",
  "state": "in_progress",
  "since": "2026-11-21T09:00:04.000000000Z",
  "epoch": 1,
  "attempt": 1,
  "holder": "alice",
  "taken": [
    {
      "by": "alice",
      "epoch": 1
    }
  ],
  "expected_until": "2026-11-21T10:00:04.000000000Z",
  "cancel_requested": true,
  "creator": "planner",
  "created_at": "2026-11-21T09:00:01.000000000Z",
  "brief": "tasks/` + string(one) + `/brief.json",
  "checkpoint": {
    "path": "tasks/` + string(one) + `/checkpoint.json",
    "seq": 5,
    "milestone": "half"
  },
  "history": [
    {"seq":1,"at":"2026-11-21T09:00:01.000000000Z","event":"create","to":"unassigned","by":"planner"},
    {"seq":2,"at":"2026-11-21T09:00:02.000000000Z","event":"offer","to":"offered","by":"hive","agents":["alice","bob"]},
    {"seq":3,"at":"2026-11-21T09:00:03.000000000Z","event":"accept","to":"pending","by":"alice","epoch":1},
    {"seq":4,"at":"2026-11-21T09:00:04.000000000Z","event":"start","to":"in_progress","by":"alice","epoch":1,"attempt":1},
    {"seq":5,"at":"2026-11-21T09:00:05.000000000Z","event":"progress","to":"in_progress","by":"alice","epoch":1,"attempt":1,"note":"half"},
    {"seq":6,"at":"2026-11-21T09:00:06.000000000Z","event":"cancel","to":"in_progress","by":"planner","epoch":1,"attempt":1}
  ]
}
`
	got, err := Document(task)
	if diff := cmp.Diff(want, string(got)); diff != "" || err != nil {
		t.Error(err, diff)
	}
	for _, state := range States() {
		s := in(t, state)
		doc, err := Document(s.Get(one))
		var v View
		if err2 := json.Unmarshal(doc, &v); err != nil || err2 != nil || v.State != state || len(v.History) == 0 {
			t.Errorf("%s: %v, %v", state, err, err2)
		}
		if (v.Question != nil) != (state == Paused || state == Blocked) || (v.Result != "") != (state == Completed) {
			t.Errorf("%s: %s", state, doc)
		}
	}
	p := in(t, Paused)
	p.on("human", ApprovalVote)
	if v := ViewOf(p.Get(one)); v.Question.Needed != 1 || len(v.Question.Given) != 1 {
		t.Errorf("%+v", v.Question)
	}
}
