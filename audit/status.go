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

// Status returns how a hive is: what its daemon says of itself or, where none runs,
// what the log and the outboxes say; with what is wrong, and what to do.
func Status(disk *durable.Disk, now time.Time) (s view.Status, runs bool, err error) {
	pid, runs, err := hive.Daemon(disk)
	if err != nil {
		return s, runs, err
	}
	left := someRoom
	if DiskFull(disk) {
		left = noRoom
	}
	if runs {
		s = running(disk, pid, now, left)
	} else {
		s, err = stopped(disk, now, left)
	}
	s.Problems = append(s.Problems, outboxesThatWait(s.Agents)...)
	return s, runs, err
}

// room is what a disk has left.
type room int

const (
	someRoom room = iota
	noRoom
)

// silentAfter is how old the status of a running daemon may be; staleAfter, on
// a full disk, on which it cannot write it.
const (
	silentAfter = 10 * time.Second
	staleAfter  = 3 * time.Second
)

const fullDisk = "the disk is full: make room; intake goes on by itself then"

// running returns what the daemon says of itself. The disk may have no room even for
// that.
func running(disk durable.FS, pid int, now time.Time, left room) view.Status {
	s, err := view.ReadStatus(disk)
	for i, p := range s.Trouble {
		s.Problems[i] = inWords(p)
	}
	age := now.Sub(s.At)
	known := err == nil && s.PID == pid
	switch {
	case left == noRoom && !known:
		return view.Status{PID: pid, Problems: []string{fullDisk}}
	case left == noRoom && age > staleAfter:
		s.Problems = append(s.Problems, fmt.Sprintf("%s; what stands here is %s old", fullDisk, age.Round(time.Second)))
		return forGit(disk, s)
	case !known:
		return view.Status{PID: pid, Problems: []string{"the daemon has not said yet how it is: it may be reading the log; ask again"}}
	}
	if age > silentAfter {
		s.Problems = append(s.Problems, fmt.Sprintf("the daemon has said nothing for %s: it may hang on a disk, or be stopped; `hived doctor` looks closer", age.Round(time.Second)))
	}
	return forGit(disk, s)
}

// repairGit is what to do without a history.
const repairGit = "; delivery goes on, `hived repair` builds the history again from the log while no daemon runs"

// inWords says what is wrong with a daemon, and what to do.
func inWords(p view.Problem) string {
	switch p.Code {
	case view.NotWatching:
		return "watching: " + p.Value
	case view.DiskFull:
		return "the disk is full, so nothing is taken in: make room; everything goes on by itself then"
	case view.GitWaits:
		return "git: " + p.Value
	case view.GitUnusable:
		return "git: " + p.Value + repairGit
	case view.TaskStopped:
		return "task " + p.Value + " stands still: hived failed when it did what was due with it, `hived trace " + p.Value + "` shows how it came to that; the next command about it lets it go on"
	case view.NotWritable:
		return p.Value + " files wait for a directory that cannot be written: look at the rights of agents/*/inbox and agents/*/outbox/.sent"
	}
	return p.Value
}

// forGit says of a repository that is gone, or not hived's, what to do in a
// hive: `hived init` refuses one.
func forGit(disk durable.FS, s view.Status) view.Status {
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
	s.Problems = append(s.Problems, "git: "+s.Git+repairGit)
	return s
}

// outboxesThatWait tells of messages that nobody takes in before a person says
// so.
func outboxesThatWait(list []view.Agent) []string {
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

// Folded folds the log, with the settings of hive.yaml, or the default ones where
// that has a problem, which is returned beside the error.
func Folded(disk durable.FS) (state *ledger.State, values protocol.Settings, problem, err error) {
	values, problem = hive.Settings(disk)
	if problem != nil {
		values = protocol.DefaultSettings()
	}
	state, err = Stood(disk, values.Remember, Until{})
	return state, values, problem, err
}

// stopped folds the log and looks at the outboxes itself.
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
