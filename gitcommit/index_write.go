package gitcommit

import (
	"context"
	"crypto/sha1" //nolint:gosec // git checks its index by SHA-1
	"encoding/binary"
	"errors"
	"hash"
	"slices"
	"strings"
	"time"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/failpoint"
	"github.com/hived/hived/protocol"
)

const (
	tmpShared = gitDir + "/" + tmpPrefix + "sharedindex"

	// An index of fewer entries is written whole. That takes a few milliseconds,
	// and programs other than git can read it.
	splitFrom = 4096

	// A new shared index is due when the overlays that were written upon the old
	// one came to so many times its entries. So overlays never cost more in all
	// than that, and shared indexes not more than the overlays between them,
	// however fast the hive changes.
	sharedWorth = 4

	// Git removes a shared index that nobody used for two weeks.
	renewShared = 7 * 24 * time.Hour

	// An old shared index is kept this long, and the newest of them only: a git may
	// be about to read it, and a person may have copied the index that refers to
	// it. Every git that reads one sets its time.
	keepShared     = 10 * time.Minute
	mostSharedKept = 3
)

// writeIndex puts patches, sorted by name, into an index and the index in place
// under git's lock, if it is still the one that was read (errRaced otherwise).
func (r *Repo) writeIndex(ctx context.Context, v *indexView, patches []patch) error {
	if len(patches) == 0 && !v.fresh {
		return nil
	}
	if !v.fresh {
		if err := v.smudge(); err != nil {
			return err
		}
	}
	if err := v.over.apply(v.pages, patches); err != nil {
		return err
	}
	next := v.index
	var err error
	switch r.formOf(v) {
	case wholeIndex:
		next.link = nil
		next.table, err = r.writeEntries(v, tmpIndex, v.kept, false)
	case newShared:
		if next.table, err = r.publishShared(v); err != nil {
			return err
		}
		v.over = &overlay{}
		next.spent = 0
		next.link, err = r.writeOverlay(v, next.table.sum)
	case sameSharedIndex:
		next.spent += v.over.len()
		next.link, err = r.writeOverlay(v, v.link.shared)
	}
	// Some systems do not replace a file that is open.
	if err = errors.Join(err, v.close()); err != nil {
		return errors.Join(err, ignoreMissing(r.disk.Remove(tmpIndex)))
	}
	if err := r.placeIndex(ctx, &next); err != nil {
		return err
	}
	r.index = next
	return r.sweepShared()
}

// indexForm is how an index is written.
type indexForm int

const (
	wholeIndex indexForm = iota
	newShared
	sameSharedIndex
)

func (r *Repo) formOf(v *indexView) indexForm {
	n := v.over.count(v.table.count)
	least := r.splitFrom
	if v.link != nil {
		least /= 2 // not to and fro
	}
	switch {
	case r.unsplit || n < least:
		return wholeIndex
	case v.link == nil || v.spent+v.over.len() > sharedWorth*n || r.opt.Now().Sub(v.table.info.ModTime) > renewShared:
		return newShared
	}
	return sameSharedIndex
}

// publishShared writes a shared index of all entries under its name.
func (r *Repo) publishShared(v *indexView) (*indexTable, error) {
	// Unlike the index itself it is synced: after a crash the one could refer to
	// what is not there.
	table, err := r.writeEntries(v, tmpShared, nil, true)
	if err == nil {
		table.file = sharedIndex + table.sum.String()
		err = r.disk.Rename(tmpShared, table.file)
	}
	if err != nil {
		return nil, errors.Join(err, ignoreMissing(r.disk.Remove(tmpShared)))
	}
	return table, r.disk.SyncDir(gitDir)
}

// writeEntries writes all entries of an index into a file of hived's own.
func (r *Repo) writeEntries(v *indexView, name string, ext []byte, sync bool) (*indexTable, error) {
	w, err := r.newIndexWriter(name, v.over.count(v.table.count), v.extended())
	if err != nil {
		return nil, err
	}
	table := &indexTable{file: indexFile, version: w.version, end: indexHeader}
	err = v.all(func(e indexEntry) error {
		table.note(e, nil, table.end)
		table.end += int64(len(e))
		return w.write(e)
	})
	table.last = nil
	if err == nil && table.count != w.count {
		err = errBadIndex
	}
	if err == nil {
		table.sum, table.info, err = w.finish(ext, sync)
	}
	return table, errors.Join(err, w.f.Close())
}

// writeOverlay writes a split index into a file of hived's own.
func (r *Repo) writeOverlay(v *indexView, shared protocol.Blob) (*splitLink, error) {
	var entries []indexEntry
	for _, c := range v.over.changed {
		if c.entry != nil {
			entries = append(entries, c.entry)
		}
	}
	entries = append(entries, v.over.added...)
	w, err := r.newIndexWriter(tmpIndex, len(entries), v.over.extended())
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if err := w.write(e); err != nil {
			return nil, errors.Join(err, w.f.Close())
		}
	}
	ext := v.over.appendLink(nil, shared)
	_, _, err = w.finish(slices.Concat(ext, v.kept), false)
	return &splitLink{shared: shared, bitmaps: ext[8+sha1.Size:]}, errors.Join(err, w.f.Close())
}

func (v *indexView) extended() bool { return v.table.extended || v.over.extended() }

func (o *overlay) extended() bool {
	is := func(e indexEntry) bool { return e != nil && e.flags()&flagExtended != 0 }
	return slices.ContainsFunc(o.added, is) ||
		slices.ContainsFunc(o.changed, func(c changedEntry) bool { return is(c.entry) })
}

// indexWriter writes one index file in version 3 where an entry needs it, else
// in version 2.
type indexWriter struct {
	f       durable.File
	sum     hash.Hash
	buf     []byte
	version uint32
	count   int
}

func (r *Repo) newIndexWriter(name string, count int, extended bool) (*indexWriter, error) {
	if err := ignoreMissing(r.disk.Remove(name)); err != nil {
		return nil, err
	}
	f, err := r.disk.Create(name, 0o644)
	if err != nil {
		return nil, err
	}
	w := &indexWriter{f: f, sum: sha1.New(), version: 2, count: count} //nolint:gosec // git checks its index by SHA-1
	if extended {
		w.version = 3
	}
	w.buf = append(make([]byte, 0, indexWindow), "DIRC"...)
	w.buf = binary.BigEndian.AppendUint32(w.buf, w.version)
	w.buf = binary.BigEndian.AppendUint32(w.buf, uint32(count)) //nolint:gosec // counted from memory
	return w, nil
}

func (w *indexWriter) write(b []byte) error {
	w.buf = append(w.buf, b...)
	if len(w.buf) < indexWindow-mostEntry {
		return nil
	}
	return w.flush()
}

func (w *indexWriter) flush() error {
	w.sum.Write(w.buf)
	_, err := w.f.Write(w.buf)
	w.buf = w.buf[:0]
	return err
}

// finish writes the extensions and the checksum.
func (w *indexWriter) finish(ext []byte, sync bool) (sum protocol.Blob, info durable.Info, err error) {
	w.buf = append(w.buf, ext...)
	if err = w.flush(); err != nil {
		return sum, info, err
	}
	sum = protocol.Blob(w.sum.Sum(nil))
	_, err = w.f.Write(sum[:])
	if err == nil && sync {
		err = w.f.Sync()
	}
	if err == nil {
		info, err = w.f.Stat()
	}
	return sum, info, err
}

// placeIndex gives the new index its name, under git's lock.
func (r *Repo) placeIndex(ctx context.Context, next *index) error {
	var err error
	// Not synced, as git does not: an index that a crash broke is made again.
	failpoint.Hit(failpoint.IndexWritten)
	next.info, err = r.disk.Lstat(tmpIndex)
	if err == nil {
		info := next.info // alone: the index itself is let go
		r.placed.Store(&info)
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
		failpoint.Hit(failpoint.IndexLocked)
		err = r.disk.Rename(indexFile+lockExt, indexFile)
	}
	if err != nil {
		return errors.Join(err, ignoreMissing(r.disk.Remove(indexFile+lockExt)), ignoreMissing(r.disk.Remove(tmpIndex)))
	}
	failpoint.Hit(failpoint.IndexPlaced)
	if next.link == nil {
		next.table.info = next.info
	}
	return ignoreMissing(r.disk.Remove(tmpIndex))
}

// sweepShared removes the shared indexes that nothing can refer to any more.
func (r *Repo) sweepShared() error {
	entries, err := r.disk.ReadDir(gitDir)
	if err != nil {
		return err
	}
	var old []durable.Info
	for _, e := range entries {
		name := gitDir + "/" + e.Name
		if !strings.HasPrefix(name, sharedIndex) || r.index.link != nil && name == r.index.table.file {
			continue
		}
		info, err := r.disk.Lstat(name)
		if ignoreMissing(err) != nil {
			return err
		}
		if err == nil {
			old = append(old, info)
		}
	}
	slices.SortFunc(old, func(a, b durable.Info) int { return b.ModTime.Compare(a.ModTime) })
	for i, info := range old {
		if i < mostSharedKept && r.opt.Now().Sub(info.ModTime) <= keepShared {
			continue
		}
		if err := ignoreMissing(r.disk.Remove(gitDir + "/" + info.Name)); err != nil {
			return err
		}
	}
	return nil
}
