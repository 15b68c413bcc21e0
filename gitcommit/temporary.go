package gitcommit

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/hived/hived/internal/durable"
)

const (
	sweepEvery = time.Hour
	// A temporary file of git's is stale when it was not written for this long
	// and no live process can own it, or for leftAfterUnknown where that cannot be
	// known.
	leftAfter        = time.Hour
	leftAfterUnknown = 24 * time.Hour
	mostSwept        = 256 // files removed at once: each costs a search of all processes
)

// sweepTemporary removes, once an hour, what killed git processes left half written
// among the objects.
func (r *Repo) sweepTemporary() error {
	now := r.opt.Now()
	if !r.swept.IsZero() && now.Sub(r.swept) < sweepEvery {
		return nil
	}
	r.swept = now
	dirs, err := r.disk.ReadDir(objectsDir)
	if err != nil {
		return fmt.Errorf("look for leftovers of git: %w", err)
	}
	left := mostSwept
	for _, d := range dirs {
		_, err := hex.DecodeString(d.Name)
		if d.Name != "pack" && (err != nil || len(d.Name) != 2) {
			continue
		}
		if left, err = r.sweepDir(objectsDir+"/"+d.Name, now, left); err != nil {
			return fmt.Errorf("remove leftovers of git: %w", err)
		}
	}
	return nil
}

// sweepDir removes at most left files of one directory and returns how many more
// may be removed: none once a live git is found.
func (r *Repo) sweepDir(dir string, now time.Time, left int) (int, error) {
	entries, err := r.disk.ReadDir(dir)
	if err != nil {
		return left, durable.IgnoreNotExist(err) // git removes directories that are empty
	}
	for _, e := range entries {
		if left == 0 {
			break
		}
		if !temporary(e.Name) {
			continue
		}
		info, err := r.disk.Lstat(dir + "/" + e.Name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return left, err
		}
		old, live := r.leftOver(info, now)
		if live {
			return 0, nil
		}
		if !old {
			continue
		}
		left--
		if err := discard(r.disk, dir+"/"+e.Name); err != nil {
			return left, err
		}
	}
	return left, nil
}

// temporary reports whether a name is that of one of git's unfinished files.
func temporary(name string) bool {
	return strings.HasPrefix(name, "tmp_") || strings.HasPrefix(name, ".tmp-")
}

// leftOver reports whether a temporary file is stale, and whether a live git could
// own it.
func (r *Repo) leftOver(info durable.Info, now time.Time) (old, live bool) {
	age := now.Sub(info.ModTime)
	if !info.Regular() || age < leftAfter {
		return false, false
	}
	switch r.owner(info) {
	case ownerAlive:
		return false, true
	case ownerUnknown:
		return age >= leftAfterUnknown, false
	case ownerGone:
	}
	return true, false
}
