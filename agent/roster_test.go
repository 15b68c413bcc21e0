package agent

import (
	"testing"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/durable/faultfs"
	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/protocol"
)

func TestMemberShows(t *testing.T) {
	t.Parallel()
	bob := Member{ID: "bob", Role: "builder", Caps: []string{"go"}, Status: "active", Lead: true, Joined: "x"}
	for _, tt := range []struct {
		name string
		m    Member
		e    protocol.AgentEvent
		want bool
	}{
		{"joined", bob, protocol.AgentEvent{Agent: "bob", Action: protocol.Joined, Role: "builder", Caps: []string{"go"}}, true},
		{"not seen yet", Member{ID: "bob", Status: "new"}, protocol.AgentEvent{Agent: "bob", Action: protocol.Joined}, false},
		{"another role", bob, protocol.AgentEvent{Agent: "bob", Action: protocol.Changed, Role: "planner", Caps: []string{"go"}}, false},
		{"other slots", bob, protocol.AgentEvent{Agent: "bob", Action: protocol.Changed, Role: "builder", Caps: []string{"go"}, Slots: 2}, false},
		{"another agent", bob, protocol.AgentEvent{Agent: "alice", Action: protocol.Released}, false},
		{"not held yet", bob, protocol.AgentEvent{Agent: "bob", Action: protocol.Held}, false},
		{"released", bob, protocol.AgentEvent{Agent: "bob", Action: protocol.Released}, true},
		{"not archived yet", bob, protocol.AgentEvent{Agent: "bob", Action: protocol.Archived}, false},
		{"the lead", bob, protocol.AgentEvent{Agent: "bob", Action: protocol.LeadSet}, true},
		{"still the lead", bob, protocol.AgentEvent{Agent: "alice", Action: protocol.LeadSet}, false},
		{"not the lead yet", Member{ID: "alice"}, protocol.AgentEvent{Agent: "alice", Action: protocol.LeadSet}, false},
	} {
		if got := tt.m.shows(&tt.e); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}

// TestWaitRoster checks that WaitRoster waits until the roster shows an event,
// which it does later than the log.
func TestWaitRoster(t *testing.T) {
	t.Parallel()
	disk := faultfs.New()
	testenv.Must(t, disk.MkdirAll("agents/bob", 0o755))
	line := func(status string) string {
		return `{"format":1,"lead":"","agents":{"bob":{"id":"bob","role":"","capabilities":[],"status":"` + status + `","joined_at":"x"}}}`
	}
	testenv.Must(t, durable.Publish(disk, protocol.PathRegistry, []byte(line("active")), 0o644, false))
	l := &faultfs.Later{FS: disk, Name: protocol.PathRegistry, Text: line("held")}
	WaitRoster(t.Context(), l, &protocol.AgentEvent{Agent: "bob", Action: protocol.Held})
	if l.Reads != 3 {
		t.Errorf("it read the roster %d times, want 3", l.Reads)
	}
}
