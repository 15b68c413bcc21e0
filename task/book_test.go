package task

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/hived/hived/protocol"
)

const (
	two   protocol.TaskID = "01M7YW2XY9P0EW1X9MFVTQ8902"
	three protocol.TaskID = "01M7YW2XY9P0EW1X9MFVTQ8903"
	four  protocol.TaskID = "01M7YW2XY9P0EW1X9MFVTQ8904"
)

// create makes a task that needs others.
func (s *story) create(id protocol.TaskID, needs ...protocol.TaskID) *Task {
	s.Helper()
	s.do(protocol.TaskEvent{Task: id, Event: Create, By: "planner", Needs: needs})
	return s.Get(id)
}

func (s *story) to(id protocol.TaskID, by protocol.AgentID, events ...Event) {
	s.Helper()
	for _, e := range events {
		s.do(protocol.TaskEvent{Task: id, Event: e, By: by})
	}
}

// TestDependencies checks that a task waits for another until that is completed,
// that each task knows which wait for it, in the same order after a snapshot, and
// that a stall changes nothing (spec §8.5).
func TestDependencies(t *testing.T) {
	s := newStory(t)
	s.create(one)
	s.create(two)
	s.create(four, one, two)
	s.create(three, one, one) // needed twice counts once
	s.to(two, "bob", Claim, Start)
	s.do(protocol.TaskEvent{Task: two, Event: BlockOnDependency, By: "bob", Needs: []protocol.TaskID{one}})
	want := []protocol.TaskID{two, three, four}
	if got := s.Children(one); !slices.Equal(got, want) {
		t.Errorf("%v wait, want %v", got, want)
	}
	if got := restored(t, records(s.Book)).Children(one); !slices.Equal(got, want) {
		t.Errorf("after a snapshot %v wait, want %v", got, want)
	}
	s.Children(one)[0] = "x"
	if got := s.Children(one); !slices.Equal(got, want) {
		t.Error("a caller can change the list in the book")
	}
	s.to(one, "alice", Claim, Start, HeartbeatLost, Recovered)
	if got := s.Unmet(s.Get(four)); !slices.Equal(got, []protocol.TaskID{one, two}) {
		t.Errorf("task four waits for %v", got)
	}
	s.to(one, "alice", Complete)
	if got := s.Unmet(s.Get(four)); !slices.Equal(got, []protocol.TaskID{two}) {
		t.Errorf("task four waits for %v", got)
	}
	if s.Unmet(s.Get(two)) != nil || s.Unmet(s.Get(three)) != nil {
		t.Error("a task waits for one that is completed")
	}
	s.to(two, protocol.Hive, DependencyResolved)
	s.to(three, protocol.Hive, Offer)
	if got := s.Children(one); !slices.Equal(got, []protocol.TaskID{four}) {
		t.Errorf("%v wait", got)
	}
	s.to(three, protocol.Hive, OfferExpired) // it needs one again, which is completed
	if got := s.Children(one); !slices.Equal(got, []protocol.TaskID{three, four}) || s.Unmet(s.Get(three)) != nil {
		t.Errorf("%v wait", got)
	}
	s.to(two, "bob", FatalError)
	s.to(four, protocol.Hive, DependencyFailed)
	if got := append(s.Children(two), s.Children(one)...); !slices.Equal(got, []protocol.TaskID{three}) || s.Get(four).Needs() != nil {
		t.Errorf("%v wait", got)
	}
	s.Forget(three)
	if len(s.children) > 0 {
		t.Errorf("%v are left", s.children)
	}
}

// TestUnknownNeed checks that a need that is no longer in the book counts as met: a
// task that failed would have taken this one with it.
func TestUnknownNeed(t *testing.T) {
	s := newStory(t)
	if got := s.Unmet(s.create(two, one)); len(got) != 0 {
		t.Errorf("%v", got)
	}
}

// TestClockJumps checks that when the clock jumps by a day, no moment changes
// except those of running clocks, which start again (spec §8.3).
func TestClockJumps(t *testing.T) {
	for _, by := range []time.Duration{24 * time.Hour, -24 * time.Hour, time.Millisecond} {
		s := in(t, InProgress)
		task := s.do(protocol.TaskEvent{Event: PauseForApproval, By: "alice", Until: s.now.Add(30 * time.Minute)})
		until, since, before := task.Until, task.Since, s.Moment(s.now)
		s.now = s.now.Add(by)
		s.Jumped(by, s.now)
		if task.Until != until || task.Since != since || s.Moment(s.now) != before {
			t.Errorf("by %v: now %v, and was %v", by, s.Moment(s.now), before)
		}
		if got := s.Time(until).Sub(s.now); got != 30*time.Minute-time.Second {
			t.Errorf("by %v: %v left by the wall clock", by, got)
		}
		if s.Running(since) != before {
			t.Errorf("by %v: a clock runs since %v", by, s.Running(since))
		}
		s.on("human", ApprovalGranted)
		if got := task.Since.Sub(since); got != 2*time.Second-time.Second || s.Running(task.Since) != task.Since {
			t.Errorf("by %v: it waited %v", by, got)
		}
		if got := s.Stats.Spent[Paused]; got != time.Second {
			t.Errorf("by %v: paused for %v", by, got)
		}
		s.now = s.now.Add(-by)
		s.Jumped(-by, s.now)
		if s.shift != 0 || s.Moment(s.now) != Moment(s.now.UnixNano()) {
			t.Errorf("by %v and back: the shift is %v, want 0", by, s.shift)
		}
	}
}

// TestStarted checks that each running clock has its full time after a start, and
// that no moment is the zero time.
func TestStarted(t *testing.T) {
	s := in(t, InProgress)
	task := s.Get(one)
	if s.Running(task.Since) != task.Since {
		t.Error("the clock does not count from the start of the task")
	}
	s.now = s.now.Add(time.Hour)
	s.Started(s.now)
	if s.Running(task.Since) != s.Moment(s.now) || !s.Time(0).IsZero() {
		t.Errorf("a clock runs since %v, and started at %v", s.Time(s.Running(task.Since)), s.now)
	}
	if m := s.Moment(s.now); m.Add(time.Minute).Sub(m) != time.Minute || s.Time(m) != s.now {
		t.Errorf("%v became %v", s.now, s.Time(m))
	}
}

// TestForget checks that a forgotten task is gone, and that the totals still count
// it.
func TestForget(t *testing.T) {
	s := in(t, Completed)
	s.create(two)
	s.Wrote(one, 99)
	s.Wrote(three, 99)
	if s.Get(one).Viewed != 99 || s.Len() != 2 {
		t.Errorf("%+v", s.Get(one))
	}
	s.Forget(one)
	s.Forget(three)
	if s.Get(one) != nil || s.Len() != 1 || s.Stats.States[Completed] != 0 || s.Stats.Transitions[Complete] != 1 {
		t.Errorf("%+v", s.Stats)
	}
}

// TestBest checks that the more urgent task comes first, then the older one.
func TestBest(t *testing.T) {
	list := []*Task{{ID: three}, {ID: four, Priority: 5}, {ID: two}, {ID: one, Priority: -1}}
	slices.SortFunc(list, Best)
	var got []protocol.TaskID
	for _, task := range list {
		got = append(got, task.ID)
	}
	if diff := cmp.Diff([]protocol.TaskID{four, two, three, one}, got); diff != "" {
		t.Error(diff)
	}
}

// TestAll checks that All yields the tasks by age, and stops when the caller does.
func TestAll(t *testing.T) {
	s := newStory(t)
	for _, id := range []protocol.TaskID{three, one, two} {
		s.create(id)
	}
	var got []protocol.TaskID
	for task := range s.All() {
		if got = append(got, task.ID); len(got) == 2 {
			break
		}
	}
	if diff := cmp.Diff([]protocol.TaskID{one, two}, got); diff != "" {
		t.Error(diff)
	}
}

// TestTimeToRecovery checks that a task recovers from whatever kept it from going
// on: a lost holder, a failed attempt, an approval, a question, another task. A log
// of format 1 counts as it did then.
func TestTimeToRecovery(t *testing.T) {
	for _, tt := range []struct {
		name  string
		views protocol.Seq
		want  []float64 // recoveries, and their seconds in all
	}{{"format 1", 0, []float64{2, 1 + 3}}, {"format 2", 1, []float64{5, 1 + 2 + 1 + 3 + 2}}} {
		s := newStory(t)
		s.ViewsFrom(tt.views)
		s.create(one)
		s.to(one, "bob", Claim, Start, PauseForApproval)
		s.to(one, protocol.Human, ApprovalGranted) // after 1 s
		s.to(one, "bob", BlockOnDependency)
		s.to(one, protocol.Human, Amend, Answer) // after 2 s
		s.to(one, "bob", TransientError)
		s.to(one, protocol.Hive, Retry) // after 1 s
		s.to(one, protocol.Hive, HeartbeatLost, Release)
		s.to(one, "carol", Claim, Start)          // after 3 s
		s.to(one, "carol", Release, Claim, Start) // nothing kept it from going on
		s.to(one, "carol", BlockOnDependency)
		s.to(one, protocol.Human, Cancel)
		s.to(one, protocol.Human, DependencyResolved) // after 2 s
		s.to(one, "carol", PauseForApproval)
		s.to(one, protocol.Human, ApprovalDenied) // never
		r := s.Report(s.now)
		if diff := cmp.Diff(tt.want, []float64{float64(r.Recoveries), r.MeanTimeToRecov * float64(r.Recoveries)}, cmpopts.EquateApprox(0, 1e-9)); diff != "" {
			t.Errorf("%s: %s", tt.name, diff)
		}
	}
}

// TestStats checks the totals after a stall, a failure and a lost lease (spec §8.7).
func TestStats(t *testing.T) {
	s := newStory(t)
	s.create(one)                                    // 1 s
	s.to(one, "alice", Claim)                        // 2
	s.to(one, protocol.Hive, LeaseExpired)           // 3: broken
	s.to(one, "bob", Claim, Start)                   // 4, 5: recovered after 2 s
	s.to(one, "bob", TransientError)                 // 6: broken
	s.to(one, protocol.Hive, Retry)                  // 7: recovered after 1 s
	s.to(one, protocol.Hive, HeartbeatLost, Release) // 8, 9: broken at 8
	s.to(one, "carol", Claim, Start)                 // 10, 11: recovered after 3 s
	s.to(one, "carol", Release, Claim, Start)        // 12, 13, 14: nothing was broken
	s.to(one, "carol", Progress, Complete)           // 15, 16
	s.create(two)                                    // 17
	s.Rejected(&protocol.TaskRejectedEvent{Code: protocol.CodeIllegalTransition})
	s.Rejected(&protocol.TaskRejectedEvent{Code: protocol.CodeFenced})
	s.Rejected(&protocol.TaskRejectedEvent{Code: protocol.CodeFenced})
	want := Report{
		States: map[State]int{Completed: 1, Unassigned: 1},
		Transitions: map[Event]uint64{
			Create: 2, Claim: 4, LeaseExpired: 1, Start: 3, TransientError: 1, Retry: 1, HeartbeatLost: 1, Release: 2, Progress: 1, Complete: 1,
		},
		Rejected:       map[protocol.Code]uint64{protocol.CodeIllegalTransition: 1, protocol.CodeFenced: 2},
		Illegal:        1,
		SecondsInState: map[State]float64{Unassigned: 4 + 3, Pending: 4, InProgress: 5, Retrying: 1, Stalled: 1},
		Executions:     4, Retries: 2, RetryRate: 0.5, Recoveries: 3, MeanTimeToRecov: 2,
	}
	for _, state := range States() {
		want.States[state] += 0
		want.SecondsInState[state] += 0
	}
	if diff := cmp.Diff(want, s.Report(s.now.Add(3*time.Second))); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(want, restored(t, records(s.Book)).Report(s.now.Add(3*time.Second))); diff != "" {
		t.Errorf("after a snapshot: %s", diff)
	}
	if r := NewBook().Report(start); r.RetryRate != 0 || r.MeanTimeToRecov != 0 {
		t.Errorf("of an empty book: %+v", r)
	}
}

// TestStop checks that the clocks of a task stand still until the next command
// about it, accepted or refused, also after a snapshot.
func TestStop(t *testing.T) {
	for name, tt := range map[string]struct {
		then func(s *story)
		want bool
	}{
		"nothing happens": {func(*story) {}, true},
		"hived does something": {func(s *story) {
			s.do(protocol.TaskEvent{Task: one, Event: Offer, By: protocol.Hive, Agents: []protocol.AgentID{"a"}})
		}, true},
		"a command is carried out":  {func(s *story) { s.do(protocol.TaskEvent{Task: one, Event: Claim, By: "a", Of: 7}) }, false},
		"a command is refused":      {func(s *story) { s.Rejected(&protocol.TaskRejectedEvent{Task: string(one), Of: 7}) }, false},
		"it is forgotten":           {func(s *story) { s.Forget(one) }, false},
		"another is commanded":      {func(s *story) { s.Rejected(&protocol.TaskRejectedEvent{Task: "x", Of: 7}) }, true},
		"one that is not there too": {func(s *story) { s.Stop("x") }, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStory(t)
			s.create(one)
			s.Stop(one)
			tt.then(s)
			b := restored(t, records(s.Book))
			if diff := cmp.Diff(s.Book, b, sameBook); diff != "" && tt.want {
				t.Error(diff)
			}
			for _, b := range []*Book{s.Book, b} {
				if b.Stopped(one) != tt.want || b.Stopped("x") || len(b.AllStopped()) == 1 != tt.want {
					t.Errorf("%v are stopped", b.AllStopped())
				}
			}
		})
	}
}
