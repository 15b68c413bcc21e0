package gitcommit

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/durable/faultfs"
	"github.com/hived/hived/internal/testenv"
)

func TestLeftoversOfGitAreSwept(t *testing.T) {
	h := newHive(t)
	owner := ownerGone
	now := time.Now()
	h.opt.Now = func() time.Time { return now }
	reopen := func() {
		h.open()
		h.repo.owner = func(durable.Info) liveness { return owner }
	}
	reopen()
	h.commit(put("board.md", "x"))
	names := []string{
		".git/objects/ab/tmp_obj_x1", ".git/objects/pack/tmp_pack_x2", ".git/objects/pack/tmp_idx_x3",
		".git/objects/pack/.tmp-77-pack-0011.pack",
	}
	tests := []struct {
		name  string
		age   time.Duration
		owner liveness
		stays bool
	}{
		{"young", 50 * time.Minute, ownerGone, true},
		{"a live git", 70 * time.Hour, ownerAlive, true},
		{"nobody knows", 2 * time.Hour, ownerUnknown, true},
		{"nobody knows, and old", 25 * time.Hour, ownerUnknown, false},
		{"left over", 61 * time.Minute, ownerGone, false},
	}
	for _, tt := range tests {
		for _, n := range names {
			h.makeLock(n, tt.age)
		}
		owner = tt.owner
		if h.consolidate(); !h.exists(names[0]) {
			t.Errorf("%s: it was looked for again at once", tt.name)
		}
		now = now.Add(sweepEvery)
		for _, n := range names {
			h.makeLock(n, tt.age-sweepEvery) // their age is as it was
		}
		h.consolidate()
		for _, n := range names {
			if h.exists(n) != tt.stays {
				t.Errorf("%s: %s is there: %t", tt.name, n, h.exists(n))
			}
		}
	}
	h.makeLock(".git/objects/pack/keep-me", 100*time.Hour)
	h.makeLock(names[1], 100*time.Hour)
	reopen()
	if h.exists(names[1]) || !h.exists(".git/objects/pack/keep-me") || h.packs() != 1 {
		t.Error("opening removed the wrong files")
	}
}

const reflogMain = ".git/logs/refs/heads/main"

func TestReflogsStayShort(t *testing.T) {
	h := gitHive(t)
	h.commit(put("board.md", "1"))
	h.syncIndex()
	h.git("commit", "-q", "--allow-empty", "-m", "by a person")
	h.commit(put("board.md", "2"))
	lines := strings.SplitAfter(h.read(reflogMain), "\n")
	long := lines[0] + lines[1] + strings.Repeat(lines[2], 4*reflogKeeps)
	for _, name := range []string{reflogMain, ".git/logs/HEAD"} {
		h.write(name, long)
	}
	h.makeLock(".git/HEAD.lock", 0)
	h.commit(put("board.md", "3"))
	if got := strings.Count(h.read(".git/logs/HEAD"), "\n"); got != 4*reflogKeeps+3 {
		t.Errorf("under somebody's lock HEAD's reflog has %d entries", got)
	}
	testenv.Must(t, h.disk.Remove(".git/HEAD.lock"))
	h.commit(put("board.md", "4"))
	for _, name := range []string{reflogMain, ".git/logs/HEAD"} {
		text := h.read(name)
		if got := strings.Count(text, "\n"); got < reflogKeeps+1 || got > reflogKeeps+2 {
			t.Errorf("%s has %d entries", name, got)
		}
		if !strings.Contains(text, "by a person") {
			t.Errorf("%s: a person's entry is gone", name)
		}
		if h.exists(mainLock) || h.exists(".git/HEAD.lock") {
			t.Error("a lock is left")
		}
	}
	if out := h.git("log", "-g", "-3", "--format=%gs", "main"); !strings.Contains(out, "event 4") {
		t.Errorf("git reads the reflog as %q", out)
	}
	h.wantFsckSilent()
	if len(h.alerts) != 0 {
		t.Errorf("alerts: %q", h.alerts)
	}
}

func TestShortReflog(t *testing.T) {
	id := func(n int) string { return fmt.Sprintf("%040d", n) }
	entry := func(a, b int, by string) string { return id(a) + " " + id(b) + " " + by + " 0 +0000\tcommit: x\n" }
	const person = "P <p@example.org>"
	log := entry(0, 1, identity) + entry(1, 2, person) + entry(2, 3, identity) + entry(3, 4, identity) + "torn\n" + entry(4, 5, identity)
	want := entry(1, 2, person) + entry(2, 4, identity) + "torn\n" + entry(4, 5, identity)
	if got := string(shortReflog([]byte(log), 2)); got != want {
		t.Errorf("it is now\n%s", got)
	}
	if got := string(shortReflog([]byte(log), 10)); got != log {
		t.Errorf("a short one became\n%s", got)
	}
}

// A crash while a reflog is shortened leaves the old or the new one, and no lock.
func TestCrashWhileReflogIsShortened(t *testing.T) {
	events := story()[:2]
	begin := func() *faultfs.Mem {
		m := newDisk(t)
		if _, err := commitStory(t.Context(), m, events[:1], 0); err != nil {
			t.Fatal(err)
		}
		line := strings.Repeat("0", 40) + " " + strings.Repeat("1", 40) + " " + identity + " 0 +0000\tcommit: " + strings.Repeat("x", 400) + "\n"
		for _, name := range []string{reflogMain, ".git/logs/HEAD"} {
			f, err := m.Append(name)
			testenv.Must(t, err)
			if _, err := f.Write([]byte(strings.Repeat(line, 2*reflogKeeps))); err != nil {
				t.Fatal(err)
			}
			testenv.Must(t, f.Close())
		}
		testenv.Must(t, m.SyncAll())
		return m
	}
	m := begin()
	before := m.Ops()
	if _, err := commitStory(t.Context(), m, events, 0); err != nil {
		t.Fatal(err)
	}
	ops := m.Ops() - before
	if info, err := m.Lstat(reflogMain); err != nil || info.Size > longReflog {
		t.Fatalf("the reflog was not shortened: %d bytes, %v", info.Size, err)
	}
	for n := 1; n <= ops; n++ {
		for _, how := range []faultfs.Loss{faultfs.Keep, faultfs.Drop} {
			crashInReflog(t, begin(), events, n, how)
		}
	}
}

func crashInReflog(t *testing.T, m *faultfs.Mem, events []Event, n int, how faultfs.Loss) {
	t.Helper()
	m.CrashAt(n, how)
	if _, err := commitStory(t.Context(), m, events, 0); err != nil && !errors.Is(err, faultfs.ErrCrashed) {
		t.Fatalf("crash at %d: %v", n, err)
	}
	m = m.Reboot()
	if _, err := commitStory(t.Context(), m, events, 0); err != nil {
		t.Fatalf("after a crash at %d: %v", n, err)
	}
	checkStory(t, m, events)
	for _, name := range []string{reflogMain, ".git/logs/HEAD"} {
		if data, err := readSmall(m, name, mostReflog); err != nil || len(data) < 100_000 {
			t.Fatalf("after a crash at %d: %s has %d bytes, %v", n, name, len(data), err)
		}
	}
	for _, lock := range []string{mainLock, ".git/HEAD.lock"} {
		if _, err := m.Lstat(lock); err == nil {
			t.Fatalf("after a crash at %d: %s is left", n, lock)
		}
	}
}
