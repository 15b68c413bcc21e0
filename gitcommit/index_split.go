package gitcommit

import (
	"bytes"
	"crypto/sha1" //nolint:gosec // git names the shared index by SHA-1
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
)

// A split index is two files (gitformat-index): a shared index with the bulk of
// the entries, and .git/index, which holds the differences from it. A person's git
// may write it, and what they staged may be in either file. hived reads it and
// writes one file.

// sharedIndex is the prefix of the names of shared indexes; their checksum follows.
const sharedIndex = gitDir + "/sharedindex."

// overlay is how an index changes the entries of its shared index.
type overlay struct {
	changed []changedEntry // by position
	added   []indexEntry   // in order
}

// changedEntry replaces the entry at a position of the shared index by one without
// a name, or removes it.
type changedEntry struct {
	pos   uint32
	entry indexEntry // nil: removed
}

func byPosition(a, b changedEntry) int { return int(a.pos) - int(b.pos) }

// splitLink is the extension that makes an index a split one.
type splitLink struct {
	shared  protocol.Blob // checksum of the shared index, and its name
	bitmaps []byte
}

func parseLink(data []byte) (splitLink, error) {
	if len(data) < sha1.Size {
		return splitLink{}, errBadIndex
	}
	l := splitLink{shared: protocol.Blob(data[:sha1.Size]), bitmaps: data[sha1.Size:]}
	if l.shared.IsZero() && len(l.bitmaps) > 0 {
		for range 2 {
			var err error
			if _, l.bitmaps, err = readBitmap(l.bitmaps, 0); err != nil {
				return splitLink{}, err
			}
		}
	}
	return l, nil
}

// parseOverlay decodes how a split index, whose checksum was verified, changes a
// shared index of count entries.
func parseOverlay(data []byte, l splitLink, count int) (overlay, error) {
	x, err := newIndexReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return overlay{}, err
	}
	o, err := l.changes(count, x.left)
	if err != nil {
		return overlay{}, err
	}
	space := make([]byte, 0, len(data))
	next := func() (indexEntry, error) {
		e, err := x.next()
		space = append(space, e...)
		return space[len(space)-len(e):], err
	}
	for i, c := range o.changed {
		if c.entry == nil {
			continue
		}
		e, err := next()
		if err != nil {
			return overlay{}, err
		}
		if len(e.name()) > 0 {
			return overlay{}, errBadIndex
		}
		o.changed[i].entry = e
	}
	o.added = make([]indexEntry, 0, x.left)
	for x.left > 0 {
		e, err := next()
		if err != nil {
			return overlay{}, err
		}
		if n := len(o.added); len(e.name()) == 0 || n > 0 && inIndexOrder(o.added[n-1], e) >= 0 {
			return overlay{}, errBadIndex
		}
		o.added = append(o.added, e)
	}
	return o, nil
}

// changes returns the positions that differ from the shared index; those that are
// replaced, at most most, hold an empty entry for now.
func (l splitLink) changes(count, most int) (overlay, error) {
	if len(l.bitmaps) == 0 {
		return overlay{}, nil
	}
	removed, rest, err := readBitmap(l.bitmaps, count)
	if err != nil {
		return overlay{}, err
	}
	replaced, rest, err := readBitmap(rest, count)
	if err != nil || len(rest) > 0 || len(replaced) > most {
		return overlay{}, errBadIndex
	}
	o := overlay{changed: make([]changedEntry, 0, len(removed)+len(replaced))}
	for _, pos := range removed {
		o.changed = append(o.changed, changedEntry{pos: pos})
	}
	for _, pos := range replaced {
		o.changed = append(o.changed, changedEntry{pos: pos, entry: indexEntry{}})
	}
	slices.SortFunc(o.changed, byPosition)
	for i := range len(o.changed) - 1 {
		if o.changed[i].pos == o.changed[i+1].pos {
			return overlay{}, errBadIndex
		}
	}
	return o, nil
}

// openShared turns the view of a split index into one of all its entries: those of
// the shared index, with the changes of .git/index.
func (r *Repo) openShared(v *indexView) error {
	data := make([]byte, v.size)
	if n, err := v.file.ReadAt(data, 0); n < len(data) {
		return errors.Join(errBadIndex, err)
	}
	name := sharedIndex + v.link.shared.String()
	f, err := r.disk.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		if now, err := r.disk.Lstat(indexFile); err == nil && !sameIndex(now, v.info) {
			return errRaced // who replaced the index may have removed it
		}
		return fmt.Errorf("%w: %s is missing", errBadIndex, name)
	}
	if err != nil {
		return err
	}
	v.over, v.size, err = readShared(f, name, data, *v.link)
	if err != nil {
		return errors.Join(err, f.Close())
	}
	index := v.file
	v.file = f
	return index.Close()
}

// readShared reads a shared index whole, and how an index changes it. It returns
// the size of the shared index too.
func readShared(f durable.File, name string, index []byte, l splitLink) (overlay, int64, error) {
	info, err := f.Stat()
	if err != nil {
		return overlay{}, 0, err
	}
	found, err := scanIndex(f, info.Size)
	if err != nil {
		return overlay{}, 0, err
	}
	if found.sum != l.shared || !found.sorted || found.link != nil {
		return overlay{}, 0, fmt.Errorf("%w: %s is not what it refers to", errBadIndex, name)
	}
	over, err := parseOverlay(index, l, found.count)
	return over, info.Size, err
}

// mergedEntries iterates over the entries of a shared index with an overlay applied.
type mergedEntries struct {
	shared  *indexReader // nil after its last one
	pos     uint32       // of its next entry
	changed []changedEntry
	added   []indexEntry
	pending indexEntry // of the shared index, not returned yet
	space   []byte
}

func (m *mergedEntries) next() (indexEntry, error) {
	if m.pending == nil {
		if err := m.advance(); err != nil {
			return nil, err
		}
	}
	order := 1 // the shared one comes first
	if len(m.added) > 0 {
		order = -1
		if m.pending != nil {
			order = inIndexOrder(m.added[0], m.pending)
		}
	}
	switch e := m.pending; {
	case order == 0:
		return nil, fmt.Errorf("%w: it holds an entry twice", errBadIndex)
	case order > 0:
		m.pending = nil
		return e, nil
	}
	e := m.added[0]
	m.added = m.added[1:]
	return e, nil
}

// advance reads the next entry of the shared index that is not removed.
func (m *mergedEntries) advance() error {
	for m.shared != nil {
		e, err := m.shared.next()
		if err != nil {
			return err
		}
		if e == nil {
			m.shared = nil
			break
		}
		m.pos++
		if len(m.changed) == 0 || m.changed[0].pos != m.pos-1 {
			m.pending = e
			break
		}
		other := m.changed[0].entry
		m.changed = m.changed[1:]
		if other != nil {
			m.space = other.renamed(e.name(), m.space)
			m.pending = m.space
			break
		}
	}
	return nil
}
