package gitcommit

import (
	"fmt"
	"testing"

	"github.com/hived/hived/internal/durable/faultfs"
	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/protocol"
)

// A broken repository is rebuilt from the log, in bulk, and is durable from Flush
// on.
func TestRebuildInBulk(t *testing.T) {
	events := story()
	m := newDisk(t)
	if _, err := commitStory(t.Context(), m, events[:2], 0); err != nil {
		t.Fatal(err)
	}
	testenv.Must(t, m.Rename(".git", ".git-broken"))
	testenv.Must(t, Init(m))
	r, err := Open(m, Options{Bulk: true})
	testenv.Must(t, err)
	last := events[len(events)-1]
	var all []change
	for _, e := range events {
		all = append(all, e.Changes...)
	}
	if _, err := r.Commit(t.Context(), Batch{First: 1, Last: last.Seq, Sum: last.Sum, Changes: all}); err != nil {
		t.Fatal(err)
	}
	testenv.Must(t, r.Flush())
	m.CrashAt(0, faultfs.Drop)
	checkStory(t, m.Reboot(), events)
}

func BenchmarkRebuild(b *testing.B) {
	h := newHive(b)
	h.opt.Bulk = true
	h.open()
	n := 0
	for b.Loop() {
		var many []change
		for range 512 {
			n++
			many = append(many,
				put(fmt.Sprintf("agents/agent-%02d/inbox/%07d.json", n%50, n), fmt.Sprintf(`{"n":%d}`, n)),
				put(fmt.Sprintf("agents/agent-%02d/outbox/.sent/%07d.json", n%49, n), fmt.Sprintf(`{"n":%d,"sent":true}`, n)))
			if n > 4000 {
				many = append(many, protocol.Change{Op: protocol.Delete, Path: fmt.Sprintf("agents/agent-%02d/inbox/%07d.json", (n-4000)%50, n-4000)})
			}
		}
		h.commitOnly(many...)
		testenv.Must(b, h.repo.Consolidate(b.Context()))
	}
	b.ReportMetric(float64(b.N*512)/b.Elapsed().Seconds(), "events/s")
}
