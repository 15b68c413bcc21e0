package task

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/protocol"
)

var start = time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)

const one protocol.TaskID = "01M7YW2XY9P0EW1X9MFVTQ8901"

// story folds events, one a second, and fills in what follows from the task.
type story struct {
	testing.TB
	*Book
	seq protocol.Seq
	now time.Time
}

func newStory(tb testing.TB) *story {
	tb.Helper()
	return &story{TB: tb, Book: NewBook(), now: start}
}

// fill completes an event of the task that it names, or of the first one.
func (s *story) fill(e protocol.TaskEvent) *protocol.TaskEvent {
	if e.Event == Adopted {
		return &e
	}
	if e.Task == "" {
		e.Task = one
	}
	was := s.Get(e.Task)
	if was == nil {
		was = &Task{}
	}
	e.From, e.To = was.State, e.From
	e.To, _ = Next(e.From, e.Event)
	if e.Epoch == 0 {
		if e.Epoch = was.Epoch; e.Event == Claim || e.Event == Accept {
			e.Epoch++
		}
	}
	if e.Attempt == 0 {
		e.Attempt = was.Attempt
	}
	return &e
}

func (s *story) try(e protocol.TaskEvent) error {
	s.now = s.now.Add(time.Second)
	s.seq++
	return s.Apply(protocol.Event{Seq: s.seq, TS: s.now}, s.fill(e))
}

// do folds events; each must be legal.
func (s *story) do(events ...protocol.TaskEvent) *Task {
	s.Helper()
	for _, e := range events {
		testenv.Must(s, s.try(e))
	}
	return s.Get(one)
}

// on folds events that have no members of their own.
func (s *story) on(by protocol.AgentID, events ...Event) *Task {
	s.Helper()
	for _, e := range events {
		ev := protocol.TaskEvent{Event: e, By: by}
		if e == Complete {
			ev.Result = &protocol.TaskOutput{Value: jsontext.Value(`"done"`)}
		}
		s.do(ev)
	}
	return s.Get(one)
}

// in returns a story whose task is in a state; if somebody has the task, it is
// alice.
func in(tb testing.TB, state State) *story {
	tb.Helper()
	s := newStory(tb)
	if state == "" {
		return s
	}
	s.do(protocol.TaskEvent{Event: Create, By: "planner", Spec: &protocol.TaskSpec{Title: "mend the roof"}})
	offer := protocol.TaskEvent{Event: Offer, By: protocol.Hive, Agents: []protocol.AgentID{"alice", "bob"}}
	switch state {
	case Unassigned:
		return s
	case Offered:
		s.do(offer)
		return s
	case Cancelled:
		s.on("planner", Cancel)
		return s
	}
	s.do(offer)
	s.on("alice", Accept)
	if state == Pending {
		return s
	}
	s.do(protocol.TaskEvent{Event: Start, By: "alice", Attempt: 1})
	last := map[State]Event{
		Paused: PauseForApproval, Blocked: BlockOnDependency, Retrying: TransientError, Stalled: HeartbeatLost, Completed: Complete, Failed: FatalError,
	}
	if e, ok := last[state]; ok {
		s.on("alice", e)
	}
	return s
}

// every returns all events, and two that do not exist.
func every() []Event { return append(slices.Clone(eventCodes), "dance", "") }

func everyState() []State { return append([]State{""}, States()...) }

// outcomeFor returns an outcome for the event that needs one.
func outcomeFor(on Event) *protocol.Outcome {
	if on != Effort {
		return nil
	}
	return &protocol.Outcome{Kind: protocol.OutcomeCompleted}
}

// stepFor returns a record for the events of steps.
func stepFor(on Event) *protocol.StepRecord {
	if on != StepStarted && on != StepEnded {
		return nil
	}
	return &protocol.StepRecord{N: 1, Name: "build", Status: protocol.StepExecuting, Key: string(one) + ":build"}
}

// TestEveryPair checks that in each state an event without a row is refused and
// changes nothing (spec §8.1).
func TestEveryPair(t *testing.T) {
	legal := 0
	for _, from := range everyState() {
		for _, on := range every() {
			s := in(t, from)
			before := records(s.Book)
			want, ok := Next(from, on)
			err := s.try(protocol.TaskEvent{Event: on, By: "alice", Step: stepFor(on), Outcome: outcomeFor(on)})
			if !ok {
				if !errors.Is(err, ErrIllegal) || !slices.Equal(records(s.Book), before) {
					t.Errorf("%s of a task that is %q: %v", on, from, err)
				}
				continue
			}
			legal++
			if err != nil || s.Get(one).State != want {
				t.Errorf("%s of a task that is %q: %v, now %+v", on, from, err, s.Get(one))
			}
		}
	}
	if rows := len(pairs()) + 1; legal != rows {
		t.Errorf("%d pairs are legal, and there are %d rows", legal, rows)
	}
}

// TestApplyRefuses checks that an event changes nothing if it starts from another
// state than the task's, leads elsewhere than its row, or has an epoch that is
// neither the next nor the same.
func TestApplyRefuses(t *testing.T) {
	for _, state := range States() {
		for _, on := range Events() {
			good := in(t, state).fill(protocol.TaskEvent{Event: on, By: "alice"})
			if good.To == "" {
				continue
			}
			for name, harm := range map[string]func(*protocol.TaskEvent){
				"another from": func(e *protocol.TaskEvent) { e.From = "" },
				"another to":   func(e *protocol.TaskEvent) { e.To += "x" },
				"an old epoch": func(e *protocol.TaskEvent) { e.Epoch -= 2 }, // without a task: far ahead
				"an epoch not its own": func(e *protocol.TaskEvent) {
					if on == Claim || on == Accept {
						e.Epoch--
					} else {
						e.Epoch++
					}
				},
			} {
				s := in(t, state)
				before := records(s.Book)
				bad := *good
				harm(&bad)
				if name == "an old epoch" && good.Epoch < 2 && (on == Claim || on == Accept) {
					continue
				}
				if err := s.Apply(protocol.Event{Seq: 99, TS: s.now}, &bad); !errors.Is(err, ErrIllegal) || !slices.Equal(records(s.Book), before) {
					t.Errorf("%s of a task that is %s with %s: %v", on, state, name, err)
				}
			}
		}
	}
}

// TestFenced checks that each way to lose a task fences its holder's epoch, that a
// holder that ended it itself lost nothing, and that a new holder has a new epoch
// (spec §8.3).
func TestFenced(t *testing.T) {
	for _, tt := range []struct {
		from State
		on   Event
		by   protocol.AgentID
		want bool
	}{
		{Pending, LeaseExpired, protocol.Hive, true},
		{Pending, Release, "alice", true},
		{InProgress, Release, "alice", true},
		{Retrying, Release, "alice", true},
		{Stalled, Release, protocol.Hive, true},
		{Stalled, MaxRetriesExceeded, protocol.Hive, true},
		{Retrying, MaxRetriesExceeded, protocol.Hive, true},
		{Paused, ApprovalDenied, "human", true},
		{Paused, Timeout, protocol.Hive, true},
		{Blocked, FatalError, "human", true},
		{Blocked, DependencyFailed, protocol.Hive, true},
		{Pending, Cancel, "planner", true},
		{InProgress, CancelledEvent, protocol.Hive, true},
		{Stalled, CancelledEvent, protocol.Hive, true},
		{InProgress, CancelledEvent, "alice", false},
		{InProgress, FatalError, "alice", false},
		{InProgress, Complete, "alice", false},
		{InProgress, HeartbeatLost, protocol.Hive, false}, // it may come back
		{Stalled, Recovered, "alice", false},
		{InProgress, Cancel, "planner", false},
		{InProgress, Progress, "alice", false},
	} {
		task := in(t, tt.from).on(tt.by, tt.on)
		if got := task.Fenced(1); got != tt.want {
			t.Errorf("%s of a task that is %s, by %s: fenced %v", tt.on, tt.from, tt.by, got)
		}
		if !task.Fenced(0) || task.Fenced(2) {
			t.Errorf("%s: epoch 0 is fenced %v, epoch 2 %v", tt.on, task.Fenced(0), task.Fenced(2))
		}
	}
	s := in(t, Stalled)
	s.on(protocol.Hive, Release)
	if task := s.on("bob", Claim); task.Epoch != 2 || !task.Fenced(1) || task.Fenced(2) || task.Holder != "bob" {
		t.Errorf("bob has it: %+v", task)
	}
}

// TestWhoHasIt checks that Held, InHand and Busy agree with who has the task in
// each state.
func TestWhoHasIt(t *testing.T) {
	for _, state := range States() {
		task := in(t, state).Get(one)
		busy := slices.Contains([]State{Pending, InProgress, Retrying, Stalled}, state)
		if got := task.Holder == "alice"; Held(state) && !got || got && !Held(state) && !Ended(state) {
			t.Errorf("%s: held %v, by %q", state, Held(state), task.Holder)
		}
		if InHand(state) != busy || (task.Busy() == "alice") != busy {
			t.Errorf("%s: in hand %v, busy %q", state, InHand(state), task.Busy())
		}
	}
}

// TestCounting checks that a retry is counted for each execution that failed, or
// stalled and was ended; the number of the attempt comes with the event.
func TestCounting(t *testing.T) {
	s := in(t, InProgress)
	for n := range 3 {
		s.on("alice", TransientError)
		task := s.do(protocol.TaskEvent{Event: Retry, By: protocol.Hive, Attempt: n + 2})
		if int(task.Retries) != n+1 || task.Attempt != n+2 || task.Epoch != 1 {
			t.Errorf("after retry %d: %d retries, attempt %d, epoch %d", n+1, task.Retries, task.Attempt, task.Epoch)
		}
	}
	s.on(protocol.Hive, ProgressStalled, Release)
	s.on("bob", Claim, Release)
	if task := s.Get(one); task.Retries != 4 {
		t.Errorf("%d retries, want 4: a stall that was ended counts, and a release does not", task.Retries)
	}
	s.on("bob", Claim)
	s.do(protocol.TaskEvent{Event: LeaseExpired, By: protocol.Hive, Attempt: 5})
	if task := s.Get(one); task.Retries != 4 || task.Attempt != 5 {
		t.Errorf("a lease that expired: %d retries, attempt %d", task.Retries, task.Attempt)
	}
	if task := in(t, Stalled).on("alice", Recovered); task.Retries != 0 {
		t.Errorf("a holder that came back: %d retries", task.Retries)
	}
}

// TestRounds checks that Rounds counts the pauses between offers that nobody took,
// each once.
func TestRounds(t *testing.T) {
	s := in(t, Unassigned)
	over := func(on Event, until time.Time) {
		s.on(protocol.Hive, Offer)
		s.do(protocol.TaskEvent{Event: on, By: protocol.Hive, Agents: []protocol.AgentID{"bob"}, Until: until})
	}
	first, second := time.Date(2050, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2051, 1, 1, 0, 0, 0, 0, time.UTC)
	over(OfferExpired, time.Time{}) // others are asked
	over(OfferExhausted, first)
	over(OfferExpired, first) // offered in spite of the pause
	over(OfferExhausted, second)
	if is := s.Get(one); is.Rounds != 2 || is.Ignored != 2 || len(is.Declined) != 1 {
		t.Errorf("%d rounds, %d offers ignored, %v declined", is.Rounds, is.Ignored, is.Declined)
	}
	s.do(protocol.TaskEvent{Event: Offer, By: protocol.Hive, Agents: []protocol.AgentID{"bob"}, Round: 3})
	if is := s.Get(one); len(is.Declined) != 0 {
		t.Errorf("in a new round %v are still left out", is.Declined)
	}
	if got := s.on("alice", Accept).Rounds; got != 0 {
		t.Errorf("%d rounds after somebody took it", got)
	}
}

// TestDeclined checks that an agent that declined or lost a task is remembered
// once, and that the list is bounded.
func TestDeclined(t *testing.T) {
	s := in(t, Offered)
	was := s.Get(one).Offered
	task := s.on("alice", Reject)
	if !slices.Equal(task.Offered, []protocol.AgentID{"bob"}) || !slices.Equal(was, []protocol.AgentID{"alice", "bob"}) {
		t.Errorf("offered to %v, want bob; the list from before has %v", task.Offered, was)
	}
	s.do(protocol.TaskEvent{Event: OfferExpired, By: protocol.Hive, Agents: []protocol.AgentID{"bob", "alice"}})
	s.on("carol", Claim, Release)
	s.on("dave", Claim)
	s.on(protocol.Hive, LeaseExpired)
	if want := []protocol.AgentID{"alice", "bob", "carol", "dave"}; !slices.Equal(task.Declined, want) {
		t.Errorf("%v, want %v", task.Declined, want)
	}
	var many []protocol.AgentID
	for n := range 2 * declinedMost {
		many = append(many, protocol.AgentID(fmt.Sprint("x", n)))
	}
	s.on(protocol.Hive, Offer)
	s.do(protocol.TaskEvent{Event: OfferExhausted, By: protocol.Hive, Agents: many})
	if !slices.Equal(task.Declined, many[declinedMost:]) {
		t.Errorf("the last %d are %v", declinedMost, task.Declined)
	}
}

// TestEmptyLists checks that an empty list is stored as none, so that a task that
// was read from a snapshot has the same view as before.
func TestEmptyLists(t *testing.T) {
	s := newStory(t)
	s.do(protocol.TaskEvent{Event: Create, By: "planner", Needs: []protocol.TaskID{}, Spec: &protocol.TaskSpec{To: []protocol.Address{}}})
	s.do(protocol.TaskEvent{Event: Offer, By: protocol.Hive, Agents: []protocol.AgentID{"alice"}})
	task := s.on("alice", Reject)
	after := restored(t, records(s.Book))
	if diff := cmp.Diff(ViewOf(task), ViewOf(after.Get(one))); diff != "" || task.Offered != nil {
		t.Error(diff)
	}
}

// TestProgress checks that a checkpoint that differs from the last one moves the
// clock of progress, and no other report does, and that a holder that waited has
// its full time.
func TestProgress(t *testing.T) {
	s := in(t, InProgress)
	task := s.Get(one)
	reach := func(milestone string) *protocol.Checkpoint {
		c, err := NewCheckpoint(&protocol.TaskReport{Milestone: milestone}, nil)
		testenv.Must(t, err)
		return c
	}
	begun := s.Moment(s.now)
	if task.Progressed != begun || task.Reached(reach("")) {
		t.Errorf("the task began at %v, and progressed at %v", begun, task.Progressed)
	}
	s.do(protocol.TaskEvent{Event: Progress, By: "alice", Expected: s.now.Add(time.Hour)})
	if task.Progressed != begun || s.Time(task.Expected) != s.now.Add(time.Hour-time.Second) {
		t.Errorf("after it announced silence: progressed at %v, silent until %v", task.Progressed, s.Time(task.Expected))
	}
	s.do(protocol.TaskEvent{Event: Progress, By: "alice", Checkpoint: reach("half")})
	half := s.Moment(s.now)
	if task.Progressed != half || task.Milestone != "half" || task.CheckpointAt != s.seq || task.Expected != 0 || !task.Reached(reach("half")) || task.Reached(reach("all")) {
		t.Errorf("half of it: %+v", task)
	}
	s.do(protocol.TaskEvent{Event: Progress, By: "alice", Checkpoint: reach("half")})
	if task.Progressed != half || task.CheckpointAt != s.seq {
		t.Errorf("half of it again: %v, and was %v", task.Progressed, half)
	}
	for _, wait := range [][2]Event{
		{PauseForApproval, ApprovalGranted},
		{BlockOnDependency, DependencyResolved},
		{TransientError, Retry},
		{ProgressStalled, Recovered},
	} {
		s.on("alice", wait[0])
		if s.on("alice", wait[1]); task.Progressed != s.Moment(s.now) || task.Milestone != "half" {
			t.Errorf("after %s: %v", wait[1], task.Progressed)
		}
	}
}

// TestLeave checks that what belongs to one state is gone when the task leaves it.
func TestLeave(t *testing.T) {
	s := in(t, InProgress)
	ask := protocol.TaskEvent{Event: PauseForApproval, By: "alice", Reason: "auth", Question: "may I?", Until: s.now.Add(30 * time.Minute), Category: protocol.AuthFailure}
	task := s.do(ask)
	s.on(protocol.Hive, Remind)
	s.on("human", ApprovalVote)
	if !task.Reminded || s.Time(task.Until) != ask.Until || !slices.Equal(task.Questions.Votes(), []protocol.AgentID{"human"}) || task.Reason != "auth" || task.Category != protocol.AuthFailure {
		t.Errorf("paused: %+v", task)
	}
	s.on("lead", ApprovalGranted)
	if task.Reminded || task.Until != 0 || task.Questions.Votes() != nil || task.Reason != "" || task.Category != "" {
		t.Errorf("granted: %+v", task)
	}
	s.do(protocol.TaskEvent{Event: TransientError, By: "alice", NotBefore: s.now.Add(time.Minute)})
	if s.Time(task.NotBefore) != s.now.Add(time.Minute-time.Second) {
		t.Errorf("not before %v", s.Time(task.NotBefore))
	}
	if s.on(protocol.Hive, Retry); task.NotBefore != 0 {
		t.Errorf("still not before %v", s.Time(task.NotBefore))
	}
}

// TestCancel checks that a task that is asked to cancel stays in its state, with
// the time of the first request, until it is cancelled, or completed before that
// (spec §8.6).
func TestCancel(t *testing.T) {
	for _, state := range active {
		s := in(t, state)
		task := s.on("planner", Cancel)
		first := s.Moment(s.now)
		if s.on("human", Cancel); task.State != state || task.Cancelling != first || task.Fenced(1) {
			t.Errorf("%s: now %s, cancelling since %v, want %v", state, task.State, task.Cancelling, first)
		}
		if s.on(protocol.Hive, CancelledEvent); task.State != Cancelled || !task.Fenced(1) {
			t.Errorf("%s: not cancelled: %+v", state, task)
		}
	}
	s := in(t, InProgress)
	s.on("planner", Cancel)
	if task := s.on("alice", Complete); task.State != Completed || task.ResultAt != s.seq {
		t.Errorf("completed before it was cancelled: %+v", task)
	}
	for _, state := range []State{Unassigned, Offered, Pending} {
		if task := in(t, state).on("planner", Cancel); task.State != Cancelled || task.Cancelling != 0 {
			t.Errorf("%s: %+v", state, task)
		}
	}
}

// TestBounds checks that what is far too long, or too far ahead, is bounded.
func TestBounds(t *testing.T) {
	s := newStory(t)
	long := strings.Repeat("é", 1000)
	task := s.do(protocol.TaskEvent{
		Event: Create, By: "planner", Reason: long, NotBefore: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), Depth: -1,
		Spec: &protocol.TaskSpec{Title: long, Approvals: math.MaxInt},
	})
	if n := utf8.RuneCountInString(task.Title); n != titleMost+1 {
		t.Errorf("%d characters of title", n)
	}
	if task.Reason != long {
		t.Errorf("%d bytes of reason, want all", len(task.Reason))
	}
	if at := s.Time(task.NotBefore); at != s.now.Add(farthest) {
		t.Errorf("not before %v", at)
	}
	if task.Terms().Needed != math.MaxInt32 || task.Terms().Depth != 0 {
		t.Errorf("%d approvals, depth %d", task.Terms().Needed, task.Terms().Depth)
	}
}

// TestApplyKeepsNoneOfTheEvent checks that a task shares no memory with its event,
// which the caller may go on using.
func TestApplyKeepsNoneOfTheEvent(t *testing.T) {
	s := newStory(t)
	create := protocol.TaskEvent{Event: Create, By: "planner", Needs: []protocol.TaskID{"n"}, Spec: &protocol.TaskSpec{To: []protocol.Address{"a"}, Approvers: []protocol.Address{"b"}}}
	offer := protocol.TaskEvent{Event: Offer, By: protocol.Hive, Agents: []protocol.AgentID{"alice"}}
	task := s.do(create, offer)
	create.Needs[0], create.Spec.To[0], create.Spec.Approvers[0], offer.Agents[0] = "x", "x", "x", "x"
	got := []string{string(task.Needs()[0]), string(task.To[0]), string(task.Terms().Approvers[0]), string(task.Offered[0])}
	if diff := cmp.Diff([]string{"n", "a", "b", "alice"}, got); diff != "" {
		t.Error(diff)
	}
}
