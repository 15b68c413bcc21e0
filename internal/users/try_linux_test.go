package users_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hived/hived/audit"
	"github.com/hived/hived/eventlog"
	makehive "github.com/hived/hived/hive"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/internal/users"
	"github.com/hived/hived/internal/wait"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/router"
	"github.com/hived/hived/task"
)

// hive is a real hive in which each agent has a user, with its daemon. The users
// are numbers: no account has to exist.
type hive struct {
	t    *testing.T
	dir  string
	disk *durable.Disk
	set  protocol.Settings
	who  map[protocol.AgentID]users.ID
	all  users.Group
	env  []string

	events  chan protocol.Event
	made    chan string // directories that the daemon made
	stop    func() error
	altered string   // what verify should find
	never   []string // what must not be in the log
}

func newHive(t *testing.T, ids ...protocol.AgentID) *hive {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("acting as other users takes root")
	}
	h := &hive{
		t: t, dir: filepath.Join(t.TempDir(), "hive"), set: protocol.DefaultSettings(), who: map[protocol.AgentID]users.ID{protocol.Human: {}}, all: users.Group{Name: "hived-test", GID: 90001},
		events: make(chan protocol.Event, 4096), made: make(chan string, 256),
	}
	h.set.Settle, h.set.Rescan, h.set.Git.CommitDelay = 20*time.Millisecond, 20*time.Millisecond, time.Millisecond
	for dir := filepath.Dir(h.dir); dir != filepath.Clean(os.TempDir()) && dir != "/"; dir = filepath.Dir(dir) {
		h.must(os.Chmod(dir, 0o755))
	}
	h.must(os.Mkdir(h.dir, 0o755))
	if err := users.Reach(h.dir); err != nil {
		t.Skipf("other users cannot reach the directory for tests: %v", err)
	}
	var err error
	h.disk, err = durable.Open(h.dir)
	h.must(err)
	t.Cleanup(func() { h.must(h.disk.Close()) })
	for i, id := range ids {
		h.who[id] = users.ID{UID: uint32(70001 + i), GID: uint32(80001 + i)}
		h.must(h.disk.MkdirAll(protocol.OutboxDir(id), 0o755))
	}
	h.must(makehive.Init(h.disk, makehive.Options{Settings: h.set, Template: makehive.Template(), Version: "test", Now: time.Now().UTC()}))
	_, err = users.SetUp(h.disk, h.all, h.who)
	h.must(err)
	return h
}

func (h *hive) account(id protocol.AgentID) (users.ID, error) {
	if who, ok := h.who[id]; ok {
		return who, nil
	}
	return users.ID{}, users.ErrNoUser
}

// find does what [users.FindGroup] does, for a group that is a number.
func (h *hive) find(name string) (users.Group, error) {
	if name != h.all.Name {
		return users.Group{}, users.ErrNoGroup
	}
	return h.all, nil
}

// table returns the rights that all paths should have.
func (h *hive) table() []users.Right { return users.Rights(users.ID{}, int64(h.all.GID), h.who) }

// up starts the daemon.
func (h *hive) up() {
	h.t.Helper()
	mkdir := users.Maker(h.disk, h.find, h.account, func(id protocol.AgentID, err error) {
		if id != "carol" || !errors.Is(err, users.ErrNoUser) {
			h.t.Errorf("keep the rights of %s: %v", id, err)
		}
	})
	r, err := router.New(h.disk, router.Config{
		Settings: h.set, OnEvent: func(ev protocol.Event) { h.events <- ev },
		Mkdir: func(id protocol.AgentID, dir string) error {
			err := mkdir(id, dir)
			if err == nil {
				h.made <- dir
			}
			return err
		},
	})
	h.must(err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	h.stop = func() error {
		h.stop = func() error { return nil }
		cancel()
		return wait.Ended(wait.Longest, "the daemon to stop", done)
	}
	h.t.Cleanup(func() { h.must(h.stop()) })
}

func (h *hive) must(err error) {
	h.t.Helper()
	testenv.Must(h.t, err)
}

func (h *hive) path(p string) string { return filepath.Join(h.dir, filepath.FromSlash(p)) }

func (h *hive) equal(what string, got, want any) {
	h.t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		h.t.Errorf("%s: -want +got:\n%s", what, diff)
	}
}

// await takes events until one fits, and returns its body.
func await[T protocol.Body](h *hive, fits func(T) bool) T {
	h.t.Helper()
	for {
		ev := wait.Receive(h.t, fmt.Sprintf("an event of %T", *new(T)), h.events)
		if body, ok := ev.Body.(T); ok && fits(body) {
			return body
		}
	}
}

// remade waits until the daemon has made a directory, and compares it and those of
// its agent with the table.
func (h *hive) remade(dir string) {
	h.t.Helper()
	for wait.Receive(h.t, dir+" to be made again", h.made) != dir {
	}
	id := protocol.AgentID(strings.Split(dir, "/")[1])
	if list := users.Differences(h.disk, users.RightsOf(id, users.ID{}, h.who[id])); len(list) > 0 {
		h.t.Errorf("after %s was made again: %+v", dir, list)
	}
}

// try runs a script as the user of an agent.
func (h *hive) try(id protocol.AgentID, script string) (said string, err error) {
	c := exec.Command("/bin/sh", "-c", script)
	c.Dir = h.path(protocol.AgentDir(id))
	c.Env = append([]string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "HIVE_DIR=" + h.dir, "HIVE_AGENT=" + string(id), "DAEMON=" + strconv.Itoa(os.Getpid())}, h.env...)
	c.SysProcAttr = asUser(h.who[id], h.all.GID)
	if id == nobody {
		c.Dir, c.SysProcAttr = h.dir, asUser(users.ID{UID: 65534, GID: 65534})
	}
	out, err := c.CombinedOutput()
	return string(out), err
}

// nobody is a user who is no agent.
const nobody protocol.AgentID = "nobody"

func asUser(who users.ID, groups ...uint32) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: who.UID, Gid: who.GID, Groups: groups}}
}

// as does what try does, and fails the test if the script fails.
func (h *hive) as(id protocol.AgentID, script string) {
	h.t.Helper()
	if said, err := h.try(id, script); err != nil {
		h.t.Fatalf("as %s: %s: %v: %s", id, script, err, said)
	}
}

// refused reports whether the system refused something for lack of rights, and not
// because a file or a program is missing.
func refused(said string, err error) bool {
	return err != nil && (strings.Contains(said, "Permission denied") || strings.Contains(said, "Operation not permitted"))
}

// aTask has bob do a task that gets all the files that one can have, and returns
// its id.
func (h *hive) aTask() protocol.TaskID {
	h.t.Helper()
	say := func(by protocol.AgentID, event task.Event, rest string) (seq protocol.Seq, id protocol.TaskID) {
		box := h.path(protocol.OutboxDir(by))
		h.must(os.WriteFile(box+"/t.tmp", []byte(`{"to":"hive","event":"`+string(event)+`"`+rest+`}`), 0o600))
		h.must(os.Chown(box+"/t.tmp", int(h.who[by].UID), int(h.who[by].GID)))
		h.must(os.Rename(box+"/t.tmp", box+"/"+string(event)+".json"))
		for {
			ev := wait.Receive(h.t, string(event), h.events)
			if e, ok := ev.Body.(*protocol.TaskEvent); ok && e.Event == event {
				return ev.Seq, e.Task
			}
		}
	}
	_, id := say("human", task.Create, `,"data":{"title":"work","body":"for the agents alone","to":["bob"]}`)
	about := `,"task":"` + string(id) + `"`
	say("bob", task.Claim, about)
	say("bob", task.Start, about+`,"epoch":1`)
	ask, _ := say("bob", task.PauseForApproval, about+`,"epoch":1,"data":{"question":"may I?","checkpoint":{"left":1}}`)
	say("human", task.ApprovalGranted, about+`,"data":{"ask":`+ask.String()+`}`)
	say("bob", task.Complete, about+`,"epoch":1,"data":{"result":{"for":"the agents alone"}}`)
	h.must(h.stop())
	h.up()
	return id
}

// TestAgentTries is the proof of docs/security.md: it tries each attempt as the
// process of an agent.
func TestAgentTries(t *testing.T) {
	t.Parallel()
	h := newHive(t, "alice", "bob")
	h.up()
	h.as("bob", `echo mine >memory.md; echo '{"to":"alice","id":"b-1","body":"for alice alone"}' >outbox/1.json; echo '{"to":"alice","id":"b-2","body":"another"}' >outbox/2.json`)
	message(h, "b-2")
	h.must(os.WriteFile(h.path("agents/human/outbox/1.json"), []byte(`{"to":"bob","id":"h-1","body":"for bob alone"}`), 0o600))
	unread := message(h, "h-1").File
	h.env = []string{"UNREAD=" + unread, "SENT=1.json", "TASK=" + string(h.aTask())}
	h.must(os.MkdirAll(h.path("agents/carol/outbox"), 0o755)) // root adds an agent without a user
	await(h, func(a *protocol.AgentEvent) bool { return a.Agent == "carol" && a.Action == protocol.Joined })

	for _, p := range attempts {
		who := p.as
		if who == "" {
			who = "alice"
		}
		for _, a := range p.list {
			if a.down {
				h.must(h.stop())
			}
			said, err := h.try(who, a.sh)
			if a.down {
				h.up()
			}
			switch {
			case a.comes == "" && !refused(said, err):
				t.Errorf("%s: %s: not refused: %v: %s", a.what, a.sh, err, said)
			case a.comes != "" && err != nil && (!a.refused || !refused(said, err)):
				t.Errorf("%s: %s: %v: %s", a.what, a.sh, err, said)
			case a.then != nil:
				a.then(h)
			}
		}
	}
	h.must(h.stop())
	h.untouched(unread)
}

// untouched checks that nothing that the log has is missing or altered, except what
// alice did to her own archive.
func (h *hive) untouched(unread string) {
	h.t.Helper()
	for rec, err := range eventlog.Read(h.disk, eventlog.Position{}) {
		h.must(err)
		switch e := rec.Event.Body.(type) {
		case *protocol.FileEvent:
			if slices.Contains(h.never, e.Path) {
				h.t.Errorf("event %s holds a version of %s", rec.Event.Seq, e.Path)
			}
		case *protocol.AgentEvent:
			if e.Action == protocol.LeadSet || e.Agent == "eve" {
				h.t.Errorf("event %s: %+v", rec.Event.Seq, e)
			}
		}
	}
	if _, err := os.Stat(h.path("agents/bob/inbox/" + unread)); err != nil {
		h.t.Errorf("bob's message: %v", err)
	}
	report, err := audit.Verify(h.t.Context(), h.disk, audit.Options{Settings: h.set})
	h.must(err)
	for _, f := range report.Findings {
		if f.Where != h.altered {
			h.t.Errorf("verify: %s", f)
		}
	}
}

// TestAgentOpensItsBox checks that a second agent gains nothing if the first opens
// its files: the directories above are not the agent's to open.
func TestAgentOpensItsBox(t *testing.T) {
	t.Parallel()
	h := newHive(t, "alice", "bob")
	h.as("alice", `echo x >note.md; chmod 777 outbox note.md`)
	for _, script := range []string{`cat ../alice/note.md`, `echo x >../alice/outbox/x.json`, `ls ../alice/outbox`} {
		if said, err := h.try("bob", script); !refused(said, err) {
			t.Errorf("%s: not refused: %v: %s", script, err, said)
		}
	}
}

// TestRunningKeepsTheRights checks that what hived writes while it runs, over a
// start and a sealed segment, has the rights in the table.
func TestRunningKeepsTheRights(t *testing.T) {
	t.Parallel()
	h := newHive(t, "alice", "bob")
	h.set.Log.SegmentBytes = 4096
	for range 2 {
		h.up()
		h.as("alice", `echo '{"to":"bob","requires_reply":true,"body":"`+strings.Repeat("x", 5000)+`"}' >outbox/1.json`)
		await(h, func(e *protocol.HiveEvent) bool { return e.Action == protocol.Sealed })
		h.must(h.stop())
	}
	if list := users.Differences(h.disk, h.table()); len(list) > 0 {
		t.Errorf("%+v", list)
	}
	if n, err := h.disk.ReadDir("log"); err != nil || len(n) < 2 {
		t.Errorf("%d segments, %v", len(n), err)
	}
}
