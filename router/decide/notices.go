package decide

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/hived/hived/ledger"
	"github.com/hived/hived/protocol"
)

// notice is a message from `hive` to one agent, with a code for programs and one
// sentence with the remedy (spec §4.6).
type notice struct {
	to           protocol.AgentID
	act          protocol.Act
	reply        protocol.MessageID
	conversation protocol.ConversationID
	code         protocol.Code
	subject      string
	body         string
	data         map[string]any // further facts
	mustAnswer   bool           // it must be answered: it is delivered even to a full inbox
	halfInbox    bool           // its reader can find it elsewhere: it is dropped if half of the inbox is full
	tellsStops   bool           // it lists what else was stopped in the conversation
}

// notice sends a notice. Notices are logged like any message and never cause another:
// the coordinator does not listen to itself. Only a full inbox keeps them from their
// reader, and not even that if they must be answered.
func (d *Decider) notice(now time.Time, n notice) error {
	reader := d.state.Agents[n.to]
	if reader == nil {
		return nil
	}
	data := map[string]any{"code": n.code}
	maps.Copy(data, n.data)
	raw, err := json.Marshal(struct {
		To           protocol.AgentID        `json:"to"`
		Act          protocol.Act            `json:"act"`
		InReplyTo    protocol.MessageID      `json:"in_reply_to,omitzero"`
		Conversation protocol.ConversationID `json:"conversation,omitzero"`
		Subject      string                  `json:"subject"`
		Body         string                  `json:"body"`
		Data         map[string]any          `json:"data"`
	}{n.to, n.act, n.reply, n.conversation, protocol.Fit(n.subject, 120), n.body, data}, json.Deterministic(true))
	if err != nil {
		return fmt.Errorf("write a notice to %s: %w", n.to, err)
	}
	m, err := protocol.DecodeMessage(raw)
	if err != nil {
		return fmt.Errorf("write a notice to %s: %w", n.to, err)
	}
	e := &protocol.MessageEvent{
		From: protocol.Hive, To: m.To, InReplyTo: n.reply, Conversation: n.conversation,
		Delivered: []protocol.AgentID{n.to}, Raw: string(raw), Stops: n.tellsStops,
	}
	room, why := d.settings.InboxCap, "a notice found the inbox full"
	if n.halfInbox {
		room, why = (room+1)/2, "half of the inbox is left to other things than tasks that ended; "+howToSeeTasks(protocol.Human)
	}
	full := reader.Inbox.Len() >= room && !n.mustAnswer
	if full {
		e.Delivered = []protocol.AgentID{}
	}
	seq, err := d.accept(now, e, m, now)
	if err != nil {
		return err
	}
	if full {
		d.emit(now, &protocol.DropEvent{
			Of: seq, ID: e.ID, From: protocol.Hive, To: []protocol.Address{protocol.Address(n.to)},
			Conversation: e.Conversation, Reason: protocol.InboxFull, Detail: why,
		})
	}
	return nil
}

// lead returns who decides what no rule can: the lead, if it is active and not among
// the agents that the matter is about, else human.
func (d *Decider) lead(about ...protocol.AgentID) protocol.AgentID {
	if id := d.state.Lead; d.active(id) && !slices.Contains(about, id) {
		return id
	}
	return protocol.Human
}

// active reports whether an agent is on the roster and active.
func (d *Decider) active(id protocol.AgentID) bool {
	a := d.state.Agents[id]
	return a != nil && a.Status == ledger.Active
}

// NoticeEvery is the least time between two notices to the lead, or a person, about
// trouble of one kind.
const NoticeEvery = time.Hour

// worthTelling reports whether the lead, or a person, is told of an agent's trouble:
// once an hour for each code. A log of the oldest format cannot remember that, and
// moves on to the next format with the first message.
func (d *Decider) worthTelling(now time.Time, kind protocol.Kind, code protocol.Code, about protocol.AgentID) bool {
	return d.state.Format != protocol.OldestFormat && d.state.Agents[d.lead(about)] != nil && now.Sub(d.state.TroubleTold(kind, code, about)).Abs() >= NoticeEvery
}

// tellTrouble tells the lead, or a person, what went wrong.
func (d *Decider) tellTrouble(now time.Time, code protocol.Code, about protocol.AgentID, path, text string) error {
	n := notice{
		to: d.lead(about), act: protocol.Inform, code: code, subject: string(code), data: map[string]any{},
		body: text + fullStop(text) + " More of the same within the hour is not told.",
	}
	if n.to == protocol.Human {
		n.body += " To see how often it came, " + howTo(n.to, lineStatus, "") + "."
	}
	if about != "" {
		n.subject += ": " + string(about)
		n.data["agent"] = about
	}
	if path != "" {
		n.data["path"] = path
	}
	return d.notice(now, n)
}
