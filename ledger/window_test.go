package ledger

import (
	"fmt"
	"testing"
)

// dice is a cheap source of random numbers that are the same in each run.
type dice uint64

func (d *dice) roll(n uint64) uint64 {
	*d = *d*6364136223846793005 + 1442695040888963407
	return uint64(*d>>20) % n
}

// TestWindow puts keys into windows of every size that matters, chunks and indices
// included, and compares them with a map and a list.
func TestWindow(t *testing.T) {
	tests := []struct {
		most, puts int
		keys       uint64
	}{
		{1, 100, 3},
		{2, 100, 3},
		{60, 3000, 100},                        // the same keys again and again
		{500, 3000, 400},                       // never full
		{500, 20_000, 1 << 40},                 // no key twice
		{2 * chunkLen, 10 * chunkLen, 1 << 40}, // chunks come and go
		{2 * chunkLen, 10 * chunkLen, 3 * chunkLen},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%d of %d", tt.most, tt.keys), func(t *testing.T) {
			w, m := newWindow[int](tt.most), newSimpleWindow[uint64, int](tt.most)
			entered, forgotten := 0, 0
			w.forget = func(int) { forgotten++ }
			d := dice(tt.most)
			for i := range tt.puts {
				k := 1 + d.roll(tt.keys)
				if _, known := m.values[k]; !known {
					entered++
				}
				m.put(k, i)
				*w.put(k) = i
			}
			i := 0
			for k, v := range w.all() {
				if i == len(m.order) || m.order[i] != k || m.values[k] != *v || w.get(k) != v {
					t.Fatalf("entry %d: got key %d with %d", i, k, *v)
				}
				i++
			}
			if i != len(m.order) || entered-forgotten != i {
				t.Errorf("%d entries, %d of %d forgotten, want %d", i, forgotten, entered, len(m.order))
			}
			if w.get(0) != nil || w.get(1<<41) != nil {
				t.Error("the window has a key that was never put")
			}
			if slots, chunks := len(w.index), len(w.chunks); slots > 3*max(tt.most, 32) || chunks > tt.most*9/8/chunkLen+2 {
				t.Errorf("%d slots and %d chunks for %d entries", slots, chunks, i)
			}
		})
	}
}
