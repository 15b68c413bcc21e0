package audit

import (
	"context"
	"errors"
	"io/fs"
	"slices"

	"github.com/hived/hived/gitcommit"
	"github.com/hived/hived/protocol"
)

// checkWorktree checks what git shows to people: HEAD, which names a branch, and the
// index, which git compares the files with (spec §6). No commit depends on either,
// and a person may have changed both: so a difference is a note, and only what
// cannot be read is a fault. The problems are those found in the history.
func (v *verifier) checkWorktree(ctx context.Context, problems []gitcommit.Problem) error {
	var list []Finding
	err := v.retry(ctx, func() (bad bool, err error) {
		list, err = v.worktreeFindings(problems)
		return len(list) > 0, err
	})
	for _, f := range list {
		v.add(f)
	}
	return err
}

func (v *verifier) worktreeFindings(problems []gitcommit.Problem) (list []Finding, err error) {
	look, err := gitcommit.Look(v.disk)
	if err != nil {
		return nil, err
	}
	broken := slices.ContainsFunc(problems, func(p gitcommit.Problem) bool { return !p.Info })
	switch {
	case look.Err != nil && !broken:
		f := found(protocol.CodeGitHead, pathHead, "%v", look.Err)
		f.Level, f.Remedy = protocol.LevelFault, repairRemedy
		list = append(list, f)
	case look.Err == nil && look.Head != look.Branch && look.Operation == "":
		f := found(protocol.CodeGitHead, pathHead, "%s", look)
		f.Level = protocol.LevelNote
		list = append(list, f)
	}
	differ, err := gitcommit.CheckIndex(v.disk)
	switch {
	case errors.Is(err, gitcommit.ErrIndex):
		return append(list, found(protocol.CodeGitIndex, pathIndex, "%v", err)), nil
	case errors.Is(err, fs.ErrNotExist):
		if v.gitWhole && !look.Tip.IsZero() {
			list = append(list, found(protocol.CodeGitIndexBehind, pathIndex, "it is not there"))
		}
		return list, nil
	case err != nil && broken:
		return list, nil // reported already
	case err != nil:
		return list, err
	case differ > 0 && look.Own() && v.gitWhole && !v.daemonRuns():
		list = append(list, found(protocol.CodeGitIndexBehind, pathIndex, "%d of hived's paths are not in it as in the last commit", differ))
	}
	return list, nil
}
