package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

// maxTaskFile is the largest file of a task that is read, in bytes: a checkpoint or
// result is part of a message, and a history grows with the task.
const maxTaskFile = 64 << 20

// Task is all that the files of a task say (spec §8.8).
type Task struct {
	View       task.View             // task.json, with the title of the brief, which is not cut
	Brief      task.Brief            // brief.json
	Checkpoint *task.Reached         // checkpoint.json; nil: there is none yet
	Result     jsontext.Value        // what result.json holds; nil: there is none yet
	Outcome    *task.LastOutcome     // outcome.json; nil: no worker reported one
	Answers    []protocol.Question   // answers/<ask>.json, in the order of View.Answers
	Steps      []protocol.StepRecord // of the chain that it belongs to, in the order of their numbers

	// Problems says which files other than task.json could not be read. Their content
	// is missing from the fields above, or is what task.json has of it: number and
	// milestone of a checkpoint.
	Problems []error
}

// View reads tasks/<id>/task.json: the state of a task. It is written after the
// log, see [WaitView]. The error is [ErrNoTask] where the task has no directory,
// and fs.ErrNotExist where that holds no view.
func View(disk durable.FS, id protocol.TaskID) (*task.View, error) {
	v, err := readView(disk, id)
	if !errors.Is(err, fs.ErrNotExist) {
		return v, err
	}
	if _, gone := disk.Lstat(protocol.TaskDir(id)); errors.Is(gone, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w %s", ErrNoTask, protocol.Quote(string(id)))
	}
	return nil, err
}

// Brief reads tasks/<id>/brief.json: what is to be done, in its newest version.
// The error is fs.ErrNotExist where there is no such file.
func Brief(disk durable.FS, id protocol.TaskID) (*task.Brief, error) {
	b := &task.Brief{}
	if err := readTaskFile(disk, id, protocol.TaskBrief, b); err != nil {
		return nil, err
	}
	return b, nil
}

// ReadTask reads a task with all its files. The error is that of [View]; another
// file that cannot be read is no error, see [Task.Problems].
func ReadTask(disk durable.FS, id protocol.TaskID) (*Task, error) {
	v, err := View(disk, id)
	if err != nil {
		return nil, err
	}
	t := &Task{View: *v}
	t.read(disk, protocol.TaskBrief, &t.Brief)
	if t.Brief.Title != "" {
		t.View.Title = t.Brief.Title
	}
	if ref := v.Checkpoint; ref != nil {
		t.Checkpoint = &task.Reached{}
		t.read(disk, protocol.TaskCheckpoint, t.Checkpoint)
		if t.Checkpoint.Seq == 0 { // it could not be read
			t.Checkpoint.Task, t.Checkpoint.Seq, t.Checkpoint.Milestone = id, ref.Seq, ref.Milestone
		}
	}
	if v.Result != "" {
		var result task.Outcome
		t.read(disk, protocol.TaskResult, &result)
		t.Result = result.Result
	}
	for _, path := range v.Answers {
		var q protocol.Question
		t.read(disk, strings.TrimPrefix(path, protocol.TaskDir(id)+"/"), &q)
		t.Answers = append(t.Answers, q)
	}
	t.readOutcome(disk)
	t.readSteps(disk)
	return t, nil
}

// read reads one file of the task, or notes why it cannot.
func (t *Task) read(disk durable.FS, name string, into any) {
	if err := readTaskFile(disk, t.View.ID, name, into); err != nil {
		t.Problems = append(t.Problems, err)
	}
}

// readOutcome reads outcome.json, if there is one.
func (t *Task) readOutcome(disk durable.FS) {
	var o task.LastOutcome
	switch err := readTaskFile(disk, t.View.ID, protocol.TaskOutcome, &o); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		t.Problems = append(t.Problems, err)
	default:
		t.Outcome = &o
	}
}

// viewPoll is how often WaitView reads the view.
const viewPoll = 20 * time.Millisecond

// WaitView returns the view of a task as soon as its last step is the event with
// that number, or a later one: the log has an event first, and a reader right after
// it would find the old state. It goes on waiting while the view is missing or
// invalid; where it may not be read, it returns that error. When ctx ends, the error
// is its cause.
func WaitView(ctx context.Context, disk durable.FS, id protocol.TaskID, through protocol.Seq) (*task.View, error) {
	tick := time.NewTicker(viewPoll)
	defer tick.Stop()
	for {
		v, err := readView(disk, id)
		switch {
		case err == nil && len(v.History) > 0 && v.History[len(v.History)-1].Seq >= through:
			return v, nil
		case errors.Is(err, fs.ErrPermission):
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("wait until task %s shows event %d: %w", id, through, context.Cause(ctx))
		case <-tick.C:
		}
	}
}

// readView reads task.json and returns an error where it is not this task's view.
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
