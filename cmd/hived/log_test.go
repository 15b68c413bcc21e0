package main

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
	)
	for _, tt := range []struct {
		name  string
		flags logFlags
		want  []int
	}{
		{"all", logFlags{}, []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13}},
		{"a kind", logFlags{kinds: []string{"handled"}}, []int{4, 5}},
		{"two kinds", logFlags{kinds: []string{"alert", "file"}}, []int{10, 11}},
		{"an agent", logFlags{of: "bob"}, []int{1, 4, 8}},
		{"a conversation", logFlags{conversation: "c"}, []int{1, 4, 6, 7}},
		{"a conversation and an agent", logFlags{conversation: "c", of: "alice"}, []int{1, 6}},
		{"a kind of a conversation", logFlags{conversation: "d", kinds: []string{"handled"}}, []int{5}},
		{"a task", logFlags{conversation: "task-T"}, []int{12, 13}},
		{"whom a task is offered to", logFlags{of: "dan"}, []int{12, 13}},
		{"nothing", logFlags{of: "nobody"}, nil},
	} {
		f, err := newFilter(tt.flags)
		if err != nil {
			t.Fatal(err)
		}
		var got []int
		for i, body := range events {
			if f.fits(protocol.Event{Seq: protocol.Seq(i + 1), Body: body}) {
				got = append(got, i+1)
			}
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}
