package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/ledger"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/router"
	"github.com/hived/hived/settings"
)

// statusJSON is what `status` prints.
type statusJSON struct {
	Hive    string        `json:"hive"`
	Running bool          `json:"running"`
	Status  router.Status `json:"status"`
}

func (a *app) statusCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Shows the daemon, the agents, how far git is, and what is wrong and what to do about it",
		Args:  takes(0, 0),
		RunE: a.withHive(func(_ *cobra.Command, _ []string, disk *durable.Disk) error {
			pid, runs, err := daemon(disk)
			if err != nil {
				return err
			}
			s := statusJSON{Hive: disk.Path("."), Running: runs}
			if runs {
				s.Status = running(disk, pid, time.Now())
			} else {
				s.Status, err = stopped(disk)
			}
			if err != nil {
				return err
			}
			return a.answer(s, func(p *printer) { a.showStatus(p, s) })
		}),
	}
}

// silentAfter is how old the status of a running daemon may be.
const silentAfter = 10 * time.Second

// running gives what the daemon says of itself.
func running(disk durable.FS, pid int, now time.Time) router.Status {
	s, err := router.ReadStatus(disk)
	if err != nil || s.PID != pid {
		return router.Status{PID: pid, Problems: []string{"the daemon has not said yet how it is: it may be reading the log; ask again"}}
	}
	if age := now.Sub(s.At); age > silentAfter {
		s.Problems = append(s.Problems, fmt.Sprintf("the daemon has said nothing for %s: it may hang on a disk, or be stopped; `hived doctor` looks closer", age.Round(time.Second)))
	}
	return s
}

// stopped folds the log and looks at the outboxes itself.
func stopped(disk durable.FS) (router.Status, error) {
	values, problem := settings.Load(disk)
	if problem != nil {
		values = protocol.DefaultSettings()
	}
	state := ledger.New(values.Remember)
	err := eachEvent(disk, func(ev protocol.Event) error {
		state.Apply(ev)
		return nil
	})
	if err != nil {
		return router.Status{}, err
	}
	s := router.Status{
		At: state.TS, Seq: state.Seq, Problems: []string{},
		Agents: router.Roster(state, func(id protocol.AgentID) int { return router.Pending(disk, id) }),
	}
	if problem != nil {
		s.Problems = append(s.Problems, problem.Error())
	}
	return s, nil
}

func (a *app) showStatus(p *printer, s statusJSON) {
	st := s.Status
	p.line("hive      %s", protocol.Visible(s.Hive))
	if s.Running {
		p.line("daemon    %s, process id %d, since %s, version %s", a.style.paint(green, "runs"), st.PID, clock(st.Started), orDash(st.Version))
	} else {
		p.line("daemon    %s: messages wait in the outboxes; start it with `hived up`", a.style.paint(yellow, "does not run"))
	}
	p.line("log       %d events, the newest at %s", st.Seq, clock(st.At))
	if s.Running {
		p.line("watching  %s", orDash(st.Watching))
		p.line("git       %s", gitLine(st))
	}
	p.line("")
	rows := [][]string{{"AGENT", "STATUS", "ROLE", "WAITING", "UNREAD", "HANDLED", "SENT"}}
	for _, m := range st.Agents {
		rows = append(rows, []string{
			string(m.ID) + star(m.Lead), string(m.Status), orDash(m.Role),
			digits(m.Pending), digits(m.Unread), digits(m.Handled), digits(m.Sent),
		})
	}
	p.table(rows)
	for i, text := range problems(st) {
		if i == 0 {
			p.line("")
		}
		p.line("%s %s", a.style.paint(red, "problem:"), protocol.Visible(text))
	}
}

func gitLine(s router.Status) string {
	switch {
	case s.Git != "":
		return protocol.Visible(s.Git) + "; it is " + behind(s)
	case s.GitSeq >= s.Seq:
		return "is up to date"
	}
	return "is " + behind(s)
}

func behind(s router.Status) string {
	if n := s.Seq - min(s.Seq, s.GitSeq); n != 1 {
		return fmt.Sprintf("%d events behind", n)
	}
	return "1 event behind"
}

// problems lists what is wrong, one line each.
func problems(s router.Status) []string {
	var out []string
	if s.Intake != "" {
		out = append(out, "nothing is taken in: "+s.Intake)
	}
	if s.Owed > 0 {
		out = append(out, fmt.Sprintf("%d deliveries wait for a directory that cannot be written; see the rights of the inboxes", s.Owed))
	}
	return append(out, s.Problems...)
}
