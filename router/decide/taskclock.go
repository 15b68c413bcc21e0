package decide

import (
	"hash/fnv"
	"slices"
	"time"

	"github.com/hived/hived/ledger"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

// TasksAtOnce is how many tasks are decided about before messages have their turn
// again.
const TasksAtOnce = 64

// LivenessLooks is how often an agent's alive file is probed within
// heartbeat_timeout.
const LivenessLooks = 4

// Senses are the questions about agents that decisions about time ask.
type Senses struct {
	// Pulse reads an agent's alive file. If nil, nobody has one.
	Pulse func(protocol.AgentID) Pulse
	// Heard reports whether everything that was in an agent's outbox at a moment has
	// been taken in. If not, it is asked again soon. If nil, it always has.
	Heard func(protocol.AgentID, task.Moment) bool
}

// Pulse is the state of an agent's alive file.
type Pulse struct {
	Touched time.Time     // its modification time; zero if there is no file
	Every   time.Duration // the period that it names; zero if it is only touched
}

// Tasks does what is due: it ends waits and leases, offers the tasks that wait for
// somebody, and finds holders that went silent (spec §8.3). It reports whether more is
// due at once. An error about one task is a *[protocol.TaskError].
func (d *Decider) Tasks(now time.Time, senses Senses) (more bool, err error) {
	at := d.state.Tasks.Moment(now)
	d.carried = 0
	if err := d.withdrawAll(now); err != nil { // before the offers expire, which would count against their agents
		return false, err
	}
	for range TasksAtOnce {
		t := d.plan.due(at)
		if t == nil {
			break
		}
		first := len(d.out)
		err := d.runDue(now, t, senses)
		d.markAtomic(first)
		if err != nil {
			return false, &protocol.TaskError{Task: t.ID, Err: err}
		}
		if next := d.due(t); next > at {
			d.plan.schedule(t, next)
		}
	}
	for _, t := range d.plan.unheard {
		d.plan.schedule(t, d.due(t))
	}
	d.plan.unheard = nil
	if err := d.dispatch(now); err != nil {
		return false, err
	}
	return len(d.plan.ready) > 0 || d.nextTask() <= at && d.nextTask() != 0, nil
}

// TasksDue reports whether [Decider.Tasks] may decide anything now.
func (d *Decider) TasksDue(now time.Time) bool {
	if next := d.nextTask(); next != 0 && next <= d.state.Tasks.Moment(now) {
		return true
	}
	return len(d.plan.ready) > 0 || len(d.plan.unable) > 0 || len(d.plan.freed) > 0 && d.state.Tasks.Stats.States[task.Unassigned] > 0
}

// Next returns when something is due next for tasks or threads; zero if nothing is.
func (d *Decider) Next(now time.Time) time.Time {
	at, stops := d.state.Tasks.Time(d.nextTask()), d.nextStops(now)
	if at.IsZero() || !stops.IsZero() && stops.Before(at) {
		return stops
	}
	return at
}

// nextTask returns when the next task is due; zero if none is.
func (d *Decider) nextTask() task.Moment {
	if len(d.plan.wakes) == 0 {
		return 0
	}
	return d.plan.wakes[0].at
}

// due returns when a task must be decided about; zero if only after something happens
// to it.
func (d *Decider) due(t *task.Task) task.Moment {
	s, book := &d.settings.Tasks, d.state.Tasks
	switch t.State {
	case task.Unassigned:
		if book.Lost(t) != nil {
			return t.Since
		}
		return max(t.NotBefore, t.Until)
	case task.Offered:
		return book.Running(t.Since).Add(s.Lease)
	case task.Pending:
		if !t.Reminded {
			return book.Running(t.Since).Add(s.Lease * 2 / 3)
		}
		return book.Running(t.Since).Add(s.Lease)
	case task.InProgress:
		return d.orGraceEnd(t, min(d.heartbeatEnds(t), d.progressEnds(t), d.nextProbe(t)))
	case task.Stalled:
		if t.Cancelling > 0 { // it is not offered again
			return min(d.graceEnds(t), d.nextProbe(t))
		}
		return min(book.Running(t.Since).Add(s.StallGrace), d.nextProbe(t))
	case task.Paused:
		return d.orGraceEnd(t, approvalMoment(t))
	case task.Retrying:
		return d.orGraceEnd(t, t.NotBefore)
	case task.Blocked:
		if len(t.BlockedOn) > 0 && (book.Lost(t) != nil || len(book.Unmet(t)) == 0) {
			return t.Since
		}
		return d.orGraceEnd(t, 0)
	}
	return t.Since.Add(s.Retention)
}

// orGraceEnd returns the earlier of a moment, if it is not zero, and the end of the
// grace period of a cancel.
func (d *Decider) orGraceEnd(t *task.Task, at task.Moment) task.Moment {
	if t.Cancelling == 0 {
		return at
	}
	end := d.graceEnds(t)
	if at == 0 {
		return end
	}
	return min(at, end)
}

func (d *Decider) graceEnds(t *task.Task) task.Moment {
	return d.state.Tasks.Running(t.Cancelling).Add(d.settings.Tasks.CancelGrace)
}

// heartbeatEnds returns when the holder counts as gone if nothing more is heard of it.
func (d *Decider) heartbeatEnds(t *task.Task) task.Moment {
	heard := d.state.Tasks.Running(max(t.Since, d.plan.lastHeard[t.Holder]))
	heartbeat, _ := d.clocksOf(t)
	return max(heard, d.state.Tasks.SilentUntil(t)).Add(heartbeat)
}

// progressEnds returns when the holder counts as stalled if it reaches nothing new.
func (d *Decider) progressEnds(t *task.Task) task.Moment {
	reached := d.state.Tasks.Running(t.Progressed)
	_, progress := d.clocksOf(t)
	return max(reached, d.state.Tasks.SilentUntil(t)).Add(progress)
}

// clocksOf returns the two timeouts of a task in progress. A holder whose heartbeat was
// seen since it took the task is a program and is missed soon; any other may be a
// model, which shows no sign of life during a turn.
func (d *Decider) clocksOf(t *task.Task) (heartbeat, progress time.Duration) {
	s := &d.settings.Tasks
	if beat := d.plan.beats[t.Holder]; beat > 0 && beat >= d.plan.taken[t] {
		return s.HeartbeatTimeout, s.ProgressTimeout
	}
	return s.TurnHeartbeat, s.TurnProgress
}

func (d *Decider) nextProbe(t *task.Task) task.Moment {
	if _, looked := d.plan.lastProbed[t.Holder]; !looked {
		return t.Since
	}
	return max(t.Since, d.plan.lastProbed[t.Holder]).Add(max(d.settings.Tasks.HeartbeatTimeout/LivenessLooks, 1))
}

// runDue does what is due for one task. What the agents concerned put into their
// outboxes before it was due is taken in first.
func (d *Decider) runDue(now time.Time, t *task.Task, senses Senses) error {
	at := d.state.Tasks.Moment(now)
	if d.due(t) > at || d.state.Tasks.Stopped(t.ID) {
		return nil
	}
	if t.State == task.InProgress || t.State == task.Stalled {
		d.probe(at, t.Holder, senses.Pulse)
	}
	over := d.endOfWait(t, at)
	if over > at {
		return nil
	}
	if senses.Heard != nil && !d.allRead(t, over, senses.Heard) {
		d.plan.unheard = append(d.plan.unheard, t)
		return nil
	}
	if t.Cancelling > 0 && !task.Ended(t.State) && d.graceEnds(t) <= at {
		return d.recordTransition(now, t, protocol.TaskEvent{Event: task.CancelledEvent, By: protocol.Hive, Reason: "the holder did not confirm in time"})
	}
	switch t.State {
	case task.Unassigned, task.Blocked:
		return d.continueWaiting(now, t)
	case task.Offered:
		return d.expireOffer(now, t)
	case task.Pending:
		return d.remindOrExpire(now, at, t)
	case task.InProgress, task.Stalled:
		return d.checkHolderAlive(now, at, t)
	case task.Paused:
		return d.approvalDue(now, at, t)
	case task.Retrying:
		return d.retry(now, t)
	case task.Completed, task.Failed, task.Cancelled:
		d.sweepTask(now, at, t)
	}
	return nil
}

// endOfWait returns when the wait of a task ends, with consequences for its holder or
// others: when it is due, not counting probes of its holder.
func (d *Decider) endOfWait(t *task.Task, at task.Moment) task.Moment {
	switch t.State {
	case task.InProgress:
		return d.orGraceEnd(t, min(d.heartbeatEnds(t), d.progressEnds(t)))
	case task.Stalled:
		switch {
		case d.recovered(t, at):
			return t.Since
		case t.Cancelling > 0: // it is not offered again
			return d.graceEnds(t)
		}
		return d.state.Tasks.Running(t.Since).Add(d.settings.Tasks.StallGrace)
	case task.Paused:
		if t.Until > 0 && t.Until <= at { // a reminder that is due too would come too late
			return d.orGraceEnd(t, t.Until)
		}
	case task.Unassigned, task.Offered, task.Pending, task.Blocked, task.Retrying, task.Completed, task.Failed, task.Cancelled:
	}
	return d.due(t)
}

// recovered reports whether the holder of a stalled task was heard of again and its
// progress is not overdue either.
func (d *Decider) recovered(t *task.Task, at task.Moment) bool {
	return d.plan.lastHeard[t.Holder] > t.Since && d.heartbeatEnds(t) > at && d.progressEnds(t) > at
}

// allRead reports whether the outboxes of all concerned agents were read up to the end
// of a wait: of the holder, those offered the task, or those who may approve of it.
func (d *Decider) allRead(t *task.Task, end task.Moment, upTo func(protocol.AgentID, task.Moment) bool) bool {
	var who []protocol.AgentID
	switch t.State {
	case task.Offered:
		who = t.Offered
	case task.Paused:
		who = append(d.approvers(t), t.Holder)
	case task.Pending, task.InProgress, task.Stalled, task.Retrying, task.Blocked:
		who = []protocol.AgentID{t.Holder}
	case task.Unassigned, task.Completed, task.Failed, task.Cancelled:
	}
	all := true
	for _, id := range who {
		all = upTo(id, end) && all // ask for each of them, so that all outboxes are read
	}
	return all
}

func (d *Decider) retry(now time.Time, t *task.Task) error {
	return d.recordTransition(now, t, protocol.TaskEvent{Event: task.Retry, By: protocol.Hive, Attempt: t.Attempt + 1})
}

// probe reads an agent's alive file. A change counts from when it is seen, so that the
// agent's clock does not matter. The first probe only gives the value to compare with.
// A period that is too long for heartbeat_timeout does not count as a heartbeat.
func (d *Decider) probe(at task.Moment, id protocol.AgentID, pulse func(protocol.AgentID) Pulse) {
	last := d.plan.lastProbed[id]
	d.plan.lastProbed[id] = at
	var is Pulse
	if pulse != nil {
		is = pulse(id)
	}
	before, known := d.plan.lastAlive[id]
	d.plan.lastAlive[id] = is.Touched
	if !known || is.Touched.Equal(before) {
		return
	}
	d.plan.lastHeard[id] = at
	if is.Every > 0 && is.Every <= d.settings.Tasks.HeartbeatTimeout/2 {
		d.plan.beats[id] = last // the heartbeat came after that
	}
}

// remindOrExpire reminds the holder of a pending task to start it, or takes the task
// back.
func (d *Decider) remindOrExpire(now time.Time, at task.Moment, t *task.Task) error {
	if d.state.Tasks.Running(t.Since).Add(d.settings.Tasks.Lease) > at {
		return d.recordTransition(now, t, protocol.TaskEvent{Event: task.Remind, By: protocol.Hive})
	}
	return d.recordTransition(now, t, protocol.TaskEvent{
		Event: task.LeaseExpired, By: protocol.Hive, Attempt: t.Attempt + 1, Reason: string(t.Holder) + " did not start it in time", NotBefore: d.jittered(now, t, t.Attempt),
	})
}

// checkHolderAlive stalls a task whose holder is not heard of, or reaches nothing new,
// and releases one whose holder did not come back within the grace period.
func (d *Decider) checkHolderAlive(now time.Time, at task.Moment, t *task.Task) error {
	gone, stuck := d.heartbeatEnds(t) <= at, d.progressEnds(t) <= at
	heartbeat, progress := d.clocksOf(t)
	if t.State == task.InProgress {
		switch {
		case gone:
			return d.recordTransition(now, t, protocol.TaskEvent{Event: task.HeartbeatLost, By: protocol.Hive, Reason: string(t.Holder) + " was not heard of for " + heartbeat.String()})
		case stuck:
			return d.recordTransition(now, t, protocol.TaskEvent{Event: task.ProgressStalled, By: protocol.Hive, Reason: string(t.Holder) + " is alive and reached nothing new for " + progress.String()})
		}
		return nil
	}
	switch {
	case d.recovered(t, at):
		return d.recordTransition(now, t, protocol.TaskEvent{Event: task.Recovered, By: t.Holder, Reason: "it was heard of again"})
	case t.Cancelling > 0, d.state.Tasks.Running(t.Since).Add(d.settings.Tasks.StallGrace) > at:
		return nil
	case int(t.Retries) >= d.settings.Tasks.MaxRetries:
		return d.recordTransition(now, t, protocol.TaskEvent{Event: task.MaxRetriesExceeded, By: protocol.Hive, Reason: t.Reason})
	}
	return d.recordTransition(now, t, protocol.TaskEvent{Event: task.Release, By: protocol.Hive, Reason: t.Reason, NotBefore: d.jittered(now, t, int(t.Retries))})
}

// remindEvery is how often people are reminded of a question that has no time limit.
const remindEvery = 24 * time.Hour

// approvalMoment returns when the approvers of a task are reminded, or the wait for them
// ends.
func approvalMoment(t *task.Task) task.Moment {
	switch {
	case t.Endless():
		return max(t.Since, t.Questions.Reminded).Add(remindEvery)
	case t.Reminded:
		return t.Until
	}
	return t.Since.Add(t.Until.Sub(t.Since) / 2)
}

// approvalDue reminds the approvers, or ends the wait.
func (d *Decider) approvalDue(now time.Time, at task.Moment, t *task.Task) error {
	if t.Endless() || t.Until > at {
		return d.recordTransition(now, t, protocol.TaskEvent{Event: task.Remind, By: protocol.Hive})
	}
	return d.recordTransition(now, t, protocol.TaskEvent{Event: task.Timeout, By: protocol.Hive, Reason: approvalTimeout})
}

const approvalTimeout = "approval_timeout"

// sweepTask removes a task that ended long ago, unless others still need it.
func (d *Decider) sweepTask(now time.Time, at task.Moment, t *task.Task) {
	if len(d.state.Tasks.Children(t.ID)) > 0 {
		d.plan.schedule(t, at.Add(d.settings.Tasks.Retention))
		return
	}
	var paths []string
	for _, f := range d.state.Tasks.Leaving(t) {
		paths = append(paths, f.Path)
	}
	d.emit(now, &protocol.HiveEvent{Action: protocol.Swept, Paths: paths})
}

// jittered returns when a task may be offered again: now, the backoff of n, and a
// jitter up to as long, so that tasks lost at the same time do not come back at the
// same time. The jitter is a hash of the task, so that a replay decides the same.
func (d *Decider) jittered(now time.Time, t *task.Task, n int) time.Time {
	h := fnv.New64a()
	_, _ = h.Write([]byte(t.ID + " ")) // it never fails
	_, _ = h.Write([]byte(digits(t.Attempt)))
	wait := d.settings.Tasks.Backoff.After(n)
	return now.Add(wait + time.Duration(h.Sum64()%uint64(wait))).UTC() //nolint:gosec // not negative
}

// dispatch withdraws offers from agents that can no longer take them, and offers ready
// tasks to agents that have room, at most TasksAtOnce.
func (d *Decider) dispatch(now time.Time) error {
	if err := d.withdrawAll(now); err != nil {
		return err
	}
	at := d.state.Tasks.Moment(now)
	offered := 0
	for len(d.plan.ready) > 0 || len(d.plan.freed) > 0 {
		ready := d.plan.ready
		d.plan.ready = nil
		slices.SortFunc(ready, task.Best)
		for i, t := range ready {
			if offered == TasksAtOnce {
				d.plan.ready = append(d.plan.ready, ready[i:]...)
				return nil
			}
			if err := d.offerTask(now, at, t); err != nil {
				return err
			}
			if t.State == task.Offered {
				offered++
			}
		}
		freed := d.plan.freed
		d.plan.freed = nil
		slices.Sort(freed)
		for _, id := range slices.Compact(freed) {
			if err := d.offerTasksTo(now, at, id); err != nil {
				return err
			}
		}
	}
	return nil
}

// offerTask offers a task that waits for somebody. If nobody has room it waits in its
// queue.
func (d *Decider) offerTask(now time.Time, at task.Moment, t *task.Task) error {
	if !d.plan.waiting(t, at) {
		return nil
	}
	// If agents let offers expire, more are asked the next time.
	most, round := d.settings.Tasks.Offers<<min(t.Ignored, 16), 0
	to := d.plan.candidates(t, most, t.Declined...)
	if len(to) == 0 && len(t.Declined) > 0 { // all were asked: a round begins
		to, round = d.plan.candidates(t, most), int(t.Rounds)+1
	}
	if len(to) == 0 {
		d.plan.waits.add(t)
		return nil
	}
	return d.offerTo(now, t, round, to...)
}

func (d *Decider) offerTo(now time.Time, t *task.Task, round int, to ...protocol.AgentID) error {
	first := len(d.out)
	err := d.recordTransition(now, t, protocol.TaskEvent{Event: task.Offer, By: protocol.Hive, Agents: to, Round: round})
	d.markAtomic(first)
	if err != nil {
		return &protocol.TaskError{Task: t.ID, Err: err}
	}
	return nil
}

// offerTasksTo offers an agent that has room the best of the tasks that wait for it, and
// then the paused ones that it was not asked about because it had no room before.
func (d *Decider) offerTasksTo(now time.Time, at task.Moment, id protocol.AgentID) error {
	h, a := d.plan.hand(id), d.state.Agents[id]
	for a != nil && h.listed > 0 {
		t := d.plan.waits.best(a, func(t *task.Task) bool { return d.plan.waiting(t, at) })
		if t == nil {
			break
		}
		if err := d.offerTask(now, at, t); err != nil {
			return err
		}
	}
	if a == nil || h.listed == 0 || h.lastPause == d.plan.lastPause {
		return nil
	}
	seen := h.lastPause
	for _, t := range d.plan.unasked(h, a, at) {
		if h.listed == 0 {
			h.lastPause = seen // the others are found when it has room again
			break
		}
		if err := d.offerTo(now, t, 0, id); err != nil {
			return err
		}
	}
	return nil
}

// endOffer ends an offer that nobody took. Others who have room are asked at once; if
// all were asked there is a pause.
func (d *Decider) endOffer(now time.Time, t *task.Task, on task.Event, why string) error {
	e := protocol.TaskEvent{Event: on, By: protocol.Hive, Agents: t.Offered, Reason: why}
	if len(d.plan.candidates(t, 1, append(slices.Clone(t.Declined), t.Offered...)...)) == 0 {
		e.Until = d.nextRound(now, t)
	}
	return d.recordTransition(now, t, e)
}

// withdrawAll withdraws the offers of agents that cannot take them: those on hold,
// archived, or with as many tasks in hand as they may have. They are asked again as
// soon as they can take one.
func (d *Decider) withdrawAll(now time.Time) error {
	for len(d.plan.unable) > 0 {
		id := slices.Min(d.plan.unable)
		h := d.plan.hand(id)
		why := d.plan.cannotTake(h, d.state.Agents[id])
		var offers []*task.Task
		if why != "" {
			offers = slices.SortedFunc(slices.Values(h.offers), task.Best)
		}
		for _, t := range offers {
			if d.state.Tasks.Stopped(t.ID) {
				continue
			}
			if err := d.withdraw(now, t, id, why); err != nil {
				return err
			}
		}
		d.plan.unable = slices.DeleteFunc(d.plan.unable, func(other protocol.AgentID) bool { return other == id })
	}
	return nil
}

// withdraw withdraws an offer from one agent. If that was the last one asked the offer
// is over, and others who have room are asked at once; the task only pauses if some
// have declined it.
func (d *Decider) withdraw(now time.Time, t *task.Task, id protocol.AgentID, why string) error {
	e := protocol.TaskEvent{Event: task.OfferWithdrawn, By: protocol.Hive, Agents: []protocol.AgentID{id}, Reason: why}
	if len(t.Offered) == 1 {
		e.Event, e.Agents = task.OfferExhausted, nil
		if len(t.Declined) > 0 && len(d.plan.candidates(t, 1, t.Declined...)) == 0 {
			e.Until = d.nextRound(now, t)
		}
	}
	first := len(d.out)
	err := d.recordTransition(now, t, e)
	d.markAtomic(first)
	if err != nil {
		return &protocol.TaskError{Task: t.ID, Err: err}
	}
	return nil
}

// nextRound returns when all are asked again about a task that none of them wanted: the
// more rounds there were, the later. Anybody may claim the task meanwhile. A pause that
// is not over goes on, even if somebody was asked during it.
func (d *Decider) nextRound(now time.Time, t *task.Task) time.Time {
	if t.Pause > d.state.Tasks.Moment(now) {
		return d.state.Tasks.Time(t.Pause)
	}
	return now.Add(d.settings.Tasks.Lease << min(t.Rounds, 7)).UTC()
}

// expireOffer ends an offer that nobody answered in time, and alerts people about
// agents that get no more offers because of it.
func (d *Decider) expireOffer(now time.Time, t *task.Task) error {
	asked := t.Offered
	if err := d.endOffer(now, t, task.OfferExpired, "nobody answered in time"); err != nil {
		return err
	}
	for _, id := range asked {
		if a := d.state.Agents[id]; a != nil && a.Silent() && a.Missed == ledger.OffersMissed { // just now
			if err := d.Alert(now, &protocol.AlertEvent{
				Code: protocol.CodeAgentSilent, Agent: id,
				Text: string(id) + " let " + digits(ledger.OffersMissed) + " offers of tasks in a row run out; it is offered no more until it sends, handles or writes something",
			}); err != nil {
				return err
			}
		}
	}
	return nil
}
