package gitcommit

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"runtime/metrics"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/protocol"
)

// messages makes the changes of message events of different text between twenty
// agents, each delivered to one of them and archived.
type messages struct {
	random *rand.Rand
	n      int
}

const textSize = 1024 // bytes of a message

func newMessages() *messages { return &messages{random: rand.New(rand.NewPCG(1, 2))} }

func (m *messages) next() []change {
	var text strings.Builder
	for text.Len() < textSize-100 {
		fmt.Fprintf(&text, "word-%x ", m.random.Uint32N(1<<16))
	}
	m.n++
	from, to := m.n%20, m.n/20%20
	name := fmt.Sprintf("01J8ZQ5V6W7X8Y9Z%010d.json", m.n)
	sent := fmt.Sprintf(`{"to":"agent-%02d","subject":"number %d","body":"%s"}`+"\n", to, m.n, text.String())
	inbox := fmt.Sprintf("{\n  \"id\": \"%s\",\n  \"from\": \"agent-%02d\",\n  \"to\": [\"agent-%02d\"],\n  \"act\": \"inform\",\n  \"subject\": \"number %d\",\n  \"body\": \"%s\",\n  \"hops\": 0,\n  \"seq\": %d,\n  \"received_at\": \"2026-01-01T00:00:00.%06dZ\"\n}\n",
		name[:26], from, to, m.n, text.String(), m.n, m.n)
	at := fmt.Sprintf("agents/agent-%02d/inbox/%s", to, name)
	return []change{
		{Op: protocol.Put, Path: at, Data: []byte(inbox), Blob: protocol.BlobOf([]byte(inbox))},
		put(fmt.Sprintf("agents/agent-%02d/outbox/.sent/m-%07d.json", from, m.n), sent),
	}
}

// runMessages commits what a hive does with n messages: they are delivered, handled
// in the next batch, and swept when there are more than 200 in a directory.
func (h *hive) runMessages(count, batch int, after func()) {
	h.t.Helper()
	const keep = 200
	m := newMessages()
	kept := make(map[string][]string)
	sweep := func(path string) (out []change) {
		dir := filepath.Dir(path)
		if kept[dir] = append(kept[dir], path); len(kept[dir]) > keep {
			out = append(out, del(kept[dir][0]))
			kept[dir] = kept[dir][1:]
		}
		return out
	}
	var unread []string
	for m.n < count {
		var many []change
		for _, path := range unread {
			done := filepath.Dir(path) + "/.done/" + filepath.Base(path)
			many = append(append(many, move(path, done)), sweep(done)...)
		}
		unread = unread[:0]
		for range batch {
			c := m.next()
			unread = append(unread, c[0].Path)
			many = append(append(many, c...), sweep(c[1].Path)...)
		}
		h.commitOnly(many...)
		after()
	}
}

func (h *hive) gitSize() (size int64) {
	h.t.Helper()
	err := filepath.WalkDir(filepath.Join(h.dir, ".git"), func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if info, err := d.Info(); err == nil {
				size += info.Size()
			}
		}
		return err
	})
	testenv.Must(h.t, err)
	return size
}

// againstGC returns the size of .git as a multiple of what git makes of it.
func (h *hive) againstGC() float64 {
	h.t.Helper()
	before := h.gitSize()
	h.git("gc", "-q", "--prune=now")
	return float64(before) / float64(h.gitSize())
}

func (h *hive) consolidate() {
	h.t.Helper()
	testenv.Must(h.t, h.repo.Consolidate(h.t.Context()))
}

func TestSizeOfHistory(t *testing.T) {
	h := gitHive(t)
	h.opt.Bulk = true
	h.open()
	h.runMessages(1000, 8, h.consolidate)
	h.wantFsckSilent()
	h.readAll(newStore(h.disk))
	if ratio := h.againstGC(); ratio > 1.5 {
		t.Errorf(".git is %.2f times what git gc makes of it", ratio)
	}
}

func BenchmarkSizeOfHistory(b *testing.B) {
	needGit(b)
	for _, batch := range []int{512, 64, 8} {
		b.Run(fmt.Sprintf("batch=%d", batch), func(b *testing.B) {
			for b.Loop() {
				h := newHive(b)
				h.opt.Bulk = true
				h.open()
				packs := 0
				h.runMessages(100_000, batch, func() {
					h.consolidate()
					packs = max(packs, h.packs())
				})
				b.ReportMetric(float64(h.gitSize()), "bytes")
				b.ReportMetric(h.againstGC(), "×git-gc")
				b.ReportMetric(float64(packs), "packs")
			}
		})
	}
}

// heapPeak runs a function and returns by how many bytes the heap grew meanwhile,
// live and garbage together.
func heapPeak(work func()) (peak uint64) {
	heap := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	runtime.GC()
	metrics.Read(heap)
	begin := heap[0].Value.Uint64()
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				metrics.Read(heap)
				peak = max(peak, heap[0].Value.Uint64())
			case <-stop:
				return
			}
		}
	}()
	work()
	close(stop)
	<-done
	return peak - min(peak, begin)
}

// As many objects as are ever merged at once.
func BenchmarkMergeMemory(b *testing.B) {
	for b.Loop() {
		h := newHive(b)
		h.opt.Bulk = true
		h.open()
		n := 0
		for _, size := range append(slices.Repeat([]int{mostObjects / 128}, 64), mostObjects/2-1000) {
			objects := make([]object, size)
			for i := range objects {
				n++
				objects[i] = object{kind: kindBlob, data: []byte(strconv.Itoa(n))}
				objects[i].id = objectID(kindBlob, objects[i].data)
			}
			if _, _, err := h.repo.packer.write(objects); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(heapPeak(h.consolidate))/(1<<20), "MiB")
		b.ReportMetric(float64(h.packs()), "packs")
	}
}
