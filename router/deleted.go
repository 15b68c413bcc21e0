package router

import (
	"fmt"
	"slices"
	"time"

	"github.com/hived/hived/protocol"
	"github.com/hived/hived/router/agenda"
)

// massDeletion is how many messages may vanish from one inbox at once before
// it looks like an accident (spec §4.7).
const massDeletion = 20

// lockWatched is how long inboxes are scanned again because of a lock on git's index.
// With one that is held longer the next rescan finds what became of it.
const lockWatched = 10 * time.Second

// believeDeletion reports whether messages that are gone were deleted by their
// agent: not when a person is at work in the repository, and not when very many are
// gone at once, unless a second scan finds all else sound and the agent did something
// in between, or a person confirmed it.
func (in *inboxes) believeDeletion(now time.Time, a *agenda.Agent, files []string) (bool, error) {
	if in.git.usable() {
		if c, ours := in.git.workTree(now); !ours {
			if c.Own() && (c.IndexLocked.IsZero() || now.Sub(c.IndexLocked).Abs() < lockWatched) {
				in.agenda.Again(a, agenda.Messages, in.git.freeAt()) // no hint tells when the lock is gone
			}
			return false, nil
		}
		if slices.ContainsFunc(files, func(file string) bool {
			l, _ := in.state.Agents[a.ID].Inbox.Get(file)
			return in.git.takenOut(l.Of, protocol.InboxDir(a.ID)+"/"+file)
		}) {
			in.place.Restore()
			return false, nil
		}
	}
	agent, n := in.state.Agents[a.ID], len(files)
	// They may be brought back one after the other: the last few that are missing are
	// as little deleted as all of them were.
	if n <= massDeletion && agent.Missing == 0 || agent.Believed {
		return true, nil
	}
	if in.doubted[a.ID].IsZero() {
		in.doubted[a.ID] = now
	}
	second := in.doubted[a.ID].Add(in.cfg.Settings.Settle)
	switch {
	case now.Before(second):
		in.agenda.Again(a, agenda.Messages, second)
	case in.acted[a.ID].After(in.doubted[a.ID]) && in.onlyDoubt(a):
		return true, nil
	default:
		in.alerts.once(now, &protocol.AlertEvent{
			Code: protocol.CodeMassDeletion, Agent: a.ID, Path: protocol.InboxDir(a.ID),
			Text: fmt.Sprintf("%d messages vanished at once from the inbox of %s; they still count as unread", n, a.ID),
		})
	}
	return false, in.recordMissing(now, a, n)
}

// recordMissing records how many messages are gone and not believed to be deleted:
// they take no room in the inbox.
func (in *inboxes) recordMissing(now time.Time, a *agenda.Agent, n int) error {
	if n == 0 {
		delete(in.doubted, a.ID)
		in.alerts.ended(protocol.CodeMassDeletion, a.ID, protocol.InboxDir(a.ID))
	}
	if in.state.Agents[a.ID].Missing == n {
		return nil
	}
	ready, err := in.loop.newFormat(now, protocol.BasicFormat)
	if ready {
		in.decider.Record(now, &protocol.AgentEvent{Agent: a.ID, Action: protocol.InboxMissing, Count: n})
	}
	return err
}

// onlyDoubt reports whether nothing is missing from any other inbox: where several
// agents lost messages at once it was not they who deleted them.
func (in *inboxes) onlyDoubt(a *agenda.Agent) bool {
	if in.place.Backlog().Inboxes > 0 {
		return false
	}
	for _, b := range in.agenda.Agents {
		if b != a && (!in.doubted[b.ID].IsZero() || in.state.Agents[b.ID].Missing > 0) {
			return false
		}
	}
	return true
}

// noteActed notes when an agent did something itself.
func (in *inboxes) noteActed(ev protocol.Event) {
	if by := ev.Refs().By; in.agenda.Agents[by] != nil {
		in.acted[by] = ev.TS
	}
}
