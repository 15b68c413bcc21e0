package router

import (
	"slices"
	"time"

	"github.com/hived/hived/mailbox"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

// scansPerStep bounds the directories of each kind, outboxes aside, that one
// step scans: a message that arrives meanwhile waits for no more.
const scansPerStep = 64

// inboxEvery spares an inbox that changes all the time from being listed all
// the time: handling is not urgent.
const inboxEvery = 100 * time.Millisecond

// pollFast is how soon an agent without a working watch is polled again after
// something moved there. While nothing does, the time doubles, up to `rescan`.
const pollFast = 200 * time.Millisecond

// Files that are changed in place move no directory. They are found by a scrub,
// which looks at each of them, agent by agent. One begins every so many rescans,
// unless one is under way still, and its pace is bounded: with more files than fit
// it takes longer, and costs no more.
const (
	scrubEvery     = 5    // rescans
	filesPerSecond = 1000 // that a scrub looks at
	filesPerStep   = 256  // a message that arrives meanwhile waits for no more
)

// attention is what is remembered of one agent between two scans.
type attention struct {
	id       protocol.AgentID
	force    bool          // the inbox is also scanned for delivered files that were changed in place
	again    time.Time     // an unsettled file is due for another scan; zero: none
	ownLate  time.Time     // own files that may be versioned again only then; zero: none
	poll     time.Time     // no watch works here, so it is polled then; zero: the rescan does
	pace     time.Duration // between two polls; zero: none is due
	listed   time.Time     // when the inbox was scanned
	listNext bool          // the inbox is due for a scan, inboxEvery after that
	began    task.Moment   // when the listing of its outbox began that is under way
	heard    task.Moment   // when the last one began that has ended: what was there then was taken in
	doubted  time.Time     // since when so many messages are gone that it may be an accident; zero: they are not
	acted    time.Time     // when the agent last did something that is in the log
	swept    time.Time     // when it was last swept
	relieved time.Time     // and when because an archive exceeded its limit

	due   time.Time // the earliest of these moments, zero: none; set by timers
	place int       // among the timers, from 1; zero: not there
}

// attentionRoot is the same of what belongs to no agent.
type attentionRoot struct {
	agents   bool      // agents/ is to be listed
	own      bool      // board.md is to be scanned
	believed bool      // the files that agents believe are to be compared
	late     time.Time // board.md may be versioned again only then; zero: at once
}

// agenda knows which agents are due for what. It looks at nothing itself: the loop
// takes from it what is due, and notes there what it heard and what it saw. What
// that costs goes by what is due, and not by how many agents there are; only a
// rescan and the last step go over all of them.
type agenda struct {
	rescan   time.Duration
	relist   func(protocol.AgentID) // has the next scan of an outbox begin with a new listing
	agents   map[protocol.AgentID]*attention
	order    []protocol.AgentID // of agents, by name
	queues   scanQueues
	timers   timers
	scrub    scrubQueue
	root     attentionRoot
	rescans  int  // so far
	stopping bool // this is the last step: nothing waits for its time any more
}

// scrubQueue holds the agents that the scrub under way has still to come to.
type scrubQueue struct {
	list      []protocol.AgentID
	allowance int  // files that may still be looked at before the next rescan
	unbounded bool // the allowance does not count
}

func newAgenda(rescan time.Duration, relist func(protocol.AgentID)) agenda {
	return agenda{rescan: rescan, relist: relist, agents: map[protocol.AgentID]*attention{}}
}

// begin puts an agent on the agenda. Its outbox comes first: what was sent waits
// for nobody's own files and for no long inbox.
func (g *agenda) begin(id protocol.AgentID) {
	a := &attention{id: id}
	g.agents[id] = a
	at, _ := slices.BinarySearch(g.order, id)
	g.order = slices.Insert(g.order, at, id)
	g.queues.outbox.add(a)
	g.queues.moved.add(a)
}

// scanAll makes everybody due: the next steps are a pass over all agents.
func (g *agenda) scanAll() {
	g.root.agents, g.root.own = true, true
	for _, id := range g.order {
		g.queues.moved.add(g.agents[id])
	}
}

// scrubAll makes everybody due, and begins a scrub.
func (g *agenda) scrubAll() {
	g.scanAll()
	if len(g.scrub.list) == 0 {
		g.scrub.list = slices.Clone(g.order)
		g.allowScrub()
	}
}

// hintsLost makes everybody due, and has a scrub come to each agent: what was
// written over in place meanwhile moved no directory. It takes up the scrub under
// way, and spends what that may spend.
func (g *agenda) hintsLost() {
	g.scanAll()
	next := 0
	if len(g.scrub.list) > 0 {
		next, _ = slices.BinarySearch(g.order, g.scrub.list[0])
	}
	g.scrub.list = slices.Concat(g.order[next:], g.order[:next])
}

// allowScrub renews what a scrub may spend. What it spent too much comes off.
func (g *agenda) allowScrub() {
	g.scrub.allowance = min(g.scrub.allowance, 0) + max(1, int(filesPerSecond*g.rescan/time.Second))
}

// scrubDue reports whether the scrub is to go on now.
func (g *agenda) scrubDue() bool {
	return len(g.scrub.list) > 0 && !g.stopping && (g.scrub.unbounded || g.scrub.allowance > 0)
}

// nextScrub returns the agent that the scrub comes to.
func (g *agenda) nextScrub() *attention {
	a := g.agents[g.scrub.list[0]]
	g.scrub.list = g.scrub.list[1:]
	return a
}

// hints makes due what the watcher saw something of.
func (g *agenda) hints(now time.Time, list []mailbox.Hint) {
	for _, h := range list {
		if h.Overflow {
			g.hintsLost()
			return
		}
		a := g.agents[h.Agent]
		switch {
		case h.Part == mailbox.PartRoot:
			g.root.own = true
		case h.Part == mailbox.PartAgents, a == nil:
			g.root.agents = true
		case h.Part == mailbox.PartOutbox:
			g.wantOutbox(a)
		case h.Part == mailbox.PartInbox:
			g.wantInbox(now, a)
		case h.Part == mailbox.PartAltered:
			a.force = true
			g.wantInbox(now, a)
		default:
			g.queues.own.add(a)
			g.queues.moved.add(a)
		}
	}
}

// want makes an agent due after the log said something about it.
func (g *agenda) want(id protocol.AgentID) {
	if a := g.agents[id]; a != nil {
		g.wantOutbox(a)
		g.queues.moved.add(a)
	}
}

// wantOutbox makes an outbox due, from a listing on that is still to be taken: an
// agent may be waiting for its turn with the rest of an earlier one.
func (g *agenda) wantOutbox(a *attention) {
	g.relist(a.id)
	g.queues.outbox.add(a)
}

// wantInbox makes an inbox due, but not all the time.
func (g *agenda) wantInbox(now time.Time, a *attention) {
	if a.force || g.stopping || now.Sub(a.listed).Abs() >= inboxEvery {
		g.queues.inbox.add(a)
		return
	}
	a.listNext = true
	g.timers.set(a)
}

// again makes an agent due at a time for what is not settled yet.
func (g *agenda) again(a *attention, at time.Time) {
	if sooner(at, a.again) {
		a.again = at
		g.timers.set(a)
	}
}

// poll schedules the next poll of an agent; a pace of zero or of the rescan and
// more leaves that to the rescan.
func (g *agenda) poll(now time.Time, a *attention, pace time.Duration) {
	a.pace, a.poll = 0, time.Time{}
	if pace > 0 && pace < g.rescan {
		a.pace, a.poll = pace, now.Add(pace)
	}
	g.timers.set(a)
}

// perStep is how many directories of one kind a step scans.
func (g *agenda) perStep() int {
	if g.stopping {
		return len(g.order)
	}
	return scansPerStep
}

// waits reports whether anybody is due for a scan now, own files aside.
func (g *agenda) waits() bool {
	q := &g.queues
	return q.moved.len()+q.outbox.len()+q.inbox.len()+q.crowded.len() > 0
}

// settled reports whether nothing is due for another scan because it was not
// settled.
func (g *agenda) settled() bool {
	return !slices.ContainsFunc(g.timers, func(a *attention) bool { return !a.again.IsZero() })
}

// listDue is when the inbox is due for a scan; zero: nothing asks for it.
func (a *attention) listDue() time.Time {
	if !a.listNext {
		return time.Time{}
	}
	return a.listed.Add(inboxEvery)
}

// due makes those due whose time has come.
func (g *agenda) due(now time.Time) {
	come := func(t time.Time) bool { return !t.IsZero() && (g.stopping || !now.Before(t)) }
	list := g.timers.until(now)
	if g.stopping {
		list = g.timers.all()
	}
	for _, a := range list {
		if come(a.again) {
			a.again = time.Time{}
			g.queues.outbox.add(a)
			g.queues.inbox.add(a)
		}
		if come(a.ownLate) {
			a.ownLate = time.Time{}
			g.queues.own.add(a)
		}
		if come(a.poll) {
			a.poll = time.Time{}
			g.queues.moved.add(a)
		}
		if come(a.listDue()) {
			a.listNext = false
			g.queues.inbox.add(a)
		}
		g.timers.set(a)
	}
	if come(g.root.late) {
		g.root.late, g.root.own = time.Time{}, true
	}
}

// next is when somebody is due; zero: no time is set.
func (g *agenda) next() time.Time {
	next := g.root.late
	if len(g.timers) > 0 && sooner(g.timers[0].due, next) {
		next = g.timers[0].due
	}
	return next
}

// lateOwn makes the own files of an agent, or board.md where it is nil, due at a
// time.
func (g *agenda) lateOwn(a *attention, at time.Time) {
	late := &g.root.late
	if a != nil {
		late = &a.ownLate
	}
	if sooner(at, *late) {
		*late = at
	}
	if a != nil {
		g.timers.set(a)
	}
}

// sooner reports whether a time is set and comes before another, or that is not.
func sooner(t, than time.Time) bool {
	return !t.IsZero() && (than.IsZero() || t.Before(than))
}
