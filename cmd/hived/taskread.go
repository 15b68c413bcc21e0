package main

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/hived/hived/agent"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/router"
	"github.com/hived/hived/task"
)

// findView reads where a task stands that was asked for.
func findView(disk durable.FS, id protocol.TaskID) (*task.View, error) {
	v, err := agent.View(disk, id)
	return v, missing(err)
}

// missing adds to an error that a task has no files what that may mean.
func missing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w; the daemon writes it, and `hived verify` says whether it is missing", err)
	}
	return seeTasks(err)
}

// taskJSON is what `task show` prints: the view with the content of the files
// that it names.
type taskJSON struct {
	task.View
	protocol.Signs // of a task that somebody has, while a daemon runs

	Body       string          `json:"body,omitzero"`
	Gate       string          `json:"gate,omitzero"`
	Data       jsontext.Value  `json:"data,omitzero"`
	Checkpoint *checkpointJSON `json:"checkpoint,omitzero"`
	Result     jsontext.Value  `json:"result,omitzero"`
	Answers    []answersJSON   `json:"answers,omitzero"`
}

// answersJSON are the answers to a question, and where they stand.
type answersJSON struct {
	Path string `json:"path"`
	protocol.Question
}

// checkpointJSON is a checkpoint, and where it stands.
type checkpointJSON struct {
	Path string `json:"path"`
	task.Reached
}

// listedTask is a task as `task list` shows it.
type listedTask struct {
	*task.View
	protocol.Signs
}

// signs gives what the running daemon says of the holders of tasks; nothing where
// none runs, or has said it yet.
func signs(disk *durable.Disk) func(*task.View) protocol.Signs {
	var list []protocol.HeldTask
	if pid, runs, err := daemon(disk); err == nil && runs {
		if s, err := router.ReadStatus(disk); err == nil && s.PID == pid {
			list = s.Held
		}
	}
	return signsIn(list)
}

func signsIn(list []protocol.HeldTask) func(*task.View) protocol.Signs {
	held := map[protocol.TaskID]protocol.HeldTask{}
	for _, h := range list {
		held[h.Task] = h
	}
	return func(v *task.View) protocol.Signs {
		if h := held[v.ID]; h.Holder == v.Holder && task.InHand(v.State) {
			return h.Signs
		}
		return protocol.Signs{} // the daemon said it before the task went on
	}
}

// readTask reads a task whole. What could not be read of its files beside the
// view comes as problems.
func readTask(disk durable.FS, id protocol.TaskID) (out *taskJSON, problems []error, err error) {
	t, err := agent.ReadTask(disk, id)
	if err != nil {
		return nil, nil, missing(err)
	}
	out = &taskJSON{View: t.View, Body: t.Brief.Body, Gate: t.Brief.Gate, Data: t.Brief.Data, Result: t.Result}
	if t.Checkpoint != nil {
		out.Checkpoint = &checkpointJSON{t.View.Checkpoint.Path, *t.Checkpoint}
	}
	for i, q := range t.Answers {
		out.Answers = append(out.Answers, answersJSON{t.View.Answers[i], q})
	}
	return out, t.Problems, nil
}
