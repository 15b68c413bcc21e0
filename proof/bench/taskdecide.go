package bench

import (
	"context"
	"crypto/rand"
	"fmt"
	"runtime"
	"time"

	"github.com/hived/hived/ledger"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/router/decide"
)

var taskDecideRow = row{
	name: "tasks-decide",
	what: func(s sizes) string {
		return fmt.Sprintf("Deciding alone, without a disk: %d agents create, claim, start, report, and complete tasks, %s a round, with %s open. The baseline is the same with %s. Deciding is from the parsed message to its events, offers and notices included; what the views of the tasks cost is shown besides, without a target.",
			s.taskAgents, count(6*s.taskAgents, "commands"), count(s.tasks, "tasks"), count(s.tasksFew, "tasks"))
	},
	behind: "Each event is prepared for git at once, and a notice is a complete message: encoding JSON is half of it. The cost of finding a task does not depend on how many there are; with few tasks agents have free slots, and each new task is offered at once.",
	brief:  4 * time.Second, full: 40 * time.Second,
	disk: func(sizes) int64 { return fileDisk },
	measure: func(ctx context.Context, b *bench) (outcome, error) {
		s := b.sizes
		desks := [2]*desk{}
		for i, tasks := range []int{s.tasksFew, s.tasks} {
			b.tell(float64(i)/4, "%s are created", count(tasks, "tasks"))
			d, err := newDesk(s.taskAgents)
			if err == nil {
				err = d.create(tasks)
			}
			if err != nil {
				return outcome{}, err
			}
			desks[i] = d
		}
		var decide, views [2][]float64
		for round := range s.rounds {
			b.tell(0.5+float64(round)/float64(2*s.rounds), "round %d of %d", round+1, s.rounds)
			for i, d := range desks {
				took, rest, err := d.shift(ctx, s.taskAgents)
				if err != nil {
					return outcome{}, err
				}
				decide[i] = append(decide[i], median(took))
				views[i] = append(views[i], rest)
			}
		}
		return outcome{parts: []Part{
			compared("a command, median", "µs", decide[0], decide[1]).atMost(50),
			compared("a command, against few tasks", "µs", decide[0], decide[1]).timesAtMost(2),
			compared("the views, for each command", "µs", views[0], views[1]),
		}}, nil
	},
}

// desk decides the commands of agents without carrying anything out.
type desk struct {
	state     *ledger.State
	d         *decide.Decider
	now       time.Time
	n         int
	took      holding       // the task that was taken last
	drainTime time.Duration // time spent in Drain
}

func newDesk(agents int) (*desk, error) {
	s := workloadSettings()
	s.InboxCap = 1 << 24 // nobody reads here
	s.Remember = protocol.RememberSettings{IDs: 1000, Conversations: 1000}
	x := &desk{state: ledger.New(s.Remember), now: time.Now()}
	x.d = decide.New(x.state, s, rand.Reader, nil)
	x.d.Record(x.now, &protocol.AgentEvent{Agent: protocol.Human, Action: protocol.Joined})
	for i := range agents {
		x.d.Record(x.now, &protocol.AgentEvent{Agent: protocol.AgentID(nameOf(i)), Action: protocol.Joined})
	}
	return x, x.drain()
}

// drain takes what was decided from the decider. A refusal is an error.
func (x *desk) drain() error {
	begin := time.Now()
	list := x.d.Drain(x.now)
	x.drainTime += time.Since(begin)
	for _, d := range list {
		if e, ok := d.Event.Body.(*protocol.TaskEvent); ok && e.Event == claimed {
			x.took = holding{e.Task, e.Epoch}
		}
		if e, ok := d.Event.Body.(*protocol.TaskRejectedEvent); ok {
			return fmt.Errorf("a command was refused: %s by %s: %s", e.Event, e.By, e.Detail)
		}
	}
	return nil
}

// submit has a command decided and returns how long that took.
func (x *desk) submit(from protocol.AgentID, text string) (time.Duration, error) {
	m, err := protocol.DecodeMessage([]byte(text))
	if err != nil {
		return 0, fmt.Errorf("write a command: %w", err)
	}
	x.n++
	x.now = x.now.Add(time.Millisecond)
	name := fmt.Sprintf("%08d.json", x.n)
	a := protocol.Arrival{
		Agent: from, Name: name, Original: protocol.Original{Name: name}, ModTime: x.now, Raw: []byte(text), Size: int64(len(text)), Message: m,
	}
	begin := time.Now()
	_, err = x.d.Arrival(x.now, a)
	took := time.Since(begin)
	if err != nil {
		return 0, err
	}
	return took, x.drain()
}

func (x *desk) create(tasks int) error {
	for made := 0; made < tasks; made += createAtOnce {
		if _, err := x.submit(protocol.Human, createMany(made, min(createAtOnce, tasks-made))); err != nil {
			return err
		}
	}
	return nil
}

// shift has every agent take and complete a task. It returns how many µs each command
// took, and how many µs the views cost for each command.
func (x *desk) shift(ctx context.Context, agents int) (took []float64, views float64, err error) {
	x.drainTime = 0
	for i := range agents {
		if err := context.Cause(ctx); err != nil {
			return nil, 0, err
		}
		for k := -1; k < len(duties); k++ {
			text := command("claim", nil, "{}")
			if k >= 0 {
				text = duties[k].of(&x.took)
			}
			t, err := x.submit(protocol.AgentID(nameOf(i)), text)
			if err != nil {
				return nil, 0, err
			}
			took = append(took, us(t))
		}
	}
	return took, us(x.drainTime) / float64(len(took)), nil
}

func us(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// kept returns how many bytes of memory each task keeps: while it is open, and after it
// has ended and its retention is over. There are no agents to offer tasks to, so
// nothing else is kept.
func kept(tasks int) (open, gone float64, err error) {
	x, err := newDesk(0)
	if err != nil {
		return 0, 0, err
	}
	before := inUse()
	each := func() float64 { return float64(inUse()-before) / float64(tasks) }
	if err := x.create(tasks); err != nil {
		return 0, 0, err
	}
	open = each()
	if err := x.cancelAll(); err != nil {
		return 0, 0, err
	}
	x.now = x.now.Add(workloadSettings().Tasks.Retention + time.Hour)
	for more := true; more; {
		if more, err = x.d.Tasks(x.now, decide.Senses{}); err != nil {
			return 0, 0, err
		}
		if err := x.drain(); err != nil {
			return 0, 0, err
		}
	}
	gone = each()
	if left := x.state.Tasks.Len(); left > 0 {
		return 0, 0, fmt.Errorf("%d tasks are still there after their retention", left)
	}
	return open, gone, nil
}

// cancelAll cancels all tasks, and sweeps the commands that did it.
func (x *desk) cancelAll() error {
	var ids []protocol.TaskID
	for t := range x.state.Tasks.All() {
		ids = append(ids, t.ID)
	}
	for _, id := range ids {
		if _, err := x.submit(protocol.Human, command("cancel", &holding{id: id}, "{}")); err != nil {
			return err
		}
	}
	var sent []string
	for n := range x.n {
		sent = append(sent, fmt.Sprintf("%s/%08d.json", protocol.SentDir(protocol.Human), n+1))
	}
	x.d.Record(x.now, &protocol.HiveEvent{Action: protocol.Swept, Paths: sent})
	return x.drain()
}

func inUse() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc) //nolint:gosec // less than 2^63
}
