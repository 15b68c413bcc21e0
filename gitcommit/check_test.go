package gitcommit

import (
	"encoding/hex"
	"errors"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hived/hived/protocol"
)

type change = protocol.Change

func (h *hive) history() iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		for _, e := range h.log {
			if !yield(e, nil) {
				return
			}
		}
	}
}

// problems runs Check.
func (h *hive) problems() []Problem {
	h.t.Helper()
	var out []Problem
	if err := Check(h.t.Context(), h.disk, h.history(), func(p Problem) { out = append(out, p) }); err != nil {
		h.t.Fatal(err)
	}
	return out
}

// check gives the codes of what Check finds, and fails the test on faults.
func (h *hive) check() []string {
	h.t.Helper()
	var codes []string
	for _, p := range h.problems() {
		codes = append(codes, p.Code)
		if !p.Info {
			h.t.Errorf("check: %s: %s", p.Code, p.Text)
		}
	}
	return codes
}

// spoil changes one byte in the middle of a file of git's.
func (h *hive) spoil(glob string) string {
	h.t.Helper()
	found, err := filepath.Glob(filepath.Join(h.dir, ".git", glob))
	if err != nil || len(found) == 0 {
		h.t.Fatalf("no %s: %v", glob, err)
	}
	data, err := os.ReadFile(found[0])
	if err != nil {
		h.t.Fatal(err)
	}
	data[len(data)/2] ^= 0x40
	if err := os.Chmod(found[0], 0o644); err != nil {
		h.t.Fatal(err)
	}
	if err := os.WriteFile(found[0], data, 0o644); err != nil {
		h.t.Fatal(err)
	}
	return found[0]
}

// forge makes a commit in hived's name and moves the branch to it.
func (h *hive) forge(tree, message string) {
	h.t.Helper()
	data := "tree " + tree + "\nparent " + h.git("rev-parse", "HEAD") + "\nauthor " + identity + " 1 +0000\ncommitter " + identity + " 1 +0000\n\n" + message
	id, err := h.gitWith(data, "hash-object", "-t", "commit", "-w", "--stdin")
	if err != nil {
		h.t.Fatal(id)
	}
	h.git("update-ref", "refs/heads/main", id)
}

func TestCheckFinds(t *testing.T) {
	needGit(t)
	sum := func(h *hive) string { return h.log[len(h.log)-1].Sum }
	tests := []struct {
		name  string
		spoil func(h *hive)
		want  string
	}{
		{"flipped byte in a pack", func(h *hive) { h.spoil("objects/pack/*.pack") }, CodePackDamaged},
		{"flipped byte in a pack index", func(h *hive) { h.spoil("objects/pack/*.idx") }, CodePackDamaged},
		{"pack gone", func(h *hive) {
			found, _ := filepath.Glob(filepath.Join(h.dir, ".git/objects/pack/*.pack"))
			for _, f := range found {
				os.Remove(f)
			}
		}, CodeUnreadable},
		{"commit without trailers", func(h *hive) { h.forge(h.git("rev-parse", "HEAD~1^{tree}"), "hive: nothing\n") }, CodeTrailers},
		{"gap", func(h *hive) {
			h.batch(put("registry.json", "{}"))
			h.batch()
			h.forge(h.git("rev-parse", "HEAD^{tree}"), "x\n\nHive-Seq: 4-4\nHive-Sum: "+sum(h)+"\n")
		}, CodeGap},
		{"wrong tree", func(h *hive) {
			h.batch(put("registry.json", "{}"))
			h.forge(h.git("rev-parse", "HEAD^{tree}"), "x\n\nHive-Seq: 3-3\nHive-Sum: "+sum(h)+"\n")
		}, CodeTreeDiffers},
		{"wrong sum", func(h *hive) {
			h.batch()
			h.forge(h.git("rev-parse", "HEAD^{tree}"), "x\n\nHive-Seq: 3-3\nHive-Sum: "+strings.Repeat("a", 32)+"\n")
		}, CodeSumDiffers},
		{"ahead of the log", func(h *hive) { h.log = h.log[:1] }, CodeAhead},
		{"behind the log", func(h *hive) { h.batch() }, CodeBehind},
		{"object missing", func(h *hive) {
			h.batch(put("board.md", "never stored"))
			id := protocol.BlobOf([]byte("never stored")).String()
			tree, err := h.gitWith("100644 blob "+id+"\tboard.md\n", "mktree", "--missing")
			if err != nil {
				h.t.Fatal(tree)
			}
			h.log[2].Changes = append(h.log[2].Changes, del("agents/a/inbox/1.json"))
			h.forge(tree, "x\n\nHive-Seq: 3-3\nHive-Sum: "+sum(h)+"\n")
		}, CodeObjectMissing},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := newHive(t)
			h.commit(put("board.md", strings.Repeat("one two three ", 100)))
			h.commit(put("agents/a/inbox/1.json", "{}"))
			if got := h.check(); len(got) != 0 {
				t.Fatalf("check says %q before anything is wrong", got)
			}
			tt.spoil(h)
			var codes []string
			for _, p := range h.problems() {
				codes = append(codes, p.Code)
			}
			if !slices.Contains(codes, tt.want) {
				t.Errorf("want %s, got %q", tt.want, codes)
			}
		})
	}
}

func TestCheckNamesTheDamagedObject(t *testing.T) {
	needGit(t)
	h := newHive(t)
	text := strings.Repeat("a line of text that is long\n", 300)
	h.commit(put("board.md", text))
	id := protocol.BlobOf([]byte(text))
	pack, _ := filepath.Glob(filepath.Join(h.dir, ".git/objects/pack/*.pack"))
	data, err := os.ReadFile(pack[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range []string{pack[0], strings.TrimSuffix(pack[0], "pack") + "idx"} {
		if err := os.Remove(f); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := h.gitWith(string(data), "unpack-objects", "-q"); err != nil {
		t.Fatal(out)
	}
	if got := h.check(); len(got) != 0 {
		t.Fatalf("check says %q of loose objects", got)
	}
	s := id.String()
	h.spoil("objects/" + s[:2] + "/" + s[2:])
	var found bool
	for _, p := range h.problems() {
		found = found || p.Code == CodeObjectDamaged && p.Object == id
	}
	if !found {
		t.Error("the damaged object is not named")
	}
}

func TestCheckTakesCommitsOfHivedThatNameNoEvents(t *testing.T) {
	h := newHive(t)
	for _, text := range []string{"hop_cap: 12\n", "hop_cap: 13\n"} {
		h.write("hive.yaml", text)
		if err := h.repo.Seed(t.Context(), time.Unix(5, 0), "hive: settings", "hive.yaml"); err != nil {
			t.Fatal(err)
		}
		h.commit(put("board.md", text))
	}
	if got := h.check(); len(got) != 0 {
		t.Errorf("check says %q", got)
	}
}

func TestCheckGivesTheLogsErrorBack(t *testing.T) {
	h := newHive(t)
	h.commit(put("board.md", "x"))
	broken := errors.New("the log is broken")
	err := Check(t.Context(), h.disk, func(yield func(Event, error) bool) { yield(Event{}, broken) }, func(Problem) {})
	if !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

func TestCheckResolvesDeltas(t *testing.T) {
	needGit(t)
	h := newHive(t)
	text := strings.Repeat("the same long text\n", 500)
	for i := range 5 {
		h.commit(put("board.md", text+hex.EncodeToString([]byte{byte(i)})))
	}
	h.git("repack", "-adfq")
	if diff := cmp.Diff([]string(nil), h.check()); diff != "" {
		t.Error(diff)
	}
	if out := h.git("verify-pack", "-sv", ".git/objects/pack/"+h.onlyPack()); !strings.Contains(out, "chain length") {
		t.Fatalf("git made no deltas: %s", out)
	}
	h.spoil("objects/pack/*.pack")
	if len(h.problems()) == 0 {
		t.Error("a damaged pack of git's is not found")
	}
}

func (h *hive) onlyPack() string {
	h.t.Helper()
	found, err := filepath.Glob(filepath.Join(h.dir, ".git/objects/pack/*.idx"))
	if err != nil || len(found) != 1 {
		h.t.Fatalf("packs: %q, %v", found, err)
	}
	return filepath.Base(found[0])
}
