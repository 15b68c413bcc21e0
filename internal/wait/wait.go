// Package wait is how tests and benchmarks wait. It promises that every wait
// has an end, and that one which ends in vain says what it waited for, what it
// saw instead and what every goroutine was doing. In a bubble of
// testing/synctest its time is the bubble's.
package wait

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"
)

// Longest is how long a test waits for anything. It is no measure of speed: a
// machine on which this is too short is stuck.
const Longest = 30 * time.Second

// often is how often a condition is looked at of which nobody tells.
const often = time.Millisecond

// T is what a test is to this package; *testing.T and *testing.B are one.
type T interface {
	Helper()
	Fatal(args ...any)
}

// Saw says what there was to see while something was waited for, such as the
// last events and the status of the daemon.
type Saw func() string

// Until returns when the condition holds, and ends the test when it does not
// come to hold. What is the condition in words: "wait for WHAT".
func Until(t T, what string, holds func() bool, saw ...Saw) {
	t.Helper()
	if err := Condition(context.Background(), Longest, nil, what, holds, saw...); err != nil {
		t.Fatal(err)
	}
}

// Receive returns what comes from a channel, or its zero value when it is
// closed, and ends the test when nothing comes.
func Receive[V any](t T, what string, from <-chan V, saw ...Saw) V {
	t.Helper()
	late := time.NewTimer(Longest)
	defer late.Stop()
	select {
	case v := <-from:
		return v
	case <-late.C:
		t.Fatal(inVain(Longest, what, saw))
		panic("unreachable: Fatal does not return")
	}
}

// Ended returns how what runs in another goroutine ended, once it has; if it
// does not end within the limit, the error says so.
func Ended(limit time.Duration, what string, result <-chan error, saw ...Saw) error {
	late := time.NewTimer(limit)
	defer late.Stop()
	select {
	case err := <-result:
		return err
	case <-late.C:
		return inVain(limit, what, saw)
	}
}

// Condition returns when the condition holds. The error is the context's cause,
// or says after the limit that it was waited for in vain. The condition is
// looked at after each word on wake, or each millisecond where wake is
// nil.
func Condition(ctx context.Context, limit time.Duration, wake <-chan struct{}, what string, holds func() bool, saw ...Saw) error {
	late := time.NewTimer(limit)
	defer late.Stop()
	var tick <-chan time.Time
	if wake == nil {
		ticker := time.NewTicker(often)
		defer ticker.Stop()
		tick = ticker.C
	}
	for !holds() {
		select {
		case <-wake:
		case <-tick:
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w", what, context.Cause(ctx))
		case <-late.C:
			return inVain(limit, what, saw)
		}
	}
	return nil
}

// ErrInVain is what every wait that ended in vain is.
var ErrInVain = errors.New("it did not come")

// inVain says all that is known of a wait that ended in vain.
func inVain(limit time.Duration, what string, saw []Saw) error {
	var b strings.Builder
	for _, s := range saw {
		fmt.Fprintf(&b, "\n%s", strings.TrimRight(s(), "\n"))
	}
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	return fmt.Errorf("wait for %s: %w within %s%s\n\n%s", what, ErrInVain, limit, b.String(), stacks)
}
