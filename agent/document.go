package agent

import (
	"github.com/go-json-experiment/json/jsontext"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

// Document is a task as one JSON object: its view, with the content of the files that
// the view names.
type Document struct {
	task.View
	protocol.Signs // only for a task that has a holder, while a daemon runs: see [SignsIn]

	Body       string          `json:"body,omitzero"`
	Gate       string          `json:"gate,omitzero"`
	Data       jsontext.Value  `json:"data,omitzero"`
	Checkpoint *CheckpointFile `json:"checkpoint,omitzero"`
	Result     jsontext.Value  `json:"result,omitzero"`
	Answers    []AnswersFile   `json:"answers,omitzero"`

	Steps   []protocol.StepRecord `json:"steps,omitzero"`
	Outcome *task.LastOutcome     `json:"outcome,omitzero"`
}

// AnswersFile holds the answers to a question, and their path.
type AnswersFile struct {
	Path string `json:"path"`
	protocol.Question
}

// CheckpointFile is a checkpoint and its path.
type CheckpointFile struct {
	Path string `json:"path"`
	task.Reached
}

// ReadDocument reads a task with all its files, but without its holder's signs of
// life. The error is that of [View]; problems say which other files could not be
// read.
func ReadDocument(disk durable.FS, id protocol.TaskID) (d *Document, problems []error, err error) {
	t, err := ReadTask(disk, id)
	if err != nil {
		return nil, nil, err
	}
	d = &Document{View: t.View, Body: t.Brief.Body, Gate: t.Brief.Gate, Data: t.Brief.Data, Result: t.Result, Steps: t.Steps, Outcome: t.Outcome}
	if t.Checkpoint != nil {
		d.Checkpoint = &CheckpointFile{t.View.Checkpoint.Path, *t.Checkpoint}
	}
	for i, q := range t.Answers {
		d.Answers = append(d.Answers, AnswersFile{t.View.Answers[i], q})
	}
	return d, t.Problems, nil
}

// SignsIn returns a function that finds a task's signs of life in the list of a
// daemon's status.
func SignsIn(list []protocol.HeldTask) func(*task.View) protocol.Signs {
	held := map[protocol.TaskID]protocol.HeldTask{}
	for _, h := range list {
		held[h.Task] = h
	}
	return func(v *task.View) protocol.Signs {
		if h := held[v.ID]; h.Holder == v.Holder && task.InHand(v.State) {
			return h.Signs
		}
		return protocol.Signs{} // the status is older than the task's last step
	}
}
