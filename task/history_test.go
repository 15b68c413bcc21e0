package task

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/hived/hived/protocol"
)

// TestHistoryComesBack checks that any list of steps reads back as it was written.
func TestHistoryComesBack(t *testing.T) {
	agent := rapid.SampledFrom([]protocol.AgentID{"a", "bob", protocol.Hive, ""})
	rapid.Check(t, func(t *rapid.T) {
		var h history
		var want []Step
		seq, at := protocol.Seq(0), start
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			seq += protocol.Seq(rapid.Uint64Range(1, 1<<40).Draw(t, "events"))
			at = at.Add(time.Duration(rapid.Int64Range(-1e12, 1e15).Draw(t, "pause")))
			s := Step{
				Seq: seq, At: at, Event: rapid.SampledFrom(eventCodes).Draw(t, "event"), To: rapid.SampledFrom(stateCodes).Draw(t, "state"), By: agent.Draw(t, "by"),
				Epoch: rapid.Uint64().Draw(t, "epoch"), Attempt: rapid.Int().Draw(t, "attempt"), Agents: rapid.SliceOfN(agent, 0, 4).Draw(t, "agents"),
				Note: rapid.StringN(0, 200, -1).Draw(t, "note"),
			}
			if s.By == "" && len(want) > 0 {
				s.By = want[len(want)-1].By // every event has an author
			}
			h, want = h.with(s), append(want, s)
		}
		if diff := cmp.Diff(want[max(0, len(want)-lastSteps):], h.steps(), cmpopts.EquateEmpty()); diff != "" {
			t.Error(diff)
		}
		if !h.whole() || h[:len(h)-1].whole() {
			t.Error("the history is not whole, or a part of it counts as whole")
		}
	})
}

// TestHistoryIsBounded checks that a long history keeps its last steps, in no more
// memory than they need.
func TestHistoryIsBounded(t *testing.T) {
	s := in(t, InProgress)
	for range 10_000 {
		s.on("alice", Progress)
	}
	s.on("alice", TransientError)
	s.on(protocol.Hive, Retry)
	task := s.Get(one)
	steps := task.history.steps()
	if n := len(steps); n != lastSteps || steps[n-1].Event != Retry || steps[n-1].Seq != s.seq || !steps[n-1].At.Equal(s.now) || steps[n-2].Event != TransientError || steps[0].Event != Progress || steps[0].Seq != s.seq-lastSteps+1 || steps[0].By != "alice" {
		t.Errorf("%d steps: %+v", n, steps)
	}
	if size := len(task.history); size > 1<<10 || cap(task.history) > size+size/4 {
		t.Errorf("%d bytes in room for %d", size, cap(task.history))
	}
	if v := ViewOf(task); !v.CreatedAt.Equal(start.Add(time.Second)) {
		t.Errorf("the view shows that the task was created at %s", v.CreatedAt)
	}
	if diff := cmp.Diff(records(s.Book), records(restored(t, records(s.Book)))); diff != "" {
		t.Error(diff)
	}
}

// TestLongWordsAreBounded checks that a long history keeps its newest texts whole,
// and of older ones the beginning and where the whole text is.
func TestLongWordsAreBounded(t *testing.T) {
	s := in(t, InProgress)
	long := strings.Repeat("é", 8<<10)
	for i := range 3 * lastSteps {
		s.do(protocol.TaskEvent{Event: Progress, By: "alice", Reason: strconv.Itoa(i) + long})
		if task := s.Get(one); len(task.history) > historyMost {
			t.Fatalf("step %d: the history takes %d bytes", i, len(task.history))
		}
	}
	s.do(protocol.TaskEvent{Event: Release, By: "alice", Reason: long})
	task := s.Get(one)
	steps := task.history.steps()
	if len(steps) != lastSteps {
		t.Fatalf("%d steps", len(steps))
	}
	for i, step := range steps {
		whole := strings.HasSuffix(step.Note, long)
		if want := i > lastSteps-4; whole != want || !whole && !strings.HasSuffix(step.Note, "éé… (event "+step.Seq.String()+" of the log has all)") {
			t.Errorf("step %d of %d has %d bytes, and ends with %q", i, len(steps), len(step.Note), step.Note[max(0, len(step.Note)-60):])
		}
		if step.Seq != s.seq-protocol.Seq(len(steps)-1-i) || i < len(steps)-1 && step.By != "alice" {
			t.Errorf("step %d is event %d by %s", i, step.Seq, step.By)
		}
	}
	if diff := cmp.Diff(&Leaving{By: "alice", Seq: s.seq, Reason: long}, task.Left); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(records(s.Book), records(restored(t, records(s.Book)))); diff != "" {
		t.Error(diff)
	}
}

// TestSteps checks that a step says to whom a task was offered, what was reached,
// what was asked, or why.
func TestSteps(t *testing.T) {
	s := in(t, Offered)
	s.on("alice", Accept)
	s.do(
		protocol.TaskEvent{Event: Start, By: "alice", Attempt: 1},
		protocol.TaskEvent{Event: Progress, By: "alice", Reason: "r", Checkpoint: &protocol.Checkpoint{Milestone: "half"}},
		protocol.TaskEvent{Event: PauseForApproval, By: "alice", Reason: "ambiguity", Question: "left or right?"},
		protocol.TaskEvent{Event: ApprovalDenied, By: "human", Reason: "neither"},
	)
	at := func(n int) time.Time { return start.Add(time.Duration(n) * time.Second) }
	want := []Step{
		{Seq: 1, At: at(1), Event: Create, To: Unassigned, By: "planner"},
		{Seq: 2, At: at(2), Event: Offer, To: Offered, By: protocol.Hive, Agents: []protocol.AgentID{"alice", "bob"}},
		{Seq: 3, At: at(3), Event: Accept, To: Pending, By: "alice", Epoch: 1},
		{Seq: 4, At: at(4), Event: Start, To: InProgress, By: "alice", Epoch: 1, Attempt: 1},
		{Seq: 5, At: at(5), Event: Progress, To: InProgress, By: "alice", Epoch: 1, Attempt: 1, Note: "half"},
		{Seq: 6, At: at(6), Event: PauseForApproval, To: Paused, By: "alice", Epoch: 1, Attempt: 1, Note: "left or right?: ambiguity"},
		{Seq: 7, At: at(7), Event: ApprovalDenied, To: Failed, By: "human", Epoch: 1, Attempt: 1, Note: "neither"},
	}
	if diff := cmp.Diff(want, s.Get(one).history.steps()); diff != "" {
		t.Error(diff)
	}
}
