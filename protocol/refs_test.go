package protocol

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestRefs(t *testing.T) {
	adopted := func(path string) *HiveEvent {
		return &HiveEvent{Action: Adopted, Adopted: &AdoptedFile{Path: path, ID: "m"}}
	}
	tests := []struct {
		name   string
		body   Body
		want   Refs
		agents []AgentID
	}{
		{"continued", &HiveEvent{By: "a", Agent: "b", Conversation: "c", Of: 3}, Refs{By: "a", Conversation: "c", Of: 3}, []AgentID{"a", "b"}},
		{"adopted unread", adopted("agents/b/inbox/f"), Refs{Message: "m", To: []AgentID{"b"}, File: "f"}, nil},
		{"adopted handled", adopted("agents/b/inbox/.done/f"), Refs{Message: "m", To: []AgentID{"b"}, File: "f"}, nil},
		{"adopted sent", adopted("agents/b/outbox/.sent/f"), Refs{Message: "m"}, nil},
		{"agent", &AgentEvent{Agent: "a", By: "b", Of: 3}, Refs{By: "b", Of: 3}, []AgentID{"a", "b"}},
		{
			"message", &MessageEvent{ID: "m", From: "a", To: []Address{"@b"}, Delivered: []AgentID{"b"}, Conversation: "c", File: "f", Kept: &Kept{To: []AgentID{"d"}}},
			Refs{By: "a", Conversation: "c", Message: "m", To: []AgentID{"b"}, File: "f"},
			[]AgentID{"a", "b", "@b", "d"},
		},
		{"drop", &DropEvent{ID: "m", From: "a", To: []Address{"b"}, Conversation: "c", Of: 3}, Refs{Conversation: "c", Of: 3, Message: "m"}, []AgentID{"a", "b"}},
		{"original", &QuarantineEvent{Agent: "a", ID: "m", Original: &Original{}}, Refs{By: "a", Message: "m"}, []AgentID{"a"}},
		{"altered", &QuarantineEvent{Agent: "a", ID: "m"}, Refs{Message: "m"}, []AgentID{"a"}},
		{"duplicate", &DuplicateEvent{Agent: "a", ID: "m", Of: 3}, Refs{By: "a", Of: 3, Message: "m"}, []AgentID{"a"}},
		{"handled", &HandledEvent{Agent: "a", ID: "m", Of: 3, File: "f", How: HowDone}, Refs{By: "a", Of: 3, Message: "m"}, []AgentID{"a"}},
		{"reopened", &HandledEvent{Agent: "a", ID: "m", Of: 3, File: "f", How: HowReopened}, Refs{By: "a", Of: 3, Message: "m"}, []AgentID{"a"}},
		{"deleted", &HandledEvent{Agent: "a", ID: "m", Of: 3, File: "f", How: HowDeleted}, Refs{Of: 3, Message: "m"}, []AgentID{"a"}},
		{
			"delivered", &DeliveredEvent{ID: "m", From: "a", To: []AgentID{"b"}, Conversation: "c", Of: 3, File: "f"},
			Refs{Conversation: "c", Of: 3, Message: "m", To: []AgentID{"b"}, File: "f"},
			[]AgentID{"a", "b"},
		},
		{"file", &FileEvent{By: "a"}, Refs{By: "a"}, []AgentID{"a"}},
		{"task", &TaskEvent{Task: "t", By: "a", Agents: []AgentID{"b"}, Of: 3}, Refs{By: "a", Conversation: TaskConversation("t"), Of: 3, Task: "t"}, []AgentID{"a", "b"}},
		{"refused", &TaskRejectedEvent{Task: "t", By: "a", Of: 3}, Refs{By: "a", Conversation: TaskConversation("t"), Of: 3, Task: "t"}, []AgentID{"a"}},
		{"alert", &AlertEvent{Agent: "a"}, Refs{}, []AgentID{"a"}},
	}
	for _, tt := range tests {
		got := Event{Body: tt.body}.Refs()
		if diff := cmp.Diff(tt.want, got, cmpopts.IgnoreUnexported(Refs{})); diff != "" {
			t.Errorf("%s: %s", tt.name, diff)
		}
		if diff := cmp.Diff(tt.agents, got.Agents(), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s concerns: %s", tt.name, diff)
		}
	}
}

// TestRefsCostNothing checks that what the daemon asks of each event allocates nothing.
func TestRefsCostNothing(t *testing.T) {
	ev := Event{Body: &MessageEvent{From: "a", Delivered: []AgentID{"b"}, To: []Address{"b", "@c"}}}
	if n := testing.AllocsPerRun(100, func() { _ = ev.Refs().By }); n > 0 {
		t.Errorf("Refs allocates %v times", n)
	}
}
