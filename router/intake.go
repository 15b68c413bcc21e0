package router

import (
	"context"
	"slices"
	"time"

	"github.com/hived/hived/ledger"
	"github.com/hived/hived/mailbox"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/router/agenda"
	"github.com/hived/hived/router/decide"
	"github.com/hived/hived/task"
)

// How much one batch takes: a batch shares one sync of the log, and nobody
// waits longer than one batch for somebody else (spec §3, order).
const (
	batchEvents  = 512
	batchPerTurn = 64 // of one agent, while others wait
)

// intake brings messages from outboxes to the decider: agents take turns, a step takes
// one batch, and the next is read ahead while that becomes durable.
type intake struct {
	*core
	loop     batcher
	suspect  suspect                                // of the last daemon
	ahead    map[protocol.AgentID]mailbox.AgentScan // of outboxes, read for the next batch
	heldBack map[protocol.AgentID]bool              // a file in their outboxes waits for the breaker
	begun    map[protocol.AgentID]task.Moment       // when the listing of an outbox that is under way began
	taken    map[protocol.AgentID]task.Moment       // when the last listing that was decided to its end began
	asked    bool                                   // an outbox became due because of [intake.heard]
}

func newIntake(c *core, loop batcher) intake {
	return intake{
		core: c, loop: loop, suspect: readSuspect(c.disk, c.cfg.Log),
		ahead: map[protocol.AgentID]mailbox.AgentScan{}, heldBack: map[protocol.AgentID]bool{},
		begun: map[protocol.AgentID]task.Moment{}, taken: map[protocol.AgentID]task.Moment{},
	}
}

// batcher is what parts of the loop need of it.
type batcher interface {
	// flush carries out what was decided.
	flush(now time.Time) error
	// newFormat reports whether what is decided next may be of a format.
	newFormat(now time.Time, needed int) (ready bool, err error)
}

// take brings messages to the decider, in turns, until the batch is full. It reports
// whether there are more, and returns the time as of which the last were decided.
func (in *intake) take(ctx context.Context, now time.Time) (more bool, read time.Time, err error) {
	if len(in.agenda.Queues.Outbox.Waiting) == 0 {
		return false, now, nil
	}
	if ready, err := in.carryOutTaken(now); !ready {
		return false, now, err
	}
	n := len(in.agenda.Queues.Outbox.Waiting)
	slice := sliceOf(n)
	for n > 0 {
		room := batchEvents - len(in.decider.Pending())
		if room <= 0 || ctx.Err() != nil {
			return true, now, nil //nolint:nilerr // the last step takes the rest
		}
		take := min(n, (room+slice-1)/slice)
		n -= take
		group := in.takeSenders(take)
		ids := make([]protocol.AgentID, len(group))
		for i, a := range group {
			ids[i] = a.ID
		}
		scans := in.scans(ids, now, slice)
		if at := in.clock.Now(); at.After(now) {
			now = at // nothing is decided as of a time before it was sent
		}
		for i, scan := range scans {
			ready, err := in.outbox(now, group[i], scan)
			if !ready {
				in.putOff(group[i:])
				return false, now, err
			}
			if !scan.More {
				in.taken[group[i].ID] = in.begun[group[i].ID]
			}
		}
	}
	return len(in.agenda.Queues.Outbox.Waiting) > 0, now, nil
}

// carryOutTaken carries out what was taken before in the same step: a new listing would
// show those files again, and a message without an id would be accepted twice. It
// reports whether outboxes may be listed, which they may not on a full disk.
func (in *intake) carryOutTaken(now time.Time) (ready bool, err error) {
	if slices.ContainsFunc(in.decider.Pending(), func(d decide.Decision) bool { return d.Arrival != nil }) {
		err = in.loop.flush(now)
	}
	return err == nil && len(in.events.stuck) == 0, err
}

// putOff makes outboxes due again whose files were read and not decided.
func (in *intake) putOff(group []*agenda.Agent) {
	for _, a := range group {
		in.boxes.Forget(a.ID)
		in.agenda.Queues.Outbox.Add(a)
	}
}

// sliceOf returns how many files of one outbox a batch takes when so many agents wait.
func sliceOf(waiting int) int { return max(batchPerTurn, batchEvents/waiting) }

// scans scans several outboxes, or returns what was read ahead of them.
func (in *intake) scans(ids []protocol.AgentID, now time.Time, slice int) []mailbox.AgentScan {
	out := make([]mailbox.AgentScan, len(ids))
	var rest []protocol.AgentID
	var at []int
	for i, id := range ids {
		var read bool
		if out[i], read = in.ahead[id]; read {
			delete(in.ahead, id)
			continue
		}
		if !in.boxes.Listed(id) {
			in.begun[id] = in.state.Tasks.Moment(now)
		}
		rest, at = append(rest, id), append(at, i)
	}
	for i, scan := range in.boxes.ArrivalsAll(rest, now, slice) {
		out[at[i]] = scan
	}
	return out
}

// aheadBytes is how large the messages of a batch may be for the next to be read
// ahead: two of them are in memory then.
const aheadBytes = 4 << 20

// readAhead reads the next files of crowded outboxes while a batch, list, becomes
// durable; wait ends when it has. It reads only names that were listed before: a new
// listing would still show the files of this batch. Nothing else may use the
// mailboxes until then.
func (in *intake) readAhead(now time.Time, list []decide.Decision) (wait func()) {
	bytes := 0
	for _, d := range list {
		if d.Arrival != nil {
			bytes += len(d.Arrival.Raw)
		}
	}
	n := len(in.agenda.Queues.Outbox.Waiting)
	if n == 0 || bytes > aheadBytes || in.agenda.Stopping {
		return func() {}
	}
	slice := sliceOf(n)
	var ids []protocol.AgentID
	for _, a := range in.agenda.Queues.Outbox.Waiting[:min(n, (batchEvents+slice-1)/slice)] {
		if _, read := in.ahead[a.ID]; !read && in.maySend(a.ID) && in.boxes.Listed(a.ID) {
			ids = append(ids, a.ID)
		}
	}
	if len(ids) == 0 {
		return func() {}
	}
	done := make(chan []mailbox.AgentScan, 1)
	go func() { done <- in.boxes.ArrivalsAll(ids, now, slice) }()
	return func() {
		for i, scan := range <-done {
			in.ahead[ids[i]] = scan
		}
	}
}

// maySend reports whether anything is taken in of an agent.
func (in *intake) maySend(id protocol.AgentID) bool {
	agent := in.state.Agents[id]
	return agent != nil && agent.Status != ledger.OnHold
}

// takeSenders takes up to n agents whose turn it is, and returns those that may send.
// The others become due again when they may.
func (in *intake) takeSenders(n int) []*agenda.Agent {
	var list []*agenda.Agent
	for range n {
		a := in.agenda.Queues.Outbox.Take()
		if in.maySend(a.ID) {
			list = append(list, a)
			continue
		}
		if _, read := in.ahead[a.ID]; read { // until it may, the files can change
			delete(in.ahead, a.ID)
			in.boxes.Forget(a.ID)
		}
	}
	return list
}

// heard reports whether everything that an agent had put into its outbox by a moment
// was decided. Where that is not known it makes the outbox due.
func (in *intake) heard(id protocol.AgentID, at task.Moment) bool {
	a := in.agenda.Agents[id]
	if a == nil || !in.maySend(id) || in.taken[id] >= at {
		return true
	}
	in.agenda.Queues.Outbox.Add(a)
	in.asked = true
	return false
}

// outbox decides what becomes of the files that were found in one outbox. It reports
// whether more may be decided, which needs room for a new segment where the log is of
// too old a format.
func (in *intake) outbox(now time.Time, a *agenda.Agent, scan mailbox.AgentScan) (ready bool, err error) {
	if scan.Err != nil {
		in.alerts.once(now, &protocol.AlertEvent{Code: protocol.CodeUnreadable, Agent: a.ID, Path: protocol.OutboxDir(a.ID), Text: scan.Err.Error()})
		return true, nil //nolint:nilerr // one agent's trouble stops no other
	}
	if in.boxes.Unread(a.ID) { // and not scan.More, which may have been read ahead of a hint
		in.agenda.Queues.Outbox.Add(a)
	}
	if scan.Broken {
		in.attend(now, a.ID)
	}
	in.agenda.Again(a, agenda.Messages, scan.Again)
	if ready, err = in.arrivals(now, a, scan.Arrivals); !ready || !in.maySend(a.ID) {
		return ready, err
	}
	for _, s := range scan.Strays {
		if err := in.decider.Stray(now, a.ID, s); err != nil {
			return false, err
		}
	}
	return true, nil
}

// arrivals decides about the files that were found in one outbox, one after the other.
// It reports whether more may be decided.
func (in *intake) arrivals(now time.Time, a *agenda.Agent, list []protocol.Arrival) (ready bool, err error) {
	for _, x := range list {
		if in.place.Archive(x) {
			continue
		}
		if !in.maySend(a.ID) { // a command of this batch holds it
			in.boxes.Forget(a.ID)
			return true, nil
		}
		x.Behind = in.heldBack[a.ID] && in.boxes.Marked(a.ID)
		x = in.suspect.withFault(x)
		wait, err := in.decider.Arrival(now, x)
		for err == nil && wait == decide.WaitForFormat {
			if ready, err := in.loop.newFormat(now, in.state.Format+1); !ready {
				return false, err
			}
			wait, err = in.decider.Arrival(now, x)
		}
		if err != nil {
			return false, suspectFile(in.disk, x, err)
		}
		if wait != decide.NoWait {
			in.holdBack(x, wait)
			continue
		}
		if put := protocol.StampTime(x.Original.CTime); in.cfg.OnStandstill != nil && !put.IsZero() {
			in.cfg.OnStandstill(in.clock.AsleepSince(put))
		}
	}
	return true, nil
}

// holdBack leaves a file that has to wait in its outbox.
func (in *intake) holdBack(x protocol.Arrival, wait decide.Wait) {
	in.boxes.Hold(x, wait == decide.WaitWithPeople)
	in.heldBack[x.Agent] = true
}

// releaseHeld makes outboxes due again whose files were held back, once they may go.
func (in *intake) releaseHeld() {
	for id := range in.heldBack {
		if a := in.state.Agents[id]; a == nil || !a.Stopped {
			delete(in.heldBack, id)
			in.boxes.Forget(id)
			in.agenda.Want(id)
		}
	}
}
