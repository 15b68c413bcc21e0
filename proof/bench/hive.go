package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hived/hived/hive"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/wait"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/router"
)

// testbed is a hive whose daemon runs in this process, so that what it does can
// be timed from inside.
type testbed struct {
	dir       string
	disk      *durable.Disk
	generator *generator
	stop      context.CancelFunc // nil: no daemon runs
	done      chan error
	hear      func(protocol.Event) // is told of each event, with mu held; may be nil
	longest   time.Duration        // that anything is waited for
	// standstill is told how long the loop slept beside each message; may be nil.
	standstill func(time.Duration)

	mu       sync.Mutex
	messages int              // that are in their inboxes; guarded by mu
	handled  int              // that agents took; guarded by mu
	last     protocol.Seq     // of the newest of these events; guarded by mu
	through  protocol.Seq     // git holds; guarded by mu
	placedAt time.Time        // of the newest message; guarded by mu
	newest   string           // its file; guarded by mu
	landedAt time.Time        // of the newest commit; guarded by mu
	over     bool             // the daemon ended; guarded by mu
	recent   []protocol.Event // the last events, at most mostRecent; guarded by mu
	changed  chan struct{}
}

// mostRecent is how many events are told of when something was waited for in vain.
const mostRecent = 20

// newHive makes a hive with agents in a fresh directory.
func (b *bench) newHive(ctx context.Context, agents int, yaml string) (*testbed, error) {
	dir, err := b.fresh()
	if err != nil {
		return nil, err
	}
	return makeHive(ctx, dir, agents, yaml, b.sizes.longest)
}

// A workload has agents send far more to each other than any that work do, so the
// breaker, which would take it for a loop, never opens (spec §4.3).
const (
	echoesNever = 1_000_000
	breakerOff  = "routing: {breaker: {echoes: 1000000}}\n"
)

// workloadSettings are the default ones, but for the breaker.
func workloadSettings() protocol.Settings {
	s := protocol.DefaultSettings()
	s.Routing.Breaker.Echoes = echoesNever
	return s
}

func makeHive(ctx context.Context, dir string, agents int, yaml string, longest time.Duration) (*testbed, error) {
	for i := range agents {
		if err := mkdirs(outboxOf(dir, i)); err != nil {
			return nil, err
		}
	}
	disk, err := durable.Open(dir)
	if err != nil {
		return nil, err
	}
	opt := hive.Options{Settings: workloadSettings(), Template: []byte(breakerOff + yaml), Now: time.Now()}
	if err := ctx.Err(); err != nil {
		return nil, errors.Join(err, disk.Close())
	}
	if err := hive.Init(disk, opt); err != nil { //nolint:contextcheck // it takes none: a hive is made whole or not at all
		return nil, errors.Join(fmt.Errorf("make a hive: %w", err), disk.Close())
	}
	return &testbed{dir: dir, disk: disk, generator: newGenerator(1), longest: longest, changed: make(chan struct{}, 1)}, nil
}

// up starts the daemon and returns when it is about to look around for the
// first time.
func (h *testbed) up(ctx context.Context, settings protocol.Settings) error {
	h.mu.Lock()
	h.messages, h.handled, h.over = 0, 0, false
	h.mu.Unlock()
	r, err := router.New(h.disk, router.Config{Settings: settings, Headroom: router.Headroom, OnEvent: h.onEvent, OnCommit: h.onCommit, OnStandstill: h.standstill})
	if err != nil {
		return err
	}
	// It is stopped in good order, by down.
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan error, 1)
	h.stop, h.done = cancel, done
	go func() {
		err := r.Run(ctx)
		h.mu.Lock()
		h.over = true // before down hears of it, and another up says that it runs
		h.mu.Unlock()
		done <- err
		h.signal()
	}()
	return nil
}

// down stops the daemon in good order.
func (h *testbed) down() error {
	if h.stop == nil {
		return nil
	}
	h.stop()
	h.stop = nil
	return wait.Ended(h.longest, "the daemon to stop", h.done, h.story)
}

// close gives back what is held; it may follow an error.
func (h *testbed) close() error { return errors.Join(h.down(), h.disk.Close()) }

func (h *testbed) onEvent(ev protocol.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.recent = append(h.recent, ev); len(h.recent) > 2*mostRecent {
		h.recent = slices.Delete(h.recent, 0, len(h.recent)-mostRecent)
	}
	if h.hear != nil {
		h.hear(ev)
	}
	kind := ev.Body.Kind()
	if e, ok := ev.Body.(*protocol.MessageEvent); ok {
		h.messages++
		h.placedAt = time.Now()
		if len(e.Delivered) > 0 {
			h.newest = filepath.Join(h.dir, protocol.InboxDir(e.Delivered[0]), e.File)
		}
	}
	if kind == protocol.KindHandled {
		h.handled++
	}
	if slices.Contains([]protocol.Kind{protocol.KindMessage, protocol.KindHandled, protocol.KindDelivered, protocol.KindTask, protocol.KindTaskRejected}, kind) {
		h.last = ev.Seq
		h.signal()
	}
}

func (h *testbed) onCommit(through protocol.Seq) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.through, h.landedAt = through, time.Now()
	h.signal()
}

func (h *testbed) signal() {
	select {
	case h.changed <- struct{}{}:
	default:
	}
}

// patience is how long agents outside of the daemon wait for a message, while
// none comes, before a row gives up.
const patience = 3 * time.Minute

// until waits for something that events and commits bring about. The condition
// is called with the lock held.
func (h *testbed) until(ctx context.Context, what string, there func() bool) error {
	over := false
	err := wait.Condition(ctx, h.longest, h.changed, what, func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		met := there()
		over = h.over && !met
		return met || over
	}, h.story)
	if over {
		err = wait.Ended(h.longest, "how the daemon ended", h.done)
		h.done <- err
		return fmt.Errorf("wait for %s: the daemon ended: %w", what, errors.Join(err, errStopped))
	}
	return err
}

// story is what is to see of the hive: its last events and its status.
func (h *testbed) story() string {
	h.mu.Lock()
	recent := slices.Clone(h.recent)
	h.mu.Unlock()
	status, err := os.ReadFile(filepath.Join(h.dir, protocol.StatusFile))
	if err != nil {
		status = []byte(err.Error())
	}
	var b strings.Builder
	for _, ev := range recent[max(0, len(recent)-mostRecent):] {
		fmt.Fprintln(&b, ev.Seq, protocol.Summary(ev))
	}
	return fmt.Sprintf("the last events:\n%sthe status:\n%s", &b, status)
}

var errStopped = errors.New("it must not")

// messagesIn waits until so many messages are in their inboxes and says when
// that was. The daemon says when it has placed a message; the newest is looked
// for.
func (h *testbed) messagesIn(ctx context.Context, n int) (time.Time, error) {
	if err := h.until(ctx, "the messages to be delivered", func() bool { return h.messages >= n }); err != nil {
		return time.Time{}, err
	}
	h.mu.Lock()
	at, newest := h.placedAt, h.newest
	h.mu.Unlock()
	gone := false
	err := wait.Condition(ctx, h.longest, always, newest+" to be there", func() bool {
		_, err := os.Lstat(newest)
		gone = gone || err != nil
		return err == nil
	}, h.story)
	if gone {
		at = time.Now()
	}
	return at, err
}

// always has a condition looked at again at once.
var always = closed()

func closed() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

// count makes sure that so many messages are in the inboxes.
func (h *testbed) count(agents, n int) error {
	there := 0
	for i := range agents {
		list, err := mail(inboxOf(h.dir, i))
		if err != nil {
			return err
		}
		there += len(list)
	}
	if there != n {
		return fmt.Errorf("%d messages are in the inboxes and %d were sent", there, n)
	}
	return nil
}

// committed waits until git holds all that was delivered and handled, and says
// since when.
func (h *testbed) committed(ctx context.Context) (time.Time, error) {
	err := h.until(ctx, "git to hold everything", func() bool { return h.through >= h.last })
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.landedAt, err
}

// takeMail does what agents do with their mail, and waits until that is known
// and committed.
func (h *testbed) takeMail(ctx context.Context, agents, n int) error {
	for i := range agents {
		if _, err := takeMail(h.dir, i); err != nil {
			return err
		}
	}
	if err := h.until(ctx, "the agents' handling to be seen", func() bool { return h.handled >= n }); err != nil {
		return err
	}
	_, err := h.committed(ctx)
	return err
}

// takeMail marks all mail of an agent as handled.
func takeMail(dir string, agent int) (int, error) {
	list, err := mail(inboxOf(dir, agent))
	if err != nil {
		return 0, err
	}
	for _, name := range list {
		if err := move(inboxOf(dir, agent)+"/"+name, doneOf(dir, agent)+"/"+name); err != nil {
			return 0, fmt.Errorf("handle a message: %w", err)
		}
	}
	return len(list), nil
}
