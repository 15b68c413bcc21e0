package router

import (
	"fmt"
	"slices"
	"time"

	"github.com/hived/hived/mailbox"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/router/agenda"
)

// inboxes notices what left the inboxes, and what does not belong there.
func (r *Router) inboxes(now time.Time) error {
	for range r.agenda.PerStep() {
		a := r.agenda.Queues.Inbox.Take()
		if a == nil {
			break
		}
		a.Listed = now
		if err := r.inbox(now, a); err != nil {
			return err
		}
	}
	return nil
}

func (r *Router) inbox(now time.Time, a *agenda.Agent) error {
	agent := r.state.Agents[a.ID]
	if agent == nil {
		return nil
	}
	expected := func(file string) bool { _, ok := agent.Inbox.Get(file); return ok }
	scan, err := r.boxes.Inbox(a.ID, now, agent.Inbox.Names(), a.Force)
	if err != nil {
		r.alerts.once(now, &protocol.AlertEvent{Code: protocol.CodeUnreadable, Agent: a.ID, Path: protocol.InboxDir(a.ID), Text: err.Error()})
		return nil //nolint:nilerr // one agent's trouble stops no other
	}
	if scan.Vanished {
		return r.inboxGone(now, a)
	}
	r.alerts.over(protocol.CodeInboxGone, a.ID, protocol.InboxDir(a.ID))
	if scan.Broken {
		r.attend(now, a.ID)
	}
	r.agenda.Again(a, scan.Again)
	scan.Handled = slices.DeleteFunc(scan.Handled, func(h mailbox.Handled) bool { return r.place.Doubtful(a.ID, h) })
	var deleted []string
	for _, h := range scan.Handled {
		if h.How == protocol.HowDeleted {
			deleted = append(deleted, h.File)
		}
	}
	believe := false
	if len(deleted) > 0 {
		believe, err = r.believeDeletion(now, a, deleted)
	} else if scan.Missing == 0 {
		err = r.missing(now, a, 0)
	}
	if err != nil {
		return err
	}
	for _, h := range scan.Handled {
		switch {
		case !expected(h.File):
		case h.How == protocol.HowDone:
			r.done(now, a.ID, h)
		case believe:
			r.decider.Handled(now, a.ID, h.File, h.How)
		}
	}
	for _, file := range scan.Unexpected {
		r.unexpected(now, a.ID, file)
	}
	if a.Force {
		a.Force = false // unless something there has to rest first
		r.alteredIn(now, a)
	}
	return nil
}

// done records that a message was handled. What its agent did to the copy
// before it moved it is undone: the archive holds what was delivered.
func (r *Router) done(now time.Time, id protocol.AgentID, h mailbox.Handled) {
	r.decider.Handled(now, id, h.File, h.How)
	r.place.SetRight(id, h.File)
}

// inboxGone fills an inbox that vanished (spec §4.7).
func (r *Router) inboxGone(now time.Time, a *agenda.Agent) error {
	if _, err := r.boxes.Ensure(a.ID); err != nil {
		r.alerts.once(now, &protocol.AlertEvent{Code: protocol.CodeInboxGone, Agent: a.ID, Path: protocol.InboxDir(a.ID), Text: "make the inbox of " + string(a.ID) + " again: " + err.Error()})
		return nil //nolint:nilerr // one agent\'s trouble stops no other
	}
	r.watch.Add(a.ID)
	r.alerts.once(now, &protocol.AlertEvent{
		Code: protocol.CodeInboxGone, Agent: a.ID, Path: protocol.InboxDir(a.ID),
		Text: fmt.Sprintf("the inbox of %s vanished; it was made again with its %d unread messages", a.ID, r.state.Agents[a.ID].Inbox.Len()),
	})
	r.place.Refill(a.ID)
	return nil
}

// unexpected is a file in an inbox that the log knows nothing of: one that its
// agent took back out of .done, or one that somebody planted.
func (r *Router) unexpected(now time.Time, id protocol.AgentID, file string) {
	if _, ok := r.state.Agents[id].Done.Get(file); ok {
		r.decider.Handled(now, id, file, protocol.HowReopened)
		return
	}
	r.alerts.once(now, &protocol.AlertEvent{
		Code: protocol.CodePlanted, Agent: id, Path: protocol.InboxDir(id) + "/" + protocol.SafeName(file),
		Text: protocol.SafeName(file) + " in the inbox of " + string(id) + " was not delivered by hived, which does not know who wrote it; messages are sent by writing them into one's own outbox",
	})
}
