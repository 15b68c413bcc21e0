package gitcommit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/protocol"
)

func TestIndexFormsAreReadOrMadeAgain(t *testing.T) {
	needGit(t)
	tests := []struct {
		name   string
		person func(h *hive)
		again  bool
		staged bool
	}{
		{"as it was", func(*hive) {}, false, true},
		{"version 4", func(h *hive) { h.git("update-index", "--index-version", "4") }, false, true},
		{"version 3", func(h *hive) {
			h.write("later", "x")
			h.git("add", "-N", "later")
			os.Remove(filepath.Join(h.dir, "later"))
		}, false, true},
		{"with a tree cache", func(h *hive) { h.git("write-tree"); h.git("update-index", "--force-untracked-cache") }, false, true},
		{"split", (*hive).split, false, true},
		{"split, version 4", func(h *hive) { h.git("update-index", "--index-version", "4", "--split-index") }, false, true},
		{"split and then changed", func(h *hive) {
			h.git("update-index", "--split-index")
			h.git("-c", "splitIndex.maxPercentChange=100", "add", "-f", "agents/a/inbox/extra")
			h.git("rm", "-q", "--cached", "agents/a/inbox/extra")
		}, false, true},
		{"one file", func(h *hive) { h.git("update-index", "--no-split-index") }, false, true},
		{"split by setting", func(h *hive) { h.git("-c", "core.splitIndex=true", "add", "notes") }, false, true},
		{"joined by setting", func(h *hive) { h.git("-c", "core.splitIndex=false", "status") }, false, true},
		{"without the shared index", func(h *hive) {
			h.git("update-index", "--split-index")
			os.Remove(filepath.Join(h.dir, h.shared()))
		}, true, false},
		{"with another shared index", func(h *hive) {
			h.git("update-index", "--split-index")
			h.write(h.shared(), "garbage")
		}, true, false},
		{"garbage", func(h *hive) { h.write(".git/index", "garbage") }, true, false},
		{"cut short", func(h *hive) { h.write(".git/index", h.read(".git/index")[:50]) }, true, false},
		{"empty", func(h *hive) { h.write(".git/index", "") }, true, false},
		{"missing", func(h *hive) { os.Remove(filepath.Join(h.dir, ".git/index")) }, false, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := newHive(t)
			h.commit(put("board.md", "one\n"), put("agents/a/inbox/1.json", "{}"), put("agents/a/inbox/2.json", "{}"), put("agents/a/inbox/extra", "x"))
			h.syncIndex()
			h.write("notes", "staged\n")
			h.git("add", "notes")
			tt.person(h)
			h.commit(put("agents/a/inbox/3.json", "{}"), del("agents/a/inbox/1.json"), put("agents/a/inbox/extra", "y"))
			h.syncIndex()
			h.oneFile()
			if got := h.alerted("git-index-rebuilt"); got != tt.again {
				t.Errorf("made again with an alert: %v", got)
			}
			want := "?? notes"
			if tt.staged {
				want = "A  notes"
			}
			if got := strings.ReplaceAll(h.git("status", "--porcelain", "-uall"), " D later\n", ""); got != want {
				t.Errorf("status is\n%s", got)
			}
			h.wantSound()
		})
	}
}

// The index never hides that a file differs from what was committed.
func TestIndexTellsTheTruth(t *testing.T) {
	h := gitHive(t)
	h.commit(put("agents/a/memory.md", "one\n"), put("agents/a/inbox/1.json", "{}"))
	h.write("agents/a/memory.md", "two\n") // the agent went on writing
	h.syncIndex()
	h.wantOutput(" M agents/a/memory.md", "status", "--porcelain")
	h.commit(put("agents/a/memory.md", "two\n"))
	h.wantCleanStatus()
	h.write("agents/a/inbox/1.json", "[]")
	h.wantOutput(" M agents/a/inbox/1.json", "status", "--porcelain")
}

func TestIndexRecordsStatOnlyOfOldFiles(t *testing.T) {
	h := gitHive(t)
	now := time.Unix(1_900_000_000, 0)
	h.repo.opt.Now = func() time.Time { return now }
	h.commit(put("agents/a/inbox/old", "x"), put("agents/a/inbox/young", "y"))
	young := now.Add(-10 * time.Millisecond)
	testenv.Must(t, os.Chtimes(filepath.Join(h.dir, "agents/a/inbox/young"), young, young))
	more, err := h.repo.SyncIndex(t.Context())
	if err != nil || !more {
		t.Fatalf("more is %v, %v", more, err)
	}
	if got := h.withoutStat(); got != "agents/a/inbox/young" {
		t.Errorf("without stat data: %q", got)
	}
	now = now.Add(2 * time.Second)
	if more, err = h.repo.SyncIndex(t.Context()); err != nil || more {
		t.Fatalf("more is %v, %v", more, err)
	}
	if got := h.withoutStat(); got != "" {
		t.Errorf("without stat data: %q", got)
	}
	h.wantOutput("", "diff-files")
}

func TestIndexTakesBranchesOfAPerson(t *testing.T) {
	h := gitHive(t)
	h.commit(put("board.md", "one\n"))
	h.syncIndex()
	h.write("x", "x")
	h.git("add", "x")
	h.git("commit", "-qm", "x")
	h.commit(put("board.md", "two\n"))
	h.git("stash", "-q") // with an index that is behind
	h.git("stash", "drop", "-q")
	h.write("board.md", "two\n")
	h.wantCleanStatus()
}

// entries visits the entries of the index as it is on the disk.
func (h *hive) entries(visit func(indexEntry)) {
	h.t.Helper()
	v, err := h.repo.loadIndex(protocol.Blob{})
	if err == nil {
		err = v.all(func(e indexEntry) error { visit(e); return nil })
	}
	testenv.Must(h.t, err)
	testenv.Must(h.t, v.close())
}

// withoutStat lists the entries without stat data.
func (h *hive) withoutStat() string {
	h.t.Helper()
	var out []string
	h.entries(func(e indexEntry) {
		if bytes.Equal(e[atMTime:atDev], make([]byte, 8)) {
			out = append(out, string(e.name()))
		}
	})
	return strings.Join(out, " ")
}

// TestSyncNames: the names are right at once and no file is read for them; the
// stat data comes with a later SyncIndex.
func TestSyncNames(t *testing.T) {
	h := gitHive(t)
	h.repo.opt.Now = func() time.Time { return time.Now().Add(time.Minute) } // every file is old
	h.commit(put("agents/a/inbox/1", "x"), put("agents/a/inbox/2", "y"))
	testenv.Must(t, h.repo.SyncNames(t.Context()))
	if got := h.withoutStat(); got != "agents/a/inbox/1 agents/a/inbox/2" {
		t.Errorf("without stat data: %q", got)
	}
	h.wantOutput("", "diff", "--cached", "--name-only")
	h.commit(put("agents/a/inbox/3", "z"))
	testenv.Must(t, h.repo.SyncNames(t.Context()))
	h.open() // a new daemon knows nothing of what the last one put off
	h.repo.opt.Now = func() time.Time { return time.Now().Add(time.Minute) }
	if more, err := h.repo.SyncIndex(t.Context()); err != nil || more {
		t.Fatalf("more is %v, %v", more, err)
	}
	if got := h.withoutStat(); got != "" {
		t.Errorf("without stat data: %q", got)
	}
}

// TestManyWithoutStatData: more entries than are known at once get their stat data,
// also those added in between, and one that cannot have any is not tried for ever.
func TestManyWithoutStatData(t *testing.T) {
	h := gitHive(t)
	h.repo.opt.Now = func() time.Time { return time.Now().Add(time.Minute) } // every file is old
	h.repo.dirty.mostBare = 3
	sync := func(files int) bool {
		t.Helper()
		more, err := h.repo.syncUpTo(t.Context(), files)
		testenv.Must(t, err)
		return more
	}
	for i := range 10 {
		h.commit(put(fmt.Sprintf("agents/b/inbox/%d", i), "x"))
	}
	h.write("agents/b/inbox/0", "not what was committed")
	sync(0)
	sync(3)
	sync(1) // one of the next three, which were looked for
	for i := range 5 {
		h.commit(put(fmt.Sprintf("agents/a/inbox/%d", i), "y")) // before all others
	}
	sync(0)
	for calls := 0; sync(2); calls++ {
		if n := len(h.repo.dirty.bare); n > 3 {
			t.Fatalf("%d are known at once", n)
		}
		if calls > 30 {
			t.Fatal("it does not end")
		}
	}
	if got := h.withoutStat(); got != "agents/b/inbox/0" {
		t.Errorf("without stat data: %q", got)
	}
}

// TestIndexUnusableTwice: an index that cannot be used, and that one call failed to
// replace, is made from the tree by the next.
func TestIndexUnusableTwice(t *testing.T) {
	h := gitHive(t)
	h.commit(put("agents/a/inbox/1", "x"))
	h.syncIndex()
	h.write(".git/index", "garbage")
	h.commit(put("agents/a/inbox/2", "y"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := h.repo.SyncIndex(ctx); !errors.Is(err, context.Canceled) {
		t.Fatalf("the first call ended with %v", err)
	}
	h.wantCleanStatus()
	if !h.alerted("git-index-rebuilt") {
		t.Error("nobody was told")
	}
}
