package gitcommit

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/protocol"
)

// wantFsckSilent fails the test if git fsck prints anything.
func (h *hive) wantFsckSilent() {
	h.t.Helper()
	if out := h.git("fsck", "--strict"); out != "" {
		h.t.Errorf("git fsck --strict says:\n%s", out)
	}
}

// leaveInterrupted leaves the files that a kill between a pack and the move of the
// branch leaves.
func (h *hive) leaveInterrupted(changes ...change) protocol.Blob {
	h.t.Helper()
	before := h.git("rev-parse", "main")
	reflogs := map[string]string{".git/logs/HEAD": "", ".git/logs/refs/heads/main": ""}
	for name := range reflogs {
		reflogs[name] = h.read(name)
	}
	res := h.commit(changes...)
	h.write(".git/refs/heads/main", before+"\n")
	for name, text := range reflogs {
		h.write(name, text)
	}
	return res.Commit
}

func TestInterruptedCommitIsFinished(t *testing.T) {
	h := gitHive(t)
	h.commit(put("board.md", "one\n"))
	id := h.leaveInterrupted(put("board.md", "two\n"), put("agents/a/inbox/1.json", "{}"))
	if out := h.git("fsck", "--strict"); !strings.Contains(out, "dangling commit "+id.String()) {
		t.Fatalf("git fsck says %q", out)
	}
	h.open()
	if head, err := h.repo.Head(); err != nil || head.Commit != id || head.Seq != 2 {
		t.Errorf("history ends at %+v, %v", head, err)
	}
	h.commit(put("board.md", "three\n"))
	h.wantFsckSilent()
	h.wantCleanStatus()
	h.wantIntact()
}

func TestInterruptedFirstCommitIsFinished(t *testing.T) {
	h := gitHive(t)
	id := h.commit(put("board.md", "one\n")).Commit
	for _, name := range []string{"refs/heads/main", "logs/refs/heads/main", "logs/HEAD"} {
		testenv.Must(t, os.Remove(filepath.Join(h.dir, ".git", name)))
	}
	h.open()
	if head, err := h.repo.Head(); err != nil || head.Commit != id {
		t.Errorf("history ends at %+v, %v", head, err)
	}
	h.wantFsckSilent()
}

func TestCommitTakenOutByAPersonIsNotFinished(t *testing.T) {
	h := gitHive(t)
	h.commit(put("board.md", "one\n"))
	h.commit(put("board.md", "two\n"))
	h.git("reset", "-q", "HEAD~1")
	h.open()
	if head, err := h.repo.Head(); err != nil || head.Seq != 1 {
		t.Errorf("history ends at %+v, %v", head, err)
	}
}

func TestDamagedLeftoverIsNotFinished(t *testing.T) {
	h := gitHive(t)
	h.commit(put("board.md", "one\n"))
	id := h.leaveInterrupted(put("board.md", strings.Repeat("two\n", 100)))
	pack := h.packOf(id)
	data, err := os.ReadFile(pack)
	testenv.Must(t, err)
	data[packHeader+8] ^= 0x55 // in the blob, which comes first
	testenv.Must(t, os.Chmod(pack, 0o644))
	testenv.Must(t, os.WriteFile(pack, data, 0o444))
	h.open()
	if head, err := h.repo.Head(); err != nil || head.Seq != 1 {
		t.Errorf("history ends at %+v, %v", head, err)
	}
}

// packOf returns the file of the pack that holds an object.
func (h *hive) packOf(id protocol.Blob) string {
	h.t.Helper()
	packs, err := newestPacks(h.disk)
	testenv.Must(h.t, err)
	for _, p := range packs {
		if x, err := readIdx(h.disk, packStem(p)); err == nil && x.has(id) {
			return filepath.Join(h.dir, packStem(p)+".pack")
		}
	}
	h.t.Fatalf("no pack holds %s", id)
	return ""
}

func (h *hive) losePack(id protocol.Blob) {
	h.t.Helper()
	pack := h.packOf(id)
	for _, name := range []string{pack, strings.TrimSuffix(pack, "pack") + "idx"} {
		testenv.Must(h.t, os.Remove(name))
	}
}

func TestVanishedPackIsWrittenAgain(t *testing.T) {
	needGit(t)
	tests := map[string]func(h *hive){
		"by the next commit": func(h *hive) { h.commit(put("board.md", "three\n")) },
		"by SyncIndex":       func(h *hive) { h.syncIndex() },
	}
	for name, next := range tests {
		t.Run(name, func(t *testing.T) {
			h := newHive(t)
			h.commit(put("board.md", "one\n"))
			id := h.commit(put("board.md", "two\n"), put("agents/a/inbox/1.json", "{}")).Commit
			h.commit(put("tasks/t/task.json", "{}"))
			h.syncIndex()
			h.losePack(id)
			next(h)
			h.wantFsckSilent()
			h.wantCleanStatus()
			h.wantIntact()
		})
	}
}

func TestVanishedPackThatIsForgottenIsDamage(t *testing.T) {
	h := newHive(t)
	id := h.commit(put("board.md", "one\n")).Commit
	h.repo.recent.forget(0)
	h.losePack(id)
	if _, err := h.repo.SyncIndex(t.Context()); !errors.Is(err, ErrDamaged) {
		t.Errorf("the index: %v", err)
	}
	if _, err := h.repo.Commit(t.Context(), h.batch(put("board.md", "two\n"))); !errors.Is(err, ErrDamaged) {
		t.Errorf("the next commit: %v", err)
	}
}

func TestRepackedPackIsNotWrittenAgain(t *testing.T) {
	needGit(t)
	tests := map[string][]string{
		"packed":   {"repack", "-adq"},
		"loosened": nil,
	}
	for name, args := range tests {
		t.Run(name, func(t *testing.T) {
			h := newHive(t)
			id := h.commit(put("board.md", "one\n")).Commit
			if args != nil {
				h.git(args...)
			} else {
				data, err := os.ReadFile(h.packOf(id))
				testenv.Must(t, err)
				h.losePack(id)
				if out, err := h.gitWith(string(data), "unpack-objects", "-q"); err != nil {
					t.Fatal(out)
				}
			}
			before := h.packs()
			h.repo.recent.forget(0)
			h.syncIndex()
			if h.packs() != before || len(h.repo.recent.packs) != 0 {
				t.Errorf("%d packs, %d remembered", h.packs(), len(h.repo.recent.packs))
			}
			h.wantFsckSilent()
		})
	}
}

func TestRecentIsBounded(t *testing.T) {
	var c recent
	now := time.Unix(1_800_000_000, 0)
	for range recentPacks + 10 {
		c.add(now, "p", []object{{data: make([]byte, recentBytes/100)}})
	}
	if len(c.packs) != recentPacks || c.bytes > recentBytes || c.packs[0].ids == nil || c.packs[recentPacks-1].ids != nil {
		t.Errorf("%d packs, %d bytes", len(c.packs), c.bytes)
	}
	c.add(now.Add(recentFor+time.Second), "p", nil)
	if len(c.packs) != 1 || c.bytes != 0 {
		t.Errorf("later %d packs, %d bytes", len(c.packs), c.bytes)
	}
}

func TestMissingBranchIsRestored(t *testing.T) {
	needGit(t)
	tests := map[string]func(h *hive){
		"deleted":           func(h *hive) { h.git("update-ref", "-d", "refs/heads/main") },
		"its file removed":  func(h *hive) { os.Remove(filepath.Join(h.dir, ".git/refs/heads/main")) },
		"renamed":           func(h *hive) { h.git("branch", "-m", "main", "trunk") },
		"deleted elsewhere": func(h *hive) { h.git("checkout", "-q", "--detach"); h.git("branch", "-qD", "main") },
	}
	for name, person := range tests {
		for _, restart := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				h := newHive(t)
				h.commit(put("board.md", "one\n"))
				id := h.commit(put("board.md", "two\n")).Commit
				h.syncIndex()
				person(h)
				if restart {
					h.open()
				}
				h.commit(put("board.md", "three\n"))
				if !h.alerted("git-branch-restored") {
					t.Error("no alert")
				}
				h.wantOutput(id.String(), "rev-parse", "main~1")
				h.git("symbolic-ref", "HEAD", "refs/heads/main")
				h.wantFsckSilent()
				h.wantCleanStatus()
			})
		}
	}
}

func TestMissingBranchWithoutItsCommitsIsDamage(t *testing.T) {
	h := newHive(t)
	id := h.commit(put("board.md", "one\n")).Commit
	os.Remove(filepath.Join(h.dir, ".git/refs/heads/main"))
	h.repo.recent = recent{}
	h.losePack(id)
	if _, err := h.repo.Commit(t.Context(), h.batch(put("board.md", "two\n"))); !errors.Is(err, ErrDamaged) {
		t.Errorf("commit: %v", err)
	}
	if _, err := Open(h.disk, h.opt); !errors.Is(err, ErrDamaged) {
		t.Errorf("open: %v", err)
	}
}

func TestStaleLocksOfOthersGo(t *testing.T) {
	for _, name := range []string{".git/HEAD.lock", ".git/packed-refs.lock"} {
		t.Run(name, func(t *testing.T) {
			h := newHive(t)
			h.repo.owner = func(durable.Info) liveness { return ownerGone }
			h.makeLock(name, time.Second)
			h.syncIndex()
			if !h.exists(name) {
				t.Fatal("a young lock was removed")
			}
			h.makeLock(name, time.Minute)
			h.repo.owner = func(durable.Info) liveness { return ownerAlive }
			h.syncIndex()
			if !h.exists(name) {
				t.Fatal("a live lock was removed")
			}
			h.repo.owner = func(durable.Info) liveness { return ownerGone }
			h.syncIndex()
			if h.exists(name) || !h.alerted("git-stale-lock") {
				t.Error("a stale lock stayed, or there was no alert")
			}
		})
	}
}
