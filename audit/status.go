package audit

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/hived/hived/hive"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/ledger"
	"github.com/hived/hived/mailbox"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/router/decide"
	"github.com/hived/hived/view"
)

// Status returns the state of a hive, with what is wrong and what to do: from the
// daemon's own status or, where no daemon runs (runs is false), from the log and
// the outboxes.
func Status(disk *durable.Disk, now time.Time) (s view.Status, runs bool, err error) {
	pid, runs, err := hive.Daemon(disk)
	if err != nil {
		return s, runs, err
	}
	left := hasRoom
	if DiskFull(disk) {
		left = noRoom
	}
	if runs {
		s = running(disk, pid, now, left)
	} else {
		s, err = stopped(disk, now, left)
	}
	s.Problems = append(s.Problems, heldOutboxes(s.Agents)...)
	return s, runs, err
}

// room says whether a disk has room left.
type room int

const (
	hasRoom room = iota
	noRoom
)

// silentAfter is how old the status of a running daemon may be; staleAfter is the
// same on a full disk, where the daemon cannot write it.
const (
	silentAfter = 10 * time.Second
	staleAfter  = 3 * time.Second
)

const fullDisk = "the disk is full: make room; intake then goes on by itself"

// running returns the status that the daemon wrote, which may be old or missing
// where the disk has no room for it.
func running(disk durable.FS, pid int, now time.Time, left room) view.Status {
	s, err := view.ReadStatus(disk)
	for i, p := range s.Trouble {
		s.Problems[i] = problemText(p)
	}
	age := now.Sub(s.At)
	known := err == nil && s.PID == pid
	switch {
	case left == noRoom && !known:
		return view.Status{PID: pid, Problems: []string{fullDisk}}
	case left == noRoom && age > staleAfter:
		s.Problems = append(s.Problems, fmt.Sprintf("%s; this status is %s old", fullDisk, age.Round(time.Second)))
		return withGitRemedy(disk, s)
	case !known:
		return view.Status{PID: pid, Problems: []string{"the daemon has not written its status yet: it may be reading the log; ask again"}}
	}
	if age > silentAfter {
		s.Problems = append(s.Problems, fmt.Sprintf("the daemon has not written its status for %s: it may hang on a disk, or be stopped; run `hived doctor`", age.Round(time.Second)))
	}
	return withGitRemedy(disk, s)
}

// gitRemedy says what to do where there is no usable history.
const gitRemedy = "; delivery goes on, `hived repair` builds the history again from the log while no daemon runs"

// problemText says in words what a daemon's problem is, and what to do.
func problemText(p view.Problem) string {
	switch p.Code {
	case view.NotWatching:
		return "watching: " + p.Value
	case view.DiskFull:
		return "the disk is full, so nothing is taken in: make room; then everything goes on by itself"
	case view.GitWaits:
		return "git: " + p.Value
	case view.GitUnusable:
		return "git: " + p.Value + gitRemedy
	case view.TaskStopped:
		return "task " + p.Value + " is stopped: hived failed when it did what was due for it; `hived trace " + p.Value + "` shows its history, and the next command about it lets it go on"
	case view.NotWritable:
		return p.Value + " files wait for a directory that cannot be written: check the rights of agents/*/inbox and agents/*/outbox/.sent"
	}
	return p.Value
}

// withGitRemedy replaces what a status says about a repository that is missing or
// not hived's: the error suggests `hived init`, which a hive refuses.
func withGitRemedy(disk durable.FS, s view.Status) view.Status {
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
	s.Problems = slices.DeleteFunc(s.Problems, func(p string) bool { return strings.HasPrefix(p, "git: ") })
	s.Problems = append(s.Problems, "git: "+s.Git+gitRemedy)
	return s
}

// heldOutboxes returns a problem for each held agent whose messages wait for a
// person to release it.
func heldOutboxes(list []view.Agent) []string {
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

// Folded folds the log with the settings of hive.yaml, or with the defaults where
// that file has a problem, which is returned beside the error.
func Folded(disk durable.FS) (state *ledger.State, values protocol.Settings, problem, err error) {
	values, problem = hive.Settings(disk)
	if problem != nil {
		values = protocol.DefaultSettings()
	}
	state, err = StateAt(disk, values.Remember, Until{})
	return state, values, problem, err
}

// stopped returns the status of a hive without a daemon, from log and outboxes.
func stopped(disk durable.FS, now time.Time, left room) (view.Status, error) {
	state, values, problem, err := Folded(disk)
	if err != nil {
		return view.Status{}, err
	}
	s := view.Status{
		At: state.TS, Seq: state.Seq, Problems: []string{},
		Agents:   view.Roster(state, func(id protocol.AgentID) int { return mailbox.Pending(disk, id) }),
		Tasks:    state.Tasks.Stats.Counts(),
		NeedsYou: decide.NeedsYou(state, values, now),
	}
	if problem != nil {
		s.Problems = append(s.Problems, problem.Error())
	}
	if left == noRoom {
		s.Problems = append(s.Problems, "the disk is full: make room, then start hived")
	}
	return s, nil
}
