package main

import (
	"fmt"

	"github.com/hived/hived/protocol"
	"github.com/hived/hived/view"
)

func (a *app) showTaskLife(t *view.Task) error {
	return a.answer(t, func(p *printer) {
		p.line("%s", a.style.paint(bold, "task "+string(t.ID)+" "+protocol.Quote(t.Title)))
		for i, e := range t.Events {
			branch := "├ "
			if i == len(t.Events)-1 {
				branch = "└ "
			}
			p.line("%s%s  %s", branch, a.style.paint(dim, fmt.Sprintf("%s  %6d", timeText(e.At), e.Seq)), a.taskLine(e))
		}
	})
}

// taskLine returns the line of one event of a task.
func (a *app) taskLine(e view.TaskMoment) string {
	outcome := ""
	if e.Outcome != nil {
		outcome = ", " + outcomeText(e.Outcome)
	}
	if e.Charge != "" {
		outcome += ", counted as " + protocol.Visible(string(e.Charge))
	}
	line := protocol.Visible(protocol.Fit(e.Event, 40)) + " by " + protocol.Visible(string(e.By))
	switch {
	case e.Code != "":
		return a.style.paint(red, "refused "+line+ofEpoch(e.Epoch)+outcome+": "+string(e.Code)) + ": " + protocol.Visible(e.Detail) + inCommit(e.Commit)
	case e.From != "" && e.From != e.To:
		line += ": " + string(e.From) + " → " + string(e.To)
	default:
		line += ": " + string(e.To)
	}
	line += ofEpoch(e.Epoch) + outcome
	if e.Generation > 0 {
		line += fmt.Sprintf(", generation %d", e.Generation)
	}
	if len(e.Agents) > 0 {
		line += ", to " + joinNames(e.Agents)
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
