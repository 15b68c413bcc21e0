package view

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hived/hived/protocol"
)

func TestFilter(t *testing.T) {
	events := bodies(
		&protocol.MessageEvent{ID: "m1", From: "alice", To: to("bob"), Delivered: []protocol.AgentID{"bob"}, Conversation: "c"},
		&protocol.MessageEvent{ID: "m2", From: "carol", To: to("zed"), Conversation: "d"},
		&protocol.DropEvent{Of: 2, From: "carol", To: to("zed"), Conversation: "d"},
		&protocol.HandledEvent{Of: 1, Agent: "bob"},
		&protocol.HandledEvent{Of: 2, Agent: "zed"},
		&protocol.DuplicateEvent{Of: 1, Agent: "alice"},
		&protocol.HiveEvent{Action: protocol.Continued, Conversation: "c", By: "human"},
		&protocol.AgentEvent{Agent: "bob", Action: protocol.Held, By: "human"},
		&protocol.QuarantineEvent{Agent: "alice"},
		&protocol.FileEvent{Path: "agents/alice/memory.md", By: "alice"},
		&protocol.AlertEvent{Agent: "carol"},
		&protocol.TaskEvent{Task: "T", Event: "offer", By: "hive", Agents: []protocol.AgentID{"dan"}},
		&protocol.TaskRejectedEvent{Task: "T", By: "dan", Of: 2},
		&protocol.DeliveredEvent{Of: 1, From: "alice", To: ids("carol"), Conversation: "c"},
		&protocol.HandledEvent{Of: 14, Agent: "carol"},
	)
	for _, tt := range []struct {
		name   string
		filter Filter
		want   []int
	}{
		{"all", Filter{}, []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}},
		{"a kind", Filter{Kinds: []protocol.Kind{"handled"}}, []int{4, 5, 15}},
		{"two kinds", Filter{Kinds: []protocol.Kind{"alert", "file"}}, []int{10, 11}},
		{"an agent", Filter{Agent: "bob"}, []int{1, 4, 8}},
		{"a conversation", Filter{Thread: "c"}, []int{1, 4, 6, 7, 14, 15}},
		{"a conversation and an agent", Filter{Thread: "c", Agent: "alice"}, []int{1, 6, 14}},
		{"a kind of a conversation", Filter{Thread: "d", Kinds: []protocol.Kind{"handled"}}, []int{5}},
		{"a task", Filter{Thread: "task-T"}, []int{12, 13}},
		{"whom a task is offered to", Filter{Agent: "dan"}, []int{12, 13}},
		{"another conversation", Filter{Thread: "z"}, nil},
		{"nothing", Filter{Agent: "nobody"}, nil},
	} {
		var got []int
		for i, body := range events {
			if tt.filter.Wants(protocol.Event{Seq: protocol.Seq(i + 1), Body: body}) {
				got = append(got, i+1)
			}
		}
		if tt.filter.Found == (tt.filter.Thread == "z") {
			t.Errorf("%s: found is %v", tt.name, tt.filter.Found)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}
