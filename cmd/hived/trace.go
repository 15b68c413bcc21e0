package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/hived/hived/eventlog"
	"github.com/hived/hived/gitcommit"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/mermaid"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/view"
)

func (a *app) traceCommand() *cobra.Command {
	var diagram bool
	c := &cobra.Command{
		Use:   "trace ID|CONVERSATION|TASK",
		Short: "Shows the life of a message, of a thread or of a task",
		Long:  "Shows the life of a message, or of all messages of a thread: when it was accepted, to whom it was delivered,\nwhen it was handled, what answered it, why it was dropped, and which commit holds it. Shows of a task all that happened\nto it, and what was refused. The beginning of an id is enough where only one message or task has it; for a task, the end too.",
		Args:  argCount(1, 1),
		RunE: a.withHive(func(c *cobra.Command, args []string, disk *durable.Disk) error {
			t, err := traceOf(c.Context(), disk, args[0])
			if err != nil {
				return err
			}
			of, err := gitcommit.CommitsOf(disk, seqsOf(t))
			if err != nil {
				a.note("the commits are missing: %s", protocol.Visible(err.Error()))
			}
			setCommits(t, of)
			switch {
			case diagram && t.Task != nil:
				a.out.lines("", mermaid.States(t.Task))
				return nil
			case diagram:
				a.out.lines("", mermaid.Sequence(t.Thread.Messages))
				return nil
			case t.Task != nil:
				return a.showTaskLife(t.Task)
			}
			return a.answer(t.Thread.Roots, func(p *printer) {
				for _, m := range t.Thread.Roots {
					a.printTree(p, m, "", "")
				}
			})
		}),
	}
	c.Flags().BoolVar(&diagram, "mermaid", false, "print a Mermaid diagram: a sequence of messages, or the states of a task")
	return c
}

// traceOf finds the message, conversation or task of that name. It reads the log
// twice, first to find out what the name is, then to collect its events, so that
// memory is bounded by the thread and not by the log.
func traceOf(ctx context.Context, disk durable.FS, name string) (*view.Trace, error) {
	everything := eventlog.Read(disk, eventlog.Position{})
	target, err := view.Find(ctx, everything, name)
	if errors.Is(err, view.ErrNotFound) {
		return nil, fmt.Errorf("%w; `hived log --kind message` and `hived task list` list them", err)
	}
	if err != nil {
		return nil, err
	}
	t, f := view.NewTrace(target)
	return t, view.Wait(ctx, everything, f)
}

// seqsOf lists the events whose commits are shown, in the order of the log.
func seqsOf(t *view.Trace) []protocol.Seq {
	var list []protocol.Seq
	if t.Task != nil {
		for _, e := range t.Task.Events {
			list = append(list, e.Seq)
		}
		return list
	}
	for _, m := range t.Thread.Messages {
		list = append(list, m.Seq)
	}
	return list
}

// setCommits fills in the commits of a trace's events.
func setCommits(t *view.Trace, of map[protocol.Seq]string) {
	if t.Task != nil {
		for i := range t.Task.Events {
			t.Task.Events[i].Commit = of[t.Task.Events[i].Seq]
		}
		return
	}
	for _, m := range t.Thread.Messages {
		m.Commit = of[m.Seq]
	}
}

// printTree prints a message and, below it, what became of it and its replies.
func (a *app) printTree(p *printer, m *view.ThreadMessage, first, rest string) {
	title := fmt.Sprintf("%s → %s: %s", m.From, joinNames(m.To), m.Act)
	if m.Subject != "" {
		title += " " + protocol.Quote(m.Subject)
	}
	p.line("%s%s", first, a.style.paint(bold, title))
	lines := a.messageLines(m)
	for i, line := range lines {
		branch := "├ "
		if i == len(lines)-1 && len(m.Replies) == 0 {
			branch = "└ "
		}
		p.line("%s%s%s", rest, branch, line)
	}
	for i, r := range m.Replies {
		if i == len(m.Replies)-1 {
			a.printTree(p, r, rest+"└─ ", rest+"   ")
		} else {
			a.printTree(p, r, rest+"├─ ", rest+"│  ")
		}
	}
}

// messageLines returns the lines that say what became of a message.
func (a *app) messageLines(m *view.ThreadMessage) []string {
	when := func(at view.Moment) string {
		return a.style.paint(dim, fmt.Sprintf("%s  %6d", timeText(at.At), at.Seq))
	}
	accepted := view.Moment{Seq: m.Seq, At: m.At}
	lines := []string{fmt.Sprintf("%s  accepted as %s, %d hops", when(accepted), m.ID, m.Hops) + inCommit(m.Commit)}
	if len(m.Kept) > 0 {
		lines = append(lines, fmt.Sprintf("%s  kept for %s: the conversation was stopped", when(accepted), joinNames(m.Kept)))
	}
	for _, d := range m.Delivered {
		at := accepted
		if d.After != nil {
			at = *d.After
		}
		line := fmt.Sprintf("%s  delivered to %s", when(at), d.To)
		if len(d.Handled) == 0 && !d.To.Reserved() {
			line += ", unread"
		}
		lines = append(lines, line)
		for _, h := range d.Handled {
			lines = append(lines, fmt.Sprintf("%s  %s", when(h.Moment), handledText(d.To, h.How)))
		}
	}
	for _, d := range m.Dropped {
		lines = append(lines, fmt.Sprintf("%s  %s", when(d.Moment), a.style.paint(red, fmt.Sprintf("not delivered to %s: %s", joinNames(d.To), d.Reason))+": "+protocol.Visible(d.Detail)))
	}
	for _, again := range m.Again {
		lines = append(lines, when(again)+"  sent again, and not delivered again")
	}
	return lines
}

func handledText(who protocol.AgentID, h protocol.How) string {
	switch h {
	case protocol.HowDone:
		return "handled by " + string(who)
	case protocol.HowDeleted:
		return "deleted by " + string(who)
	case protocol.HowReopened:
		return "reopened by " + string(who)
	case protocol.HowUndeleted:
		return "delivered again to " + string(who) + ", who had deleted it"
	}
	return string(h)
}
