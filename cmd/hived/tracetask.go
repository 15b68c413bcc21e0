package main

import (
	"fmt"

	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

// taskLife is the life of a task: everything that the log says of it.
type taskLife struct {
	ID     protocol.TaskID `json:"id"`
	Title  string          `json:"title"`
	Events []taskMoment    `json:"events"`
}

// taskMoment is one thing that happened to a task, or was refused.
type taskMoment struct {
	moment

	Event   string             `json:"event"`
	From    protocol.TaskState `json:"from,omitzero"`
	To      protocol.TaskState `json:"to,omitzero"`
	By      protocol.AgentID   `json:"by"`
	Epoch   uint64             `json:"epoch,omitzero"`
	Attempt int                `json:"attempt,omitzero"`
	Agents  []protocol.AgentID `json:"agents,omitzero"` // whom it was offered to
	Note    string             `json:"note,omitzero"`   // milestone, question or reason
	Code    protocol.Code      `json:"code,omitzero"`   // of a refusal
	Detail  string             `json:"detail,omitzero"`
	Commit  string             `json:"commit,omitzero"`
}

// see collects the next event if it is about the task.
func (l *taskLife) see(now moment, body protocol.Body) {
	switch e := body.(type) {
	case *protocol.TaskEvent:
		if e.Task != l.ID {
			return
		}
		if e.Spec != nil {
			l.Title = e.Spec.Title
		}
		l.Events = append(l.Events, taskMoment{
			moment: now, Event: string(e.Event), From: e.From, To: e.To, By: e.By,
			Epoch: e.Epoch, Attempt: e.Attempt, Agents: e.Agents, Note: noteOf(e),
		})
	case *protocol.TaskRejectedEvent:
		if e.Task == string(l.ID) {
			l.Events = append(l.Events, taskMoment{moment: now, Event: e.Event, From: e.State, By: e.By, Epoch: e.Epoch, Code: e.Code, Detail: e.Detail})
		}
	}
}

func noteOf(e *protocol.TaskEvent) string {
	switch {
	case e.Checkpoint != nil && e.Checkpoint.Milestone != "":
		return e.Checkpoint.Milestone
	case e.Question != "":
		return task.Asked(e)
	}
	return task.Said(e)
}

func (a *app) showTaskLife(l *taskLife, mermaid bool) error {
	if mermaid {
		a.out.states(l)
		return nil
	}
	return a.answer(l, func(p *printer) {
		p.line("%s", a.style.paint(bold, "task "+string(l.ID)+" "+protocol.Quote(l.Title)))
		for i, e := range l.Events {
			branch := "├ "
			if i == len(l.Events)-1 {
				branch = "└ "
			}
			p.line("%s%s  %s", branch, a.style.paint(dim, fmt.Sprintf("%s  %6d", clock(e.At), e.Seq)), a.taskStation(e))
		}
	})
}

// taskStation is the line of one thing that happened to a task.
func (a *app) taskStation(e taskMoment) string {
	line := protocol.Visible(protocol.Fit(e.Event, 40)) + " by " + protocol.Visible(string(e.By))
	switch {
	case e.Code != "":
		return a.style.paint(red, "refused "+line+ofEpoch(e.Epoch)+": "+string(e.Code)) + ": " + protocol.Visible(e.Detail) + inCommit(e.Commit)
	case e.From != "" && e.From != e.To:
		line += ": " + string(e.From) + " → " + string(e.To)
	default:
		line += ": " + string(e.To)
	}
	line += ofEpoch(e.Epoch)
	if len(e.Agents) > 0 {
		line += ", to " + list(e.Agents)
	}
	if e.Note != "" {
		line += ", " + protocol.Quote(e.Note)
	}
	return line + inCommit(e.Commit)
}

func ofEpoch(n uint64) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(", epoch %d", n)
}

func inCommit(id string) string {
	if id == "" {
		return ""
	}
	return ", commit " + id[:min(12, len(id))]
}

// states prints the way of a task through its states as a Mermaid diagram.
func (p *printer) states(l *taskLife) {
	p.line("stateDiagram-v2")
	for _, e := range l.Events {
		if e.Code != "" {
			continue
		}
		from := string(e.From)
		if from == "" {
			from = "[*]"
		}
		p.line("    %s --> %s: %s", from, e.To, mermaidText(fmt.Sprintf("%d %s by %s", e.Seq, e.Event, e.By)))
	}
}
