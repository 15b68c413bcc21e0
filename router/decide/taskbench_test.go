package decide

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/ledger"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

// office is a Decider with many agents that work on many tasks. An agent uses only what
// a real one knows: what it was offered and what it holds.
type office struct {
	tb     testing.TB
	d      *Decider
	now    time.Time
	agents []protocol.AgentID
	n      int
}

func newOffice(tb testing.TB, agents, tasks int) *office {
	tb.Helper()
	s := protocol.DefaultSettings()
	oneClock(&s.Tasks)
	s.InboxCap = 1 << 30 // nobody reads here
	c := &office{tb: tb, now: time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)}
	c.d = New(ledger.New(s.Remember), s, zeros{}, noLog)
	c.d.Record(c.now, &protocol.AgentEvent{Agent: protocol.Human, Action: protocol.Joined})
	for i := range agents {
		c.agents = append(c.agents, protocol.AgentID(fmt.Sprintf("agent-%04d", i)))
		c.d.recordAgent(c.now, &protocol.AgentEvent{Agent: c.agents[i], Action: protocol.Joined, Slots: OffersWaiting})
	}
	c.d.Drain(c.now)
	c.create(tasks)
	return c
}

func (c *office) create(tasks int) {
	for made := 0; made < tasks; made += 100 {
		var list []byte
		for i := range min(100, tasks-made) {
			list = fmt.Appendf(list, `{"title":"task number %d","body":"what is to be done","priority":%d},`, made+i, i%5)
		}
		c.say(c.agents[made/100%len(c.agents)], "create", "", 0, `{"tasks":[`+string(list[:len(list)-1])+`]}`)
		c.d.Drain(c.now)
	}
}

// say has an agent send a command, and returns how long it took to decide.
func (c *office) say(from protocol.AgentID, event string, id protocol.TaskID, epoch uint64, data string) time.Duration {
	text := fmt.Sprintf(`{"to":"hive","act":"inform","event":%q,"task":%q,"epoch":%d,"data":%s}`, event, id, epoch, data)
	if id == "" {
		text = fmt.Sprintf(`{"to":"hive","act":"inform","event":%q,"data":%s}`, event, data)
	}
	m, err := protocol.DecodeMessage([]byte(text))
	if err != nil {
		c.tb.Fatalf("%s: %v", text, err)
	}
	c.n++
	name := fmt.Sprintf("%d.json", c.n)
	a := protocol.Arrival{
		Agent: from, Name: name, Original: protocol.Original{Name: name}, ModTime: c.now, Raw: []byte(text), Size: int64(len(text)), Message: m,
	}
	begin := time.Now()
	testenv.Must(c.tb, c.d.takeIn(c.now, a))
	took := time.Since(begin)
	for i := range c.d.out {
		if no, refused := c.d.out[i].Event.Body.(*protocol.TaskRejectedEvent); refused {
			c.tb.Fatalf("%s: %s", text, no.Detail)
		}
	}
	return took
}

// turn has one agent work on one task from its creation to its end, and returns how long
// each command took to decide.
func (c *office) turn(i int) (took [8]time.Duration) {
	by := c.agents[i%len(c.agents)]
	c.now = c.now.Add(time.Millisecond)
	took[0] = c.say(by, "create", "", 0, fmt.Sprintf(`{"title":"one more, %d","body":"what is to be done"}`, i))
	if offers := c.d.plan.hand(by).offers; len(offers) > 1 {
		took[1] = c.say(by, "reject", offers[0].ID, 0, `{"reason":"no time"}`)
	}
	took[2] = c.say(by, "claim", "", 0, `{}`)
	t := c.holds(by)
	took[3] = c.say(by, "start", t.ID, t.Epoch, `{}`)
	for j := range 3 {
		took[4+j] = c.say(by, "progress", t.ID, t.Epoch, fmt.Sprintf(`{"milestone":"step %d","checkpoint":{"done":[%d,%d],"next":"step"}}`, j, i, j))
	}
	took[7] = c.say(by, "complete", t.ID, t.Epoch, fmt.Sprintf(`{"result":{"n":%d}}`, i))
	return took
}

// holds returns the task that an agent has just claimed.
func (c *office) holds(by protocol.AgentID) *task.Task {
	for _, x := range slices.Backward(c.d.out) {
		if e, ok := x.Event.Body.(*protocol.TaskEvent); ok && e.By == by && e.Event == task.Claim {
			return c.d.state.Tasks.Get(e.Task)
		}
	}
	c.tb.Fatalf("%s has no task", by)
	return nil
}

// BenchmarkTaskDecide measures what a command costs, which should not depend on how many
// tasks are open. Besides the median it reports what the views of a batch cost for each
// command.
func BenchmarkTaskDecide(b *testing.B) {
	names := [8]string{"create", "reject", "claim", "start", "progress", "progress", "progress", "complete"}
	for _, open := range []int{1_000, 100_000} {
		b.Run(fmt.Sprintf("open=%d", open), func(b *testing.B) {
			c := newOffice(b, 1_000, open)
			all, of := []time.Duration{}, map[string][]time.Duration{}
			var views time.Duration
			i := 0
			for b.Loop() {
				for k, took := range c.turn(i) {
					if took > 0 {
						all, of[names[k]] = append(all, took), append(of[names[k]], took)
					}
				}
				if i++; i%8 == 0 {
					begin := time.Now()
					c.d.Drain(c.now)
					views += time.Since(begin)
				}
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(middle(all), "ns/command")
			b.ReportMetric(float64(views.Nanoseconds())/float64(len(all)), "views-ns/command")
			for name, list := range of {
				b.ReportMetric(middle(list), "ns/"+name)
			}
		})
	}
}

func middle(list []time.Duration) float64 {
	slices.Sort(list)
	return float64(list[len(list)/2].Nanoseconds())
}

// BenchmarkTaskTimers measures how long one call of Tasks keeps messages waiting when
// 10,000 tasks are due at once, and how long all calls take.
func BenchmarkTaskTimers(b *testing.B) {
	const agents = 10_000
	var calls []time.Duration
	var whole time.Duration
	for b.Loop() {
		c := newOffice(b, agents, agents)
		for _, id := range c.agents {
			if len(c.d.plan.hand(id).offers) > 0 {
				c.say(id, "claim", "", 0, `{}`)
			}
		}
		c.d.Drain(c.now)
		c.now = c.now.Add(time.Hour)
		for more := true; more; {
			begin := time.Now()
			var err error
			more, err = c.d.Tasks(c.now, Senses{})
			testenv.Must(b, err)
			c.d.Drain(c.now)
			took := time.Since(begin)
			calls, whole = append(calls, took), whole+took
		}
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(middle(calls)/1e6, "ms/call")
	b.ReportMetric(float64(calls[len(calls)-1].Nanoseconds())/1e6, "ms/longest")
	b.ReportMetric(float64(len(calls))/float64(b.N), "calls")
	b.ReportMetric(whole.Seconds()/float64(b.N), "s/all")
}

// BenchmarkTaskMemory measures how much memory a live task takes in its own state, the
// plan and the ledger.
func BenchmarkTaskMemory(b *testing.B) {
	const tasks = 100_000
	var each float64
	for b.Loop() {
		c := newOffice(b, 1_000, 0)
		before := inUse()
		c.create(tasks)
		each = float64(inUse()-before) / tasks
		runtime.KeepAlive(c)
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(each, "B/task")
}

func inUse() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
