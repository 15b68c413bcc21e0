package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/router"
)

// hive is a hive whose daemon runs in this process, so that what it does can
// be timed from inside.
type hive struct {
	dir     string
	disk    *durable.Disk
	letters *letters
	stop    context.CancelFunc // nil: no daemon runs
	done    chan error
	hear    func(protocol.Event) // is told of each event, with mu held; may be nil

	mu       sync.Mutex
	messages int          // that are in their inboxes; guarded by mu
	handled  int          // that agents took; guarded by mu
	last     protocol.Seq // of the newest of these events; guarded by mu
	through  protocol.Seq // git holds; guarded by mu
	placedAt time.Time    // of the newest message; guarded by mu
	newest   string       // its file; guarded by mu
	landedAt time.Time    // of the newest commit; guarded by mu
	changed  chan struct{}
}

// newHive makes a hive with agents in a fresh directory.
func (b *bench) newHive(ctx context.Context, agents int, yaml string) (*hive, error) {
	dir, err := b.fresh()
	if err != nil {
		return nil, err
	}
	return makeHive(ctx, dir, agents, yaml)
}

func makeHive(ctx context.Context, dir string, agents int, yaml string) (*hive, error) {
	for i := range agents {
		if err := mkdirs(outboxOf(dir, i)); err != nil {
			return nil, err
		}
	}
	disk, err := durable.Open(dir)
	if err != nil {
		return nil, err
	}
	opt := router.InitOptions{Settings: protocol.DefaultSettings(), Template: []byte(yaml), Now: time.Now()}
	if err := ctx.Err(); err != nil {
		return nil, errors.Join(err, disk.Close())
	}
	if err := router.Init(disk, opt); err != nil { //nolint:contextcheck // it takes none: a hive is made whole or not at all
		return nil, errors.Join(fmt.Errorf("make a hive: %w", err), disk.Close())
	}
	return &hive{dir: dir, disk: disk, letters: newLetters(1), changed: make(chan struct{}, 1)}, nil
}

// up starts the daemon and returns when it is about to look around for the
// first time.
func (h *hive) up(ctx context.Context, settings protocol.Settings) error {
	h.mu.Lock()
	h.messages, h.handled = 0, 0
	h.mu.Unlock()
	r, err := router.New(h.disk, router.Config{Settings: settings, Headroom: router.Headroom, OnEvent: h.onEvent, OnCommit: h.onCommit})
	if err != nil {
		return err
	}
	// It is stopped in good order, by down.
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	h.stop, h.done = cancel, make(chan error, 1)
	go func() { h.done <- r.Run(ctx) }()
	return nil
}

// down stops the daemon in good order.
func (h *hive) down() error {
	if h.stop == nil {
		return nil
	}
	h.stop()
	h.stop = nil
	return <-h.done
}

// close gives back what is held; it may follow an error.
func (h *hive) close() error { return errors.Join(h.down(), h.disk.Close()) }

func (h *hive) onEvent(ev protocol.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.hear != nil {
		h.hear(ev)
	}
	switch e := ev.Body.(type) {
	case *protocol.MessageEvent:
		h.messages++
		h.placedAt = time.Now()
		if len(e.Delivered) > 0 {
			h.newest = filepath.Join(h.dir, protocol.InboxDir(e.Delivered[0]), e.File)
		}
	case *protocol.HandledEvent:
		h.handled++
	case *protocol.TaskEvent, *protocol.TaskRejectedEvent:
	default:
		return
	}
	h.last = ev.Seq
	h.signal()
}

func (h *hive) onCommit(through protocol.Seq) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.through, h.landedAt = through, time.Now()
	h.signal()
}

func (h *hive) signal() {
	select {
	case h.changed <- struct{}{}:
	default:
	}
}

// patience is how long nothing may happen before a row gives up.
const patience = 3 * time.Minute

// until waits for something that events and commits bring about. The condition
// is called with the lock held.
func (h *hive) until(ctx context.Context, what string, there func() bool) error {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for {
		h.mu.Lock()
		ok := there()
		h.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-h.changed:
			timer.Reset(patience)
		case err := <-h.done:
			h.done <- err
			return fmt.Errorf("wait until %s: the daemon ended: %w", what, errors.Join(err, errStopped))
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-timer.C:
			return fmt.Errorf("wait until %s: nothing happened for %s", what, patience)
		}
	}
}

var errStopped = errors.New("it must not")

// messagesIn waits until so many messages are in their inboxes and says when
// that was. The daemon says when it has placed a message; the newest is looked
// for.
func (h *hive) messagesIn(ctx context.Context, n int) (time.Time, error) {
	if err := h.until(ctx, "the messages are delivered", func() bool { return h.messages >= n }); err != nil {
		return time.Time{}, err
	}
	h.mu.Lock()
	at, newest := h.placedAt, h.newest
	h.mu.Unlock()
	for {
		_, err := os.Lstat(newest)
		if err == nil {
			return at, nil
		}
		at = time.Now()
		if err := errors.Join(ignoreMissing(err), context.Cause(ctx)); err != nil {
			return at, err
		}
	}
}

// count makes sure that so many messages are in the inboxes.
func (h *hive) count(agents, n int) error {
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
func (h *hive) committed(ctx context.Context) (time.Time, error) {
	err := h.until(ctx, "git holds everything", func() bool { return h.through >= h.last })
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.landedAt, err
}

// takeMail does what agents do with their mail, and waits until that is known
// and committed.
func (h *hive) takeMail(ctx context.Context, agents, n int) error {
	for i := range agents {
		if _, err := takeMail(h.dir, i); err != nil {
			return err
		}
	}
	if err := h.until(ctx, "the agents' handling is seen", func() bool { return h.handled >= n }); err != nil {
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
