package main

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/router"
	"github.com/hived/hived/task"
)

// maxTaskFile is the largest file of a task that is read: a checkpoint or result
// is part of a message, and a history grows with the task.
const maxTaskFile = 64 << 20

// readTaskFile reads one file of a task.
func readTaskFile(disk durable.FS, id protocol.TaskID, name string, into any) error {
	path := protocol.TaskDir(id) + "/" + name
	data, _, err := durable.ReadFile(disk, path, maxTaskFile)
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("read %s: it is not what hived wrote: %s; `hived verify` says more", path, protocol.Visible(err.Error()))
	}
	return nil
}

// readView reads where a task stands.
func readView(disk durable.FS, id protocol.TaskID) (*task.View, error) {
	v := &task.View{}
	if err := readTaskFile(disk, id, protocol.TaskView, v); err != nil {
		return nil, err
	}
	if v.ID != id || v.State == "" {
		return nil, fmt.Errorf("read %s/%s: it is not what hived wrote; `hived verify` says more", protocol.TaskDir(id), protocol.TaskView)
	}
	return v, nil
}

// findView is readView for a task that is asked for: one that has no directory
// is not found.
func findView(disk durable.FS, id protocol.TaskID) (*task.View, error) {
	v, err := readView(disk, id)
	if !errors.Is(err, fs.ErrNotExist) {
		return v, err
	}
	if _, gone := disk.Lstat(protocol.TaskDir(id)); errors.Is(gone, fs.ErrNotExist) {
		return nil, exitWith(exitNotFound, "there is no task %s; `hived task list` shows those that there are", protocol.Quote(string(id)))
	}
	return nil, fmt.Errorf("%w; the daemon writes it, and `hived verify` says whether it is missing", err)
}

// taskJSON is what `task show` prints: the view with the content of the files
// that it names.
type taskJSON struct {
	task.View
	router.Signs // of a task that somebody has, while a daemon runs

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
	router.Signs
}

// signs gives what the running daemon says of the holders of tasks; nothing where
// none runs, or has said it yet.
func signs(disk *durable.Disk) func(*task.View) router.Signs {
	var list []router.Held
	if pid, runs, err := daemon(disk); err == nil && runs {
		if s, err := router.ReadStatus(disk); err == nil && s.PID == pid {
			list = s.Held
		}
	}
	return signsIn(list)
}

func signsIn(list []router.Held) func(*task.View) router.Signs {
	held := map[protocol.TaskID]router.Held{}
	for _, h := range list {
		held[h.Task] = h
	}
	return func(v *task.View) router.Signs {
		if h := held[v.ID]; h.Holder == v.Holder && task.InHand(v.State) {
			return h.Signs
		}
		return router.Signs{} // the daemon said it before the task went on
	}
}

// readTask reads a task whole. What could not be read of its files beside the
// view comes as problems.
func readTask(disk durable.FS, id protocol.TaskID) (out *taskJSON, problems []error, err error) {
	v, err := findView(disk, id)
	if err != nil {
		return nil, nil, err
	}
	out = &taskJSON{View: *v}
	add := func(err error) {
		if err != nil {
			problems = append(problems, err)
		}
	}
	var brief task.Brief
	add(readTaskFile(disk, id, protocol.TaskBrief, &brief))
	if brief.Title != "" {
		out.Title = brief.Title // the view has it cut
	}
	out.Body, out.Gate, out.Data = brief.Body, brief.Gate, brief.Data
	if ref := v.Checkpoint; ref != nil {
		out.Checkpoint = &checkpointJSON{Path: ref.Path}
		add(readTaskFile(disk, id, protocol.TaskCheckpoint, &out.Checkpoint.Reached))
		if out.Checkpoint.Seq == 0 { // it could not be read
			out.Checkpoint.Task, out.Checkpoint.Seq, out.Checkpoint.Milestone = id, ref.Seq, ref.Milestone
		}
	}
	if v.Result != "" {
		var result task.Outcome
		add(readTaskFile(disk, id, protocol.TaskResult, &result))
		out.Result = result.Result
	}
	for _, path := range v.Answers {
		q := answersJSON{Path: path}
		add(readTaskFile(disk, id, strings.TrimPrefix(path, protocol.TaskDir(id)+"/"), &q.Question))
		out.Answers = append(out.Answers, q)
	}
	return out, problems, nil
}
