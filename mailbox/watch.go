package mailbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/hived/hived/protocol"
)

// Part is the part of a hive that a hint is about.
type Part string

// The parts.
const (
	PartOutbox  Part = "outbox"  // something may have arrived
	PartInbox   Part = "inbox"   // something left
	PartAltered Part = "altered" // a delivered file was written to
	PartOwn     Part = "own"     // a file of the agent's own, or one of its directories, changed
	PartAgents  Part = "agents"  // agents/ changed; no Agent
	PartRoot    Part = "root"    // board.md changed; no Agent
)

// Hint says where to look. Overflow says that hints were lost or could not come
// before: look everywhere.
type Hint struct {
	Agent    protocol.AgentID
	Part     Part
	Overflow bool
}

// Watcher turns the notices of the operating system into hints (spec §3.1). They
// only save time: any of them may be missing, late or needless.
type Watcher struct {
	root  string
	log   *slog.Logger
	hints chan []Hint

	mu     sync.Mutex
	events notifier            // guarded by mu; nil unless Run runs
	dirs   map[string]*watched // guarded by mu; by path
	unable string              // guarded by mu; why no hints come, or not all
}

// notifier is what is used of an [fsnotify.Watcher].
type notifier interface {
	Add(dir string) error
	Remove(dir string) error
}

// watched is a directory that is to be watched.
type watched struct {
	hint  Hint
	info  os.FileInfo // what is watched; nil: nothing is
	err   error       // why it cannot be
	heard time.Time   // when something happened here
}

// coldAfter is how long nothing must happen in an outbox before its watch may be
// given to a busier one.
const coldAfter = time.Minute

// ranks say which directories go without a watch where watches are scarce, the
// lowest first: a handled message or a changed note can wait for the next rescan.
var ranks = map[Part]int{PartInbox: 0, PartOwn: 1, PartOutbox: 2, PartAgents: 3, PartRoot: 3}

// NewWatcher returns a watcher of the hive at root. It watches nothing before Run.
func NewWatcher(root string, log *slog.Logger) *Watcher {
	root = filepath.Clean(root)
	return &Watcher{root: root, log: log, hints: make(chan []Hint), dirs: map[string]*watched{
		root:                                     {hint: Hint{Part: PartRoot}},
		filepath.Join(root, protocol.PathAgents): {hint: Hint{Part: PartAgents}},
	}}
}

// Hints returns a channel that sends all hints since the receive before, each once.
// Nothing waits for the receiver, and a million events cost it one wake-up. The first
// hint is an overflow, once everything that was added before Run is watched.
func (w *Watcher) Hints() <-chan []Hint { return w.hints }

// Degraded returns one line that says why hints are missing, and what to do about
// it; empty if all is well. Without hints everything still arrives within `rescan`,
// see [Watcher.Watched].
func (w *Watcher) Degraded() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.unable != "" {
		return w.unable
	}
	polled, why := 0, error(nil)
	for _, d := range w.dirs {
		if d.err != nil {
			polled, why = polled+1, d.err
		}
	}
	if polled == 0 {
		return ""
	}
	return fmt.Sprintf("%d directories are polled and not watched: %s", polled, remedy(why))
}

// Add watches the three directories of an agent: outbox, inbox, and the one that
// they are in. Calling it again costs only a stat each, and watches a directory that
// was replaced. It returns once they are watched; before Run it only records them.
//
// Where watches are scarce, outboxes come first.
func (w *Watcher) Add(id protocol.AgentID) { w.add(id, time.Time{}) }

// AddHot is Add for an agent in whose outbox something happens: where watches are
// scarce, it gets the watch of the outbox in which nothing happened for the longest
// time, if that is more than a minute.
func (w *Watcher) AddHot(id protocol.AgentID) { w.add(id, time.Now()) }

func (w *Watcher) add(id protocol.AgentID, heard time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, part := range agentParts {
		dir := w.dir(id, part)
		d := w.dirs[dir]
		if d == nil {
			d = &watched{hint: Hint{Agent: id, Part: part}}
			w.dirs[dir] = d
		}
		if !heard.IsZero() {
			d.heard = heard
		}
		w.armLocked(dir)
	}
}

// Watched reports whether hints come from all directories of an agent. If not, only
// a scan shows what happens there.
func (w *Watcher) Watched(id protocol.AgentID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.unable != "" {
		return false
	}
	for _, part := range agentParts {
		if d := w.dirs[w.dir(id, part)]; d == nil || d.info == nil {
			return false
		}
	}
	return true
}

// agentParts are the directories of an agent, the most urgent first.
var agentParts = [...]Part{PartOutbox, PartOwn, PartInbox}

// dir returns the path of one of an agent's directories.
func (w *Watcher) dir(id protocol.AgentID, part Part) string {
	name := protocol.AgentDir(id)
	switch part {
	case PartOutbox:
		name = protocol.OutboxDir(id)
	case PartInbox:
		name = protocol.InboxDir(id)
	case PartOwn, PartAltered, PartAgents, PartRoot:
	}
	return w.root + string(filepath.Separator) + filepath.FromSlash(name)
}

// armLocked watches the directory that is at a path now, unless it is watched
// already. A link is not followed.
func (w *Watcher) armLocked(dir string) {
	d := w.dirs[dir]
	if w.events == nil {
		return
	}
	info, err := os.Lstat(dir)
	if err != nil || !info.IsDir() {
		w.disarmLocked(dir)
		return
	}
	if d.info != nil && os.SameFile(d.info, info) {
		return
	}
	w.disarmLocked(dir)
	d.err = w.events.Add(dir)
	if scarce(d.err) && w.makeRoomLocked(d) {
		d.err = w.events.Add(dir)
	}
	if errors.Is(d.err, fs.ErrNotExist) {
		d.err = nil // gone in between
	} else if d.err == nil {
		d.info = info
	}
}

// makeRoomLocked gives up the least valuable watch if one on d is worth more: one of
// a lower rank, or one on a cold outbox if d is not cold.
func (w *Watcher) makeRoomLocked(d *watched) bool {
	rank := ranks[d.hint.Part]
	if rank < ranks[PartOutbox] {
		return false
	}
	var least *watched
	where := ""
	for dir, x := range w.dirs {
		by := ranks[x.hint.Part]
		if x.info == nil || by > rank || by == rank && d.heard.Sub(x.heard) < coldAfter {
			continue
		}
		if least == nil || cmp.Or(by-ranks[least.hint.Part], x.heard.Compare(least.heard)) < 0 {
			least, where = x, dir
		}
	}
	if least == nil {
		return false
	}
	w.disarmLocked(where)
	least.err = d.err
	return true
}

// scarce reports whether a watch was refused because there are too many already.
func scarce(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EMFILE)
}

func (w *Watcher) disarmLocked(dir string) {
	_ = w.events.Remove(dir)
	w.dirs[dir].info, w.dirs[dir].err = nil, nil
}

// Run watches until ctx ends, and then returns nil. If nothing can be watched,
// [Watcher.Degraded] says why, and Run waits.
func (w *Watcher) Run(ctx context.Context) error {
	events, err := fsnotify.NewWatcher()
	if err != nil {
		w.give(remedy(err))
		w.log.WarnContext(ctx, "cannot watch, polling instead", slog.String("error", err.Error()))
		<-ctx.Done()
		return nil
	}
	overflow := make(chan struct{}, 1)
	var drained sync.WaitGroup
	// fsnotify sends some errors with its lock held, which Add needs: they are
	// received by a goroutine that takes no lock.
	drained.Go(func() { w.drain(ctx, events.Errors, overflow) })
	w.give(eventless(w.root))
	w.begin(events)
	h := hintSet{hints: []Hint{{Overflow: true}}}
	w.loop(ctx, events.Events, overflow, &h)
	w.begin(nil)
	err = events.Close()
	drained.Wait()
	return err
}

func (w *Watcher) loop(ctx context.Context, events <-chan fsnotify.Event, overflow <-chan struct{}, h *hintSet) {
	for {
		var out chan []Hint
		if len(h.hints) > 0 {
			out = w.hints
		}
		select {
		case <-ctx.Done():
			return
		case out <- h.hints:
			*h = hintSet{}
		case <-overflow:
			w.rearm()
			*h = hintSet{hints: []Hint{{Overflow: true}}}
		case ev := <-events:
			w.take(ev, h)
		}
	}
}

func (w *Watcher) drain(ctx context.Context, errs <-chan error, overflow chan<- struct{}) {
	for err := range errs {
		if !errors.Is(err, fsnotify.ErrEventOverflow) {
			w.log.WarnContext(ctx, "watching", slog.String("error", err.Error()))
			continue
		}
		select {
		case overflow <- struct{}{}:
		default: // one is waiting already
		}
	}
}

func (w *Watcher) give(unable string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.unable = unable
}

// begin watches everything with events, the most urgent first, or with nil
// stops.
func (w *Watcher) begin(events notifier) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = events
	for _, d := range w.dirs {
		d.info, d.err = nil, nil
	}
	w.armAllLocked()
}

func (w *Watcher) armAllLocked() {
	dirs := slices.SortedFunc(maps.Keys(w.dirs), func(a, b string) int {
		x, y := w.dirs[a], w.dirs[b]
		return cmp.Or(ranks[y.hint.Part]-ranks[x.hint.Part], y.heard.Compare(x.heard), cmp.Compare(a, b))
	})
	for _, dir := range dirs {
		w.armLocked(dir)
	}
}

// rearm watches everything anew after notices were lost.
func (w *Watcher) rearm() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, d := range w.dirs {
		d.info = nil
	}
	w.armAllLocked()
}

// take turns a notice into hints.
func (w *Watcher) take(ev fsnotify.Event, h *hintSet) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.dirs[ev.Name] != nil && ev.Op&(fsnotify.Create|fsnotify.Remove|fsnotify.Rename) != 0 {
		w.replacedLocked(ev.Name, h)
	}
	dir, name := filepath.Split(ev.Name)
	d := w.dirs[filepath.Clean(dir)]
	if d == nil {
		return
	}
	d.heard = time.Now()
	if part := tells(d.hint.Part, name, ev.Op); part != "" {
		h.add(Hint{Agent: d.hint.Agent, Part: part})
	}
}

// replacedLocked watches what is at the paths of a directory, and of those below it,
// now. It also adds hints, because something may have happened there before.
func (w *Watcher) replacedLocked(top string, h *hintSet) {
	for dir, d := range w.dirs {
		if dir != top && !strings.HasPrefix(dir, top+string(filepath.Separator)) {
			continue
		}
		d.info = nil
		w.armLocked(dir)
		h.add(d.hint)
	}
	if d := w.dirs[top]; d.hint.Part != PartOwn || d.info != nil || d.err != nil {
		return
	}
	// The agent is gone, or is being made again: then it is added again.
	for dir := range w.dirs {
		if dir == top || strings.HasPrefix(dir, top+string(filepath.Separator)) {
			delete(w.dirs, dir)
		}
	}
}

// tells returns the part that a notice from the directory of a part is a hint about;
// none if it is not worth a scan. What hived does itself, and what is not finished,
// is not: delivering makes no hint in an inbox, and archiving none in an outbox.
func tells(part Part, name string, op fsnotify.Op) Part {
	const moved = fsnotify.Create | fsnotify.Remove | fsnotify.Rename
	worth := false
	switch part {
	case PartOutbox:
		worth = protocol.IsMessageName(name) && op&(fsnotify.Create|fsnotify.Write) != 0
	case PartInbox:
		worth = protocol.IsMessageName(name) && op&(fsnotify.Remove|fsnotify.Rename) != 0
		if !worth && protocol.IsMessageName(name) && op&fsnotify.Write != 0 {
			return PartAltered
		}
	case PartOwn:
		worth = ownName(name) && op&(moved|fsnotify.Write) != 0
	case PartAgents:
		worth = op&moved != 0
	case PartRoot:
		worth = name == protocol.PathBoard && op&(moved|fsnotify.Write) != 0
	case PartAltered:
	}
	if !worth {
		return ""
	}
	return part
}

// hintSet holds each hint once.
type hintSet struct {
	hints []Hint
	have  map[Hint]bool
}

func (s *hintSet) add(h Hint) {
	if s.have[h] || len(s.hints) > 0 && s.hints[0].Overflow {
		return
	}
	if s.have == nil {
		s.have = map[Hint]bool{}
	}
	s.have[h] = true
	s.hints = append(s.hints, h)
}

// remedy returns what to do about a refused watch.
func remedy(err error) string {
	switch {
	case errors.Is(err, syscall.ENOSPC):
		return "the limit of watches is reached; raise the sysctl fs.inotify.max_user_watches"
	case errors.Is(err, syscall.EMFILE):
		return "polling, the limit of watchers or of open files is reached; raise the sysctl fs.inotify.max_user_instances or `ulimit -n`"
	}
	return "watching fails: " + protocol.Visible(err.Error())
}
