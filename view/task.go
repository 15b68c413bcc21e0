package view

import (
	"fmt"

	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

// Task is the life of a task: everything that the log says about it, as far as it
// was read.
type Task struct {
	ID     protocol.TaskID `json:"id"`
	Title  string          `json:"title"`
	Events []TaskMoment    `json:"events"`
}

// TaskMoment is one thing that happened to a task, or was refused.
type TaskMoment struct {
	Moment

	Event      string             `json:"event"`
	From       protocol.TaskState `json:"from,omitzero"`
	To         protocol.TaskState `json:"to,omitzero"`
	By         protocol.AgentID   `json:"by"`
	Epoch      uint64             `json:"epoch,omitzero"`
	Attempt    int                `json:"attempt,omitzero"`
	Agents     []protocol.AgentID `json:"agents,omitzero"` // whom it was offered to
	Note       string             `json:"note,omitzero"`   // milestone, question, step or reason
	Code       protocol.Code      `json:"code,omitzero"`   // of a refusal
	Detail     string             `json:"detail,omitzero"`
	Outcome    *protocol.Outcome  `json:"outcome,omitzero"`    // of the execution that ended with it
	Charge     protocol.Charge    `json:"charge,omitzero"`     // what it counts against, where such an event does not always
	Generation int                `json:"generation,omitzero"` // of a create by who held a task
	Commit     string             `json:"commit,omitzero"`     // the commit that holds it, which the log does not have; the caller sets it
}

// taskFolder keeps a Task up to date.
type taskFolder struct{ *Task }

// newTask returns the life of a task.
func newTask(id protocol.TaskID) (*Task, Folder) {
	t := &Task{ID: id, Events: []TaskMoment{}}
	return t, taskFolder{t}
}

// See implements [Folder].
func (f taskFolder) See(ev protocol.Event) (done bool) {
	now := Moment{ev.Seq, ev.TS}
	if e, ok := ev.Body.(*protocol.TaskEvent); ok && e.Task == f.ID {
		if e.Spec != nil {
			f.Title = e.Spec.Title
		}
		f.Events = append(f.Events, TaskMoment{
			Moment: now, Event: string(e.Event), From: e.From, To: e.To, By: e.By,
			Epoch: e.Epoch, Attempt: e.Attempt, Agents: e.Agents, Note: noteOf(e), Outcome: e.Outcome, Charge: e.Charge, Generation: e.Generation,
		})
	}
	if e, ok := ev.Body.(*protocol.TaskRejectedEvent); ok && e.Task == string(f.ID) {
		f.Events = append(f.Events, TaskMoment{Moment: now, Event: e.Event, From: e.State, By: e.By, Epoch: e.Epoch, Code: e.Code, Detail: e.Detail, Outcome: e.Outcome})
	}
	return false
}

// noteOf returns the milestone, question, choice, unwinding task, step or reason of an event.
func noteOf(e *protocol.TaskEvent) string {
	switch {
	case e.Checkpoint != nil && e.Checkpoint.Milestone != "":
		return e.Checkpoint.Milestone
	case e.Question != "":
		return task.Asked(e)
	case e.Choice != "":
		return task.Chosen(e)
	case e.UnwoundBy != "":
		return "by task " + string(e.UnwoundBy) + ": " + task.Said(e)
	case e.Step != nil:
		return fmt.Sprintf("step %d, %s: %s", e.Step.N, e.Step.Name, e.Step.Status)
	}
	return task.Said(e)
}
