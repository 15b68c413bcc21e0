// Package sweep sets how dense the sweeps of the tests are: at which operations a disk
// crashes or fails, at which named points a daemon dies, how many random histories
// there are. One environment variable chooses the density, and one table says what it
// means:
//
//	plain  (or nothing) what everybody runs before a commit
//	gate   what .ci/run does besides that, in a step of its own
//	night  everything that the sweeps can do, for .ci/nightly
package sweep

import (
	"fmt"
	"os"
)

// Variable chooses the density.
const Variable = "HIVED_SWEEP"

// Name is one of the sweeps.
type Name string

// The sweeps. A stride of n is every n-th; the others are numbers of things. The
// stride of [Stories] is odd and no multiple of three, since two or three ways of
// losing data take turns there.
const (
	HiveCrashes    Name = "whole hive, crashes: stride over its operations"
	HiveFails      Name = "whole hive, failing disk: stride over its operations"
	HiveRecoveries Name = "whole hive, crashed recoveries: stride over its operations"
	TaskCrashes    Name = "tasks, crashes: stride over their operations"
	TaskFails      Name = "tasks, failing disk: stride over their operations"
	TaskRecoveries Name = "tasks, crashed recoveries: stride over their operations"
	TaskRecovery   Name = "tasks, crashed recoveries: stride over those of the recovery"
	Stories        Name = "one story, crashes: stride over its operations"
	GitCrashes     Name = "history, crashes: stride over its operations"
	GitBytes       Name = "bytes changed of each file of a history"
	Timers         Name = "tasks of which the time is up at once"
	Rows           Name = "rows of the benchmark: 0 some, 1 all"
	Failpoints     Name = "failpoints: stride over the named points"
	Kills          Name = "kills of a daemon under load"
	Hostile        Name = "kills of a daemon among agents that do harm: 1 two of them, else all at once"
	PowerCuts      Name = "power cuts of each file system"
	Histories      Name = "random histories beside a model"
	Recorded       Name = "recorded histories of tasks"
)

type density int

const (
	plain density = iota
	gate
	night
)

// table is how dense each sweep is. In the night each fault is tried at every
// operation that a stride leaves, otherwise one of them, in turns.
var table = map[Name][night + 1]int{
	HiveCrashes:    {40, 1, 1},
	HiveFails:      {32, 3, 1},
	HiveRecoveries: {720, 180, 20},
	TaskCrashes:    {256, 32, 6},
	TaskFails:      {376, 32, 6},
	TaskRecoveries: {800, 200, 120},
	TaskRecovery:   {5, 3, 1},
	Stories:        {5, 1, 1},
	GitCrashes:     {8, 1, 1},
	GitBytes:       {4, 12, 100},
	Timers:         {2000, 10_000, 10_000},
	Rows:           {0, 1, 1},
	Failpoints:     {7, 1, 1},
	Kills:          {1, 6, 1000},
	Hostile:        {1, 4, 200},
	PowerCuts:      {0, 1, 100},
	Histories:      {20, 40, 2000},
	Recorded:       {12, 200, 200},
}

// strides are the sweeps that are thinned out under the race detector, which makes
// each life ten times as long.
var strides = map[Name]bool{
	HiveCrashes: true, HiveFails: true, HiveRecoveries: true,
	TaskCrashes: true, TaskFails: true, TaskRecoveries: true, Stories: true,
}

// Of returns the figure of a sweep.
func Of(name Name) int {
	n := table[name][chosen]
	if strides[name] {
		n *= sparse
	}
	return n
}

// Everything reports whether each fault is tried at each place, instead of one of them
// in turn.
func Everything() bool { return chosen == night }

// chosen is the density that the environment names. An unknown name ends the program:
// tests that are thought to be dense and are not prove nothing.
var chosen = func() density {
	d, err := parse(os.Getenv(Variable))
	if err != nil {
		panic(err)
	}
	return d
}()

func parse(s string) (density, error) {
	switch s {
	case "", "plain":
		return plain, nil
	case "gate":
		return gate, nil
	case "night":
		return night, nil
	}
	return 0, fmt.Errorf("%s is %q; it may be plain, gate or night", Variable, s)
}
