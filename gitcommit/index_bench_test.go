package gitcommit

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/hived/hived/internal/testenv"
)

// manyFiles commits n messages of fifty agents, and updates the index with all of
// them.
func (h *hive) manyFiles(files int) {
	h.t.Helper()
	old := time.Now().Add(-24 * time.Hour)
	h.fill(files, func(list ...change) {
		for _, c := range list {
			full := filepath.Join(h.dir, c.Path)
			err := os.MkdirAll(filepath.Dir(full), 0o755)
			if err == nil {
				err = os.WriteFile(full, c.Data, 0o644)
			}
			if err == nil {
				err = os.Chtimes(full, old, old)
			}
			testenv.Must(h.t, err)
		}
		h.commitOnly(list...)
	})
	h.settleIndex()
}

func (h *hive) settleIndex() {
	h.t.Helper()
	for more := true; more; {
		var err error
		more, err = h.repo.SyncIndex(h.t.Context())
		testenv.Must(h.t, err)
	}
}

// handle commits ten messages that are handled, which changes twenty paths.
func (h *hive) handle(i int) {
	h.t.Helper()
	var changes []change
	for j := range 10 {
		name := fmt.Sprintf("%06d-%d.json", i, j)
		changes = append(changes, put(fmt.Sprintf("agents/agent-%02d/inbox/%s", j, name), fmt.Sprintf(`{"i":%d}`, i)))
		if i > 0 {
			old := fmt.Sprintf("agents/agent-%02d/inbox/%06d-%d.json", j, i-1, j)
			changes = append(changes, del(old))
		}
	}
	h.commit(changes...)
}

func BenchmarkSyncIndex(b *testing.B) {
	for _, files := range []int{1_000, 50_000, 200_000} {
		b.Run(fmt.Sprintf("files=%d", files), func(b *testing.B) {
			h := newHive(b)
			h.manyFiles(files)
			var took []time.Duration
			for i := 0; b.Loop(); i++ {
				b.StopTimer()
				h.handle(i)
				b.StartTimer()
				start := time.Now()
				h.syncIndex()
				took = append(took, time.Since(start))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
			b.ReportMetric(float64(took[len(took)-1].Microseconds()), "max-µs")
			with := heap()
			h.repo.index, h.repo.dirty = index{}, dirtySet{}
			b.ReportMetric(float64(with-heap())/(1<<10), "held-KiB")
			runtime.KeepAlive(h)
		})
	}
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// What git status costs a person after many commits by hived, compared with an
// index that git itself has just written.
func BenchmarkGitStatus(b *testing.B) {
	needGit(b)
	h := newHive(b)
	h.manyFiles(50_000)
	for i := range 2000 {
		h.handle(i)
		h.syncIndex()
	}
	h.settleIndex()
	median := func() time.Duration {
		var took []time.Duration
		for range 15 {
			start := time.Now()
			if out := h.git("--no-optional-locks", "status", "--porcelain"); out != "" {
				b.Fatal(out)
			}
			took = append(took, time.Since(start))
		}
		slices.Sort(took)
		return took[len(took)/2]
	}
	for b.Loop() {
		hived := median()
		index := h.read(".git/index")
		h.git("reset")
		git := median()
		h.write(".git/index", index) // the next round begins as the first one did
		b.ReportMetric(float64(hived.Microseconds())/1000, "hived-ms")
		b.ReportMetric(float64(git.Microseconds())/1000, "reset-ms")
		b.ReportMetric(float64(hived)/float64(git), "ratio")
	}
}
