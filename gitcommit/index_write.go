package gitcommit

import (
	"context"
	"crypto/sha1" //nolint:gosec // git checks its index by SHA-1
	"encoding/binary"
	"errors"
	"hash"
	"io/fs"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/failpoint"
)

// writeIndex applies patches, sorted by name, to an index and replaces the index
// under git's lock, if it is still the one that was read (errRaced otherwise).
// It is one file then, also where it was a split one (ADR 17).
func (r *Repo) writeIndex(ctx context.Context, v *indexView, patches []patch) error {
	if len(patches) == 0 && !v.fresh {
		return nil
	}
	err := r.writeEntries(v, patches)
	// Some systems do not replace a file that is open.
	if err = errors.Join(err, v.close()); err != nil {
		return errors.Join(err, discard(r.disk, tmpIndex))
	}
	info, err := r.placeIndex(ctx, v.info)
	if err != nil {
		return err
	}
	r.index = index{info: info, usable: true, kept: v.kept}
	if v.link != nil {
		// Before the shared index is removed, which the old index would need again.
		if err := r.disk.SyncDir(gitDir); err != nil {
			return err
		}
	}
	return r.sweepShared()
}

// writeEntries writes an index with patches applied into a temporary file.
func (r *Repo) writeEntries(v *indexView, patches []patch) error {
	list, err := v.patched(patches)
	if err != nil {
		return err
	}
	w := &indexWriter{version: 2, sum: sha1.New()} //nolint:gosec // git checks its index by SHA-1
	if err := each(list, w.count); err != nil {
		return err
	}
	if list, err = v.patched(patches); err != nil {
		return err
	}
	if err := discard(r.disk, tmpIndex); err != nil {
		return err
	}
	if w.f, err = r.disk.Create(tmpIndex, 0o644); err != nil {
		return err
	}
	w.begin()
	if err = each(list, w.write); err == nil {
		err = w.finish(v.kept)
	}
	if err == nil && v.link != nil {
		// As in git, an index is otherwise not synced: one that a crash broke is made
		// again. But the shared index, with what a person staged, is removed later.
		err = w.f.Sync()
	}
	return errors.Join(err, w.f.Close())
}

// indexWriter writes one index file in version 3 where an entry needs it, else
// in version 2.
type indexWriter struct {
	f       durable.File
	sum     hash.Hash
	buf     []byte
	version uint32
	left    uint32 // entries not written yet
}

// count counts an entry that will be written, and picks the version.
func (w *indexWriter) count(e indexEntry) error {
	w.left++
	if e.flags()&flagExtended != 0 {
		w.version = 3
	}
	return nil
}

func (w *indexWriter) begin() {
	w.buf = append(make([]byte, 0, indexWindow), "DIRC"...)
	w.buf = binary.BigEndian.AppendUint32(w.buf, w.version)
	w.buf = binary.BigEndian.AppendUint32(w.buf, w.left)
}

func (w *indexWriter) write(e indexEntry) error {
	w.left--
	w.buf = append(w.buf, e...)
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
func (w *indexWriter) finish(ext []byte) error {
	if w.left != 0 {
		return errBadIndex // somebody is writing into the old one
	}
	w.buf = append(w.buf, ext...)
	if err := w.flush(); err != nil {
		return err
	}
	_, err := w.f.Write(w.sum.Sum(nil))
	return err
}

// placeIndex renames the new index into place, under git's lock, if the old one
// is still the one that was read.
func (r *Repo) placeIndex(ctx context.Context, was durable.Info) (durable.Info, error) {
	failpoint.Hit(failpoint.IndexWritten)
	next, err := r.disk.Lstat(tmpIndex)
	if err == nil {
		info := next // a copy: next goes to the caller
		r.ownIndexLock.Store(&info)
		err = r.lock(ctx, tmpIndex, indexFile+lockExt, 0)
	}
	if err != nil {
		return next, errors.Join(err, discard(r.disk, tmpIndex))
	}
	now, err := r.disk.Lstat(indexFile)
	if errors.Is(err, fs.ErrNotExist) {
		now, err = durable.Info{}, nil
	}
	if err == nil && !sameIndex(now, was) {
		err = errRaced
	}
	if err == nil {
		failpoint.Hit(failpoint.IndexLocked)
		err = r.disk.Rename(indexFile+lockExt, indexFile)
	}
	if err != nil {
		return next, errors.Join(err, discard(r.disk, indexFile+lockExt, tmpIndex))
	}
	failpoint.Hit(failpoint.IndexPlaced)
	return next, discard(r.disk, tmpIndex)
}
