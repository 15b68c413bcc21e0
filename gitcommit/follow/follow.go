package follow

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/hived/hived/eventlog"
	"github.com/hived/hived/gitcommit"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/ledger"
	"github.com/hived/hived/protocol"
)

// queueBytes bounds what waits for git in memory. Entries beyond it are read from
// the log when their turn comes.
const (
	queueBytes = 64 << 20
	entryBytes = 256 // of an entry, beside its changes
)

// A commit costs what it changes, and the directories that it changes anything in:
// each is written whole. Where these are large, commits are fewer and larger: they
// wait for one batch for every worthBatch bytes, up to mostBatches, or for restMiB
// for every MiB, up to restMost. So history takes a share of a core and not all of
// it.
const (
	mostBatches = 8
	worthBatch  = 512 << 10
	restMiB     = 100 * time.Millisecond
	restMost    = 2 * time.Second
)

// Config configures a [Follower].
type Config struct {
	Settings protocol.GitSettings
	Log      *slog.Logger
	// Snapshot returns the state at some event of the log. The follower folds later
	// events into it.
	Snapshot func() (*ledger.State, eventlog.Position, error)
	// The others are called by the goroutine of [Follower.Run], which they must not
	// block: Ask with own files that a person committed and that must be logged
	// first, TakenBack when a person moved the branch back to an older commit, and
	// Landed when a commit was made, with the last event that git holds now.
	Ask       func(paths []string)
	TakenBack func()
	Landed    func(through protocol.Seq)
}

// Follower commits the events of the log to git, behind the delivery path and
// never in it (spec §6). It can always fall back on the log: what history lacks is
// read from there. All methods may be called while [Follower.Run] runs.
type Follower struct {
	disk durable.FS
	repo *gitcommit.Repo
	cfg  Config

	mu        sync.Mutex
	queue     []Entry      // events without a gap; guarded by mu
	bytes     int          // guarded by mu
	head      protocol.Seq // the last event in history; guarded by mu
	taken     protocol.Seq // the last event of the batch at work; guarded by mu
	last      protocol.Seq // the last event in the log; guarded by mu
	lastWorth protocol.Seq // the last one that is worth a commit; guarded by mu
	trouble   string       // why git is behind, for status; guarded by mu
	paused    bool         // guarded by mu

	source source  // of the goroutine that commits
	kept   []Entry // read from the log and not committed yet; of the same
	dirs   int64   // bytes of directories in the last commit; of the same
	wake   chan struct{}
	grew   chan struct{} // there is one more pack
	quiet  chan struct{} // memory is to be given back
	retry  backoff.BackOff
}

// New returns a Follower that begins where history ends.
func New(disk durable.FS, repo *gitcommit.Repo, cfg Config) (*Follower, error) {
	head, err := repo.Head()
	if err != nil {
		return nil, fmt.Errorf("read git history: %w", err)
	}
	b := backoff.NewExponentialBackOff()
	b.InitialInterval, b.MaxInterval = 100*time.Millisecond, 5*time.Second
	return &Follower{
		disk: disk, repo: repo, cfg: cfg, head: head.Seq, retry: b, source: newSource(disk, cfg.Snapshot),
		wake: make(chan struct{}, 1), grew: make(chan struct{}, 1), quiet: make(chan struct{}, 1),
	}, nil
}

// Add queues events that are in the log, in order: all of one batch of the loop,
// the last of which carries the views that they changed.
func (f *Follower) Add(list []Entry) {
	if len(list) == 0 {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	viewed := false
	for i := range list {
		viewed = viewed || list[i].views
		list[i].midBatch = viewed && i < len(list)-1
		if !list[i].idle {
			f.lastWorth = list[i].seq
		}
	}
	f.last = max(f.last, list[len(list)-1].seq)
	follows := max(f.head, f.taken)+1 == list[0].seq
	if n := len(f.queue); n > 0 {
		follows = f.queue[n-1].seq+1 == list[0].seq
	}
	if follows && f.bytes < queueBytes {
		for _, e := range list {
			f.queue = append(f.queue, e)
			f.bytes += entryBytes + e.bytes
		}
	}
	f.nudge()
}

// CatchUp makes the follower commit the log up to last, with events that were not added.
func (f *Follower) CatchUp(last protocol.Seq) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last = max(f.last, last)
	f.lastWorth = f.last
	f.nudge()
}

// Pause keeps the follower from committing, or lets it continue.
func (f *Follower) Pause(on bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.paused = on
	f.nudge()
}

func (f *Follower) nudge() { signal(f.wake) }

// Rest gives memory back as soon as there is nothing to commit.
func (f *Follower) Rest() {
	signal(f.quiet)
	f.nudge()
}

// giveMemoryBack gives memory back if [Follower.Rest] asked for it.
func (f *Follower) giveMemoryBack() {
	select {
	case <-f.quiet:
		f.repo.Rest()
		debug.FreeOSMemory()
	default:
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// consolidateLoop merges packs beside the commits, whenever there is a new one.
func (f *Follower) consolidateLoop(ctx context.Context) {
	signal(f.grew) // what an earlier daemon left
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.grew:
		}
		f.consolidate(ctx)
	}
}

func (f *Follower) consolidate(ctx context.Context) {
	if err := f.repo.Consolidate(ctx); err != nil && ctx.Err() == nil {
		f.cfg.Log.WarnContext(ctx, "git packs were not consolidated", slog.String("error", err.Error()))
	}
}

// Progress is how far history goes, and what holds it up.
type Progress struct {
	Head    protocol.Seq // the last event in it
	Lag     protocol.Seq // how many events it is behind, up to the last that is worth a commit of its own
	Trouble string       // what keeps it there, if anything
}

// Progress returns how far history goes.
func (f *Follower) Progress() Progress {
	f.mu.Lock()
	defer f.mu.Unlock()
	return Progress{Head: f.head, Lag: max(f.lastWorth, f.head) - f.head, Trouble: f.trouble}
}

// Run commits until ctx ends, and then commits what is left until drain ends.
func (f *Follower) Run(ctx, drain context.Context) {
	var beside sync.WaitGroup
	beside.Go(func() { f.consolidateLoop(ctx) })
	defer beside.Wait()
	defer f.source.close()
	x := indexer{stale: true, fresh: true}
	for {
		wait := f.commitOne(ctx, ifWorth)
		if wait == committed {
			x.stale, x.fresh = true, true
		}
		f.updateIndex(ctx, &x, wait)
		if wait != committed {
			f.giveMemoryBack()
		}
		if wait != committed && !f.sleep(ctx, min(wait, x.due(time.Now(), wait))) {
			break
		}
		if ctx.Err() != nil {
			break
		}
	}
	for failures := 0; failures < drainTries && drain.Err() == nil; {
		switch f.commitOne(drain, regardless) {
		case committed:
			failures = 0
		case forever:
			failures = drainTries
		default:
			failures++
		}
	}
	f.syncIndex(drain)
}

// drainTries bounds the attempts to commit at a stop.
const drainTries = 3

// committed is the wait after a commit: there may be more to do at once.
const committed = time.Duration(-1)

// forever is the wait when there is nothing to do.
const forever = time.Duration(1<<63 - 1)

func (f *Follower) sleep(ctx context.Context, wait time.Duration) bool {
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-f.wake:
	case <-t.C:
	}
	return ctx.Err() == nil
}

// urgency decides whether a commit waits until there is enough for one.
type urgency int

const (
	ifWorth urgency = iota
	regardless
)

// commitOne makes at most one commit. It returns how long to wait before the next
// call.
func (f *Follower) commitOne(ctx context.Context, u urgency) time.Duration {
	batch, wait := f.nextBatch(ctx, u)
	if batch == nil {
		return wait
	}
	if f.repo.Crowded() {
		f.consolidate(ctx)
	}
	made, err := f.repo.Commit(ctx, *batch)
	if err != nil {
		return f.handleFailure(ctx, err)
	}
	f.dirs, f.kept = made.Directories, nil
	if len(made.Overruled) > 0 {
		f.cfg.TakenBack()
	}
	f.retry.Reset()
	f.mu.Lock()
	f.head, f.trouble = batch.Last, ""
	f.mu.Unlock()
	f.cfg.Landed(batch.Last)
	signal(f.grew)
	return committed
}

// handleFailure notes why a commit was not made, and returns how long to wait. The
// queue is dropped: its events are read from the log when their turn comes again.
func (f *Follower) handleFailure(ctx context.Context, err error) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.queue, f.bytes, f.taken = nil, 0, f.head
	var own *gitcommit.OwnFilesChanged
	var step *gitcommit.OutOfStep
	switch {
	case errors.As(err, &own):
		f.kept = nil // it lacks the events that must be logged first
		f.cfg.Ask(own.Paths)
		return f.cfg.Settings.CommitDelay
	case errors.As(err, &step):
		f.head = step.Want - 1
		f.cfg.TakenBack()
		return 0
	case ctx.Err() != nil:
		return forever
	}
	if text := err.Error(); text != f.trouble {
		f.trouble = text
		f.cfg.Log.WarnContext(ctx, "git is behind", slog.String("error", text))
	}
	return f.retry.NextBackOff()
}

// nextBatch returns the next batch: from the queue, or from the log where the queue
// does not begin where history ends. It returns no batch and how long to wait where
// it is too early for one.
func (f *Follower) nextBatch(ctx context.Context, u urgency) (*gitcommit.Batch, time.Duration) {
	f.mu.Lock()
	head := f.head
	last := f.last
	idle := f.paused || last <= head
	queued := len(f.queue) > 0 && f.queue[0].seq == head+1
	most := f.batchLimit()
	list := f.queue[:wholeBatches(f.queue, most)]
	f.mu.Unlock()
	if idle || queued {
		f.source.close()
		f.kept = nil
	}
	if idle {
		return nil, forever
	}
	if !queued {
		if len(f.kept) > 0 && f.kept[0].seq != head+1 {
			f.kept = nil
		}
		var err error
		if list, err = f.source.read(ctx, f.kept, head, last, most); err != nil {
			err = fmt.Errorf("read the log for git: %w", err)
			f.cfg.Log.WarnContext(ctx, "git is behind", slog.String("error", err.Error()))
			f.mu.Lock()
			f.trouble = err.Error()
			f.mu.Unlock()
			return nil, f.retry.NextBackOff()
		}
		f.kept = list
	}
	if wait := f.waitForMore(list, u); wait != 0 {
		return nil, wait
	}
	b := newBatch(list)
	f.dequeue(list)
	return b, 0
}

// wholeBatches returns how many entries of a queue a commit takes: most, and as many
// more as it needs to end where the views are known.
func wholeBatches(queue []Entry, most int) int {
	n := min(len(queue), most)
	for n > 0 && n < len(queue) && queue[n-1].midBatch {
		n++
	}
	return n
}

// batchLimit returns how many events are worth a commit at once; it holds no more
// (spec §6.2).
func (f *Follower) batchLimit() int {
	return f.cfg.Settings.CommitBatch * int(min(max(1, f.dirs/worthBatch), mostBatches))
}

// waitForMore returns how long a batch should still wait for more events, zero if it
// should not.
func (f *Follower) waitForMore(list []Entry, u urgency) time.Duration {
	busy := false
	for _, e := range list {
		busy = busy || !e.idle
	}
	switch {
	case len(list) == 0 || !busy && u != regardless:
		return forever
	case u == regardless || len(list) >= f.batchLimit():
		return 0
	}
	delay := max(f.cfg.Settings.CommitDelay, min(time.Duration(f.dirs>>20)*restMiB, restMost))
	if age := time.Since(list[0].at); age >= 0 && age < delay {
		return delay - age
	}
	return 0
}

// dequeue removes a batch from the queue, with all entries that precede its end.
func (f *Follower) dequeue(list []Entry) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.taken = list[len(list)-1].seq
	for len(f.queue) > 0 && f.queue[0].seq <= f.taken {
		f.bytes -= entryBytes + f.queue[0].bytes
		f.queue[0] = Entry{} // else the slice would keep its changes in memory
		f.queue = f.queue[1:]
	}
}
