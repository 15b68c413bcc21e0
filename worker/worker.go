package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/hived/hived/agent"
	"github.com/hived/hived/capsule"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/worker/adapter"
)

// Config says for whom a worker works, and how.
type Config struct {
	Home Hive   // whose tasks come first
	Also []Hive // whose tasks it takes when there is none at home

	Adapter *adapter.Adapter
	Slots   int           // executions at one time
	Once    bool          // one execution, and no more
	Dir     string        // in which the agent's program works
	Timeout time.Duration // of one execution; zero: as the adapter has it, else the hive
	Grace   time.Duration // of a program that is asked to end
	Environ []string      // of which the program gets what its adapter names
	Log     *slog.Logger
}

// Hive is a hive in which the agent has a mailbox.
type Hive struct {
	Disk     *durable.Disk
	Box      *agent.Box
	Settings protocol.Settings
	Users    bool                 // each agent has a Unix user of its own
	Runs     func() (bool, error) // whether a daemon runs
}

// Capsule opens a task that the agent has under an epoch, to do or undo its steps. note
// is told what is waited for. The errors are those of [capsule.Open].
func (h Hive) Capsule(id protocol.TaskID, epoch uint64, note func(string)) (*capsule.Capsule, error) {
	s := h.Settings.Tasks
	return capsule.Open(capsule.Config{
		Disk: h.Disk, Box: h.Box, Task: id, Epoch: epoch, Users: h.Users, Retries: s.MaxRetries,
		LockWait: s.StepLockWait, Heartbeat: s.HeartbeatTimeout, Backoff: s.Backoff.After, Runs: h.Runs, Note: note,
	})
}

var (
	// ErrNoDaemon is the error of a single execution where no daemon runs.
	ErrNoDaemon = errors.New("no daemon runs; start it with `hived up`")
	// ErrNothing is the error of a single execution where there is nothing to do.
	ErrNothing = errors.New("nothing to do")
)

// Worker works for one agent.
type Worker struct {
	Config

	sites    []*site
	events   chan event
	running  map[*hold]bool // executions that have not ended
	circuits *circuits

	started  sync.WaitGroup // goroutines, for which Run waits
	quit     chan struct{}  // closed when nobody listens to events any more
	stopping bool           // nothing new is begun
	last     protocol.OutcomeKind
	ended    int // executions
}

// lockFile is locked by the worker of an agent.
const lockFile = "worker.lock"

// New returns the worker of an agent. It holds the agent's lock until release is called;
// where another worker has it, the error is a [durable.LockedError].
func New(c Config) (worker *Worker, release func() error, err error) {
	w := &Worker{Config: c, events: make(chan event), running: map[*hold]bool{}, quit: make(chan struct{})}
	for _, h := range append([]Hive{c.Home}, c.Also...) {
		w.sites = append(w.sites, newSite(h, c.Log))
	}
	home := w.sites[0]
	if err := home.Disk.MkdirAll(home.work(), 0o755); err != nil {
		return nil, nil, fmt.Errorf("make the worker's directory: %w", err)
	}
	lock, err := durable.TakeLock(home.Disk, home.work()+"/"+lockFile, nil)
	if err != nil {
		return nil, nil, err
	}
	w.circuits = openCircuits(home.Disk, home.work()+"/circuits.json", c.Adapter.Name)
	return w, lock.Release, nil
}

// Run works until ctx ends, or with Once until one execution has ended, whose kind it
// returns. A program that runs when ctx ends is asked to end, and its task given back.
func (w *Worker) Run(ctx context.Context) (protocol.OutcomeKind, error) {
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer w.started.Wait()
	defer stop()
	defer close(w.quit)
	if w.Once {
		if runs, err := w.sites[0].Runs(); err != nil || !runs {
			return "", errors.Join(err, ErrNoDaemon)
		}
	}
	for _, s := range w.sites {
		if err := s.begin(background, w); err != nil {
			return "", err
		}
	}
	told := ctx.Done() // nil once it is known
	for {
		now := time.Now()
		w.fill(ctx, background, now)
		if len(w.running) == 0 && w.claims() == 0 {
			switch {
			case w.stopping || w.Once && w.ended > 0:
				w.takeSlots(now)
				return w.last, nil
			case w.Once && w.circuits.why(now) != "":
				return "", fmt.Errorf("%w now: %s", ErrNothing, w.circuits.why(now))
			case w.Once && w.idle(now):
				return "", ErrNothing
			}
		}
		timer := time.NewTimer(time.Until(w.due(now)))
		select {
		case e := <-w.events:
			e.apply(w, time.Now())
		case <-timer.C:
			w.tick(time.Now())
		case <-told:
			told, w.stopping = nil, true
		}
		timer.Stop()
	}
}

// idle reports whether there is nothing that the worker could do, as far as is known.
func (w *Worker) idle(now time.Time) bool {
	for _, s := range w.sites {
		if !s.dry(now) || s.waiting() > 0 {
			return false
		}
	}
	return true
}

// claims returns how many claims are without an answer.
func (w *Worker) claims() (n int) {
	for _, s := range w.sites {
		n += s.claiming
	}
	return n
}

// tickMost is how long the worker does not look after its tasks at most.
const tickMost = time.Second

// event is something that happened meanwhile.
type event interface {
	apply(w *Worker, now time.Time)
}

// tell hands an event to the loop.
func (w *Worker) tell(e event) {
	select {
	case w.events <- e:
	case <-w.quit:
	}
}

// fill begins what can begin now: first what the agent has in hand already, then the best
// task that a hive has for it. An execution is told to stop by the end of ctx.
func (w *Worker) fill(ctx, background context.Context, now time.Time) {
	if w.stopping || w.Once && w.ended+len(w.running) > 0 {
		return
	}
	w.circuits.look(w.asks)
	w.takeSlots(now)
	free := w.Slots - len(w.running) - w.claims()
	if left, limited := w.circuits.left(now); limited {
		free = min(free, left-len(w.running)-w.claims())
	}
	if w.circuits.closedFor(now) > time.Minute {
		w.giveBack(w.circuits.why(now))
	}
	for _, s := range w.sites {
		for _, h := range s.ready() {
			if free <= 0 {
				return
			}
			w.execute(ctx, s, h)
			free--
		}
	}
	for _, s := range w.sites {
		free -= s.waiting()
	}
	for _, s := range w.sites {
		for free > 0 && s.mayClaim(now) {
			w.claim(ctx, background, s)
			free--
		}
		if !s.dry(now) {
			return // the other hives wait until there is nothing here
		}
	}
}

// giveBack gives back what the agent has in hand and nobody can work on, but for what is
// to be cancelled.
func (w *Worker) giveBack(why string) {
	for _, s := range w.sites {
		for _, h := range s.ready() {
			if !h.cancel {
				s.giveBack(h, why)
			}
		}
	}
}

// asks reports whether the question that a circuit waits for is still open.
func (w *Worker) asks(c circuit) bool {
	i := slices.IndexFunc(w.sites, func(s *site) bool { return s.Disk.Path(".") == c.Hive })
	return i >= 0 && w.sites[i].asks(c.Task, c.Ask)
}

// due returns when the worker has to do something by itself.
func (w *Worker) due(now time.Time) time.Time {
	at := now.Add(tickMost)
	for _, s := range w.sites {
		if t := s.dryUntil; t.After(now) && t.Before(at) {
			at = t
		}
	}
	return at
}

// tick looks after what nobody tells about.
func (w *Worker) tick(now time.Time) {
	for _, s := range w.sites {
		s.renew(now)
		s.rescan(now)
	}
	w.takeSlots(now)
}

// takeSlots tells the hives how many tasks the agent takes for now: none while the
// adapter's circuit is open, so that they are offered to others. When the worker ends,
// whoever goes on for the agent finds it as it was.
func (w *Worker) takeSlots(now time.Time) {
	n := w.Slots
	if left, limited := w.circuits.left(now); limited && left == 0 && !w.Once && !w.stopping {
		n = 0
	}
	for _, s := range w.sites {
		s.takeSlots(n)
	}
}

// execute begins an execution.
func (w *Worker) execute(ctx context.Context, s *site, h *hold) {
	h.running, h.poke = true, make(chan struct{}, 1)
	w.running[h] = true
	x := newExecution(w, s, *h)
	w.started.Go(func() {
		w.tell(ended{s, h, x.run(ctx)})
	})
}

// ended is the event that an execution has ended.
type ended struct {
	*site
	hold *hold
	result
}

func (e ended) apply(w *Worker, now time.Time) {
	delete(w.running, e.hold)
	e.hold.running, e.hold.through = false, e.through
	w.last = e.kind
	w.ended++
	w.circuits.note(e.result, now)
	w.takeSlots(now)
	e.look(e.hold.task, now)
}
