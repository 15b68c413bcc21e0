package gitcommit

import (
	"context"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/durable/faultfs"
	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/protocol"
)

// packList returns what Consolidate knows of all packs except some.
func (h *hive) packList(without ...pack) []pack {
	h.t.Helper()
	all, err := allPacks(h.repo, h.disk)
	testenv.Must(h.t, err)
	var out []pack
	for _, p := range all {
		known := false
		for _, w := range without {
			known = known || w.stem == p.stem
		}
		if !known {
			out = append(out, p)
		}
	}
	return out
}

func (h *hive) merge(packs []pack) {
	h.t.Helper()
	h.repo.merging.Lock()
	defer h.repo.merging.Unlock()
	testenv.Must(h.t, h.repo.merge(h.t.Context(), packs))
}

var chainLine = regexp.MustCompile(`chain length = (\d+): (\d+) object`)

// longestChain returns the length of the longest chain of differences, by git.
func (h *hive) longestChain() (longest int) {
	h.t.Helper()
	found, err := filepath.Glob(filepath.Join(h.dir, ".git/objects/pack/*.idx"))
	testenv.Must(h.t, err)
	for _, name := range found {
		for _, m := range chainLine.FindAllStringSubmatch(h.git("verify-pack", "-v", name), -1) {
			n, err := strconv.Atoi(m[1])
			testenv.Must(h.t, err)
			longest = max(longest, n)
		}
	}
	return longest
}

func inboxFile(i int) string { return fmt.Sprintf("agents/a/inbox/01J8ZQ5V6W7X8Y9Z%010d.json", i) }

func (h *hive) add(from, to int) {
	h.t.Helper()
	for i := from; i < to; i++ {
		h.commit(put(inboxFile(i), strconv.Itoa(i)))
	}
}

// A directory that is the same twice ends one chain and is in the middle of another:
// together they would be too long.
func TestChainsStayShort(t *testing.T) {
	h := gitHive(t)
	h.add(0, 41)
	h.merge(h.packList())
	old := h.packList()
	if got := h.longestChain(); got != mostDepth {
		t.Fatalf("the chain of 41 versions has a length of %d", got)
	}
	h.commit(put(inboxFile(999), "x"))
	h.commit(del(inboxFile(999)))
	h.add(41, 80)
	h.merge(h.packList(old...))
	h.merge(h.packList())
	if got := h.longestChain(); got > mostDepth {
		t.Errorf("a chain has a length of %d", got)
	}
	h.wantFsckSilent()
	h.readAll(newStore(h.disk))
	h.wantIntact()
}

// Two objects of which each is stored as a difference from the other, in
// different packs, still have a base when these are one.
func TestMergeMakesNoCircle(t *testing.T) {
	h := gitHive(t)
	x := strings.Repeat("a text of some length, ", 20)
	y := x + "and a bit more"
	h.commit(put("agents/a/inbox/1", x), put("agents/a/inbox/2", y))
	h.commit(put("agents/b/inbox/1", y), put("agents/b/inbox/2", x))
	h.merge(h.packList())
	if got := h.longestChain(); got != 1 {
		t.Errorf("a chain has a length of %d", got)
	}
	h.wantFsckSilent()
	h.readAll(newStore(h.disk))
}

// Packs of git's own are recognised while they are merged, and left alone.
func TestForeignPacksStay(t *testing.T) {
	h := gitHive(t)
	h.add(0, 20)
	h.git("repack", "-adfq")
	theirs := h.onlyPack()
	h.add(20, 20+mostPacks+3)
	h.consolidate()
	if n := h.packs(); n != 2 {
		t.Errorf("%d packs are left", n)
	}
	if h.git("cat-file", "-t", "HEAD~60"); !h.exists(".git/objects/pack/" + theirs) {
		t.Error("git's pack is gone")
	}
	h.wantFsckSilent()
}

// liveBeside commits while another goroutine consolidates and a third reads. It
// returns the largest number of packs that there was.
func (h *hive) liveBeside(count, batch int) (most int) {
	h.t.Helper()
	ctx, cancel := context.WithCancel(h.t.Context())
	defer cancel()
	wake := make(chan struct{}, 1)
	tips := make(chan protocol.Blob, 1)
	var wg sync.WaitGroup
	wg.Go(func() {
		for range wake {
			if err := h.repo.Consolidate(ctx); err != nil && ctx.Err() == nil {
				h.t.Error(err)
			}
		}
	})
	wg.Go(func() {
		s := newStore(h.disk)
		for id := range tips {
			for n := 0; n < 100 && !id.IsZero(); n++ {
				c, err := s.commit(id)
				if err != nil {
					h.t.Error(err)
					break
				}
				if _, err := s.tree(c.tree); err != nil {
					h.t.Error(err)
				}
				id = c.parent
			}
		}
	})
	h.runMessages(count, batch, func() {
		select {
		case wake <- struct{}{}:
		default:
		}
		select {
		case tips <- h.repo.head.Commit:
		default:
		}
		if h.repo.Crowded() {
			h.consolidate()
		}
		most = max(most, h.packs())
	})
	close(wake)
	close(tips)
	wg.Wait()
	return most
}

// Nothing is ever missing, and packs do not pile up.
func TestConsolidateBesideCommits(t *testing.T) {
	h := gitHive(t)
	h.opt.Bulk = true
	h.open()
	if most := h.liveBeside(900, 3); most > 200 {
		t.Errorf("there were %d packs at once", most)
	}
	h.wantFsckSilent()
	h.readAll(newStore(h.disk))
	if len(h.alerts) > 0 {
		t.Errorf("alerts: %q", h.alerts)
	}
}

func BenchmarkConsolidateBesideCommits(b *testing.B) {
	for b.Loop() {
		h := newHive(b)
		h.opt.Bulk = true
		h.open()
		b.ReportMetric(float64(h.liveBeside(30_000, 10)), "packs")
	}
}

// Merged objects are still remembered, and written again if a person's repack
// removes them.
func TestMergedPackThatVanishesIsWrittenAgain(t *testing.T) {
	h := gitHive(t)
	h.add(0, 5)
	h.merge(h.packList())
	testenv.Must(t, h.repo.packer.remove(h.packList()[0].stem))
	h.add(5, 6)
	h.wantFsckSilent()
	h.readAll(newStore(h.disk))
}

// A full disk or a stop does not mark the packs that were being merged as
// unmergeable.
func TestFailedMergeIsTriedAgain(t *testing.T) {
	large := make([]byte, 200_000) // more than is written at once
	random := rand.NewChaCha8([32]byte{})
	if _, err := random.Read(large); err != nil {
		t.Fatal(err)
	}
	events := append(story(), Event{Seq: 5, Sum: strings.Repeat("5", 32), Changes: []change{put("agents/a/inbox/large", string(large))}})
	for n := 1; ; n++ {
		m := newDisk(t)
		if _, err := commitStory(t.Context(), m, events, 0); err != nil {
			t.Fatal(err)
		}
		r, err := Open(m, Options{})
		testenv.Must(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		if cancel(); n > 1 {
			ctx = t.Context()
			m.FailAt(n-1, durable.ErrNoSpace, 1, func(op faultfs.Op, _ string) bool { return op == faultfs.OpWrite })
		}
		failed := mergeAll(ctx, r, m)
		m.Heal()
		for stem, p := range r.packs {
			if p.unmergeable {
				t.Errorf("failure at %d: %s is left alone", n, stem)
			}
		}
		if err := mergeAll(t.Context(), r, m); err != nil {
			t.Fatalf("after a failure at %d: %v", n, err)
		}
		checkStory(t, m, events)
		if failed == nil {
			if n < 3 {
				t.Fatal("nothing failed")
			}
			return
		}
	}
}

func TestCrowded(t *testing.T) {
	h := newHive(t)
	h.opt.Bulk = true
	h.open()
	for i := 0; !h.repo.Crowded(); i++ {
		if i > crowded {
			t.Fatalf("%d packs are no crowd", h.packs())
		}
		h.commitOnly(put("board.md", strconv.Itoa(i)))
	}
	if h.consolidate(); h.repo.Crowded() {
		t.Errorf("%d packs after consolidation", h.packs())
	}
}

// A pack that is large enough is not merged again.
func TestFullPacksStay(t *testing.T) {
	packs := []pack{{stem: "a", size: 10, objects: mostObjects - 10}, {stem: "b", size: 11, objects: 8}, {stem: "c", size: 12, objects: 3}}
	if got := len(smallest(packs)); got != 2 {
		t.Errorf("%d packs with more objects than fit are merged", got)
	}
	for _, p := range []pack{{size: mostMerged + 1}, {objects: mostObjects / 2}} {
		if !p.isFull() {
			t.Errorf("%+v is not full", p)
		}
	}
}

// A file that changes a little with each commit costs what changed, once packs are
// merged; until then at most as many versions are whole as there are packs.
func TestPatchedFileCostsItsPatches(t *testing.T) {
	needGit(t)
	const commits = 100
	random := rand.New(rand.NewPCG(1, 2))
	text := make([]byte, 197<<10/2)
	for i := range text {
		text[i] = byte(random.Uint32())
	}
	whole := hex.EncodeToString(text)
	h := newHive(t)
	h.opt.Bulk = true
	h.open()
	before := h.gitSize()
	for i := range commits {
		h.commit(put("tasks/1/checkpoint.json", fmt.Sprintf("%s,%010d", whole, i)))
		h.consolidate()
	}
	if got, most := h.gitSize()-before, int64((mostPacks+2)*len(whole)); got > most {
		t.Errorf("%d patches of ten bytes cost %d bytes of history while packs wait to be merged, want at most %d", commits, got, most)
	}
	h.merge(h.packList())
	if each := (h.gitSize() - before) / commits; each > 8<<10 {
		t.Errorf("a patch of ten bytes costs %d bytes of history when packs are merged", each)
	}
	if got := h.longestChain(); got > mostDepth {
		t.Errorf("a chain has a length of %d", got)
	}
	h.wantFsckSilent()
	h.readAll(newStore(h.disk))
	h.wantIntact()
}

func TestHasVersions(t *testing.T) {
	for path, want := range map[string]bool{
		"board.md": true, "tasks/1/checkpoint.json": true, "agents/a/memory.md": true, "agents/a/notes/inbox/x.md": true,
		"log/000000000001.jsonl": false, "agents/a/inbox/1.json": false, "agents/a/inbox/.done/1.json": false, "agents/a/outbox/.sent/1.json": false,
	} {
		if got := hasVersions(path); got != want {
			t.Errorf("%s: %v, want %v", path, got, want)
		}
	}
}
