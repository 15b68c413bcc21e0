package gitcommit

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
)

// index holds what is known of .git/index between two calls.
type index struct {
	info   durable.Info // of the file that was read or written; zero when nothing is known
	usable bool         // it was found valid, or hived wrote it
	link   *splitLink   // nil where it is one file
	kept   []byte       // extensions
}

// indexView is an index that is open for reading.
type indexView struct {
	index
	fresh bool         // made from the tree, and in no file yet
	file  durable.File // .git/index, or the shared index of a split one; nil when fresh or closed
	size  int64        // of file, in bytes
	over  overlay      // how the entries differ from those in file
}

// indexEntries iterates over entries in order. Each is valid until the next call,
// and nil comes after the last.
type indexEntries interface {
	next() (indexEntry, error)
}

// entries returns an iterator at the first entry of the index.
func (v *indexView) entries() (indexEntries, error) {
	if v.fresh {
		return &mergedEntries{added: v.over.added}, nil
	}
	x, err := newIndexReader(v.file, v.size)
	if err != nil || v.link == nil {
		return x, err
	}
	return &mergedEntries{shared: x, changed: v.over.changed, added: v.over.added}, nil
}

// all visits every entry, which is valid only during the visit.
func (v *indexView) all(visit func(indexEntry) error) error {
	list, err := v.entries()
	if err != nil {
		return err
	}
	return each(list, visit)
}

func each(list indexEntries, visit func(indexEntry) error) error {
	for {
		e, err := list.next()
		if err != nil || e == nil {
			return err
		}
		if err := visit(e); err != nil {
			return err
		}
	}
}

// close closes the file; it may be called again.
func (v *indexView) close() error {
	f := v.file
	if f == nil {
		return nil
	}
	v.file = nil
	return f.Close()
}

// sameIndex reports whether two states of the index are the same file, by what a
// rename does not change.
func sameIndex(a, b durable.Info) bool {
	return a.Ino == b.Ino && a.Size == b.Size && a.ModTime.Equal(b.ModTime)
}

// loadIndex returns the index as it is on the disk, or one made from the tip's
// tree if there is none that can be used. It is errRaced if it is replaced meanwhile.
func (r *Repo) loadIndex(tip protocol.Blob) (*indexView, error) {
	v, err := r.openIndex()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		r.index = index{}
		return r.indexFromTree(tip)
	case errors.Is(err, errBadIndex):
		return r.rebuildIndex(tip, err)
	}
	return v, err
}

// openIndex opens .git/index. It is errBadIndex where that cannot be used.
func (r *Repo) openIndex() (*indexView, error) {
	f, err := r.disk.Open(indexFile)
	if err != nil {
		return nil, err
	}
	v := &indexView{file: f}
	info, err := f.Stat()
	if err == nil && (!r.index.usable || !sameIndex(info, r.index.info)) {
		err = r.readForeignIndex(f, info)
	}
	if err == nil {
		v.index, v.size = r.index, info.Size
		if v.link != nil {
			err = r.openShared(v)
		}
	}
	if err != nil {
		return nil, errors.Join(err, v.close())
	}
	return v, nil
}

// readForeignIndex checks an index that hived did not write, and remembers it.
func (r *Repo) readForeignIndex(f durable.File, info durable.Info) error {
	for _, path := range r.dirty.last {
		r.dirty.add(path)
	}
	r.index = index{info: info}
	found, err := scanIndex(f, info.Size)
	if err != nil {
		return err
	}
	met := index{info: info, usable: true, kept: found.kept}
	if found.link != nil {
		l, err := parseLink(found.link)
		if err != nil {
			return err
		}
		if !l.shared.IsZero() {
			met.link = &l
		}
	}
	if met.link == nil && !found.sorted {
		return fmt.Errorf("%w: its entries are out of order", errBadIndex)
	}
	r.index = met
	return nil
}

// rebuildIndex returns an index made from the tip's tree in place of one that cannot
// be used, and alerts people to it.
func (r *Repo) rebuildIndex(tip protocol.Blob, why error) (*indexView, error) {
	r.alert("git-index-rebuilt", ".git/index was made again from the last commit: "+why.Error())
	r.index = index{info: r.index.info}
	return r.indexFromTree(tip)
}

func (r *Repo) indexFromTree(tip protocol.Blob) (*indexView, error) {
	root, err := r.rootAt(tip)
	if err != nil {
		return nil, err
	}
	v := &indexView{index: r.index, fresh: true}
	f := &editFinder{store: r.store}
	add := func(path string, e entry) {
		v.over.added = append(v.over.added, newIndexEntry(path, e.id, e.gitMode(), fileStat{}))
		if protocol.Owned(path) {
			r.dirty.addBare(path)
		}
	}
	for _, e := range root {
		if err := f.reportAll("", e, add); err != nil {
			return nil, err
		}
	}
	return v, nil
}
