package view

import (
	"slices"

	"github.com/hived/hived/protocol"
)

// Filter says which events of the log somebody wants to see. A field that is
// empty asks for all.
type Filter struct {
	Kinds  []protocol.Kind
	Agent  protocol.AgentID        // who takes part
	Thread protocol.ConversationID // with what became of its messages

	// Found says that an event of the thread was seen, wanted or not.
	Found bool

	members map[protocol.Seq]bool // messages of the thread, by the events that accepted or delivered them
}

// Wants reports whether an event is wanted. It must see the events in the order
// of the log: what became of a message belongs to the message's thread.
func (f *Filter) Wants(ev protocol.Event) bool {
	p := protocol.Handle[part](ev, parts{})
	inThread := f.Thread == "" || p.thread == f.Thread || f.members[p.of]
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
		(f.Agent == "" || slices.Contains(p.agents, f.Agent))
}

// part is whom and what an event concerns.
type part struct {
	agents []protocol.AgentID
	thread protocol.ConversationID
	of     protocol.Seq
}

// parts has it for each kind of event.
type parts struct{}

func (parts) OnHive(_ protocol.Event, e *protocol.HiveEvent) part {
	return part{[]protocol.AgentID{e.By, e.Agent}, e.Conversation, e.Of}
}

func (parts) OnAgent(_ protocol.Event, e *protocol.AgentEvent) part {
	return part{[]protocol.AgentID{e.Agent, e.By}, "", e.Of}
}

func (parts) OnMessage(_ protocol.Event, e *protocol.MessageEvent) part {
	who := append(append([]protocol.AgentID{e.From}, e.Delivered...), agents(e.To)...)
	if e.Kept != nil {
		who = append(who, e.Kept.To...)
	}
	return part{who, e.Conversation, 0}
}

func (parts) OnDrop(_ protocol.Event, e *protocol.DropEvent) part {
	return part{append(agents(e.To), e.From), e.Conversation, e.Of}
}

func (parts) OnQuarantine(_ protocol.Event, e *protocol.QuarantineEvent) part {
	return part{[]protocol.AgentID{e.Agent}, "", 0}
}

func (parts) OnDuplicate(_ protocol.Event, e *protocol.DuplicateEvent) part {
	return part{[]protocol.AgentID{e.Agent}, "", e.Of}
}

func (parts) OnHandled(_ protocol.Event, e *protocol.HandledEvent) part {
	return part{[]protocol.AgentID{e.Agent}, "", e.Of}
}

func (parts) OnDelivered(_ protocol.Event, e *protocol.DeliveredEvent) part {
	return part{append([]protocol.AgentID{e.From}, e.To...), e.Conversation, e.Of}
}

func (parts) OnFile(_ protocol.Event, e *protocol.FileEvent) part {
	return part{[]protocol.AgentID{e.By}, "", 0}
}

func (parts) OnTask(_ protocol.Event, e *protocol.TaskEvent) part {
	return part{append([]protocol.AgentID{e.By}, e.Agents...), protocol.TaskConversation(e.Task), e.Of}
}

func (parts) OnTaskRejected(_ protocol.Event, e *protocol.TaskRejectedEvent) part {
	return part{[]protocol.AgentID{e.By}, protocol.TaskConversation(protocol.TaskID(e.Task)), e.Of}
}

func (parts) OnAlert(_ protocol.Event, e *protocol.AlertEvent) part {
	return part{[]protocol.AgentID{e.Agent}, "", 0}
}

func agents(to []protocol.Address) []protocol.AgentID {
	out := make([]protocol.AgentID, 0, len(to))
	for _, address := range to {
		out = append(out, protocol.AgentID(address))
	}
	return out
}
