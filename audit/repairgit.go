package audit

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/hived/hived/eventlog"
	"github.com/hived/hived/gitcommit"
	"github.com/hived/hived/gitcommit/follow"
	"github.com/hived/hived/protocol"
)

// git mends the repository, tells the log what was mended, and brings history
// up to the end of the log.
func (r *repairer) git(ctx context.Context) error {
	build, err := r.judgeGit(ctx)
	if err != nil {
		return err
	}
	if build {
		if err := r.freshGit(ctx); err != nil {
			return err
		}
	} else if err := r.head(); err != nil {
		return err
	}
	for _, l := range gitLocks(r.disk) {
		free, err := gitcommit.FreeLock(r.disk, l.name, r.opt.Settings.Git.StaleLock)
		if err != nil {
			return err
		}
		if free {
			r.did(protocol.CodeGitLocked, l.name, "removed, the process that took it is gone")
		}
	}
	if err := r.disk.SyncAll(); err != nil {
		return err
	}
	if len(r.out.Done) > 0 {
		if err := r.record(); err != nil {
			return err
		}
	}
	return r.commitRest(ctx, build)
}

// judgeGit tells whether history has to be built again.
func (r *repairer) judgeGit(ctx context.Context) (build bool, err error) {
	if _, err := r.disk.Lstat(dirGit); errors.Is(err, fs.ErrNotExist) {
		r.did(protocol.CodeGitMissing, dirGit, "history is built again from the log")
		return true, nil
	}
	var bad []gitcommit.Problem
	err = gitcommit.Check(ctx, r.disk, history(r.disk), func(p gitcommit.Problem) {
		if !p.Info {
			bad = append(bad, p)
		}
	})
	why := Action{Code: protocol.CodeGitForeign}
	switch {
	case ctx.Err() != nil:
		return false, err
	case err != nil:
		why.Text = err.Error()
	case len(bad) == 0:
		return false, nil
	case slices.ContainsFunc(bad, func(p gitcommit.Problem) bool { return p.Code == protocol.CodeGitAhead }) && !r.opt.Adopt:
		return false, nil // it holds what the log has lost
	default:
		why.Code, why.Where, why.Text = bad[0].Code, bad[0].Path, bad[0].Text
	}
	kept, err := r.keepGit()
	if err != nil {
		return false, err
	}
	r.did(why.Code, why.Where, "%s; history is built again from the log, the broken one is %s", why.Text, kept)
	return true, nil
}

// keepGit moves a repository out of the way.
func (r *repairer) keepGit() (string, error) {
	for n := 1; ; n++ {
		to := fmt.Sprintf("%s/git-broken-%d", protocol.PathScratch, n)
		err := r.disk.RenameNew(dirGit, to)
		if !errors.Is(err, fs.ErrExist) {
			return to, err
		}
	}
}

// freshGit makes an empty repository. What belongs to the people and is not in
// the log comes from the work tree, as at the hive's beginning.
func (r *repairer) freshGit(ctx context.Context) error {
	if err := gitcommit.Init(r.disk); err != nil {
		return err
	}
	repo, err := gitcommit.Open(r.disk, gitcommit.Options{Bulk: true})
	if err != nil {
		return err
	}
	for rec, err := range eventlog.Read(r.disk, eventlog.Position{}) {
		if err != nil {
			return err
		}
		return repo.Seed(ctx, rec.Event.TS, "hive: settings", protocol.PathSettings, ".gitignore")
	}
	return nil
}

// head mends a HEAD that cannot be read, the lesser cure.
func (r *repairer) head() error {
	look, err := gitcommit.Look(r.disk)
	if err != nil || look.Err == nil {
		return err
	}
	text := "points to hived's branch again"
	if _, err := r.disk.Lstat(fileHead); err == nil {
		kept, err := r.aside(fileHead)
		if err != nil {
			return err
		}
		text += ", what it held is " + kept
	}
	if err := gitcommit.Init(r.disk); err != nil {
		return err
	}
	r.did(protocol.CodeGitHead, fileHead, "%s", text)
	return nil
}

const fileHead = dirGit + "/HEAD"

// commitRest commits what the log has and history has not.
func (r *repairer) commitRest(ctx context.Context, bulk bool) error {
	repo, err := gitcommit.Open(r.disk, gitcommit.Options{StaleLock: r.opt.Settings.Git.StaleLock, Bulk: bulk, Alert: r.gitSaid})
	if err != nil {
		return err
	}
	if err := r.fold.catchUp(r.disk); err != nil {
		return err
	}
	if r.fold.state.GitPaused && !bulk {
		return nil // a person has the repository
	}
	err = follow.Rebuild(ctx, r.disk, repo)
	_, own := errors.AsType[*gitcommit.OwnFilesChanged](err)
	switch {
	case own:
		return nil // the daemon logs them first
	case errors.Is(err, gitcommit.ErrLocked), errors.Is(err, gitcommit.ErrBusy):
		r.left(found(protocol.CodeGitLocked, dirGit, "%v", err))
		return nil
	case err != nil:
		return err
	}
	if err := repo.Flush(); err != nil {
		return err
	}
	if _, err := repo.SyncIndex(ctx); err != nil && !errors.Is(err, gitcommit.ErrLocked) {
		return err
	}
	return nil
}

// gitSaid turns what the committer mended by itself into actions.
func (r *repairer) gitSaid(code, text string) {
	switch code {
	case "git-stale-lock":
		r.did(protocol.CodeGitLocked, "", "%s", text)
	case "git-index-rebuilt":
		r.did(protocol.CodeGitIndex, dirGit+"/index", "%s", text)
	case "git-overruled":
		r.did(protocol.CodeGitTreeDiffers, "", "%s", text)
	}
}
