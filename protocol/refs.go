package protocol

import (
	"path"
	"strings"
)

// Refs is whom and what an event concerns, in the same form for every kind. What a
// kind does not have is empty.
type Refs struct {
	By           AgentID        // who did it; empty if that may have been somebody else
	Conversation ConversationID // for a task, that of its notices
	Of           Seq            // the event that caused it
	Message      MessageID
	Task         TaskID
	To           []AgentID // to whose inboxes it delivered a message
	File         string    // its name there

	first, second AgentID // who takes part, with those below; may be empty
	more          []AgentID
	addressed     []Address
	kept          []AgentID
}

// Agents returns who takes part, including addresses that are not agents.
func (r Refs) Agents() []AgentID {
	list := make([]AgentID, 0, 2+len(r.more)+len(r.addressed)+len(r.kept))
	for _, id := range [...]AgentID{r.first, r.second} {
		if id != "" {
			list = append(list, id)
		}
	}
	list = append(list, r.more...)
	for _, a := range r.addressed {
		list = append(list, AgentID(a))
	}
	return append(list, r.kept...)
}

// Refs returns whom and what the event concerns.
func (ev Event) Refs() Refs { return Handle[Refs](ev, refs{}) }

// refs returns the Refs of each kind of event.
type refs struct{}

func (refs) OnHive(_ Event, e *HiveEvent) Refs {
	r := Refs{By: e.By, first: e.By, second: e.Agent, Conversation: e.Conversation, Of: e.Of}
	if f := e.Adopted; f != nil {
		r.Message = f.ID
		id, _, _ := strings.Cut(strings.TrimPrefix(f.Path, PathAgents+"/"), "/")
		switch to := AgentID(id); path.Dir(f.Path) {
		case InboxDir(to), DoneDir(to):
			r.To, r.File = []AgentID{to}, path.Base(f.Path)
		}
	}
	return r
}

func (refs) OnAgent(_ Event, e *AgentEvent) Refs {
	return Refs{By: e.By, first: e.Agent, second: e.By, Of: e.Of}
}

func (refs) OnMessage(_ Event, e *MessageEvent) Refs {
	r := Refs{By: e.From, first: e.From, more: e.Delivered, addressed: e.To, Conversation: e.Conversation, Message: e.ID, To: e.Delivered, File: e.File}
	if e.Kept != nil {
		r.kept = e.Kept.To
	}
	return r
}

func (refs) OnDrop(_ Event, e *DropEvent) Refs {
	return Refs{first: e.From, addressed: e.To, Conversation: e.Conversation, Of: e.Of, Message: e.ID}
}

func (refs) OnQuarantine(_ Event, e *QuarantineEvent) Refs {
	r := Refs{first: e.Agent, Message: e.ID}
	if e.Original != nil { // else somebody altered what it was to read
		r.By = e.Agent
	}
	return r
}

func (refs) OnDuplicate(_ Event, e *DuplicateEvent) Refs {
	return Refs{By: e.Agent, first: e.Agent, Of: e.Of, Message: e.ID}
}

func (refs) OnHandled(_ Event, e *HandledEvent) Refs {
	r := Refs{first: e.Agent, Of: e.Of, Message: e.ID}
	if e.How == HowDone || e.How == HowReopened {
		r.By = e.Agent
	}
	return r
}

func (refs) OnDelivered(_ Event, e *DeliveredEvent) Refs {
	return Refs{first: e.From, more: e.To, Conversation: e.Conversation, Of: e.Of, Message: e.ID, To: e.To, File: e.File}
}

func (refs) OnFile(_ Event, e *FileEvent) Refs {
	return Refs{By: e.By, first: e.By}
}

func (refs) OnTask(_ Event, e *TaskEvent) Refs {
	return Refs{By: e.By, first: e.By, more: e.Agents, Conversation: TaskConversation(e.Task), Of: e.Of, Task: e.Task}
}

func (refs) OnTaskRejected(_ Event, e *TaskRejectedEvent) Refs {
	id := TaskID(e.Task)
	return Refs{By: e.By, first: e.By, Conversation: TaskConversation(id), Of: e.Of, Task: id}
}

func (refs) OnAlert(_ Event, e *AlertEvent) Refs {
	r := Refs{first: e.Agent, Of: e.Of}
	if e.Of > 0 { // the agent raised it
		r.By = e.Agent
	}
	return r
}
