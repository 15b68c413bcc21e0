package bench

import (
	"context"
	"fmt"
	"time"
)

// row is one line of the suite.
type row struct {
	name    string
	what    func(sizes) string // what is measured, in words
	behind  string             // what limits it
	needs   needs
	brief   time.Duration     // about how long the short form takes on two cores, without making the aged hive
	full    time.Duration     // the same for the full form
	disk    func(sizes) int64 // most bytes that it needs, without the aged hive
	measure func(context.Context, *bench) (outcome, error)
}

// outcome is the result of measuring a row.
type outcome struct {
	parts []Part
	plots []plot
}

// needs is what a machine must have for a row.
type needs int

const (
	git     needs = 1 << iota // the git program
	proc                      // a /proc that shows what processes use
	process                   // a hived program to start
	past                      // the aged hive, which several rows use
)

// sizes says how much each row does.
type sizes struct {
	rounds  int           // of everything that is compared
	longest time.Duration // the most time to wait for anything

	burst     int // messages
	agents    int // that take part in a burst
	loopBurst int // messages of a round of loop (a)

	bigFiles int // files in the hive of burst-50k
	loopBig  int // messages of a round of loop (a) there

	live      int // messages of a round
	liveFiles int // files in the larger hive

	idle int // single messages on an idle hive

	commitFiles []int // sizes of hives, ascending
	loopFiles   []int // sizes at which the loop is measured too
	commits     int   // of hived in a round

	sizeMessages int // of git-size

	statusFiles   int
	statusCommits int

	agedAgents   int
	agedEvents   int // replay, start and verify
	agedMessages int // memory
	agedRounds   int
	quiet        time.Duration // how long an idle daemon is measured
	patience     int           // the most quarters of quiet to wait until it is idle

	yearAgents   int
	yearMessages int

	taskAgents int
	tasksFew   int // open tasks of the baselines
	tasks      int // open tasks

	refill int // messages in the inbox that vanishes

	reports      int // about one task
	rosterAgents int // agents of the hive in which one is held

	work       int // tasks that a worker does in a round
	workOutput int // bytes that a task writes

	timerAgents int // each with ten tasks in hand
	lease       time.Duration
}

// full is the sizes of which the targets speak.
var full = sizes{
	rounds: 5, longest: time.Hour, burst: 10_000, agents: 20, loopBurst: 100,
	bigFiles: 50_000, loopBig: 10,
	live: 2_000, liveFiles: 30_000,
	idle:        500,
	commitFiles: []int{1_000, 10_000, 50_000, 200_000}, loopFiles: []int{1_000, 10_000}, commits: 30,
	sizeMessages: 100_000,
	statusFiles:  50_000, statusCommits: 10_000,
	agedAgents: 1_000, agedEvents: 1_000_000, agedMessages: 1_000_000, agedRounds: 5, quiet: 60 * time.Second, patience: 40,
	yearAgents: 200, yearMessages: 2_000_000,
	taskAgents: 1_000, tasksFew: 5_000, tasks: 100_000, refill: 1_000, reports: 256, rosterAgents: 300, timerAgents: 1_000, lease: 30 * time.Second, work: 1_000, workOutput: 1 << 30,
}

// brief is the sizes of --short. Where a target speaks of a size, the figure of a
// smaller one does not decide whether it is met.
var brief = sizes{
	rounds: 5, longest: 5 * time.Minute, burst: 1_000, agents: 20, loopBurst: 12,
	bigFiles: 6_000, loopBig: 3,
	live: 400, liveFiles: 3_000,
	idle:        150,
	commitFiles: []int{1_000, 10_000, 50_000, 200_000}, loopFiles: []int{1_000, 10_000}, commits: 10,
	sizeMessages: 5_000,
	statusFiles:  6_000, statusCommits: 300,
	agedAgents: 100, agedEvents: 12_000, agedMessages: 10_000, agedRounds: 3, quiet: 2 * time.Second, patience: 8,
	yearAgents: 50, yearMessages: 10_000,
	taskAgents: 100, tasksFew: 500, tasks: 1_500, refill: 1_000, reports: 256, rosterAgents: 300, timerAgents: 30, lease: 3 * time.Second, work: 200, workOutput: 128 << 20,
}

// What is needed on the disk, in bytes: for a message (its file in two places, the
// log, git), for a small file, and for the directories of an agent.
const (
	messageDisk = 16 << 10
	fileDisk    = 5 << 10
	agentDisk   = 64 << 10
)

func perMessage(n int) int64 { return int64(n) * messageDisk }

// rows is the suite, in the order in which it runs: replay, start and verify use the
// aged hive before memory makes it older still.
var rows = []row{
	burstRow, bigBurstRow, liveRow, idleRow, commitRow, gitSizeRow, gitStatusRow,
	replayRow, startRow, verifyRow, memoryRow, yearRow,
	taskDecideRow, taskThroughputRow, taskTimersRow, taskMemoryRow, willingRow, stepsRow, workRow,
	logBytesRow, refillRow, tailsRow,
}

// count returns a number and what it counts.
func count(n int, what string) string { return fmt.Sprintf("%s %s", grouped(int64(n)), what) }
