package router

import (
	"context"
	"slices"
	"time"

	"github.com/hived/hived/gitcommit/follow"
	"github.com/hived/hived/internal/failpoint"
	"github.com/hived/hived/mailbox"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/router/decide"
)

// hearing is how long a loop that is busy with timers listens for what was sent
// before it takes the next batch of them: a hint comes a moment after its file.
const hearing = time.Millisecond

// loop scans everything once, then what the watcher hints at, and at every rescan what
// moved, because hints get lost (spec §3.1).
func (r *Router) loop(ctx context.Context) error {
	defer close(r.reads.over)
	r.agenda.ScrubAll()
	rescan := time.NewTicker(r.cfg.Settings.Rescan)
	defer rescan.Stop()
	passes, listen := 0, time.Duration(0)
	for ctx.Err() == nil {
		if err := r.wait(ctx, rescan.C, listen); err != nil {
			return err
		}
		busy, err := r.step(ctx, r.clock.Now())
		if err != nil {
			return err
		}
		if listen = 0; busy {
			if r.decider.TasksDue(r.clock.Now()) {
				listen = hearing
			}
			continue
		}
		if r.cfg.Once && r.idle() {
			if passes++; passes > 1 {
				return nil
			}
			r.agenda.ScrubAll()
			continue
		}
		if err := r.wait(ctx, rescan.C, r.nextWake(r.clock.Now())); err != nil {
			return err
		}
	}
	return nil
}

// idle reports whether nothing is left that a loop with [Config.Once] waits for.
func (r *Router) idle() bool {
	if r.place.Backlog().Files > 0 || r.events.full() {
		return false
	}
	for _, a := range r.agenda.Agents {
		if r.agenda.Unread(a) {
			return false
		}
	}
	return true
}

// nextWake returns for how long nothing is due.
func (r *Router) nextWake(now time.Time) time.Duration {
	next := now.Add(r.cfg.Settings.Rescan)
	times := []time.Time{r.agenda.Next(), r.sync.due(r.state.Settled), r.decider.Next(now)}
	if r.statusChanged() {
		times = append(times, r.report.at.Add(time.Second))
	}
	for _, t := range times {
		if !t.IsZero() && t.Before(next) {
			next = t
		}
	}
	return max(next.Sub(now), time.Millisecond)
}

// wait sleeps until there is something to do, and no longer than most. With zero it
// does not sleep, but does what waits to be received.
func (r *Router) wait(ctx context.Context, rescan <-chan time.Time, most time.Duration) error {
	r.clock.Waits(most)
	timer := time.NewTimer(most)
	defer timer.Stop()
	if r.cfg.OnStandstill != nil && most > 0 {
		defer func(from time.Time) { r.clock.Slept(from, time.Now()) }(time.Now())
	}
	defer func() { // hints do not wait for the next call because something else came first
		select {
		case list := <-r.watch.Hints():
			r.agenda.Hints(time.Now(), list)
		default:
		}
	}()
	select {
	case <-ctx.Done():
	case list := <-r.watch.Hints():
		r.agenda.Hints(time.Now(), list)
	case <-timer.C:
	case <-rescan:
		return r.rescan()
	case a := <-r.alerts.posted:
		r.alerts.raise(time.Now(), a)
	case paths := <-r.git.committed:
		r.own.scanNow(paths)
	case <-r.git.rewound:
		r.place.Restore()
	case res := <-r.sync.done:
		return r.settled(res)
	case err := <-r.events.snapshot.Done():
		return r.events.snapshot.Ended(err)
	case read := <-r.readRequests():
		read()
	}
	return nil
}

// step scans, decides and carries out one batch. It reports whether there is more to
// do at once.
func (r *Router) step(ctx context.Context, now time.Time) (busy bool, err error) {
	if len(r.events.stuck) > 0 {
		return false, r.commitStuck()
	}
	if r.events.awaits > 0 {
		if ready, err := r.newFormat(now, r.events.awaits); !ready {
			r.refreshStatus(time.Now())
			return false, err
		}
	}
	r.checkClock(now)
	r.intake.releaseHeld()
	r.agenda.Due(now)
	if err := r.roster(now); err != nil {
		return false, err
	}
	more := r.scanMoved(now)
	if err := r.inboxes.scan(now); err != nil {
		return false, err
	}
	r.own.scan(now)
	sent, now, err := r.intake.take(ctx, now)
	if err != nil {
		return false, err
	}
	timers, err := r.tasks(ctx, now)
	if err != nil {
		return false, err
	}
	goesOn, err := r.threads(now)
	if err != nil {
		return false, err
	}
	r.alerts.drain(now)
	r.sweeper.sweepCrowded(now)
	wrote := len(r.decider.Pending()) > 0
	if err := r.flush(now); err != nil {
		return false, err
	}
	refilling, filled := r.place.Retry(now)
	for _, id := range filled {
		r.agenda.Hints(now, []mailbox.Hint{{Agent: id, Part: mailbox.PartInbox}})
	}
	r.putRight(now)
	r.syncIfDue(now)
	r.refreshStatus(now)
	// The scrub comes last, so that no message waits for it.
	more = r.scrub(now) || more || sent || timers || refilling || goesOn
	if r.events.awaits > 0 {
		return false, nil
	}
	return more || r.scansWait() || len(r.decider.Pending()) > 0 || wrote && r.agenda.Root.Agents, nil
}

// scansWait reports whether any agent is due for a scan that is possible now.
func (r *Router) scansWait() bool {
	q := &r.agenda.Queues
	return len(q.Moved.Waiting)+len(q.Outbox.Waiting)+len(q.Inbox.Waiting)+len(q.Crowded.Waiting) > 0 ||
		len(q.Own.Waiting) > 0 && r.git.undisturbed()
}

// checkClock records that the clock was set, or that the process was paused: no wait
// ends because of them, and what was sent meanwhile is looked for first.
func (r *Router) checkClock(now time.Time) {
	if by := r.clock.Jumped(); by != 0 {
		r.decider.Record(now, &protocol.HiveEvent{Action: protocol.ClockJumped, Jump: by.Milliseconds(), Note: "the clock of the machine was set by " + by.Round(time.Second).String()})
		r.agenda.ScrubAll()
	}
	if late := r.clock.Paused(); late != 0 {
		r.decider.Record(now, &protocol.HiveEvent{Action: protocol.ClockJumped, Note: "hived did not run for " + late.Round(time.Second).String()})
		r.agenda.ScrubAll()
	}
}

// threads does what is due with stopped threads.
func (r *Router) threads(now time.Time) (more bool, err error) {
	if r.events.full() || len(r.decider.Pending()) >= batchEvents {
		return false, nil
	}
	return r.decider.Threads(now)
}

// flush commits what was decided. While earlier decisions wait for room in the log it
// does nothing, because these have later numbers.
func (r *Router) flush(now time.Time) error {
	if len(r.events.stuck) > 0 {
		return nil
	}
	list := r.decider.Drain(now)
	if len(list) == 0 {
		return nil
	}
	r.memory.Busy()
	return r.commit(list)
}

// commit appends decisions to the log and, when they are durable, carries them out.
// Where the log has no room they are stuck. A segment that is large enough is sealed.
func (r *Router) commit(list []decide.Decision) error {
	if err := r.events.restoreDeleted(); err != nil {
		return err
	}
	readAhead := r.intake.readAhead(time.Now(), list)
	sums, err := r.events.append(list)
	readAhead()
	r.events.foreign()
	if err != nil || sums == nil {
		return err
	}
	r.carryOut(list, sums)
	// What was decided while others waited for room has its numbers: no other event
	// may come before it.
	if r.events.Due() && len(r.decider.Pending()) == 0 {
		return r.seal(time.Now(), r.state.Format)
	}
	return nil
}

// commitStuck commits the decisions that found no room.
func (r *Router) commitStuck() error {
	err := r.commit(r.events.stuck)
	r.refreshStatus(time.Now())
	return err
}

// newFormat seals a segment of an older format than is needed for what is decided next.
// Numbers are given with a decision, so that comes before it (spec §5.4). It reports
// whether more may be decided; on a full disk intake pauses.
func (r *Router) newFormat(now time.Time, needed int) (ready bool, err error) {
	if r.state.Format < needed {
		if err := r.flush(now); err != nil || len(r.events.stuck) > 0 {
			return false, err
		}
		if err := r.seal(now, needed); err != nil {
			return false, err
		}
	}
	return r.events.sealedFor(r.state.Format, needed), nil
}

// carryOut makes the disk agree with events that are durable, and hands them
// to the committer.
func (r *Router) carryOut(list []decide.Decision, sums []protocol.Sum) {
	r.attendJoined(list)
	steps := steps(list)
	r.place.Place(steps)
	r.intake.forgetSuspect(list)
	entries := make([]follow.Entry, len(list))
	for i, d := range list {
		r.applyControl(d)
		r.sweeper.noteCrowded(steps[i].Placements)
		r.inboxes.noteActed(d.Event)
		entries[i] = follow.NewEntry(d.Event, sums[i], slices.Concat(d.Changes, d.Views))
		if len(d.Changes)+len(d.Views) > 0 {
			r.sync.notePlaced(d.Event.Seq)
		}
		r.cfg.OnEvent(d.Event)
	}
	failpoint.Hit(failpoint.CarriedOut)
	if r.git.usable() {
		r.git.Add(entries)
	}
}

// seal closes the open segment of the log and begins one of a format. On a full
// disk the segment stays open until there is room.
func (r *Router) seal(now time.Time, format int) error {
	size := r.events.Size()
	sealed, sum, err := r.events.seal(now, format)
	if err != nil || sealed == nil {
		return err
	}
	r.state.Apply(sealed.Event)
	r.carryOut([]decide.Decision{*sealed}, []protocol.Sum{sum})
	r.events.snapshot.Sealed(size, r.state, r.events.Sum())
	return nil
}
