package router

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/hived/hived/ledger"
	"github.com/hived/hived/mailbox"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

// How much one batch takes: a batch shares one sync of the log, and nobody
// waits longer than one batch for somebody else (spec §3, order).
const (
	batchEvents  = 512
	batchPerTurn = 64 // of one agent, while others wait
)

// looksPerStep bounds the directories of each kind, outboxes aside, that one
// step looks at: a message that arrives during a pass waits for no more.
const looksPerStep = 64

// inboxEvery spares an inbox that changes all the time from being listed all
// the time: handling is not urgent.
const inboxEvery = 100 * time.Millisecond

// pollFast is how soon an agent that nobody tells of is looked at again after
// something moved there. While nothing does, the time doubles, up to `rescan`.
const pollFast = 200 * time.Millisecond

// everything makes the next steps a pass over all agents.
func (r *Router) everything() {
	r.root.agents, r.root.own = true, true
	for _, id := range r.order {
		r.wants.look.add(r.agents[id])
	}
}

// thorough is everything, and begins a round of turns.
func (r *Router) thorough() {
	r.everything()
	r.beginRound()
}

// rescan is the pass that counts, where hints are only hints (spec §3.1).
func (r *Router) rescan() error {
	r.mark.passes++
	r.root.believed = true
	if r.mark.passes%roundEvery == 0 {
		r.thorough()
	} else {
		r.everything()
	}
	r.allow()
	if r.rest.due(r.state.Seq) {
		r.giveBack()
	}
	if r.mark.passes%roundEvery == 0 {
		r.lookBack(time.Now())
	}
	return errors.Join(r.holdLog(), r.holdLock())
}

// hints turns what the watcher saw into what has to be looked at.
func (r *Router) hints(list []mailbox.Hint) {
	now := time.Now()
	for _, h := range list {
		if h.Overflow {
			r.everything()
			return
		}
		a := r.agents[h.Agent]
		switch {
		case h.Part == mailbox.PartRoot:
			r.root.own = true
		case h.Part == mailbox.PartAgents, a == nil:
			r.root.agents = true
		case h.Part == mailbox.PartOutbox:
			r.wantOutbox(a)
		case h.Part == mailbox.PartInbox:
			r.wantInbox(now, a)
		case h.Part == mailbox.PartAltered:
			a.force = true
			r.wantInbox(now, a)
		default:
			r.wants.own.add(a)
			r.wants.look.add(a)
		}
	}
}

// looks finds out where anything moved. It says whether somebody waits for it.
func (r *Router) looks(now time.Time) (more bool) {
	for range r.most() {
		a := r.wants.look.take()
		if a == nil {
			return false
		}
		m := r.boxes.Moved(a.id, now)
		if m.Place {
			r.attend(now, a.id)
		}
		if m.Outbox {
			r.wantOutbox(a)
		}
		if m.Inbox {
			r.wantInbox(now, a)
		}
		if m.Own {
			r.wants.own.add(a)
		}
		r.setPace(now, a, m.Any())
	}
	return len(r.wants.look.list) > 0
}

// most is how many directories of one kind a step looks at.
func (r *Router) most() int {
	if r.stopping {
		return len(r.order)
	}
	return looksPerStep
}

// waiting tells whether anything that can be looked at now waits for it.
func (r *Router) waiting() bool {
	return len(r.wants.look.list)+len(r.wants.outbox.list)+len(r.wants.inbox.list)+len(r.wants.crowded.list) > 0 || len(r.wants.own.list) > 0 && r.undisturbed()
}

// setPace has an agent that nobody tells of looked at by the clock: often
// while things happen there, and no more than others when it is quiet.
func (r *Router) setPace(now time.Time, a *attention, moved bool) {
	switch {
	case !moved && a.pace == 0:
		return
	case r.watch.Watched(a.id):
		a.pace = 0
	case moved:
		a.pace = pollFast
		r.watch.AddHot(a.id)
	default:
		a.pace *= 2
	}
	if a.pace >= r.cfg.Settings.Rescan {
		a.pace = 0
	}
	a.poll = time.Time{}
	if a.pace > 0 {
		a.poll = now.Add(a.pace)
	}
	r.timers.set(a)
}

// roster notices new agents and those whose directory is gone (spec §1).
func (r *Router) roster(now time.Time) error {
	if !r.root.agents {
		return nil
	}
	r.root.agents = false
	dirs, changed, err := r.boxes.Agents(now)
	if err != nil {
		r.alertOnce(now, &protocol.AlertEvent{Code: protocol.CodeBadAgentDir, Path: protocol.PathAgents, Text: "list agents/: " + err.Error()})
		return nil //nolint:nilerr // what is there already goes on
	}
	if changed {
		r.join(now, dirs)
	}
	if len(r.agents) < len(r.state.Agents) {
		for _, id := range slices.Sorted(maps.Keys(r.state.Agents)) {
			if r.agents[id] == nil {
				r.begin(now, id)
			}
		}
		slices.Sort(r.order)
	}
	return nil
}

// join compares a new list of agents/ with the roster.
func (r *Router) join(now time.Time, dirs []mailbox.AgentDir) {
	here := make(map[protocol.AgentID]bool, len(dirs))
	for _, dir := range dirs {
		here[dir.ID] = true
		switch {
		case r.state.Agents[dir.ID] != nil:
		case dir.Why != "":
			r.alertOnce(now, &protocol.AlertEvent{Code: protocol.CodeBadAgentDir, Path: protocol.PathAgents + "/" + protocol.SafeName(dir.Name), Text: protocol.SafeName(dir.Name) + " is no agent: " + dir.Why})
		default:
			r.decider.Record(now, &protocol.AgentEvent{Agent: dir.ID, Action: protocol.Joined})
		}
	}
	for _, id := range r.order {
		if !here[id] {
			r.wants.look.add(r.agents[id])
		}
	}
}

// begin begins to look at an agent. Its outbox comes first: what was sent
// waits for nobody's own files and for no long inbox.
func (r *Router) begin(now time.Time, id protocol.AgentID) {
	a := &attention{id: id}
	r.agents[id] = a
	r.order = append(r.order, id)
	r.attend(now, id)
	r.wants.outbox.add(a)
	r.wants.look.add(a)
}

// attend makes the directories of an agent that are missing, and has them
// watched.
func (r *Router) attend(now time.Time, id protocol.AgentID) {
	if _, err := r.boxes.Ensure(id); err != nil {
		r.alertOnce(now, &protocol.AlertEvent{Code: protocol.CodeBadAgentDir, Agent: id, Path: protocol.AgentDir(id), Text: err.Error()})
	}
	r.watch.Add(id)
}

// lookAt has an agent looked at anew after the log said something about it.
func (r *Router) lookAt(id protocol.AgentID) {
	if a := r.agents[id]; a != nil {
		r.wantOutbox(a)
		r.wants.look.add(a)
	}
}

// wantOutbox has an outbox looked at, from a listing on that is still to be
// taken: an agent may be waiting for its turn with the rest of an earlier one.
func (r *Router) wantOutbox(a *attention) {
	r.boxes.Heard(a.id)
	r.wants.outbox.add(a)
}

// outboxes takes in messages, in turns, until the batch is full. It says whether
// there are more, and when it had read the last.
func (r *Router) outboxes(ctx context.Context, now time.Time) (more bool, read time.Time, err error) {
	if len(r.wants.outbox.list) == 0 {
		return false, now, nil
	}
	if ready, err := r.archiveTaken(now); !ready {
		return false, now, err
	}
	n := len(r.wants.outbox.list)
	slice := sliceOf(n)
	for n > 0 {
		room := batchEvents - len(r.decider.Pending())
		if room <= 0 || done(ctx) {
			return true, now, nil
		}
		take := min(n, (room+slice-1)/slice)
		n -= take
		group := r.senders(take)
		ids := make([]protocol.AgentID, len(group))
		for i, a := range group {
			ids[i] = a.id
		}
		scans := r.scans(ids, now, slice)
		if slices.ContainsFunc(scans, func(s mailbox.AgentScan) bool { return len(s.Arrivals) > 0 }) {
			if ready, err := r.newFormat(now); !ready {
				r.putOff(group)
				return false, now, err
			}
		}
		if at := r.clock.now(); at.After(now) {
			now = at // nothing is decided as of before it was put there
		}
		for i, scan := range scans {
			if err := r.outbox(now, group[i], scan); err != nil {
				return false, now, err
			}
		}
	}
	return len(r.wants.outbox.list) > 0, now, nil
}

// archiveTaken carries out what was taken in before in the same step: a new listing
// would show those files again, and a message without an id be accepted twice. It
// reports whether outboxes may be listed, which they may not on a full disk.
func (r *Router) archiveTaken(now time.Time) (ready bool, err error) {
	if len(r.arrivals) == 0 {
		return true, nil
	}
	err = r.flush(now)
	return err == nil && len(r.stuck) == 0, err
}

// putOff has outboxes looked at anew that were read in vain.
func (r *Router) putOff(group []*attention) {
	for _, a := range group {
		r.boxes.Forget(a.id)
		r.wants.outbox.add(a)
	}
}

func done(ctx context.Context) bool { return ctx.Err() != nil }

// sliceOf is how many files of one outbox a batch takes when so many agents wait.
func sliceOf(waiting int) int { return max(batchPerTurn, batchEvents/waiting) }

// scans looks at several outboxes. What was read ahead of them is taken first.
func (r *Router) scans(ids []protocol.AgentID, now time.Time, slice int) []mailbox.AgentScan {
	out := make([]mailbox.AgentScan, len(ids))
	var rest []protocol.AgentID
	var at []int
	for i, id := range ids {
		var read bool
		if out[i], read = r.ahead[id]; read {
			delete(r.ahead, id)
			continue
		}
		if !r.boxes.Listed(id) {
			r.agents[id].began = r.state.Tasks.Moment(now)
		}
		rest, at = append(rest, id), append(at, i)
	}
	for i, scan := range r.boxes.ArrivalsAll(rest, now, slice) {
		out[at[i]] = scan
	}
	return out
}

// aheadBytes is how large the messages of a batch may be for the next to be read
// ahead: two of them are in memory then.
const aheadBytes = 4 << 20

// readAhead reads the next files of crowded outboxes while a batch becomes
// durable; the result waits for it. Only names that were listed already are
// read: a new listing would still show the files of this batch. Nothing else may
// look into the mailboxes meanwhile.
func (r *Router) readAhead(now time.Time) (wait func()) {
	bytes := 0
	for _, x := range r.arrivals {
		bytes += len(x.Raw)
	}
	n := len(r.wants.outbox.list)
	if n == 0 || bytes > aheadBytes || r.stopping {
		return func() {}
	}
	slice := sliceOf(n)
	var ids []protocol.AgentID
	for _, a := range r.wants.outbox.list[:min(n, (batchEvents+slice-1)/slice)] {
		if _, read := r.ahead[a.id]; !read && r.maySend(a.id) && r.boxes.Listed(a.id) {
			ids = append(ids, a.id)
		}
	}
	if len(ids) == 0 {
		return func() {}
	}
	done := make(chan []mailbox.AgentScan, 1)
	go func() { done <- r.boxes.ArrivalsAll(ids, now, slice) }()
	return func() {
		for i, scan := range <-done {
			r.ahead[ids[i]] = scan
		}
	}
}

func (r *Router) maySend(id protocol.AgentID) bool {
	agent := r.state.Agents[id]
	return agent != nil && agent.Status != ledger.OnHold
}

// senders takes up to n agents whose turn it is and who may send. What lets the
// others go on has them looked at again.
func (r *Router) senders(n int) []*attention {
	var list []*attention
	for range n {
		a := r.wants.outbox.take()
		if r.maySend(a.id) {
			list = append(list, a)
			continue
		}
		if _, read := r.ahead[a.id]; read { // until it may, the files can change
			delete(r.ahead, a.id)
			r.boxes.Forget(a.id)
		}
	}
	return list
}

// heard tells whether all that an agent had put into its outbox at a moment was
// taken in. Where it does not know it has the outbox looked at.
func (r *Router) heard(id protocol.AgentID, at task.Moment) bool {
	a := r.agents[id]
	if a == nil || !r.maySend(id) || a.heard >= at {
		return true
	}
	r.wants.outbox.add(a)
	r.asked = true
	return false
}

// outbox decides what becomes of the files that were found in one outbox.
func (r *Router) outbox(now time.Time, a *attention, scan mailbox.AgentScan) error {
	if !scan.More {
		a.heard = a.began
	}
	if scan.Err != nil {
		r.alertOnce(now, &protocol.AlertEvent{Code: protocol.CodeUnreadable, Agent: a.id, Path: protocol.OutboxDir(a.id), Text: scan.Err.Error()})
		return nil //nolint:nilerr // one agent's trouble stops no other
	}
	if r.boxes.Unread(a.id) { // and not scan.More, which may have been read ahead of a hint
		r.wants.outbox.add(a)
	}
	if scan.Broken {
		r.attend(now, a.id)
	}
	r.lookAgain(a, scan.Again)
	for _, x := range scan.Arrivals {
		key := originalFile(a.id, x.Original)
		if f, known := r.originals[key]; known {
			r.archive(key, x, f)
			continue
		}
		if !r.maySend(a.id) { // a command of this batch holds it
			r.boxes.Forget(a.id)
			return nil
		}
		waits, err := r.holdBack(now, x)
		switch {
		case err != nil:
			return err
		case waits:
			continue
		}
		if put := protocol.StampTime(x.Original.CTime); r.cfg.OnStandstill != nil && !put.IsZero() {
			r.cfg.OnStandstill(r.asleep.since(put))
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
