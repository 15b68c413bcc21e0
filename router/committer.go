package router

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

// entry is one event on its way into git.
type entry struct {
	seq     protocol.Seq
	sum     protocol.Sum
	at      time.Time
	kind    protocol.Kind
	line    string
	idle    bool // worth no commit of its own
	inside  bool // views that it changed come with a later one of its batch: no commit ends here
	changes []protocol.Change
	bytes   int
}

func newEntry(ev protocol.Event, sum protocol.Sum, changes []protocol.Change) entry {
	e := entry{seq: ev.Seq, sum: sum, at: ev.TS, kind: ev.Body.Kind(), line: protocol.Summary(ev), changes: changes}
	if h, ok := ev.Body.(*protocol.HiveEvent); ok && h.Action == protocol.Settled {
		e.idle = true
	}
	e.bytes = 256
	for _, c := range changes {
		e.bytes += len(c.Data)
	}
	return e
}

// queueBytes bounds what waits for git in memory. What goes over it is read
// from the log again when its turn comes.
const queueBytes = 64 << 20

// A commit costs what it changes, and the directories that it changes anything
// in: each is written whole. Where these are large, commits are fewer and larger:
// they wait for a batch for every worthBatch bytes, but for no more than mostBatches,
// or for restMiB for every MiB, but no longer than restMost. So history takes a
// share of a core and not all of it.
const (
	mostBatches = 8
	worthBatch  = 512 << 10
	restMiB     = 100 * time.Millisecond
	restMost    = 2 * time.Second
)

// committer brings the events of the log into git, behind the delivery path
// and never in it (spec §6). It can always fall back on the log: what history
// lacks is read from there.
type committer struct {
	disk      durable.FS
	repo      *gitcommit.Repo
	settings  protocol.GitSettings
	remember  protocol.RememberSettings
	log       *slog.Logger
	ask       func(paths []string) // own files that a person committed: to be logged first
	takenBack func()               // a person moved the branch back to an older commit
	landed    func(protocol.Seq)   // a commit landed; git holds the events up to this one

	mu      sync.Mutex
	queue   []entry      // events without a gap; guarded by mu
	bytes   int          // guarded by mu
	head    protocol.Seq // the last event in history; guarded by mu
	taken   protocol.Seq // the last event of the batch at work; guarded by mu
	last    protocol.Seq // the last event in the log; guarded by mu
	trouble string       // why git is behind, for status; guarded by mu
	paused  bool         // guarded by mu

	again  *ledger.State  // as of some event; of the goroutine that commits, while it reads the log
	wholes *ledger.Wholes // of the same
	kept   []entry        // what was read from the log and could not be committed; of the same
	dirs   int64          // bytes of directories in the last commit; of the goroutine that commits
	wake   chan struct{}
	grew   chan struct{} // there is one pack more
	quiet  chan struct{} // memory is to be given back
	retry  backoff.BackOff
}

func newCommitter(disk durable.FS, repo *gitcommit.Repo, settings protocol.Settings, log *slog.Logger) (*committer, error) {
	c := &committer{
		disk: disk, repo: repo, settings: settings.Git, remember: settings.Remember, log: log, wake: make(chan struct{}, 1), grew: make(chan struct{}, 1), quiet: make(chan struct{}, 1),
		ask: func([]string) {}, takenBack: func() {}, landed: func(protocol.Seq) {},
	}
	c.wholes = ledger.NewWholes(func(seq protocol.Seq) (protocol.Event, error) { return readEvent(disk, seq) })
	b := backoff.NewExponentialBackOff()
	b.InitialInterval, b.MaxInterval = 100*time.Millisecond, 5*time.Second
	c.retry = b
	head, err := repo.Head()
	if err != nil {
		return nil, fmt.Errorf("read git history: %w", err)
	}
	c.head = head.Seq
	return c, nil
}

// add hands over events that are in the log, in order.
func (c *committer) add(list []entry) {
	if len(list) == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = max(c.last, list[len(list)-1].seq)
	follows := max(c.head, c.taken)+1 == list[0].seq
	if n := len(c.queue); n > 0 {
		follows = c.queue[n-1].seq+1 == list[0].seq
	}
	if follows && c.bytes < queueBytes {
		for _, e := range list {
			c.queue = append(c.queue, e)
			c.bytes += e.bytes
		}
	}
	c.nudge()
}

// behind makes the committer catch up with a log that it did not see growing.
func (c *committer) behind(last protocol.Seq) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = max(c.last, last)
	c.nudge()
}

func (c *committer) pause(on bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.paused = on
	c.nudge()
}

func (c *committer) nudge() { signal(c.wake) }

// rest has memory given back as soon as there is nothing to commit.
func (c *committer) rest() {
	signal(c.quiet)
	c.nudge()
}

// restNow gives memory back if that was asked for.
func (c *committer) restNow() {
	select {
	case <-c.quiet:
		c.repo.Rest()
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

// tidy merges packs, beside the commits, for as long as there are new ones.
func (c *committer) tidy(ctx context.Context) {
	signal(c.grew) // what an earlier daemon left
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.grew:
		}
		c.consolidate(ctx)
	}
}

func (c *committer) consolidate(ctx context.Context) {
	if err := c.repo.Consolidate(ctx); err != nil && ctx.Err() == nil {
		c.log.WarnContext(ctx, "git packs were not consolidated", slog.String("error", err.Error()))
	}
}

// standing tells how far history goes and what keeps it there.
func (c *committer) standing() (head protocol.Seq, trouble string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.head, c.trouble
}

// run commits until ctx ends, and then what is left, for as long as the drain
// context allows.
func (c *committer) run(ctx, drain context.Context) {
	var beside sync.WaitGroup
	beside.Go(func() { c.tidy(ctx) })
	defer beside.Wait()
	x := indexer{stale: true, fresh: true}
	for {
		wait := c.work(ctx, ifWorth)
		if wait == committed {
			x.stale, x.fresh = true, true
		}
		c.bringUp(ctx, &x, wait)
		if wait != committed {
			c.restNow()
		}
		if wait != committed && !c.sleep(ctx, min(wait, x.due(time.Now(), wait))) {
			break
		}
		if ctx.Err() != nil {
			break
		}
	}
	for failures := 0; failures < drainTries && drain.Err() == nil; {
		switch c.work(drain, regardless) {
		case committed:
			failures = 0
		case forever:
			failures = drainTries
		default:
			failures++
		}
	}
	c.syncIndex(drain)
}

// indexer is how far git's index is behind history.
type indexer struct {
	stale bool          // there is something to bring up to date
	fresh bool          // and it is new since the last time
	at    time.Time     // when the last time ended
	took  time.Duration // what it took
	read  time.Time     // the last time with stat data
}

// The index is one file, written whole however little changed. So that it takes
// no more than one part in indexShare of the committer's time, it then rests for
// so many times what it took, but no longer than indexRestMost: a disk that stood
// still says nothing of what the index costs.
const (
	indexShare    = 50
	indexRestMost = 30 * time.Second
	// It is not brought up to date more often than this while there are commits to
	// make, or while what is left waits for files to grow old or for a lock.
	indexBusy = time.Second
)

// indexRest returns how long the index is left as it is after it was brought up
// to date, which took some time. Idle is when there is nothing to commit.
func indexRest(took time.Duration, idle bool) time.Duration {
	rest := min(took, indexRestMost/indexShare) * indexShare
	if idle {
		return rest
	}
	return max(rest, indexBusy)
}

// due returns how long it is until the index is to be brought up to date, when
// the next commit waits for so long.
func (x *indexer) due(now time.Time, wait time.Duration) time.Duration {
	if !x.stale {
		return forever
	}
	if x.at.IsZero() {
		return 0
	}
	return max(0, indexRest(x.took, wait == forever && x.fresh)-now.Sub(x.at))
}

// bringUp brings the index up to date if it is time for that.
func (c *committer) bringUp(ctx context.Context, x *indexer, wait time.Duration) {
	begin := time.Now()
	if x.due(begin, wait) > 0 {
		return
	}
	x.fresh = false
	if wait == committed && begin.Sub(x.read) < indexReads {
		c.indexError(ctx, c.repo.SyncNames(ctx)) // and it stays stale
	} else {
		x.stale = c.syncIndex(ctx)
		x.read = time.Now()
	}
	x.at = time.Now()
	x.took = x.at.Sub(begin)
}

// indexReads is how long the index goes without stat data of new files while
// there are commits to make.
const indexReads = 10 * time.Second

// drainTries is how often a commit is tried at a stop.
const drainTries = 3

// committed is the wait after a commit: there may be more to do at once.
const committed = time.Duration(-1)

// forever is the wait when there is nothing to do.
const forever = time.Duration(1<<63 - 1)

func (c *committer) sleep(ctx context.Context, wait time.Duration) bool {
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-c.wake:
	case <-t.C:
	}
	return ctx.Err() == nil
}

// syncIndex brings git's index up to date and tells whether it is still stale.
func (c *committer) syncIndex(ctx context.Context) bool {
	more, err := c.repo.SyncIndex(ctx)
	c.indexError(ctx, err)
	return more || err != nil
}

func (c *committer) indexError(ctx context.Context, err error) {
	if err != nil && !errors.Is(err, gitcommit.ErrLocked) && ctx.Err() == nil {
		c.log.WarnContext(ctx, "git index is behind", slog.String("error", err.Error()))
	}
}

// urgency is whether a commit waits until it is worth one.
type urgency int

const (
	ifWorth urgency = iota
	regardless
)

// work makes at most one commit. It says how long to wait before it is called
// again.
func (c *committer) work(ctx context.Context, u urgency) time.Duration {
	batch, wait := c.next(ctx, u)
	if batch == nil {
		return wait
	}
	if c.repo.Crowded() {
		c.consolidate(ctx)
	}
	made, err := c.repo.Commit(ctx, *batch)
	if err != nil {
		return c.failed(ctx, err)
	}
	c.dirs, c.kept = made.Directories, nil
	if len(made.Overruled) > 0 {
		c.takenBack()
	}
	c.retry.Reset()
	c.mu.Lock()
	c.head, c.trouble = batch.Last, ""
	c.mu.Unlock()
	c.landed(batch.Last)
	signal(c.grew)
	return committed
}

// failed notes why a commit was not made. The batch is given back: what it held
// is read from the log when its turn comes again.
func (c *committer) failed(ctx context.Context, err error) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.queue, c.bytes, c.taken = nil, 0, c.head
	var own *gitcommit.OwnFilesChanged
	var step *gitcommit.OutOfStep
	switch {
	case errors.As(err, &own):
		c.kept = nil // it lacks what is to be logged first
		c.ask(own.Paths)
		return c.settings.CommitDelay
	case errors.As(err, &step):
		c.head = step.Want - 1
		c.takenBack()
		return 0
	case ctx.Err() != nil:
		return forever
	}
	if text := err.Error(); text != c.trouble {
		c.trouble = text
		c.log.WarnContext(ctx, "git is behind", slog.String("error", text))
	}
	return c.retry.NextBackOff()
}

// next takes the next batch: from the queue, or from the log where the queue
// does not begin where history ends.
func (c *committer) next(ctx context.Context, u urgency) (*gitcommit.Batch, time.Duration) {
	c.mu.Lock()
	head := c.head
	last := c.last
	idle := c.paused || last <= head
	queued := len(c.queue) > 0 && c.queue[0].seq == head+1
	most := c.full()
	list := c.queue[:wholeBatches(c.queue, most)]
	c.mu.Unlock()
	if idle {
		return nil, forever
	}
	if queued {
		c.again, c.kept = nil, nil
	} else if len(c.kept) > 0 && c.kept[0].seq == head+1 {
		list = c.kept
	} else {
		var err error
		if list, err = c.read(ctx, head, last, most); err != nil {
			c.log.WarnContext(ctx, "git is behind", slog.String("error", err.Error()))
			c.mu.Lock()
			c.trouble = err.Error()
			c.mu.Unlock()
			return nil, c.retry.NextBackOff()
		}
		c.kept = list
	}
	if wait := c.early(list, u); wait != 0 {
		return nil, wait
	}
	b := newBatch(list)
	c.take(list)
	return b, 0
}

// wholeBatches is how many entries a commit takes of a queue: most, and as many
// more as it needs to end where the views are known.
func wholeBatches(queue []entry, most int) int {
	n := min(len(queue), most)
	for n > 0 && n < len(queue) && queue[n-1].inside {
		n++
	}
	return n
}

// full is how many events are worth a commit at once; it holds no more (spec §6.2).
func (c *committer) full() int {
	return c.settings.CommitBatch * int(min(max(1, c.dirs/worthBatch), mostBatches))
}

// early tells how long a batch should still wait for more, zero if it should
// not.
func (c *committer) early(list []entry, u urgency) time.Duration {
	busy := false
	for _, e := range list {
		busy = busy || !e.idle
	}
	switch {
	case len(list) == 0 || !busy && u != regardless:
		return forever
	case u == regardless || len(list) >= c.full():
		return 0
	}
	delay := max(c.settings.CommitDelay, min(time.Duration(c.dirs>>20)*restMiB, restMost))
	if age := time.Since(list[0].at); age >= 0 && age < delay {
		return delay - age
	}
	return 0
}

// take removes a batch from the queue, and whatever of the queue it overtook.
func (c *committer) take(list []entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.taken = list[len(list)-1].seq
	for len(c.queue) > 0 && c.queue[0].seq <= c.taken {
		c.bytes -= c.queue[0].bytes
		c.queue[0] = entry{} // what it holds is not held by those that follow
		c.queue = c.queue[1:]
	}
}

// read gives the next batch from the log, up to the last event that is known to
// be durable: what can be read may not be on the disk yet.
func (c *committer) read(ctx context.Context, head, last protocol.Seq, most int) ([]entry, error) {
	var list []entry
	bytes, viewed := 0, false
	for rec, err := range eventlog.Read(c.disk, eventlog.Position{Seq: head}) {
		if err != nil {
			return nil, fmt.Errorf("read the log for git: %w", err)
		}
		if rec.Event.Seq > last {
			break
		}
		if err := c.wholes.Fill(rec.Event); err != nil {
			return nil, err
		}
		changes, err := ledger.Changes(rec.Event)
		if err != nil {
			return nil, err
		}
		e := newEntry(rec.Event, rec.Sum, changes)
		list = append(list, e)
		viewed = viewed || ledger.ChangesView(rec.Event) != ""
		if bytes += e.bytes; len(list) >= most || bytes >= queueBytes/4 {
			break
		}
	}
	if viewed {
		end := &list[len(list)-1]
		views, err := c.viewsAt(ctx, head, end.seq)
		if err != nil {
			return nil, fmt.Errorf("read the log for git: %w", err)
		}
		end.changes = append(end.changes, views...)
	}
	return list, nil
}

// viewsAt gives the views that changed between two events, as of the second. The
// loop's state is further already, so the log is folded once more, from the
// snapshot if that does not go too far; the state is kept for the next batch.
func (c *committer) viewsAt(ctx context.Context, after, through protocol.Seq) ([]protocol.Change, error) {
	var from eventlog.Position
	if c.again == nil || c.again.Seq > after {
		state, at, _, err := readSnapshot(c.disk, c.remember)
		if err != nil || at.Seq > after {
			state, at = ledger.New(windowsOfViews), eventlog.Position{}
		}
		c.again, from = state, at
	}
	if from.Seq == 0 {
		from.Seq = c.again.Seq
	}
	views := ledger.NewViews(c.again)
	for rec, err := range eventlog.Read(c.disk, from) {
		if bad := (*eventlog.Mismatch)(nil); errors.As(err, &bad) {
			c.again = ledger.New(windowsOfViews) // the snapshot is of another log
			return c.viewsAt(ctx, after, through)
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			c.again = nil
			return nil, err
		}
		views.Fold(rec.Event)
		if rec.Event.Seq == after {
			views = ledger.NewViews(c.again)
		}
		if rec.Event.Seq == through {
			break
		}
	}
	return views.Take(), nil
}

// windowsOfViews is what a state remembers of ids and threads that is folded for
// its views alone, which show nothing of them.
var windowsOfViews = protocol.RememberSettings{IDs: 64, Conversations: 64}

func newBatch(list []entry) *gitcommit.Batch {
	last := list[len(list)-1]
	b := &gitcommit.Batch{First: list[0].seq, Last: last.seq, Sum: last.sum.String(), At: last.at, Subject: subject(list)}
	for _, e := range list {
		b.Lines = append(b.Lines, fmt.Sprintf("%d %s", e.seq, e.line))
		b.Changes = append(b.Changes, e.changes...)
	}
	return b
}

// subject says for a person what a commit holds: its only event, or how many
// of each kind.
func subject(list []entry) string {
	count := map[protocol.Kind]int{}
	var only *entry
	n := 0
	for i := range list {
		if !list[i].idle {
			only = &list[i]
			n++
			count[list[i].kind]++
		}
	}
	switch n {
	case 0:
		return "hive: settled"
	case 1:
		return "hive: " + only.line
	}
	text := ""
	for _, k := range protocol.Kinds() {
		if count[k] == 0 {
			continue
		}
		if text != "" {
			text += ", "
		}
		text += plural(count[k], string(k))
	}
	return "hive: " + text
}

func plural(n int, kind string) string {
	one, many := kind, kind+"s"
	switch protocol.Kind(kind) {
	case protocol.KindHive:
		one, many = "hive event", "hive events"
	case protocol.KindAgent:
		one, many = "roster change", "roster changes"
	case protocol.KindHandled:
		many = "handled"
	case protocol.KindFile:
		one, many = "file version", "file versions"
	case protocol.KindTask:
		one, many = "task step", "task steps"
	case protocol.KindTaskRejected:
		one, many = "refused task command", "refused task commands"
	case protocol.KindDelivered:
		one, many = "kept message delivered", "kept messages delivered"
	case protocol.KindMessage, protocol.KindDrop, protocol.KindQuarantine, protocol.KindDuplicate, protocol.KindAlert:
	}
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
