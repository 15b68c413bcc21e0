package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hived/hived/agent"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
)

// taskNamed gives the task that is meant: by its id, whether there is one or
// not, or by a beginning or end of it that no other task has.
func taskNamed(disk durable.FS, said string) (protocol.TaskID, error) {
	id, err := agent.FindTask(disk, said)
	return id, seeTasks(err)
}

// tasksNamed puts the ids of the tasks that are meant in the place of what was said.
func tasksNamed(disk durable.FS, said []string) error {
	for i, name := range said {
		id, err := taskNamed(disk, strings.TrimSpace(name))
		if err != nil {
			return err
		}
		said[i] = string(id)
	}
	return nil
}

// seeTasks adds to an error that there is no such task how to see those that
// there are.
func seeTasks(err error) error {
	if errors.Is(err, agent.ErrNoTask) {
		return fmt.Errorf("%w; `hived task list` shows those that there are", err)
	}
	return err
}

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

// holderEpoch gives the epoch under which the agent reports: what was said, or
// what [agent.Epoch] knows.
func (a *app) holderEpoch(disk durable.FS, said uint64, id protocol.TaskID) (uint64, error) {
	if said > 0 {
		return said, nil
	}
	n, err := agent.Epoch(disk, a.who(), id, a.getenv)
	unclear, known := errors.AsType[*agent.EpochError](err)
	switch {
	case known && unclear.Last > 0:
		return 0, usageError("%w; say --epoch N, or export HIVE_EPOCH=N, as accept or claim printed it", err)
	case known:
		return 0, usageError("%w", err)
	case err != nil:
		return 0, fmt.Errorf("%w; or say --epoch N", err)
	}
	return n, nil
}

// completeTasks completes tasks' ids.
func (a *app) completeTasks(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return completeIDs(a, agent.Tasks)
}
