package protocol

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRefs(t *testing.T) {
	adopted := func(path string) *HiveEvent {
		return &HiveEvent{Action: Adopted, Adopted: &AdoptedFile{Path: path, ID: "m"}}
	}
	tests := []struct {
		name string
		body Body
		want Refs
	}{
		{"continued", &HiveEvent{By: "a", Agent: "b", Conversation: "c", Of: 3}, Refs{By: "a", Agents: []AgentID{"a", "b"}, Conversation: "c", Of: 3}},
		{"adopted unread", adopted("agents/b/inbox/f"), Refs{Agents: []AgentID{"", ""}, Message: "m", To: []AgentID{"b"}, File: "f"}},
		{"adopted handled", adopted("agents/b/inbox/.done/f"), Refs{Agents: []AgentID{"", ""}, Message: "m", To: []AgentID{"b"}, File: "f"}},
		{"adopted sent", adopted("agents/b/outbox/.sent/f"), Refs{Agents: []AgentID{"", ""}, Message: "m"}},
		{"agent", &AgentEvent{Agent: "a", By: "b", Of: 3}, Refs{By: "b", Agents: []AgentID{"a", "b"}, Of: 3}},
		{
			"message", &MessageEvent{ID: "m", From: "a", To: []Address{"@b"}, Delivered: []AgentID{"b"}, Conversation: "c", File: "f", Kept: &Kept{To: []AgentID{"d"}}},
			Refs{By: "a", Agents: []AgentID{"a", "b", "@b", "d"}, Conversation: "c", Message: "m", To: []AgentID{"b"}, File: "f"},
		},
		{"drop", &DropEvent{ID: "m", From: "a", To: []Address{"b"}, Conversation: "c", Of: 3}, Refs{Agents: []AgentID{"a", "b"}, Conversation: "c", Of: 3, Message: "m"}},
		{"original", &QuarantineEvent{Agent: "a", ID: "m", Original: &Original{}}, Refs{By: "a", Agents: []AgentID{"a"}, Message: "m"}},
		{"altered", &QuarantineEvent{Agent: "a", ID: "m"}, Refs{Agents: []AgentID{"a"}, Message: "m"}},
		{"duplicate", &DuplicateEvent{Agent: "a", ID: "m", Of: 3}, Refs{By: "a", Agents: []AgentID{"a"}, Of: 3, Message: "m"}},
		{"handled", &HandledEvent{Agent: "a", ID: "m", Of: 3, File: "f", How: HowDone}, Refs{By: "a", Agents: []AgentID{"a"}, Of: 3, Message: "m"}},
		{"reopened", &HandledEvent{Agent: "a", ID: "m", Of: 3, File: "f", How: HowReopened}, Refs{By: "a", Agents: []AgentID{"a"}, Of: 3, Message: "m"}},
		{"deleted", &HandledEvent{Agent: "a", ID: "m", Of: 3, File: "f", How: HowDeleted}, Refs{Agents: []AgentID{"a"}, Of: 3, Message: "m"}},
		{
			"delivered", &DeliveredEvent{ID: "m", From: "a", To: []AgentID{"b"}, Conversation: "c", Of: 3, File: "f"},
			Refs{Agents: []AgentID{"a", "b"}, Conversation: "c", Of: 3, Message: "m", To: []AgentID{"b"}, File: "f"},
		},
		{"file", &FileEvent{By: "a"}, Refs{By: "a", Agents: []AgentID{"a"}}},
		{"task", &TaskEvent{Task: "t", By: "a", Agents: []AgentID{"b"}, Of: 3}, Refs{By: "a", Agents: []AgentID{"a", "b"}, Conversation: TaskConversation("t"), Of: 3, Task: "t"}},
		{"refused", &TaskRejectedEvent{Task: "t", By: "a", Of: 3}, Refs{By: "a", Agents: []AgentID{"a"}, Conversation: TaskConversation("t"), Of: 3, Task: "t"}},
		{"alert", &AlertEvent{Agent: "a"}, Refs{Agents: []AgentID{"a"}}},
	}
	for _, tt := range tests {
		if diff := cmp.Diff(tt.want, Event{Body: tt.body}.Refs()); diff != "" {
			t.Errorf("%s: %s", tt.name, diff)
		}
	}
}
