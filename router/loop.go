package router

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/hived/hived/eventlog"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/failpoint"
	"github.com/hived/hived/ledger"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/router/decide"
)

// hearing is how long a loop that is busy with timers listens for what was sent
// before it takes the next batch of them: a hint comes a moment after its file.
const hearing = time.Millisecond

// loop is the daemon's life: look at everything once, then at what the
// watcher hints at, and every rescan at what moved, because watching is a hint
// and the pass is the truth (spec §3.1).
func (r *Router) loop(ctx context.Context) error {
	r.thorough()
	rescan := time.NewTicker(r.cfg.Settings.Rescan)
	defer rescan.Stop()
	passes := 0
	for ctx.Err() == nil {
		if err := r.wait(ctx, rescan.C, r.breath()); err != nil {
			return err
		}
		busy, err := r.step(ctx, r.clock.now())
		if err != nil {
			return err
		}
		if busy {
			continue
		}
		if r.cfg.Once && r.idle() {
			if passes++; passes > 1 {
				return nil
			}
			r.thorough()
			continue
		}
		if err := r.wait(ctx, rescan.C, r.nextWake(r.clock.now())); err != nil {
			return err
		}
	}
	return nil
}

// breath is for how long a busy loop listens before its next step.
func (r *Router) breath() time.Duration {
	if r.due {
		return hearing
	}
	return 0
}

// idle tells whether nothing is unsettled.
func (r *Router) idle() bool {
	if len(r.debts) > 0 || r.full() {
		return false
	}
	return !slices.ContainsFunc(r.timers, func(a *attention) bool { return !a.again.IsZero() })
}

// wait sleeps until there is something to do, and no longer than most. A busy
// loop does not sleep, but hears of everything that an idle one does.
func (r *Router) wait(ctx context.Context, rescan <-chan time.Time, most time.Duration) error {
	r.clock.rest += most
	timer := time.NewTimer(most)
	defer timer.Stop()
	if r.cfg.OnStandstill != nil && most > 0 {
		defer func(from time.Time) { r.asleep.slept(from, time.Now()) }(time.Now())
	}
	defer func() { // what was sent does not wait because something else came as well
		select {
		case list := <-r.watch.Hints():
			r.hints(list)
		default:
		}
	}()
	select {
	case <-ctx.Done():
	case list := <-r.watch.Hints():
		r.hints(list)
	case <-timer.C:
	case <-rescan:
		return r.rescan()
	case a := <-r.alerts:
		r.alert(time.Now(), a)
	case paths := <-r.forced:
		r.ownNow(paths)
	case <-r.back:
		return r.restore()
	case res := <-r.mark.done:
		return r.settled(res)
	case err := <-r.snapshot.done:
		return r.snapshotTaken(err)
	}
	return nil
}

// step looks, decides and carries out one batch. It says whether there is more
// to do at once.
func (r *Router) step(ctx context.Context, now time.Time) (busy bool, err error) {
	if len(r.stuck) > 0 {
		return false, r.unstick()
	}
	if r.unsealed {
		if ready, err := r.newFormat(now); !ready {
			r.tellStatus(time.Now())
			return false, err
		}
	}
	r.keepTime(now)
	r.letOut()
	r.dueTimers(now)
	if err := r.roster(now); err != nil {
		return false, err
	}
	more := r.looks(now)
	if err := r.inboxes(now); err != nil {
		return false, err
	}
	r.ownFiles(now)
	sent, now, err := r.outboxes(ctx, now)
	if err != nil {
		return false, err
	}
	if r.due, err = r.tasks(ctx, now); err != nil {
		return false, err
	}
	goesOn, err := r.stopped(now)
	if err != nil {
		return false, err
	}
	r.drainAlerts(now)
	r.recheck(now)
	r.relieve(now)
	wrote := len(r.decider.Pending()) > 0
	if err := r.flush(now); err != nil {
		return false, err
	}
	r.payDebts()
	r.putRight(now)
	refilling := r.refillSome(now)
	r.checkpointMaybe(now)
	r.tellStatus(now)
	// Turns come last: nothing that was sent waits for them.
	more = r.turns(now) || more || sent || r.due || refilling || goesOn
	if r.unsealed {
		return false, nil
	}
	return more || r.waiting() || len(r.decider.Pending()) > 0 || wrote && r.root.agents, nil
}

// stopped tells senders of what was stopped, and delivers what goes on.
func (r *Router) stopped(now time.Time) (more bool, err error) {
	if r.full() || len(r.decider.Pending()) >= batchEvents {
		return false, nil
	}
	if err := r.decider.Stops(now); err != nil {
		return false, err
	}
	return r.decider.GoOn(now)
}

func (r *Router) drainAlerts(now time.Time) {
	for {
		select {
		case a := <-r.alerts:
			r.alert(now, a)
		default:
			return
		}
	}
}

// alertOnce records something that stays true, once.
func (r *Router) alertOnce(now time.Time, a *protocol.AlertEvent) {
	key := alertKey(a.Code, a.Agent, a.Path)
	if r.alerted[key] {
		return
	}
	if len(r.alerted) > 1<<16 {
		clear(r.alerted)
	}
	r.alerted[key] = true
	r.alert(now, a)
}

// alert records an alert. That nobody could be told of it stops nothing.
func (r *Router) alert(now time.Time, a *protocol.AlertEvent) {
	if err := r.decider.Alert(now, a); err != nil {
		r.cfg.Log.Error("cannot tell of an alert", slog.String("code", string(a.Code)), slog.String("error", err.Error()))
	}
}

func alertKey(code protocol.Code, id protocol.AgentID, p string) string {
	return string(code) + "\x00" + string(id) + "\x00" + p
}

// flush appends what was decided, and when it is durable carries it out. What
// was decided while others wait for room has later numbers, and waits too.
func (r *Router) flush(now time.Time) error {
	if len(r.stuck) > 0 {
		return nil
	}
	list := r.decider.Take(now)
	if len(list) == 0 {
		return nil
	}
	r.collector.busy()
	return r.commit(list)
}

// commit makes decisions durable. A full disk pauses intake, and the same
// decisions wait for room; any other failure ends the daemon, because nobody
// can tell any more what is on the disk (invariants 6 and 7).
func (r *Router) commit(list []decide.Decision) error {
	if err := r.holdLog(); err != nil {
		return err
	}
	evs := make([]protocol.Event, len(list))
	for i := range list {
		evs[i] = list[i].Event
	}
	readAhead := r.readAhead(time.Now())
	sums, err := r.events.Append(evs)
	readAhead()
	r.sayForeign()
	switch {
	case errors.Is(err, durable.ErrNoSpace) && !errors.Is(err, durable.ErrSync):
		if len(r.stuck) == 0 {
			r.cfg.Log.Error("the disk is full, intake pauses", slog.String("error", err.Error()))
		}
		r.stuck = list
		return nil
	case err != nil:
		return fmt.Errorf("append to the log: %w", err)
	}
	if len(r.stuck) > 0 {
		r.stuck = nil
		r.cfg.Log.Info("there is room again, intake goes on")
	}
	r.carryOut(list, sums)
	// What was decided while others waited for room has its numbers already.
	if r.events.Due() && len(r.decider.Pending()) == 0 {
		return r.seal(time.Now(), r.state.Format)
	}
	return nil
}

// newFormat makes sure that what is decided next may be of the newest format:
// numbers are given with a decision, so the segment of an older format is sealed
// before it (spec §5.4). It reports whether it may; on a full disk intake pauses.
func (r *Router) newFormat(now time.Time) (ready bool, err error) {
	if r.state.Format < protocol.LogFormat {
		if err := r.flush(now); err != nil || len(r.stuck) > 0 {
			return false, err
		}
		if err := r.seal(now, protocol.LogFormat); err != nil {
			return false, err
		}
	}
	was := r.unsealed
	r.unsealed = r.state.Format < protocol.LogFormat
	switch {
	case r.unsealed && !was:
		r.cfg.Log.Error("the disk is full, the segment of the log cannot be sealed: intake pauses")
	case was && !r.unsealed:
		r.cfg.Log.Info("there is room again, intake goes on")
	}
	return !r.unsealed, nil
}

// holdLog writes the log again where somebody deleted it under the daemon.
func (r *Router) holdLog() error {
	restored, err := r.events.Hold()
	r.sayForeign()
	switch {
	case restored:
		r.cfg.Log.Error("log.jsonl was deleted while hived runs; it was written again")
		r.say(&protocol.AlertEvent{Code: protocol.CodeLogRestored, Path: protocol.PathLog, Text: "log.jsonl was deleted while hived ran; it was written again from the open file"})
	case errors.Is(err, durable.ErrNoSpace) && !errors.Is(err, durable.ErrSync):
		return nil // the append finds out
	case err != nil:
		return fmt.Errorf("append to the log: %w", err)
	}
	return nil
}

// sayForeign alerts people to what another program wrote into the log.
func (r *Router) sayForeign() {
	for _, f := range r.events.Foreign() {
		r.cfg.Log.Error("another program wrote into log.jsonl; its bytes were set aside", slog.String("path", f.Kept))
		r.say(foreignAlert(f))
	}
}

func foreignAlert(f eventlog.Foreign) *protocol.AlertEvent {
	return &protocol.AlertEvent{
		Code: protocol.CodeLogForeign, Path: f.Kept,
		Text: fmt.Sprintf("another program wrote %d bytes into log.jsonl, before event %d; they stand in %s, and no event is lost. Stop whatever writes there: only hived may", f.Bytes, f.Seq, f.Kept),
	}
}

// unstick tries the decisions that found no room once more.
func (r *Router) unstick() error {
	err := r.commit(r.stuck)
	r.tellStatus(time.Now())
	return err
}

// carryOut makes the disk agree with events that are durable, and hands them
// to the committer.
func (r *Router) carryOut(list []decide.Decision, sums []protocol.Sum) {
	r.newcomers(list)
	r.letters(list)
	r.originalsOf(list)
	r.sweepsOf(list)
	r.filesOf(list)
	entries := make([]entry, len(list))
	viewed := false
	for i, d := range list {
		r.heed(d)
		r.fills(d.Event)
		r.hears(d.Event)
		viewed = viewed || ledger.ChangesView(d.Event) != ""
		entries[i] = newEntry(d.Event, sums[i], slices.Concat(d.Changes, d.Views))
		entries[i].inside = viewed && i < len(list)-1
		if len(d.Changes)+len(d.Views) > 0 {
			r.mark.touched(d.Event)
		}
		if !entries[i].idle {
			r.busy = d.Event.Seq
		}
		r.cfg.OnEvent(d.Event)
	}
	failpoint.Hit(failpoint.CarriedOut)
	if r.git != nil {
		r.git.add(entries)
	}
}

// seal closes the open segment of the log and begins one of a format. On a full
// disk the segment stays open until there is room.
func (r *Router) seal(now time.Time, format int) error {
	size := r.events.Size()
	ev, sum, err := r.events.Seal(now, format)
	if errors.Is(err, durable.ErrNoSpace) && !errors.Is(err, durable.ErrSync) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("seal the log: %w", err)
	}
	changes, err := ledger.Changes(ev)
	if err != nil {
		return err
	}
	r.state.Apply(ev)
	r.carryOut([]decide.Decision{{Event: ev, Changes: changes}}, []protocol.Sum{sum})
	if r.snapshot.grown += size; r.snapshot.due() {
		r.takeSnapshot()
	}
	return nil
}

func readEvent(disk durable.FS, seq protocol.Seq) (protocol.Event, error) {
	for rec, err := range eventlog.Read(disk, eventlog.Position{Seq: seq - 1}) {
		if err != nil {
			return protocol.Event{}, err
		}
		return rec.Event, nil
	}
	return protocol.Event{}, fmt.Errorf("read event %s: %w", seq, ledger.ErrNoEvent)
}
