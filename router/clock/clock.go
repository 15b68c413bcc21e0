// Package clock is the time that a daemon's loop goes by, and whether anything was
// wrong with it: a clock that was set, a pause of the process, a sleep beside work.
package clock

import "time"

// jumpFrom is how far the clock of the machine must be from where it should be
// before somebody has set it. What is less only makes a wait that much longer or
// shorter.
const jumpFrom = 5 * time.Second

// pauseFrom is how much later than it meant to the loop must take a step before
// hived counts as paused: somebody stopped the process, or the machine was too
// busy for it.
const pauseFrom = 5 * time.Second

// Clock detects jumps by comparing wall and monotonic time: the clock of the machine
// can be set, and the one that only goes on stands still while the machine sleeps
// (spec §8.3). One goroutine uses it.
type Clock struct {
	Now func() time.Time // of the machine

	wall time.Time                     // when it was last right, without what only goes on
	mono time.Time                     // the same instant
	past func(time.Time) time.Duration // since an instant, on the clock that only goes on
	ran  time.Time                     // when the loop last took a step; zero: not yet
	rest time.Duration                 // how long it meant to wait since

	asleep standstill
}

// New returns a clock that is right now.
func New() Clock {
	c := Clock{Now: time.Now, past: time.Since}
	c.Begin()
	return c
}

// Begin takes the clock to be right.
func (c *Clock) Begin() { c.mono, c.wall = time.Now(), c.Now().Round(0) }

// Jumped returns by how much the clock of the machine was set since it was asked
// last, zero if it was not.
func (c *Clock) Jumped() time.Duration {
	by := c.Now().Round(0).Sub(c.wall) - c.past(c.mono)
	if by.Abs() < jumpFrom {
		return 0
	}
	c.Begin()
	return by.Round(time.Millisecond)
}

// Paused returns for how long the loop took no step though it meant to, zero where
// that is not worth a word.
func (c *Clock) Paused() time.Duration {
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

// Waits takes note of how long the loop means to wait before its next step.
func (c *Clock) Waits(d time.Duration) { c.rest += d }

// Slept takes note of a sleep of the loop.
func (c *Clock) Slept(from, to time.Time) { c.asleep.slept(from, to) }

// AsleepSince returns for how long of the time since then the loop slept.
func (c *Clock) AsleepSince(then time.Time) time.Duration { return c.asleep.since(then) }
