package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/hived/hived/internal/pause"
)

// inFlight is the most messages in flight: agents neither let their mail pile up nor
// wait for each single message.
const inFlight = 4000

// traffic is agents at work: each sends messages, and moves those in its inbox to
// .done/. They use only files.
type traffic struct {
	dir       string
	agents    int
	generator *generator
	sent      int
	taken     int
	pending   []int // messages sent to each agent and not taken yet
}

func newTraffic(dir string, agents int, g *generator) *traffic {
	return &traffic{dir: dir, agents: agents, generator: g, pending: make([]int, agents)}
}

// run sends n more messages and returns when all are handled. It calls tell with the
// number of messages handled so far.
func (t *traffic) run(ctx context.Context, n int, tell func(taken int)) error {
	from, begun := t.taken, time.Now()
	goal, moved := t.sent+n, time.Now()
	for t.taken < from+n {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		before := t.sent + t.taken
		if err := t.round(goal); err != nil {
			return err
		}
		tell(t.taken - from)
		switch now := time.Now(); {
		case t.sent+t.taken != before:
			moved = now
		case now.Sub(moved) > patience:
			return fmt.Errorf("%d of %d messages did not arrive within %s, %s after the first was sent", n-(t.taken-from), n, patience, now.Sub(begun).Round(time.Second))
		default:
			if err := pause.For(ctx, time.Millisecond); err != nil {
				return err
			}
		}
	}
	return nil
}

// round sends as many messages as may be in flight and takes what has arrived.
func (t *traffic) round(goal int) error {
	for t.sent < goal && t.sent-t.taken < inFlight {
		from := t.sent % t.agents
		to := recipient(t.sent, from, t.agents)
		name, data := t.generator.next(to)
		if err := send(outboxOf(t.dir, from), name, data); err != nil {
			return fmt.Errorf("send a message: %w", err)
		}
		t.sent++
		t.pending[to]++
	}
	for i, pending := range t.pending {
		if pending == 0 {
			continue
		}
		n, err := takeMail(t.dir, i)
		if err != nil {
			return err
		}
		t.pending[i] -= n
		t.taken += n
	}
	return nil
}
