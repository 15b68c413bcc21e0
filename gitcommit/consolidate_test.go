package gitcommit

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/hived/hived/internal/testenv"
)

func TestConsolidate(t *testing.T) {
	h := gitHive(t)
	h.commit(put("board.md", "x"), put("agents/a/inbox/x.json", "{}"))
	h.git("repack", "-adq")
	kept := filepath.Join(h.dir, ".git/objects/pack", h.onlyPack())
	testenv.Must(t, os.WriteFile(kept[:len(kept)-len("idx")]+"keep", nil, 0o644))
	for i := range 120 {
		h.commit(put("agents/a/inbox/"+strconv.Itoa(i)+".json", "{}"), put("board.md", strconv.Itoa(i%7)))
		testenv.Must(t, h.repo.Consolidate(t.Context()))
		if n := h.packs(); n > mostPacks+1 {
			t.Fatalf("%d packs after %d commits", n, i)
		}
	}
	if _, err := os.Lstat(kept); err != nil {
		t.Errorf("the kept pack is gone: %v", err)
	}
	h.git("multi-pack-index", "write")
	for i := range 60 {
		h.commit(put("agents/b/inbox/"+strconv.Itoa(i)+".json", "{}"))
	}
	testenv.Must(t, h.repo.Consolidate(t.Context()))
	h.open()
	h.commit(put("board.md", "y"))
	h.wantSound()
	h.wantCleanStatus()
	h.wantIntact()
}

func TestConsolidateLeavesDamageAlone(t *testing.T) {
	h := newHive(t)
	for i := range mostPacks + 5 {
		h.commit(put("agents/a/inbox/"+strconv.Itoa(i)+".json", "{}"))
	}
	h.corrupt("objects/pack/*.pack")
	before := h.packs()
	if err := h.repo.Consolidate(t.Context()); err == nil {
		t.Error("a damaged pack was merged")
	}
	if h.packs() != before {
		t.Error("packs are gone")
	}
	if err := h.repo.Consolidate(t.Context()); err != nil || h.packs() >= before {
		t.Errorf("the others were not merged: %d packs, %v", h.packs(), err)
	}
}

func TestSmallest(t *testing.T) {
	tests := []struct {
		sizes []int64
		want  int
	}{
		{[]int64{1, 1, 1, 1}, 4},
		{[]int64{1, 1, 1, 100}, 3},
		{[]int64{1, 2, 6, 18}, 0},
		{[]int64{5, 1, 1}, 2},
		{nil, 0},
	}
	for _, tt := range tests {
		var packs []pack
		for _, s := range tt.sizes {
			packs = append(packs, pack{size: s})
		}
		if got := len(smallest(packs)); got != tt.want {
			t.Errorf("of %v it takes %d, want %d", tt.sizes, got, tt.want)
		}
	}
}
