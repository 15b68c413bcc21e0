package agenda

import (
	"slices"
	"time"

	"github.com/hived/hived/mailbox"
	"github.com/hived/hived/protocol"
)

// ScansPerStep bounds the directories of each kind, outboxes aside, that one
// step scans: a message that arrives meanwhile waits for no more.
const ScansPerStep = 64

// InboxEvery spares an inbox that changes all the time from being listed all
// the time: handling is not urgent.
const InboxEvery = 100 * time.Millisecond

// PollFast is how soon an agent without a working watch is polled again after
// something moved there. While nothing does, the time doubles, up to `rescan`.
const PollFast = 200 * time.Millisecond

// Files that are changed in place move no directory. They are found by a scrub,
// which looks at each of them, agent by agent. One begins every so many rescans,
// unless one is under way still, and its pace is bounded: with more files than fit
// it takes longer, and costs no more.
const (
	ScrubEvery     = 5    // rescans
	FilesPerSecond = 1000 // that a scrub looks at
	filesPerStep   = 256  // a message that arrives meanwhile waits for no more
)

// Agent is what is remembered of one agent between two scans.
type Agent struct {
	ID     protocol.AgentID
	Force  bool      // the inbox is also scanned for delivered files that were changed in place
	Listed time.Time // when the inbox was scanned

	again    time.Time     // an unsettled file is due for another scan; zero: none
	ownLate  time.Time     // own files that may be versioned again only then; zero: none
	poll     time.Time     // no watch works here, so it is polled then; zero: the rescan does
	pace     time.Duration // between two polls; zero: none is due
	listNext bool          // the inbox is due for a scan, InboxEvery after that
	due      time.Time     // the earliest of these moments, zero: none; set by timers
	place    int           // among the timers, from 1; zero: not there
}

// Root is the same of what belongs to no agent.
type Root struct {
	Agents   bool      // agents/ is to be listed
	Own      bool      // board.md is to be scanned
	Believed bool      // the files that agents believe are to be compared
	late     time.Time // board.md may be versioned again only then; zero: at once
}

// Options are what an [Agenda] is given.
type Options struct {
	Rescan time.Duration // how often [Agenda.Rescan] is called
	// Relist has the next scan of an outbox begin with a new listing.
	Relist func(protocol.AgentID)
	// Watched reports whether a watch tells of an agent.
	Watched func(protocol.AgentID) bool
	// WatchHot has an agent watched before others, because something happens there.
	WatchHot func(protocol.AgentID)
	// Unbounded has a scrub look at any number of files between two rescans.
	Unbounded bool
}

// Agenda is which agents are due for what. Its fields are for reading, but for
// Stopping and the flags of Root; one goroutine uses it.
type Agenda struct {
	Agents   map[protocol.AgentID]*Agent
	Order    []protocol.AgentID // of Agents, by name
	Queues   Queues
	Root     Root
	Stopping bool // this is the last step: nothing waits for its time any more

	opts    Options
	timers  timers
	scrub   scrubQueue
	rescans int // so far
}

// scrubQueue holds the agents that the scrub under way has still to come to.
type scrubQueue struct {
	list      []protocol.AgentID
	allowance int // files that may still be looked at before the next rescan
}

// New returns an agenda on which nobody is yet.
func New(opts Options) Agenda {
	return Agenda{opts: opts, Agents: map[protocol.AgentID]*Agent{}}
}

// Begin puts an agent on the agenda. Its outbox comes first: what was sent waits
// for nobody's own files and for no long inbox.
func (g *Agenda) Begin(id protocol.AgentID) {
	a := &Agent{ID: id}
	g.Agents[id] = a
	at, _ := slices.BinarySearch(g.Order, id)
	g.Order = slices.Insert(g.Order, at, id)
	g.Queues.Outbox.Add(a)
	g.Queues.Moved.Add(a)
}

// ScanAll makes everybody due: the next steps are a pass over all agents.
func (g *Agenda) ScanAll() {
	g.Root.Agents, g.Root.Own = true, true
	for _, id := range g.Order {
		g.Queues.Moved.Add(g.Agents[id])
	}
}

// ScrubAll makes everybody due, and begins a scrub.
func (g *Agenda) ScrubAll() {
	g.ScanAll()
	if !g.Scrubbing() {
		g.scrub.list = slices.Clone(g.Order)
		g.allowScrub()
	}
}

// Rescan makes everybody due, as hints are only hints, and at each fifth time begins a
// scrub, which it reports.
func (g *Agenda) Rescan() (scrub bool) {
	g.rescans++
	g.Root.Believed = true
	if scrub = g.rescans%ScrubEvery == 0; scrub {
		g.ScrubAll()
	} else {
		g.ScanAll()
	}
	g.allowScrub()
	return scrub
}

// hintsLost makes everybody due, and has a scrub come to each agent: what was
// written over in place meanwhile moved no directory. It takes up the scrub under
// way, and spends what that may spend.
func (g *Agenda) hintsLost() {
	g.ScanAll()
	next := 0
	if g.Scrubbing() {
		next, _ = slices.BinarySearch(g.Order, g.scrub.list[0])
	}
	g.scrub.list = slices.Concat(g.Order[next:], g.Order[:next])
}

// allowScrub renews what a scrub may spend. What it spent too much comes off.
func (g *Agenda) allowScrub() {
	g.scrub.allowance = min(g.scrub.allowance, 0) + max(1, int(FilesPerSecond*g.opts.Rescan/time.Second))
}

// Scrubbing reports whether a scrub is under way.
func (g *Agenda) Scrubbing() bool { return len(g.scrub.list) > 0 }

// scrubDue reports whether the scrub is to go on now.
func (g *Agenda) scrubDue() bool {
	return g.Scrubbing() && !g.Stopping && (g.opts.Unbounded || g.scrub.allowance > 0)
}

// nextScrub returns the agent that the scrub comes to.
func (g *Agenda) nextScrub() *Agent {
	a := g.Agents[g.scrub.list[0]]
	g.scrub.list = g.scrub.list[1:]
	return a
}

// Scrub has the agents looked at that the scrub comes to in this step, by a function
// that returns how many files that took. It reports whether the scrub is to go on at
// once.
func (g *Agenda) Scrub(look func(*Agent) (files int)) (more bool) {
	for spent := 0; spent < filesPerStep && g.scrubDue(); {
		cost := look(g.nextScrub())
		spent += cost
		g.scrub.allowance -= cost
	}
	return g.scrubDue()
}

// Hints makes due what the watcher saw something of.
func (g *Agenda) Hints(now time.Time, list []mailbox.Hint) {
	for _, h := range list {
		if h.Overflow {
			g.hintsLost()
			return
		}
		a := g.Agents[h.Agent]
		switch {
		case h.Part == mailbox.PartRoot:
			g.Root.Own = true
		case h.Part == mailbox.PartAgents, a == nil:
			g.Root.Agents = true
		case h.Part == mailbox.PartOutbox:
			g.wantOutbox(a)
		case h.Part == mailbox.PartInbox:
			g.WantInbox(now, a)
		case h.Part == mailbox.PartAltered:
			a.Force = true
			g.WantInbox(now, a)
		default:
			g.Queues.Own.Add(a)
			g.Queues.Moved.Add(a)
		}
	}
}

// Want makes an agent due after the log said something about it.
func (g *Agenda) Want(id protocol.AgentID) {
	if a := g.Agents[id]; a != nil {
		g.wantOutbox(a)
		g.Queues.Moved.Add(a)
	}
}

// wantOutbox makes an outbox due, from a listing on that is still to be taken: an
// agent may be waiting for its turn with the rest of an earlier one.
func (g *Agenda) wantOutbox(a *Agent) {
	g.opts.Relist(a.ID)
	g.Queues.Outbox.Add(a)
}

// WantInbox makes an inbox due, but not all the time.
func (g *Agenda) WantInbox(now time.Time, a *Agent) {
	if a.Force || g.Stopping || now.Sub(a.Listed).Abs() >= InboxEvery {
		g.Queues.Inbox.Add(a)
		return
	}
	a.listNext = true
	g.timers.set(a)
}

// Again makes an agent due at a time for what is not settled yet.
func (g *Agenda) Again(a *Agent, at time.Time) {
	if sooner(at, a.again) {
		a.again = at
		g.timers.set(a)
	}
}

// poll schedules the next poll of an agent; a pace of zero or of the rescan and
// more leaves that to the rescan.
func (g *Agenda) poll(now time.Time, a *Agent, pace time.Duration) {
	a.pace, a.poll = 0, time.Time{}
	if pace > 0 && pace < g.opts.Rescan {
		a.pace, a.poll = pace, now.Add(pace)
	}
	g.timers.set(a)
}

// Moved takes note of what moved at an agent, and schedules polling where no watch
// works: often while things happen there, and no more than at others when it is
// quiet.
func (g *Agenda) Moved(now time.Time, a *Agent, m mailbox.Moved) {
	if m.Outbox {
		g.wantOutbox(a)
	}
	if m.Inbox {
		g.WantInbox(now, a)
	}
	if m.Own {
		g.Queues.Own.Add(a)
	}
	if !m.Any() && a.pace == 0 {
		return
	}
	pace := 2 * a.pace
	switch {
	case g.opts.Watched(a.ID):
		pace = 0
	case m.Any():
		pace = PollFast
		g.opts.WatchHot(a.ID)
	}
	g.poll(now, a, pace)
}

// PerStep returns how many directories of one kind a step scans.
func (g *Agenda) PerStep() int {
	if g.Stopping {
		return len(g.Order)
	}
	return ScansPerStep
}

// Waits reports whether anybody is due for a scan now, own files aside.
func (g *Agenda) Waits() bool {
	q := &g.Queues
	return len(q.Moved.Waiting)+len(q.Outbox.Waiting)+len(q.Inbox.Waiting)+len(q.Crowded.Waiting) > 0
}

// Settled reports whether nothing is due for another scan because it was not
// settled.
func (g *Agenda) Settled() bool {
	return !slices.ContainsFunc(g.timers, func(a *Agent) bool { return !a.again.IsZero() })
}

// Unread reports whether something that the loop has not read may be in an agent's
// outbox.
func (g *Agenda) Unread(a *Agent) bool {
	return g.Queues.Outbox.in[a] || !a.again.IsZero()
}

// listDue returns when the inbox is due for a scan; zero: nothing asks for it.
func (a *Agent) listDue() time.Time {
	if !a.listNext {
		return time.Time{}
	}
	return a.Listed.Add(InboxEvery)
}

// Due makes those due whose time has come.
func (g *Agenda) Due(now time.Time) {
	come := func(t time.Time) bool { return !t.IsZero() && (g.Stopping || !now.Before(t)) }
	list := g.timers.until(now)
	if g.Stopping {
		list = g.timers.all()
	}
	for _, a := range list {
		if come(a.again) {
			a.again = time.Time{}
			g.Queues.Outbox.Add(a)
			g.Queues.Inbox.Add(a)
		}
		if come(a.ownLate) {
			a.ownLate = time.Time{}
			g.Queues.Own.Add(a)
		}
		if come(a.poll) {
			a.poll = time.Time{}
			g.Queues.Moved.Add(a)
		}
		if come(a.listDue()) {
			a.listNext = false
			g.Queues.Inbox.Add(a)
		}
		g.timers.set(a)
	}
	if come(g.Root.late) {
		g.Root.late, g.Root.Own = time.Time{}, true
	}
}

// Next returns when somebody is due; zero: no time is set.
func (g *Agenda) Next() time.Time {
	next := g.Root.late
	if len(g.timers) > 0 && sooner(g.timers[0].due, next) {
		next = g.timers[0].due
	}
	return next
}

// LateOwn makes the own files of an agent, or board.md where it is nil, due at a
// time.
func (g *Agenda) LateOwn(a *Agent, at time.Time) {
	late := &g.Root.late
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
