package view

import (
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
)

// Status is the status of a running daemon.
type Status struct {
	PID      int                 `json:"pid"`
	Version  string              `json:"version"`
	Started  time.Time           `json:"started"`
	At       time.Time           `json:"at"` // of this status
	Seq      protocol.Seq        `json:"seq"`
	GitSeq   protocol.Seq        `json:"git_seq"`
	Watching string              `json:"watching"` // "watching", or why it polls
	Intake   string              `json:"intake"`   // empty, or why nothing is taken in
	Git      string              `json:"git"`      // empty, or what is wrong
	Backlog  int                 `json:"owed"`     // placements that wait for a directory to become writable
	Problems []string            `json:"problems"` // as the daemon writes them, each "code" or "code: value"; audit.Status replaces them by words
	NeedsYou []protocol.Need     `json:"needs_you"`
	Agents   []Agent             `json:"agents"`
	Tasks    map[string]int      `json:"tasks,omitzero"` // by state
	Held     []protocol.HeldTask `json:"held,omitempty"` // tasks that have a holder, not all where they are many

	Trouble []Problem `json:"-"` // the problems as codes and values
}

// ProblemCode is the kind of a [Problem].
type ProblemCode string

// The codes of problems.
const (
	NotWatching ProblemCode = "watching"     // it polls; the value says why
	DiskFull    ProblemCode = "disk-full"    // nothing is taken in
	GitWaits    ProblemCode = "git"          // no commits are made; the value says why
	GitUnusable ProblemCode = "git-unusable" // there is no history; the value says why
	NotWritable ProblemCode = "not-writable" // files wait for a directory that cannot be written; the value is how many
	TaskStopped ProblemCode = "task-stopped" // the clocks of a task are stopped, because hived could not decide about it; the value is the task
)

// Problem is trouble that a daemon has now: a code, and a value where the code has
// one. A text without a known code is the value of a Problem without a code.
type Problem struct {
	Code  ProblemCode
	Value string
}

// parseProblem reads a problem as a daemon wrote it.
func parseProblem(s string) Problem {
	code, value, _ := strings.Cut(s, ": ")
	switch p := (Problem{ProblemCode(code), value}); p.Code {
	case NotWatching, DiskFull, GitWaits, GitUnusable, NotWritable, TaskStopped:
		return p
	}
	return Problem{Value: s}
}

// ReadStatus reads the status that the daemon wrote last. It does not say whether
// the daemon still runs: see durable.Holder.
func ReadStatus(disk durable.FS) (Status, error) {
	data, _, err := durable.ReadFile(disk, protocol.StatusFile, 16<<20)
	if err != nil {
		return Status{}, fmt.Errorf("read the daemon's status: %w", err)
	}
	var s Status
	if err := json.Unmarshal(data, &s); err != nil {
		return Status{}, fmt.Errorf("read the daemon's status: %w", err)
	}
	for _, p := range s.Problems {
		s.Trouble = append(s.Trouble, parseProblem(p))
	}
	return s, nil
}
