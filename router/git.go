package router

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"runtime/debug"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hived/hived/eventlog"
	"github.com/hived/hived/gitcommit"
	"github.com/hived/hived/gitcommit/follow"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/snapshot"
	"github.com/hived/hived/ledger"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/view"
)

// gitWatch is the loop's side of git: the follower that makes commits, and the
// detection of what people do to the branch. Without a usable repository delivery goes
// on: history is derived from the log and can be built again (spec §6).
type gitWatch struct {
	*follow.Follower // nil where there is no usable repository
	repo             *gitcommit.Repo
	err              error // why there is none
	disk             durable.FS
	settle           time.Duration
	ignore           *gitcommit.Ignore
	committed        chan []string // own files that a person committed
	rewound          chan struct{} // the follower found the branch moved back
	sound            tip           // the last at which the branch held all that was committed
	locked           time.Time     // when git's index was last seen locked
}

// tip is the newest commit of the branch, and the last event that the follower
// committed.
type tip struct {
	commit protocol.Blob
	head   protocol.Seq
}

// watchGit opens the repository. alert is called from other goroutines too, for what
// the committer found and mended.
func watchGit(disk durable.FS, cfg *Config, alert func(*protocol.AlertEvent)) *gitWatch {
	g := &gitWatch{
		disk: disk, settle: cfg.Settings.Settle, ignore: gitcommit.NewIgnore(disk),
		committed: make(chan []string, 16), rewound: make(chan struct{}, 1),
	}
	g.repo, g.err = gitcommit.Open(disk, gitcommit.Options{
		StaleLock: cfg.Settings.Git.StaleLock,
		Alert:     func(code, text string) { alert(&protocol.AlertEvent{Code: protocol.Code(code), Text: text}) },
	})
	if g.err == nil {
		g.Follower, g.err = follow.New(disk, g.repo, follow.Config{
			Settings: cfg.Settings.Git, Log: cfg.Log, Landed: cfg.OnCommit,
			Snapshot: func() (*ledger.State, eventlog.Position, error) {
				state, at, _, err := snapshot.Read(disk, cfg.Settings.Remember)
				return state, at, err
			},
			TakenBack: func() {
				select {
				case g.rewound <- struct{}{}:
				default:
				}
			},
			Ask: func(paths []string) {
				select {
				case g.committed <- paths:
				default:
				}
			},
		})
	}
	if g.err != nil {
		cfg.Log.Error("git is not usable, delivery goes on without it", slog.String("error", g.err.Error()))
	}
	return g
}

// usable reports whether there is a repository.
func (g *gitWatch) usable() bool { return g.Follower != nil }

// progress returns which events are committed; zero where there is no repository.
func (g *gitWatch) progress() follow.Progress {
	if !g.usable() {
		return follow.Progress{}
	}
	return g.Progress()
}

// giveBack returns free memory to the system: the follower does so when it has nothing
// else to do, and where there is none, a goroutine of its own.
func (g *gitWatch) giveBack(beside *errgroup.Group) {
	if g.usable() {
		g.Rest()
		return
	}
	beside.Go(func() error { debug.FreeOSMemory(); return nil })
}

// copyHint ends the refusals of a hive whose parts are not of one moment.
const copyHint = "; if this hive was copied while its daemon ran, stop that with `hived down` and copy it again"

// matches returns an error for a log that lost its end, or that is another one:
// history names the events that it holds and the sum of the last (spec §6).
func (g *gitWatch) matches(end protocol.Seq) error {
	if !g.usable() {
		return nil
	}
	head, err := g.repo.Head()
	if err != nil || head.Seq == 0 {
		return nil
	}
	if head.Seq > end {
		return fmt.Errorf("start: git holds events up to %s, but the log ends with %s: its end is lost; bring log.jsonl back from a copy, or move it away and begin a new log from the files with `hived repair --adopt`%s", head.Seq, end, copyHint)
	}
	for rec, err := range eventlog.Read(g.disk, eventlog.Position{Seq: head.Seq - 1}) {
		if err == nil && rec.Sum.String() != head.Sum {
			return fmt.Errorf("start: event %s of the log is not the one that git holds (sum %s, not %s): this is another log; bring log.jsonl back from a copy, or move it away and begin a new log from the files with `hived repair --adopt`%s", head.Seq, rec.Sum, head.Sum, copyHint)
		}
		break
	}
	return nil
}

// undisturbed reports whether the work tree shows what hived wrote: while a
// person has another branch checked out, its files are not new versions.
func (g *gitWatch) undisturbed() bool { return !g.usable() || g.repo.State().Own() }

// workTree returns the condition of the repository, and whether the work tree shows
// hived's branch and no git command is about to change that. Git changes files first,
// the index after them, and the branch last: a checkout may be the reason why a file is
// missing while index.lock is held, and until Settle after it was last seen (spec §4.7).
func (g *gitWatch) workTree(now time.Time) (c gitcommit.Condition, ours bool) {
	c = g.repo.State()
	if !c.IndexLocked.IsZero() {
		g.locked = now
	}
	return c, c.Own() && !now.Before(g.freeAt())
}

// freeAt returns when git's index will have been free for long enough, unless it is
// locked again.
func (g *gitWatch) freeAt() time.Time { return g.locked.Add(g.settle) }

// tipIsOurs reports whether the work tree shows hived's branch and the newest
// commit there is hived's own.
func (g *gitWatch) tipIsOurs(now time.Time) bool {
	c, ours := g.workTree(now)
	if !ours {
		return false
	}
	head := g.Progress().Head
	for own, err := range gitcommit.Commits(g.disk) {
		return err == nil && own.ID == c.Tip && own.Last >= head
	}
	return false
}

// takenOut reports whether a person's reset, revert or commit took a file, which an
// event had placed, out of the branch: hived has committed it, and the branch tip does
// not hold it.
func (g *gitWatch) takenOut(of protocol.Seq, path string) bool {
	if of > g.Progress().Head {
		return false
	}
	_, err := gitcommit.ReadFile(g.disk, path)
	return errors.Is(err, fs.ErrNotExist)
}

// movedBack reports whether a person moved hived's branch back to an older commit,
// which removes files from the work tree that nobody handled. It reads nothing where
// neither the branch nor the follower moved since it was last asked.
func (g *gitWatch) movedBack() bool {
	if !g.usable() {
		return false
	}
	head := g.Progress().Head // before the tip: a commit in between moves that
	c := g.repo.State()
	is := tip{c.Tip, head}
	if !c.Own() || is == g.sound {
		return false
	}
	back := head > 0
	for own, err := range gitcommit.Commits(g.disk) {
		back = err != nil || own.Last < head
		break
	}
	if !back {
		g.sound = is
	}
	return back
}

// status fills in what a status says of git.
func (g *gitWatch) status(s *view.Status, paused bool) {
	if !g.usable() {
		s.Git = g.err.Error()
		s.Problems = append(s.Problems, problem(view.GitUnusable, s.Git))
		return
	}
	is := g.Progress()
	s.GitSeq = s.Seq - is.Lag
	switch {
	case paused:
		s.Git = "paused by a person: `hived git resume` lets it go on"
	case is.Trouble != "":
		s.Git = is.Trouble
	default:
		s.Git = g.repo.State().String()
	}
	if s.Git != "" {
		s.Problems = append(s.Problems, problem(view.GitWaits, s.Git))
	}
}
