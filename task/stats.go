package task

import (
	"maps"
	"time"

	"github.com/hived/hived/protocol"
)

// Stats are totals since the log began (spec §8.7).
type Stats struct {
	States      map[State]int            `json:"states"`      // tasks in each now
	Spent       map[State]time.Duration  `json:"-"`           // in each, by tasks that have left it
	Transitions map[Event]uint64         `json:"transitions"` // by event
	Rejected    map[protocol.Code]uint64 `json:"rejected"`
	Executions  uint64                   `json:"executions"`
	Retries     uint64                   `json:"retries"`
	Recoveries  uint64                   `json:"recoveries"` // tasks that went on after something kept them from it
	Recovering  time.Duration            `json:"-"`          // until they did
}

func newStats() Stats {
	return Stats{States: map[State]int{}, Spent: map[State]time.Duration{}, Transitions: map[Event]uint64{}, Rejected: map[protocol.Code]uint64{}}
}

// Counts returns how many tasks are in each state in which there are any.
func (s *Stats) Counts() map[string]int {
	counts := map[string]int{}
	for state, n := range s.States {
		if n > 0 {
			counts[string(state)] = n
		}
	}
	return counts
}

// count takes in an event that a task, as it was before, has taken. In a log of
// format 1 waits are no breaks.
func (s *Stats) count(was, t *Task, e *protocol.TaskEvent, at Moment, waits bool) {
	s.Transitions[e.Event]++
	if e.From == e.To {
		return
	}
	if was.State != "" {
		s.States[was.State]--
		s.Spent[was.State] += max(0, at.Sub(was.Since))
	}
	s.States[t.State]++
	if e.Event != Adopted { // whose retries were before this log
		s.Retries += uint64(t.Retries - was.Retries) //nolint:gosec // it only grows
	}
	switch {
	case t.State == InProgress:
		if e.Event == Start || e.Event == Retry {
			s.Executions++
		}
		if t.Broken > 0 {
			s.Recoveries++
			s.Recovering += max(0, at.Sub(t.Broken))
			t.Broken = 0
		}
	case t.Broken == 0 && breaks(t.State, e.Event, waits):
		t.Broken = at
	}
}

// breaks reports whether an event that led to a state keeps a task from going on: its
// holder was lost, an attempt failed, or, if waits count, it waits for people or for
// other tasks. A holder that gives it back does not break it.
func breaks(state State, on Event, waits bool) bool {
	return state == Stalled || state == Retrying || on == LeaseExpired || waits && (state == Paused || state == Blocked)
}

// Report is what `hived task stats` shows.
type Report struct {
	States          map[State]int            `json:"states"`
	Transitions     map[Event]uint64         `json:"transitions"`
	Rejected        map[protocol.Code]uint64 `json:"rejected"`
	Illegal         uint64                   `json:"illegal_transitions"`
	SecondsInState  map[State]float64        `json:"seconds_in_state"`
	Executions      uint64                   `json:"executions"`
	Retries         uint64                   `json:"retries"`
	RetryRate       float64                  `json:"retry_rate"` // retries an execution
	Recoveries      uint64                   `json:"recoveries"`
	MeanTimeToRecov float64                  `json:"mean_seconds_to_recovery"`
}

// Report returns the statistics as of now, including the time that tasks have been in
// their states.
func (b *Book) Report(now time.Time) Report {
	s := &b.Stats
	r := Report{
		States: map[State]int{}, Transitions: maps.Clone(s.Transitions), Rejected: maps.Clone(s.Rejected),
		Illegal: s.Rejected[protocol.CodeIllegalTransition], SecondsInState: map[State]float64{},
		Executions: s.Executions, Retries: s.Retries, Recoveries: s.Recoveries,
	}
	for _, state := range States() {
		r.States[state] = s.States[state]
		r.SecondsInState[state] = s.Spent[state].Seconds()
	}
	at := b.Moment(now)
	for t := range b.All() {
		if !Ended(t.State) {
			r.SecondsInState[t.State] += max(0, at.Sub(t.Since)).Seconds()
		}
	}
	if s.Executions > 0 {
		r.RetryRate = float64(s.Retries) / float64(s.Executions)
	}
	if s.Recoveries > 0 {
		r.MeanTimeToRecov = s.Recovering.Seconds() / float64(s.Recoveries)
	}
	return r
}
