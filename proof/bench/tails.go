package bench

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hived/hived/internal/pause"
	"github.com/hived/hived/internal/wait"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/view"
)

const (
	tails     = 10
	tailsPace = 5 * time.Millisecond // between two messages
)

var tailsRow = row{
	name: "tails",
	what: func(s sizes) string {
		return fmt.Sprintf("Messages of 1 KiB, 200 a second, each from its rename into the outbox until it is in the inbox; alternately %d of them while nobody reads, which is the baseline, and while %d readers take every event from a feed in the daemon's process.", s.idle, tails)
	},
	behind: "The feed syncs what it reads, which the daemon has just synced, and decodes each event once; a reader costs a wake-up.",
	brief:  10 * time.Second, full: 30 * time.Second,
	disk: func(s sizes) int64 { return perMessage(2 * s.rounds * s.idle) },
	measure: func(ctx context.Context, b *bench) (outcome, error) {
		h, err := b.newHive(ctx, 2, "")
		if err != nil {
			return outcome{}, err
		}
		out, err := b.tails(ctx, h)
		return out, errors.Join(err, h.close())
	},
}

func (b *bench) tails(ctx context.Context, h *testbed) (outcome, error) {
	settings := workloadSettings()
	settings.InboxCap = max(settings.InboxCap, 4*b.sizes.rounds*b.sizes.idle) // nobody reads here
	var feed atomic.Pointer[view.Feed]                                        // nil while nobody reads
	h.hear = func(protocol.Event) {
		if f := feed.Load(); f != nil {
			f.Wake()
		}
	}
	if err := h.up(ctx, settings); err != nil {
		return outcome{}, err
	}
	// Each round gives a pair of medians, so that the state of the disk affects both.
	var alone, watched []float64
	for round := range b.sizes.rounds {
		b.tell(float64(round)/float64(b.sizes.rounds), "round %d of %d", round+1, b.sizes.rounds)
		took, err := h.paced(ctx, 2*round*b.sizes.idle, b.sizes.idle)
		if err != nil {
			return outcome{}, err
		}
		alone = append(alone, median(took))
		feed.Store(view.NewFeed(h.disk))
		if took, err = h.watched(ctx, feed.Load(), (2*round+1)*b.sizes.idle, b.sizes.idle); err != nil {
			return outcome{}, err
		}
		feed.Store(nil)
		watched = append(watched, median(took))
	}
	return outcome{parts: []Part{compared("median until it is in the inbox", "ms", alone, watched).timesAtMost(1.05)}}, nil
}

// watched is like paced, while readers take all events of the feed.
func (h *testbed) watched(ctx context.Context, feed *view.Feed, from, n int) (took []float64, err error) {
	watching, leave := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer leave()
	ended := make(chan error, 1)
	all.Go(func() { ended <- feed.Run(watching) })
	h.mu.Lock()
	after := h.last
	h.mu.Unlock()
	seen := make([]atomic.Uint64, tails)
	for i := range seen {
		all.Go(func() {
			for rec, err := range feed.Events(watching, after) {
				if err == nil {
					seen[i].Store(uint64(rec.Event.Seq))
				}
			}
		})
	}
	if took, err = h.paced(ctx, from, n); err != nil {
		return nil, err
	}
	h.mu.Lock()
	last := uint64(h.last)
	h.mu.Unlock()
	err = wait.Condition(ctx, h.longest, nil, "the readers to see every event", func() bool {
		for i := range seen {
			if seen[i].Load() < last {
				return false
			}
		}
		return true
	}, h.story)
	leave()
	return took, errors.Join(err, wait.Ended(h.longest, "the feed to end", ended, h.story))
}

// paced sends n messages one by one, after from earlier ones, and returns how many
// milliseconds each took.
func (h *testbed) paced(ctx context.Context, from, n int) (took []float64, err error) {
	outbox := outboxOf(h.dir, 0)
	temp := filepath.Join(outbox, ".message.tmp")
	next := time.Now()
	for i := range n {
		next = next.Add(tailsPace)
		if err := pause.For(ctx, time.Until(next)); err != nil {
			return nil, err
		}
		name, data := h.generator.next(1)
		if err := put(temp, data); err != nil {
			return nil, err
		}
		begin := time.Now()
		if err := move(temp, filepath.Join(outbox, name)); err != nil {
			return nil, fmt.Errorf("send a message: %w", err)
		}
		at, err := h.messagesIn(ctx, from+i+1)
		if err != nil {
			return nil, err
		}
		took = append(took, ms(at.Sub(begin)))
	}
	return took, nil
}
