package view

import (
	"slices"
	"time"

	"github.com/hived/hived/protocol"
)

// Thread is what the log says about the messages of a thread, as far as it was read.
// Both lists are in the order of the log.
type Thread struct {
	Roots    []*ThreadMessage // messages that answer no other here; replies are below them
	Messages []*ThreadMessage // the roots and all messages below them
}

// ThreadMessage is the life of one message: everything that the log says about it.
type ThreadMessage struct {
	ID           protocol.MessageID      `json:"id"`
	Seq          protocol.Seq            `json:"seq"`
	At           time.Time               `json:"accepted_at"`
	From         protocol.AgentID        `json:"from"`
	To           []protocol.Address      `json:"to"`
	Act          protocol.Act            `json:"act"`
	Subject      string                  `json:"subject"`
	Conversation protocol.ConversationID `json:"conversation"`
	InReplyTo    protocol.MessageID      `json:"in_reply_to,omitzero"`
	Hops         int                     `json:"hops"`
	Commit       string                  `json:"commit,omitzero"` // the commit that holds its delivery, which the log does not have; the caller sets it
	Delivered    []*Delivery             `json:"delivered"`
	Kept         []protocol.AgentID      `json:"kept,omitzero"` // at first, for these
	Dropped      []ThreadDrop            `json:"dropped"`
	Again        []Moment                `json:"sent_again"`
	Replies      []*ThreadMessage        `json:"replies"`
}

// Delivery is a message in one inbox.
type Delivery struct {
	To      protocol.AgentID `json:"to"`
	After   *Moment          `json:"after,omitzero"` // when it was delivered after it was kept; nil: at once
	Handled []Handling       `json:"handled"`
}

// Handling is one time that a message left an inbox, or came back.
type Handling struct {
	Moment

	How protocol.How `json:"how"`
}

// ThreadDrop is a [Drop], and when it was decided.
type ThreadDrop struct {
	Moment
	Drop
}

// Moment is when something happened: the event's number and time.
type Moment struct {
	Seq protocol.Seq `json:"seq"`
	At  time.Time    `json:"at"`
}

// threadFolder keeps a Thread up to date. Its memory is bounded by the threads, not
// by the log.
type threadFolder struct {
	*Thread

	of     Target
	bySeq  map[protocol.Seq]*ThreadMessage       // by the events that accepted or delivered them
	newest map[protocol.MessageID]*ThreadMessage // an id may be used again
	shown  map[*ThreadMessage]bool
}

// newThread returns the thread of a target, and the folder that keeps it up to date.
// The roots are the target's messages or, where it has none, every message that
// answers no other of its threads.
func newThread(of Target) (*Thread, Folder) {
	t := &Thread{}
	return t, &threadFolder{
		Thread: t, of: of,
		bySeq:  map[protocol.Seq]*ThreadMessage{},
		newest: map[protocol.MessageID]*ThreadMessage{},
		shown:  map[*ThreadMessage]bool{},
	}
}

// See implements [Folder].
func (f *threadFolder) See(ev protocol.Event) (done bool) {
	now := Moment{ev.Seq, ev.TS}
	switch e := ev.Body.(type) {
	case *protocol.MessageEvent:
		if f.of.has(e.Conversation) {
			f.add(newThreadMessage(now, e))
		}
	case *protocol.DeliveredEvent:
		if m := f.bySeq[e.Of]; m != nil {
			f.bySeq[ev.Seq] = m // handled events name this event
			m.deliver(e.To, &now)
		}
	case *protocol.DropEvent:
		if m := f.bySeq[e.Of]; m != nil {
			m.Dropped = append(m.Dropped, ThreadDrop{now, Drop{To: e.To, Reason: e.Reason, Detail: e.Detail}})
		}
	case *protocol.DuplicateEvent:
		if m := f.bySeq[e.Of]; m != nil {
			m.Again = append(m.Again, now)
		}
	case *protocol.HandledEvent:
		if m := f.bySeq[e.Of]; m != nil {
			m.handle(e.Agent, Handling{now, e.How})
		}
	case *protocol.HiveEvent, *protocol.AgentEvent, *protocol.QuarantineEvent, *protocol.FileEvent, *protocol.TaskEvent, *protocol.TaskRejectedEvent, *protocol.AlertEvent:
	}
	return false
}

func newThreadMessage(now Moment, e *protocol.MessageEvent) *ThreadMessage {
	m := &ThreadMessage{
		ID: e.ID, Seq: now.Seq, At: now.At, From: e.From, To: e.To, Act: e.Act, Subject: e.Subject, Conversation: e.Conversation,
		InReplyTo: e.InReplyTo, Hops: e.Hops, Delivered: []*Delivery{}, Dropped: []ThreadDrop{}, Again: []Moment{}, Replies: []*ThreadMessage{},
	}
	m.deliver(e.Delivered, nil)
	if e.Kept != nil {
		m.Kept = e.Kept.To
	}
	return m
}

// deliver notes that the message is in some inboxes; after is nil where it was not
// kept before.
func (m *ThreadMessage) deliver(to []protocol.AgentID, after *Moment) {
	for _, id := range to {
		m.Delivered = append(m.Delivered, &Delivery{To: id, After: after, Handled: []Handling{}})
	}
}

func (m *ThreadMessage) handle(by protocol.AgentID, h Handling) {
	for _, d := range m.Delivered {
		if d.To == by {
			d.Handled = append(d.Handled, h)
		}
	}
}

// add puts a message below the newest one with the id that it answers, and among
// the roots where it is one.
func (f *threadFolder) add(m *ThreadMessage) {
	var parent *ThreadMessage
	if m.InReplyTo != "" {
		parent = f.newest[m.InReplyTo]
	}
	if parent != nil {
		parent.Replies = append(parent.Replies, m)
	}
	root := parent == nil
	if len(f.of.Messages) > 0 {
		_, root = slices.BinarySearch(f.of.Messages, m.Seq)
	}
	if root {
		f.Roots = append(f.Roots, m)
	}
	if root || f.shown[parent] {
		f.shown[m] = true
		f.Messages = append(f.Messages, m)
	}
	f.bySeq[m.Seq], f.newest[m.ID] = m, m
}
