package router

import (
	"fmt"
	"maps"
	"time"

	"github.com/go-json-experiment/json"

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
}

// notice says it. Notices are logged like any message and never cause another:
// the coordinator does not listen to itself, and no rule but a full inbox
// keeps them from their reader.
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
	}{n.to, n.act, n.reply, n.conversation, cut(n.subject, 120), n.body, data}, json.Deterministic(true))
	if err != nil {
		return fmt.Errorf("write a notice to %s: %w", n.to, err)
	}
	m, err := protocol.DecodeMessage(raw)
	if err != nil {
		return fmt.Errorf("write a notice to %s: %w", n.to, err)
	}
	e := &protocol.MessageEvent{
		From: protocol.Hive, To: m.To, InReplyTo: n.reply, Conversation: n.conversation,
		Delivered: []protocol.AgentID{n.to}, Raw: string(raw),
	}
	full := reader.Inbox.Len() >= d.settings.InboxCap
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
			Conversation: e.Conversation, Reason: protocol.InboxFull, Detail: "a notice found the inbox full",
		})
	}
	return nil
}
