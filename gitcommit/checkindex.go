package gitcommit

import (
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/hived/hived/internal/durable"
)

// ErrIndex means that git's index cannot be read: [Repo.SyncIndex] makes it again.
var ErrIndex = errors.New("git's index cannot be read")

// indexTries bounds how often the index is read again when it is replaced meanwhile.
const indexTries = 3

// CheckIndex reads .git/index, and the shared index that it may be split from, as git
// would, and returns the number of owned paths in which it differs from the newest
// commit of hived's branch. Such a difference is no damage: the index lags behind the
// commits, and people stage what they like (spec §6). The error is [ErrIndex] where the
// index cannot be read, and [fs.ErrNotExist] where there is none. It writes nothing and
// may be called beside a running hived.
func CheckIndex(disk durable.FS) (differ int, err error) {
	m, err := readMarker(disk)
	if err != nil {
		return 0, err
	}
	for range indexTries {
		if differ, err = checkIndex(disk, m.branch); !errors.Is(err, errRaced) {
			break
		}
	}
	switch {
	case errors.Is(err, errBadIndex):
		err = fmt.Errorf("%w: %w", ErrIndex, err)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		err = fmt.Errorf("check git's index: %w", err)
	}
	return differ, err
}

func checkIndex(disk durable.FS, branch string) (differ int, err error) {
	r := &Repo{disk: disk, branch: branch, store: newStore(disk), opt: Options{Now: time.Now}}
	v, err := r.openIndex()
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, v.close()) }()
	tip, err := readBranch(disk, branch)
	if err != nil || tip.IsZero() {
		return 0, errors.Join(err, v.all(func(indexEntry) error { return nil }))
	}
	root, err := r.store.root(tip)
	if err != nil {
		return 0, err
	}
	s := &indexSync{repo: r, tree: newTreeAt(topsOf(root), r.store.tree), old: v}
	paths, err := s.differing()
	return len(paths), err
}
