package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/hived/hived/agent"
	"github.com/hived/hived/hive"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
	"github.com/hived/hived/view"
)

// findView reads the view of a task.
func findView(disk durable.FS, id protocol.TaskID) (*task.View, error) {
	v, err := agent.View(disk, id)
	return v, explainMissing(err)
}

// explainMissing adds to the error of a task without files what that may mean.
func explainMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w; the daemon writes it, and `hived verify` says whether it is missing", err)
	}
	return hintTaskList(err)
}

// listedTask is a task as `task list` shows it.
type listedTask struct {
	*task.View
	protocol.Signs
}

// holderSigns returns what the running daemon knows of the life of tasks' holders:
// nothing where no daemon runs, or it has not written its status yet.
func holderSigns(disk *durable.Disk) func(*task.View) protocol.Signs {
	var list []protocol.HeldTask
	if pid, runs, err := hive.Daemon(disk); err == nil && runs {
		if s, err := view.ReadStatus(disk); err == nil && s.PID == pid {
			list = s.Held
		}
	}
	return agent.SignsIn(list)
}

// readTask reads a task with all its files. What could not be read, other than the
// view, is returned as problems.
func readTask(disk durable.FS, id protocol.TaskID) (*agent.Document, []error, error) {
	t, problems, err := agent.ReadDocument(disk, id)
	return t, problems, explainMissing(err)
}

// readSoon reads the files of a task, and waits for them if the task was created
// just now and a daemon runs. Where none runs, the error of a missing task says
// that a task that was sent is queued.
func readSoon(ctx context.Context, disk *durable.Disk, id protocol.TaskID, read func() error) error {
	_, runs, err := hive.Daemon(disk)
	if err != nil || runs {
		return agent.ReadSoon(ctx, id, read)
	}
	if err = read(); exitStatus(err) == protocol.ExitNotFound {
		return &exitError{protocol.ExitNotFound, fmt.Errorf("%w; no daemon runs: a task that was sent is queued until `hived up`", err)}
	}
	return err
}
