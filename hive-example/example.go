// Package hiveexample holds a small hive whose six agents are shell scripts. In
// the first act a planner, a maker and a checker write a short text together; in
// the second, two others have a task; in the third, a worker has one, for a baker.
//
// It promises that the text can only come about if the three answer each other,
// that its content is known beforehand, and that everything ends by itself: each
// script exits with 0 when its part is done, and with 1 when no message came
// for 20 seconds. On their way the scripts make the mistakes that agents make:
// a message that is not JSON, a misspelt recipient, thanks for thanks without
// end.
//
// Of the two that have a task, the one that takes it first is meant to be killed
// after its first checkpoint. The other goes on from there, asks human, and
// completes the task. Then [LateScript] lets the first report a result, which
// comes too late.
//
// The [Baker]'s recipe has five steps. Under the first epoch of its task it waits for a minute
// after the third, so that its worker can be killed there.
//
// Making the hive of it, running hived, starting and killing the scripts, and
// being human is left to others.
package hiveexample

import (
	"embed"
	"slices"
)

// Files is the hive before hived has seen it, below the directory "hive":
// board.md, hive.yaml and the own files of the agents. The modes of an [embed.FS] say
// nothing: start a script with sh.
//
//go:embed all:hive
var Files embed.FS

// Script is the program of each agent, in agents/<id>/. It needs a POSIX shell
// and the variables HIVE_DIR and HIVE_AGENT (spec §9).
const Script = "agent.sh"

// LateScript is a second program of each of [Workers], for the one that was
// killed.
const LateScript = "late.sh"

// Result is the file that is there when all scripts have ended, relative to
// the hive.
const Result = "agents/planner/result.txt"

//go:embed want.txt
var want []byte

// Agents lists the agents of the first act in name order.
func Agents() []string { return []string{"checker", "maker", "planner"} }

// Workers lists those of the second act in name order.
func Workers() []string { return []string{"amber", "clover"} }

// Baker is the agent of the third act, and Recipe the program that its worker runs for its
// task, in agents/<id>/. It needs hived in PATH. Its argument is a directory outside the
// hive: each of its steps leaves a line in the file [Loaf] there.
const (
	Baker  = "baker"
	Recipe = "recipe.sh"
	Loaf   = "loaf"
)

// RecipeSteps are the steps of the recipe.
func RecipeSteps() []string { return []string{"mix", "knead", "prove", "shape", "bake"} }

// Order is the message by which human gives the workers their task.
const Order = `{"to": "hive", "event": "create", "data": {"title": "Fill 3 jars", "to": ["amber", "clover"], "data": {"jars": 3}}}`

// TaskResult is the result of the task, as the holder reports it.
const TaskResult = `{"jars":3}`

// Want is the content of [Result]. The caller may change it.
func Want() []byte { return slices.Clone(want) }
