package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hived/hived/audit"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
	"github.com/hived/hived/view"
)

// statusJSON is what `status` prints.
type statusJSON struct {
	Hive    string      `json:"hive"`
	Running bool        `json:"running"`
	Status  view.Status `json:"status"`
}

func (a *app) statusCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Shows the daemon, the agents, how far git is, what is wrong, and what to do about it",
		Args:  argCount(0, 0),
		RunE: a.withHive(func(_ *cobra.Command, _ []string, disk *durable.Disk) error {
			status, runs, err := audit.Status(disk, time.Now())
			if err != nil {
				return err
			}
			s := statusJSON{disk.Path("."), runs, status}
			return a.answer(s, func(p *printer) { a.showStatus(p, s) })
		}),
	}
}

func (a *app) showStatus(p *printer, s statusJSON) {
	st := s.Status
	p.line("hive      %s", protocol.Visible(s.Hive))
	if s.Running {
		p.line("daemon    %s, process id %d, since %s, version %s", a.style.paint(green, "runs"), st.PID, timeText(st.Started), orDash(st.Version))
	} else {
		p.line("daemon    %s: messages wait in the outboxes; start it with `hived up`", a.style.paint(yellow, "does not run"))
	}
	p.line("log       %d events, the newest at %s", st.Seq, timeText(st.At))
	if s.Running {
		p.line("watching  %s", orDash(st.Watching))
		p.line("git       %s", gitLine(st))
	}
	if line := tasksLine(st.Tasks); line != "" {
		p.line("tasks     %s", line)
	}
	p.line("")
	rows := [][]string{{"AGENT", "STATUS", "ROLE", "WAITING", "UNREAD", "HANDLED", "SENT"}}
	for _, m := range st.Agents {
		rows = append(rows, []string{
			string(m.ID) + leadMark(m.Lead), string(m.Status), orDash(m.Role),
			digits(m.Pending), digits(m.Unread), digits(m.Handled), digits(m.Sent),
		})
	}
	p.table(rows)
	for i, text := range st.Problems {
		if i == 0 {
			p.line("")
		}
		p.line("%s %s", a.style.paint(red, "problem:"), protocol.Visible(text))
	}
	a.showNeeds(p, st.NeedsYou)
}

// showNeeds lists what needs a person, each with the commands that settle it.
func (a *app) showNeeds(p *printer, list []protocol.Need) {
	for i, n := range list {
		if i == 0 {
			p.line("")
			p.line("%s", a.style.paint(yellow, "needs you"))
		}
		until := ""
		if !n.Until.IsZero() {
			until = ", until " + timeText(n.Until)
		}
		p.line("- %s%s", protocol.Visible(n.Text), until)
		for _, c := range n.Commands {
			p.line("    %s", protocol.Visible(c))
		}
	}
}

// tasksLine counts tasks by state, in the order of a task's life.
func tasksLine(of map[string]int) string {
	var parts []string
	for _, s := range task.States() {
		if n := of[string(s)]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, s))
		}
	}
	return strings.Join(parts, ", ")
}

func gitLine(s view.Status) string {
	switch {
	case s.Git != "":
		return protocol.Visible(s.Git) + "; it is " + behind(s)
	case s.GitSeq >= s.Seq:
		return "is up to date"
	}
	return "is " + behind(s)
}

func behind(s view.Status) string {
	if n := s.Seq - min(s.Seq, s.GitSeq); n != 1 {
		return fmt.Sprintf("%d events behind", n)
	}
	return "1 event behind"
}
