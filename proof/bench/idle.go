package bench

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
)

var idleRow = row{
	name: "idle-latency",
	what: func(s sizes) string {
		return fmt.Sprintf("One message on a hive where nothing else happens, from its rename into the outbox until it is in the inbox, %d times; in turns with the baseline, which appends as many bytes to a file of the same disk and syncs them (fdatasync). "+
			"git.commit_delay is 10 ms, so that the hive is idle again soon; a message does not wait for its commit.", s.idle)
	},
	behind: "One sync of the log, which is the disk's, and before it the wake-up by the watch: reading what changed, deciding and placing take about half a millisecond together.",
	brief:  6 * time.Second, full: 25 * time.Second,
	disk: func(s sizes) int64 { return perMessage(s.idle) },
	measure: func(ctx context.Context, b *bench) (outcome, error) {
		h, err := b.newHive(ctx, 2, "")
		if err != nil {
			return outcome{}, err
		}
		out, err := b.idle(ctx, h)
		return out, errors.Join(err, h.close())
	},
}

func (b *bench) idle(ctx context.Context, h *testbed) (outcome, error) {
	settings := workloadSettings()
	settings.Git.CommitDelay = 10 * time.Millisecond
	settings.InboxCap = max(settings.InboxCap, 2*b.sizes.idle) // nobody reads here
	if err := h.up(ctx, settings); err != nil {
		return outcome{}, err
	}
	file, err := h.disk.Append(protocol.PathScratch + "/bench")
	if err != nil {
		return outcome{}, err
	}
	defer file.Close() //nolint:errcheck // its content is not needed
	var hived, disk []float64
	for i := range b.sizes.idle {
		if i%10 == 0 {
			b.tell(float64(i)/float64(b.sizes.idle), "message %d of %d", i+1, b.sizes.idle)
		}
		name, data := h.generator.next(1)
		took, err := h.deliver(ctx, name, data, i+1)
		if err != nil {
			return outcome{}, err
		}
		hived = append(hived, took)
		if took, err = syncOnce(file, data); err != nil {
			return outcome{}, err
		}
		disk = append(disk, took)
	}
	p50 := pair("median", hived, disk, 0.5)
	p99 := pair("99th percentile", hived, disk, 0.99)
	return outcome{
		parts: []Part{p50.within(2, 1), p99.within(2, 5)},
		plots: []plot{latencyPlot(hived, disk)},
	}, nil
}

// pair compares the same quantile of both.
func pair(name string, hived, disk []float64, q float64) Part {
	return Part{Name: name, Unit: "ms", Baseline: quantile(disk, q), Hived: quantile(hived, q), Rounds: len(hived)}
}

// within sets the target that hived's figure is at most times the baseline's plus
// more.
func (p Part) within(times, more float64) Part {
	p.Target = fmt.Sprintf("≤ %s × baseline + %s %s", limit(times), limit(more), p.Unit)
	p.Reached = (times*p.Baseline + more) / p.Hived
	return p
}

// deliver sends the n-th message and returns the milliseconds until it is in the
// inbox, once git has it.
func (h *testbed) deliver(ctx context.Context, name string, data []byte, n int) (float64, error) {
	outbox := outboxOf(h.dir, 0)
	temp := filepath.Join(outbox, ".message.tmp")
	if err := put(temp, data); err != nil {
		return 0, err
	}
	begin := time.Now()
	if err := move(temp, filepath.Join(outbox, name)); err != nil {
		return 0, err
	}
	at, err := h.messagesIn(ctx, n)
	if err == nil {
		_, err = h.committed(ctx)
	}
	return ms(at.Sub(begin)), err
}

func syncOnce(file durable.File, data []byte) (float64, error) {
	begin := time.Now()
	if _, err := file.Write(data); err != nil {
		return 0, err
	}
	err := file.Sync()
	return ms(time.Since(begin)), err
}

// latencyPlot shows the share of messages that took no longer than each time.
func latencyPlot(hived, disk []float64) plot {
	p := plot{
		name: "idle-latency", title: "One message on an idle hive: share delivered within a time",
		x: axis{label: "milliseconds", log: true}, y: axis{label: "% of messages"},
	}
	for _, s := range []struct {
		name    string
		samples []float64
	}{{"hived: rename to visible in the inbox", hived}, {"the disk alone: one append and fdatasync", disk}} {
		line := series{name: s.name}
		for i := range 200 {
			q := float64(i+1) / 200
			line.points = append(line.points, point{quantile(s.samples, q), 100 * q})
		}
		p.series = append(p.series, line)
	}
	return p
}
