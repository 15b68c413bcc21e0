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
	behind  string             // what holds it back
	needs   needs
	brief   time.Duration // about what it takes in the short form, on two cores, besides the aged hive
	full    time.Duration
	disk    func(sizes) int64 // bytes that it needs at most, besides the aged hive
	measure func(context.Context, *bench) (outcome, error)
}

// outcome is what a row came to.
type outcome struct {
	parts []Part
	plots []plot
}

// needs are what a machine must have for a row.
type needs int

const (
	git     needs = 1 << iota // the git program
	proc                      // a /proc that tells what processes use
	process                   // a hived to start
	past                      // the aged hive, which rows share
)

// sizes are how much each row does.
type sizes struct {
	rounds  int           // of everything that is measured in turns
	longest time.Duration // that anything is waited for

	burst     int // messages
	agents    int // that take part in a burst
	loopBurst int // messages of a round of loop (a)

	bigFiles int // files of the hive of burst-50k
	loopBig  int // messages of a round of loop (a) there

	live      int // messages of a round
	liveFiles int // files of the larger hive

	idle int // single messages on an idle hive

	commitFiles []int // sizes of hives, ascending
	loopFiles   []int // those at which the loop is measured too
	commits     int   // of hived in a round

	sizeMessages int // of git-size

	statusFiles   int
	statusCommits int

	agedAgents   int
	agedEvents   int // replay, start and verify
	agedMessages int // memory
	agedRounds   int
	quiet        time.Duration // how long an idle daemon is looked at
	patience     int           // for how many quarters of that it is waited until it is idle, at most

	yearAgents   int
	yearMessages int

	taskAgents int
	tasksFew   int // open tasks of the baselines
	tasks      int // open tasks

	refill int // messages of an inbox that vanishes

	reports      int // about one task
	rosterAgents int // of a hive in which one is held

	timerAgents int // each with ten tasks in hand
	lease       time.Duration
}

// full are the sizes of the targets.
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
	taskAgents: 1_000, tasksFew: 5_000, tasks: 100_000, refill: 1_000, reports: 256, rosterAgents: 300, timerAgents: 1_000, lease: 30 * time.Second,
}

// brief are those of --short. Where a target speaks of a size, the figure of a
// smaller one is no verdict.
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
	taskAgents: 100, tasksFew: 500, tasks: 1_500, refill: 1_000, reports: 256, rosterAgents: 300, timerAgents: 30, lease: 3 * time.Second,
}

// What a message takes on the disk, in bytes: its file in two places, the log,
// git. And what a small file takes, and the
// directories of an agent.
const (
	messageDisk = 16 << 10
	fileDisk    = 5 << 10
	agentDisk   = 64 << 10
)

func perMessage(n int) int64 { return int64(n) * messageDisk }

// rows are the suite, in the order in which it runs: replay, start and verify
// look at one aged hive before memory makes it older still.
var rows = []row{
	burstRow, bigBurstRow, liveRow, idleRow, commitRow, gitSizeRow, gitStatusRow,
	replayRow, startRow, verifyRow, memoryRow, yearRow,
	taskDecideRow, taskThroughputRow, taskTimersRow, taskMemoryRow, willingRow,
	logBytesRow, refillRow, tailsRow,
}

// count writes a number and what it counts.
func count(n int, what string) string { return fmt.Sprintf("%s %s", grouped(int64(n)), what) }
