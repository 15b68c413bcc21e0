package wait

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
)

// failed is a T that records why it was ended.
type failed struct{ said string }

func (*failed) Helper() {}

func (f *failed) Fatal(args ...any) {
	f.said = fmt.Sprint(args...)
	panic(f)
}

// failureOf returns the failure message of a wait that must fail.
func failureOf(wait func(t T)) (said string) {
	f := &failed{}
	defer func() {
		if recover() != nil {
			said = f.said
		}
	}()
	wait(f)
	return ""
}

// TestInVain checks that every wait ends, and prints what it waited for, what it
// saw and what runs.
func TestInVain(t *testing.T) {
	seen := func() string { return "the last event was 7\n" }
	for name, wait := range map[string]func(t T){
		"condition": func(t T) { Until(t, "the eighth event", func() bool { return false }, seen) },
		"channel":   func(t T) { Receive(t, "the eighth event", make(chan int), seen) },
		"end": func(t T) {
			t.Fatal(Ended(Longest, "the eighth event", make(chan error), seen))
		},
		"word that never comes": func(t T) {
			t.Fatal(Condition(context.Background(), Longest, make(chan struct{}), "the eighth event", func() bool { return false }, seen))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				got := failureOf(wait)
				for _, want := range []string{"wait for the eighth event: it did not come within 30s\nthe last event was 7\n\ngoroutine ", "TestInVain"} {
					if !strings.Contains(got, want) {
						t.Errorf("no %q in %q", want, got)
					}
				}
			})
		})
	}
}

// TestComes checks that a wait ends when what it waits for comes.
func TestComes(t *testing.T) {
	wake, n := make(chan struct{}, 3), 0
	for range 3 {
		wake <- struct{}{}
	}
	third := func() bool { n++; return n == 4 }
	if err := Condition(t.Context(), Longest, wake, "the third word", third); err != nil || n != 4 {
		t.Errorf("%d calls, %v", n, err)
	}
	n = 0
	Until(t, "the third call", third)

	c := make(chan int, 1)
	c <- 7
	if got := Receive(t, "a number", c); got != 7 {
		t.Errorf("received %d", got)
	}
	close(c)
	if got := Receive(t, "a number", c); got != 0 {
		t.Errorf("received %d of a closed channel", got)
	}
	over, end := make(chan error, 1), errors.New("over")
	over <- end
	if err := Ended(Longest, "the end", over); !errors.Is(err, end) {
		t.Errorf("Ended returned %v", err)
	}
}

// TestCalledOff checks that a cancelled wait returns the cause.
func TestCalledOff(t *testing.T) {
	enough := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(enough)
	if err := Condition(ctx, Longest, nil, "the end", func() bool { return false }); !errors.Is(err, enough) || errors.Is(err, ErrInVain) {
		t.Errorf("got %v", err)
	}
}
