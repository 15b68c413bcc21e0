package view

import (
	"slices"

	"github.com/hived/hived/protocol"
)

// State is how far a message, or a command to hived, has come.
type State string

// The states. A message becomes accepted, then handled or replied, if the caller
// waits for that; a command becomes done.
const (
	Queued   State = "queued"   // it is not in the log yet
	Accepted State = "accepted" // and delivered to every recipient
	Handled  State = "handled"  // by all who got it
	Replied  State = "replied"
	Done     State = "done"
	Refused  State = "refused" // or not delivered to some recipient
)

// Sent identifies a message by what its sender knows about it.
type Sent struct {
	By   protocol.AgentID
	ID   protocol.MessageID
	File string             // its name in the outbox, which is unique
	To   []protocol.Address // its recipients
}

// Message is what became of a message, as far as the log was read.
type Message struct {
	ID        protocol.MessageID `json:"id"`
	File      string             `json:"file"` // in the outbox
	State     State              `json:"state"`
	Seq       protocol.Seq       `json:"seq,omitzero"`       // the event that accepted it; of a duplicate, the one before it
	Delivered []protocol.AgentID `json:"delivered,omitzero"` // when it was accepted
	Handled   []protocol.AgentID `json:"handled,omitzero"`
	Dropped   []Drop             `json:"dropped,omitzero"`
	Code      protocol.Code      `json:"code,omitzero"`   // of the last refusal
	Detail    string             `json:"detail,omitzero"` // of the same: what the log says is wrong, if anything
	Reply     *Reply             `json:"reply,omitzero"`
}

// Drop says that a message did not reach some of its recipients.
type Drop struct {
	To     []protocol.Address `json:"to"`
	Reason protocol.Reason    `json:"reason"`
	Detail string             `json:"detail,omitzero"`
	Kept   bool               `json:"kept,omitzero"` // it waits until somebody lets Thread go on

	Thread protocol.ConversationID `json:"-"` // the stopped one, of what is kept
}

// Reply is a message that answers another.
type Reply struct {
	ID      protocol.MessageID `json:"id"`
	From    protocol.AgentID   `json:"from"`
	Act     protocol.Act       `json:"act"`
	Subject string             `json:"subject,omitzero"`
	Body    string             `json:"body,omitzero"` // from [protocol.Message.Text]
}

// messageFolder keeps a Message up to date.
type messageFolder struct {
	*Message

	sent  Sent
	until State
	late  []protocol.Seq // the events that delivered it after it was kept
}

// NewMessage returns what becomes of a message, and the folder that keeps it up
// to date. The folder is done when the message has come as far as until, or never
// will, and the log says for every recipient whether it got the message. Until is
// Queued or Accepted, which are the same here, Handled, or Replied.
func NewMessage(sent Sent, until State) (*Message, Folder) {
	m := &Message{ID: sent.ID, File: sent.File, State: Queued}
	return m, &messageFolder{Message: m, sent: sent, until: until}
}

// See implements [Folder].
func (f *messageFolder) See(ev protocol.Event) (done bool) {
	switch e := ev.Body.(type) {
	case *protocol.QuarantineEvent:
		if f.sent.is(e.Agent, e.Original) {
			f.refuse(e.Code, e.Detail)
		}
	case *protocol.DuplicateEvent:
		if f.sent.is(e.Agent, e.Original) {
			f.Seq = e.Of
			f.refuse(protocol.CodeDuplicate, "")
		}
	case *protocol.MessageEvent:
		f.message(ev.Seq, e)
	case *protocol.DropEvent:
		if f.Seq > 0 && e.Of == f.Seq {
			f.drop(Drop{To: e.To, Reason: e.Reason, Detail: e.Detail})
		}
	case *protocol.DeliveredEvent:
		if f.Seq > 0 && e.Of == f.Seq {
			f.late = append(f.late, ev.Seq)
		}
	case *protocol.HandledEvent:
		if f.Seq > 0 && (e.Of == f.Seq || slices.Contains(f.late, e.Of)) && (e.How == protocol.HowDone || e.How == protocol.HowDeleted) {
			f.Handled = append(f.Handled, e.Agent)
		}
	case *protocol.HiveEvent, *protocol.AgentEvent, *protocol.FileEvent, *protocol.TaskEvent, *protocol.TaskRejectedEvent, *protocol.AlertEvent:
	}
	return f.done()
}

// is reports whether an event was made from the file that was sent. The file's name
// is unique for its sender, whatever the id.
func (s Sent) is(by protocol.AgentID, o *protocol.Original) bool {
	return by == s.By && o != nil && o.Name == s.File
}

// message handles an accepted message, which may be this one or a reply to it.
func (f *messageFolder) message(seq protocol.Seq, e *protocol.MessageEvent) {
	switch {
	case f.sent.is(e.From, e.Original):
		f.Seq, f.Delivered, f.State = seq, e.Delivered, Accepted
		if e.Kept != nil {
			f.drop(Drop{To: addresses(e.Kept.To), Reason: e.Kept.Reason, Kept: true, Thread: e.Conversation})
		}
	case f.Seq > 0 && e.InReplyTo == f.ID && slices.Contains(e.Delivered, f.sent.By):
		// A notice about the message is no answer to it, unless the message was for hive.
		if e.From == protocol.Hive && !slices.Contains(f.sent.To, protocol.Address(protocol.Hive)) {
			return
		}
		f.Reply = replyOf(e)
	}
}

func addresses(ids []protocol.AgentID) []protocol.Address {
	to := make([]protocol.Address, len(ids))
	for i, id := range ids {
		to[i] = protocol.Address(id)
	}
	return to
}

func replyOf(e *protocol.MessageEvent) *Reply {
	r := &Reply{ID: e.ID, From: e.From, Act: e.Act, Subject: e.Subject}
	if m, err := protocol.DecodeMessage([]byte(e.Raw)); err == nil {
		r.Subject, r.Body = m.Subject, m.Text()
	}
	return r
}

func (f *messageFolder) drop(d Drop) {
	f.Dropped = append(f.Dropped, d)
	f.refuse(protocol.Code(d.Reason), d.Detail)
}

func (f *messageFolder) refuse(code protocol.Code, detail string) {
	f.State, f.Code, f.Detail = Refused, code, detail
}

// done reports whether the message has reached the state that is waited for, or
// never will.
func (f *messageFolder) done() bool {
	if f.Code != "" {
		return f.Seq == 0 || f.Code == protocol.CodeDuplicate || f.accounted()
	}
	if f.Seq == 0 || !f.accounted() {
		return false
	}
	switch f.until {
	case Queued, Accepted, Done, Refused:
	case Handled:
		for _, id := range f.Delivered {
			if id != protocol.Hive && !slices.Contains(f.Handled, id) {
				return false
			}
		}
		f.State = Handled
	case Replied:
		if f.Reply == nil {
			return false
		}
		f.State = Replied
	}
	return true
}

// accounted reports whether the log says for every recipient whether it got the
// message. For a group it is enough that one member did.
func (f *messageFolder) accounted() bool {
	for _, to := range f.sent.To {
		dropped := slices.ContainsFunc(f.Dropped, func(d Drop) bool { return slices.Contains(d.To, to) })
		if !dropped && !slices.Contains(f.Delivered, protocol.AgentID(to)) && !isGroup(to) {
			return false
		}
	}
	return len(f.Delivered)+len(f.Dropped) > 0
}

func isGroup(to protocol.Address) bool {
	_, role := to.Role()
	return role || to != protocol.Address(protocol.Hive) && protocol.AgentID(to).Reserved()
}
