package decide

import (
	"fmt"
	"slices"
	"time"

	"github.com/hived/hived/ledger"
	"github.com/hived/hived/protocol"
)

// UndeleteMost is how many messages one command delivers again at most: each is read
// from the log.
const UndeleteMost = 16

// manageInbox carries out a command about an inbox.
func (d *Decider) manageInbox(now time.Time, of protocol.Seq, by protocol.AgentID, event string, o commandData) error {
	a := d.state.Agents[protocol.AgentID(o.Agent)]
	if a == nil {
		return &refusal{protocol.CodeUnknownAgent, d.unknownAgent(o.Agent)}
	}
	e := &protocol.AgentEvent{Agent: a.ID, Action: inboxActions[event], Count: a.Missing, By: by, Of: of}
	if e.Action != protocol.InboxUndeleted {
		if a.Missing == 0 {
			return &refusal{protocol.CodeBadCommand, "no messages are missing from the inbox of " + string(a.ID)}
		}
		d.emit(now, e)
		return nil
	}
	list, err := d.undeleted(by, a, o.Messages)
	if err != nil {
		return err
	}
	e.Count = len(list)
	d.emit(now, e)
	for _, x := range list {
		d.emit(now, x)
	}
	return nil
}

// undeleted returns the events that deliver messages again which an agent had and which
// count as deleted.
func (d *Decider) undeleted(by protocol.AgentID, a *ledger.Agent, seqs []protocol.Seq) ([]*protocol.HandledEvent, error) {
	bad := func(format string, args ...any) error {
		return &refusal{protocol.CodeBadCommand, fmt.Sprintf(format, args...)}
	}
	if len(seqs) == 0 || len(seqs) > UndeleteMost {
		return nil, bad("`messages` lists the numbers of 1 to %d events that brought messages; to have them delivered again, %s", UndeleteMost, howToCommand(by, "inbox-undelete"))
	}
	var list []*protocol.HandledEvent
	for _, seq := range seqs {
		if seq == 0 || seq > d.state.Seq {
			return nil, bad("there is no event %s", seq)
		}
		ev, err := d.event(seq)
		if err != nil {
			return nil, err
		}
		brought := ev.Refs()
		id, file := brought.Message, brought.File
		if !slices.Contains(brought.To, a.ID) {
			return nil, bad("event %s delivered no message to %s", seq, a.ID)
		}
		_, unread := a.Inbox.Get(file)
		_, done := a.Done.Get(file)
		if unread || done || slices.ContainsFunc(list, func(x *protocol.HandledEvent) bool { return x.File == file }) {
			return nil, bad("message %s is not deleted", id)
		}
		data, err := ledger.DeliveredBytes(ev)
		if err != nil {
			return nil, err
		}
		c := protocol.NewContent(data)
		list = append(list, &protocol.HandledEvent{Agent: a.ID, Of: seq, ID: id, File: file, How: protocol.HowUndeleted, Content: &c})
	}
	return list, nil
}
