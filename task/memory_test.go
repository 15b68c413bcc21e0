package task

import (
	"fmt"
	"reflect"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/protocol"
)

// BenchmarkMemory reports how many bytes of memory a live task takes in a [Book]:
// one that was created with a title and somebody to do it, offered to three,
// accepted, started, and has reached three checkpoints. Its events come from a log,
// so that it shares no text with other values.
func BenchmarkMemory(b *testing.B) {
	const tasks = 100_000
	perTask := 0.0
	for b.Loop() {
		before := heap()
		book := NewBook()
		seq := protocol.Seq(0)
		for n := range tasks {
			for _, e := range typicalLife(n) {
				seq++
				line, _, err := protocol.AppendLine(nil, protocol.Event{Seq: seq, TS: start.Add(time.Duration(seq) * 37 * time.Millisecond), Body: e}, protocol.Sum{})
				testenv.Must(b, err)
				ev, _, err := protocol.DecodeLine(line[:len(line)-1])
				testenv.Must(b, err)
				if err := book.Apply(ev, ev.Body.(*protocol.TaskEvent)); err != nil { //nolint:forcetypeassert // as it was written
					b.Fatal(err)
				}
			}
		}
		perTask = float64(heap()-before) / tasks
		runtime.KeepAlive(book)
	}
	b.ReportMetric(perTask, "B/task")
}

func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestTaskIsSmall checks that a Task fits into the allocator's size class that the
// benchmark's figure is for. What few tasks have belongs behind a pointer.
func TestTaskIsSmall(t *testing.T) {
	const word, most = 8, 512 // to larger objects the allocator adds a word of its own
	if size := reflect.TypeFor[Task]().Size(); strconv.IntSize == 8*word && size > most {
		t.Errorf("a task takes %d bytes, want %d at most", size, most)
	}
}

// typicalLife returns the events of a task until it is half done.
func typicalLife(n int) []*protocol.TaskEvent {
	id := protocol.TaskID(fmt.Sprintf("01M7YW2XY9P0EW1X9M%08d", n))
	holder := protocol.AgentID(fmt.Sprintf("builder-%d", n%1000))
	list := []*protocol.TaskEvent{
		{Event: Create, To: Unassigned, By: "planner", Of: 7, Spec: &protocol.TaskSpec{Title: fmt.Sprintf("build part %d of the whole", n), Body: "as the plan says", To: []protocol.Address{"@builder"}}},
		{Event: Offer, From: Unassigned, To: Offered, By: protocol.Hive, Agents: []protocol.AgentID{holder, "builder-1001", "builder-1002"}},
		{Event: Accept, From: Offered, To: Pending, By: holder, Epoch: 1},
		{Event: Start, From: Pending, To: InProgress, By: holder, Epoch: 1, Attempt: 1},
	}
	for i := range 3 {
		list = append(list, &protocol.TaskEvent{
			Event: Progress, From: InProgress, To: InProgress, By: holder, Epoch: 1, Attempt: 1,
			Checkpoint: &protocol.Checkpoint{Milestone: fmt.Sprintf("step %d is done", i), SHA256: fmt.Sprintf("%064d", i), Data: jsontext.Value(`{"step":1}`)},
		})
	}
	for _, e := range list {
		e.Task = id
	}
	return list
}
