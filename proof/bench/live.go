package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"sync"
	"time"
)

// standstillMost is how long a daemon may sleep while a message waits in an outbox, in
// milliseconds.
const standstillMost = 20

// seldom is a rescan interval that does not make up for a lost wake-up.
const seldom = time.Hour

var liveRow = row{
	name: "live",
	what: func(s sizes) string {
		return fmt.Sprintf("%s of 1 KiB are renamed, one after the other, into the outboxes of %d agents while the daemon runs: in an empty hive, the same with `rescan: 1h`, and in a hive of %s with `rescan: 1h`. The clock runs from the first rename until all are in their inboxes, and committed. "+
			"A standstill is time that the daemon's loop slept while a message lay in an outbox, by the loop's own account and the file's ctime, whose steps are those of the kernel's clock (some milliseconds). The baseline is the time that the renames themselves took.",
			count(s.live, "messages"), s.agents, count(s.liveFiles, "files"))
	},
	behind: "The messages come one by one, so that a batch, and a sync of the log, holds few at first. A wake-up that is lost shows as a standstill that lasts until the next rescan.",
	brief:  8 * time.Second, full: 40 * time.Second,
	disk: func(s sizes) int64 {
		return int64(s.liveFiles)*2*fileDisk + perMessage(s.liveFiles/2+3*s.rounds*s.live)
	},
	measure: func(ctx context.Context, b *bench) (outcome, error) {
		var out outcome
		for i, x := range []struct {
			name   string
			files  int
			rescan time.Duration
		}{
			{"an empty hive", 0, workloadSettings().Rescan},
			{"an empty hive, rescan 1h", 0, seldom},
			{count(b.sizes.liveFiles, "files") + ", rescan 1h", b.sizes.liveFiles, seldom},
		} {
			b.tell(float64(i)/3, "%s", x.name)
			parts, err := b.live(ctx, x.name, x.files, x.rescan)
			if err != nil {
				return outcome{}, err
			}
			out.parts = append(out.parts, parts...)
		}
		return out, nil
	},
}

// liveSamples holds the samples of the rounds of one hive, in milliseconds.
type liveSamples struct {
	renamed, placed, landed []float64
	longest                 []float64 // longest standstill of each round
}

func (b *bench) live(ctx context.Context, name string, files int, rescan time.Duration) ([]Part, error) {
	h, err := b.agedHive(ctx, files, func(float64) {})
	if err != nil {
		return nil, err
	}
	var m liveSamples
	for range b.sizes.rounds {
		if err = h.liveRound(ctx, b.sizes, rescan, &m); err != nil {
			break
		}
	}
	if err = errors.Join(err, h.close()); err != nil {
		return nil, err
	}
	return []Part{
		compared("in inboxes, "+name, "ms", m.renamed, m.placed),
		compared("committed, "+name, "ms", m.renamed, m.landed),
		Part{Name: "longest standstill, p99, " + name, Unit: "ms", Baseline: math.NaN(), Hived: quantile(m.longest, 0.99), Rounds: len(m.longest)}.atMost(standstillMost),
	}, nil
}

// liveRound has the agents send messages and then handle what they got.
func (h *testbed) liveRound(ctx context.Context, s sizes, rescan time.Duration, m *liveSamples) error {
	settings := workloadSettings()
	settings.Rescan = rescan
	settings.InboxCap = max(settings.InboxCap, 2*s.live) // nobody reads meanwhile
	var mu sync.Mutex
	var longest time.Duration
	h.standstill = func(d time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		longest = max(longest, d)
	}
	if err := h.up(ctx, settings); err != nil {
		return err
	}
	if err := h.greet(ctx, s.agents); err != nil { // afterwards it has scanned everything, and sleeps
		return err
	}
	drafts, err := h.drafts(s.agents, s.live)
	if err != nil {
		return err
	}
	mu.Lock()
	longest = 0
	mu.Unlock()
	begin := time.Now()
	for _, d := range drafts {
		if err := move(d.from, d.to); err != nil {
			return fmt.Errorf("send a message: %w", err)
		}
	}
	renamed := time.Since(begin)
	placed, err := h.messagesIn(ctx, 1+s.live)
	if err != nil {
		return err
	}
	landed, err := h.committed(ctx)
	if err != nil {
		return err
	}
	mu.Lock()
	m.longest = append(m.longest, ms(longest))
	mu.Unlock()
	m.renamed = append(m.renamed, ms(renamed))
	m.placed = append(m.placed, ms(placed.Sub(begin)))
	m.landed = append(m.landed, ms(max(landed.Sub(begin), placed.Sub(begin))))
	if err := h.takeMail(ctx, s.agents, 1+s.live); err != nil {
		return err
	}
	return h.down()
}

// greet sends one message and waits until it is delivered and committed.
func (h *testbed) greet(ctx context.Context, agents int) error {
	name, data := h.generator.next(recipient(0, 0, agents))
	if err := send(outboxOf(h.dir, 0), name, data); err != nil {
		return err
	}
	if _, err := h.messagesIn(ctx, 1); err != nil {
		return err
	}
	_, err := h.committed(ctx)
	return err
}

// drafts writes messages under temporary names in the outboxes.
func (h *testbed) drafts(agents, messages int) ([]draft, error) {
	list := make([]draft, 0, messages)
	for i := range messages {
		from := i % agents
		name, data := h.generator.next(recipient(i, from, agents))
		d := draft{filepath.Join(outboxOf(h.dir, from), "."+name+".tmp"), filepath.Join(outboxOf(h.dir, from), name)}
		if err := put(d.from, data); err != nil {
			return nil, fmt.Errorf("draft a message: %w", err)
		}
		list = append(list, d)
	}
	return list, nil
}
