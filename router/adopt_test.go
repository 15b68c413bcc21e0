package router

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hived/hived/eventlog"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/durable/faultfs"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

// older makes a directory of the older layout with this registry.
func older(t *testing.T, registry string) *hive {
	t.Helper()
	h := &hive{t: t, dir: t.TempDir(), settings: protocol.DefaultSettings(), grew: make(chan struct{}, 1)}
	var err error
	if h.disk, err = durable.Open(h.dir); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.disk.Close() })
	for _, id := range []string{"alice", "bob"} {
		h.mkdir("agents/" + id + "/inbox/.done")
		h.mkdir("agents/" + id + "/outbox/.sent")
	}
	h.write("registry.json", registry)
	return h
}

// entries reads what registry.json says of agents, without when they joined.
func (h *hive) entries() map[string]map[string]any {
	h.t.Helper()
	var r struct {
		Agents map[string]map[string]any `json:"agents"`
	}
	if err := json.Unmarshal([]byte(h.read("registry.json")), &r); err != nil {
		h.t.Fatal(err)
	}
	for _, e := range r.Agents {
		delete(e, "joined_at")
	}
	return r.Agents
}

func (h *hive) removeAll(names ...string) {
	h.t.Helper()
	for _, name := range names {
		if err := os.RemoveAll(h.path(name)); err != nil {
			h.t.Fatal(err)
		}
	}
}

// TestAdoptKeepsWhatItDoesNotKnow: what an older registry says of an agent beside
// stays in its entry, and a role that is no address becomes one.
func TestAdoptKeepsWhatItDoesNotKnow(t *testing.T) {
	const registry = `{"version":3,"godId":"alice","agents":{
	"alice":{"id":"alice","role":"planner","cwd":"/srv/shop","provider":"acme","sessionId":"6f1c","onHold":false},
	"bob":{"role":"code reviewer","slots":3,"capabilities":["go","unit tests"],"status":"idle","joined_at":"2026-05-30","tags":{"b":1,"a":[1,2]}},
	"human":{"role":"the boss","name":"Ann"}}}`
	h := older(t, registry)
	const identity = `{"cwd":"/srv/shop","sessionId":"6f1c"}`
	h.write("agents/alice/identity.json", identity)
	var told []string
	if err := Init(h.disk, InitOptions{Settings: h.settings, Adopt: true, Now: time.Now(), Tell: func(where, text string) { told = append(told, where+": "+text) }}); err != nil {
		t.Fatal(err)
	}
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
		t.Errorf("what is for the role went to %v", e.Delivered)
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

	// The same from hived's own registry, where its log is lost.
	h.removeAll("log.jsonl", ".hived/snapshot", ".git")
	h.init(true)
	check("adopted again")
	h.quiet()
}

// TestOlderEntries reads entries of every form.
func TestOlderEntries(t *testing.T) {
	long := strings.Repeat("x", keptMost)
	type result struct {
		Role, Older string
		Caps        []string
		Slots       int
		Held        bool
		Archived    bool
		Changed     []string
	}
	for _, c := range []struct {
		entry string
		by    author
		want  result
	}{
		{entry: `"bob"`},
		{entry: `7`},
		{entry: `{}`},
		{entry: `{"id":"bob","role":"a.B_c-1"}`, want: result{Role: "a.B_c-1"}},
		{entry: `{"id":"bobby"}`, want: result{Older: `{"id":"bobby"}`}},
		{entry: `{"role":"  QA /\t night shift! "}`, want: result{
			Role: "QA-night-shift", Older: `{"role":"  QA /\t night shift! "}`, Changed: []string{`the role "  QA /\t night shift! " of bob is QA-night-shift now`},
		}},
		{entry: `{"role":"Hive"}`, want: result{Older: `{"role":"Hive"}`, Changed: []string{`the role "Hive" of bob cannot be an address and is left out`}}},
		{entry: `{"role":"編集"}`, want: result{Older: `{"role":"編集"}`, Changed: []string{`the role "編集" of bob cannot be an address and is left out`}}},
		{entry: `{"role":"` + strings.Repeat("word ", 30) + `"}`, want: result{
			Role: strings.Repeat("word-", 12) + "word", Older: `{"role":"` + strings.Repeat("word ", 30) + `"}`,
			Changed: []string{"the role " + protocol.Quote(strings.Repeat("word ", 30)) + " of bob is " + strings.Repeat("word-", 12) + "word now"},
		}},
		{entry: `{"role":5,"capabilities":"go","slots":-1,"archived":"no","onHold":1,"status":true}`, want: result{Older: `{"archived":"no","capabilities":"go","onHold":1,"role":5,"slots":-1,"status":true}`}},
		{entry: `{"slots":3,"archived":true,"onHold":true}`, want: result{Slots: 3, Held: true, Archived: true}},
		{entry: `{"status":"held","joined_at":"x"}`, want: result{Held: true, Older: `{"joined_at":"x"}`}},
		{entry: `{"status":"archived","joined_at":"x","cwd":"/","older":{"role":"a b","cwd":"/old"}}`, by: byHived, want: result{Archived: true, Older: `{"cwd":"/","role":"a b"}`}},
		{entry: `{"older":null}`},
		{entry: `{"older":[1]}`, want: result{Older: `{"older":[1]}`}},
		{entry: `{"a":"` + long + `","cwd":"/"}`, want: result{Older: `{"cwd":"/"}`, Changed: []string{fmt.Sprintf(`"a" of bob is too large for the roster: %d bytes`, len(long)+3)}}},
	} {
		e := readEntry("bob", []byte(c.entry), c.by)
		got := result{e.role, string(e.older), e.caps, e.slots, e.held, e.archived, e.changed}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%.80s (-want +got):\n%s", c.entry, diff)
		}
	}
}

// TestOlderRegistries reads the agents of registries of every form: one that says
// something odd of one agent loses no other.
func TestOlderRegistries(t *testing.T) {
	for _, c := range []struct {
		agents string
		want   []string
	}{
		{`{"bob":{"role":5},"alice":{}}`, []string{"alice", "bob"}},
		{`[{"id":"bob","cwd":"/"},{"role":"x"},7]`, []string{"bob", "", ""}},
		{`["bob","alice"]`, []string{"bob", "alice"}},
		{`"bob"`, nil},
		{``, nil},
	} {
		var got []string
		for _, e := range readEntries([]byte(c.agents), byOlderTool) {
			got = append(got, e.name)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.agents, diff)
		}
	}
}

// A crash while a hive is taken over leaves no log, or one that holds all that was
// taken over: who finds a whole log adopts nothing any more.
func TestCrashWhileAdopting(t *testing.T) {
	t.Parallel()
	begun := faultfs.New()
	put := func(name, text string) {
		t.Helper()
		dir, _, _ := strings.Cut(name, "/task.json")
		if err := begun.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := durable.Publish(begun, name, []byte(text), 0o644, true); err != nil {
			t.Fatal(err)
		}
	}
	const tasks = 3
	for i := range tasks {
		id := fmt.Sprintf("01M7YW2XY9P0EW1X9MFVTQ%04d", i)
		put("tasks/"+id+"/task.json", fmt.Sprintf(`{"id":%q,"title":"a","state":"failed"}`, id))
	}
	if err := begun.SyncAll(); err != nil {
		t.Fatal(err)
	}
	adopt := func(disk durable.FS) error {
		opt := InitOptions{Settings: memSettings(), Adopt: true, Now: time.Now()}
		older, err := prepare(disk, opt)
		if err != nil {
			return err
		}
		return firstEvents(disk, opt, older)
	}
	for _, how := range []faultfs.Loss{faultfs.Drop, faultfs.Keep, faultfs.Torn(7)} {
		for k, crashed := 1, true; crashed; k++ {
			disk := begun.Copy()
			disk.CrashAt(k, how)
			crashed = adopt(disk) != nil
			disk = disk.Reboot()
			if err := adopt(disk); err != nil && !errors.Is(err, ErrIsHive) {
				t.Fatalf("%v, crash at operation %d: it cannot be taken over again: %v", how, k, err)
			}
			got := 0
			for rec, err := range eventlog.Read(disk, eventlog.Position{}) {
				if err != nil {
					t.Fatal(err)
				}
				if e, is := rec.Event.Body.(*protocol.TaskEvent); is && e.Event == task.Adopted {
					got++
				}
			}
			if got != tasks {
				t.Fatalf("%v, crash at operation %d: the log has %d of %d tasks", how, k, got, tasks)
			}
		}
	}
}

// What lies below tasks/ and is not hived's makes no task, damages none, and keeps
// none from being taken over.
func TestAdoptTasksBesideOtherFiles(t *testing.T) {
	t.Parallel()
	const id, dir = "01M7YW2XY9P0EW1X9MFVTQ8901", "tasks/01M7YW2XY9P0EW1X9MFVTQ8901"
	for _, tt := range []struct {
		name    string
		plant   func(disk *faultfs.Mem) error
		damaged string
		left    []string
	}{
		{name: "nothing beside", plant: func(*faultfs.Mem) error { return nil }},
		{
			name: "a temporary file of a crash",
			plant: func(disk *faultfs.Mem) error {
				return durable.Publish(disk, dir+"/answers/.9.json.1.tmp", nil, 0o644, true)
			},
			left: []string{dir + "/answers/.9.json.1.tmp"},
		},
		{
			name: "a file of somebody's",
			plant: func(disk *faultfs.Mem) error {
				return durable.Publish(disk, dir+"/answers/07.json", []byte("{}"), 0o644, true)
			},
			left: []string{dir + "/answers/07.json"},
		},
		{
			name: "a torn answer",
			plant: func(disk *faultfs.Mem) error {
				return durable.Publish(disk, dir+"/answers/7.json", []byte("{"), 0o644, true)
			},
			damaged: dir + "/answers/7.json: it is no whole JSON of its kind",
		},
		{
			name: "a link in the place of the answers",
			plant: func(disk *faultfs.Mem) error {
				return errors.Join(disk.Remove(dir+"/answers"), disk.Symlink(dir+"/answers", "/etc"))
			},
			damaged: dir + "/answers: it is no directory",
		},
		{
			name: "a file in the place of the answers",
			plant: func(disk *faultfs.Mem) error {
				return errors.Join(disk.Remove(dir+"/answers"), durable.Publish(disk, dir+"/answers", nil, 0o644, true))
			},
			damaged: dir + "/answers: it is no directory",
		},
		{
			name:  "an id in small letters, which no command takes",
			plant: func(disk *faultfs.Mem) error { return disk.MkdirAll(strings.ToLower(dir)+"/answers", 0o755) },
			left:  []string{strings.ToLower(dir)},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			disk := faultfs.New()
			if err := errors.Join(
				disk.MkdirAll(dir+"/answers", 0o755),
				durable.Publish(disk, dir+"/task.json", fmt.Appendf(nil, `{"id":%q,"title":"a","state":"unassigned"}`, id), 0o644, true),
				durable.Publish(disk, dir+"/brief.json", fmt.Appendf(nil, `{"id":%q,"title":"a"}`, id), 0o644, true),
				tt.plant(disk),
			); err != nil {
				t.Fatal(err)
			}
			o := &olderHive{}
			if err := o.findTasks(disk); err != nil {
				t.Fatal(err)
			}
			if len(o.tasks) != 1 {
				t.Fatalf("%d tasks", len(o.tasks))
			}
			damaged := ""
			if err := o.tasks[0].damaged; err != nil {
				damaged = err.Error()
			}
			if diff := cmp.Diff([]any{tt.damaged, tt.left}, []any{damaged, o.left}); diff != "" {
				t.Errorf("damaged, and left (-want +got):\n%s", diff)
			}
		})
	}
}
