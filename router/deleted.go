package router

import (
	"fmt"
	"path"
	"slices"
	"time"

	"github.com/hived/hived/ledger"
	"github.com/hived/hived/protocol"
)

// massDeletion is how many messages may vanish from one inbox at once before
// it looks like an accident (spec §4.7).
const massDeletion = 20

// lockWatched is how long a lock on git's index has inboxes looked at again. Who
// holds it longer is waited for by [Router.rescan].
const lockWatched = 10 * time.Second

// UndeleteMost is how many messages one command delivers again: each of them is
// read from the log.
const UndeleteMost = 16

// believeDeletion tells whether messages that are gone were deleted by their
// agent: not when a person is at work in the repository, and not when very
// many are gone at once, unless a second look finds all else sound and the agent
// was heard of in between, or somebody said so.
func (r *Router) believeDeletion(now time.Time, a *attention, files []string) (bool, error) {
	if r.git != nil {
		if c, ours := r.workTree(now); !ours {
			if c.Own() && (c.IndexLocked.IsZero() || now.Sub(c.IndexLocked).Abs() < lockWatched) {
				r.lookAgain(a, r.locked.Add(r.cfg.Settings.Settle)) // no hint tells when the lock is gone
			}
			return false, nil
		}
		if r.takenByPerson(a.id, files) {
			r.bringBack()
			return false, nil
		}
	}
	agent, n := r.state.Agents[a.id], len(files)
	// Who brings them back does so one after the other: the last of them are as
	// little deleted as all were together.
	if n <= massDeletion && agent.Missing == 0 || agent.Believed {
		return true, nil
	}
	if a.doubted.IsZero() {
		a.doubted = now
	}
	second := a.doubted.Add(r.cfg.Settings.Settle)
	switch {
	case now.Before(second):
		r.lookAgain(a, second)
	case a.acted.After(a.doubted) && r.onlyDoubt(a):
		return true, nil
	default:
		r.alertOnce(now, &protocol.AlertEvent{
			Code: protocol.CodeMassDeletion, Agent: a.id, Path: protocol.InboxDir(a.id),
			Text: fmt.Sprintf("%d messages vanished at once from the inbox of %s; they still count as unread", n, a.id),
		})
	}
	return false, r.missing(now, a, n)
}

// missing records how many messages are gone and not believed to be deleted:
// they do not fill the inbox.
func (r *Router) missing(now time.Time, a *attention, n int) error {
	if n == 0 {
		a.doubted = time.Time{}
		delete(r.alerted, alertKey(protocol.CodeMassDeletion, a.id, protocol.InboxDir(a.id)))
	}
	if r.state.Agents[a.id].Missing == n {
		return nil
	}
	ready, err := r.newFormat(now)
	if ready {
		r.decider.Missing(now, a.id, n)
	}
	return err
}

// onlyDoubt tells whether nothing is missing from any other inbox: whoever lost
// several did not have its agents delete the messages.
func (r *Router) onlyDoubt(a *attention) bool {
	if len(r.refill.waiting)+len(r.refill.filling) > 0 {
		return false
	}
	for _, b := range r.agents {
		if b != a && (!b.doubted.IsZero() || r.state.Agents[b.id].Missing > 0) {
			return false
		}
	}
	return true
}

// hears takes note of what an agent did itself.
func (r *Router) hears(ev protocol.Event) {
	var id protocol.AgentID
	switch e := ev.Body.(type) {
	case *protocol.MessageEvent:
		id = e.From
	case *protocol.QuarantineEvent:
		if e.Original != nil { // else somebody altered what it was to read
			id = e.Agent
		}
	case *protocol.DuplicateEvent:
		id = e.Agent
	case *protocol.HandledEvent:
		if e.How == protocol.HowDone || e.How == protocol.HowReopened {
			id = e.Agent
		}
	case *protocol.FileEvent:
		id = e.By
	case *protocol.HiveEvent, *protocol.AgentEvent, *protocol.DropEvent, *protocol.TaskEvent, *protocol.TaskRejectedEvent, *protocol.AlertEvent:
	}
	if a := r.agents[id]; a != nil {
		a.acted = ev.TS
	}
}

// Missing records how many messages are gone from an inbox that are not believed
// to be deleted.
func (d *Decider) Missing(now time.Time, id protocol.AgentID, n int) {
	d.emit(now, &protocol.AgentEvent{Agent: id, Action: protocol.InboxMissing, Count: n})
}

// manageInbox carries out a command about an inbox.
func (d *Decider) manageInbox(now time.Time, of protocol.Seq, by protocol.AgentID, event string, o order) *refusal {
	a := d.state.Agents[protocol.AgentID(o.Agent)]
	if a == nil {
		return &refusal{protocol.CodeUnknownAgent, d.unknown(o.Agent)}
	}
	e := &protocol.AgentEvent{Agent: a.ID, Action: inboxActions[event], Count: a.Missing, By: by, Of: of}
	if e.Action != protocol.InboxUndeleted {
		if a.Missing == 0 {
			return &refusal{protocol.CodeBadCommand, "no messages are missing from the inbox of " + string(a.ID)}
		}
		d.emit(now, e)
		return nil
	}
	list, no := d.undeleted(by, a, o.Messages)
	if no != nil {
		return no
	}
	e.Count = len(list)
	d.emit(now, e)
	for _, x := range list {
		d.emit(now, x)
	}
	return nil
}

// undeleted reads messages again that an agent had, and that count as deleted.
func (d *Decider) undeleted(by protocol.AgentID, a *ledger.Agent, seqs []protocol.Seq) ([]*protocol.HandledEvent, *refusal) {
	bad := func(format string, args ...any) *refusal {
		return &refusal{protocol.CodeBadCommand, fmt.Sprintf(format, args...)}
	}
	if len(seqs) == 0 || len(seqs) > UndeleteMost {
		return nil, bad("`messages` lists the numbers of 1 to %d events that brought messages; to have them delivered again, %s", UndeleteMost, orders(by, "inbox-undelete"))
	}
	var list []*protocol.HandledEvent
	for _, seq := range seqs {
		if seq > d.state.Seq {
			return nil, bad("there is no event %s", seq)
		}
		ev, err := d.recall(seq)
		if err != nil {
			return nil, bad("%s", err)
		}
		id, file := broughtTo(a.ID, ev)
		if file == "" {
			return nil, bad("event %s delivered no message to %s", seq, a.ID)
		}
		_, unread := a.Inbox.Get(file)
		_, done := a.Done.Get(file)
		if unread || done || slices.ContainsFunc(list, func(x *protocol.HandledEvent) bool { return x.File == file }) {
			return nil, bad("message %s is not deleted", id)
		}
		data, err := delivered(ev)
		if err != nil {
			return nil, bad("%s", err)
		}
		c := protocol.NewContent(data)
		list = append(list, &protocol.HandledEvent{Agent: a.ID, Of: seq, ID: id, File: file, How: protocol.HowUndeleted, Content: &c})
	}
	return list, nil
}

// broughtTo gives the message that an event brought an agent, and its file; none
// where it brought that agent no message.
func broughtTo(agent protocol.AgentID, ev protocol.Event) (id protocol.MessageID, file string) {
	switch e := ev.Body.(type) {
	case *protocol.MessageEvent:
		if slices.Contains(e.Delivered, agent) {
			return e.ID, e.File
		}
	case *protocol.DeliveredEvent:
		if slices.Contains(e.To, agent) {
			return e.ID, e.File
		}
	case *protocol.HiveEvent:
		if f := e.Adopted; f != nil {
			if dir, name := path.Split(f.Path); dir == protocol.InboxDir(agent)+"/" || dir == protocol.DoneDir(agent)+"/" {
				return f.ID, name
			}
		}
	case *protocol.AgentEvent, *protocol.DropEvent, *protocol.QuarantineEvent, *protocol.DuplicateEvent,
		*protocol.HandledEvent, *protocol.FileEvent, *protocol.TaskEvent, *protocol.TaskRejectedEvent, *protocol.AlertEvent:
	}
	return "", ""
}
