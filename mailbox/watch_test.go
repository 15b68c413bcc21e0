package mailbox

import (
	"context"
	"log/slog"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/hived/hived/internal/wait"
	"github.com/hived/hived/protocol"
)

// watching returns a hive and a watcher that runs until the test ends.
func watching(t *testing.T) (*hive, *Watcher) {
	t.Helper()
	h := diskHive(t)
	w := NewWatcher(h.root, slog.New(slog.DiscardHandler))
	w.Add(alice)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := wait.Ended(wait.Longest, "the watcher to stop", done); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	h.equal("the first hint", h.hint(w), []Hint{{Overflow: true}})
	return h, w
}

func (h *hive) hint(w *Watcher) []Hint {
	h.Helper()
	return wait.Receive(h, "a hint", w.Hints())
}

// hinted waits for one hint among others.
func (h *hive) hinted(w *Watcher, want Hint) {
	h.Helper()
	for {
		if slices.Contains(h.hint(w), want) {
			return
		}
	}
}

var (
	outboxHint = Hint{Agent: alice, Part: PartOutbox}
	inboxHint  = Hint{Agent: alice, Part: PartInbox}
	ownHint    = Hint{Agent: alice, Part: PartOwn}
)

func TestHints(t *testing.T) {
	for _, tt := range []struct {
		name string
		do   func(h *hive)
		want Hint
	}{
		{"written", func(h *hive) { h.write(outDir+"x.json", message) }, outboxHint},
		{"renamed into place", func(h *hive) { h.replace(outDir+"x.json", message) }, outboxHint},
		{"handled", func(h *hive) { h.deliver("1.json"); h.ok(h.disk.Rename(inDir+"1.json", doneDir+"1.json")) }, inboxHint},
		{"deleted", func(h *hive) { h.deliver("1.json"); h.ok(h.disk.Remove(inDir + "1.json")) }, inboxHint},
		{"written over in place", func(h *hive) { h.deliver("1.json"); h.write(inDir+"1.json", "other") }, Hint{Agent: alice, Part: PartAltered}},
		{"own file", func(h *hive) { h.write(home+"memory.md", "x") }, ownHint},
		{"board", func(h *hive) { h.write("board.md", "x") }, Hint{Part: PartRoot}},
		{"new agent", func(h *hive) { h.ok(h.disk.Mkdir("agents/bob", 0o755)) }, Hint{Part: PartAgents}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h, w := watching(t)
			tt.do(h)
			h.equal("hints", h.hint(w)[0], tt.want)
		})
	}
}

func TestWhatHivedDoesMakesNoHints(t *testing.T) {
	h, w := watching(t)
	h.write(outDir+"x.json", message)
	h.hinted(w, outboxHint)
	h.ok(h.Archive(h.one(), "x.json"))
	h.deliver("1.json", "2.json")
	h.write(home+"alive", "")
	h.write("log.jsonl", "{}")
	h.write("board.md", "x") // the last: the others were seen before it
	for _, got := range h.hint(w) {
		if got != (Hint{Part: PartRoot}) && got != outboxHint { // writing x.json may hint twice
			t.Errorf("hint %+v", got)
		}
	}
}

func TestWatchFollowsWhatIsReplaced(t *testing.T) {
	again := func(h *hive, dir string) {
		h.ok(os.Rename(h.path(dir), h.path(dir+".old")))
		_, err := h.Ensure(alice)
		h.ok(err)
	}
	for name, replace := range map[string]func(h *hive){
		"outbox renamed": func(h *hive) { again(h, "agents/alice/outbox") },
		"outbox deleted": func(h *hive) {
			h.ok(os.RemoveAll(h.path("agents/alice/outbox")))
			_, err := h.Ensure(alice)
			h.ok(err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			h, w := watching(t)
			for range 3 {
				replace(h)
				h.hinted(w, outboxHint) // a hint, as something may be in it already
				w.Add(alice)
				h.drain(w)
				h.write(outDir+"x.json", message)
				h.hinted(w, outboxHint)
				h.ok(os.RemoveAll(h.path("agents/alice/outbox.old")))
				h.drain(w)
			}
		})
	}
}

func TestWatchFollowsAnAgentThatIsReplaced(t *testing.T) {
	for _, dir := range []string{"agents/alice", "agents"} {
		t.Run(dir, func(t *testing.T) {
			h, w := watching(t)
			h.ok(os.Rename(h.path(dir), h.path("old")))
			h.ok(h.disk.MkdirAll("agents", 0o755))
			_, err := h.Ensure(alice)
			h.ok(err)
			h.hinted(w, Hint{Part: PartAgents})
			w.Add(alice)
			h.drain(w)
			h.write(outDir+"x.json", message)
			h.hinted(w, outboxHint)
		})
	}
}

func TestWatchForgetsAnAgentThatIsGone(t *testing.T) {
	h, w := watching(t)
	h.ok(os.RemoveAll(h.path("agents/alice")))
	h.drain(w)
	w.mu.Lock()
	defer w.mu.Unlock()
	h.equal("directories", len(w.dirs), 2)
}

// drain takes the hints of all that happened so far: they come before the hint for
// a board that is written now.
func (h *hive) drain(w *Watcher) {
	h.Helper()
	h.write("board.md", "x")
	h.hinted(w, Hint{Part: PartRoot})
}

func TestWatchIgnoresLinks(t *testing.T) {
	h, w := watching(t)
	elsewhere := t.TempDir()
	h.ok(os.MkdirAll(h.path("agents/bob"), 0o755))
	h.ok(os.Symlink(elsewhere, h.path("agents/bob/outbox")))
	w.Add("bob")
	// Making bob is a hint for all of its directories.
	h.drain(w)
	h.ok(os.WriteFile(elsewhere+"/x.json", nil, 0o600))
	h.write("board.md", "y")
	for {
		for _, got := range h.hint(w) {
			if got == (Hint{Agent: "bob", Part: PartOutbox}) {
				t.Fatal("hint from behind a link")
			}
			if got == (Hint{Part: PartRoot}) {
				return
			}
		}
	}
}

func TestWatchOverflow(t *testing.T) {
	if _, err := os.Stat("/proc/sys/fs/inotify/max_queued_events"); err != nil {
		t.Skip("only inotify has a queue to overflow")
	}
	h, w := watching(t)
	h.write(outDir+"a", "")
	h.write(outDir+"b", "")
	w.mu.Lock() // block the receiver
	for i := range 50_000 {
		name := outDir + string(rune('a'+i%2))
		h.ok(os.Chmod(h.path(name), 0o600+os.FileMode(i%4/2)))
	}
	h.ok(os.RemoveAll(h.path("agents/alice/outbox"))) // gives no hint
	h.ok(os.MkdirAll(h.path("agents/alice/outbox"), 0o755))
	w.mu.Unlock()
	h.hinted(w, Hint{Overflow: true})
	h.write(outDir+"x.json", message)
	h.hinted(w, outboxHint)
}

func TestHintsAreCoalesced(t *testing.T) {
	w := NewWatcher(t.TempDir(), slog.New(slog.DiscardHandler))
	w.Add(alice)
	dir := w.root + "/agents/alice/outbox/"
	var s hintSet
	for range 1_000_000 {
		w.take(fsnotify.Event{Name: dir + "x.json", Op: fsnotify.Write}, &s)
	}
	w.take(fsnotify.Event{Name: w.root + "/agents/alice/memory.md", Op: fsnotify.Write}, &s)
	if len(s.hints) != 2 {
		t.Errorf("%d hints, want 2: %v", len(s.hints), s.hints)
	}
}

func TestOverflowSwallowsHints(t *testing.T) {
	s := hintSet{hints: []Hint{{Overflow: true}}}
	s.add(outboxHint)
	if len(s.hints) != 1 {
		t.Errorf("hints %v, want the overflow alone", s.hints)
	}
}

func TestDegraded(t *testing.T) {
	w := NewWatcher(t.TempDir(), slog.New(slog.DiscardHandler))
	w.Add(alice)
	if got := w.Degraded(); got != "" {
		t.Errorf("degraded at first: %s", got)
	}
	w.dirs[w.root+"/agents/alice/outbox"].err = &os.PathError{Op: "add", Err: syscall.ENOSPC}
	if got := w.Degraded(); !strings.Contains(got, "max_user_watches") || !strings.Contains(got, "1 directories") {
		t.Errorf("no watches left: %s", got)
	}
	w.give(remedy(syscall.EMFILE))
	if got := w.Degraded(); !strings.Contains(got, "max_user_instances") {
		t.Errorf("no instances left: %s", got)
	}
}

func TestAddTwice(t *testing.T) {
	h, w := watching(t)
	for range 3 {
		w.Add(alice)
	}
	w.mu.Lock()
	n := len(w.events.(*fsnotify.Watcher).WatchList())
	w.mu.Unlock()
	h.equal("watches", n, 5)

	// As if the hint of a replacement had been lost.
	dir := h.path("agents/alice/outbox")
	info, err := os.Lstat(dir)
	h.ok(err)
	w.mu.Lock()
	w.dirs[dir].info, err = os.Lstat(h.root)
	w.mu.Unlock()
	h.ok(err)
	w.Add(alice)
	w.mu.Lock()
	defer w.mu.Unlock()
	h.equal("mended", os.SameFile(w.dirs[dir].info, info), true)
}

// few is a notifier with a limited number of watches.
type few struct {
	left    int
	watches map[string]bool
}

func (f *few) Add(dir string) error {
	if f.left == 0 {
		return &os.PathError{Op: "add", Path: dir, Err: syscall.ENOSPC}
	}
	f.left--
	f.watches[dir] = true
	return nil
}

func (f *few) Remove(dir string) error {
	if f.watches[dir] {
		delete(f.watches, dir)
		f.left++
	}
	return nil
}

// scarceHive returns a hive of three agents whose watcher has that many watches,
// besides two for agents/ and the hive's own directory.
func scarceHive(t *testing.T, watches int) (*hive, *Watcher, *few) {
	t.Helper()
	h := diskHive(t)
	w := NewWatcher(h.root, slog.New(slog.DiscardHandler))
	for _, id := range []protocol.AgentID{alice, "bob", "carol"} {
		_, err := h.Ensure(id)
		h.ok(err)
		w.Add(id)
	}
	f := &few{left: watches + 2, watches: map[string]bool{}}
	w.begin(f)
	return h, w, f
}

// watchedBelow returns the directories below agents/ that are watched, by path.
func (f *few) watchedBelow(root string) []string {
	var list []string
	for dir := range f.watches {
		if name, below := strings.CutPrefix(dir, root+"/agents/"); below {
			list = append(list, name)
		}
	}
	slices.Sort(list)
	return list
}

func TestScarceWatchesGoToOutboxes(t *testing.T) {
	h, w, f := scarceHive(t, 4)
	h.equal("watched", f.watchedBelow(h.root), []string{"alice", "alice/outbox", "bob/outbox", "carol/outbox"})
	h.equal("alice is watched", w.Watched(alice), false)
	if got := w.Degraded(); !strings.Contains(got, "5 directories") || !strings.Contains(got, "max_user_watches") {
		t.Errorf("degraded: %s", got)
	}
	_, err := h.Ensure("dave")
	h.ok(err)
	w.Add("dave")
	h.equal("a new agent's outbox comes before other directories", f.watchedBelow(h.root), []string{"alice/outbox", "bob/outbox", "carol/outbox", "dave/outbox"})
}

func TestScarceWatchesGoWhereSomethingHappens(t *testing.T) {
	h, w, f := scarceHive(t, 2)
	h.equal("at first", f.watchedBelow(h.root), []string{"alice/outbox", "bob/outbox"})
	w.Add("carol")
	h.equal("nothing happened at carol", f.watchedBelow(h.root), []string{"alice/outbox", "bob/outbox"})
	w.take(fsnotify.Event{Name: h.path("agents/alice/outbox/x.json"), Op: fsnotify.Create}, &hintSet{})
	w.AddHot("carol")
	h.equal("bob had no hints", f.watchedBelow(h.root), []string{"alice/outbox", "carol/outbox"})
	w.AddHot("bob")
	h.equal("all are warm", f.watchedBelow(h.root), []string{"alice/outbox", "carol/outbox"})
	w.dirs[h.path("agents/alice/outbox")].heard = time.Now().Add(-coldAfter)
	w.AddHot("bob")
	h.equal("alice went cold", f.watchedBelow(h.root), []string{"bob/outbox", "carol/outbox"})
}

func TestWatched(t *testing.T) {
	h, w := watching(t)
	h.equal("alice", w.Watched(alice), true)
	h.equal("bob", w.Watched("bob"), false)
	w.give("polling, because of the file system")
	h.equal("alice, on a file system without notices", w.Watched(alice), false)
}
