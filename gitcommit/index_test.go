package gitcommit

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

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
		{"version 4", func(h *hive) { h.git("update-index", "--index-version", "4") }, false, true},
		{"version 3", func(h *hive) {
			h.write("later", "x")
			h.git("add", "-N", "later")
			os.Remove(filepath.Join(h.dir, "later"))
		}, false, true},
		{"with a tree cache", func(h *hive) { h.git("write-tree"); h.git("update-index", "--force-untracked-cache") }, false, true},
		{"split", func(h *hive) { h.git("update-index", "--split-index") }, true, false},
		{"garbage", func(h *hive) { h.write(".git/index", "garbage") }, true, false},
		{"cut short", func(h *hive) { h.write(".git/index", h.read(".git/index")[:100]) }, true, false},
		{"empty", func(h *hive) { h.write(".git/index", "") }, true, false},
		{"missing", func(h *hive) { os.Remove(filepath.Join(h.dir, ".git/index")) }, false, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := newHive(t)
			h.commit(put("board.md", "one\n"), put("agents/a/inbox/1.json", "{}"), put("agents/a/inbox/2.json", "{}"))
			h.syncIndex()
			h.write("notes", "staged\n")
			h.git("add", "notes")
			tt.person(h)
			h.commit(put("agents/a/inbox/3.json", "{}"), del("agents/a/inbox/1.json"))
			h.syncIndex()
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
			h.sound()
		})
	}
}

// The index never hides that a file is not what was committed.
func TestIndexTellsTheTruth(t *testing.T) {
	needGit(t)
	h := newHive(t)
	h.commit(put("agents/a/memory.md", "one\n"), put("agents/a/inbox/1.json", "{}"))
	h.write("agents/a/memory.md", "two\n") // the agent went on writing
	h.syncIndex()
	if got := h.git("status", "--porcelain"); got != " M agents/a/memory.md" {
		t.Errorf("status is %q", got)
	}
	h.commit(put("agents/a/memory.md", "two\n"))
	h.clean()
	h.write("agents/a/inbox/1.json", "[]")
	if got := h.git("status", "--porcelain"); got != " M agents/a/inbox/1.json" {
		t.Errorf("status is %q", got)
	}
}

func TestIndexRecordsStatOnlyOfOldFiles(t *testing.T) {
	needGit(t)
	h := newHive(t)
	now := time.Unix(1_900_000_000, 0)
	h.repo.opt.Now = func() time.Time { return now }
	h.commit(put("agents/a/inbox/old", "x"), put("agents/a/inbox/young", "y"))
	young := now.Add(-10 * time.Millisecond)
	if err := os.Chtimes(filepath.Join(h.dir, "agents/a/inbox/young"), young, young); err != nil {
		t.Fatal(err)
	}
	more, err := h.repo.SyncIndex(t.Context())
	if err != nil || !more {
		t.Fatalf("more is %v, %v", more, err)
	}
	bare := func() string {
		var out []string
		for _, e := range h.repo.index.parsed.entries {
			if bytes.Equal(e.raw[atMTime:atDev], make([]byte, 8)) {
				out = append(out, e.name)
			}
		}
		return strings.Join(out, " ")
	}
	if got := bare(); got != "agents/a/inbox/young" {
		t.Errorf("without stat data: %q", got)
	}
	now = now.Add(2 * time.Second)
	if more, err = h.repo.SyncIndex(t.Context()); err != nil || more {
		t.Fatalf("more is %v, %v", more, err)
	}
	if got := bare(); got != "" {
		t.Errorf("without stat data: %q", got)
	}
	if got := h.git("diff-files"); got != "" {
		t.Errorf("git does not believe the stat data: %s", got)
	}
}

func TestIndexSmudgesWhatIsAsYoungAsItself(t *testing.T) {
	st := func(sec byte) fileStat { var s fileStat; s[atMTime+3], s[atSize+3] = sec, 9; return s }
	p := &parsedIndex{entries: []indexEntry{
		newIndexEntry("old", protocol.Blob{}, modeFile, st(4)), newIndexEntry("young", protocol.Blob{}, modeFile, st(5)),
	}}
	p.smudge(time.Unix(5, 0))
	if a, b := p.entries[0].raw[atSize+3], p.entries[1].raw[atSize+3]; a != 9 || b != 0 {
		t.Errorf("sizes are %d and %d", a, b)
	}
}

func TestIndexApply(t *testing.T) {
	entries := func(names ...string) (out []indexEntry) {
		for _, n := range names {
			out = append(out, newIndexEntry(n, protocol.Blob{}, modeFile, fileStat{}))
		}
		return out
	}
	p := &parsedIndex{entries: entries("a", "b/c", "b/d", "e")}
	var patches []patch
	for _, e := range entries("a/x", "b", "f") {
		patches = append(patches, patch{name: e.name, entry: &e})
	}
	p.apply(append(patches[:2:2], patch{name: "e"}, patches[2]))
	var got []string
	for _, e := range p.entries {
		got = append(got, e.name)
	}
	if diff := cmp.Diff([]string{"a/x", "b", "f"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestIndexTakesBranchesOfAPerson(t *testing.T) {
	needGit(t)
	h := newHive(t)
	h.commit(put("board.md", "one\n"))
	h.syncIndex()
	h.write("x", "x")
	h.git("add", "x")
	h.git("commit", "-qm", "x")
	h.commit(put("board.md", "two\n"))
	h.git("stash", "-q") // with an index that is behind
	h.git("stash", "drop", "-q")
	h.write("board.md", "two\n")
	h.clean()
}

func BenchmarkSyncIndex(b *testing.B) {
	needGit(b)
	h := newHive(b)
	var many []change
	for i := range 50_000 {
		many = append(many, put(fmt.Sprintf("agents/agent-%02d/inbox/.done/01J8ZQ5V6W7X8Y9Z%010d.json", i%50, i), "x"))
	}
	h.commit(many...)
	for more := true; more; {
		var err error
		if more, err = h.repo.SyncIndex(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	i := 0
	for b.Loop() {
		b.StopTimer()
		h.commit(put(fmt.Sprintf("agents/agent-01/inbox/%d.json", i), "x"))
		i++
		b.StartTimer()
		h.syncIndex()
	}
}
