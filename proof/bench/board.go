package bench

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/hived/hived/protocol"
)

// board is a hive whose agents work on tasks: they write commands into their outboxes
// and see the results in the log.
type board struct {
	*testbed
	agents  int
	sent    int // commands
	created int // tasks; guarded by mu
	waiting []draft

	answered   int // guarded by mu
	of         protocol.Seq
	answeredAt time.Time                    // guarded by mu
	refused    string                       // the first refusal; guarded by mu
	has        map[protocol.AgentID]holding // guarded by mu
	timers     int                          // tasks of which a timer fired; guarded by mu
	fired      map[protocol.TaskID]bool     // those tasks; guarded by mu
	probes     int                          // messages of the first agent that were delivered; guarded by mu
	probedAt   time.Time                    // when the newest was; guarded by mu
	probedAs   protocol.Seq                 // its event; guarded by mu
	last       protocol.Seq                 // the newest event; guarded by mu
	before     int                          // timers that fired before the newest probe; guarded by mu
}

// The events of tasks that a board counts.
const (
	offer        protocol.TaskAction = "offer"
	claimed      protocol.TaskAction = "claim"
	reminded     protocol.TaskAction = "remind"
	leaseExpired protocol.TaskAction = "lease_expired"
)

// holding is a task that an agent took.
type holding struct {
	id    protocol.TaskID
	epoch uint64
}

// draft is a command that is written but not sent yet.
type draft struct{ from, to string }

// newBoard makes a hive with agents, starts its daemon, and creates tasks.
func (b *bench) newBoard(ctx context.Context, agents, tasks int, settings protocol.Settings, tell func(share float64)) (*board, error) {
	h, err := b.newHive(ctx, agents, "")
	if err != nil {
		return nil, err
	}
	x := &board{testbed: h, agents: agents, has: map[protocol.AgentID]holding{}, fired: map[protocol.TaskID]bool{}}
	h.hear = x.onEvent
	if err := h.up(ctx, settings); err != nil {
		return nil, joinClose(err, h)
	}
	if err := x.create(ctx, tasks, tell); err != nil {
		return nil, joinClose(err, h)
	}
	return x, nil
}

// manyTasks returns the hive with as many open tasks as the targets say, which is made
// once in a run. No daemon runs.
func (b *bench) manyTasks(ctx context.Context) (*board, error) {
	if b.tasks == nil {
		x, err := b.newBoard(ctx, b.sizes.taskAgents, b.sizes.tasks, workloadSettings(), func(share float64) {
			b.tell(share/2, "%s are created: %d %%", count(b.sizes.tasks, "tasks"), int(100*share))
		})
		if err != nil {
			return nil, err
		}
		if err := x.down(); err != nil {
			return nil, joinClose(err, x)
		}
		b.tasks = x
	}
	return b.tasks, nil
}

func joinClose(err error, h interface{ close() error }) error { return errors.Join(err, h.close()) }

func (x *board) onEvent(ev protocol.Event) {
	var of protocol.Seq
	x.last = ev.Seq
	if e, ok := ev.Body.(*protocol.TaskEvent); ok {
		switch of = e.Of; {
		case e.From == "":
			x.created++
		case e.Event == claimed:
			x.has[e.By] = holding{e.Task, e.Epoch}
		case e.Event == reminded || e.Event == leaseExpired: // counted once: on a slow machine a lease may end before its reminder
			x.fired[e.Task] = true
			x.timers = len(x.fired)
		}
	}
	if e, ok := ev.Body.(*protocol.AgentEvent); ok {
		of = e.Of
	}
	if e, ok := ev.Body.(*protocol.MessageEvent); ok && e.From == protocol.AgentID(nameOf(0)) && len(e.Delivered) > 0 && e.Delivered[0] != protocol.Hive {
		x.probes++
		x.probedAt, x.probedAs, x.before = time.Now(), ev.Seq, x.timers
	}
	if e, ok := ev.Body.(*protocol.TaskRejectedEvent); ok {
		if of = e.Of; x.refused == "" {
			x.refused = fmt.Sprintf("%s by %s: %s", e.Event, e.By, e.Detail)
		}
	}
	if of > x.of { // the first event of an answer; others follow at once
		x.of = of
		x.answered++
		x.answeredAt = time.Now()
	}
}

// create makes tasks, many with one command.
func (x *board) create(ctx context.Context, tasks int, tell func(share float64)) error {
	for made := 0; made < tasks; {
		n := min(createAtOnce, tasks-made)
		if err := x.write(outboxOf(x.dir, made/createAtOnce%x.agents), createMany(made, n)); err != nil {
			return err
		}
		if err := x.publish(); err != nil {
			return err
		}
		made += n
		if _, err := x.allAnswered(ctx); err != nil {
			return err
		}
		tell(float64(made) / float64(tasks))
	}
	_, err := x.committed(ctx)
	return err
}

// createAtOnce is how many tasks are created with one command.
const createAtOnce = 500

// createMany returns a command that creates n tasks.
func createMany(from, n int) string {
	list := make([]byte, 0, n*80)
	for i := range n {
		if i > 0 {
			list = append(list, ',')
		}
		list = fmt.Appendf(list, `{"title":"task %d","body":"what is to be done","priority":%d}`, from+i, i%5)
	}
	return command("create", nil, `{"tasks":[`+string(list)+`]}`)
}

// write writes a command beside its final name.
func (x *board) write(outbox, text string) error {
	name := fmt.Sprintf("%08d.json", x.sent)
	x.sent++
	d := draft{filepath.Join(outbox, "."+name+".tmp"), filepath.Join(outbox, name)}
	x.waiting = append(x.waiting, d)
	return put(d.from, []byte(text))
}

// publish renames the drafts to their final names.
func (x *board) publish() error {
	for _, d := range x.waiting {
		if err := move(d.from, d.to); err != nil {
			return fmt.Errorf("send a command: %w", err)
		}
	}
	x.waiting = x.waiting[:0]
	return nil
}

// allAnswered waits until all commands are answered in the log, and returns when that
// was. A refusal is an error: these agents do nothing wrong.
func (x *board) allAnswered(ctx context.Context) (time.Time, error) {
	err := x.until(ctx, "all commands to be answered", func() bool { return x.answered >= x.sent || x.refused != "" })
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.refused != "" {
		return x.answeredAt, fmt.Errorf("a command was refused: %s", x.refused)
	}
	return x.answeredAt, err
}

// timed sends the drafts and returns how long it took until all were answered, and
// until all were committed.
func (x *board) timed(ctx context.Context) (answered, committed time.Duration, err error) {
	begin := time.Now()
	if err := x.publish(); err != nil {
		return 0, 0, err
	}
	a, err := x.allAnswered(ctx)
	if err != nil {
		return 0, 0, err
	}
	c, err := x.committed(ctx)
	return a.Sub(begin), max(c.Sub(begin), a.Sub(begin)), err
}

// untilIdle waits until a daemon that was just started has nothing more to do. It
// compares git's index with history once, before the second of two commits.
func (x *board) untilIdle(ctx context.Context) error {
	for range 2 {
		if err := x.create(ctx, 1, func(float64) {}); err != nil {
			return err
		}
	}
	return nil
}

// shift has every agent take a task, complete it, and create another. It returns the
// number of commands and how long they took.
func (x *board) shift(ctx context.Context) (commands int, answered, committed time.Duration, err error) {
	begin := x.sent
	for i := range x.agents {
		if err := x.write(outboxOf(x.dir, i), command("claim", nil, "{}")); err != nil {
			return 0, 0, 0, err
		}
	}
	a, c, err := x.timed(ctx)
	if err != nil {
		return 0, 0, 0, err
	}
	for i := range x.agents {
		if err := x.carryThrough(i); err != nil {
			return 0, 0, 0, err
		}
	}
	a2, c2, err := x.timed(ctx)
	return x.sent - begin, a + a2, c + c2, err
}

// carryThrough drafts the reports of an agent about the task that it took.
func (x *board) carryThrough(agent int) error {
	x.mu.Lock()
	h := x.has[protocol.AgentID(nameOf(agent))]
	x.mu.Unlock()
	for _, d := range duties {
		if err := x.write(outboxOf(x.dir, agent), d.of(&h)); err != nil {
			return err
		}
	}
	return nil
}

// duty is one of the commands that every agent sends in a shift.
type duty struct {
	event string
	its   bool // whether it is about the task that the agent took
	data  string
}

var duties = []duty{
	{"start", true, `{}`},
	{"progress", true, `{"milestone":"half of it","checkpoint":{"done":["this","that"],"next":"the rest"}}`},
	{"progress", true, `{"milestone":"nearly","checkpoint":{"done":["this","that","more"],"next":"the end"}}`},
	{"complete", true, `{"result":{"well":true}}`},
	{"create", false, `{"title":"one more","body":"what is to be done"}`},
}

func (d duty) of(h *holding) string {
	if !d.its {
		h = nil
	}
	return command(d.event, h, d.data)
}

// command returns a message to hived, about a task or about none.
func command(event string, about *holding, data string) string {
	if about == nil {
		return fmt.Sprintf(`{"to":"hive","act":"inform","event":%q,"data":%s}`, event, data)
	}
	return fmt.Sprintf(`{"to":"hive","act":"inform","event":%q,"task":%q,"epoch":%d,"data":%s}`, event, about.id, about.epoch, data)
}
