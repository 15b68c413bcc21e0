package gitcommit

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
)

// dirtySet holds the paths whose index entries may be out of date.
type dirtySet struct {
	all   bool // every owned path
	paths map[string]bool
	// Entries that are right but lack stat data: git would read the files to
	// compare them. Up to mostBare are known. When they are done, the next are
	// searched for in the index.
	bare     map[string]bool
	mostBare int
	more     bool   // there may be others in the index,
	from     string // at this name or after it,
	again    bool   // and before it, added since
	// What the last call changed. A git that read the index before it and wrote
	// its own after it has undone that.
	last []string
}

const (
	mostDirty = 200_000 // paths; beyond that all owned ones are compared
	mostBare  = 1 << 14
)

func (d *dirtySet) add(path string) {
	if d.all {
		return
	}
	if len(d.paths) >= mostDirty {
		d.all, d.paths = true, nil
		return
	}
	if d.paths == nil {
		d.paths = make(map[string]bool)
	}
	d.paths[path] = true
}

func (d *dirtySet) addBare(path string) {
	if d.bare == nil {
		d.bare = make(map[string]bool)
	}
	switch {
	case len(d.bare) < d.mostBare:
		d.bare[path] = true
	case d.more:
		d.again = d.again || path < d.from
	default:
		d.more = true
	}
}

// isEmpty reports whether there is nothing to do.
func (d *dirtySet) isEmpty() bool { return !d.all && len(d.paths) == 0 && !d.someWithoutStat() }

// someWithoutStat reports whether there may be entries without stat data.
func (d *dirtySet) someWithoutStat() bool { return len(d.bare) > 0 || d.more }

// refill searches for entries without stat data when those that were known are done.
func (d *dirtySet) refill(v *indexView) error {
	if len(d.bare) > 0 || !d.more {
		return nil
	}
	m, err := v.entries()
	if err != nil {
		return err
	}
	for {
		e, err := m.next()
		if err != nil {
			return err
		}
		if e == nil {
			d.more, d.from, d.again = d.again, "", false
			return nil
		}
		if e.mtime() != 0 || e.mode() != modeFile || e.stage() != 0 || string(e.name()) < d.from || !protocol.Owned(string(e.name())) {
			continue
		}
		if len(d.bare) == d.mostBare {
			d.from = string(e.name())
			return nil
		}
		d.addBare(string(e.name()))
	}
}

// SyncIndex makes .git/index agree with hived's last commit in the paths that
// changed since the last call, and in nothing else: what a person staged stays
// staged (spec §6). While HEAD is elsewhere, or a person's operation is in
// progress, the index is left alone.
//
// It reads the files whose stat data it records, a bounded number a call, and
// none that changed within the last second. More is set when some are left for a
// call about a second later: until then `git status` would read them itself. A
// held index.lock is [ErrLocked], at once.
//
// The cost of a call depends on the number of files: the index is read and written
// whole (ADR 17). The caller makes sure that this takes a small share of the time.
func (r *Repo) SyncIndex(ctx context.Context) (more bool, err error) {
	return r.syncUpTo(ctx, verifyFiles)
}

// SyncNames is [Repo.SyncIndex] without reading any file, for a time when there is
// more urgent work: what it adds gets its stat data from a later SyncIndex.
func (r *Repo) SyncNames(ctx context.Context) error {
	_, err := r.syncUpTo(ctx, 0)
	return err
}

// syncUpTo is SyncIndex that reads at most so many files.
func (r *Repo) syncUpTo(ctx context.Context, files int) (more bool, err error) {
	if err := r.keepRecent(); err != nil {
		return false, err
	}
	if err := r.breakPersonLocks(); err != nil {
		return false, err
	}
	if r.dirty.isEmpty() {
		return false, nil
	}
	pos := r.position()
	if !pos.Own() {
		return false, pos.Err
	}
	tip, err := readBranch(r.disk, r.branch)
	if err != nil || r.head.Seq == 0 {
		return false, err
	}
	if r.dirty.all && tip != r.head.Commit {
		return false, nil // the next commit finds out what a person did
	}
	for range 3 {
		err = r.syncIndex(ctx, tip, files)
		if !errors.Is(err, errRaced) {
			break
		}
	}
	if err != nil {
		return false, fmt.Errorf("bring git's index up to date: %w", err)
	}
	return r.dirty.someWithoutStat(), nil
}

func (r *Repo) syncIndex(ctx context.Context, tip protocol.Blob, files int) error {
	if free, since, err := r.breakStale(indexFile + lockExt); err != nil || !free {
		return errors.Join(err, fmt.Errorf("%w: index.lock since %s", ErrLocked, since.UTC().Format(time.RFC3339)))
	}
	v, err := r.loadIndex(tip)
	if err != nil {
		return err
	}
	err = r.updateIndex(ctx, v, files)
	if errors.Is(err, errBadIndex) && !v.fresh {
		if v, err = r.rebuildIndex(tip, err); err == nil {
			err = r.updateIndex(ctx, v, files)
		}
	}
	return err
}

// updateIndex writes an index with what has to change in it, and closes it.
func (r *Repo) updateIndex(ctx context.Context, v *indexView, files int) (err error) {
	defer func() { err = errors.Join(err, v.close()) }()
	t, err := r.state()
	if err != nil {
		return err
	}
	s := &indexSync{repo: r, tree: t, old: v, left: files, leftBytes: verifyBytes, buf: make([]byte, 32<<10)}
	if err := s.collect(ctx); err != nil {
		return err
	}
	if err := r.writeIndex(ctx, v, s.patches); err != nil {
		return err
	}
	r.dirty.all, r.dirty.paths, r.dirty.last = false, nil, nil
	for _, p := range s.patches {
		r.dirty.last = append(r.dirty.last, p.name)
	}
	for _, path := range s.settled {
		delete(r.dirty.bare, path)
	}
	if len(r.dirty.bare) == 0 {
		r.dirty.bare = nil // a map never frees its space
	}
	for _, path := range s.bare {
		r.dirty.addBare(path)
	}
	return nil
}

func seconds(t time.Time) uint32 {
	if t.IsZero() {
		return 0
	}
	return uint32(t.Unix()) //nolint:gosec // git keeps the lower 32 bits
}

// How many files, and bytes of them, one call reads to record their stat data.
// Calls come about once a second in a small hive, also when nothing else happens.
const (
	verifyFiles = 2000
	verifyBytes = 32 << 20
)

// indexSync finds out what one call has to change.
type indexSync struct {
	repo      *Repo
	tree      *Tree
	old       *indexView
	patches   []patch
	bare      []string // entries that got no stat data yet
	settled   []string // entries that need none any more
	left      int      // files that this call may still read
	leftBytes int64
	buf       []byte // for reading files
}

func (s *indexSync) collect(ctx context.Context) error {
	paths := s.repo.dirty.paths
	if s.repo.dirty.all {
		var err error
		if paths, err = s.differing(); err != nil {
			return err
		}
	}
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		if err := s.patch(ctx, path); err != nil {
			return err
		}
	}
	if s.left > 0 {
		if err := s.repo.dirty.refill(s.old); err != nil {
			return err
		}
	}
	if err := s.fillStat(ctx, s.withoutStat(paths)); err != nil {
		return err
	}
	slices.SortFunc(s.patches, func(a, b patch) int { return strings.Compare(a.name, b.name) })
	return nil
}

// withoutStat picks some of the entries without stat data, as many as this call
// may read, in order.
func (s *indexSync) withoutStat(but map[string]bool) []string {
	var out []string
	for path := range s.repo.dirty.bare {
		if len(out) >= s.left {
			break
		}
		if !but[path] {
			out = append(out, path)
		}
	}
	slices.Sort(out)
	return out
}

// differing compares every owned path of the index with the tree.
func (s *indexSync) differing() (map[string]bool, error) {
	out := make(map[string]bool)
	m, err := s.old.entries()
	if err != nil {
		return nil, err
	}
	e, err := m.next()
	pass := func() {
		if name := string(e.name()); protocol.Owned(name) {
			out[name] = true
		}
		e, err = m.next()
	}
	walked := s.tree.Walk(func(path string, id protocol.Blob) error {
		for err == nil && e != nil && string(e.name()) < path {
			pass()
		}
		if err != nil || e == nil || string(e.name()) != path || e.stage() != 0 || e.mode() != modeFile || e.id() != id {
			out[path] = true
			return err
		}
		if e.mtime() == 0 {
			s.repo.dirty.addBare(path) // an earlier daemon stopped before it
		}
		e, err = m.next()
		return err
	})
	if walked != nil {
		return nil, walked
	}
	for err == nil && e != nil {
		pass()
	}
	return out, err
}

// patch makes the index hold what the tree holds for one path.
func (s *indexSync) patch(ctx context.Context, path string) error {
	id, ok, err := s.tree.Lookup(path)
	if err != nil {
		return err
	}
	if !ok {
		s.patches = append(s.patches, patch{name: path})
		s.settled = append(s.settled, path)
		return nil
	}
	st, err := s.statOrLater(ctx, path, id)
	s.patches = append(s.patches, patch{name: path, entry: newIndexEntry(path, id, modeFile, st)})
	return err
}

// fillStat adds stat data to the entries of sorted paths that still lack it.
func (s *indexSync) fillStat(ctx context.Context, paths []string) error {
	if len(paths) == 0 {
		return nil
	}
	list, err := s.old.entries()
	if err != nil {
		return err
	}
	e, err := list.next()
	for _, path := range paths {
		for err == nil && e != nil && string(e.name()) < path {
			e, err = list.next()
		}
		if err != nil {
			return err
		}
		if e == nil || string(e.name()) != path || e.stage() != 0 || e.mode() != modeFile || e.mtime() != 0 {
			s.settled = append(s.settled, path) // git has done it
			continue
		}
		id := e.id()
		st, err := s.statOrLater(ctx, path, id)
		if err != nil {
			return err
		}
		if st != (fileStat{}) {
			s.patches = append(s.patches, patch{name: path, entry: newIndexEntry(path, id, modeFile, st)})
		}
	}
	return nil
}

// statOrLater returns a file's stat data if the file has the content of the id;
// zero where it does not, or where a later call has to find out.
func (s *indexSync) statOrLater(ctx context.Context, path string, id protocol.Blob) (st fileStat, err error) {
	st, later, err := s.readStat(ctx, path, id)
	if later {
		s.bare = append(s.bare, path)
	} else {
		s.settled = append(s.settled, path)
	}
	return st, err
}

func (s *indexSync) readStat(ctx context.Context, path string, id protocol.Blob) (st fileStat, later bool, err error) {
	if err := ctx.Err(); err != nil {
		return st, true, context.Cause(ctx)
	}
	if s.left <= 0 || s.leftBytes <= 0 {
		return st, true, nil
	}
	f, err := s.repo.disk.Open(path)
	if err != nil {
		return st, false, nil
	}
	defer f.Close() //nolint:errcheck // only read
	info, err := f.Stat()
	if err != nil {
		return st, false, nil
	}
	if s.repo.racy(info.ModTime) {
		return st, true, nil
	}
	s.left--
	s.leftBytes -= info.Size
	h := newObjectHash(kindBlob, info.Size)
	if n, err := io.CopyBuffer(h, f, s.buf); err != nil || n != info.Size || protocol.Blob(h.Sum(nil)) != id {
		return st, false, nil
	}
	return statOf(info), false, nil
}

// racy reports whether a file could change again without its time changing, for
// a git that counts seconds.
func (r *Repo) racy(modified time.Time) bool {
	const tick = 20 * time.Millisecond // of the clock that file systems use
	return r.opt.Now().Add(-tick).Unix() <= modified.Unix()
}

func statOf(info durable.Info) fileStat {
	var st fileStat
	put := func(at int, v uint32) { binary.BigEndian.PutUint32(st[at:], v) }
	for at, t := range map[int]time.Time{atCTime: info.CTime, atMTime: info.ModTime} {
		put(at, seconds(t))
		if !t.IsZero() {
			put(at+4, uint32(t.Nanosecond())) //nolint:gosec // below a thousand million
		}
	}
	put(atDev, uint32(info.Dev)) //nolint:gosec // git keeps the lower 32 bits
	put(atIno, uint32(info.Ino)) //nolint:gosec // git keeps the lower 32 bits
	put(atUID, info.UID)
	put(atGID, info.GID)
	put(atSize, uint32(info.Size)) //nolint:gosec // git keeps the lower 32 bits
	return st
}
