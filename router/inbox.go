package router

import (
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/hived/hived/mailbox"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/router/agenda"
)

// inboxes records what agents do to the messages in their inboxes: which they handled,
// deleted, took back, altered, or put there themselves (spec §4.7).
type inboxes struct {
	*core
	loop    batcher
	doubted map[protocol.AgentID]time.Time // since when so many messages are gone that it may be an accident
	acted   map[protocol.AgentID]time.Time // when the agent last did something that is in the log
}

func newInboxes(c *core, loop batcher) inboxes {
	return inboxes{core: c, loop: loop, doubted: map[protocol.AgentID]time.Time{}, acted: map[protocol.AgentID]time.Time{}}
}

// scan scans the inboxes that are due, for what left them and what does not belong
// there.
func (in *inboxes) scan(now time.Time) error {
	for range in.agenda.PerStep() {
		a := in.agenda.Queues.Inbox.Take()
		if a == nil {
			break
		}
		a.Listed = now
		if err := in.scanOf(now, a); err != nil {
			return err
		}
	}
	return nil
}

func (in *inboxes) scanOf(now time.Time, a *agenda.Agent) error {
	agent := in.state.Agents[a.ID]
	if agent == nil {
		return nil
	}
	expected := func(file string) bool { _, ok := agent.Inbox.Get(file); return ok }
	scan, err := in.boxes.Inbox(a.ID, now, agent.Inbox.Names(), a.Force)
	if err != nil {
		in.alerts.once(now, &protocol.AlertEvent{Code: protocol.CodeUnreadable, Agent: a.ID, Path: protocol.InboxDir(a.ID), Text: err.Error()})
		return nil //nolint:nilerr // one agent's trouble stops no other
	}
	if scan.Vanished {
		return in.vanished(now, a)
	}
	in.alerts.ended(protocol.CodeInboxGone, a.ID, protocol.InboxDir(a.ID))
	if scan.Broken {
		in.attend(now, a.ID)
	}
	in.agenda.Again(a, agenda.Messages, scan.Again)
	scan.Handled = slices.DeleteFunc(scan.Handled, func(h mailbox.Handled) bool { return in.place.Doubtful(a.ID, h) })
	var deleted []string
	for _, h := range scan.Handled {
		if h.How == protocol.HowDeleted {
			deleted = append(deleted, h.File)
		}
	}
	believe := false
	if len(deleted) > 0 {
		believe, err = in.believeDeletion(now, a, deleted)
	} else if scan.Missing == 0 {
		err = in.recordMissing(now, a, 0)
	}
	if err != nil {
		return err
	}
	for _, h := range scan.Handled {
		switch {
		case !expected(h.File):
		case h.How == protocol.HowDone:
			in.handled(now, a.ID, h)
		case believe:
			in.decider.Handled(now, a.ID, h.File, h.How)
		}
	}
	for _, file := range scan.Unexpected {
		in.unexpected(now, a.ID, file)
	}
	if a.Force {
		a.Force = false // altered sets it again where something has to settle first
		in.altered(now, a)
	}
	return nil
}

// handled records that a message was handled. What its agent did to the copy before
// is undone: the archive holds what was delivered.
func (in *inboxes) handled(now time.Time, id protocol.AgentID, h mailbox.Handled) {
	in.decider.Handled(now, id, h.File, h.How)
	in.place.SetRight(id, h.File)
}

// vanished fills an inbox that vanished (spec §4.7).
func (in *inboxes) vanished(now time.Time, a *agenda.Agent) error {
	if _, err := in.boxes.Ensure(a.ID); err != nil {
		in.alerts.once(now, &protocol.AlertEvent{Code: protocol.CodeInboxGone, Agent: a.ID, Path: protocol.InboxDir(a.ID), Text: "make the inbox of " + string(a.ID) + " again: " + err.Error()})
		return nil //nolint:nilerr // one agent's trouble stops no other
	}
	in.watch.Add(a.ID)
	in.alerts.once(now, &protocol.AlertEvent{
		Code: protocol.CodeInboxGone, Agent: a.ID, Path: protocol.InboxDir(a.ID),
		Text: fmt.Sprintf("the inbox of %s vanished; it was made again with its %d unread messages", a.ID, in.state.Agents[a.ID].Inbox.Len()),
	})
	in.place.Refill(a.ID)
	return nil
}

// altered has unread messages put right whose bytes are not those that were delivered,
// and returns how many it checked. Files that their agent may still be writing are
// checked again when they have settled.
func (in *inboxes) altered(now time.Time, a *agenda.Agent) int {
	id := a.ID
	inbox := &in.state.Agents[id].Inbox
	if inbox.Len() == 0 {
		return 0
	}
	list := make([]mailbox.Delivered, 0, inbox.Len())
	for file, l := range inbox.All() {
		list = append(list, mailbox.Delivered{File: file, Blob: l.Blob, Size: l.Size})
	}
	files, again, err := in.boxes.Altered(id, now, list)
	if err != nil {
		in.cfg.Log.Warn("cannot check an inbox", slog.String("agent", string(id)), slog.String("error", err.Error()))
	}
	if !again.IsZero() {
		a.Force = true
		in.agenda.Again(a, agenda.Messages, again)
	}
	for _, file := range files {
		in.place.SetRight(id, file)
	}
	return len(list)
}

// unexpected records a file in an inbox that was not delivered there: one that its
// agent took back out of .done, or one that somebody planted.
func (in *inboxes) unexpected(now time.Time, id protocol.AgentID, file string) {
	if _, ok := in.state.Agents[id].Done.Get(file); ok {
		in.decider.Handled(now, id, file, protocol.HowReopened)
		return
	}
	in.alerts.once(now, &protocol.AlertEvent{
		Code: protocol.CodePlanted, Agent: id, Path: protocol.InboxDir(id) + "/" + protocol.SafeName(file),
		Text: protocol.SafeName(file) + " in the inbox of " + string(id) + " was not delivered by hived, which does not know who wrote it; messages are sent by writing them into one's own outbox",
	})
}
