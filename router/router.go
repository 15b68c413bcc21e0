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
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/memory"
	"github.com/hived/hived/internal/snapshot"
	"github.com/hived/hived/ledger"
	"github.com/hived/hived/mailbox"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/router/agenda"
	"github.com/hived/hived/router/clock"
	"github.com/hived/hived/router/decide"
	"github.com/hived/hived/router/place"
)

// Config is what a [Router] is given. Only Settings is required.
type Config struct {
	Settings protocol.Settings
	Log      *slog.Logger
	Version  string
	// Once makes Run end by itself when nothing is left to do.
	Once bool
	// OnEvent is called for each event when it is durable, in order, by the loop:
	// it must not block.
	OnEvent func(protocol.Event)
	// OnCommit is called for each commit that has landed, with the last event that
	// git holds now, by the committer: it must not block.
	OnCommit func(through protocol.Seq)
	// OnStandstill is called for each message that is accepted, where the system says
	// since when its file is there, with the time that the loop has slept since then.
	// The loop calls it: it must not block.
	OnStandstill func(time.Duration)
	// Mkdir makes a directory of an agent or, with no id, tasks/, with the rights of
	// a hive in which agents have users of their own (spec §1.7). Where nil, they are
	// made with mode 0755. The loop calls it, or waits for who does.
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

// Headroom is the value of [Config.Headroom] for a daemon on its user's machine, in
// bytes: it makes a hive that carries thousands of messages a second a tenth faster,
// and is given back when the hive is quiet.
const Headroom = 48 << 20

// watcher sends hints about directories; [mailbox.Watcher] does so in a daemon.
type watcher interface {
	Run(ctx context.Context) error
	Add(id protocol.AgentID)
	AddHot(id protocol.AgentID)
	Watched(id protocol.AgentID) bool
	Hints() <-chan []mailbox.Hint
	Degraded() string
}

// Router is the loop of one hive's daemon. All its work is done by the
// goroutine that calls [Router.Run]; beside it run the watcher, the committer,
// and at times a sync of the disk.
type Router struct {
	core
	beside errgroup.Group // every goroutine that the loop starts and leaves running
	lock   hiveLock

	intake   intake
	inboxes  inboxes
	own      ownFiles
	believed believed
	sweeper  sweeper
	sync     syncPoints
	memory   memory.Memory
	report   report
	reads    reads
}

// core is what the parts of the loop work on together: the hive, what the log says
// about it, and what brings each of them up to date.
type core struct {
	cfg     Config
	disk    durable.FS
	boxes   *mailbox.Boxes
	watch   watcher
	clock   clock.Clock
	agenda  agenda.Agenda
	state   *ledger.State
	decider *decide.Decider
	events  journal
	place   *place.Placer
	git     *gitWatch
	alerts  alerts
}

// New takes the hive's lock, reads the log and redoes what a crash left undone. Where
// another daemon has the lock the error is [durable.ErrLocked]. On a disk that is no
// *[durable.Disk], one in memory, it neither locks nor watches: no other process is
// there, and the rescan finds everything.
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
		return open(disk, cfg, noWatcher{})
	}
	lock, err := takeLock(real)
	if err != nil {
		return nil, err
	}
	r, err := open(disk, cfg, mailbox.NewWatcher(real.Path("."), cfg.Log))
	if err != nil {
		return nil, errors.Join(err, lock.release())
	}
	r.lock = lock
	return r, nil
}

// open is New for any disk and any watcher.
func open(disk durable.FS, cfg Config, watch watcher) (*Router, error) {
	cfg.fill()
	s := cfg.Settings
	r := &Router{report: report{started: time.Now()}, reads: newReads()}
	c := &r.core
	c.cfg, c.disk, c.watch, c.clock = cfg, disk, watch, clock.New()
	c.boxes = mailbox.New(disk, mailbox.Options{Settle: s.Settle, StraysAfter: s.OutboxStraysAfter, MaxMessageBytes: s.MaxMessageBytes, OwnMaxBytes: s.OwnFiles.MaxBytes, OwnInclude: s.OwnFiles.Include, Mkdir: cfg.Mkdir})
	c.agenda = agenda.New(agenda.Options{Rescan: s.Rescan, Relist: c.boxes.Heard, Watched: watch.Watched, WatchHot: watch.AddHot, Unbounded: cfg.Once})
	c.alerts = newAlerts(cfg.Log, func(now time.Time, a *protocol.AlertEvent) error { return c.decider.Alert(now, a) })
	var found eventlog.Recovery
	var err error
	if c.events, c.state, found, err = openJournal(disk, &c.cfg, snapshot.Keeper{Disk: disk, Log: cfg.Log, Beside: &r.beside}, c.alerts.post); err != nil {
		return nil, err
	}
	c.decider = decide.New(c.state, s, cfg.Entropy, c.events.recall)
	checkpoints := ledger.NewCheckpoints(func(seq protocol.Seq) (protocol.Event, error) { return eventlog.ReadEvent(disk, seq) })
	c.place = place.New(place.Options{Disk: disk, Boxes: c.boxes, State: c.state, Checkpoints: checkpoints, Log: cfg.Log, MaxBytes: s.MaxMessageBytes, Loop: aside{r}})
	c.git = watchGit(disk, &c.cfg, c.alerts.post)

	r.intake = newIntake(c, r)
	r.inboxes = newInboxes(c, r)
	r.own = ownFiles{c}
	r.believed = newBelieved(c)
	r.sweeper = newSweeper(c)
	r.sync = syncPoints{disk: disk, beside: &r.beside}
	r.memory = memory.New(cfg.Headroom, func() { c.git.giveBack(&r.beside) })
	if err := r.git.matches(r.state.Seq); err != nil {
		return nil, errors.Join(err, r.events.Close())
	}
	if err := r.recover(found); err != nil {
		return nil, errors.Join(err, r.beside.Wait(), r.events.Close())
	}
	return r, nil
}

// drainFor bounds how long a stop may take.
const drainFor = 20 * time.Second

// Run works until ctx ends, or with [Config.Once] until nothing is left to do. It then
// finishes what it began, commits, waits for every goroutine that it started, and
// releases the lock: the next daemon finds nobody at work in the hive. After an error
// the disk can no longer be trusted, and the process must end.
func (r *Router) Run(ctx context.Context) error {
	work, stop := context.WithCancel(ctx)
	defer stop()
	drain, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	behind, halt := context.WithCancel(context.WithoutCancel(ctx))
	defer halt()

	watching, unwatch := context.WithCancel(context.WithoutCancel(ctx))
	r.beside.Go(func() error { return r.watch.Run(watching) })
	if r.git.usable() {
		r.beside.Go(func() error { r.git.Run(behind, drain); return nil })
	}
	r.memory.Begin()
	err := r.loop(work)
	if err == nil {
		err = r.finish(drain)
	}
	unwatch()
	t := time.AfterFunc(drainFor, cancel)
	defer t.Stop()
	halt()
	err = errors.Join(err, r.beside.Wait())
	r.memory.End()
	r.restoreLast()
	err = errors.Join(err, r.events.Close())
	r.writeStatus(time.Now())
	return errors.Join(err, r.lock.release())
}
