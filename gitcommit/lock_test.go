package gitcommit

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/testenv"
)

// makeLock makes one of git's locks, of a given age.
func (h *hive) makeLock(name string, age time.Duration) string {
	h.t.Helper()
	h.write(name, "")
	full := filepath.Join(h.dir, name)
	then := time.Now().Add(-age)
	testenv.Must(h.t, os.Chtimes(full, then, then))
	return full
}

func (h *hive) exists(name string) bool {
	_, err := os.Lstat(filepath.Join(h.dir, name))
	return err == nil
}

const mainLock = ".git/refs/heads/main.lock"

func TestRefLock(t *testing.T) {
	tests := []struct {
		name  string
		age   time.Duration
		owner liveness
		want  error
	}{
		{"young", time.Second, ownerGone, ErrLocked},
		{"old, its process gone", time.Minute, ownerGone, nil},
		{"old, its process alive", time.Hour, ownerAlive, ErrLocked},
		{"old, who knows", 5 * time.Minute, ownerUnknown, ErrLocked},
		{"very old, who knows", 11 * time.Minute, ownerUnknown, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := newHive(t)
			h.commit(put("board.md", "one\n"))
			h.makeLock(mainLock, tt.age)
			now := time.Now()
			b := h.batch(put("board.md", "two\n"))
			h.repo.opt.Now = func() time.Time { return now }
			h.repo.owner = func(durable.Info) liveness { return tt.owner }
			packs := h.packs()
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				_, err := h.repo.Commit(t.Context(), b)
				if !errors.Is(err, tt.want) {
					t.Fatalf("got %v, want %v", err, tt.want)
				}
				if took := time.Since(start); tt.want != nil && took != 750*time.Millisecond {
					t.Errorf("waited %v", took)
				}
			})
			if tt.want == nil {
				if !h.alerted("git-stale-lock") {
					t.Error("no alert")
				}
				return
			}
			if h.packs() != packs {
				t.Error("objects of the batch stayed")
			}
			if !h.exists(mainLock) {
				t.Fatal("the lock was removed")
			}
			os.Remove(filepath.Join(h.dir, mainLock))
			if _, err := h.repo.Commit(t.Context(), b); err != nil {
				t.Errorf("given again: %v", err)
			}
			h.check()
		})
	}
}

// TestLockOfSomebodyElseMeanwhile: while hived finds out that the owner of a lock
// is gone, another process may remove the lock and take it. Its lock stays.
func TestLockOfSomebodyElseMeanwhile(t *testing.T) {
	h := newHive(t)
	h.commit(put("board.md", "one\n"))
	h.makeLock(mainLock, time.Hour)
	b := h.batch(put("board.md", "two\n"))
	now := time.Now()
	h.repo.opt.Now = func() time.Time { return now }
	h.repo.owner = func(durable.Info) liveness {
		if err := os.Remove(filepath.Join(h.dir, mainLock)); err != nil {
			t.Error(err)
		}
		h.write(mainLock, "somebody's")
		return ownerGone
	}
	synctest.Test(t, func(t *testing.T) {
		if _, err := h.repo.Commit(t.Context(), b); !errors.Is(err, ErrLocked) {
			t.Errorf("got %v", err)
		}
	})
	if got, err := os.ReadFile(filepath.Join(h.dir, mainLock)); string(got) != "somebody's" || h.alerted("git-stale-lock") {
		t.Errorf("the other's lock holds %q, %v", got, err)
	}
}

func (h *hive) packs() int {
	found, _ := filepath.Glob(filepath.Join(h.dir, ".git/objects/pack/*.pack"))
	return len(found)
}

func TestWaitForLockEndsWithTheContext(t *testing.T) {
	h := newHive(t)
	h.makeLock(mainLock, 0)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := h.repo.Commit(ctx, h.batch(put("board.md", "x"))); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestIndexLockDelaysOnlyTheIndex(t *testing.T) {
	h := gitHive(t)
	h.makeLock(".git/index.lock", time.Second)
	h.makeLock(".git/HEAD.lock", time.Second)
	h.commit(put("board.md", "one\n"))
	if _, err := h.repo.SyncIndex(t.Context()); !errors.Is(err, ErrLocked) {
		t.Errorf("got %v", err)
	}
	if h.repo.State().IndexLocked.IsZero() {
		t.Error("state does not tell")
	}
	h.repo.owner = func(durable.Info) liveness { return ownerGone }
	h.makeLock(".git/index.lock", time.Minute)
	h.syncIndex()
	if !h.alerted("git-stale-lock") {
		t.Error("no alert")
	}
	os.Remove(filepath.Join(h.dir, ".git/HEAD.lock"))
	h.wantCleanStatus()
}

func TestOwnLocksGoAtOpen(t *testing.T) {
	h := newHive(t)
	h.commit(put("board.md", "one\n"))
	testenv.Must(t, writeTmp(h.disk, tmpRef, []byte("x"), durable.Unsynced))
	testenv.Must(t, h.disk.Link(tmpRef, mainLock))
	h.makeLock(".git/index.lock", 0) // git's
	h.write(".git/"+tmpPrefix+"commit_pack", "half")
	h.makeLock(".git/objects/pack/tmp_pack_git", 0) // git's too
	h.open()
	for name, want := range map[string]bool{
		mainLock: false, tmpRef: false, ".git/index.lock": true,
		".git/" + tmpPrefix + "commit_pack": false, ".git/objects/pack/tmp_pack_git": true,
	} {
		if h.exists(name) != want {
			t.Errorf("%s: there is %v", name, !want)
		}
	}
	h.commit(put("board.md", "two\n"))
}

func TestOwnerOfALock(t *testing.T) {
	h := gitHive(t)
	h.makeLock(mainLock, 0)
	info, err := h.disk.Lstat(mainLock)
	testenv.Must(t, err)
	if got := h.repo.ownerOf(info); got == ownerAlive {
		t.Fatal("nobody holds it")
	} else if got == ownerUnknown {
		t.Skip("this platform does not tell who holds a lock")
	}
	elsewhere := t.TempDir()
	for name, tt := range map[string]struct {
		dir  string
		args []string
		want liveness
	}{
		"in the hive": {h.dir, nil, ownerAlive},
		"by option":   {elsewhere, []string{"--git-dir=" + filepath.Join(h.dir, ".git")}, ownerAlive},
		"elsewhere":   {elsewhere, nil, ownerGone},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command("git", append(tt.args, "hash-object", "--stdin")...)
			cmd.Dir = tt.dir
			cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "GIT_CONFIG_NOSYSTEM=1", "LC_ALL=C", "HOME=" + elsewhere}
			in, err := cmd.StdinPipe()
			testenv.Must(t, err)
			testenv.Must(t, cmd.Start())
			got := h.repo.ownerOf(info)
			in.Close()
			testenv.Must(t, cmd.Wait())
			if got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

// placing is a disk that reports when the new index is renamed into place.
type placing struct {
	durable.FS
	index func()
}

func (d *placing) Rename(from, to string) error {
	if to == indexFile {
		d.index()
	}
	return d.FS.Rename(from, to)
}

// The lock of this process does not count as somebody else's.
func TestOwnLockIsNobodyElses(t *testing.T) {
	h := newHive(t)
	placed := 0
	h.repo.disk = &placing{h.repo.disk, func() {
		placed++
		if _, err := h.disk.Lstat(indexFile + lockExt); err != nil {
			t.Errorf("the index is not locked: %v", err)
		}
		if at := h.repo.State().IndexLocked; !at.IsZero() {
			t.Errorf("somebody else is said to lock the index since %v", at)
		}
	}}
	h.commit(put("board.md", "one\n"))
	h.syncIndex()
	if placed == 0 {
		t.Error("the index was not placed")
	}
}
