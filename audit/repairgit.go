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

// mendGit mends the repository, logs what was mended, and brings history up to the
// end of the log.
func (r *repairer) mendGit(ctx context.Context) error {
	build, err := r.mustRebuild(ctx)
	if err != nil {
		return err
	}
	if build {
		if err := r.freshGit(ctx); err != nil {
			return err
		}
	} else if err := r.mendHead(); err != nil {
		return err
	}
	for _, l := range gitLocks(r.disk) {
		free, err := gitcommit.FreeLock(r.disk, l.name, r.opt.Settings.Git.StaleLock)
		if err != nil {
			return err
		}
		if free {
			r.done(protocol.CodeGitLocked, l.name, "removed, the process that took it is gone")
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

// mustRebuild reports whether history has to be built again. A repository that
// cannot be used is moved away.
func (r *repairer) mustRebuild(ctx context.Context) (build bool, err error) {
	if _, err := r.disk.Lstat(pathGit); errors.Is(err, fs.ErrNotExist) {
		r.done(protocol.CodeGitMissing, pathGit, "history is built again from the log")
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
	r.done(why.Code, why.Where, "%s; history is built again from the log, the broken one is %s", why.Text, kept)
	return true, nil
}

// keepGit moves the repository below .hived/ and returns its new name.
func (r *repairer) keepGit() (string, error) {
	for n := 1; ; n++ {
		to := fmt.Sprintf("%s/git-broken-%d", protocol.PathScratch, n)
		err := r.disk.RenameNew(pathGit, to)
		if !errors.Is(err, fs.ErrExist) {
			return to, err
		}
	}
}

// freshGit makes an empty repository. The files that belong to people and are not
// in the log come from the work tree, as when the hive was made.
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

// mendHead writes a HEAD that cannot be read again, where the rest of the
// repository is sound.
func (r *repairer) mendHead() error {
	look, err := gitcommit.Look(r.disk)
	if err != nil || look.Err == nil {
		return err
	}
	text := "points to hived's branch again"
	if _, err := r.disk.Lstat(pathHead); err == nil {
		kept, err := r.moveAside(pathHead)
		if err != nil {
			return err
		}
		text += ", what it held is " + kept
	}
	if err := gitcommit.Init(r.disk); err != nil {
		return err
	}
	r.done(protocol.CodeGitHead, pathHead, "%s", text)
	return nil
}

const pathHead = pathGit + "/HEAD"

// commitRest commits the events that history does not have yet.
func (r *repairer) commitRest(ctx context.Context, bulk bool) error {
	repo, err := gitcommit.Open(r.disk, gitcommit.Options{StaleLock: r.opt.Settings.Git.StaleLock, Bulk: bulk, Alert: r.recordGitAlert})
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
		return nil // the daemon has to log them first
	case errors.Is(err, gitcommit.ErrLocked), errors.Is(err, gitcommit.ErrBusy):
		r.left(found(protocol.CodeGitLocked, pathGit, "%v", err))
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

// recordGitAlert records what the committer mended by itself as actions.
func (r *repairer) recordGitAlert(code, text string) {
	switch code {
	case "git-stale-lock":
		r.done(protocol.CodeGitLocked, "", "%s", text)
	case "git-index-rebuilt":
		r.done(protocol.CodeGitIndex, pathGit+"/index", "%s", text)
	case "git-overruled":
		r.done(protocol.CodeGitTreeDiffers, "", "%s", text)
	}
}
