package gitcommit

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/hived/hived/internal/durable"
)

// Shared indexes that no index in .git refers to are kept this long, and only the
// newest of them: a git may be about to read one, and a person may have an index
// elsewhere that refers to it. Every git that reads one sets its time.
const (
	keepShared     = 10 * time.Minute
	mostSharedKept = 3
)

// sweepShared removes the shared indexes that nothing refers to any more: those
// of split indexes that became one file. It is called after hived wrote
// .git/index, which refers to none.
func (r *Repo) sweepShared() error {
	entries, err := r.disk.ReadDir(gitDir)
	if err != nil {
		return err
	}
	found, err := r.sharedAmong(entries)
	if err != nil {
		return err
	}
	var used map[string]bool
	for i, info := range found {
		if i < mostSharedKept && r.opt.Now().Sub(info.ModTime) <= keepShared {
			continue
		}
		if used == nil {
			if used, err = r.sharedInUse(entries); err != nil {
				return nil //nolint:nilerr // what cannot be read may refer to any of them
			}
		}
		name := gitDir + "/" + info.Name
		if used[name] {
			continue
		}
		if err := discard(r.disk, name); err != nil {
			return err
		}
	}
	return nil
}

// sharedAmong returns the shared indexes among some files of .git, newest first.
func (r *Repo) sharedAmong(files []durable.Entry) ([]durable.Info, error) {
	var found []durable.Info
	for _, e := range files {
		name := gitDir + "/" + e.Name
		if !strings.HasPrefix(name, sharedIndex) {
			continue
		}
		info, err := r.disk.Lstat(name)
		if durable.IgnoreNotExist(err) != nil {
			return nil, err
		}
		if err == nil {
			found = append(found, info)
		}
	}
	slices.SortFunc(found, func(a, b durable.Info) int { return b.ModTime.Compare(a.ModTime) })
	return found, nil
}

// sharedInUse returns the shared indexes that the indexes among some files of .git
// refer to. A person may have more than the one (GIT_INDEX_FILE).
func (r *Repo) sharedInUse(files []durable.Entry) (map[string]bool, error) {
	used := make(map[string]bool)
	for _, e := range files {
		name := gitDir + "/" + e.Name
		if strings.HasPrefix(name, sharedIndex) || !e.Type.IsRegular() {
			continue
		}
		l, err := r.splitLinkOf(name)
		if err != nil {
			return nil, err
		}
		if l != nil {
			used[sharedIndex+l.shared.String()] = true
		}
	}
	return used, nil
}

// splitLinkOf returns the link of a split index, and nil where the file is none.
func (r *Repo) splitLinkOf(name string) (*splitLink, error) {
	f, err := r.disk.Open(name)
	if err != nil {
		return nil, durable.IgnoreNotExist(err)
	}
	defer f.Close() //nolint:errcheck // only read
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	found, err := scanIndex(f, info.Size)
	if errors.Is(err, errBadIndex) || err == nil && found.link == nil {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	l, err := parseLink(found.link)
	return &l, err
}
