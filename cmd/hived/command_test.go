package main

import (
	"testing"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/durable/faultfs"
	"github.com/hived/hived/protocol"
)

func TestMemberShows(t *testing.T) {
	t.Parallel()
	bob := member{ID: "bob", Role: "builder", Caps: []string{"go"}, Status: "active", Lead: true, Joined: "x"}
	for _, tt := range []struct {
		name string
		m    member
		e    protocol.AgentEvent
		want bool
	}{
		{"joined", bob, protocol.AgentEvent{Agent: "bob", Action: protocol.Joined, Role: "builder", Caps: []string{"go"}}, true},
		{"not seen yet", member{ID: "bob", Status: "new"}, protocol.AgentEvent{Agent: "bob", Action: protocol.Joined}, false},
		{"another role", bob, protocol.AgentEvent{Agent: "bob", Action: protocol.Changed, Role: "planner", Caps: []string{"go"}}, false},
		{"other slots", bob, protocol.AgentEvent{Agent: "bob", Action: protocol.Changed, Role: "builder", Caps: []string{"go"}, Slots: 2}, false},
		{"another agent", bob, protocol.AgentEvent{Agent: "alice", Action: protocol.Released}, false},
		{"not held yet", bob, protocol.AgentEvent{Agent: "bob", Action: protocol.Held}, false},
		{"released", bob, protocol.AgentEvent{Agent: "bob", Action: protocol.Released}, true},
		{"not archived yet", bob, protocol.AgentEvent{Agent: "bob", Action: protocol.Archived}, false},
		{"the lead", bob, protocol.AgentEvent{Agent: "bob", Action: protocol.LeadSet}, true},
		{"still the lead", bob, protocol.AgentEvent{Agent: "alice", Action: protocol.LeadSet}, false},
		{"not the lead yet", member{ID: "alice"}, protocol.AgentEvent{Agent: "alice", Action: protocol.LeadSet}, false},
	} {
		if got := tt.m.shows(&tt.e); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}

// later is a disk on which a file comes to say something else after it was read
// twice.
type later struct {
	durable.FS

	name  string
	reads int
	text  string
}

func (l *later) Open(name string) (durable.File, error) {
	if name == l.name {
		if l.reads++; l.reads == 3 {
			if err := durable.Publish(l.FS, name, []byte(l.text), 0o644, false); err != nil {
				return nil, err
			}
		}
	}
	return l.FS.Open(name)
}

// A command about an agent ends when the roster shows it, which is after the log
// does.
func TestShowing(t *testing.T) {
	t.Parallel()
	disk := faultfs.New()
	if err := disk.MkdirAll("agents/bob", 0o755); err != nil {
		t.Fatal(err)
	}
	line := func(status string) string {
		return `{"format":1,"lead":"","agents":{"bob":{"id":"bob","role":"","capabilities":[],"status":"` + status + `","joined_at":"x"}}}`
	}
	if err := durable.Publish(disk, protocol.PathRegistry, []byte(line("active")), 0o644, false); err != nil {
		t.Fatal(err)
	}
	l := &later{FS: disk, name: protocol.PathRegistry, text: line("held")}
	showing(t.Context(), l, &protocol.AgentEvent{Agent: "bob", Action: protocol.Held})
	if l.reads != 3 {
		t.Errorf("it looked %d times, want 3", l.reads)
	}
}

// mine is the outbox file of a command.
var mine = &protocol.Original{Name: "f.json"}

func to(list ...protocol.Address) []protocol.Address { return list }

func bodies(list ...protocol.Body) []protocol.Body { return list }
