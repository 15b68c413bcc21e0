package agenda

import (
	"slices"
	"time"

	"github.com/hived/hived/mailbox"
	"github.com/hived/hived/protocol"
)

// ScansPerStep bounds how many directories of each kind, outboxes aside, one step scans:
// a message that arrives meanwhile waits for no more.
const ScansPerStep = 64

// InboxEvery is the least time between two scans of an inbox that changes all the time:
// to record what was handled is not urgent.
const InboxEvery = 100 * time.Millisecond

// PollFast is the time after which an agent without a working watch is polled again when
// something moved there. While nothing does, the time doubles, up to the rescan.
const PollFast = 200 * time.Millisecond

// Files that are changed in place move no directory. A scrub finds them: it checks each
// file, agent by agent. One begins every so many rescans, unless one is under way, and
// its pace is bounded: with more files it takes longer, and costs no more.
const (
	ScrubEvery     = 5    // rescans
	FilesPerSecond = 1000 // that a scrub checks
	filesPerStep   = 256  // a message that arrives meanwhile waits for no more
)

// Agent is what is remembered of one agent between two scans. Whoever scans its inbox
// keeps Force and Listed.
type Agent struct {
	ID     protocol.AgentID
	Force  bool      // the inbox is also scanned for delivered files that were changed in place
	Listed time.Time // when the inbox was last scanned

	again    time.Time     // an unsettled file is due for another scan; zero: none
	ownLate  time.Time     // own files that may be versioned again only then; zero: none
	poll     time.Time     // no watch works here, so it is polled then; zero: the rescan does
	pace     time.Duration // between two polls; zero: none is due
	listNext bool          // the inbox is due for a scan, InboxEvery after that
	due      time.Time     // the earliest of these moments, zero: none; set by timers
	place    int           // among the timers, from 1; zero: not there
}

// Root is what is remembered of the hive's own directory. Whoever does what a flag
// asks for takes it back.
type Root struct {
	Agents   bool      // agents/ is to be listed
	Own      bool      // board.md is to be scanned
	Believed bool      // the files that agents believe are to be compared
	late     time.Time // board.md may be versioned again only then; zero: at once
}

// Options are what an [Agenda] is given.
type Options struct {
	Rescan time.Duration // how often [Agenda.Rescan] is called
	// Relist makes the next scan of an outbox begin with a new listing.
	Relist func(protocol.AgentID)
	// Watched reports whether hints about an agent can be expected.
	Watched func(protocol.AgentID) bool
	// WatchHot watches an agent before others, because something happens there.
	WatchHot func(protocol.AgentID)
	// Unbounded lets a scrub read any number of files between two rescans.
	Unbounded bool
}

// Agenda holds which agents are due for what. Agents and Order are for reading. One
// goroutine uses it.
type Agenda struct {
	Agents   map[protocol.AgentID]*Agent
	Order    []protocol.AgentID // of Agents, by name
	Queues   Queues
	Root     Root
	Stopping bool // set before the last step: nothing waits for its time any more

	opts    Options
	timers  timers
	scrub   scrubQueue
	rescans int // so far
}

// scrubQueue holds the agents that the scrub under way has not come to yet.
type scrubQueue struct {
	list      []protocol.AgentID
	allowance int // files that may still be checked before the next rescan
}

// New returns an agenda without agents.
func New(opts Options) Agenda {
	return Agenda{opts: opts, Agents: map[protocol.AgentID]*Agent{}}
}

// Begin puts an agent on the agenda. Its outbox comes first: messages do not wait for
// own files and long inboxes.
func (g *Agenda) Begin(id protocol.AgentID) {
	a := &Agent{ID: id}
	g.Agents[id] = a
	at, _ := slices.BinarySearch(g.Order, id)
	g.Order = slices.Insert(g.Order, at, id)
	g.Queues.Outbox.Add(a)
	g.Queues.Moved.Add(a)
}

// scanAll makes everybody due: the next steps scan all agents.
func (g *Agenda) scanAll() {
	g.Root.Agents, g.Root.Own = true, true
	for _, id := range g.Order {
		g.Queues.Moved.Add(g.Agents[id])
	}
}

// ScrubAll makes everybody due, and begins a scrub where none is under way.
func (g *Agenda) ScrubAll() {
	g.scanAll()
	if !g.scrubbing() {
		g.scrub.list = slices.Clone(g.Order)
		g.allowScrub()
	}
}

// Rescan makes everybody due, because hints get lost. Each fifth call, which it
// reports, begins a scrub as well.
func (g *Agenda) Rescan() (scrub bool) {
	g.rescans++
	g.Root.Believed = true
	if scrub = g.rescans%ScrubEvery == 0; scrub {
		g.ScrubAll()
	} else {
		g.scanAll()
	}
	g.allowScrub()
	return scrub
}

// hintsLost makes everybody due, and makes a scrub come to each agent: what was
// written over in place meanwhile moved no directory. It extends the scrub under way,
// and spends what that may spend.
func (g *Agenda) hintsLost() {
	g.scanAll()
	next := 0
	if g.scrubbing() {
		next, _ = slices.BinarySearch(g.Order, g.scrub.list[0])
	}
	g.scrub.list = slices.Concat(g.Order[next:], g.Order[:next])
}

// allowScrub renews what a scrub may spend, less what it spent too much.
func (g *Agenda) allowScrub() {
	g.scrub.allowance = min(g.scrub.allowance, 0) + max(1, int(FilesPerSecond*g.opts.Rescan/time.Second))
}

// scrubbing reports whether a scrub is under way.
func (g *Agenda) scrubbing() bool { return len(g.scrub.list) > 0 }

// scrubDue reports whether the scrub is to go on now.
func (g *Agenda) scrubDue() bool {
	return g.scrubbing() && !g.Stopping && (g.opts.Unbounded || g.scrub.allowance > 0)
}

// nextScrub returns the agent that the scrub comes to next.
func (g *Agenda) nextScrub() *Agent {
	a := g.Agents[g.scrub.list[0]]
	g.scrub.list = g.scrub.list[1:]
	return a
}

// Scrub calls look for the agents that the scrub comes to in this step; look returns
// how many files it read. Scrub reports whether the scrub is to go on at once.
func (g *Agenda) Scrub(look func(*Agent) (files int)) (more bool) {
	for spent := 0; spent < filesPerStep && g.scrubDue(); {
		cost := look(g.nextScrub())
		spent += cost
		g.scrub.allowance -= cost
	}
	return g.scrubDue()
}

// Hints makes due what hints are about. A hint about an agent that is not on the agenda
// makes agents/ due for a listing.
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
			g.wantInbox(now, a)
		case h.Part == mailbox.PartAltered:
			a.Force = true
			g.wantInbox(now, a)
		default:
			g.Queues.Own.Add(a)
			g.Queues.Moved.Add(a)
		}
	}
}

// Want makes an agent's outbox and directories due, after an event about the agent.
func (g *Agenda) Want(id protocol.AgentID) {
	if a := g.Agents[id]; a != nil {
		g.wantOutbox(a)
		g.Queues.Moved.Add(a)
	}
}

// wantOutbox makes an outbox due for a new listing: its agent may be waiting for its
// turn with the rest of an earlier one.
func (g *Agenda) wantOutbox(a *Agent) {
	g.opts.Relist(a.ID)
	g.Queues.Outbox.Add(a)
}

// wantInbox makes an inbox due, at once or [InboxEvery] after it was last scanned.
func (g *Agenda) wantInbox(now time.Time, a *Agent) {
	if a.Force || g.Stopping || now.Sub(a.Listed).Abs() >= InboxEvery {
		g.Queues.Inbox.Add(a)
		return
	}
	a.listNext = true
	g.timers.set(a)
}

// Part is a part of what is an agent's.
type Part int

// The parts that can become due at a time.
const (
	Messages Part = iota // in outbox and inbox
	OwnFiles             // or board.md, which is nobody's
)

// Again makes a part of an agent due at a time, unless it is due before that:
// messages because a file was not settled, own files because they may be versioned
// only then. A nil agent stands for the hive's own directory.
func (g *Agenda) Again(a *Agent, part Part, at time.Time) {
	due := &g.Root.late
	switch {
	case a != nil && part == Messages:
		due = &a.again
	case a != nil:
		due = &a.ownLate
	}
	if !sooner(at, *due) {
		return
	}
	*due = at
	if a != nil {
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

// Moved makes due what moved at an agent, and schedules polling where no watch works:
// often while things happen there, and by the rescan alone when it is quiet.
func (g *Agenda) Moved(now time.Time, a *Agent, m mailbox.Moved) {
	if m.Outbox {
		g.wantOutbox(a)
	}
	if m.Inbox {
		g.wantInbox(now, a)
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

// Unread reports whether an agent's outbox may hold something that was not read, or
// that was not settled.
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

// Due puts those into the queues whose time has come.
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

// Next returns the earliest time at which anybody is due; zero: there is none.
func (g *Agenda) Next() time.Time {
	next := g.Root.late
	if len(g.timers) > 0 && sooner(g.timers[0].due, next) {
		next = g.timers[0].due
	}
	return next
}

// sooner reports whether a time is set and comes before another, or that is not.
func sooner(t, than time.Time) bool {
	return !t.IsZero() && (than.IsZero() || t.Before(than))
}
