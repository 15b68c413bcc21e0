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
	if c.Entropy == nil {
		c.Entropy = rand.Reader
	}
}

// watcher gives hints about directories; package mailbox has the real one.
type watcher interface {
	Run(ctx context.Context) error
	Add(id protocol.AgentID)
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
	decider *Decider
	boxes   *mailbox.Boxes
	watch   watcher
	git     *committer // nil where there is no usable repository
	gitErr  error      // why not
	ignore  *gitcommit.Ignore
	started time.Time

	agents    map[protocol.AgentID]*attention
	order     []protocol.AgentID // of attention, for turns
	turn      int                // who comes first in the next batch
	arrivals  []mailbox.Arrival  // of this batch, in the order of their events
	stuck     []Decision         // decided, but the log had no room
	originals map[original]filed // accepted files that still stand in an outbox
	debts     map[string]debt    // placements that the disk refused, by path
	intruders []debt             // messages whose names are taken by something else
	refills   map[protocol.AgentID]bool
	missing   map[string]bool      // files of .done/ and .sent/ that the last look missed
	complete  map[string]time.Time // time of a directory when nothing was missing in it
	root      attentionRoot
	alerts    chan *protocol.AlertEvent // from other goroutines
	forced    chan []string             // own files that a person committed
	back      chan struct{}             // history was taken back
	alerted   map[string]bool           // said once, not every two seconds
	mark      checkpoint
	swept     time.Time
	told      time.Time    // when the status was written
	toldSeq   protocol.Seq // and what it said
	toldLag   protocol.Seq
	busy      protocol.Seq // the newest event that is worth a commit
	stopping  bool         // the last pass: nothing waits any more
}

// original identifies an outbox file.
type original struct {
	agent protocol.AgentID
	file  protocol.Original
}

// filed is where an accepted original belongs.
type filed struct {
	as  string
	seq protocol.Seq
}

// debt is a file that is owed to a directory.
type debt struct {
	seq   protocol.Seq
	agent protocol.AgentID
	file  string // in the agent's inbox; empty: Path as it is
	data  []byte
}

// New takes the hive's lock, reads the log and redoes what a crash left
// undone. Where another daemon holds the hive the error is
// [durable.ErrLocked].
func New(disk *durable.Disk, cfg Config) (*Router, error) {
	cfg.fill()
	if err := cfg.Settings.Validate(); err != nil {
		return nil, err
	}
	if err := disk.MkdirAll(protocol.PathScratch, 0o755); err != nil {
		return nil, fmt.Errorf("make %s: %w", protocol.PathScratch, err)
	}
	lock, err := durable.TakeLock(disk, LockFile, nil)
	if err != nil {
		return nil, fmt.Errorf("start hived here: %w", err)
	}
	r, err := open(disk, cfg, mailbox.NewWatcher(disk.Path("."), cfg.Log))
	if err != nil {
		return nil, errors.Join(err, lock.Release())
	}
	r.lock = lock
	r.relock = func() (*durable.Lock, error) {
		if err := disk.MkdirAll(protocol.PathScratch, 0o755); err != nil {
			return nil, err
		}
		return durable.TakeLock(disk, LockFile, nil)
	}
	return r, nil
}

// holdLock takes the lock again where somebody deleted its file, as `git clean
// -x` does: a second daemon must not find it free.
func (r *Router) holdLock() error {
	if r.lock == nil {
		return nil
	}
	if _, err := r.disk.Lstat(LockFile); !isNotExist(err) {
		return nil
	}
	lock, err := r.relock()
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
		cfg: cfg, disk: disk, watch: watch, started: time.Now(), ignore: gitcommit.NewIgnore(disk),
		state:     ledger.New(s.Remember),
		boxes:     mailbox.New(disk, mailbox.Options{Settle: s.Settle, StraysAfter: s.OutboxStraysAfter, MaxMessageBytes: s.MaxMessageBytes, OwnMaxBytes: s.OwnFiles.MaxBytes, OwnInclude: s.OwnFiles.Include}),
		agents:    map[protocol.AgentID]*attention{},
		originals: map[original]filed{},
		debts:     map[string]debt{},
		refills:   map[protocol.AgentID]bool{},
		missing:   map[string]bool{},
		complete:  map[string]time.Time{},
		alerts:    make(chan *protocol.AlertEvent, 64),
		forced:    make(chan []string, 16),
		back:      make(chan struct{}, 1),
		alerted:   map[string]bool{},
	}
	recovery, err := r.readLog()
	if err != nil {
		return nil, err
	}
	r.decider = NewDecider(r.state, s, cfg.Entropy)
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
	var recovery eventlog.Recovery
	var err error
	r.events, recovery, err = eventlog.Open(r.disk, eventlog.Options{SegmentBytes: r.cfg.Settings.Log.SegmentBytes}, func(ev protocol.Event) error {
		r.state.Apply(ev)
		return nil
	})
	if err != nil {
		return recovery, fmt.Errorf("read the log: %w", err)
	}
	return recovery, nil
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
		r.git, err = newCommitter(r.disk, repo, r.cfg.Settings.Git, r.cfg.Log)
	}
	if err != nil {
		r.git, r.gitErr = nil, err
		r.cfg.Log.Error("git is not usable, delivery goes on without it", slog.String("error", err.Error()))
		return
	}
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
		return fmt.Errorf("start: git holds events up to %s, but the log ends with %s: its end is lost; bring log.jsonl back from a copy, or move it away and begin a new log from the files with `hived repair --adopt`", head.Seq, r.state.Seq)
	}
	for rec, err := range eventlog.Read(r.disk, eventlog.Position{Seq: head.Seq - 1}) {
		if err == nil && rec.Sum.String() != head.Sum {
			return fmt.Errorf("start: event %s of the log is not the one that git holds (sum %s, not %s): this is another log; bring log.jsonl back from a copy, or move it away and begin a new log from the files with `hived repair --adopt`", head.Seq, rec.Sum, head.Sum)
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
	err := r.loop(work)
	if err == nil {
		err = r.finish(drain)
	}
	unwatch()
	t := time.AfterFunc(drainFor, cancel)
	defer t.Stop()
	halt()
	err = errors.Join(err, g.Wait(), r.restoreLast(), r.events.Close())
	r.writeStatus(time.Now(), true)
	if r.lock != nil {
		err = errors.Join(err, r.lock.Release())
	}
	return err
}
