package main

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/hived/hived/agent"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

// taskNamed gives the task that is meant: by its id, whether there is one or
// not, or by a beginning or end of it that no other task has.
func taskNamed(disk durable.FS, said string) (protocol.TaskID, error) {
	id, err := agent.FindTask(disk, said)
	return id, seeTasks(err)
}

// seeTasks adds to an error that there is no such task how to see those that
// there are.
func seeTasks(err error) error {
	if errors.Is(err, agent.ErrNoTask) {
		return fmt.Errorf("%w; `hived task list` shows those that there are", err)
	}
	return err
}

// taskFits tells whether an id begins or ends with what was said.
func taskFits(id protocol.TaskID, said string) bool { return id.Matches(said) }

// aboutTask gives the task that a command is about: its first argument, or
// HIVE_TASK.
func (a *app) aboutTask(disk durable.FS, args []string) (protocol.TaskID, error) {
	said := a.getenv("HIVE_TASK")
	if len(args) > 0 {
		said = args[0]
	}
	if said == "" {
		return "", usageError("say which task: its id, or the beginning or end of it; `hived task list` shows them")
	}
	return taskNamed(disk, said)
}

// holderEpoch gives the epoch under which the agent reports: what was said,
// HIVE_EPOCH, or what its accept or claim gave it. Where it lost the task since,
// that one is told to be fenced. Who had it more than once must say which: an
// earlier run that hung would pass as the one that has it now.
func (a *app) holderEpoch(disk durable.FS, said uint64, id protocol.TaskID) (uint64, error) {
	if said > 0 {
		return said, nil
	}
	if text := a.getenv("HIVE_EPOCH"); text != "" && a.exported(disk, id) {
		n, err := strconv.ParseUint(text, 10, 53)
		if err != nil {
			return 0, usageError("HIVE_EPOCH is %s; it is the number that accept or claim gave", protocol.Quote(text))
		}
		return n, nil
	}
	v, err := agent.View(disk, id)
	if errors.Is(err, agent.ErrNoTask) || errors.Is(err, fs.ErrNotExist) {
		return 0, nil // the daemon knows whether there is such a task
	}
	if err != nil {
		return 0, fmt.Errorf("find the epoch: %w; or say --epoch N", err)
	}
	epochs, all := epochsOf(v, a.who())
	switch {
	case len(epochs) == 0:
		return 0, nil // the daemon knows who has it
	case len(epochs) > 1 || !all:
		return 0, usageError("%s has had this task more than once, at last under epoch %d, and an earlier run may be at work still; say --epoch N, or export HIVE_EPOCH=N, as accept or claim printed it", a.who(), epochs[len(epochs)-1])
	}
	return epochs[0], nil
}

// exported tells whether HIVE_EPOCH is of a task: HIVE_TASK may name another.
func (a *app) exported(disk durable.FS, id protocol.TaskID) bool {
	said := a.getenv("HIVE_TASK")
	if said == "" {
		return true
	}
	named, err := taskNamed(disk, said)
	return err != nil || named == id
}

// epochsOf gives the epochs under which an agent took a task, and whether these are
// all: of a task that was taken very often its view has the last.
func epochsOf(v *task.View, who protocol.AgentID) (epochs []uint64, all bool) {
	taken := v.Taken
	if taken == nil { // as it was written before it had that
		for _, s := range v.History {
			if s.Event == task.Accept || s.Event == task.Claim {
				taken = append(taken, task.Taking{By: s.By, Epoch: s.Epoch})
			}
		}
	}
	for _, t := range taken {
		if t.By == who {
			epochs = append(epochs, t.Epoch)
		}
	}
	return epochs, uint64(len(taken)) >= v.Epoch
}

// completeTasks completes tasks' ids.
func (a *app) completeTasks(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return completeIDs(a, agent.Tasks)
}
