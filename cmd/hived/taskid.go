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

// resolveTask returns the id of a task that is named by its id, whether there is
// one or not, or by a beginning or end of it that no other task has.
func resolveTask(disk durable.FS, given string) (protocol.TaskID, error) {
	id, err := agent.FindTask(disk, given)
	return id, hintTaskList(err)
}

// resolveTasks replaces each name in the slice by the id of the task that it names.
func resolveTasks(disk durable.FS, given []string) error {
	for i, name := range given {
		id, err := resolveTask(disk, strings.TrimSpace(name))
		if err != nil {
			return err
		}
		given[i] = string(id)
	}
	return nil
}

// hintTaskList adds to an unknown-task error the command that lists the tasks.
func hintTaskList(err error) error {
	if errors.Is(err, agent.ErrNoTask) {
		return fmt.Errorf("%w; `hived task list` shows all", err)
	}
	return err
}

// taskArg returns the task that a command is about: its first argument, or
// HIVE_TASK.
func (a *app) taskArg(disk durable.FS, args []string) (protocol.TaskID, error) {
	given := a.getenv("HIVE_TASK")
	if len(args) > 0 {
		given = args[0]
	}
	if given == "" {
		return "", usageError("name the task: its id, or the beginning or end of it; `hived task list` shows them")
	}
	return resolveTask(disk, given)
}

// holderEpoch returns the epoch under which the agent reports: the one that was
// given, or what [agent.Epoch] knows.
func (a *app) holderEpoch(disk durable.FS, given uint64, id protocol.TaskID) (uint64, error) {
	if given > 0 {
		return given, nil
	}
	n, err := agent.Epoch(disk, a.who(), id, a.getenv)
	unclear, known := errors.AsType[*agent.EpochError](err)
	switch {
	case known && unclear.Last > 0:
		return 0, usageError("%w; give --epoch N, or export HIVE_EPOCH=N, as accept or claim printed it", err)
	case known:
		return 0, usageError("%w", err)
	case err != nil:
		return 0, fmt.Errorf("%w; or give --epoch N", err)
	}
	return n, nil
}

// completeTasks completes task ids.
func (a *app) completeTasks(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return completeIDs(a, agent.Tasks)
}
