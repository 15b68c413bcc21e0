package router

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hived/hived/eventlog"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/internal/wait"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/view"
)

// hive is a real hive in a temporary directory, with or without a daemon.
type hive struct {
	t        *testing.T
	dir      string
	disk     *durable.Disk
	settings protocol.Settings
	stop     func() error

	mu     sync.Mutex
	events []protocol.Event
	grew   chan struct{}
}

func newHive(t *testing.T, agents ...string) *hive {
	t.Helper()
	h := &hive{t: t, dir: t.TempDir(), settings: protocol.DefaultSettings(), grew: make(chan struct{}, 1)}
	h.settings.Settle = 50 * time.Millisecond
	h.settings.Rescan = 100 * time.Millisecond
	h.settings.Git.CommitDelay = 10 * time.Millisecond
	var err error
	h.disk, err = durable.Open(h.dir)
	testenv.Must(t, err)
	t.Cleanup(func() {
		if h.stop != nil {
			if err := h.stop(); err != nil {
				t.Errorf("the daemon ended with %v", err)
			}
		}
		h.disk.Close()
	})
	for _, a := range agents {
		h.mkdir("agents/" + a + "/outbox")
	}
	h.init(false)
	return h
}

func (h *hive) init(adopt bool) {
	h.t.Helper()
	testenv.Must(h.t, MakeHive(h.disk, h.settings, adopt, nil))
}

// up starts a daemon; h.stop ends it.
func (h *hive) up() {
	h.t.Helper()
	h.upWith(h.config())
}

func (h *hive) upWith(cfg Config) {
	h.t.Helper()
	r, err := New(h.disk, cfg)
	testenv.Must(h.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	h.stop = func() error {
		h.stop = nil
		cancel()
		return wait.Ended(wait.Longest, "the daemon to stop", done, h.story)
	}
}

func (h *hive) config() Config {
	return Config{Settings: h.settings, OnEvent: func(ev protocol.Event) {
		h.mu.Lock()
		h.events = append(h.events, ev)
		h.mu.Unlock()
		select {
		case h.grew <- struct{}{}:
		default:
		}
	}}
}

// down stops the daemon and fails the test if it did not end well.
func (h *hive) down() {
	h.t.Helper()
	if err := h.stop(); err != nil {
		h.t.Fatalf("stop: %v", err)
	}
}

// once runs a daemon until nothing is left to do.
func (h *hive) once() {
	h.t.Helper()
	cfg := h.config()
	cfg.Once = true
	r, err := New(h.disk, cfg)
	testenv.Must(h.t, err)
	testenv.Must(h.t, r.Run(context.Background()))
}

// await waits for an event that fits, and returns it.
func await[T protocol.Body](h *hive, what string, fits func(protocol.Event, T) bool) T {
	h.t.Helper()
	var found T
	seen := 0
	came := func() bool {
		h.mu.Lock()
		list := h.events[seen:]
		seen = len(h.events)
		h.mu.Unlock()
		for _, ev := range list {
			if b, ok := ev.Body.(T); ok && fits(ev, b) {
				found = b
				return true
			}
		}
		return false
	}
	testenv.Must(h.t, wait.Condition(h.t.Context(), wait.Longest, h.grew, "the event "+what, came, h.story))
	return found
}

// story lists the events so far and the status, for a test that fails.
func (h *hive) story() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var b strings.Builder
	for _, ev := range h.events {
		fmt.Fprintln(&b, ev.Seq, protocol.Summary(ev))
	}
	status, err := view.ReadStatus(h.disk)
	fmt.Fprintf(&b, "status: %+v, %v\n", status, err)
	return b.String()
}

func (h *hive) must(err error) {
	h.t.Helper()
	testenv.Must(h.t, err)
}

func (h *hive) path(name string) string { return filepath.Join(h.dir, filepath.FromSlash(name)) }

func (h *hive) mkdir(name string) {
	h.t.Helper()
	testenv.Must(h.t, os.MkdirAll(h.path(name), 0o755))
}

func (h *hive) write(name, text string) {
	h.t.Helper()
	testenv.Must(h.t, os.WriteFile(h.path(name), []byte(text), 0o644))
}

func (h *hive) read(name string) string {
	h.t.Helper()
	b, err := os.ReadFile(h.path(name))
	testenv.Must(h.t, err)
	return string(b)
}

func (h *hive) rename(from, to string) {
	h.t.Helper()
	testenv.Must(h.t, os.Rename(h.path(from), h.path(to)))
}

func (h *hive) exists(name string) bool {
	_, err := os.Lstat(h.path(name))
	return err == nil
}

// list returns the names in a directory that are not hidden.
func (h *hive) list(name string) []string {
	h.t.Helper()
	entries, err := os.ReadDir(h.path(name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		h.t.Fatal(err)
	}
	out := []string{}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), ".") {
			out = append(out, e.Name())
		}
	}
	return out
}

// log reads the log as it is on the disk.
func (h *hive) log() []protocol.Event {
	h.t.Helper()
	var out []protocol.Event
	for rec, err := range eventlog.Read(h.disk, eventlog.Position{}) {
		testenv.Must(h.t, err)
		out = append(out, rec.Event)
	}
	return out
}

// git runs the git program in the hive, without the user's settings.
func (h *hive) git(args ...string) string {
	h.t.Helper()
	bin, err := exec.LookPath("git")
	if err != nil {
		h.t.Skip("git is not installed: what hived commits is not compared with what git says")
	}
	env := append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "HOME="+h.t.TempDir(), "LC_ALL=C",
		"GIT_AUTHOR_NAME=p", "GIT_AUTHOR_EMAIL=p@example.org", "GIT_COMMITTER_NAME=p", "GIT_COMMITTER_EMAIL=p@example.org")
	var out []byte
	for range 20 { // as a person would, it tries again when hived has the index or the branch locked
		cmd := exec.Command(bin, args...)
		cmd.Dir, cmd.Env = h.dir, env
		out, err = cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(out), ".lock") && !strings.Contains(string(out), "cannot lock ref") {
			break
		}
	}
	if err != nil {
		h.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// quiet checks what must be true of every hive in which nothing happens.
func (h *hive) quiet() {
	h.t.Helper()
	if out := h.git("status", "--porcelain"); out != "" {
		h.t.Errorf("git status is not clean:\n%s", out)
	}
	if out := h.git("fsck", "--strict"); out != "" {
		h.t.Errorf("git fsck:\n%s", out)
	}
}

// send writes a message the way an agent should.
func (h *hive) send(from, name, text string) {
	h.t.Helper()
	dir := "agents/" + from + "/outbox/"
	h.write(dir+"."+name+".tmp", text)
	h.rename(dir+"."+name+".tmp", dir+name+".json")
}

// delivery waits until a message with that id is in the log.
func (h *hive) delivery(id string) *protocol.MessageEvent {
	h.t.Helper()
	return await(h, "message "+id, func(_ protocol.Event, e *protocol.MessageEvent) bool { return string(e.ID) == id })
}

func TestOneMessage(t *testing.T) {
	h := newHive(t, "alice", "bob")
	h.up()
	h.send("alice", "hello", `{"id":"m1","to":"bob","subject":"hi","body":"there"}`)
	e := h.delivery("m1")
	got := h.read("agents/bob/inbox/" + e.File)
	if !strings.Contains(got, "\n  \"from\": \"alice\",\n") || !strings.Contains(got, `"body": "there"`) {
		t.Errorf("delivered:\n%s", got)
	}
	if h.exists("agents/alice/outbox/hello.json") || !h.exists("agents/alice/outbox/.sent/hello.json") {
		t.Error("the original was not archived")
	}
	h.rename("agents/bob/inbox/"+e.File, "agents/bob/inbox/.done/"+e.File)
	await(h, "handled", func(_ protocol.Event, x *protocol.HandledEvent) bool {
		return x.ID == "m1" && x.How == protocol.HowDone
	})
	h.down()
	h.quiet()
	if log := h.git("log", "--format=%B"); !strings.Contains(log, "Hive-Seq: ") || !strings.Contains(log, "alice") {
		t.Errorf("git log prints:\n%s", log)
	}
	if tree := h.git("ls-tree", "-r", "--name-only", "HEAD"); !strings.Contains(tree, "agents/bob/inbox/.done/"+e.File) || strings.Contains(tree, "agents/bob/inbox/"+e.File) {
		t.Errorf("HEAD holds:\n%s", tree)
	}
	if blob := strings.TrimSpace(h.git("hash-object", "agents/bob/inbox/.done/"+e.File)); blob != e.Blob.String() {
		t.Errorf("the event names blob %s, git says %s", e.Blob, blob)
	}
}

func TestRestartChangesNothing(t *testing.T) {
	h := newHive(t, "alice", "bob")
	h.send("alice", "1", `{"to":"bob","body":"x"}`)
	h.once()
	before := len(h.log())
	head := h.git("rev-parse", "HEAD")
	h.once()
	after := h.log()
	if n := len(after) - before; n != 2 {
		for _, ev := range after[before:] {
			t.Log(protocol.Summary(ev))
		}
		t.Errorf("a restart logged %d events, want started and stopped", n)
	}
	if diff := h.git("diff", "--stat", strings.TrimSpace(head), "HEAD"); diff != "" {
		t.Errorf("a restart changed files:\n%s", diff)
	}
	h.quiet()
}

// TestOnCommit checks that OnCommit is called for every commit, the last time when git
// holds the last event.
func TestOnCommit(t *testing.T) {
	h := newHive(t, "alice", "bob")
	var mu sync.Mutex
	var through []protocol.Seq
	cfg := h.config()
	cfg.Once = true
	cfg.OnCommit = func(seq protocol.Seq) {
		mu.Lock()
		defer mu.Unlock()
		through = append(through, seq)
	}
	h.write("agents/alice/outbox/1.json", `{"to":"bob","subject":"one"}`)
	r, err := New(h.disk, cfg)
	testenv.Must(t, err)
	testenv.Must(t, r.Run(t.Context()))
	mu.Lock()
	defer mu.Unlock()
	log := h.log()
	if last := log[len(log)-1].Seq; !slices.IsSorted(through) || len(through) == 0 || through[len(through)-1] != last {
		t.Errorf("OnCommit was called with %v; the log ends with %s", through, last)
	}
}
