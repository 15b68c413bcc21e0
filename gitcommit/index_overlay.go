package gitcommit

import (
	"bytes"
	"crypto/sha1" //nolint:gosec // git names the shared index by SHA-1
	"encoding/binary"
	"maps"
	"slices"
	"sort"
	"strings"

	"github.com/hived/hived/protocol"
)

// overlay is what an index changes in the entries of a table.
type overlay struct {
	changed []changedEntry // by position
	added   []indexEntry   // in order
}

// changedEntry is what stands at a position of the table instead: an entry
// without a name, or nothing.
type changedEntry struct {
	pos   uint32
	entry indexEntry // nil: removed
}

func byPosition(a, b changedEntry) int { return int(a.pos) - int(b.pos) }

func (o *overlay) len() int { return len(o.changed) + len(o.added) }

// count gives how many entries there are with those of the table.
func (o *overlay) count(table int) int {
	n := table + len(o.added)
	for _, c := range o.changed {
		if c.entry == nil {
			n--
		}
	}
	return n
}

// at gives what stands at a position instead.
func (o *overlay) at(pos int) (indexEntry, bool) {
	i, ok := slices.BinarySearchFunc(o.changed, pos, func(c changedEntry, pos int) int { return int(c.pos) - pos })
	if !ok {
		return nil, false
	}
	return o.changed[i].entry, true
}

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

// parseOverlay reads what a split index, whose checksum is known to be right,
// changes in a shared index of so many entries.
func parseOverlay(data []byte, l splitLink, count int) (*overlay, error) {
	x, err := newIndexReader(bytes.NewReader(data), int64(len(data)), false)
	if err != nil {
		return nil, err
	}
	o, err := l.changes(count, x.left)
	if err != nil {
		return nil, err
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
			return nil, err
		}
		if len(e.name()) > 0 {
			return nil, errBadIndex
		}
		o.changed[i].entry = e
	}
	o.added = make([]indexEntry, 0, x.left)
	for x.left > 0 {
		e, err := next()
		if err != nil {
			return nil, err
		}
		if n := len(o.added); len(e.name()) == 0 || n > 0 && inIndexOrder(o.added[n-1], e) >= 0 {
			return nil, errBadIndex
		}
		o.added = append(o.added, e)
	}
	return o, nil
}

// changes gives the positions that are not as the shared index has them; those
// that are replaced, at most so many, hold an empty entry yet.
func (l splitLink) changes(count, most int) (*overlay, error) {
	if len(l.bitmaps) == 0 {
		return &overlay{}, nil
	}
	removed, rest, err := readBitmap(l.bitmaps, count)
	if err != nil {
		return nil, err
	}
	replaced, rest, err := readBitmap(rest, count)
	if err != nil || len(rest) > 0 || len(replaced) > most {
		return nil, errBadIndex
	}
	o := &overlay{changed: make([]changedEntry, 0, len(removed)+len(replaced))}
	for _, pos := range removed {
		o.changed = append(o.changed, changedEntry{pos: pos})
	}
	for _, pos := range replaced {
		o.changed = append(o.changed, changedEntry{pos: pos, entry: indexEntry{}})
	}
	slices.SortFunc(o.changed, byPosition)
	for i := range len(o.changed) - 1 {
		if o.changed[i].pos == o.changed[i+1].pos {
			return nil, errBadIndex
		}
	}
	return o, nil
}

// appendLink writes the extension for an overlay over a shared index.
func (o *overlay) appendLink(out []byte, shared protocol.Blob) []byte {
	var removed, replaced []uint32
	for _, c := range o.changed {
		if c.entry == nil {
			removed = append(removed, c.pos)
		} else {
			replaced = append(replaced, c.pos)
		}
	}
	start := len(out)
	out = append(out, "link\x00\x00\x00\x00"...)
	out = append(out, shared[:]...)
	out = appendBitmap(out, removed)
	out = appendBitmap(out, replaced)
	binary.BigEndian.PutUint32(out[start+4:], uint32(len(out)-start-8)) //nolint:gosec // bounded by the entries
	return out
}

// patch is what an index is to hold for one path; a nil entry removes it.
type patch struct {
	name  string
	entry indexEntry
}

// patcher merges patches into an overlay.
type patcher struct {
	pages   *indexPages
	over    *overlay
	changed map[int]indexEntry
	dropped map[int]bool // positions in over.added
	added   []indexEntry
}

// apply merges patches, sorted by name, into the overlay. A path that comes
// takes the place of what cannot stand beside it: its other stages, what is
// below it, and the file whose directory it now needs.
func (o *overlay) apply(pages *indexPages, patches []patch) error {
	p := &patcher{pages: pages, over: o, changed: make(map[int]indexEntry), dropped: make(map[int]bool)}
	dirs := make(map[string]bool)
	for _, c := range patches {
		if err := p.put(c); err != nil {
			return err
		}
		if c.entry == nil {
			continue
		}
		for d := parentOf(c.name); d != "" && !dirs[d]; d = parentOf(d) {
			dirs[d] = true
			if err := p.put(patch{name: d}); err != nil {
				return err
			}
		}
	}
	p.merge()
	return nil
}

// put notes one patch.
func (p *patcher) put(c patch) error {
	p.drop(c.name, c.name+"\x00")
	from, to, err := p.pages.named(c.name)
	if err != nil {
		return err
	}
	at := -1
	if c.entry != nil && to == from+1 {
		old, err := p.pages.entry(from)
		if err != nil {
			return err
		}
		if old.stage() == 0 {
			at = from
		}
	}
	for pos := from; pos < to; pos++ {
		p.changed[pos] = nil
	}
	switch {
	case c.entry == nil:
		return nil
	case at >= 0:
		p.changed[at] = c.entry.renamed(nil, nil)
	default:
		p.added = append(p.added, c.entry)
	}
	p.drop(c.name+"/", c.name+string('/'+1))
	from, to, err = p.pages.below(c.name)
	for pos := from; pos < to; pos++ {
		p.changed[pos] = nil
	}
	return err
}

// drop takes away the added entries from one name up to another.
func (p *patcher) drop(from, to string) {
	added := p.over.added
	i := sort.Search(len(added), func(i int) bool { return string(added[i].name()) >= from })
	for ; i < len(added) && string(added[i].name()) < to; i++ {
		p.dropped[i] = true
	}
}

func (p *patcher) merge() {
	o := p.over
	changed := make([]changedEntry, 0, len(o.changed)+len(p.changed))
	for _, c := range o.changed {
		if _, ok := p.changed[int(c.pos)]; !ok {
			changed = append(changed, c)
		}
	}
	for _, pos := range slices.Sorted(maps.Keys(p.changed)) {
		changed = append(changed, changedEntry{pos: uint32(pos), entry: p.changed[pos]}) //nolint:gosec // below the count
	}
	slices.SortFunc(changed, byPosition)
	added := make([]indexEntry, 0, len(o.added)+len(p.added))
	for i, e := range o.added {
		if !p.dropped[i] {
			added = append(added, e)
		}
	}
	added = append(added, p.added...)
	slices.SortFunc(added, inIndexOrder)
	o.changed, o.added = changed, added
}

func parentOf(name string) string {
	return name[:max(strings.LastIndexByte(name, '/'), 0)]
}
