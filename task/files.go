package task

import (
	"cmp"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/hived/hived/protocol"
)

// Brief is tasks/<id>/brief.json: what is to be done, as it was created.
type Brief struct {
	ID       protocol.TaskID    `json:"id"`
	Title    string             `json:"title"`
	Body     string             `json:"body,omitzero"`
	To       []protocol.Address `json:"to,omitzero"`
	Needs    []protocol.TaskID  `json:"needs,omitzero"`
	Priority int                `json:"priority,omitzero"`
	Gate     string             `json:"gate,omitzero"`
	GateBy   protocol.AgentID   `json:"gate_by,omitzero"` // who wrote it

	GateSHA256 string `json:"gate_sha256,omitzero"`

	Approvals int                `json:"approvals,omitzero"`
	Approvers []protocol.Address `json:"approvers,omitzero"`
	Data      jsontext.Value     `json:"data,omitzero"`
	Resumes   protocol.TaskID    `json:"resumes,omitzero"`
	Repairs   protocol.TaskID    `json:"repairs,omitzero"`
	Unwinds   protocol.TaskID    `json:"unwinds,omitzero"`
	Creator   protocol.AgentID   `json:"creator"`
	CreatedAt time.Time          `json:"created_at"`
	Version   int                `json:"version,omitzero"`    // from 2 on
	AmendedBy protocol.AgentID   `json:"amended_by,omitzero"` // who wrote this version
	AmendedAt time.Time          `json:"amended_at,omitzero"`
}

// Reached is tasks/<id>/checkpoint.json: the newest checkpoint, whole.
type Reached struct {
	Task  protocol.TaskID  `json:"task"`
	Seq   protocol.Seq     `json:"seq"`
	By    protocol.AgentID `json:"by"`
	Epoch uint64           `json:"epoch"`
	At    time.Time        `json:"at"`
	protocol.Checkpoint
}

// Outcome is tasks/<id>/result.json.
type Outcome struct {
	Task   protocol.TaskID  `json:"task"`
	Seq    protocol.Seq     `json:"seq"`
	By     protocol.AgentID `json:"by"`
	Epoch  uint64           `json:"epoch"`
	At     time.Time        `json:"at"`
	Result jsontext.Value   `json:"result"`
}

// stamps writes times with nine digits after the second, as hived does
// everywhere (spec).
var stamps = json.WithMarshalers(json.MarshalToFunc(func(out *jsontext.Encoder, t time.Time) error {
	return out.WriteToken(jsontext.String(protocol.Stamp(t)))
}))

// briefOf returns the brief that results from an event with a spec.
func briefOf(e *protocol.TaskEvent, at time.Time) Brief {
	s := e.Spec
	brief := Brief{
		ID: e.Task, Title: s.Title, Body: s.Body, To: s.To, Needs: e.Needs, Priority: s.Priority, Gate: s.Gate, Approvals: s.Approvals,
		Approvers: s.Approvers, Data: s.Data, Resumes: e.Resumes, Repairs: e.Repairs, Unwinds: e.Unwinds, Creator: e.By, CreatedAt: at,
	}
	if a := e.Amends; a != nil {
		if brief.Creator = a.Creator; !a.CreatedAt.IsZero() {
			brief.CreatedAt = a.CreatedAt
		}
		if x := e.Adopted; x != nil {
			brief.AmendedBy, brief.AmendedAt = x.AmendedBy, x.AmendedAt
		} else {
			brief.AmendedBy, brief.AmendedAt = e.By, at
		}
		if a.Version > 1 {
			brief.Version = a.Version
		}
	}
	if brief.GateBy = e.GateBy; e.GateBy != "" {
		brief.GateSHA256 = protocol.GateSum(s.Gate)
	}
	return brief
}

// Changes returns the files of a task that one event writes. For a checkpoint that
// the event patches it has only the git id, unless Whole is set. The view is not among
// them: it is the result of many events.
func Changes(ev protocol.Event, e *protocol.TaskEvent) ([]protocol.Change, error) {
	var list []protocol.Change
	putAt := func(path string, v any) error {
		data, err := json.Marshal(v, stamps, jsontext.Multiline(true), jsontext.WithIndent("  "), json.Deterministic(true))
		if err != nil {
			return fmt.Errorf("write %s: %w", path, err)
		}
		list = append(list, protocol.Change{Op: protocol.Put, Path: path, Data: append(data, '\n')})
		return nil
	}
	put := func(name string, v any) error { return putAt(protocol.TaskDir(e.Task)+"/"+name, v) }
	at := ev.TS.UTC()
	checkpointFrom, resultFrom := protocol.Origin{By: e.By, Epoch: e.Epoch, At: at}, protocol.Origin{By: e.By, Epoch: e.Epoch, At: at}
	if x := e.Adopted; x != nil {
		checkpointFrom, resultFrom = *cmp.Or(x.CheckpointFrom, &checkpointFrom), *cmp.Or(x.ResultFrom, &resultFrom)
	}
	if e.Spec != nil {
		if err := put(protocol.TaskBrief, briefOf(e, at)); err != nil {
			return nil, err
		}
	}
	switch c := e.Checkpoint; {
	case c == nil:
	case c.Patch != nil && c.Whole == nil:
		list = append(list, protocol.Change{Op: protocol.Put, Path: protocol.TaskDir(e.Task) + "/" + protocol.TaskCheckpoint, Blob: c.Blob})
	default:
		shown := protocol.Checkpoint{Milestone: c.Milestone, Schema: c.Schema, SHA256: c.SHA256, Data: c.Data}
		if c.Patch != nil {
			shown.Data = c.Whole
		}
		if err := put(protocol.TaskCheckpoint, Reached{e.Task, ev.Seq, checkpointFrom.By, checkpointFrom.Epoch, checkpointFrom.At, shown}); err != nil {
			return nil, err
		}
	}
	if e.Result != nil {
		if err := put(protocol.TaskResult, Outcome{e.Task, ev.Seq, resultFrom.By, resultFrom.Epoch, resultFrom.At, e.Result.Value}); err != nil {
			return nil, err
		}
	}
	for _, f := range documentsIn(ev, e) {
		if err := putAt(f.path, f.value); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// document is a file that an event has whole.
type document struct {
	path  string
	value any
}

// documentsIn returns the outcome that an event has, the record of a step, and the
// questions that it answers.
func documentsIn(ev protocol.Event, e *protocol.TaskEvent) (list []document) {
	if e.Outcome != nil {
		list = append(list, document{protocol.TaskDir(e.Task) + "/" + protocol.TaskOutcome, outcomeIn(ev, e)})
	}
	if e.Step != nil {
		list = append(list, document{protocol.StepFile(e.Step.Origin(), e.Step.N, e.Step.Name), e.Step})
	}
	for _, q := range answeredIn(e) {
		list = append(list, document{protocol.TaskAnswer(e.Task, q.Ask), q})
	}
	return list
}

// answeredIn returns the questions that an event answers.
func answeredIn(e *protocol.TaskEvent) (list []protocol.Question) {
	if e.Answered != nil {
		list = append(list, *e.Answered)
	}
	if x := e.Adopted; x != nil {
		list = append(list, x.Answered...)
		if x.Open != nil && len(x.Open.Answers) > 0 {
			list = append(list, *x.Open)
		}
	}
	return list
}

// File is a file of a task, and the event that wrote it last.
type File struct {
	Path string
	Seq  protocol.Seq
}

// files returns the files of the task, task.json last: it is the last to be removed.
func (t *Task) files() (list []File) {
	dir := protocol.TaskDir(t.ID) + "/"
	for _, f := range []File{{dir + protocol.TaskBrief, t.BriefAt}, {dir + protocol.TaskCheckpoint, t.CheckpointAt}, {dir + protocol.TaskResult, t.ResultAt}, {dir + protocol.TaskOutcome, t.Efforts().At}} {
		if f.Seq > 0 {
			list = append(list, f)
		}
	}
	if q := t.Questions; q != nil {
		for _, a := range q.Answered {
			list = append(list, File{protocol.TaskAnswer(t.ID, a.Ask), a.At})
		}
	}
	return append(list, File{dir + protocol.TaskView, t.Viewed})
}
