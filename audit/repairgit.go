package audit

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/hived/hived/eventlog"
	"github.com/hived/hived/gitcommit"
	"github.com/hived/hived/ledger"
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
			r.did(codeGitLock, l.name, "removed, the process that took it is gone")
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
		r.did(codeGitMissing, dirGit, "history is built again from the log")
		return true, nil
	}
	var bad []gitcommit.Problem
	err = gitcommit.Check(ctx, r.disk, history(r.disk), func(p gitcommit.Problem) {
		if !p.Info {
			bad = append(bad, p)
		}
	})
	why := Action{Code: codeGitForeign}
	switch {
	case ctx.Err() != nil:
		return false, err
	case err != nil:
		why.Text = err.Error()
	case len(bad) == 0:
		return false, nil
	case slices.ContainsFunc(bad, func(p gitcommit.Problem) bool { return p.Code == gitcommit.CodeAhead }) && !r.opt.Adopt:
		return false, nil // it holds what the log has lost
	default:
		why.Code, why.Where, why.Text = Code(bad[0].Code), bad[0].Path, bad[0].Text
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
	if err := gitcommit.Init(r.disk, false); err != nil {
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
	if err := gitcommit.Init(r.disk, false); err != nil {
		return err
	}
	r.did(codeGitHead, fileHead, "%s", text)
	return nil
}

const fileHead = dirGit + "/HEAD"

// How much goes into one commit when history catches up.
const (
	batchEvents = 512
	batchBytes  = 16 << 20
)

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
	err = r.commitAll(ctx, repo)
	_, own := errors.AsType[*gitcommit.OwnFilesChanged](err)
	switch {
	case own:
		return nil // the daemon logs them first
	case errors.Is(err, gitcommit.ErrLocked), errors.Is(err, gitcommit.ErrBusy):
		r.left(found(codeGitLock, dirGit, "%v", err))
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
		r.did(codeGitLock, "", "%s", text)
	case "git-index-rebuilt":
		r.did(codeGitIndex, dirGit+"/index", "%s", text)
	case "git-overruled":
		r.did(gitcommit.CodeTreeDiffers, "", "%s", text)
	}
}

func (r *repairer) commitAll(ctx context.Context, repo *gitcommit.Repo) error {
	head, err := repo.Head()
	if err != nil {
		return err
	}
	b := &batch{views: ledger.NewViews(ledger.New(windows)), wholes: wholesOf(r.disk)}
	for rec, err := range eventlog.Read(r.disk, eventlog.Position{}) {
		if err != nil {
			return err
		}
		if rec.Event.Seq > head.Seq {
			break
		}
		b.views.Fold(rec.Event)
	}
	b.views.Take() // history has those
	for rec, err := range effects(r.disk, eventlog.Position{Seq: head.Seq}, withContent) {
		if err == nil && b.full() {
			err = b.commit(ctx, repo)
		}
		if err != nil {
			return err
		}
		if err := b.add(rec); err != nil {
			return err
		}
	}
	return b.commit(ctx, repo)
}

// batch is what one commit will bring.
type batch struct {
	gitcommit.Batch
	bytes  int
	views  *ledger.Views // as of its last event
	wholes *ledger.Wholes
}

func (b *batch) full() bool { return len(b.Lines) >= batchEvents || b.bytes >= batchBytes }

func (b *batch) add(rec eventlog.Record) error {
	ev, changes := rec.Event, effectOf(rec).changes
	if e, ok := ev.Body.(*protocol.TaskEvent); ok && e.Checkpoint != nil {
		err := b.wholes.Fill(ev)
		if err == nil {
			changes, err = ledger.Changes(ev)
		}
		if err != nil {
			return err
		}
	}
	b.views.Fold(ev)
	if b.First == 0 {
		b.First = ev.Seq
	}
	b.Last, b.Sum, b.At = ev.Seq, rec.Sum.String(), ev.TS
	b.Lines = append(b.Lines, fmt.Sprintf("%d %s", ev.Seq, protocol.Summary(ev)))
	b.Changes = append(b.Changes, changes...)
	for _, c := range changes {
		b.bytes += len(c.Data)
	}
	return nil
}

func (b *batch) commit(ctx context.Context, repo *gitcommit.Repo) error {
	if b.First == 0 {
		return nil
	}
	b.Subject = fmt.Sprintf("hive: events %d to %d, from the log", b.First, b.Last)
	b.Changes = append(b.Changes, b.views.Take()...)
	_, err := repo.Commit(ctx, b.Batch)
	b.Batch, b.bytes = gitcommit.Batch{}, 0
	return err
}
