package bench

import (
	"context"
	"errors"
	"fmt"
	"time"
)

var taskThroughputRow = row{
	name: "tasks-throughput",
	what: func(s sizes) string {
		return fmt.Sprintf("%d agents take a task each, start it, report progress twice, complete it, and create another: %s a round, written beside the outboxes and then renamed into them. The clock runs from the first rename until all are answered in the log, and until everything is committed and synced in git, "+
			"with %s open; the baseline is the same with %s.", s.taskAgents, count(6*s.taskAgents, "commands"), count(s.tasks, "tasks"), count(s.tasksFew, "tasks"))
	},
	behind: "The kernel and git: a command is a file that is opened, read and renamed, and its results are one or two files of the task, each written and renamed, and a notice in an inbox. Each commit writes the complete tree of tasks/, which names every task: 5 MB with 100,000 tasks. Therefore commits hold more events there, up to 4,096 events.",
	brief:  15 * time.Second, full: 240 * time.Second,
	disk: func(s sizes) int64 {
		return int64(s.tasks+s.tasksFew)*6*fileDisk + int64(s.rounds)*2*perMessage(8*s.taskAgents) + int64(2*s.taskAgents)*agentDisk
	},
	measure: func(ctx context.Context, b *bench) (outcome, error) {
		s := b.sizes
		few, err := b.newBoard(ctx, s.taskAgents, s.tasksFew, workloadSettings(), func(float64) {})
		if err != nil {
			return outcome{}, err
		}
		many, err := b.manyTasks(ctx)
		if err != nil {
			return outcome{}, joinClose(err, few)
		}
		out, err := b.shifts(ctx, few, many)
		return out, errors.Join(err, few.close())
	},
}

// shifts has the agents of both hives work alternately. One daemon runs at a time.
func (b *bench) shifts(ctx context.Context, few, many *board) (outcome, error) {
	if err := few.down(); err != nil {
		return outcome{}, err
	}
	var answered, committed [2][]float64
	for round := range b.sizes.rounds {
		b.tell(0.5+float64(round)/float64(2*b.sizes.rounds), "round %d of %d", round+1, b.sizes.rounds)
		for i, x := range []*board{few, many} {
			n, a, c, err := x.oneShift(ctx)
			if err != nil {
				return outcome{}, err
			}
			answered[i] = append(answered[i], float64(n)/a.Seconds())
			committed[i] = append(committed[i], float64(n)/c.Seconds())
		}
	}
	return outcome{parts: []Part{
		compared("answered in the log", "commands/s", answered[0], answered[1]).atLeast(2000),
		compared("committed", "commands/s", committed[0], committed[1]).atLeast(2000),
	}}, nil
}

// oneShift starts a daemon, waits until it is idle, and has the agents work.
func (x *board) oneShift(ctx context.Context) (n int, answered, committed time.Duration, err error) {
	if err := x.up(ctx, workloadSettings()); err != nil {
		return 0, 0, 0, err
	}
	if err := x.untilIdle(ctx); err != nil {
		return 0, 0, 0, err
	}
	n, answered, committed, err = x.shift(ctx)
	return n, answered, committed, errors.Join(err, x.down())
}
