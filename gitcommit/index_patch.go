package gitcommit

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"
	"strings"
)

// patch is the new entry of one path; a nil entry removes it.
type patch struct {
	name  string
	entry indexEntry
}

// patchedEntries iterates over the entries of an index with patches applied. A
// path that is added replaces what cannot exist beside it: its other stages, what
// is below it, and a file where it needs a directory.
type patchedEntries struct {
	old     indexEntries
	pending indexEntry // of old, not returned yet
	written uint32     // when the old index was written, in seconds
	gone    []nameRange
	added   []indexEntry
	space   []byte
}

// nameRange is one name, or all names below it as a directory. It has no text of its own,
// because there are two for each message.
type nameRange struct {
	name  string
	below bool
}

// compare orders ranges by the first name that they may hold.
func (g nameRange) compare(o nameRange) int {
	n := min(len(g.name), len(o.name))
	if c := strings.Compare(g.name[:n], o.name[:n]); c != 0 {
		return c
	}
	return cmp.Or(cmp.Compare(g.at(n), o.at(n)), cmp.Compare(g.len(), o.len()))
}

// at returns the byte at an index of the text that the names of the range begin with; -1
// behind its end.
func (g nameRange) at(i int) int {
	switch {
	case i < len(g.name):
		return int(g.name[i])
	case i == len(g.name) && g.below:
		return '/'
	}
	return -1
}

func (g nameRange) len() int {
	if g.below {
		return len(g.name) + 1
	}
	return len(g.name)
}

// covers reports whether all names of another range are in this one.
func (g nameRange) covers(o nameRange) bool {
	n := len(g.name)
	return g == o || g.below && len(o.name) > n && o.name[n] == '/' && o.name[:n] == g.name
}

// side returns whether a name comes before the range (-1), is in it (0), or comes behind
// it (1).
func (g nameRange) side(name []byte) int {
	n := len(g.name)
	if !g.below || len(name) <= n {
		c := strings.Compare(string(name), g.name)
		if c == 0 && g.below {
			return -1
		}
		return c
	}
	return cmp.Or(strings.Compare(string(name[:n]), g.name), cmp.Compare(name[n], '/'))
}

// patched returns the entries of the index with patches applied, sorted by name.
func (v *indexView) patched(patches []patch) (*patchedEntries, error) {
	old, err := v.entries()
	if err != nil {
		return nil, err
	}
	p := &patchedEntries{old: old, written: seconds(v.info.ModTime), gone: replacedBy(patches)}
	for _, c := range patches {
		if c.entry != nil {
			p.added = append(p.added, c.entry)
		}
	}
	return p, nil
}

// replacedBy returns the names whose entries the patches remove or replace, as sorted
// ranges that do not overlap.
func replacedBy(patches []patch) []nameRange {
	all := make([]nameRange, 0, 2*len(patches))
	dirs := make(map[string]bool)
	for _, c := range patches {
		all = append(all, nameRange{name: c.name})
		if c.entry == nil {
			continue
		}
		all = append(all, nameRange{c.name, true})
		for d := parentOf(c.name); d != "" && !dirs[d]; d = parentOf(d) {
			dirs[d] = true
			all = append(all, nameRange{name: d})
		}
	}
	slices.SortFunc(all, nameRange.compare)
	out := all[:0]
	for _, g := range all {
		if n := len(out); n == 0 || !out[n-1].covers(g) {
			out = append(out, g)
		}
	}
	return out
}

func parentOf(name string) string {
	return name[:max(strings.LastIndexByte(name, '/'), 0)]
}

func (p *patchedEntries) next() (indexEntry, error) {
	if p.pending == nil {
		if err := p.advance(); err != nil {
			return nil, err
		}
	}
	if len(p.added) > 0 && (p.pending == nil || bytes.Compare(p.added[0].name(), p.pending.name()) < 0) {
		e := p.added[0]
		p.added = p.added[1:]
		return e, nil
	}
	e := p.pending
	p.pending = nil
	if e != nil && e.size() != 0 && e.mtime() != 0 && e.mtime() >= p.written {
		return p.smudged(e), nil
	}
	return e, nil
}

// advance reads the next entry that no patch removes.
func (p *patchedEntries) advance() error {
	for p.old != nil {
		e, err := p.old.next()
		if err != nil {
			return err
		}
		if e == nil {
			p.old = nil
			break
		}
		name := e.name()
		for len(p.gone) > 0 && p.gone[0].side(name) > 0 {
			p.gone = p.gone[1:]
		}
		if len(p.gone) == 0 || p.gone[0].side(name) < 0 {
			p.pending = e
			break
		}
	}
	return nil
}

// smudged clears the size of an entry that is as young as the index that holds
// it, as git does: only that age shows that its file may have changed within one
// tick of the clock, and the new index will be younger. Some builds of git count
// seconds only.
func (p *patchedEntries) smudged(e indexEntry) indexEntry {
	p.space = append(p.space[:0], e...)
	binary.BigEndian.PutUint32(p.space[atSize:], 0)
	return p.space
}
