package main

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hived/hived/audit"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/ledger"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/router"
	"github.com/hived/hived/router/decide"
	"github.com/hived/hived/settings"
	"github.com/hived/hived/task"
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
			full := audit.DiskFull(disk)
			if runs {
				s.Status = running(disk, pid, time.Now(), full)
			} else {
				s.Status, err = stopped(disk, full)
			}
			if err != nil {
				return err
			}
			s.Status.Problems = append(s.Status.Problems, outboxesThatWait(s.Status.Agents)...)
			return a.answer(s, func(p *printer) { a.showStatus(p, s) })
		}),
	}
}

// silentAfter is how old the status of a running daemon may be; staleAfter, on
// a full disk, on which it cannot write it.
const (
	silentAfter = 10 * time.Second
	staleAfter  = 3 * time.Second
)

const fullDisk = "the disk is full: make room; intake goes on by itself then"

// running gives what the daemon says of itself. Full says that the disk has no
// room, perhaps not even for that.
func running(disk durable.FS, pid int, now time.Time, full bool) router.Status {
	s, err := router.ReadStatus(disk)
	age := now.Sub(s.At)
	known := err == nil && s.PID == pid
	switch {
	case full && !known:
		return router.Status{PID: pid, Problems: []string{fullDisk}}
	case full && age > staleAfter:
		s.Problems = append(s.Problems, fmt.Sprintf("%s; what stands here is %s old", fullDisk, age.Round(time.Second)))
		return forGit(disk, s)
	case !known:
		return router.Status{PID: pid, Problems: []string{"the daemon has not said yet how it is: it may be reading the log; ask again"}}
	}
	if age > silentAfter {
		s.Problems = append(s.Problems, fmt.Sprintf("the daemon has said nothing for %s: it may hang on a disk, or be stopped; `hived doctor` looks closer", age.Round(time.Second)))
	}
	return forGit(disk, s)
}

// forGit says of a repository that is gone, or not hived's, what to do in a
// hive: `hived init` refuses one.
func forGit(disk durable.FS, s router.Status) router.Status {
	_, err := disk.Lstat(".git")
	switch {
	case s.Git == "":
		return s
	case errors.Is(err, fs.ErrNotExist):
		s.Git = "there is no .git"
	case strings.Contains(s.Git, "hived init"):
		s.Git = ".git is not hived's: move it away"
	default:
		return s
	}
	remedy := "; delivery goes on, `hived repair` builds the history again from the log while no daemon runs"
	s.Problems = slices.DeleteFunc(s.Problems, func(p string) bool { return strings.HasPrefix(p, "git: ") })
	s.Problems = append(s.Problems, "git: "+s.Git+remedy)
	return s
}

// outboxesThatWait tells of messages that nobody takes in before a person says
// so.
func outboxesThatWait(list []router.AgentStatus) []string {
	var out []string
	for _, x := range list {
		if x.Status != ledger.OnHold || x.Pending == 0 {
			continue
		}
		files := "1 file of " + string(x.ID) + " waits"
		if x.Pending > 1 {
			files = fmt.Sprintf("%d files of %s wait", x.Pending, x.ID)
		}
		out = append(out, fmt.Sprintf("%s because it is held: `hived agent release %s`", files, x.ID))
	}
	return out
}

// folded folds the log, with the settings of hive.yaml, or the default ones where
// that has a problem.
func folded(disk durable.FS) (state *ledger.State, values protocol.Settings, problem, err error) {
	values, problem = settings.Load(disk)
	if problem != nil {
		values = protocol.DefaultSettings()
	}
	state = ledger.New(values.Remember)
	err = eachEvent(disk, func(ev protocol.Event) error {
		state.Apply(ev)
		return nil
	})
	return state, values, problem, err
}

// stopped folds the log and looks at the outboxes itself.
func stopped(disk durable.FS, full bool) (router.Status, error) {
	state, values, problem, err := folded(disk)
	if err != nil {
		return router.Status{}, err
	}
	s := router.Status{
		At: state.TS, Seq: state.Seq, Problems: []string{},
		Agents:   router.Roster(state, func(id protocol.AgentID) int { return router.Pending(disk, id) }),
		Tasks:    router.TaskStates(state),
		NeedsYou: decide.NeedsYou(state, values, time.Now()),
	}
	if problem != nil {
		s.Problems = append(s.Problems, problem.Error())
	}
	if full {
		s.Problems = append(s.Problems, "the disk is full: make room, then start hived")
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
	if line := tasksLine(st.Tasks); line != "" {
		p.line("tasks     %s", line)
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
	for i, text := range st.Problems {
		if i == 0 {
			p.line("")
		}
		p.line("%s %s", a.style.paint(red, "problem:"), protocol.Visible(text))
	}
	a.showNeeds(p, st.NeedsYou)
}

// showNeeds lists what needs a person, each with what settles it.
func (a *app) showNeeds(p *printer, list []protocol.Need) {
	for i, n := range list {
		if i == 0 {
			p.line("")
			p.line("%s", a.style.paint(yellow, "needs you"))
		}
		until := ""
		if !n.Until.IsZero() {
			until = ", until " + clock(n.Until)
		}
		p.line("- %s%s", protocol.Visible(n.Text), until)
		for _, c := range n.Commands {
			p.line("    %s", protocol.Visible(c))
		}
	}
}

// tasksLine counts tasks by state, in the order of a life.
func tasksLine(of map[string]int) string {
	var parts []string
	for _, s := range task.States() {
		if n := of[string(s)]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, s))
		}
	}
	return strings.Join(parts, ", ")
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
