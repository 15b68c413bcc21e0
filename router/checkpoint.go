package router

import (
	"context"
	"fmt"
	"time"

	"github.com/hived/hived/internal/failpoint"
	"github.com/hived/hived/ledger"
	"github.com/hived/hived/protocol"
)

// settleEvery is how often what was placed is made durable. Until then a crash
// makes hived place it again (spec §3, recovery).
const settleEvery = 5 * time.Second

// checkpoint makes everything up to one event durable on the disk, and then
// says so in the log.
type checkpoint struct {
	last    protocol.Seq // the newest event that placed something
	since   time.Time    // of the oldest of them that is not settled; zero: none
	running bool
	done    chan synced
	passes  int
}

type synced struct {
	through protocol.Seq
	err     error
}

// touched notes an event whose effects are not durable yet.
func (c *checkpoint) touched(ev protocol.Event) {
	c.last = ev.Seq
	if c.since.IsZero() {
		c.since = time.Now()
	}
}

// due is when the next checkpoint is; zero when there is nothing to settle.
func (c *checkpoint) due(s *ledger.State) time.Time {
	if c.running || c.since.IsZero() || c.last <= s.Settled {
		return time.Time{}
	}
	return c.since.Add(settleEvery)
}

// checkpointMaybe starts a checkpoint beside the loop when one is due.
func (r *Router) checkpointMaybe(now time.Time) {
	if due := r.mark.due(r.state); due.IsZero() || now.Before(due) {
		return
	}
	through := r.settleable()
	if through <= r.state.Settled {
		r.mark.since = now
		return
	}
	r.mark.running, r.mark.since = true, time.Time{}
	done := make(chan synced, 1)
	r.mark.done = done
	disk := r.disk
	go func() { done <- synced{through, disk.SyncAll()} }()
}

// settleable is the newest event up to which nothing is owed.
func (r *Router) settleable() protocol.Seq {
	through := r.state.Seq
	if len(r.stuck) > 0 {
		through = r.stuck[0].Event.Seq - 1
	}
	for _, x := range r.debts {
		through = min(through, x.seq-1)
	}
	for _, f := range r.originals {
		through = min(through, f.seq-1)
	}
	return through
}

// settled logs the mark of a checkpoint that is done.
func (r *Router) settled(res synced) error {
	r.mark.running, r.mark.done = false, nil
	if res.err != nil {
		return fmt.Errorf("make delivered files durable: %w", res.err)
	}
	failpoint.Hit(failpoint.CheckpointSynced)
	if r.mark.last > res.through && r.mark.since.IsZero() {
		r.mark.since = time.Now()
	}
	r.decider.Record(time.Now(), &protocol.HiveEvent{Action: protocol.Settled, Through: res.through})
	return nil
}

// sealAtStop is how big an open segment is sealed at a clean stop (spec §5).
const sealAtStop = 1 << 20

// finish ends a daemon cleanly: what was decided is carried out, everything is
// durable, and the log says that it stopped.
func (r *Router) finish(ctx context.Context) error {
	now := time.Now()
	if r.mark.running {
		if err := r.settled(<-r.mark.done); err != nil {
			return err
		}
	}
	if len(r.stuck) > 0 {
		return nil // no room to say anything; nothing of it was accepted
	}
	// What the agents did until now is not left for the next start.
	r.stopping = true
	r.everything()
	if _, err := r.step(ctx, now); err != nil {
		return err
	}
	through := r.settleable()
	if err := r.disk.SyncAll(); err != nil {
		return fmt.Errorf("make delivered files durable: %w", err)
	}
	failpoint.Hit(failpoint.CheckpointSynced)
	if through > r.state.Settled && r.mark.last > r.state.Settled {
		r.decider.Record(now, &protocol.HiveEvent{Action: protocol.Settled, Through: through})
	}
	r.decider.Record(now, &protocol.HiveEvent{Action: protocol.Stopped, Note: r.cfg.Version})
	if err := r.flush(now); err != nil {
		return err
	}
	if len(r.stuck) > 0 {
		return nil
	}
	if r.events.Size() > sealAtStop {
		if err := r.seal(now, r.state.Format); err != nil {
			return err
		}
	}
	return r.lastSnapshot()
}
