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

// The variables of the environment in which an agent keeps which task it works on,
// and under which epoch.
const (
	envTask  = "HIVE_TASK"
	envEpoch = "HIVE_EPOCH"
)

// EpochError says why it is not known under which epoch an agent reports.
type EpochError struct {
	Agent protocol.AgentID
	Task  protocol.TaskID
	Last  uint64 // the newest of several under which it had the task; 0: that is not the matter
	Said  string // what HIVE_EPOCH holds instead of a number
}

// Error implements error.
func (e *EpochError) Error() string {
	if e.Last > 0 {
		return fmt.Sprintf("%s has had this task more than once, at last under epoch %d, and an earlier run may be at work still", e.Agent, e.Last)
	}
	return fmt.Sprintf("%s is %s; it is the number that accept or claim gave", envEpoch, protocol.Quote(e.Said))
}

// Epoch returns the epoch under which an agent reports on a task (spec §8.3) where
// it was not told which: HIVE_EPOCH, unless HIVE_TASK names another task, or what
// its accept or claim gave it. Who lost the task since is refused as fenced then.
// Who had it more than once must say which, or an earlier run that hung would pass
// as the one that has it now: that is an *[EpochError], as is a HIVE_EPOCH that is
// no number. 0 where the agent never had it or there is no such task: the
// coordinator says so. Of any other error it is not known. The environment is read
// with getenv, as os.Getenv does.
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

// worksOn reports whether a task is what HIVE_TASK says, or it says nothing that
// can be told to be another.
func worksOn(disk durable.FS, id protocol.TaskID, said string) bool {
	if said == "" {
		return true
	}
	named, err := FindTask(disk, said)
	return err != nil || named == id
}

// epochsOf returns the epochs under which an agent took a task, and whether these
// are all: of a task that was taken very often its view has the last.
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
