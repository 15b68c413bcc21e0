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
	"github.com/hived/hived/ledger"
	"github.com/hived/hived/mailbox"
	"github.com/hived/hived/protocol"
)

// How much one batch takes: a batch shares one sync of the log, and nobody
// waits longer than one batch for somebody else (spec §3, order).
const (
	batchEvents  = 512
	batchPerTurn = 64 // of one agent, while others wait
)

// inboxEvery spares an inbox that changes all the time from being listed all
// the time: handling is not urgent.
const inboxEvery = 100 * time.Millisecond

// attention is what of one agent has to be looked at.
type attention struct {
	id      protocol.AgentID
	outbox  bool
	inbox   bool
	own     bool
	force   bool      // look also for delivered files that were changed in place
	ownAll  bool      // look at all own files, not only at those that changed
	again   time.Time // an unsettled file wants another look; zero: none
	listed  time.Time // when the inbox was looked at
	ownLate time.Time // own files that may be versioned again only then; zero: none
}

// attentionRoot is the same for what belongs to no agent.
type attentionRoot struct {
	agents bool
	own    bool
	ownAll bool
	late   time.Time // board.md may be versioned again only then; zero: at once
}

// loop is the daemon's life: look at everything once, then at what the
// watcher hints at, and at everything every rescan, because watching is a hint
// and the pass is the truth (spec §3.1).
func (r *Router) loop(ctx context.Context) error {
	r.everything(true)
	rescan := time.NewTicker(r.cfg.Settings.Rescan)
	defer rescan.Stop()
	passes := 0
	for ctx.Err() == nil {
		r.moreHints()
		busy, err := r.step(ctx, time.Now())
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
			r.everything(true)
			continue
		}
		if err := r.wait(ctx, rescan.C); err != nil {
			return err
		}
	}
	return nil
}

// thorough is how many rescans pass between two that look at what no hint and
// no directory's time can tell of: files changed in place.
const thorough = 5

// everything makes the next steps a full pass.
func (r *Router) everything(force bool) {
	r.root.agents, r.root.own = true, true
	for _, a := range r.agents {
		a.outbox, a.inbox, a.own, a.force = true, true, true, a.force || force
	}
}

// idle tells whether nothing is unsettled.
func (r *Router) idle() bool {
	if len(r.debts) > 0 || len(r.stuck) > 0 {
		return false
	}
	for _, a := range r.agents {
		if !a.again.IsZero() {
			return false
		}
	}
	return true
}

// moreHints takes what the watcher saw, if there is anything.
func (r *Router) moreHints() {
	select {
	case list := <-r.watch.Hints():
		r.hints(list)
	default:
	}
}

// hints turns what the watcher saw into what has to be looked at.
func (r *Router) hints(list []mailbox.Hint) {
	for _, h := range list {
		if h.Overflow {
			r.everything(false)
			return
		}
		a := r.agents[h.Agent]
		switch {
		case h.Part == mailbox.PartAgents:
			r.root.agents = true
		case h.Part == mailbox.PartRoot:
			r.root.own = true
		case a == nil:
			r.root.agents = true
		case h.Part == mailbox.PartOutbox:
			a.outbox = true
		case h.Part == mailbox.PartInbox:
			a.inbox = true
		default:
			a.own, a.outbox, a.inbox = true, true, true
		}
	}
}

// wait sleeps until there is something to do.
func (r *Router) wait(ctx context.Context, rescan <-chan time.Time) error {
	timer := time.NewTimer(r.nextWake(time.Now()))
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case list := <-r.watch.Hints():
		r.hints(list)
	case <-timer.C:
	case <-rescan:
		r.mark.passes++
		r.everything(r.mark.passes%thorough == 0 || r.watch.Degraded() != "")
		if r.mark.passes%thorough == 0 {
			r.lookBack(time.Now())
			r.takenAway(time.Now())
		}
		return errors.Join(r.holdLog(), r.holdLock())
	case a := <-r.alerts:
		r.decider.Alert(time.Now(), a)
	case paths := <-r.forced:
		r.ownNow(paths)
	case <-r.back:
		return r.restore()
	case res := <-r.mark.done:
		return r.settled(res)
	}
	return nil
}

// nextWake is how long nothing needs a look.
func (r *Router) nextWake(now time.Time) time.Duration {
	next := now.Add(r.cfg.Settings.Rescan)
	sooner := func(t time.Time) {
		if !t.IsZero() && t.Before(next) {
			next = t
		}
	}
	for _, a := range r.agents {
		sooner(a.again)
		sooner(a.ownLate)
		if a.inbox {
			sooner(a.listed.Add(inboxEvery))
		}
	}
	sooner(r.root.late)
	sooner(r.mark.due(r.state))
	if r.news() {
		sooner(r.told.Add(time.Second))
	}
	return max(next.Sub(now), time.Millisecond)
}

// step decides and carries out one batch. It says whether there is more to do
// at once.
func (r *Router) step(ctx context.Context, now time.Time) (busy bool, err error) {
	if len(r.stuck) > 0 {
		return false, r.unstick()
	}
	r.dueTimers(now)
	if err := r.roster(now); err != nil {
		return false, err
	}
	if err := r.inboxes(now); err != nil {
		return false, err
	}
	r.ownFiles(now)
	more, err := r.outboxes(ctx, now)
	if err != nil {
		return false, err
	}
	r.drainAlerts(now)
	r.recheck(now)
	r.sweep(now)
	wrote := r.decider.Pending() > 0
	if err := r.flush(now); err != nil {
		return false, err
	}
	r.payDebts()
	r.checkpointMaybe(now)
	r.writeStatus(now, false)
	return more || wrote && r.dirty(), nil
}

func (r *Router) dirty() bool {
	for _, a := range r.agents {
		if a.outbox {
			return true
		}
	}
	return r.root.agents
}

func (r *Router) dueTimers(now time.Time) {
	for _, a := range r.agents {
		if !a.again.IsZero() && !now.Before(a.again) {
			a.again, a.outbox, a.inbox = time.Time{}, true, true
		}
		if !a.ownLate.IsZero() && (r.stopping || !now.Before(a.ownLate)) {
			a.ownLate, a.own, a.ownAll = time.Time{}, true, true
		}
	}
	if !r.root.late.IsZero() && (r.stopping || !now.Before(r.root.late)) {
		r.root.late, r.root.own, r.root.ownAll = time.Time{}, true, true
	}
}

func (r *Router) drainAlerts(now time.Time) {
	for {
		select {
		case a := <-r.alerts:
			r.decider.Alert(now, a)
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
	r.decider.Alert(now, a)
}

func alertKey(code protocol.Code, id protocol.AgentID, p string) string {
	return string(code) + "\x00" + string(id) + "\x00" + p
}

// roster notices new agents, and makes the directories that one needs
// (spec §1).
func (r *Router) roster(now time.Time) error {
	if !r.root.agents {
		return nil
	}
	r.root.agents = false
	dirs, _, err := r.boxes.Agents(now)
	if err != nil {
		r.alertOnce(now, &protocol.AlertEvent{Code: protocol.CodeBadAgentDir, Path: protocol.PathAgents, Text: "list agents/: " + err.Error()})
		return nil //nolint:nilerr // what is there already goes on
	}
	for _, dir := range dirs {
		if dir.Why != "" && r.state.Agents[dir.ID] == nil {
			r.alertOnce(now, &protocol.AlertEvent{Code: protocol.CodeBadAgentDir, Path: protocol.PathAgents + "/" + protocol.SafeName(dir.Name), Text: protocol.SafeName(dir.Name) + " is no agent: " + dir.Why})
			continue
		}
		if r.state.Agents[dir.ID] == nil {
			r.decider.Join(now, dir.ID)
		}
	}
	for id := range r.state.Agents {
		if err := r.attend(now, id); err != nil {
			return err
		}
	}
	return nil
}

// attend makes an agent's directories and begins to look at them.
func (r *Router) attend(now time.Time, id protocol.AgentID) error {
	if r.agents[id] == nil {
		a := &attention{id: id, outbox: true, inbox: true, own: true, force: true}
		r.agents[id] = a
		r.order = append(r.order, id)
		slices.Sort(r.order)
	}
	if _, err := r.boxes.Ensure(id); err != nil {
		r.alertOnce(now, &protocol.AlertEvent{Code: protocol.CodeBadAgentDir, Agent: id, Path: protocol.AgentDir(id), Text: err.Error()})
	}
	r.watch.Add(id)
	return nil
}

// outboxes takes in messages, in turns, until the batch is full.
func (r *Router) outboxes(ctx context.Context, now time.Time) (more bool, err error) {
	turns := r.waiting()
	if len(turns) == 0 {
		return false, nil
	}
	slice := max(batchPerTurn, batchEvents/len(turns))
	for _, a := range turns {
		if r.decider.Pending() >= batchEvents || done(ctx) {
			return true, nil
		}
		r.turn++
		if err := r.outbox(now, a, slice); err != nil {
			return false, err
		}
		more = more || a.outbox
	}
	return more, nil
}

func done(ctx context.Context) bool { return ctx.Err() != nil }

// waiting lists the agents whose outboxes have to be looked at, beginning with
// the one whose turn it is.
func (r *Router) waiting() []*attention {
	var list []*attention
	for i := range r.order {
		a := r.agents[r.order[(r.turn+i)%len(r.order)]]
		if agent := r.state.Agents[a.id]; a.outbox && agent != nil && agent.Status != ledger.OnHold {
			list = append(list, a)
		}
	}
	return list
}

func (r *Router) outbox(now time.Time, a *attention, limit int) error {
	scan, err := r.boxes.Arrivals(a.id, now, limit)
	if err != nil {
		a.outbox = false
		r.alertOnce(now, &protocol.AlertEvent{Code: protocol.CodeUnreadable, Agent: a.id, Path: protocol.OutboxDir(a.id), Text: err.Error()})
		return nil //nolint:nilerr // one agent\'s trouble stops no other
	}
	a.outbox = scan.More
	a.lookAgain(scan.Again)
	for _, x := range scan.Arrivals {
		key := original{a.id, x.Original}
		if f, known := r.originals[key]; known {
			r.archive(key, x, f)
			continue
		}
		if err := r.decider.Arrival(now, x); err != nil {
			return err
		}
		r.arrivals = append(r.arrivals, x)
	}
	for _, s := range scan.Strays {
		if err := r.decider.Stray(now, a.id, s); err != nil {
			return err
		}
	}
	return nil
}

// lookAgain takes note of when something doubtful wants another look.
func (a *attention) lookAgain(at time.Time) {
	if !at.IsZero() && (a.again.IsZero() || at.Before(a.again)) {
		a.again = at
	}
}

// flush appends what was decided, and when it is durable carries it out.
func (r *Router) flush(now time.Time) error {
	list := r.decider.Take(now)
	if len(list) == 0 {
		return nil
	}
	return r.commit(list)
}

// commit makes decisions durable. A full disk pauses intake, and the same
// decisions wait for room; any other failure ends the daemon, because nobody
// can tell any more what is on the disk (invariants 6 and 7).
func (r *Router) commit(list []Decision) error {
	if err := r.holdLog(); err != nil {
		return err
	}
	evs := make([]protocol.Event, len(list))
	for i := range list {
		evs[i] = list[i].Event
	}
	sums, err := r.events.Append(evs)
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
	if r.events.Due() {
		return r.seal(time.Now())
	}
	return nil
}

// holdLog writes the log again where somebody deleted it under the daemon.
func (r *Router) holdLog() error {
	restored, err := r.events.Hold()
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

// unstick tries the decisions that found no room once more.
func (r *Router) unstick() error {
	err := r.commit(r.stuck)
	r.writeStatus(time.Now(), false)
	return err
}

// carryOut makes the disk agree with events that are durable, and hands them
// to the committer.
func (r *Router) carryOut(list []Decision, sums []protocol.Sum) {
	r.letters(list)
	entries := make([]entry, len(list))
	for i, d := range list {
		r.place(d)
		entries[i] = newEntry(d.Event, sums[i], d.Changes)
		if len(d.Changes) > 0 {
			r.mark.touched(d.Event)
		}
		if !entries[i].idle {
			r.busy = d.Event.Seq
		}
		r.cfg.OnEvent(d.Event)
	}
	if r.git != nil {
		r.git.add(entries)
	}
}

// seal closes the open segment of the log.
func (r *Router) seal(now time.Time) error {
	ev, sum, err := r.events.Seal(now)
	if errors.Is(err, durable.ErrNoSpace) && !errors.Is(err, durable.ErrSync) {
		return nil // the segment stays open until there is room
	}
	if err != nil {
		return fmt.Errorf("seal the log: %w", err)
	}
	changes, err := ledger.Changes(ev)
	if err != nil {
		return err
	}
	r.state.Apply(ev)
	r.carryOut([]Decision{{ev, changes}}, []protocol.Sum{sum})
	return nil
}

// readEvent reads one event again from the log.
func (r *Router) readEvent(seq protocol.Seq) (protocol.Event, error) {
	for rec, err := range eventlog.Read(r.disk, eventlog.Position{Seq: seq - 1}) {
		if err != nil {
			return protocol.Event{}, err
		}
		return rec.Event, nil
	}
	return protocol.Event{}, fmt.Errorf("read event %s: %w", seq, errNoEvent)
}

var errNoEvent = errors.New("it is not in the log")
