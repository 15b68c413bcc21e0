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

// notice is something that hived says to one agent (spec §4.6): a message from
// `hive` with a code for machines and one sentence with the remedy.
type notice struct {
	to           protocol.AgentID
	act          protocol.Act
	reply        protocol.MessageID
	conversation protocol.ConversationID
	code         protocol.Code
	subject      string
	body         string
	data         map[string]any // further facts
	mustAnswer   bool           // it must be answered: a full inbox does not keep it from its reader
	halfInbox    bool           // its reader can find it elsewhere: it leaves half of the inbox to others
	tellsStops   bool           // it tells of what else was stopped in the conversation
}

// notice says it. Notices are logged like any message and never cause another:
// the coordinator does not listen to itself, and no rule but a full inbox
// keeps them from their reader, and not even that where they must be answered.
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

// lead is who decides what no rule can: the lead, if there is one and it is
// active, else a person. An agent that it is about is passed over.
func (d *Decider) lead(about ...protocol.AgentID) protocol.AgentID {
	if id := d.state.Lead; d.active(id) && !slices.Contains(about, id) {
		return id
	}
	return protocol.Human
}

// active tells whether an agent is there and takes part.
func (d *Decider) active(id protocol.AgentID) bool {
	a := d.state.Agents[id]
	return a != nil && a.Status == ledger.Active
}

// NoticeEvery is how often the lead, or a person, is told of trouble of one sort.
const NoticeEvery = time.Hour

// worthTelling tells whether the lead, or a person, is to hear of trouble of an
// agent: once an hour of each code. A log of the oldest format cannot remember
// that, and goes on to the next one with the first message.
func (d *Decider) worthTelling(now time.Time, kind protocol.Kind, code protocol.Code, about protocol.AgentID) bool {
	return d.state.Format != protocol.OldestFormat && d.state.Agents[d.lead(about)] != nil && now.Sub(d.state.TroubleTold(kind, code, about)).Abs() >= NoticeEvery
}

// tellTrouble says to the lead, or to a person, what went wrong.
func (d *Decider) tellTrouble(now time.Time, code protocol.Code, about protocol.AgentID, path, text string) error {
	n := notice{
		to: d.lead(about), act: protocol.Inform, code: code, subject: string(code), data: map[string]any{},
		body: text + fullStop(text) + " More of the same within the hour is not told.",
	}
	if n.to == protocol.Human {
		n.body += " To see how often it came, " + howTo(n.to, "hived status", "") + "."
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
