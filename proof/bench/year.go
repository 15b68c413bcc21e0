package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/hived/hived/internal/pause"
)

// yearFiles is how many files of an agent's mail retention leaves in the row year.
const yearFiles = 20

var yearRow = row{
	name: "year",
	what: func(s sizes) string {
		return fmt.Sprintf("%s of 1 KiB between %s that handle them, carried by one daemon with retention at %d files. Throughput of the last tenth against the baseline, the first tenth. "+
			"Files of the work tree, packs and resident memory are sampled throughout: the most of the second half against the baseline, the most of the first half. One run: its tenths are what is compared.",
			count(s.yearMessages, "messages"), count(s.yearAgents, "agents"), yearFiles)
	},
	behind: "The windows of ids and conversations fill up during the run: that is what resident memory gains. A file stays in the work tree until history holds it, which is a batch or two later when the hive is busy.",
	needs:  proc | process,
	brief:  8 * time.Second, full: 900 * time.Second,
	disk: func(s sizes) int64 { return perMessage(s.yearMessages) / 2 },
	measure: func(ctx context.Context, b *bench) (outcome, error) {
		s := b.sizes
		dir, err := b.hiveDir(ctx, s.yearAgents, fmt.Sprintf("retention: {files: %d}\n", yearFiles))
		if err != nil {
			return outcome{}, err
		}
		d, err := b.up(dir)
		if err != nil {
			return outcome{}, err
		}
		y := &year{dir: dir, pid: d.PID(), agents: s.yearAgents}
		took, err := y.live(ctx, b)
		if err = errors.Join(err, d.Stop()); err != nil {
			return outcome{}, err
		}
		return y.outcome(took, s.yearMessages/10), nil
	},
}

// year is one run of the row year.
type year struct {
	dir    string
	pid    int
	agents int

	mu      sync.Mutex
	samples []yearSample // guarded by mu
	err     error        // guarded by mu
}

// yearSample is what was measured at one moment.
type yearSample struct {
	files, packs int
	resident     float64 // MiB
}

// live has the messages carried and returns the time of each tenth.
func (y *year) live(ctx context.Context, b *bench) ([]time.Duration, error) {
	every := max(b.sizes.quiet/6, 250*time.Millisecond)
	watching, end := context.WithCancel(ctx)
	var group sync.WaitGroup
	group.Go(func() {
		for pause.For(watching, every) == nil {
			y.takeSample()
		}
	})
	t := newTraffic(y.dir, y.agents, newGenerator(10))
	var took []time.Duration
	// The first tenth does not include the daemon's start.
	err := t.run(ctx, y.agents, func(int) {})
	for tenth := range 10 {
		if err != nil {
			break
		}
		begin := time.Now()
		err = t.run(ctx, b.sizes.yearMessages/10, func(taken int) {
			share := (float64(tenth) + float64(taken)/float64(b.sizes.yearMessages/10)) / 10
			b.tell(share, "%.0f %% of a year", 100*share)
		})
		took = append(took, time.Since(begin))
	}
	end()
	group.Wait()
	y.mu.Lock()
	defer y.mu.Unlock()
	return took, errors.Join(err, y.err)
}

func (y *year) takeSample() {
	var now yearSample
	var err error
	for i := range y.agents {
		for _, dir := range []string{inboxOf(y.dir, i), doneOf(y.dir, i), outboxOf(y.dir, i), sentOf(y.dir, i)} {
			list, failed := mail(dir)
			err = errors.Join(err, failed)
			now.files += len(list)
		}
	}
	now.packs = packsIn(y.dir)
	mib, failed := resident(y.pid)
	now.resident = mib
	y.mu.Lock()
	defer y.mu.Unlock()
	y.samples = append(y.samples, now)
	y.err = errors.Join(y.err, err, failed)
}

func (y *year) outcome(took []time.Duration, perTenth int) outcome {
	var rates []float64
	line := series{name: "messages handled"}
	for i, t := range took {
		rate := float64(perTenth) / t.Seconds()
		rates = append(rates, rate)
		line.points = append(line.points, point{float64(10 * (i + 1)), rate})
	}
	speed := compared("throughput, last tenth against first", "messages/s", rates[:1], rates[len(rates)-1:]).timesAtLeast(0.9)
	parts := []Part{
		speed,
		y.halves("files of the work tree", "files", func(l yearSample) float64 { return float64(l.files) }),
		y.halves("packs", "packs", func(l yearSample) float64 { return float64(l.packs) }),
		y.halves("resident memory", "MiB", func(l yearSample) float64 { return l.resident }),
	}
	return outcome{parts: parts, plots: []plot{{
		name: "year", title: "A year in small: throughput of each tenth",
		x: axis{label: "% of the messages"}, y: axis{label: "messages a second", zero: true},
		series: []series{line}, marks: true,
	}}}
}

// halves compares the maximum of the second half with that of the first.
func (y *year) halves(name, unit string, of func(yearSample) float64) Part {
	y.mu.Lock()
	defer y.mu.Unlock()
	if len(y.samples) < 4 {
		return unmeasured(name, unit, "the run was too short for samples").timesAtMost(flat)
	}
	most := func(list []yearSample) []float64 {
		top := of(list[0])
		for _, l := range list {
			top = max(top, of(l))
		}
		return []float64{top}
	}
	half := len(y.samples) / 2
	return compared(name+", second half against first", unit, most(y.samples[:half]), most(slices.Clone(y.samples[half:]))).timesAtMost(flat)
}
