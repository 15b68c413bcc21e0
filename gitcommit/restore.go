package gitcommit

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/hived/hived/protocol"
)

// branchTip returns the commit that the branch names. It restores a branch that was
// deleted or renamed: otherwise a second history would begin without the first.
func (r *Repo) branchTip() (protocol.Blob, error) {
	tip, err := readBranch(r.disk, r.branch)
	if err != nil || !tip.IsZero() {
		return tip, err
	}
	id, had, err := r.lastBranchTip()
	if err != nil {
		return tip, err
	}
	switch {
	case id.IsZero() && (had || !r.onto.IsZero()):
		return tip, fmt.Errorf("find branch %s: %w: the branch is gone, and so is what it named; `hived repair` rebuilds the repository from the log", r.branch, ErrDamaged)
	case id.IsZero():
		return tip, nil
	}
	if err := r.moveRef(tip, id, r.tryLock); err != nil {
		return tip, fmt.Errorf("restore branch %s: %w", r.branch, err)
	}
	head, _ := readHEAD(r.disk)
	r.writeReflog(tip, id, r.opt.Now(), "hive: branch restored", head.branch)
	r.alert("git-branch-restored", fmt.Sprintf("branch %s was gone; it names commit %s again", r.branch, id))
	return id, nil
}

// lastBranchTip returns the commit that the branch named last: by its reflog, by
// what is in memory, or, where both are gone, the newest commit by hived that HEAD
// was on. Had reports whether there was one, even if it cannot be read any more.
func (r *Repo) lastBranchTip() (id protocol.Blob, had bool, err error) {
	logs := r.reflogs()
	all, err := r.reflogCommits(logs[0])
	if err != nil {
		return id, false, err
	}
	all = append([]protocol.Blob{r.head.Commit}, all...)
	store := newStore(r.disk) // without what is only in memory
	for _, named := range slices.Backward(all) {
		had = had || !named.IsZero()
		if _, err := store.commit(named); err == nil {
			return named, true, nil
		}
	}
	// HEAD may have been on other branches.
	all, err = r.reflogCommits(logs[1])
	var seq protocol.Seq
	for _, named := range slices.Backward(all) {
		c, err := store.commit(named)
		if err == nil && c.byHived() && c.last > seq {
			id, seq, had = named, c.last, true
		}
	}
	return id, had, err
}

// reflogCommits returns the commits in a reflog, oldest first.
func (r *Repo) reflogCommits(reflog string) ([]protocol.Blob, error) {
	data, err := readTail(r.disk, reflog)
	var out []protocol.Blob
	for line := range bytes.Lines(data) {
		words := bytes.SplitN(line, []byte{' '}, 3)
		if len(words) < 3 {
			continue
		}
		if id, err := parseRef(words[1]); err == nil {
			out = append(out, id)
		}
	}
	return out, err
}
