package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/hived/hived/audit"
)

var verifyRow = row{
	name: "verify",
	what: func(s sizes) string {
		return fmt.Sprintf("`hived verify`, a process of its own, on the hive with %s and its git history: the log's chain, every message with its recipients, every file, every object and commit. It must find nothing wrong. "+
			"Memory is compared with that of verifying the same hive when it had half of its events and its directories, which retention bounds, were as full.", count(s.agedEvents, "events"))
	},
	behind: "Every object of the history is inflated and hashed, and every line of the log parsed and compared with the commits.",
	needs:  proc | process | past,
	brief:  5 * time.Second, full: 320 * time.Second,
	disk: func(sizes) int64 { return 0 },
	measure: func(ctx context.Context, b *bench) (outcome, error) {
		a, err := b.aged(ctx)
		if err != nil {
			return outcome{}, err
		}
		rounds := b.sizes.agedRounds
		var took, peak []float64
		for round := range rounds {
			b.tell(0.5+0.5*float64(round)/float64(rounds), "round %d of %d", round+1, rounds)
			r, err := b.verify(ctx, a.dir)
			if err != nil {
				return outcome{}, err
			}
			took, peak = append(took, r.took.Seconds()), append(peak, r.peak)
		}
		memory := compared("memory, against half of the events", "MiB", []float64{a.verifyHalf}, peak).timesAtMost(flat)
		return outcome{parts: []Part{alone("time", "s", took).atMost(60), memory}}, nil
	},
}

// verify runs `hived verify`, which must find nothing wrong and must have read all.
func (b *bench) verify(ctx context.Context, dir string) (ran, error) {
	r, err := b.run(ctx, dir, "verify", "--json")
	if err != nil {
		return r, err
	}
	var report audit.Report
	if err := json.Unmarshal(r.out, &report); err != nil {
		return r, fmt.Errorf("read the report of verify: %w", err)
	}
	if report.GitSeq != report.Seq || report.Seq == 0 {
		return r, fmt.Errorf("verify saw %d events and git through %d", report.Seq, report.GitSeq)
	}
	if math.IsNaN(r.peak) {
		return r, lack("the memory of a process could not be read")
	}
	return r, nil
}
