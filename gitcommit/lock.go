package gitcommit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/pause"
)

const (
	lockExt  = ".lock"
	lockStep = 50 * time.Millisecond // by which each wait grows
	refWaits = 5
	// A lock whose owner cannot be known is stale after this (spec §6).
	unknownStale = 10 * time.Minute
)

// liveness is what is known of a lock's owner.
type liveness int

const (
	ownerUnknown liveness = iota
	ownerAlive
	ownerGone
)

// writeTmp writes one of hived's own temporary files, replacing a leftover.
func writeTmp(disk durable.FS, name string, data []byte, sync durable.Sync) error {
	if err := discard(disk, name); err != nil {
		return err
	}
	f, err := disk.Create(name, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil && bool(sync) {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// discard removes files that may be missing.
func discard(disk durable.FS, names ...string) (err error) {
	for _, name := range names {
		err = errors.Join(err, durable.IgnoreNotExist(disk.Remove(name)))
	}
	return err
}

// lock takes one of git's locks as tryLock does. While the lock is held it waits up
// to waits times, each time 50 ms longer, and is then [ErrLocked] (spec §6).
func (r *Repo) lock(ctx context.Context, tmp, name string, waits time.Duration) error {
	for attempt := time.Duration(1); ; attempt++ {
		err := r.tryLock(tmp, name)
		if !errors.Is(err, ErrLocked) || attempt > waits {
			return err
		}
		if err := pause.For(ctx, attempt*lockStep); err != nil { //nolint:durationcheck // attempt only counts
			return err
		}
	}
}

// tryLock takes one of git's locks by linking a finished file to its name:
// exclusive as git wants it, and recognisable as hived's own after a crash. It is
// [ErrLocked] where somebody holds the lock and it is not stale.
func (r *Repo) tryLock(tmp, name string) error {
	for {
		err := r.disk.Link(tmp, name)
		if err == nil {
			return nil
		}
		if !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("take git's lock: %w", err)
		}
		freed, since, err := r.breakStale(name)
		if err != nil {
			return err
		}
		if !freed {
			return fmt.Errorf("%w: %s since %s; if no git command is running, remove it", ErrLocked, name, since.UTC().Format(time.RFC3339))
		}
	}
}

// breakStale removes a lock whose process died. It reports whether the lock is
// free now, and since when it was held.
func (r *Repo) breakStale(name string) (freed bool, since time.Time, err error) {
	info, err := r.disk.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return true, since, nil
	}
	if err != nil {
		return false, since, fmt.Errorf("look at git's lock: %w", err)
	}
	since = info.ModTime
	age := r.opt.Now().Sub(since)
	if age < r.opt.StaleLock || !info.Regular() {
		return false, since, nil
	}
	switch r.owner(info) {
	case ownerAlive:
		return false, since, nil
	case ownerUnknown:
		if age < unknownStale {
			return false, since, nil
		}
	case ownerGone:
	}
	if again, err := r.disk.Lstat(name); err != nil || again.Ino != info.Ino || !again.ModTime.Equal(info.ModTime) {
		return false, since, nil //nolint:nilerr // somebody else holds it now: the next attempt checks again
	}
	if err := discard(r.disk, name); err != nil {
		return false, since, fmt.Errorf("remove a stale lock of git: %w", err)
	}
	r.alert("git-stale-lock", fmt.Sprintf("removed %s, held since %s by a process that is gone", name, since.UTC().Format(time.RFC3339)))
	return true, since, nil
}

// breakPersonLocks removes stale locks that hived never takes itself: they would
// block a person's git for ever.
func (r *Repo) breakPersonLocks() error {
	for _, name := range []string{headFile, packedRefs} {
		if _, _, err := r.breakStale(name + lockExt); err != nil {
			return err
		}
	}
	return nil
}

// ownerOf asks the system whether a live process could hold a lock in this hive.
func (r *Repo) ownerOf(lock durable.Info) liveness {
	hive, err := r.disk.Lstat(".")
	if err != nil || hive.Ino == 0 || lock.Ino == 0 {
		return ownerUnknown
	}
	git, err := r.disk.Lstat(gitDir)
	if err != nil {
		return ownerUnknown
	}
	return findOwner(hive, git, lock)
}

// removeLeftovers removes what a crash of hived left half done. It touches only
// names that hived itself makes; a lock is hived's if it is a second name of such a
// file.
func (r *Repo) removeLeftovers() error {
	for tmp, lock := range map[string]string{
		tmpRef: refFile(r.branch) + lockExt, tmpHead: headFile + lockExt, tmpIndex: indexFile + lockExt,
	} {
		if !r.sameFile(tmp, lock) {
			continue
		}
		if err := discard(r.disk, lock); err != nil {
			return fmt.Errorf("remove hived's own lock that a crash left: %w", err)
		}
	}
	entries, err := r.disk.ReadDir(gitDir)
	if err != nil {
		return fmt.Errorf("look for leftovers: %w", err)
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name, tmpPrefix) {
			continue
		}
		if err := discard(r.disk, gitDir+"/"+e.Name); err != nil {
			return fmt.Errorf("remove a leftover: %w", err)
		}
	}
	return nil
}

// sameFile reports whether two names are one file, by inode, or by content where
// the platform gives no inodes.
func (r *Repo) sameFile(a, b string) bool {
	x, errX := r.disk.Lstat(a)
	y, errY := r.disk.Lstat(b)
	if errX != nil || errY != nil || x.Size != y.Size {
		return false
	}
	if x.Ino != 0 && y.Ino != 0 {
		return x.Ino == y.Ino && x.Dev == y.Dev
	}
	p, errP := readSmall(r.disk, a, mostIndex)
	q, errQ := readSmall(r.disk, b, mostIndex)
	return errP == nil && errQ == nil && len(p) > 0 && bytes.Equal(p, q)
}
