package view

import (
	"slices"

	"github.com/hived/hived/protocol"
)

// Filter selects events of the log. An empty field selects all.
type Filter struct {
	Kinds  []protocol.Kind
	Agent  protocol.AgentID        // events that it takes part in
	Thread protocol.ConversationID // with what became of its messages

	// Found says that an event of the thread was seen, wanted or not.
	Found bool

	members map[protocol.Seq]bool // messages of the thread, by the events that accepted or delivered them
}

// Wants reports whether an event is wanted. It must see the events in the order
// of the log: what became of a message belongs to the message's thread.
func (f *Filter) Wants(ev protocol.Event) bool {
	refs := ev.Refs()
	inThread := f.Thread == "" || refs.Conversation == f.Thread || f.members[refs.Of]
	f.Found = f.Found || inThread
	kind := ev.Body.Kind()
	if f.Thread != "" && inThread && (kind == protocol.KindMessage || kind == protocol.KindDelivered) {
		if f.members == nil {
			f.members = map[protocol.Seq]bool{}
		}
		f.members[ev.Seq] = true
	}
	return inThread &&
		(len(f.Kinds) == 0 || slices.Contains(f.Kinds, kind)) &&
		(f.Agent == "" || slices.Contains(refs.Agents(), f.Agent))
}
