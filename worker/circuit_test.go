package worker

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hived/hived/internal/durable/faultfs"
	"github.com/hived/hived/protocol"
)

// TestCircuit checks what each outcome makes of a circuit, and how many executions may run
// then.
func TestCircuit(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	limited := func(wait time.Duration, row int) circuit {
		return circuit{Kind: protocol.OutcomeRateLimited, Until: now.Add(wait), Row: row}
	}
	asking := circuit{Kind: protocol.OutcomeNeedsLogin, Hive: "/h", Task: "T", Ask: 7, Row: 1}
	for name, x := range map[string]struct {
		before circuit
		r      result
		want   circuit
		left   int // -1: not limited
	}{
		"all is well":                {circuit{}, result{kind: protocol.OutcomeCompleted}, circuit{}, -1},
		"a task that fails":          {circuit{}, result{kind: protocol.OutcomeFailed}, circuit{}, -1},
		"a limit":                    {circuit{}, result{kind: protocol.OutcomeRateLimited, retryAfter: 9 * time.Minute}, limited(9*time.Minute, 1), 0},
		"a limit without a time":     {circuit{}, result{kind: protocol.OutcomeRateLimited}, limited(time.Minute, 1), 0},
		"the third in a row":         {limited(-time.Second, 2), result{kind: protocol.OutcomeRateLimited}, limited(4*time.Minute, 3), 0},
		"the hundredth in a row":     {limited(-time.Second, 99), result{kind: protocol.OutcomeRateLimited}, limited(30*time.Minute, 100), 0},
		"a shorter limit of another": {limited(time.Hour, 1), result{kind: protocol.OutcomeRateLimited, retryAfter: time.Minute}, limited(time.Hour, 2), 0},
		"it can work again":          {limited(-time.Second, 2), result{kind: protocol.OutcomeTimedOut}, circuit{}, -1},
		"nothing was tried":          {limited(-time.Second, 2), result{kind: protocol.OutcomeInterrupted}, limited(-time.Second, 2), 1},
		"a login":                    {circuit{}, result{kind: protocol.OutcomeNeedsLogin, hive: "/h", task: "T", ask: 7}, asking, 0},
		"a limit beside a login":     {asking, result{kind: protocol.OutcomeRateLimited}, asking, 0},
		"somebody else's found it":   {asking, result{}, asking, 0},
		"it is not there":            {circuit{}, result{kind: protocol.OutcomeUnusable}, circuit{Kind: protocol.OutcomeUnusable, Until: now.Add(time.Minute), Row: 1}, 0},
		"a login that was answered":  {circuit{Kind: protocol.OutcomeNeedsLogin, Row: 1}, result{kind: protocol.OutcomeCancelled}, circuit{Kind: protocol.OutcomeNeedsLogin, Row: 1}, 1},
		"a login that works":         {circuit{Kind: protocol.OutcomeNeedsLogin, Row: 1}, result{kind: protocol.OutcomeCompleted}, circuit{}, -1},
	} {
		got := x.before.next(x.r, now)
		if diff := cmp.Diff(x.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		left, is := got.left(now)
		if !is {
			left = -1
		}
		if left != x.left {
			t.Errorf("%s: %d may run, want %d", name, left, x.left)
		}
	}
}

// TestCircuitsAreKept checks that the next worker finds the circuit as it was left, that
// of another adapter beside it, and that one person is asked to log in.
func TestCircuitsAreKept(t *testing.T) {
	disk, now := faultfs.New(), time.Now()
	open := func(adapter string) *circuits { return openCircuits(disk, "circuits.json", adapter) }
	a, b := open("a"), open("b")
	if !a.asksLogin() || a.asksLogin() {
		t.Error("not one of two executions asks for a login")
	}
	a.note(result{kind: protocol.OutcomeNeedsLogin, task: "T", ask: 7}, now)
	b.note(result{kind: protocol.OutcomeRateLimited, retryAfter: time.Hour}, now)
	if again := open("a"); again.asksLogin() || again.why(now) == "" || again.closedFor(now) < time.Hour {
		t.Errorf("the next worker finds %+v", again.now)
	}
	if again := open("b"); again.closedFor(now) != time.Hour {
		t.Errorf("the next worker of the other adapter finds %+v", again.now)
	}
	a.look(func(c circuit) bool { return c.Ask == 7 && c.Task == "T" })
	if n, limited := a.left(now); n != 0 || !limited {
		t.Error("the circuit is closed before its question was answered")
	}
	a.look(func(circuit) bool { return false })
	if n, limited := a.left(now); n != 1 || !limited {
		t.Errorf("%d executions try whether the login works, want 1", n)
	}
	a.note(result{kind: protocol.OutcomeCompleted}, now)
	if _, limited := open("a").left(now); limited {
		t.Error("the next worker finds the circuit open")
	}
	if _, limited := open("b").left(now); !limited {
		t.Error("that of the other adapter is gone")
	}
}
