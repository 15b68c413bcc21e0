package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"time"
)

// refillMost is how much longer a message between other agents may take while an inbox
// is refilled, in milliseconds.
const refillMost = 20

var refillRow = row{
	name: "refill",
	what: func(s sizes) string {
		return fmt.Sprintf("An inbox with %s that are unread vanishes. Until all of them are there again, one message after the other is sent between others, from its rename into the outbox until it is in the log. The baseline are as many that were sent before. One run.", count(s.refill, "messages"))
	},
	behind: "The messages are read from the log again in portions; a new message waits for the portion in progress.",
	brief:  4 * time.Second, full: 6 * time.Second,
	disk: func(s sizes) int64 { return 3 * perMessage(s.refill) },
	measure: func(ctx context.Context, b *bench) (outcome, error) {
		h, err := b.newHive(ctx, 4, "")
		if err != nil {
			return outcome{}, err
		}
		parts, err := b.refill(ctx, h)
		return outcome{parts: parts}, errors.Join(err, h.close())
	},
}

func (b *bench) refill(ctx context.Context, h *testbed) ([]Part, error) {
	n := b.sizes.refill
	if err := b.unread(ctx, h, n); err != nil {
		return nil, err
	}
	sent := n
	one := func() (float64, error) {
		name, data := h.generator.next(3)
		sent++
		begin := time.Now()
		if err := send(outboxOf(h.dir, 2), name, data); err != nil {
			return 0, err
		}
		err := h.until(ctx, "a message between others", func() bool { return h.messages >= sent })
		return ms(time.Since(begin)), err
	}
	var idle, busy []float64
	for range 50 {
		took, err := one()
		if err != nil {
			return nil, err
		}
		idle = append(idle, took)
	}
	b.tell(0.5, "the inbox vanishes")
	inbox := inboxOf(h.dir, 1)
	if err := move(inbox, inbox+".gone"); err != nil {
		return nil, err
	}
	begin := time.Now()
	for there := 0; there < n; {
		if waited := time.Since(begin); waited > b.sizes.longest {
			return nil, fmt.Errorf("wait for %d messages to be there again: %d are after %s\n%s", n, there, waited.Round(time.Second), h.story())
		}
		took, err := one()
		if err != nil {
			return nil, err
		}
		busy = append(busy, took)
		list, err := mail(inbox)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
		there = len(list)
	}
	whole := time.Since(begin)
	return []Part{
		Part{Name: "longest wait of a message, beyond the longest before", Unit: "ms", Baseline: math.NaN(), Hived: max(0.001, slices.Max(busy)-slices.Max(idle)), Rounds: len(busy)}.atMost(refillMost),
		compared("wait of a message, median", "ms", idle, busy),
		alone("until the inbox is whole", "ms", []float64{ms(whole)}),
	}, nil
}

// unread sends n messages that nobody reads to one agent, and waits until all are
// delivered and committed.
func (b *bench) unread(ctx context.Context, h *testbed, n int) error {
	settings := workloadSettings()
	settings.InboxCap = 4 * n // nobody reads here
	for range n {
		name, data := h.generator.next(1)
		if err := put(outboxOf(h.dir, 0)+"/"+name, data); err != nil {
			return err
		}
	}
	b.tell(0, "%s", count(n, "messages"))
	if err := h.up(ctx, settings); err != nil {
		return err
	}
	if _, err := h.messagesIn(ctx, n); err != nil {
		return err
	}
	_, err := h.committed(ctx)
	return err
}
