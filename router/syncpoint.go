package router

import (
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/failpoint"
	"github.com/hived/hived/protocol"
)

// syncEvery is how often what was placed is made durable. After a crash what was placed
// since is placed again (spec §3, recovery).
const syncEvery = 5 * time.Second

// syncPoints makes what was placed durable on the disk, beside the loop, so that the
// log can say through which event it is.
type syncPoints struct {
	disk   durable.FS
	beside *errgroup.Group // where the disk is synced
	last   protocol.Seq    // the newest event that placed something
	since  time.Time       // of the oldest of them for which no sync has begun; zero: none
	done   chan synced     // of the sync under way; nil: none is
}

// synced is what became of a sync, and through which event.
type synced struct {
	through protocol.Seq
	err     error
}

// notePlaced notes that what an event placed is not durable yet.
func (s *syncPoints) notePlaced(seq protocol.Seq) {
	s.last = seq
	if s.since.IsZero() {
		s.since = time.Now()
	}
}

// due returns when the next sync begins, where everything through an event is settled;
// zero: there is nothing to sync.
func (s *syncPoints) due(settled protocol.Seq) time.Time {
	if s.done != nil || s.since.IsZero() || s.last <= settled {
		return time.Time{}
	}
	return s.since.Add(syncEvery)
}

// begin starts a sync of the disk, for what was placed through an event.
func (s *syncPoints) begin(through protocol.Seq) {
	done := make(chan synced, 1)
	s.done, s.since = done, time.Time{}
	disk := s.disk
	s.beside.Go(func() error { done <- synced{through, disk.SyncAll()}; return nil })
}

// ended notes the end of a sync. The error of a failed one ends the daemon.
func (s *syncPoints) ended(res synced) error {
	s.done = nil
	if res.err != nil {
		return fmt.Errorf("make delivered files durable: %w", res.err)
	}
	failpoint.Hit(failpoint.CheckpointSynced)
	if s.last > res.through && s.since.IsZero() {
		s.since = time.Now()
	}
	return nil
}

// syncIfDue begins a sync point when one is due.
func (r *Router) syncIfDue(now time.Time) {
	if due := r.sync.due(r.state.Settled); due.IsZero() || now.Before(due) {
		return
	}
	through := r.settleable()
	if through <= r.state.Settled {
		r.sync.since = now
		return
	}
	r.sync.begin(through)
}

// settleable returns the newest event through which everything is placed.
func (r *Router) settleable() protocol.Seq {
	through := r.place.Backlog().Settled
	if len(r.events.stuck) > 0 {
		through = min(through, r.events.stuck[0].Event.Seq-1)
	}
	return through
}

// settled logs a sync point that has ended.
func (r *Router) settled(res synced) error {
	if err := r.sync.ended(res); err != nil {
		return err
	}
	r.decider.Record(time.Now(), &protocol.HiveEvent{Action: protocol.Settled, Through: res.through})
	return nil
}
