package router

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/protocol"
)

// older makes a directory of the older layout with a registry.
func older(t *testing.T, registry string) *hive {
	t.Helper()
	h := &hive{t: t, dir: t.TempDir(), settings: protocol.DefaultSettings(), grew: make(chan struct{}, 1)}
	var err error
	h.disk, err = durable.Open(h.dir)
	testenv.Must(t, err)
	t.Cleanup(func() { h.disk.Close() })
	for _, id := range []string{"alice", "bob"} {
		h.mkdir("agents/" + id + "/inbox/.done")
		h.mkdir("agents/" + id + "/outbox/.sent")
	}
	h.write("registry.json", registry)
	return h
}

// entries returns what registry.json says of agents, without when they joined.
func (h *hive) entries() map[string]map[string]any {
	h.t.Helper()
	var r struct {
		Agents map[string]map[string]any `json:"agents"`
	}
	testenv.Must(h.t, json.Unmarshal([]byte(h.read("registry.json")), &r))
	for _, e := range r.Agents {
		delete(e, "joined_at")
	}
	return r.Agents
}

func (h *hive) removeAll(names ...string) {
	h.t.Helper()
	for _, name := range names {
		testenv.Must(h.t, os.RemoveAll(h.path(name)))
	}
}

// TestAdoptKeepsWhatItDoesNotKnow checks that unknown members of an agent's entry in an
// older registry stay there, and that a role that is no address is made one.
func TestAdoptKeepsWhatItDoesNotKnow(t *testing.T) {
	const registry = `{"version":3,"godId":"alice","agents":{
	"alice":{"id":"alice","role":"planner","cwd":"/srv/shop","provider":"acme","sessionId":"6f1c","onHold":false},
	"bob":{"role":"code reviewer","slots":3,"capabilities":["go","unit tests"],"status":"idle","joined_at":"2026-05-30","tags":{"b":1,"a":[1,2]}},
	"human":{"role":"the boss","name":"Ann"}}}`
	h := older(t, registry)
	const identity = `{"cwd":"/srv/shop","sessionId":"6f1c"}`
	h.write("agents/alice/identity.json", identity)
	var told []string
	testenv.Must(t, MakeHive(h.disk, h.settings, true, func(where, text string) { told = append(told, where+": "+text) }))
	wantTold := []string{
		"registry.json: as it was, it is kept as .hived/older-registry.json",
		`agents: the capability "unit tests" of bob is unit-tests now; the role "code reviewer" of bob is code-reviewer now; the role "the boss" of human is the-boss now`,
	}
	if diff := cmp.Diff(wantTold, told); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
	if got := h.read(".hived/older-registry.json"); got != registry {
		t.Errorf("kept as %s", got)
	}

	want := map[string]map[string]any{
		"alice": {"id": "alice", "role": "planner", "capabilities": []any{}, "status": "active", "cwd": "/srv/shop", "provider": "acme", "sessionId": "6f1c"},
		"bob": {
			"id": "bob", "slots": 3.0, "role": "code-reviewer", "capabilities": []any{"go", "unit-tests"}, "status": "active", "tags": map[string]any{"b": 1.0, "a": []any{1.0, 2.0}},
			"older": map[string]any{"role": "code reviewer", "capabilities": []any{"go", "unit tests"}, "status": "idle", "joined_at": "2026-05-30"},
		},
		"human": {"id": "human", "role": "the-boss", "capabilities": []any{}, "status": "active", "name": "Ann", "older": map[string]any{"role": "the boss"}},
	}
	check := func(when string) {
		t.Helper()
		if diff := cmp.Diff(want, h.entries()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", when, diff)
		}
		if got := h.read("agents/alice/identity.json"); got != identity {
			t.Errorf("%s: identity.json is %s", when, got)
		}
	}
	check("adopted")

	h.send("alice", "1", `{"id":"m1","to":"@code-reviewer","body":"x"}`)
	h.send("human", "2", `{"to":"hive","event":"agent-add","data":{"agent":"bob","role":"tester","capabilities":["go"],"slots":2}}`)
	h.send("human", "3", `{"to":"hive","event":"agent-hold","data":{"agent":"alice"}}`)
	h.once()
	if e := h.delivery("m1"); !cmp.Equal(e.Delivered, []protocol.AgentID{"bob"}) {
		t.Errorf("the message to the role went to %v", e.Delivered)
	}
	want["bob"]["role"], want["bob"]["capabilities"], want["bob"]["slots"], want["alice"]["status"] = "tester", []any{"go"}, 2.0, "held"
	check("changed")
	if tip := h.git("show", "HEAD:registry.json"); tip != h.read("registry.json") {
		t.Errorf("git has %s", tip)
	}
	h.removeAll(".hived/snapshot")
	h.write("registry.json", "{}")
	h.once()
	check("put right, from the log alone")
	h.quiet()

	// The same from hived's own registry, after its log was lost.
	h.removeAll("log.jsonl", ".hived/snapshot", ".git")
	h.init(true)
	check("adopted again")
	h.quiet()
}
