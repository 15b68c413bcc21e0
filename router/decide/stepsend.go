package decide

import (
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/hived/hived/protocol"
)

// outgoing is a message that the command of a step left to be sent when the step is done.
type outgoing struct {
	m       *protocol.Message
	raw     string
	content string // the hash of a message whose id its sender chose
}

// outbox reads the messages that come with the end of a step; bad says what is wrong with
// one, and none is sent then. One that was sent before, under its id, is left out.
func (d *Decider) outbox(r *report) (list []outgoing, bad string) {
	if n := len(r.Send); n > protocol.StepSends {
		return nil, fmt.Sprintf("it has %d messages, and may have %d", n, protocol.StepSends)
	}
	for i, raw := range r.Send {
		x, sent, why := d.outgoing(r.by, raw)
		switch {
		case why != "":
			return nil, fmt.Sprintf("message %d of %d %s", i+1, len(r.Send), why)
		case !sent:
			list = append(list, x)
		}
	}
	return list, ""
}

func (d *Decider) outgoing(by protocol.AgentID, raw string) (x outgoing, sent bool, why string) {
	if n := int64(len(raw)); n > d.settings.MaxMessageBytes {
		return x, false, fmt.Sprintf("has %d bytes, and may have %d", n, d.settings.MaxMessageBytes)
	}
	m, err := protocol.DecodeMessage([]byte(raw))
	switch {
	case err != nil:
		return x, false, "is no message: " + err.Error()
	case m.Event != "" || slices.Contains(m.To, protocol.Address(protocol.Hive)):
		return x, false, "is a command, and a step sends none"
	}
	x = outgoing{m: m, raw: raw}
	if m.ID == "" {
		return x, false, ""
	}
	hash := protocol.ContentHash(m)
	x.content = hex.EncodeToString(hash[:])
	if of, seen, known := d.state.Seen(by, m.ID); known {
		if seen == [8]byte(hash[:]) {
			return x, true, ""
		}
		return x, false, fmt.Sprintf("has the id %s, which was used before, by seq %d, for a message that said something else", m.ID, of)
	}
	return x, false, ""
}

// sendAll accepts the messages of a step that is done, as its agent's own. They are of one
// decision with its end: all of them are sent if the step is done, and none if it is not.
func (d *Decider) sendAll(r *report, list []outgoing) error {
	for _, x := range list {
		e := &protocol.MessageEvent{From: r.by, Raw: x.raw, Content: x.content}
		seq, misspelt, err := d.route(r.now, e, x.m, nil)
		if err == nil {
			err = d.tellMisspelt(r.now, seq, e, misspelt)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
