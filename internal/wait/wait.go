// Package wait waits for things in tests and benchmarks. It promises that every wait
// has an end, and that one which fails says what it waited for, what it saw instead
// and what every goroutine was doing. In a bubble of testing/synctest its time is the
// bubble's.
package wait

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"
)

// Longest is how long a test waits for anything. It does not measure speed: a machine
// on which this is too short is stuck.
const Longest = 30 * time.Second

// often is the interval at which a condition without a wake channel is checked.
const often = time.Millisecond

// T is the part of a test that this package uses; *testing.T and *testing.B implement
// it.
type T interface {
	Helper()
	Fatal(args ...any)
}

// Saw returns what could be seen during a wait, such as the last events and the status
// of the daemon.
type Saw func() string

// Until returns when the condition holds, and ends the test if it does not hold in
// time. what is the condition in words: "wait for WHAT".
func Until(t T, what string, holds func() bool, saw ...Saw) {
	t.Helper()
	if err := Condition(context.Background(), Longest, nil, what, holds, saw...); err != nil {
		t.Fatal(err)
	}
}

// Receive returns the next value from a channel, or the zero value if it is closed,
// and ends the test if nothing comes in time.
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

// Ended returns the result of another goroutine once it has ended; if it does not end
// within the limit, the error says so.
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

// Condition returns when the condition holds. The error is the context's cause, or
// wraps [ErrInVain] after the limit. The condition is checked after each receive from
// wake, or each millisecond if wake is nil.
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

// ErrInVain is wrapped by the error of every wait that reached its limit.
var ErrInVain = errors.New("it did not come")

// inVain returns the error of a wait that reached its limit, with all that is known.
func inVain(limit time.Duration, what string, saw []Saw) error {
	var b strings.Builder
	for _, s := range saw {
		fmt.Fprintf(&b, "\n%s", strings.TrimRight(s(), "\n"))
	}
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	return fmt.Errorf("wait for %s: %w within %s%s\n\n%s", what, ErrInVain, limit, b.String(), stacks)
}
