package task

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/protocol"
)

// filesAfter returns the files below tasks/<id>/ of the first task, as its events
// leave them.
func filesAfter(tb testing.TB, s *story, events ...protocol.TaskEvent) map[string][]byte {
	tb.Helper()
	files := map[string][]byte{}
	put := func(changes []protocol.Change, err error) {
		tb.Helper()
		testenv.Must(tb, err)
		for _, c := range changes {
			files[strings.TrimPrefix(c.Path, protocol.TaskDir(one)+"/")] = c.Data
		}
	}
	for _, e := range events {
		full := s.fill(e)
		s.do(e)
		put(Changes(protocol.Event{Seq: s.seq, TS: s.now}, full))
	}
	doc, err := Document(s.Get(one))
	testenv.Must(tb, err)
	files[protocol.TaskView] = doc
	return files
}

// workedOn returns the files of a task that alice has, at epoch 1, with a
// checkpoint.
func workedOn(tb testing.TB, more ...protocol.TaskEvent) map[string][]byte {
	tb.Helper()
	c, err := NewCheckpoint(&protocol.TaskReport{Milestone: "m", Checkpoint: jsontext.Value(`{"a":1}`)}, nil)
	testenv.Must(tb, err)
	return filesAfter(tb, newStory(tb), append([]protocol.TaskEvent{
		{Event: Create, By: "planner", Spec: &protocol.TaskSpec{Title: "mend the roof", Gate: "make"}, GateBy: "planner"},
		{Event: Claim, By: "alice"},
		{Event: Start, By: "alice", Attempt: 1},
		{Event: Progress, By: "alice", Checkpoint: c},
	}, more...)...)
}

// edited returns the files with one text in one file replaced.
func edited(files map[string][]byte, name, from, to string) map[string][]byte {
	files[name] = []byte(strings.Replace(string(files[name]), from, to, 1))
	return files
}

func without(files map[string][]byte, name string) map[string][]byte {
	delete(files, name)
	return files
}

// TestAdopt checks what a task's files lead to when a new log is begun: its epoch
// never goes down, and a damaged task is ended (spec §1.6).
func TestAdopt(t *testing.T) {
	stall := protocol.TaskEvent{Event: HeartbeatLost, By: protocol.Hive, Reason: "silent"}
	pause := protocol.TaskEvent{Event: PauseForApproval, By: "alice", Question: "may I?"}
	done := protocol.TaskEvent{Event: Complete, By: "alice", Result: &protocol.TaskOutput{Value: jsontext.Value(`"done"`)}}
	crash := protocol.TaskEvent{Event: Release, By: "alice", Charge: protocol.ChargeRetry, Outcome: &protocol.Outcome{Kind: protocol.OutcomeCrashed, Signal: "SEGV"}}
	for _, tt := range []struct {
		name   string
		files  map[string][]byte
		state  State
		epoch  uint64
		holder protocol.AgentID
		note   string // or what is damaged
	}{
		{"as it was", workedOn(t), InProgress, 1, "alice", ""},
		{"stalled", workedOn(t, stall), Stalled, 1, "alice", ""},
		{"completed", workedOn(t, done), Completed, 1, "alice", ""},
		{"its holder is gone", workedOn(t, stall, protocol.TaskEvent{Event: Release, By: protocol.Hive}, protocol.TaskEvent{Event: Claim, By: "gone"}), Unassigned, 3, "", "gone was no agent"},
		{"nobody to ask is left", edited(workedOn(t, pause), "task.json", `"question": {`, `"asks": {`), Unassigned, 2, "", "what it waited for"},
		{"an older task.json", edited(workedOn(t), "checkpoint.json", `"epoch": 1`, `"epoch": 7`), Unassigned, 8, "", "older than its other files"},
		{"a result that task.json does not know", edited(workedOn(t, done), "task.json", `"completed"`, `"in_progress"`), Completed, 1, "alice", ""},
		{"asked to stop, and its holder is gone", edited(workedOn(t, protocol.TaskEvent{Event: Cancel, By: "planner"}), "task.json", `"holder": "alice"`, `"holder": "gone"`), Cancelled, 2, "", "gone was no agent"},
		{"without its checkpoint", without(workedOn(t), "checkpoint.json"), InProgress, 1, "alice", "checkpoint was not there"},
		{"a torn task.json", edited(workedOn(t), "task.json", `"history"`, ""), Failed, 1, "", "task.json: it is no whole JSON"},
		{"a torn brief", edited(workedOn(t), "brief.json", "}", ""), Failed, 1, "", "brief.json: it is no whole JSON"},
		{"no brief", without(workedOn(t), "brief.json"), Failed, 1, "", "brief.json: it is missing"},
		{"another gate", edited(workedOn(t), "brief.json", `"gate": "make"`, `"gate": "true"`), Failed, 1, "", "its gate is not the one"},
		{"another checkpoint", edited(workedOn(t), "checkpoint.json", `"a": 1`, `"a": 2`), Failed, 1, "", "its sum is not that"},
		{"an empty checkpoint", edited(workedOn(t), "checkpoint.json", string(workedOn(t)["checkpoint.json"]), ""), Failed, 1, "", "checkpoint.json: it is no whole JSON"},
		{"of another task", edited(workedOn(t), "task.json", string(one), string(two)), Failed, 1, "", "where this task stands"},
		{"completed, with a torn result", edited(workedOn(t, done), "result.json", "}", ""), Completed, 1, "", "result.json: it is no whole JSON"},
		{"a torn outcome", edited(workedOn(t, crash), "outcome.json", "}", ""), Failed, 1, "", "outcome.json: it is no whole JSON"},
		{"an outcome of no kind", edited(workedOn(t, crash), "outcome.json", `"crashed"`, `"sung"`), Failed, 1, "", "not the outcome of this task"},
		{"without its outcome", without(workedOn(t, crash), "outcome.json"), Unassigned, 1, "", ""},
		{"nothing but junk", map[string][]byte{"task.json": nil, "brief.json": []byte("[]")}, Failed, 0, "", "task.json: it is no whole JSON"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e, err := Adopt(one, tt.files, func(id protocol.AgentID) bool { return id != "gone" })
			note := e.Adopted.Note
			if err != nil {
				note = err.Error()
			}
			if !strings.Contains(note, tt.note) || tt.note == "" && note != "" {
				t.Errorf("the note is %q, want one with %q", note, tt.note)
			}
			line, fault := json.Marshal(&e)
			if fault != nil {
				t.Fatal(fault)
			}
			var again protocol.TaskEvent
			if fault := json.Unmarshal(line, &again); fault != nil {
				t.Fatal(fault)
			}
			b := NewBook()
			b.ViewsFrom(1)
			ev := protocol.Event{Seq: 3, TS: start.AddDate(0, 1, 0)}
			testenv.Must(t, b.Apply(ev, &again))
			x := b.Get(one)
			if x.State != tt.state || x.Epoch != tt.epoch || x.Holder != tt.holder && !Ended(x.State) {
				t.Errorf("%s at epoch %d with %q, want %s at %d with %q", x.State, x.Epoch, x.Holder, tt.state, tt.epoch, tt.holder)
			}
			if !Held(x.State) && x.State != Completed && x.Epoch > 0 && !x.Fenced(x.Epoch) {
				t.Error("a late report of an earlier holder is not fenced")
			}
			if x.Title == "" || x.Creator == "" || x.BriefAt != 3 {
				t.Errorf("its title is %q, its creator %q, its brief from event %d", x.Title, x.Creator, x.BriefAt)
			}
			if d := cmp.Diff(records(b), records(restored(t, records(b)))); d != "" {
				t.Errorf("from a snapshot (-want +got):\n%s", d)
			}
			if err := b.Apply(ev, &again); err == nil {
				t.Error("the task was adopted twice")
			}
		})
	}
}

// TestAdoptedQuestions checks that the questions of an adopted task keep their
// numbers, and that no later one gets the number of an earlier one, though the
// events of the new log begin at 1.
func TestAdoptedQuestions(t *testing.T) {
	s := newStory(t)
	s.seq = 40
	answer := &protocol.Question{Ask: 45, Question: "may I?", AskedBy: "alice", AskedAt: start, Answers: []protocol.Answer{{By: "human", At: start, Event: ApprovalGranted, Comment: "yes"}}}
	vote := &protocol.Question{Ask: 47, Question: "and now?", AskedBy: "alice", AskedAt: start, Answers: []protocol.Answer{{By: "bob", At: start, Event: ApprovalVote, Comment: "me too"}}}
	files := filesAfter(
		t, s,
		protocol.TaskEvent{Event: Create, By: "planner", Spec: &protocol.TaskSpec{Title: "mend", Approvals: 2}},
		protocol.TaskEvent{Event: Claim, By: "alice"},
		protocol.TaskEvent{Event: Start, By: "alice", Attempt: 1},
		protocol.TaskEvent{Event: Progress, By: "alice"},
		protocol.TaskEvent{Event: PauseForApproval, By: "alice", Question: "may I?"},
		protocol.TaskEvent{Event: ApprovalGranted, By: "human", Answered: answer},
		protocol.TaskEvent{Event: PauseForApproval, By: "alice", Question: "and now?"},
		protocol.TaskEvent{Event: ApprovalVote, By: "bob", Answered: vote},
	)
	e, err := Adopt(one, files, func(protocol.AgentID) bool { return true })
	testenv.Must(t, err)
	after := newStory(t)
	again := filesAfter(t, after, e)
	for _, name := range []string{"answers/45.json", "answers/47.json", "brief.json"} {
		if d := cmp.Diff(string(files[name]), string(again[name])); d != "" {
			t.Errorf("%s (-before +after):\n%s", name, d)
		}
	}
	x := after.Get(one)
	if ask, text := x.Open(); ask != 47 || text != "and now?" || !cmp.Equal(x.Questions.Votes(), []protocol.AgentID{"bob"}) || x.Questions.Count != 2 {
		t.Errorf("question %d, %q, of %d, with the votes of %v", ask, text, x.Questions.Count, x.Questions.Votes())
	}
	after.on("human", ApprovalGranted)
	after.on("alice", PauseForApproval)
	if ask, _ := x.Open(); ask != 48 {
		t.Errorf("the next question has the number %d, and event %d asked it", ask, after.seq)
	}
}

// TestAdoptedOutcome checks that a new log takes over the last outcome of a task with who
// reported it and when, and the counts of its executions.
func TestAdoptedOutcome(t *testing.T) {
	files := workedOn(t,
		protocol.TaskEvent{Event: TransientError, By: "alice", Charge: protocol.ChargeFree, Outcome: &protocol.Outcome{Kind: protocol.OutcomeRateLimited}},
		protocol.TaskEvent{Event: Retry, By: protocol.Hive, Attempt: 2},
		protocol.TaskEvent{Event: Release, By: "alice", Attempt: 2, Charge: protocol.ChargeRetry, Reason: "it crashed", Outcome: &protocol.Outcome{Kind: protocol.OutcomeCrashed, Signal: "SEGV", CostMicros: 7}},
	)
	e, err := Adopt(one, files, func(protocol.AgentID) bool { return true })
	testenv.Must(t, err)
	after := newStory(t)
	again := filesAfter(t, after, e)
	var was, is LastOutcome
	testenv.Must(t, json.Unmarshal(files["outcome.json"], &was))
	testenv.Must(t, json.Unmarshal(again["outcome.json"], &is))
	if was.Seq = is.Seq; was.Event != Release || was.Reason != "it crashed" || was.CostMicros != 7 {
		t.Errorf("the outcome was %+v", was)
	}
	if d := cmp.Diff(was, is); d != "" {
		t.Errorf("the outcome (-before +after):\n%s", d)
	}
	if x := after.Get(one); x.Retries != 1 || x.Efforts().Free != 1 || x.Efforts().Crashes != 1 || x.Efforts().At != after.seq {
		t.Errorf("after that it has %d retries and %+v", x.Retries, x.Efforts())
	}
}

// TestAdoptedVoteWithoutItsFile checks that a vote whose file was deleted still
// counts, without its text.
func TestAdoptedVoteWithoutItsFile(t *testing.T) {
	files := filesAfter(
		t, newStory(t),
		protocol.TaskEvent{Event: Create, By: "planner", Spec: &protocol.TaskSpec{Title: "mend", Approvals: 2}},
		protocol.TaskEvent{Event: Claim, By: "alice"},
		protocol.TaskEvent{Event: Start, By: "alice", Attempt: 1},
		protocol.TaskEvent{Event: PauseForApproval, By: "alice", Question: "may I?"},
		protocol.TaskEvent{Event: ApprovalVote, By: "bob"},
	)
	e, err := Adopt(one, files, func(protocol.AgentID) bool { return true })
	testenv.Must(t, err)
	if x := newStory(t).do(e); !cmp.Equal(x.Questions.Votes(), []protocol.AgentID{"bob"}) {
		t.Errorf("the task has the votes of %v", x.Questions.Votes())
	}
}

// FuzzAdopt checks that, whatever the files hold, the event can be written and
// folded, and the epoch is not below those that they show.
func FuzzAdopt(f *testing.F) {
	for _, files := range []map[string][]byte{workedOn(f), workedOn(f, protocol.TaskEvent{Event: PauseForApproval, By: "alice", Question: "may I?"}), {}} {
		f.Add(files["task.json"], files["brief.json"], files["checkpoint.json"], []byte(`{"ask":5,"answers":[{"by":"b"}]}`))
	}
	f.Fuzz(func(t *testing.T, view, brief, checkpoint, answer []byte) {
		e, damaged := Adopt(one, map[string][]byte{"task.json": view, "brief.json": brief, "checkpoint.json": checkpoint, "answers/5.json": answer}, func(id protocol.AgentID) bool { return id == "alice" })
		line, err := json.Marshal(&e)
		testenv.Must(t, err)
		var again protocol.TaskEvent
		testenv.Must(t, json.Unmarshal(line, &again))
		b := NewBook()
		b.ViewsFrom(1)
		testenv.Must(t, b.Apply(protocol.Event{Seq: 3, TS: start}, &again))
		restored(t, records(b))
		var seen View
		if json.Unmarshal(view, &seen) == nil && damaged == nil && b.Get(one).Epoch < seen.Epoch {
			t.Errorf("epoch %d became %d", seen.Epoch, b.Get(one).Epoch)
		}
		if damaged != nil && !Ended(b.Get(one).State) {
			t.Errorf("damaged, and its state is %s", b.Get(one).State)
		}
	})
}
