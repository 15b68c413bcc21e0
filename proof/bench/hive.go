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

// testbed is a hive whose daemon runs in this process, so that its work can be timed
// from inside.
type testbed struct {
	dir       string
	disk      *durable.Disk
	generator *generator
	stop      context.CancelFunc // nil while no daemon runs
	done      chan error
	hear      func(protocol.Event) // called with each event, with mu held; may be nil
	longest   time.Duration        // the most time to wait for anything
	// standstill is called with how long the loop slept while a message waited; may
	// be nil.
	standstill func(time.Duration)

	mu       sync.Mutex
	messages int              // messages in their inboxes; guarded by mu
	handled  int              // messages that agents handled; guarded by mu
	last     protocol.Seq     // the newest event about messages or tasks; guarded by mu
	through  protocol.Seq     // the last event that git has; guarded by mu
	placedAt time.Time        // time of the newest message; guarded by mu
	newest   string           // file of the newest message; guarded by mu
	landedAt time.Time        // time of the newest commit; guarded by mu
	over     bool             // the daemon ended; guarded by mu
	recent   []protocol.Event // the last events, at most mostRecent; guarded by mu
	changed  chan struct{}
}

// mostRecent is how many events are printed after waiting in vain.
const mostRecent = 20

// newHive makes a hive with agents in a fresh directory.
func (b *bench) newHive(ctx context.Context, agents int, yaml string) (*testbed, error) {
	dir, err := b.fresh()
	if err != nil {
		return nil, err
	}
	return makeHive(ctx, dir, agents, yaml, b.sizes.longest)
}

// In a workload agents send each other far more than they do at work, which the
// breaker would take for a loop, so it never opens (spec §4.3).
const (
	echoesNever = 1_000_000
	breakerOff  = "routing: {breaker: {echoes: 1000000}}\n"
)

// workloadSettings returns the default settings, except for the breaker.
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
	if err := hive.Init(disk, opt); err != nil { //nolint:contextcheck // it takes none: a hive is made completely or not at all
		return nil, errors.Join(fmt.Errorf("make a hive: %w", err), disk.Close())
	}
	return &testbed{dir: dir, disk: disk, generator: newGenerator(1), longest: longest, changed: make(chan struct{}, 1)}, nil
}

// up starts the daemon and returns when it is about to scan for the first time.
func (h *testbed) up(ctx context.Context, settings protocol.Settings) error {
	h.mu.Lock()
	h.messages, h.handled, h.over = 0, 0, false
	h.mu.Unlock()
	r, err := router.New(h.disk, router.Config{Settings: settings, Headroom: router.Headroom, OnEvent: h.onEvent, OnCommit: h.onCommit, OnStandstill: h.standstill})
	if err != nil {
		return err
	}
	// Only down stops it, and cleanly.
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan error, 1)
	h.stop, h.done = cancel, done
	go func() {
		err := r.Run(ctx)
		h.mu.Lock()
		h.over = true // before down returns, and another up resets it
		h.mu.Unlock()
		done <- err
		h.signal()
	}()
	return nil
}

// down stops the daemon cleanly.
func (h *testbed) down() error {
	if h.stop == nil {
		return nil
	}
	h.stop()
	h.stop = nil
	return wait.Ended(h.longest, "the daemon to stop", h.done, h.story)
}

// close stops the daemon and closes the disk; it may be called after an error.
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

// patience is how long agents outside the daemon wait without getting any message
// before a row fails.
const patience = 3 * time.Minute

// until waits for a condition that events and commits bring about. The condition is
// called with mu held.
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

// story returns the last events and the status of the hive, for an error message.
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

// messagesIn waits until n messages are in their inboxes and returns when that was.
// It relies on the daemon's events, and then checks that the file of the newest
// message exists.
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

// always is a channel that makes wait.Condition check again at once.
var always = closed()

func closed() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

// count returns an error unless n messages are in the inboxes.
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

// committed waits until git has all that was delivered and handled, and returns when
// that was.
func (h *testbed) committed(ctx context.Context) (time.Time, error) {
	err := h.until(ctx, "git to hold everything", func() bool { return h.through >= h.last })
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.landedAt, err
}

// takeMail handles all mail of the agents, and waits until hived has noticed and
// committed that.
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

// takeMail moves all mail of an agent to .done/ and returns how much it was.
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
