package gitcommit

import (
	"bytes"
	"encoding/hex"
	"errors"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hived/hived/internal/testenv"
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
	testenv.Must(h.t, Check(h.t.Context(), h.disk, h.history(), func(p Problem) { out = append(out, p) }))
	return out
}

// check returns the codes of what Check finds, and fails the test on faults.
func (h *hive) check() []protocol.Code {
	h.t.Helper()
	var codes []protocol.Code
	for _, p := range h.problems() {
		codes = append(codes, p.Code)
		if !p.Info {
			h.t.Errorf("check: %s: %s", p.Code, p.Text)
		}
	}
	return codes
}

// wantIntact fails the test if Check finds anything.
func (h *hive) wantIntact() {
	h.t.Helper()
	if got := h.check(); len(got) != 0 {
		h.t.Errorf("check says %q", got)
	}
}

// corrupt changes one byte in the middle of a file of git's.
func (h *hive) corrupt(glob string) string {
	h.t.Helper()
	found, err := filepath.Glob(filepath.Join(h.dir, ".git", glob))
	if err != nil || len(found) == 0 {
		h.t.Fatalf("no %s: %v", glob, err)
	}
	data, err := os.ReadFile(found[0])
	testenv.Must(h.t, err)
	data[len(data)/2] ^= 0x40
	testenv.Must(h.t, os.Chmod(found[0], 0o644))
	testenv.Must(h.t, os.WriteFile(found[0], data, 0o644))
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
		want  protocol.Code
	}{
		{"flipped byte in a pack", func(h *hive) { h.corrupt("objects/pack/*.pack") }, protocol.CodeGitPackDamaged},
		{"flipped byte in a pack index", func(h *hive) { h.corrupt("objects/pack/*.idx") }, protocol.CodeGitPackDamaged},
		{"pack gone", func(h *hive) {
			found, _ := filepath.Glob(filepath.Join(h.dir, ".git/objects/pack/*.pack"))
			for _, f := range found {
				os.Remove(f)
			}
		}, protocol.CodeGitUnreadable},
		{"commit without trailers", func(h *hive) { h.forge(h.git("rev-parse", "HEAD~1^{tree}"), "hive: nothing\n") }, protocol.CodeGitTrailers},
		{"gap", func(h *hive) {
			h.batch(put("registry.json", "{}"))
			h.batch()
			h.forge(h.git("rev-parse", "HEAD^{tree}"), "x\n\nHive-Seq: 4-4\nHive-Sum: "+sum(h)+"\n")
		}, protocol.CodeGitGap},
		{"wrong tree", func(h *hive) {
			h.batch(put("registry.json", "{}"))
			h.forge(h.git("rev-parse", "HEAD^{tree}"), "x\n\nHive-Seq: 3-3\nHive-Sum: "+sum(h)+"\n")
		}, protocol.CodeGitTreeDiffers},
		{"wrong sum", func(h *hive) {
			h.batch()
			h.forge(h.git("rev-parse", "HEAD^{tree}"), "x\n\nHive-Seq: 3-3\nHive-Sum: "+strings.Repeat("a", 32)+"\n")
		}, protocol.CodeGitSumDiffers},
		{"ahead of the log", func(h *hive) { h.log = h.log[:1] }, protocol.CodeGitAhead},
		{"behind the log", func(h *hive) { h.batch() }, protocol.CodeGitBehind},
		{"object missing", func(h *hive) {
			h.batch(put("board.md", "never stored"))
			id := protocol.BlobOf([]byte("never stored")).String()
			tree, err := h.gitWith("100644 blob "+id+"\tboard.md\n", "mktree", "--missing")
			if err != nil {
				h.t.Fatal(tree)
			}
			h.log[2].Changes = append(h.log[2].Changes, del("agents/a/inbox/1.json"))
			h.forge(tree, "x\n\nHive-Seq: 3-3\nHive-Sum: "+sum(h)+"\n")
		}, protocol.CodeGitObjectMissing},
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
			var codes []protocol.Code
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
	h := gitHive(t)
	text := strings.Repeat("a line of text that is long\n", 300)
	h.commit(put("board.md", text))
	id := protocol.BlobOf([]byte(text))
	pack, _ := filepath.Glob(filepath.Join(h.dir, ".git/objects/pack/*.pack"))
	data, err := os.ReadFile(pack[0])
	testenv.Must(t, err)
	for _, f := range []string{pack[0], strings.TrimSuffix(pack[0], "pack") + "idx"} {
		testenv.Must(t, os.Remove(f))
	}
	if out, err := h.gitWith(string(data), "unpack-objects", "-q"); err != nil {
		t.Fatal(out)
	}
	if got := h.check(); len(got) != 0 {
		t.Fatalf("check says %q of loose objects", got)
	}
	s := id.String()
	h.corrupt("objects/" + s[:2] + "/" + s[2:])
	var found bool
	for _, p := range h.problems() {
		found = found || p.Code == protocol.CodeGitObjectDamaged && p.Object == id
	}
	if !found {
		t.Error("the damaged object is not named")
	}
}

func TestCheckTakesCommitsOfHivedThatNameNoEvents(t *testing.T) {
	h := newHive(t)
	for _, text := range []string{"hop_cap: 12\n", "hop_cap: 13\n"} {
		h.write("hive.yaml", text)
		testenv.Must(t, h.repo.Seed(t.Context(), time.Unix(5, 0), "hive: settings", "hive.yaml"))
		h.commit(put("board.md", text))
	}
	h.wantIntact()
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
	h := gitHive(t)
	text := strings.Repeat("the same long text\n", 500)
	for i := range 5 {
		h.commit(put("board.md", text+hex.EncodeToString([]byte{byte(i)})))
	}
	h.git("repack", "-adfq")
	if diff := cmp.Diff([]protocol.Code(nil), h.check()); diff != "" {
		t.Error(diff)
	}
	if out := h.git("verify-pack", "-sv", ".git/objects/pack/"+h.onlyPack()); !strings.Contains(out, "chain length") {
		t.Fatalf("git made no deltas: %s", out)
	}
	h.corrupt("objects/pack/*.pack")
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

// The windows of an index hold all entries, each once, in the order of the pack
// and with the right ends, also where offsets are large.
func TestWindowsOfAnIndex(t *testing.T) {
	const n, step = 3000, 1 << 20
	var entries []packEntry
	want := make(map[protocol.Blob]int64)
	for i := range int64(n) {
		id := protocol.BlobOf([]byte(strconv.FormatInt(i, 10)))
		want[id] = packHeader + step*i
		entries = append(entries, packEntry{id: id, offset: want[id]})
	}
	var file bytes.Buffer
	testenv.Must(t, writeIdx(&file, entries, protocol.Blob{7}))
	in := bytes.NewReader(file.Bytes())
	x, err := readFan(in, int64(file.Len()))
	testenv.Must(t, err)
	const end = packHeader + step*n
	for _, windows := range []int64{1, 2, 7} {
		next := int64(packHeader)
		for w := range windows {
			list, err := x.window(in, end*w/windows, end*(w+1)/windows, end)
			testenv.Must(t, err)
			for _, s := range list {
				if s.offset != next || s.end != next+step || want[s.id] != next || !bytes.Equal(file.Bytes()[idxFanout+20*s.at:][:20], s.id[:]) {
					t.Fatalf("%d windows: at %d stands %+v", windows, next, s)
				}
				next = s.end
			}
		}
		if next != end {
			t.Errorf("%d windows end at %d of %d", windows, next, int64(end))
		}
	}
	entries[5].offset = entries[6].offset
	file.Reset()
	testenv.Must(t, writeIdx(&file, entries, protocol.Blob{7}))
	if _, err := x.window(bytes.NewReader(file.Bytes()), 0, end, end); !errors.Is(err, errBadIdx) {
		t.Errorf("two entries in one place: %v", err)
	}
}

// A chain of differences is followed once, not once for each of its links, and
// a base in another part of the pack is found.
func TestCheckFollowsAChainOnce(t *testing.T) {
	needGit(t)
	for _, offsets := range []string{"true", "false"} {
		h := newHive(t)
		text := strings.Repeat("a line of the plan that hardly changes\n", 60)
		for i := range 60 {
			h.commit(put("board.md", text+strconv.Itoa(i)))
		}
		h.git("-c", "repack.useDeltaBaseOffset="+offsets, "repack", "-adfq", "--depth=50", "--window=80")
		stem := packDir + "/" + strings.TrimSuffix(h.onlyPack(), ".idx")
		x, in, err := openIdx(h.disk, stem)
		testenv.Must(t, err)
		defer in.Close()
		f, err := h.disk.Open(stem + ".pack")
		testenv.Must(t, err)
		defer f.Close()
		info, err := f.Stat()
		testenv.Must(t, err)
		list, err := x.window(in, 0, info.Size, info.Size-20)
		testenv.Must(t, err)
		// Two parts, the bases of the first one in the second.
		reads := &countedReads{ReaderAt: f}
		for _, part := range [][]span{list[len(list)/2:], list[:len(list)/2]} {
			w := newPartCheck()
			w.idx, w.in, w.spans, w.bytes.f = x, in, part, reads
			for _, s := range slices.Backward(part) { // the worst order
				if err := w.check(s); err != nil {
					t.Errorf("%s: %v", s.id, err)
				}
			}
		}
		if most := 8 * len(list); reads.n > most {
			t.Errorf("offsets %s: %d objects took %d reads", offsets, len(list), reads.n)
		}
	}
}
