package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

// The environment variables that hold the task that an agent works on, and its
// epoch.
const (
	envTask  = "HIVE_TASK"
	envEpoch = "HIVE_EPOCH"
)

// EpochError says why the epoch under which an agent reports is not known.
type EpochError struct {
	Agent protocol.AgentID
	Task  protocol.TaskID
	Last  uint64 // the newest of several under which it had the task; 0: another reason
	Said  string // what HIVE_EPOCH holds instead of a number
}

// Error implements error.
func (e *EpochError) Error() string {
	if e.Last > 0 {
		return fmt.Sprintf("%s has had this task more than once, at last under epoch %d, and an earlier run may be at work still", e.Agent, e.Last)
	}
	return fmt.Sprintf("%s is %s; it is the number that accept or claim gave", envEpoch, protocol.Quote(e.Said))
}

// Epoch returns the epoch under which an agent reports on a task (spec §8.3), where
// none was given: HIVE_EPOCH, unless HIVE_TASK names another task, or the one that
// its accept or claim gave it. An agent that has lost the task since is then refused
// as fenced. An agent that had the task more than once must say which epoch, or an
// earlier run that hung would pass as the one that has it now: that is an
// *[EpochError], as is a HIVE_EPOCH that is no number. Epoch is 0 where the agent
// never had the task or there is no such task, which the coordinator then says. The
// environment is read with getenv, as os.Getenv does.
func Epoch(disk durable.FS, who protocol.AgentID, id protocol.TaskID, getenv func(string) string) (uint64, error) {
	if text := getenv(envEpoch); text != "" && worksOn(disk, id, getenv(envTask)) {
		n, err := strconv.ParseUint(text, 10, 53)
		if err != nil {
			return 0, &EpochError{Agent: who, Task: id, Said: text}
		}
		return n, nil
	}
	v, err := readView(disk, id)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("find the epoch: %w", err)
	}
	epochs, all := epochsOf(v, who)
	switch {
	case len(epochs) == 0:
		return 0, nil
	case len(epochs) > 1 || !all:
		return 0, &EpochError{Agent: who, Task: id, Last: epochs[len(epochs)-1]}
	}
	return epochs[0], nil
}

// worksOn reports whether HIVE_TASK names this task, or is empty or does not name
// exactly one task.
func worksOn(disk durable.FS, id protocol.TaskID, said string) bool {
	if said == "" {
		return true
	}
	named, err := FindTask(disk, said)
	return err != nil || named == id
}

// epochsOf returns the epochs under which an agent took a task, and whether these
// are all of them: the view of a task that was taken very often has only the last.
func epochsOf(v *task.View, who protocol.AgentID) (epochs []uint64, all bool) {
	taken := v.Taken
	if taken == nil { // an older hived wrote the view, without this member
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
