package router

import (
	"context"
	"fmt"
	"time"

	"github.com/hived/hived/internal/failpoint"
	"github.com/hived/hived/protocol"
)

// sealAtStop is how big an open segment is sealed at a clean stop (spec §5).
const sealAtStop = 1 << 20

// finish stops a daemon cleanly: it carries out what was decided, makes everything
// durable, and logs that the daemon stopped.
func (r *Router) finish(ctx context.Context) error {
	now := time.Now()
	if r.sync.done != nil {
		if err := r.settled(<-r.sync.done); err != nil {
			return err
		}
	}
	if len(r.events.stuck) > 0 {
		return nil // the log has no room for it; nothing that is stuck was accepted
	}
	// What agents did until now is not left to the next start.
	r.agenda.Stopping = true
	r.agenda.ScrubAll()
	if _, err := r.step(ctx, now); err != nil {
		return err
	}
	through := r.settleable()
	if err := r.disk.SyncAll(); err != nil {
		return fmt.Errorf("make delivered files durable: %w", err)
	}
	failpoint.Hit(failpoint.CheckpointSynced)
	if through > r.state.Settled && r.sync.last > r.state.Settled {
		r.decider.Record(now, &protocol.HiveEvent{Action: protocol.Settled, Through: through})
	}
	r.decider.Record(now, &protocol.HiveEvent{Action: protocol.Stopped, Note: r.cfg.Version})
	if err := r.flush(now); err != nil {
		return err
	}
	if len(r.events.stuck) > 0 {
		return nil
	}
	if r.events.Size() > sealAtStop {
		if err := r.seal(now, r.state.Format); err != nil {
			return err
		}
	}
	return r.events.snapshot.Last(r.state, r.events.Sum())
}
