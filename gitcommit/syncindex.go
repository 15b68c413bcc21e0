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

// index is what is known of .git/index.
type index struct {
	parsed *parsedIndex
	info   durable.Info // of the file that was parsed
}

// dirtySet holds the paths whose index entries are to be looked at.
type dirtySet struct {
	all   bool // every owned path
	paths map[string]bool
	// Entries that are right but without stat data: git would read the files
	// to compare them.
	bare map[string]bool
}

const mostDirty = 200_000 // paths; beyond that all owned ones are compared

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
	if len(d.bare) < mostDirty {
		d.bare[path] = true
	}
}

// SyncIndex makes .git/index agree with hived's last commit in the paths that
// changed since the last call, and in nothing else: what a person staged stays
// staged (spec §6). While HEAD is elsewhere, or a person's operation is in
// progress, the index is left alone.
//
// It reads the files whose stat data it records, a bounded number a call, and
// none that changed within the last second. More tells that some are left for a
// call about a second later: the next `git status` would read them itself. A held index.lock is [ErrLocked], at once.
func (r *Repo) SyncIndex(ctx context.Context) (more bool, err error) {
	if err := r.keepRecent(); err != nil {
		return false, err
	}
	if err := r.breakOthers(); err != nil {
		return false, err
	}
	if !r.dirty.all && len(r.dirty.paths) == 0 && len(r.dirty.bare) == 0 {
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
		return false, nil // the next commit sorts out what a person did
	}
	for range 3 {
		err = r.syncIndex(ctx, tip)
		if !errors.Is(err, errRaced) {
			break
		}
		r.index.parsed = nil
	}
	if err != nil {
		return false, fmt.Errorf("bring git's index up to date: %w", err)
	}
	return len(r.dirty.bare) > 0, nil
}

func (r *Repo) syncIndex(ctx context.Context, tip protocol.Blob) error {
	if free, since, err := r.breakStale(indexFile + lockExt); err != nil || !free {
		return errors.Join(err, fmt.Errorf("%w: index.lock since %s", ErrLocked, since.UTC().Format(time.RFC3339)))
	}
	p, rebuilt, err := r.loadIndex(tip)
	if err != nil {
		return err
	}
	t, err := r.state()
	if err != nil {
		return err
	}
	s := &indexSync{repo: r, tree: t, old: p, left: verifyFiles, leftBytes: verifyBytes, bare: make(map[string]bool), buf: make([]byte, 32<<10)}
	if err := s.collect(ctx); err != nil {
		return err
	}
	if len(s.patches) > 0 || rebuilt {
		next := &parsedIndex{entries: slices.Clone(p.entries), kept: p.kept}
		next.smudge(r.index.info.ModTime)
		next.apply(s.patches)
		if err := r.writeIndex(ctx, next); err != nil {
			return err
		}
	}
	r.dirty = dirtySet{bare: s.bare}
	return nil
}

// loadIndex gives the index as it is on the disk, from memory if nobody
// replaced it, and from the tip's tree if there is none that can be used.
func (r *Repo) loadIndex(tip protocol.Blob) (p *parsedIndex, rebuilt bool, err error) {
	info, err := r.disk.Lstat(indexFile)
	if err == nil && r.index.parsed != nil && sameIndex(info, r.index.info) {
		return r.index.parsed, false, nil
	}
	var data []byte
	if err == nil {
		data, info, err = durable.ReadFile(r.disk, indexFile, mostIndex)
	}
	switch {
	case missing(err):
		info = durable.Info{}
	case err != nil:
		return nil, false, err
	default:
		if p, err = parseIndex(data); err == nil {
			r.index = index{parsed: p, info: info}
			return p, false, nil
		}
		r.alert("git-index-rebuilt", ".git/index was made again from the last commit: "+err.Error())
	}
	r.index = index{info: info}
	p, err = r.indexFromTree(tip)
	return p, true, err
}

// sameIndex compares what tells two states of the file apart and does not
// change when it gets its name.
func sameIndex(a, b durable.Info) bool {
	return a.Ino == b.Ino && a.Size == b.Size && a.ModTime.Equal(b.ModTime)
}

func (r *Repo) indexFromTree(tip protocol.Blob) (*parsedIndex, error) {
	root, err := r.rootAt(tip)
	if err != nil {
		return nil, err
	}
	p := &parsedIndex{}
	f := &editFinder{store: r.store}
	add := func(path string, e entry) {
		p.entries = append(p.entries, newIndexEntry(path, e.id, e.gitMode(), fileStat{}))
		if protocol.Owned(path) {
			r.dirty.addBare(path)
		}
	}
	for _, e := range root {
		if err := f.only("", e, add); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// smudge clears the size of entries that are as young as the index that holds
// them, as git does: only that age told that their files may have changed
// within one tick of the clock, and the new index will be younger. Many a git
// counts seconds only.
func (p *parsedIndex) smudge(written time.Time) {
	sec := seconds(written)
	for i, e := range p.entries {
		if s := binary.BigEndian.Uint32(e.raw[atMTime:]); s == 0 || s < sec {
			continue
		}
		raw := slices.Clone(e.raw)
		clear(raw[atSize : atSize+4])
		p.entries[i].raw = raw
	}
}

func seconds(t time.Time) uint32 {
	if t.IsZero() {
		return 0
	}
	return uint32(t.Unix()) //nolint:gosec // git keeps the lower 32 bits
}

// writeIndex puts the index in place under git's lock, if it is still the one
// that was read (errRaced otherwise).
func (r *Repo) writeIndex(ctx context.Context, p *parsedIndex) error {
	// Not synced, as git does not: an index that a crash broke is made again.
	if err := r.writeTmp(tmpIndex, encodeIndex(p), false); err != nil {
		return err
	}
	info, err := r.disk.Lstat(tmpIndex)
	if err == nil {
		err = r.lock(ctx, tmpIndex, indexFile+lockExt, 0)
	}
	if err != nil {
		return errors.Join(err, ignoreMissing(r.disk.Remove(tmpIndex)))
	}
	now, err := r.disk.Lstat(indexFile)
	if missing(err) {
		now, err = durable.Info{}, nil
	}
	if err == nil && !sameIndex(now, r.index.info) {
		err = errRaced
	}
	if err == nil {
		err = r.disk.Rename(indexFile+lockExt, indexFile)
	}
	if err != nil {
		return errors.Join(err, ignoreMissing(r.disk.Remove(indexFile+lockExt)), ignoreMissing(r.disk.Remove(tmpIndex)))
	}
	r.index = index{parsed: p, info: info}
	return r.disk.Remove(tmpIndex)
}

// How many files, and bytes of them, one call reads to record their stat data.
const (
	verifyFiles = 2000
	verifyBytes = 32 << 20
)

// indexSync finds out what one call has to change.
type indexSync struct {
	repo      *Repo
	tree      *Tree
	old       *parsedIndex
	patches   []patch
	bare      map[string]bool
	left      int
	leftBytes int64
	buf       []byte // for reading files
}

func (s *indexSync) collect(ctx context.Context) error {
	paths := maps.Clone(s.repo.dirty.paths)
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
	for path := range s.repo.dirty.bare {
		if paths[path] {
			continue
		}
		if err := s.dress(ctx, path); err != nil {
			return err
		}
	}
	slices.SortFunc(s.patches, func(a, b patch) int { return strings.Compare(a.name, b.name) })
	return nil
}

// differing compares every owned path of the index with the tree.
func (s *indexSync) differing() (map[string]bool, error) {
	out := make(map[string]bool)
	have := make(map[string]protocol.Blob)
	for _, e := range s.old.entries {
		if !protocol.Owned(e.name) {
			continue
		}
		if e.stage() != 0 || e.mode() != modeFile {
			out[e.name] = true
		}
		have[e.name] = e.id()
	}
	err := s.tree.Walk(func(path string, id protocol.Blob) error {
		if was, ok := have[path]; !ok || was != id {
			out[path] = true
		}
		delete(have, path)
		return nil
	})
	for path := range have {
		out[path] = true
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
		return nil
	}
	st, later, err := s.stat(ctx, path, id)
	if later {
		s.bare[path] = true
	}
	e := newIndexEntry(path, id, modeFile, st)
	s.patches = append(s.patches, patch{name: path, entry: &e})
	return err
}

// dress gives an entry without stat data its own, if it is still that entry.
func (s *indexSync) dress(ctx context.Context, path string) error {
	e, ok := s.old.find(path)
	if !ok || e.mode() != modeFile {
		return nil
	}
	if sec := binary.BigEndian.Uint32(e.raw[atMTime:]); sec != 0 {
		return nil // git did it
	}
	st, later, err := s.stat(ctx, path, e.id())
	if later {
		s.bare[path] = true
	}
	if err != nil || st == (fileStat{}) {
		return err
	}
	dressed := newIndexEntry(path, e.id(), modeFile, st)
	s.patches = append(s.patches, patch{name: path, entry: &dressed})
	return nil
}

// stat gives a file's stat data if the file holds what the id says; zero where
// it does not, or where that is to be found out later.
func (s *indexSync) stat(ctx context.Context, path string, id protocol.Blob) (st fileStat, later bool, err error) {
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

// racy tells whether a file could change again without its time changing, as
// a git that counts seconds sees it.
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
