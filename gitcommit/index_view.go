package gitcommit

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sort"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
)

// sharedIndex begins the names of shared indexes; their checksum follows.
const sharedIndex = gitDir + "/sharedindex."

// index is what is known of .git/index between two calls.
type index struct {
	info  durable.Info // of the file that was read or written; zero when nothing is known
	link  *splitLink   // nil where it is whole
	kept  []byte       // extensions
	table *indexTable  // of the shared index, or of the index itself where it is whole
	spent int          // entries of the overlays that were written upon the shared index
}

// indexView is an index while it is worked on: a table of entries in a file,
// and what is different from it.
type indexView struct {
	index
	over  *overlay
	fresh bool // made from the tree
	file  durable.File
	pages *indexPages
}

// close may be called again.
func (v *indexView) close() error {
	f := v.file
	if f == nil {
		return nil
	}
	v.file = nil
	return f.Close()
}

// sameIndex compares what tells two states of the file apart and does not
// change when it gets its name.
func sameIndex(a, b durable.Info) bool {
	return a.Ino == b.Ino && a.Size == b.Size && a.ModTime.Equal(b.ModTime)
}

// sameShared compares shared indexes, whose time every git that reads them sets.
func sameShared(a, b durable.Info) bool { return a.Ino == b.Ino && a.Size == b.Size }

// loadIndex gives the index as it is on the disk, and from the tip's tree if
// there is none that can be used. It is errRaced if it is replaced meanwhile.
func (r *Repo) loadIndex(tip protocol.Blob) (*indexView, error) {
	info, err := r.disk.Lstat(indexFile)
	if missing(err) {
		r.index = index{}
		return r.indexFromTree(tip)
	}
	if err == nil && (r.index.table == nil || !sameIndex(info, r.index.info)) {
		for _, path := range r.dirty.last {
			r.dirty.add(path)
		}
		err = r.meetIndex()
	}
	if err == nil && r.index.table == nil {
		return r.indexFromTree(tip) // the same that could not be used before
	}
	var v *indexView
	if err == nil {
		v, err = r.viewIndex()
	}
	if errors.Is(err, errBadIndex) {
		r.index.info = info
		return r.remakeIndex(tip, err)
	}
	return v, err
}

// remakeIndex gives an index in place of one that cannot be used.
func (r *Repo) remakeIndex(tip protocol.Blob, why error) (*indexView, error) {
	r.alert("git-index-rebuilt", ".git/index was made again from the last commit: "+why.Error())
	r.index = index{info: r.index.info}
	return r.indexFromTree(tip)
}

// meetIndex reads an index that hived did not write.
func (r *Repo) meetIndex() error {
	table, ext, err := r.scanIndex(indexFile)
	if err != nil {
		return err
	}
	met := index{info: table.info, kept: ext.kept}
	if ext.link != nil {
		l, err := parseLink(ext.link)
		if err != nil {
			return err
		}
		if !l.shared.IsZero() {
			met.link = &l
		}
	}
	switch old := r.index; {
	case met.link == nil && table.bad != nil:
		return fmt.Errorf("%w: its entries are out of order", table.bad)
	case met.link == nil:
		met.table = table
	case old.link != nil && old.link.shared == met.link.shared:
		met.table, met.spent = old.table, old.spent
	default:
		if met.table, err = r.scanShared(met.link.shared); err != nil {
			return err
		}
	}
	r.index = met
	return nil
}

func (r *Repo) scanShared(sum protocol.Blob) (*indexTable, error) {
	name := sharedIndex + sum.String()
	table, ext, err := r.scanIndex(name)
	switch {
	case missing(err):
		return nil, fmt.Errorf("%w: %s is missing", errBadIndex, name)
	case err != nil:
		return nil, err
	case table.sum != sum || table.bad != nil || ext.link != nil:
		return nil, fmt.Errorf("%w: %s is not what it refers to", errBadIndex, name)
	}
	return table, nil
}

func (r *Repo) scanIndex(name string) (*indexTable, indexExtensions, error) {
	f, err := r.disk.Open(name)
	if err != nil {
		return nil, indexExtensions{}, err
	}
	defer f.Close() //nolint:errcheck // only read
	info, err := f.Stat()
	if err != nil {
		return nil, indexExtensions{}, err
	}
	table, ext, err := scanIndex(f, info.Size)
	if err != nil {
		return nil, ext, err
	}
	table.file, table.info = name, info
	return table, ext, nil
}

// viewIndex opens the index that is known for work.
func (r *Repo) viewIndex() (*indexView, error) {
	v := &indexView{index: r.index, over: &overlay{}}
	f, err := r.disk.Open(v.table.file)
	if missing(err) {
		return nil, fmt.Errorf("%w: %s is missing", errBadIndex, v.table.file)
	}
	if err != nil {
		return nil, err
	}
	v.file, v.pages = f, &indexPages{f: f, table: v.table}
	info, err := f.Stat()
	switch {
	case err != nil:
	case v.link == nil && !sameIndex(info, v.info):
		err = errRaced
	case v.link != nil && !sameShared(info, v.table.info):
		// Another file of that name: it may hold the same, but that is not known.
		r.index.info = durable.Info{}
		r.index.link = nil
		err = errRaced
	case v.link != nil:
		v.table.info = info
		err = r.readOverlay(v)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return v, nil
}

func (r *Repo) readOverlay(v *indexView) error {
	data, info, err := durable.ReadFile(r.disk, indexFile, mostIndex)
	if err != nil {
		return err
	}
	if !sameIndex(info, v.info) {
		return errRaced
	}
	v.over, err = parseOverlay(data, *v.link, v.table.count)
	return err
}

func (r *Repo) indexFromTree(tip protocol.Blob) (*indexView, error) {
	root, err := r.rootAt(tip)
	if err != nil {
		return nil, err
	}
	table := &indexTable{}
	v := &indexView{index: r.index, over: &overlay{}, fresh: true, pages: &indexPages{table: table}}
	v.table = table
	f := &editFinder{store: r.store}
	add := func(path string, e entry) {
		v.over.added = append(v.over.added, newIndexEntry(path, e.id, e.gitMode(), fileStat{}))
		if protocol.Owned(path) {
			r.dirty.addBare(path)
		}
	}
	for _, e := range root {
		if err := f.only("", e, add); err != nil {
			return nil, err
		}
	}
	return v, nil
}

// find gives the entry of a path that is in no conflict.
func (v *indexView) find(name string) (indexEntry, bool, error) {
	added := v.over.added
	i := sort.Search(len(added), func(i int) bool { return string(added[i].name()) >= name })
	if i < len(added) && string(added[i].name()) == name {
		return added[i], added[i].stage() == 0, nil
	}
	pos, err := v.pages.search(name)
	if err != nil || pos == v.table.count {
		return nil, false, err
	}
	e, err := v.pages.entry(pos)
	if err != nil || string(e.name()) != name {
		return nil, false, err
	}
	if other, ok := v.over.at(pos); ok {
		e = other
	}
	return e, e != nil && e.stage() == 0, nil
}

// smudge clears the size of entries that are as young as the index that holds
// them, as git does: only that age told that their files may have changed
// within one tick of the clock, and the new index will be younger. Many a git
// counts seconds only.
func (v *indexView) smudge() error {
	written := seconds(v.info.ModTime)
	young := func(e indexEntry) bool {
		return e != nil && e.size() != 0 && e.mtime() != 0 && e.mtime() >= written
	}
	for i, e := range v.over.added {
		if young(e) {
			v.over.added[i] = unsized(e)
		}
	}
	for i, c := range v.over.changed {
		if young(c.entry) {
			v.over.changed[i].entry = unsized(c.entry)
		}
	}
	if v.table.newest < written || v.table.newest == 0 {
		return nil
	}
	x, err := newIndexReader(v.file, v.table.info.Size, false)
	if err != nil {
		return err
	}
	changed := v.over.changed
	for pos := range v.table.count {
		e, err := x.next()
		if err != nil {
			return err
		}
		if !young(e) {
			continue
		}
		if _, ok := v.over.at(pos); !ok {
			changed = append(changed, changedEntry{pos: uint32(pos), entry: unsized(e.renamed(nil, nil))})
		}
	}
	slices.SortFunc(changed, byPosition)
	v.over.changed = changed
	return nil
}

func unsized(e indexEntry) indexEntry {
	e = slices.Clone(e)
	binary.BigEndian.PutUint32(e[atSize:], 0)
	return e
}

// merged gives all entries of the index in order.
type merged struct {
	table   *indexReader // nil where the table is empty
	pos     uint32       // of the next one in it
	changed []changedEntry
	added   []indexEntry
	waiting indexEntry // of the table, not given yet
	space   []byte
}

func (v *indexView) entries() (*merged, error) {
	m := &merged{changed: v.over.changed, added: v.over.added}
	if v.table.count == 0 {
		return m, nil
	}
	var err error
	m.table, err = newIndexReader(v.file, v.table.info.Size, false)
	return m, err
}

// next gives the next entry, which is good until the one after it, and nil
// after the last.
func (m *merged) next() (indexEntry, error) {
	if m.waiting == nil {
		if err := m.advance(); err != nil {
			return nil, err
		}
	}
	order := 1 // the table's comes first
	if len(m.added) > 0 {
		order = -1
		if m.waiting != nil {
			order = inIndexOrder(m.added[0], m.waiting)
		}
	}
	switch e := m.waiting; {
	case order == 0:
		return nil, fmt.Errorf("%w: it holds an entry twice", errBadIndex)
	case order > 0:
		m.waiting = nil
		return e, nil
	}
	e := m.added[0]
	m.added = m.added[1:]
	return e, nil
}

// advance reads the next entry of the table that is not removed.
func (m *merged) advance() error {
	for m.table != nil {
		e, err := m.table.next()
		if err != nil {
			return err
		}
		if e == nil {
			m.table = nil
			break
		}
		m.pos++
		if len(m.changed) == 0 || m.changed[0].pos != m.pos-1 {
			m.waiting = e
			break
		}
		other := m.changed[0].entry
		m.changed = m.changed[1:]
		if other != nil {
			m.space = other.renamed(e.name(), m.space)
			m.waiting = m.space
			break
		}
	}
	return nil
}

// all visits every entry; it is good for as long as the visit.
func (v *indexView) all(visit func(indexEntry) error) error {
	m, err := v.entries()
	if err != nil {
		return err
	}
	for {
		e, err := m.next()
		if err != nil || e == nil {
			return err
		}
		if err := visit(e); err != nil {
			return err
		}
	}
}
