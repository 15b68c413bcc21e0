package router

import (
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/hived/hived/ledger"
	"github.com/hived/hived/mailbox"
	"github.com/hived/hived/protocol"
)

// What no hint and no directory's time tells of, files changed in place for
// one, is found by looking at each of them. That is done in turns: a round
// begins every so many rescans, unless one is under way still, and its pace is
// bounded. With more files than fit a round takes longer, and costs no more.
const (
	roundEvery     = 5    // rescans
	filesPerSecond = 1000 // that turns look at
	filesPerStep   = 256  // a message that arrives meanwhile waits for no more
)

// beginRound gives every agent a turn.
func (r *Router) beginRound() {
	if len(r.round) == 0 {
		r.round = slices.Clone(r.order)
		r.allow()
	}
}

// allow renews what turns may spend. What they spent too much comes off.
func (r *Router) allow() {
	r.allowance = min(r.allowance, 0) + max(1, int(filesPerSecond*r.cfg.Settings.Rescan/time.Second))
}

// turns gives some agents their turn. It says whether another may have its own
// at once.
func (r *Router) turns(now time.Time) (more bool) {
	if !r.turnDue() {
		return false
	}
	undisturbed := r.undisturbed()
	ours := sync.OnceValue(func() bool { return r.branchIsOurs(now) })
	var gone []string
	for spent := 0; spent < filesPerStep && r.turnDue(); {
		a := r.agents[r.round[0]]
		r.round = r.round[1:]
		cost := 3 // the directories
		if undisturbed {
			cost += r.ownOf(now, a)
		}
		cost += r.alteredIn(now, a)
		gone = append(gone, r.takenAway(now, a, ours)...)
		r.sweepDue(now, a)
		spent += cost
		r.allowance -= cost
	}
	r.recordTaken(now, gone)
	return r.turnDue()
}

// turnDue tells whether somebody is to have a turn now.
func (r *Router) turnDue() bool {
	return len(r.round) > 0 && !r.stopping && (r.cfg.Once || r.allowance > 0)
}

// alteredIn looks at what is unread for files whose bytes are not those that
// were delivered. It says how many it looked at. Those that their agent may still
// be writing are looked at once more when they have rested.
func (r *Router) alteredIn(now time.Time, a *attention) int {
	id := a.id
	inbox := &r.state.Agents[id].Inbox
	if inbox.Len() == 0 {
		return 0
	}
	list := make([]mailbox.Delivered, 0, inbox.Len())
	for file, l := range inbox.All() {
		list = append(list, mailbox.Delivered{File: file, Blob: l.Blob, Size: l.Size})
	}
	files, again, err := r.boxes.Altered(id, now, list)
	if err != nil {
		r.cfg.Log.Warn("cannot look at an inbox", slog.String("agent", string(id)), slog.String("error", err.Error()))
	}
	if !again.IsZero() {
		a.force = true
		r.lookAgain(a, again)
	}
	for _, file := range files {
		r.altered(id, file)
	}
	return len(list)
}

// takenAway notices what agents and people removed from .done/ and .sent/
// themselves. Two looks have to agree, and while a person has moved the branch
// nothing is concluded.
func (r *Router) takenAway(now time.Time, a *attention, ours func() bool) (gone []string) {
	if r.git == nil {
		return nil
	}
	agent := r.state.Agents[a.id]
	add := func(dir string, box *ledger.Box, names []string, err error) {
		if err != nil && !isNotExist(err) {
			r.cfg.Log.Warn("cannot look for what was taken away", slog.String("error", err.Error()))
		}
		for _, name := range names {
			if l, ok := box.Get(name); ok && l.Of <= r.state.Settled {
				gone = append(gone, dir+"/"+name)
			}
		}
	}
	if agent.Done.Len() > 0 {
		names, err := r.boxes.MissingDone(a.id, now, agent.Done.Names(), ours)
		add(protocol.DoneDir(a.id), &agent.Done, names, err)
	}
	if agent.Sent.Len() > 0 {
		names, err := r.boxes.MissingSent(a.id, now, agent.Sent.Names(), ours)
		add(protocol.SentDir(a.id), &agent.Sent, names, err)
	}
	return gone
}

// recordTaken records files that were removed like a sweep, so that the
// versioned tree is again what stands on the disk.
func (r *Router) recordTaken(now time.Time, gone []string) {
	slices.Sort(gone)
	for part := range slices.Chunk(gone, 256) {
		r.decider.Record(now, &protocol.HiveEvent{Action: protocol.Swept, Paths: part, Note: "removed by somebody else"})
	}
}
