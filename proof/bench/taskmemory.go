package bench

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"time"
)

var taskMemoryRow = row{
	name: "tasks-memory",
	what: func(s sizes) string {
		return fmt.Sprintf("Resident memory of a daemon that was started on a hive with %d agents and %s and is idle for %s, with a `tasks.lease` of an hour; the baseline is that of a new hive with as many agents. And what as many tasks keep on the heap: open, as the baseline, and when they have ended and `tasks.retention` has let them go, with `remember` at 1,000 ids and conversations, so that only tasks are kept.",
			s.taskAgents, count(s.tasks, "tasks"), s.quiet)
	},
	behind: "A task's texts, its history, its place among those that wait, its timer, and the four files that git's index knows of it. When it has left, how it ended: of `remember.conversations` tasks at most, and not of others.",
	needs:  proc | process,
	brief:  12 * time.Second, full: 200 * time.Second,
	disk: func(s sizes) int64 { return int64(s.tasks)*6*fileDisk + int64(2*s.taskAgents)*agentDisk },
	measure: func(ctx context.Context, b *bench) (outcome, error) {
		s := b.sizes
		x, err := b.manyTasks(ctx)
		if err != nil {
			return outcome{}, err
		}
		b.tell(0.5, "a new hive is idle")
		fresh, err := b.hiveDir(ctx, s.taskAgents, "")
		if err != nil {
			return outcome{}, err
		}
		young, err := b.idleDaemon(ctx, fresh, nil)
		if err != nil {
			return outcome{}, err
		}
		b.tell(0.7, "a hive with %s is idle", count(s.tasks, "tasks"))
		// Nobody answers here, so offers that run out would cause work all the time.
		if err := put(filepath.Join(x.dir, "hive.yaml"), []byte("tasks:\n  lease: 1h\n")); err != nil {
			return outcome{}, err
		}
		full, err := b.idleDaemon(ctx, x.dir, nil)
		if err != nil {
			return outcome{}, err
		}
		b.tell(0.9, "tasks end")
		open, gone, err := kept(s.tasks)
		if err != nil {
			return outcome{}, err
		}
		each := (median(full.resident) - median(young.resident)) * (1 << 20) / float64(x.created)
		return outcome{parts: []Part{
			alone("resident, for each task", "B", []float64{each}).atMost(1024),
			{Name: "resident", Unit: "MiB", Baseline: median(young.resident), Hived: median(full.resident), Reached: math.NaN(), Rounds: len(full.resident)},
			compared("on the heap, when retention is over, for each task", "B", []float64{open}, []float64{gone}).timesAtMost(0.1),
		}}, nil
	},
}
