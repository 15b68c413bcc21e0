package gitcommit

import (
	"fmt"
	"io/fs"
	"time"

	"github.com/hived/hived/internal/durable"
)

// ReadFile returns an owned file from the newest commit of hived's branch, its
// bytes verified by their hash; a sealed segment that the disk lost is restored
// from it. It writes nothing. Where that commit has no such file the error is
// [fs.ErrNotExist].
func ReadFile(disk durable.FS, name string) ([]byte, error) {
	data, err := readFile(disk, name)
	if err != nil {
		return nil, fmt.Errorf("read %s from git: %w", name, err)
	}
	return data, nil
}

func readFile(disk durable.FS, name string) ([]byte, error) {
	m, err := readMarker(disk)
	if err != nil {
		return nil, err
	}
	tip, err := readBranch(disk, m.branch)
	if err != nil {
		return nil, err
	}
	s := newStore(disk)
	root, err := s.root(tip)
	if err != nil {
		return nil, err
	}
	id, ok, err := newTreeAt(topsOf(root), s.tree).Lookup(name)
	switch {
	case err != nil:
		return nil, err
	case !ok:
		return nil, fs.ErrNotExist
	}
	return s.read(id, kindBlob)
}

// Look returns what a person has done to the repository, without opening it for
// committing: it changes nothing and may be called beside a running hived.
func Look(disk durable.FS) (Condition, error) {
	m, err := readMarker(disk)
	if err != nil {
		return Condition{}, err
	}
	r := &Repo{disk: disk, branch: m.branch}
	return r.State(), nil
}

// FreeLock removes one of git's lock files if it is older than stale and no live
// git process that works in the hive can own it, by the rules of spec §6. It
// reports whether the lock is free now.
func FreeLock(disk durable.FS, name string, stale time.Duration) (bool, error) {
	r := &Repo{disk: disk, opt: Options{StaleLock: stale, Now: time.Now}}
	r.owner = r.ownerOf
	free, _, err := r.breakStale(name)
	return free, err
}
