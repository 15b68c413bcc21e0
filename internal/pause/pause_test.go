package pause

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestFor(t *testing.T) {
	enough := errors.New("enough")
	for _, c := range []struct {
		name     string
		wait     time.Duration
		endAfter time.Duration // the context's deadline
		took     time.Duration
		want     error
	}{
		{"to its end", time.Second, time.Minute, time.Second, nil},
		{"cut short", time.Minute, time.Second, time.Second, enough},
		{"not at all", 0, time.Second, 0, nil},
		{"not at all, too late", -time.Second, -1, 0, enough},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeoutCause(t.Context(), c.endAfter, enough)
				defer cancel()
				begin := time.Now()
				if err := For(ctx, c.wait); !errors.Is(err, c.want) {
					t.Errorf("got %v, want %v", err, c.want)
				}
				if took := time.Since(begin); took != c.took {
					t.Errorf("the pause took %s, want %s", took, c.took)
				}
			})
		})
	}
}

func TestLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := Limit(t.Context(), time.Minute)
		defer cancel()
		if err := For(ctx, time.Hour); !errors.Is(err, context.DeadlineExceeded) || err.Error() != "time is up after 1m0s" {
			t.Errorf("after a minute: %v", err)
		}
		ctx, cancel = Limit(t.Context(), 0)
		defer cancel()
		if err := For(ctx, time.Hour); err != nil {
			t.Errorf("without a limit: %v", err)
		}
	})
}
