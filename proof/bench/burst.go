package bench

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"
)

var burstRow = row{
	name: "burst",
	what: func(s sizes) string {
		return fmt.Sprintf("%s of 1 KiB wait in the outboxes of %d agents of an empty hive. The clock runs from the daemon's first scan until all are in their inboxes and synced in the log, and until all are committed and synced in git. "+
			"Baseline (a), a commit for each message, is sampled with %d of them; (b) makes one commit for all. Neither baseline syncs anything.", count(s.burst, "messages"), s.agents, s.loopBurst)
	},
	behind: "The kernel: for each message an open, a read, a create, a write and two renames, on two agents' directories at a time. Deciding, and appending to the log, is the work of one core in between; git's objects, their hashing and compression, take the other. Loop (b) does the same file operations, less a rename and the checks before and after, and one commit of git; so a multiple of its speed is out of reach of two cores, and its speed depends more on the state of the disk than hived's.",
	needs:  git,
	brief:  14 * time.Second, full: 40 * time.Second,
	disk: func(s sizes) int64 { return int64(s.rounds) * perMessage(2*s.burst+s.loopBurst) },
	measure: func(ctx context.Context, b *bench) (outcome, error) {
		var m burstSamples
		s := b.sizes
		for round := range s.rounds {
			share := func(third float64) float64 { return (float64(round) + third/3) / float64(s.rounds) }
			b.tell(share(0), "round %d of %d, hived", round+1, s.rounds)
			if err := b.hivedBurst(ctx, &m); err != nil {
				return outcome{}, err
			}
			b.tell(share(1), "round %d of %d, loop (a)", round+1, s.rounds)
			if err := b.loopBurst(ctx, s.loopBurst, eachMessage, &m.each); err != nil {
				return outcome{}, err
			}
			b.tell(share(1.5), "round %d of %d, loop (b)", round+1, s.rounds)
			if err := b.loopBurst(ctx, s.burst, wholeBurst, &m.once); err != nil {
				return outcome{}, err
			}
		}
		return outcome{parts: []Part{
			compared("in inboxes, against (a)", "messages/s", m.each, m.placed).timesAtLeast(100),
			compared("committed, against (a)", "messages/s", m.each, m.landed).timesAtLeast(100),
			compared("committed, against (b)", "messages/s", m.once, m.landed).timesAtLeast(3),
			alone(allocatedBytes, "B", m.bytes),
			alone(allocations, "allocations", m.allocs),
		}}, nil
	},
}

// The parts about memory, which have no target.
const (
	allocatedBytes = "memory allocated for a message"
	allocations    = "allocations for a message"
)

// burstSamples holds the samples of the rounds.
type burstSamples struct {
	placed, landed []float64 // messages a second, hived
	each, once     []float64 // messages a second, loops (a) and (b)
	bytes, allocs  []float64 // for each message
}

// hivedBurst measures one round in a new hive.
func (b *bench) hivedBurst(ctx context.Context, m *burstSamples) error {
	h, err := b.newHive(ctx, b.sizes.agents, "")
	if err != nil {
		return err
	}
	return errors.Join(h.burst(ctx, b.sizes.agents, b.sizes.burst, m), h.close())
}

// burst measures one round; the daemon still runs when it returns.
func (h *testbed) burst(ctx context.Context, agents, messages int, m *burstSamples) error {
	if err := fill(h.dir, h.generator, agents, messages); err != nil {
		return err
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	if err := h.up(ctx, workloadSettings()); err != nil {
		return err
	}
	begin := time.Now()
	placed, err := h.messagesIn(ctx, messages)
	if err != nil {
		return err
	}
	landed, err := h.committed(ctx)
	if err != nil {
		return err
	}
	runtime.ReadMemStats(&after)
	n := float64(messages)
	m.placed = append(m.placed, n/placed.Sub(begin).Seconds())
	m.landed = append(m.landed, n/max(landed.Sub(begin), placed.Sub(begin)).Seconds())
	m.bytes = append(m.bytes, float64(after.TotalAlloc-before.TotalAlloc)/n)
	m.allocs = append(m.allocs, float64(after.Mallocs-before.Mallocs)/n)
	return h.count(agents, messages)
}

func (b *bench) loopBurst(ctx context.Context, messages int, often cadence, rates *[]float64) error {
	l, err := b.newLoop(ctx, b.sizes.agents, 0)
	if err != nil {
		return err
	}
	rate, err := l.burst(ctx, b.sizes.agents, messages, often)
	*rates = append(*rates, rate)
	return err
}
