package gitcommit

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/protocol"
)

// commitOnly commits changes without applying them to the work tree.
func (h *hive) commitOnly(changes ...change) {
	h.t.Helper()
	b := h.batch()
	b.Changes = changes
	if _, err := h.repo.Commit(h.t.Context(), b); err != nil {
		h.t.Fatal(err)
	}
}

// fill commits n messages of fifty agents in batches.
func (h *hive) fill(files int, commit func(...change)) {
	h.t.Helper()
	for at := 0; at < files; {
		var part []change
		for ; at < files && len(part) < 5000; at++ {
			part = append(part, put(fmt.Sprintf("agents/agent-%02d/inbox/.done/%04d/01J8ZQ5V6W7X8Y9Z%010d.json", at%50, at/2000, at), fmt.Sprintf(`{"n":%d}`, at)))
		}
		commit(part...)
	}
}

func BenchmarkCommit(b *testing.B) {
	for _, files := range []int{1_000, 100_000} {
		b.Run(fmt.Sprintf("hived/files=%d", files), func(b *testing.B) {
			h := newHive(b)
			h.fill(files, h.commitOnly)
			i := 0
			for b.Loop() {
				h.commitOnly(put(fmt.Sprintf("agents/agent-01/inbox/%d.json", i%100), fmt.Sprintf(`{"i":%d}`, i)))
				i++
			}
		})
		b.Run(fmt.Sprintf("batch=100/files=%d", files), func(b *testing.B) {
			h := newHive(b)
			h.fill(files, h.commitOnly)
			i := 0
			for b.Loop() {
				var many []change
				for j := range 100 {
					many = append(many, put(fmt.Sprintf("agents/agent-%02d/inbox/%d.json", j%50, j), fmt.Sprintf(`{"i":%d,"j":%d}`, i, j)))
				}
				h.commitOnly(many...)
				i++
			}
		})
		b.Run(fmt.Sprintf("git/files=%d", files), func(b *testing.B) {
			needGit(b)
			h := newHive(b)
			h.fill(files, func(c ...change) { h.commit(c...) })
			testenv.Must(b, os.WriteFile(filepath.Join(h.dir, ".git/info/exclude"), nil, 0o644))
			h.git("add", "-A")
			h.git("commit", "-qm", "all", "--allow-empty")
			i := 0
			for b.Loop() {
				h.write(fmt.Sprintf("agents/agent-01/inbox/%d.json", i%100), fmt.Sprintf(`{"i":%d}`, i))
				h.git("add", "-A")
				h.git("commit", "-qm", "one")
				i++
			}
		})
	}
}

// One directory of 10,000 files: its tree object is what grows.
func BenchmarkCommitInLargeDirectory(b *testing.B) {
	h := newHive(b)
	var many []change
	for i := range 10_000 {
		many = append(many, put(fmt.Sprintf("agents/a/inbox/.done/01J8ZQ5V6W7X8Y9Z%010d.json", i), "x"))
	}
	h.commitOnly(many...)
	i := 0
	for b.Loop() {
		h.commitOnly(put(fmt.Sprintf("agents/a/inbox/.done/01J9ZQ5V6W7X8Y9Z%010d.json", i), "x"))
		i++
	}
}

// A batch as the router makes it under load, without the disk's syncs.
func BenchmarkCommitBatch(b *testing.B) {
	const batch = 512
	h := newHive(b)
	h.opt.Bulk = true
	h.open()
	m := newMessages()
	var gone []change
	for b.Loop() {
		b.StopTimer()
		var many []change
		for range batch {
			many = append(many, m.next()...)
		}
		many, gone = append(many, gone...), nil
		for _, c := range many {
			if c.Op == protocol.Put {
				gone = append(gone, del(c.Path))
			}
		}
		next := h.batch()
		next.Changes = many
		b.StartTimer()
		if _, err := h.repo.Commit(b.Context(), next); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*batch), "µs/message")
}

// A batch about tasks in a hive that has many: the tree object of tasks/ names
// each of them.
func BenchmarkCommitTasks(b *testing.B) {
	for _, tasks := range []int{1_000, 100_000} {
		b.Run(fmt.Sprintf("tasks=%d", tasks), func(b *testing.B) {
			h := newHive(b)
			h.opt.Bulk = true
			h.open()
			file := func(i int, name string, n int) change {
				return put(fmt.Sprintf("tasks/01J8ZQ5V6W7X8Y9Z%010d/%s", i, name), fmt.Sprintf(`{"task":%d,"version":%d}`, i, n))
			}
			for at := 0; at < tasks; {
				var part []change
				for ; at < tasks && len(part) < 5000; at++ {
					part = append(part, file(at, "brief.json", 0), file(at, "task.json", 0))
				}
				h.commitOnly(part...)
			}
			n := 0
			for b.Loop() {
				n++
				var many []change
				for j := range 256 {
					many = append(many, file((n*7919+j*389)%tasks, "task.json", n))
				}
				h.commitOnly(many...)
			}
		})
	}
}
