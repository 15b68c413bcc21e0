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

// lockWatched is how long a lock on git's index has inboxes looked at again. Who
// holds it longer is waited for by [Router.rescan].
const lockWatched = 10 * time.Second

// believeDeletion tells whether messages that are gone were deleted by their
// agent: not when a person is at work in the repository, and not when very
// many are gone at once, unless a second look finds all else sound and the agent
// was heard of in between, or somebody said so.
func (r *Router) believeDeletion(now time.Time, a *agenda.Agent, files []string) (bool, error) {
	if r.git.usable() {
		if c, ours := r.git.workTree(now); !ours {
			if c.Own() && (c.IndexLocked.IsZero() || now.Sub(c.IndexLocked).Abs() < lockWatched) {
				r.agenda.Again(a, r.git.unlocked()) // no hint tells when the lock is gone
			}
			return false, nil
		}
		if slices.ContainsFunc(files, func(file string) bool {
			l, _ := r.state.Agents[a.ID].Inbox.Get(file)
			return r.git.takenOut(l.Of, protocol.InboxDir(a.ID)+"/"+file)
		}) {
			r.place.Restore()
			return false, nil
		}
	}
	agent, n := r.state.Agents[a.ID], len(files)
	// Who brings them back does so one after the other: the last of them are as
	// little deleted as all were together.
	if n <= massDeletion && agent.Missing == 0 || agent.Believed {
		return true, nil
	}
	if a.Doubted.IsZero() {
		a.Doubted = now
	}
	second := a.Doubted.Add(r.cfg.Settings.Settle)
	switch {
	case now.Before(second):
		r.agenda.Again(a, second)
	case a.Acted.After(a.Doubted) && r.onlyDoubt(a):
		return true, nil
	default:
		r.alerts.once(now, &protocol.AlertEvent{
			Code: protocol.CodeMassDeletion, Agent: a.ID, Path: protocol.InboxDir(a.ID),
			Text: fmt.Sprintf("%d messages vanished at once from the inbox of %s; they still count as unread", n, a.ID),
		})
	}
	return false, r.missing(now, a, n)
}

// missing records how many messages are gone and not believed to be deleted:
// they do not fill the inbox.
func (r *Router) missing(now time.Time, a *agenda.Agent, n int) error {
	if n == 0 {
		a.Doubted = time.Time{}
		r.alerts.over(protocol.CodeMassDeletion, a.ID, protocol.InboxDir(a.ID))
	}
	if r.state.Agents[a.ID].Missing == n {
		return nil
	}
	ready, err := r.newFormat(now)
	if ready {
		r.decider.Record(now, &protocol.AgentEvent{Agent: a.ID, Action: protocol.InboxMissing, Count: n})
	}
	return err
}

// onlyDoubt tells whether nothing is missing from any other inbox: whoever lost
// several did not have its agents delete the messages.
func (r *Router) onlyDoubt(a *agenda.Agent) bool {
	if r.place.Backlog().Inboxes > 0 {
		return false
	}
	for _, b := range r.agenda.Agents {
		if b != a && (!b.Doubted.IsZero() || r.state.Agents[b.ID].Missing > 0) {
			return false
		}
	}
	return true
}

// hears takes note of what an agent did itself.
func (r *Router) hears(ev protocol.Event) {
	if a := r.agenda.Agents[ev.Refs().By]; a != nil {
		a.Acted = ev.TS
	}
}
