package task

import (
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/hived/hived/protocol"
)

// View is tasks/<id>/task.json: the state of a task, for people and agents to read
// (spec §8.8). What is to be done is in brief.json beside it.
type View struct {
	ID              protocol.TaskID    `json:"id"`
	Title           string             `json:"title"`
	State           State              `json:"state"`
	Since           time.Time          `json:"since"`
	Reason          string             `json:"reason,omitzero"`
	Category        protocol.Category  `json:"category,omitzero"`
	Epoch           uint64             `json:"epoch"`
	Attempt         int                `json:"attempt"`
	Retries         int                `json:"retries,omitzero"`
	Fruitless       int                `json:"fruitless,omitzero"` // executions in a row that reached nothing new
	Free            int                `json:"free,omitzero"`      // executions that ended for no fault of the task
	Crashes         int                `json:"crashes,omitzero"`   // executions that crashed
	Holder          protocol.AgentID   `json:"holder,omitzero"`
	Taken           []Taking           `json:"taken,omitzero"`
	Offered         []protocol.AgentID `json:"offered,omitzero"`
	NotBefore       time.Time          `json:"not_before,omitzero"`
	Until           time.Time          `json:"until,omitzero"`
	Expected        time.Time          `json:"expected_until,omitzero"`
	CancelRequested bool               `json:"cancel_requested,omitzero"`
	Creator         protocol.AgentID   `json:"creator"`
	CreatedAt       time.Time          `json:"created_at"`
	To              []protocol.Address `json:"to,omitzero"`
	Priority        int                `json:"priority,omitzero"`
	Needs           []protocol.TaskID  `json:"needs,omitzero"`
	BlockedOn       []protocol.TaskID  `json:"blocked_on,omitzero"`
	Question        *OpenQuestion      `json:"question,omitzero"`
	Asked           int                `json:"asked,omitzero"`    // questions in its life
	LastAsk         protocol.Seq       `json:"last_ask,omitzero"` // the number of the last of them, open or not
	Answers         []string           `json:"answers,omitzero"`  // the files of those that were answered
	Left            *Leaving           `json:"left,omitzero"`
	Resumes         protocol.TaskID    `json:"resumes,omitzero"`
	Origin          protocol.TaskID    `json:"origin,omitzero"` // of the chain of resumes, where it is another task: the steps are there
	Repairs         protocol.TaskID    `json:"repairs,omitzero"`
	Unwinds         protocol.TaskID    `json:"unwinds,omitzero"`    // whose steps it undoes
	UnwoundBy       protocol.TaskID    `json:"unwound_by,omitzero"` // the last task that undoes, or undid, its own
	Depth           int                `json:"depth,omitzero"`      // of repairs
	Generation      int                `json:"generation,omitzero"` // of what holders of tasks create
	Brief           string             `json:"brief"`
	Version         int                `json:"brief_version,omitzero"` // where it was amended
	Checkpoint      *CheckpointRef     `json:"checkpoint,omitzero"`
	Result          string             `json:"result,omitzero"`
	History         []Step             `json:"history"`
}

// Taking says who took a task, and under which epoch.
type Taking struct {
	By    protocol.AgentID `json:"by"`
	Epoch uint64           `json:"epoch"`
}

// CheckpointRef says where the newest checkpoint is.
type CheckpointRef struct {
	Path      string       `json:"path"`
	Seq       protocol.Seq `json:"seq"`
	Milestone string       `json:"milestone,omitzero"`
}

// ViewOf returns the view of a task as of its last event, with moments as the clock of
// the machine went then: a view changes with events of its task, and with nothing
// else.
func ViewOf(t *Task) View {
	terms, efforts := t.Terms(), t.Efforts()
	v := View{
		ID: t.ID, Title: t.Title, State: t.State, Since: t.time(t.Since), Reason: t.Reason, Category: t.Category,
		Epoch: t.Epoch, Attempt: t.Attempt, Retries: int(t.Retries), Fruitless: int(t.Fruitless), Free: int(efforts.Free), Crashes: int(efforts.Crashes), Holder: t.Holder, Offered: t.Offered,
		NotBefore: t.time(t.NotBefore), Until: t.time(t.Until), Expected: t.time(t.Expected), CancelRequested: t.Cancelling > 0,
		Creator: t.Creator, To: t.To, Priority: int(t.Priority), Needs: t.Needs(), BlockedOn: t.BlockedOn,
		Left: t.Left, Resumes: terms.Resumes, Repairs: terms.Repairs, Unwinds: terms.Unwinds, UnwoundBy: terms.UnwoundBy, Depth: int(terms.Depth), Generation: int(terms.Generation), Brief: protocol.TaskDir(t.ID) + "/" + protocol.TaskBrief, Version: int(t.Version),
		CreatedAt: time.Unix(0, t.created).UTC(), History: t.history.steps(),
	}
	for i, by := range t.takers {
		v.Taken = append(v.Taken, Taking{by, t.Epoch - uint64(len(t.takers)-1-i)}) //nolint:gosec // each raised the epoch by one
	}
	if !terms.Derived {
		v.Origin = terms.Origin
	}
	if q := t.Questions; q != nil {
		v.Question, v.Asked, v.LastAsk = t.openQuestion(), int(q.Count), q.Last
		for _, a := range q.Answered {
			v.Answers = append(v.Answers, protocol.TaskAnswer(t.ID, a.Ask))
		}
	}
	if t.CheckpointAt > 0 {
		v.Checkpoint = &CheckpointRef{Path: protocol.TaskDir(t.ID) + "/" + protocol.TaskCheckpoint, Seq: t.CheckpointAt, Milestone: t.Milestone}
	}
	if t.ResultAt > 0 {
		v.Result = protocol.TaskDir(t.ID) + "/" + protocol.TaskResult
	}
	return v
}

// time returns a moment on the clock of the machine as it went at the last event; the
// zero time for no moment.
func (t *Task) time(m Moment) time.Time {
	if m == 0 {
		return time.Time{}
	}
	return time.Unix(0, int64(m)).Add(t.shift).UTC()
}

// Document returns the bytes of tasks/<id>/task.json: one line for each member, and
// for each of the last steps.
func Document(t *Task) ([]byte, error) {
	v := ViewOf(t)
	steps := v.History
	v.History = []Step{}
	data, err := json.Marshal(v, stamps, jsontext.Multiline(true), jsontext.WithIndent("  "))
	if err != nil {
		return nil, fmt.Errorf("write the view of task %s: %w", t.ID, err)
	}
	const open, end = "[]\n}", "\n  ]\n}\n"
	data = append(data[:len(data)-len(open)], '[')
	for i, s := range steps {
		line, err := json.Marshal(s, stamps)
		if err != nil {
			return nil, fmt.Errorf("write the history of task %s: %w", t.ID, err)
		}
		if i > 0 {
			data = append(data, ',')
		}
		data = append(append(data, "\n    "...), line...)
	}
	return append(data, end...), nil
}
