package router

import (
	"time"

	"github.com/hived/hived/protocol"
)

// jumpFrom is how far the clock of the machine must be from where it should be
// before somebody has set it. What is less only makes a wait that much longer or
// shorter.
const jumpFrom = 5 * time.Second

// pauseFrom is how much later than it meant to the loop must take a step before
// hived counts as paused: somebody stopped the process, or the machine was too
// busy for it.
const pauseFrom = 5 * time.Second

// clock detects jumps by comparing wall and monotonic time: the clock of the machine
// can be set, and the one that only goes on stands still while the machine sleeps
// (spec §8.3).
type clock struct {
	wall time.Time                     // when it was last right, without what only goes on
	mono time.Time                     // the same instant
	now  func() time.Time              // of the machine
	past func(time.Time) time.Duration // since an instant, on the clock that only goes on
	ran  time.Time                     // when the loop last took a step; zero: not yet
	rest time.Duration                 // how long it meant to wait since

	asleep standstill
}

func newClock() clock {
	c := clock{now: time.Now, past: time.Since}
	c.begin()
	return c
}

func (c *clock) begin() { c.mono, c.wall = time.Now(), c.now().Round(0) }

// jumped returns by how much the clock of the machine was set since it was asked
// last, zero if it was not.
func (c *clock) jumped() time.Duration {
	by := c.now().Round(0).Sub(c.wall) - c.past(c.mono)
	if by.Abs() < jumpFrom {
		return 0
	}
	c.begin()
	return by.Round(time.Millisecond)
}

// paused returns for how long the loop took no step though it meant to, zero where
// that is not worth a word.
func (c *clock) paused() time.Duration {
	var late time.Duration
	if !c.ran.IsZero() {
		late = c.past(c.ran) - c.rest
	}
	c.ran, c.rest = time.Now(), 0
	if late < pauseFrom {
		return 0
	}
	return late.Round(time.Millisecond)
}

// keepTime takes note of a clock that was set, and of a pause of the process: no
// wait ends because of them, and what was sent meanwhile is looked for first.
func (r *Router) keepTime(now time.Time) {
	if by := r.clock.jumped(); by != 0 {
		r.decider.Record(now, &protocol.HiveEvent{Action: protocol.ClockJumped, Jump: by.Milliseconds(), Note: "the clock of the machine was set by " + by.Round(time.Second).String()})
		r.agenda.ScanAll()
	}
	if late := r.clock.paused(); late != 0 {
		r.decider.Record(now, &protocol.HiveEvent{Action: protocol.ClockJumped, Note: "hived did not run for " + late.Round(time.Second).String()})
		r.agenda.ScanAll()
	}
}
