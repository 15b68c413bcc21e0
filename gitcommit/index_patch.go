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

// nameRange is the names that are at least from and less than to.
type nameRange struct{ from, to string }

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
	var all []nameRange
	only := func(name string) { all = append(all, nameRange{name, name + "\x00"}) }
	dirs := make(map[string]bool)
	for _, c := range patches {
		only(c.name)
		if c.entry == nil {
			continue
		}
		all = append(all, nameRange{c.name + "/", c.name + string('/'+1)})
		for d := parentOf(c.name); d != "" && !dirs[d]; d = parentOf(d) {
			dirs[d] = true
			only(d)
		}
	}
	slices.SortFunc(all, func(a, b nameRange) int { return cmp.Compare(a.from, b.from) })
	out := all[:0]
	for _, g := range all {
		if n := len(out); n > 0 && g.from <= out[n-1].to {
			out[n-1].to = max(out[n-1].to, g.to)
			continue
		}
		out = append(out, g)
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
		for len(p.gone) > 0 && p.gone[0].to <= string(name) {
			p.gone = p.gone[1:]
		}
		if len(p.gone) == 0 || string(name) < p.gone[0].from {
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
