package bench

import (
	"context"
	"errors"
	"fmt"
	"time"
)

var gitStatusRow = row{
	name: "git-status",
	what: func(s sizes) string {
		return fmt.Sprintf("`git status --porcelain` in a hive of %s after %s of one message each by hived, with the index as hived left it; the baseline is the same after `git reset`, with the index as git writes it. In every round hived commits once more. Status may not mend the index (GIT_OPTIONAL_LOCKS=0).",
			count(s.statusFiles, "files"), count(s.statusCommits, "commits"))
	},
	behind: "git itself: it checks every file. hived's part is an index whose cached file times are right, so that git need not read the files.",
	needs:  git,
	brief:  10 * time.Second, full: 130 * time.Second,
	disk: func(s sizes) int64 { return perMessage(s.statusFiles) },
	measure: func(ctx context.Context, b *bench) (outcome, error) {
		s := b.sizes
		h, err := b.agedHive(ctx, max(s.statusFiles-2*s.statusCommits, 0), func(share float64) { b.tell(share/4, "a hive of %s files grows", grouped(int64(s.statusFiles))) })
		if err != nil {
			return outcome{}, err
		}
		out, err := b.status(ctx, h)
		return out, errors.Join(err, h.close())
	},
}

// statusRuns is how many runs each round takes the median of, so that one that was
// disturbed does not count.
const statusRuns = 5

func (b *bench) status(ctx context.Context, h *testbed) (outcome, error) {
	s := b.sizes
	if err := h.single(ctx, s.statusCommits, func(i int) {
		b.tell(0.25+0.5*float64(i)/float64(s.statusCommits), "commit %d of %d", i, s.statusCommits)
	}); err != nil {
		return outcome{}, err
	}
	var hived, reset []float64
	for round := range s.rounds {
		b.tell(0.75+0.25*float64(round)/float64(s.rounds), "round %d of %d", round+1, s.rounds)
		if err := h.single(ctx, 1, func(int) {}); err != nil {
			return outcome{}, err
		}
		took, err := b.statusTime(ctx, h.dir)
		if err != nil {
			return outcome{}, err
		}
		hived = append(hived, took)
		if err := b.git(ctx, h.dir, "reset", "-q"); err != nil {
			return outcome{}, err
		}
		if took, err = b.statusTime(ctx, h.dir); err != nil {
			return outcome{}, err
		}
		reset = append(reset, took)
	}
	return outcome{parts: []Part{compared("against git reset", "ms", reset, hived).timesAtMost(1.2)}}, nil
}

// single has hived make n commits of one message each, and stops it cleanly.
func (h *testbed) single(ctx context.Context, n int, tell func(i int)) error {
	settings := workloadSettings()
	settings.Git.CommitDelay = time.Millisecond
	if err := h.up(ctx, settings); err != nil {
		return err
	}
	agents := agentsIn(h.dir)
	for i := range n {
		if i%100 == 0 {
			tell(i)
		}
		from := i % agents
		name, data := h.generator.next(recipient(i, from, agents))
		if err := send(outboxOf(h.dir, from), name, data); err != nil {
			return err
		}
		if _, err := h.messagesIn(ctx, i+1); err != nil {
			return err
		}
		if _, err := h.committed(ctx); err != nil {
			return err
		}
	}
	return h.down()
}

// agentsIn returns the number of agents that newHive made.
func agentsIn(dir string) int {
	n := 0
	for {
		if list, err := names(outboxOf(dir, n)); err != nil || len(list) == 0 {
			return max(n, 1)
		}
		n++
	}
}

func (b *bench) statusTime(ctx context.Context, dir string) (float64, error) {
	var took []float64
	for range statusRuns {
		begin := time.Now()
		if err := b.git(ctx, dir, "status", "--porcelain"); err != nil {
			return 0, err
		}
		took = append(took, ms(time.Since(begin)))
	}
	return median(took), nil
}
