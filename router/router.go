package router

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hived/hived/eventlog"
	"github.com/hived/hived/gitcommit"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/ledger"
	"github.com/hived/hived/mailbox"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/router/decide"
)

// Config is what a [Router] is given. Only Settings is required.
type Config struct {
	Settings protocol.Settings
	Log      *slog.Logger
	Version  string
	// Once makes Run end by itself when nothing is left to do.
	Once bool
	// OnEvent is called for each event when it is durable, in order, from the
	// loop: it must not block.
	OnEvent func(protocol.Event)
	// OnCommit is called after each commit landed, with the last event that
	// git holds now, from the committer: it must not block.
	OnCommit func(through protocol.Seq)
	// OnStandstill is called for each message that is taken in, where the system
	// tells since when its file stands there, with the time that the loop slept
	// since then: from the loop, so it must not block.
	OnStandstill func(time.Duration)
	// Mkdir makes one directory of an agent's or, with no id, tasks/, where its
	// rights are not those of everybody's (spec §1.7); with mode 0755 where nil. It
	// is called from the loop, or while the loop waits for it.
	Mkdir func(id protocol.AgentID, dir string) error
	// Headroom is how many bytes a busy hive may allocate before garbage is
	// collected, where that is more than the share of what is in use that the
	// process allows; in a quiet hive it is little. Zero leaves the collector
	// alone.
	Headroom int64
	// Entropy for ids; crypto/rand where nil.
	Entropy io.Reader
}

func (c *Config) fill() {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.OnEvent == nil {
		c.OnEvent = func(protocol.Event) {}
	}
	if c.OnCommit == nil {
		c.OnCommit = func(protocol.Seq) {}
	}
	if c.Entropy == nil {
		c.Entropy = rand.Reader
	}
}

// Headroom is what [Config.Headroom] is for a daemon with a machine of its
// user's: it makes a hive that carries thousands of messages a second a tenth
// faster, and is given back when it is quiet.
const Headroom = 48 << 20

// watcher gives hints about directories; package mailbox has the real one.
type watcher interface {
	Run(ctx context.Context) error
	Add(id protocol.AgentID)
	AddHot(id protocol.AgentID)
	Watched(id protocol.AgentID) bool
	Hints() <-chan []mailbox.Hint
	Degraded() string
}

// Router is the loop of one hive's daemon. All its work is done by the
// goroutine that calls [Router.Run]; beside it run the watcher and the
// committer.
type Router struct {
	cfg     Config
	disk    durable.FS
	lock    *durable.Lock
	relock  func() (*durable.Lock, error)
	events  *eventlog.Log
	state   *ledger.State
	decider *decide.Decider
	boxes   *mailbox.Boxes
	watch   watcher
	git     *committer // nil where there is no usable repository
	gitErr  error      // why not
	ignore  *gitcommit.Ignore
	started time.Time

	agents    map[protocol.AgentID]*attention
	order     []protocol.AgentID // of agents, in name order
	wants     wants
	timers    timers
	round     []protocol.AgentID                     // whose turn is still to come
	allowance int                                    // files that turns may still look at before the next rescan
	arrivals  []protocol.Arrival                     // of this batch, in the order of their events
	ahead     map[protocol.AgentID]mailbox.AgentScan // of outboxes, read for the next batch
	stuck     []decide.Decision                      // decided, but the log had no room
	unsealed  bool                                   // a segment of an older format is to be sealed before more is decided, and the log had no room
	originals map[original]filed                     // accepted files that still stand in an outbox
	debts     map[string]debt                        // placements that the disk refused, by path
	intruders []debt                                 // messages whose names are taken by something else
	refill    refill
	heldBack  map[protocol.AgentID]bool // something in their outboxes waits for the breaker
	root      attentionRoot
	alerts    chan *protocol.AlertEvent // from other goroutines
	forced    chan []string             // own files that a person committed
	back      chan struct{}             // history was taken back
	alerted   map[string]bool           // said once, not every two seconds
	righted   map[string]time.Time      // when it was told that a file was put right
	guide     []byte                    // PROTOCOL.md
	mark      checkpoint
	snapshot  snapshots
	rest      rest
	collector collector
	clock     clock
	whole     standing     // of the branch, when it held what was committed
	locked    time.Time    // when git's index was last seen locked
	due       bool         // the last step left timers of tasks that are due
	told      time.Time    // when the status was written
	toldSeq   protocol.Seq // and what it said
	toldLag   protocol.Seq
	busy      protocol.Seq // the newest event that is worth a commit
	stopping  bool         // the last pass: nothing waits any more
	asked     bool         // an outbox is to be looked at before a wait ends
	asleep    standstill
}

// standing is how far history is.
type standing struct {
	tip  protocol.Blob
	head protocol.Seq
}

// original identifies an outbox file.
type original struct {
	agent protocol.AgentID
	file  protocol.Original
}

// originalFile identifies a file by what does not change when it is moved there and
// back: renaming it sets its ctime.
func originalFile(id protocol.AgentID, o protocol.Original) original {
	o.CTime = ""
	return original{id, o}
}

// filed is where an accepted original belongs.
type filed struct {
	as    string
	seq   protocol.Seq
	swept bool // and retention has let it go meanwhile
}

// debt is a file that is owed to a directory, or the removal of one.
type debt struct {
	seq   protocol.Seq
	agent protocol.AgentID
	file  string // in the agent's inbox; empty: Path as it is
	data  []byte
	swept bool // it is to go
}

// New takes the hive's lock, reads the log and redoes what a crash left
// undone. Where another daemon holds the hive the error is
// [durable.ErrLocked]. On a disk that is no *[durable.Disk], one in memory, it
// neither locks nor watches: nobody else is there, and the pass finds all.
func New(disk durable.FS, cfg Config) (*Router, error) {
	cfg.fill()
	if err := cfg.Settings.Validate(); err != nil {
		return nil, err
	}
	if err := disk.MkdirAll(protocol.PathScratch, 0o755); err != nil {
		return nil, fmt.Errorf("make %s: %w", protocol.PathScratch, err)
	}
	real, ok := disk.(*durable.Disk)
	if !ok {
		return open(disk, cfg, deaf{})
	}
	lock, err := durable.TakeLock(real, protocol.LockFile, nil)
	if err != nil {
		return nil, fmt.Errorf("start hived here: %w", err)
	}
	r, err := open(disk, cfg, mailbox.NewWatcher(real.Path("."), cfg.Log))
	if err != nil {
		return nil, errors.Join(err, lock.Release())
	}
	r.lock = lock
	r.relock = func() (*durable.Lock, error) {
		if err := disk.MkdirAll(protocol.PathScratch, 0o755); err != nil {
			return nil, err
		}
		return durable.TakeLock(real, protocol.LockFile, nil)
	}
	return r, nil
}

// holdLock takes the lock again where somebody deleted its file, as `git clean
// -x` does: a second daemon must not find it free.
func (r *Router) holdLock() error {
	if r.lock == nil {
		return nil
	}
	if _, err := r.disk.Lstat(protocol.LockFile); !isNotExist(err) {
		return nil
	}
	lock, err := r.relock()
	if isNotExist(err) {
		return nil // whoever deletes .hived is still at it: the next pass tries again
	}
	if err != nil {
		return fmt.Errorf("hold the hive, whose lock was deleted: %w", err)
	}
	old := r.lock
	r.lock = lock
	return old.Release()
}

// open is New for any disk and any watcher.
func open(disk durable.FS, cfg Config, watch watcher) (*Router, error) {
	cfg.fill()
	s := cfg.Settings
	r := &Router{
		cfg: cfg, disk: disk, watch: watch, started: time.Now(), clock: newClock(), collector: collector{headroom: cfg.Headroom}, ignore: gitcommit.NewIgnore(disk),
		boxes:     mailbox.New(disk, mailbox.Options{Settle: s.Settle, StraysAfter: s.OutboxStraysAfter, MaxMessageBytes: s.MaxMessageBytes, OwnMaxBytes: s.OwnFiles.MaxBytes, OwnInclude: s.OwnFiles.Include, Mkdir: cfg.Mkdir}),
		agents:    map[protocol.AgentID]*attention{},
		ahead:     map[protocol.AgentID]mailbox.AgentScan{},
		originals: map[original]filed{},
		debts:     map[string]debt{},
		refill:    refill{waiting: map[protocol.AgentID]bool{}, filling: map[protocol.AgentID]bool{}},
		heldBack:  map[protocol.AgentID]bool{},
		alerts:    make(chan *protocol.AlertEvent, 64),
		forced:    make(chan []string, 16),
		back:      make(chan struct{}, 1),
		alerted:   map[string]bool{},
		righted:   map[string]time.Time{},
		guide:     protocol.Guide(s),
	}
	recovery, err := r.readLog()
	if err != nil {
		return nil, err
	}
	r.decider = decide.New(r.state, s, cfg.Entropy)
	r.decider.Recall, r.decider.RecallAll = r.recall, r.recallAll
	r.openGit()
	if err := r.fits(); err != nil {
		return nil, errors.Join(err, r.events.Close())
	}
	if err := r.recover(recovery); err != nil {
		return nil, errors.Join(err, r.events.Close())
	}
	return r, nil
}

func (r *Router) readLog() (eventlog.Recovery, error) {
	state, at := r.fromSnapshot()
	recovery, err := r.foldLog(state, at)
	if bad := (*eventlog.Mismatch)(nil); at.Seq > 0 && errors.As(err, &bad) {
		r.cfg.Log.Warn("the snapshot is not one of this log, the whole log is read", slog.String("error", err.Error()))
		recovery, err = r.foldLog(ledger.New(r.cfg.Settings.Remember), eventlog.Position{})
	}
	if damage := (*eventlog.Damage)(nil); errors.As(err, &damage) {
		return recovery, fmt.Errorf("read the log: %w%s", err, copiedAgain)
	}
	if err != nil {
		return recovery, fmt.Errorf("read the log: %w", err)
	}
	return recovery, nil
}

// foldLog opens the log and folds what comes after a position.
func (r *Router) foldLog(state *ledger.State, after eventlog.Position) (recovery eventlog.Recovery, err error) {
	r.state = state
	r.events, recovery, err = eventlog.Open(r.disk, eventlog.Options{SegmentBytes: r.cfg.Settings.Log.SegmentBytes, After: after}, func(ev protocol.Event) error {
		r.state.Apply(ev)
		return nil
	})
	return recovery, err
}

// openGit opens the repository. Without one delivery goes on: git is derived
// from the log and can be built again (spec §6).
func (r *Router) openGit() {
	repo, err := gitcommit.Open(r.disk, gitcommit.Options{
		StaleLock: r.cfg.Settings.Git.StaleLock,
		Alert: func(code, text string) {
			r.say(&protocol.AlertEvent{Code: protocol.Code(code), Text: text})
		},
	})
	if err == nil {
		r.git, err = newCommitter(r.disk, repo, r.cfg.Settings, r.cfg.Log)
	}
	if err != nil {
		r.git, r.gitErr = nil, err
		r.cfg.Log.Error("git is not usable, delivery goes on without it", slog.String("error", err.Error()))
		return
	}
	r.git.landed = r.cfg.OnCommit
	r.git.takenBack = func() {
		select {
		case r.back <- struct{}{}:
		default:
		}
	}
	r.git.ask = func(paths []string) {
		select {
		case r.forced <- paths:
		default:
		}
	}
}

// copiedAgain ends the refusals of a hive whose parts are not of one moment.
const copiedAgain = "; if this hive was copied while its daemon ran, stop that with `hived down` and copy it again"

// fits refuses a log that lost its end, or is another one: history names the
// events that it holds and the sum of the last (spec §6).
func (r *Router) fits() error {
	if r.git == nil {
		return nil
	}
	head, err := r.git.repo.Head()
	if err != nil || head.Seq == 0 {
		return nil
	}
	if head.Seq > r.state.Seq {
		return fmt.Errorf("start: git holds events up to %s, but the log ends with %s: its end is lost; bring log.jsonl back from a copy, or move it away and begin a new log from the files with `hived repair --adopt`%s", head.Seq, r.state.Seq, copiedAgain)
	}
	for rec, err := range eventlog.Read(r.disk, eventlog.Position{Seq: head.Seq - 1}) {
		if err == nil && rec.Sum.String() != head.Sum {
			return fmt.Errorf("start: event %s of the log is not the one that git holds (sum %s, not %s): this is another log; bring log.jsonl back from a copy, or move it away and begin a new log from the files with `hived repair --adopt`%s", head.Seq, rec.Sum, head.Sum, copiedAgain)
		}
		break
	}
	return nil
}

// say hands an alert to the loop. One that finds no room is in the daemon's
// own log only.
func (r *Router) say(a *protocol.AlertEvent) {
	select {
	case r.alerts <- a:
	default:
		r.cfg.Log.Warn("alert", slog.String("code", string(a.Code)), slog.String("text", a.Text))
	}
}

// drainFor bounds how long a stop may take.
const drainFor = 20 * time.Second

// Run works until ctx ends, or with Once until nothing is left to do. It then
// finishes what it began, commits, and gives the lock back. An error is a disk
// that can no longer be trusted, and the daemon must end with it.
func (r *Router) Run(ctx context.Context) error {
	work, stop := context.WithCancel(ctx)
	defer stop()
	drain, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	behind, halt := context.WithCancel(context.WithoutCancel(ctx))
	defer halt()

	var g errgroup.Group
	watching, unwatch := context.WithCancel(context.WithoutCancel(ctx))
	g.Go(func() error { return r.watch.Run(watching) })
	if r.git != nil {
		g.Go(func() error { r.git.run(behind, drain); return nil })
	}
	r.collector.begin()
	err := r.loop(work)
	if err == nil {
		err = r.finish(drain)
	}
	r.refill.close()
	r.rest.beside.Wait()
	r.collector.end()
	unwatch()
	t := time.AfterFunc(drainFor, cancel)
	defer t.Stop()
	halt()
	err = errors.Join(err, g.Wait(), r.restoreLast(), r.events.Close())
	r.writeStatus(time.Now())
	if r.lock != nil {
		err = errors.Join(err, r.lock.Release())
	}
	return err
}
