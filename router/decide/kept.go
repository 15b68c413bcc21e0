package decide

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hived/hived/ledger"
	"github.com/hived/hived/protocol"
)

// keepOrDrop withholds a message that is over the hop cap from everybody but hive. It
// is kept until somebody continues its thread, or dropped if the thread keeps too
// much already (spec §4.3).
func (d *Decider) keepOrDrop(now time.Time, e *protocol.MessageEvent, r *recipients) {
	sender, person := d.state.TellStop(now, e.Conversation, e.From)
	why := dropped{reason: protocol.HopCap, tell: sender, tellToo: person, detail: d.overCapText(e) + ", and no more is kept of it", remedy: d.howToContinue(e.Conversation)}
	// What goes to hive is never dropped for its hops.
	d.drop(r, why, func(id protocol.AgentID) bool { return id != protocol.Hive })
	n := len(r.dropped)
	if n == 0 || r.dropped[n-1].reason != protocol.HopCap || !d.state.CanKeep(e.Conversation) {
		return
	}
	e.Kept = &protocol.Kept{Reason: protocol.HopCap, Told: sender}
	for _, to := range r.dropped[n-1].to {
		e.Kept.To = append(e.Kept.To, protocol.AgentID(to))
	}
	r.dropped, r.tellPerson = r.dropped[:n-1], person
}

func (d *Decider) overCapText(e *protocol.MessageEvent) string {
	return fmt.Sprintf("conversation %s made %d hops, and the cap is %d", e.Conversation, e.Hops, d.settings.HopCap)
}

// howToContinue returns what can be done about a thread that is stopped.
func (d *Decider) howToContinue(conv protocol.ConversationID) func(by protocol.AgentID) string {
	return func(by protocol.AgentID) string {
		return "stop answering, and begin a new conversation if there is a new aim; if this one is honest work, " +
			d.howToManage(by, "let it go on", lineContinue(conv), commandContinue, objectOf("conversation", string(conv)))
	}
}

// tellOfKept tells the sender of a message that it is kept, and the lead, or human, if
// person is set.
func (d *Decider) tellOfKept(now time.Time, seq protocol.Seq, e *protocol.MessageEvent, person bool) error {
	if e.Kept == nil || !e.Kept.Told {
		return nil
	}
	to := make([]protocol.Address, len(e.Kept.To))
	for i, id := range e.Kept.To {
		to[i] = protocol.Address(id)
	}
	n := notice{
		to: e.From, act: protocol.Failure, reply: e.ID, conversation: e.Conversation, code: protocol.Code(e.Kept.Reason),
		subject: "kept, not delivered to " + listNames(to),
		body:    "Message " + string(e.ID) + " was not delivered to " + listNames(to) + ": " + d.overCapText(e) + ". It is kept, and delivered if somebody lets the conversation go on; ",
		data:    map[string]any{"of": seq, "to": to, "kept": true},
	}
	return d.tellBoth(now, e, n, person, d.howToContinue(e.Conversation))
}

// tellBoth tells the sender of a message what became of it, and, if person is set, the
// lead, or human. Each notice ends with what its reader can do.
func (d *Decider) tellBoth(now time.Time, e *protocol.MessageEvent, n notice, person bool, remedy func(by protocol.AgentID) string) error {
	say := func(to protocol.AgentID, from string) error {
		n, text := n, remedy(to)
		n.to, n.body = to, from+n.body+text+fullStop(text)
		return d.notice(now, n)
	}
	if err := say(e.From, ""); err != nil || !person {
		return err
	}
	if to := d.lead(e.From); to != e.From {
		return say(to, "From "+string(e.From)+". ")
	}
	return nil
}

// stopsClock remembers when the next notice about stopped messages is due.
type stopsClock struct {
	version uint64 // of [ledger.State.StopsVersion]
	known   bool
	next    time.Time
}

// nextStops returns when senders are told next of what was stopped; zero if never.
func (d *Decider) nextStops(now time.Time) time.Time {
	c := &d.stops
	if !c.known || c.version != d.state.StopsVersion() {
		*c = stopsClock{version: d.state.StopsVersion(), known: true}
		list, next := d.state.StopsDue(now)
		if c.next = next; len(list) > 0 {
			c.next = now
		}
	}
	return c.next
}

// Threads tells senders which messages were stopped in threads over the hop cap, and
// delivers the kept messages of threads that were continued, a portion at a time. It
// reports whether there are more (spec §4.3).
func (d *Decider) Threads(now time.Time) (more bool, err error) {
	if err := d.tellStops(now); err != nil {
		return false, err
	}
	return d.deliverContinued(now)
}

// tellStops tells senders, once an hour for each thread, which of their messages were
// stopped since the last notice.
func (d *Decider) tellStops(now time.Time) error {
	if at := d.nextStops(now); at.IsZero() || now.Before(at) {
		return nil
	}
	list, _ := d.state.StopsDue(now)
	d.stops.known = false
	for _, x := range list {
		first := len(d.out)
		ids := make([]string, len(x.IDs))
		for i, id := range x.IDs {
			ids[i] = string(id)
		}
		count := len(x.IDs) + x.More
		text := strings.Join(ids, ", ")
		if x.More > 0 {
			text += fmt.Sprintf(" and %d more", x.More)
		}
		err := d.notice(now, notice{
			to: x.From, act: protocol.Failure, conversation: x.Conversation, code: protocol.Code(protocol.HopCap), tellsStops: true,
			subject: fmt.Sprintf("%d more were not delivered", count),
			body:    fmt.Sprintf("Since you were told that conversation %s is stopped, these messages of yours were not delivered either: %s. They stay stopped; %s.", x.Conversation, text, d.howToContinue(x.Conversation)(x.From)),
			data:    map[string]any{"ids": x.IDs, "count": count},
		})
		if d.markAtomic(first); err != nil {
			return err
		}
	}
	return nil
}

// keptAtOnce bounds how many kept messages, and keptBytes how many bytes of them, are
// delivered before other things have their turn.
const (
	keptAtOnce = 64
	keptBytes  = 8 << 20
)

// deliverContinued delivers a portion of the kept messages of continued threads.
func (d *Decider) deliverContinued(now time.Time) (more bool, err error) {
	list := d.state.GoingOn(keptAtOnce)
	if len(list) == 0 {
		return false, nil
	}
	seqs := make([]protocol.Seq, len(list))
	for i, k := range list {
		seqs[i] = k.Of
	}
	// Only the messages of one thread are in ascending order.
	evs, err := d.recallSorted(seqs)
	if err != nil {
		return false, fmt.Errorf("read what was kept: %w", err)
	}
	bytes := 0
	for _, k := range list {
		n, err := d.deliverKept(now, k, evs[k.Of])
		if err != nil {
			return false, err
		}
		if bytes += n; bytes >= keptBytes {
			break
		}
	}
	return len(d.state.GoingOn(1)) > 0, nil
}

// deliverKept decides about one kept message as if it were found now: it may have
// expired, and inboxes may be full. It returns the message's size in bytes.
func (d *Decider) deliverKept(now time.Time, k ledger.Kept, ev protocol.Event) (int, error) {
	e, ok := ev.Body.(*protocol.MessageEvent)
	if !ok {
		return 0, fmt.Errorf("read what was kept: event %s is no message", k.Of)
	}
	m, err := protocol.DecodeMessage([]byte(e.Raw))
	if err != nil {
		return 0, fmt.Errorf("read kept message %s again: %w", e.ID, err)
	}
	data, err := ledger.Delivered(ev, e)
	if err != nil {
		return 0, err
	}
	first := len(d.out)
	defer d.markAtomic(first)
	r := &recipients{to: k.To}
	if d.dropExpired(now, m, r); len(r.to) > 0 {
		d.dropAtInboxCap(r)
	}
	if len(r.to) > 0 {
		id, err := d.ids.next(now)
		if err != nil {
			return 0, err
		}
		d.emit(now, &protocol.DeliveredEvent{
			Of: k.Of, ID: e.ID, From: e.From, To: r.to, Conversation: e.Conversation,
			File: id.String() + ".json", Blob: e.Blob, Size: e.Size, Content: protocol.NewContent(data),
		})
	}
	return len(data), d.recordDrops(now, k.Of, e, r)
}

func (d *Decider) recallSorted(seqs []protocol.Seq) (map[protocol.Seq]protocol.Event, error) {
	seqs = slices.Compact(slices.Sorted(slices.Values(seqs)))
	list, err := d.events(seqs...)
	evs := make(map[protocol.Seq]protocol.Event, len(list))
	for _, ev := range list {
		evs[ev.Seq] = ev
	}
	return evs, err
}
