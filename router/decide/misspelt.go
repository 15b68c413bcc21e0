package decide

import (
	"strings"
	"time"

	"github.com/hived/hived/ledger"
	"github.com/hived/hived/protocol"
)

// misspelt returns the fields of a message that are nearly named like one that hived
// knows, and that its sender was not told of yet: at most as many for one agent as the
// state remembers, and none in a log of the oldest format, which cannot remember any.
func (d *Decider) misspelt(from protocol.AgentID, m *protocol.Message) []protocol.Misspelt {
	a := d.state.Agents[from]
	if a == nil || d.state.Format == protocol.OldestFormat {
		return nil
	}
	room := ledger.MisspeltMost - len(a.Misspelt())
	if room <= 0 {
		return nil
	}
	var list []protocol.Misspelt
	for _, x := range m.Misspelt() {
		if !a.ToldOf(x.Field) && len(list) < room {
			list = append(list, x)
		}
	}
	return list
}

// tellMisspelt tells the sender of a message of its misspelt fields. The message is
// delivered all the same: a field of any name may be the sender's own.
func (d *Decider) tellMisspelt(now time.Time, of protocol.Seq, e *protocol.MessageEvent, list []protocol.Misspelt) error {
	if len(list) == 0 {
		return nil
	}
	meant := map[string]string{}
	said, send := make([]string, len(list)), make([]string, len(list))
	for i, x := range list {
		meant[x.Field] = x.Meant
		said[i] = protocol.Quote(x.Field) + " is no field that hived knows; if you mean " + protocol.Quote(x.Meant) + ", it did nothing"
		value := x.Value
		if value == "" || len(value) > 100 {
			value = "…"
		}
		send[i] = protocol.Quote(x.Meant) + ": " + value
	}
	return d.notice(now, notice{
		to: e.From, act: protocol.Inform, reply: e.ID, conversation: e.Conversation, code: protocol.CodeMisspelt,
		subject: "misspelt? " + protocol.Quote(list[0].Field),
		body:    "Message " + string(e.ID) + " was taken as it is. In it " + strings.Join(said, "; ") + ": write " + strings.Join(send, ", ") + " next time. A field of your own you may keep: this is said once.",
		data:    map[string]any{"of": of, "fields": meant},
	})
}
