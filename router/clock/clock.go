// Package clock is the clock of a daemon's loop. It detects that the machine's clock was
// set and that the process was paused, and knows how long the loop slept.
package clock

import "time"

// jumpFrom is how far the wall clock must be off before it counts as set. Less only
// makes a wait that much longer or shorter.
const jumpFrom = 5 * time.Second

// pauseFrom is how late the loop must take a step before the process counts as paused:
// somebody stopped it, or the machine was too busy.
const pauseFrom = 5 * time.Second

// Clock detects jumps by comparing wall and monotonic time: the wall clock can be set,
// and the monotonic clock stands still while the machine sleeps (spec §8.3). One
// goroutine uses it.
type Clock struct {
	Now func() time.Time // the wall clock

	wall time.Time                     // when it was last right, without a monotonic reading
	mono time.Time                     // the same instant, by the monotonic clock
	past func(time.Time) time.Duration // since an instant, by the monotonic clock
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

// Begin takes the wall clock to be right.
func (c *Clock) Begin() { c.mono, c.wall = time.Now(), c.Now().Round(0) }

// Jumped returns by how much the wall clock was set since the last call; zero if it was
// not.
func (c *Clock) Jumped() time.Duration {
	by := c.Now().Round(0).Sub(c.wall) - c.past(c.mono)
	if by.Abs() < jumpFrom {
		return 0
	}
	c.Begin()
	return by.Round(time.Millisecond)
}

// Paused returns by how much the loop's step is late; zero if by less than counts as a
// pause.
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

// Waits notes how long the loop means to wait before its next step.
func (c *Clock) Waits(d time.Duration) { c.rest += d }

// Slept notes a sleep of the loop.
func (c *Clock) Slept(from, to time.Time) { c.asleep.slept(from, to) }

// AsleepSince returns how long the loop has slept since then.
func (c *Clock) AsleepSince(then time.Time) time.Duration { return c.asleep.since(then) }
