// Package hiveexample holds a small hive whose three agents are shell scripts:
// a planner, a maker and a checker that write a short text together.
//
// It promises that the text can only come about if they answer each other, that
// its content is known beforehand, and that everything ends by itself: each
// script exits with 0 when its part is done, and with 1 when no message came
// for 20 seconds. On their way the scripts make the mistakes that agents make:
// a message that is not JSON, a misspelt recipient, thanks for thanks without
// end. Making the hive of it, running hived and starting the scripts is left to
// others.
package hiveexample

import (
	"embed"
	"slices"
)

// Files is the hive before hived has seen it, below the directory "hive":
// board.md and the own files of the agents. The modes of an [embed.FS] say
// nothing: start a script with sh.
//
//go:embed all:hive
var Files embed.FS

// Script is the program of each agent, in agents/<id>/. It needs a POSIX shell
// and the variables HIVE_DIR and HIVE_AGENT (spec §9).
const Script = "agent.sh"

// Result is the file that is there when all scripts have ended, relative to
// the hive.
const Result = "agents/planner/result.txt"

//go:embed want.txt
var want []byte

// Agents lists the agents in name order.
func Agents() []string { return []string{"checker", "maker", "planner"} }

// Want is the content of [Result]. The caller may change it.
func Want() []byte { return slices.Clone(want) }
