package gitcommit

import (
	"bytes"
	"io"
	"slices"

	"github.com/hived/hived/protocol"
)

// Bounds of what a merge knows of directories.
const (
	mostVersions  = 1 << 15  // directories whose newest version is known
	mostLooks     = 4096     // trees of one commit that are looked at
	mostTree      = 2 << 20  // bytes of a tree that is compared
	versionsCache = 16 << 20 // bytes of trees in memory
)

// treeVersions knows the versions of directories in the packs that a merge has
// come past. A directory that gains an entry with every commit would otherwise
// be stored whole each time.
type treeVersions struct {
	byPath map[string]*lineage
	cache  *objectCache
	delta  deltaMaker
	looks  int
}

// lineage is what is known of one directory.
type lineage struct {
	newest version
	first  version // of the chain that the newest one ends
}

// version is a tree object and where it can be read.
type version struct {
	src *source
	at  int
}

func (v version) id() protocol.Blob { return protocol.Blob(v.src.idx.name(v.at)) }
func (v version) rank() uint32      { return v.src.ranks[v.at] }

// difference stands for an object that a source holds whole.
type difference struct {
	base  protocol.Blob
	data  []byte
	depth uint8
}

func newTreeVersions() *treeVersions {
	return &treeVersions{byPath: make(map[string]*lineage), cache: newObjectCache(versionsCache)}
}

// versions walks the trees that the last commit of a source brought and gives,
// by the place in its index, the differences to store instead of them.
func (m *merge) versions(f io.ReaderAt, src *source) (map[int]*difference, error) {
	out := make(map[int]*difference)
	if src.tree.IsZero() {
		return out, nil
	}
	m.trees.looks = 0
	return out, m.look(f, src, "", src.tree, out)
}

// look compares one directory with the version before, and goes on below it.
func (m *merge) look(f io.ReaderAt, src *source, path string, id protocol.Blob, out map[int]*difference) error {
	t := m.trees
	at, ok := src.idx.place(id)
	if !ok || t.looks == mostLooks {
		return nil // it came with another pack
	}
	t.looks++
	now := version{src, at}
	data, err := m.data(f, now)
	if err != nil || len(data) > mostTree {
		return err
	}
	entries, err := decodeTree(data)
	if err != nil {
		return err
	}
	known := t.byPath[path]
	if known == nil {
		known = &lineage{newest: now, first: now}
		if len(t.byPath) < mostVersions {
			t.byPath[path] = known
		}
	} else if err := m.compare(f, known, now, data, out); err != nil {
		return err
	}
	for _, e := range entries {
		if e.sub == nil {
			continue
		}
		if err := m.look(f, src, path+e.name+"/", e.sub.id, out); err != nil {
			return err
		}
	}
	return nil
}

// compare makes a difference from the newest version, or from the first one of
// its chain where that has become too long.
func (m *merge) compare(f io.ReaderAt, known *lineage, now version, data []byte, out map[int]*difference) error {
	plain, err := m.plain(f, now)
	if err != nil {
		return err
	}
	begins := true
	for _, base := range []version{known.newest, known.first} {
		depth := m.depth[base.rank()]
		if !plain || depth >= mostDepth || base.rank() == now.rank() || out[now.at] != nil {
			continue // notYet is more than mostDepth
		}
		was, err := m.data(nil, base)
		if err != nil {
			return err
		}
		m.trees.delta.index(was)
		if d := m.trees.delta.from(data, len(data)/2); d != nil {
			out[now.at] = &difference{base.id(), bytes.Clone(d), depth + 1}
			begins = false
			break
		}
	}
	known.newest = now
	if begins {
		known.first = now
	}
	return nil
}

// plain tells whether a tree is stored whole and not written yet.
func (m *merge) plain(f io.ReaderAt, v version) (bool, error) {
	var b [1]byte
	if m.depth[v.rank()] != notYet {
		return false, nil
	}
	_, err := f.ReadAt(b[:], v.src.idx.entry(v.at).offset)
	return kind(b[0]>>4&7) == kindTree, err
}

// data gives the bytes of a tree, from f if it is the pack of that version.
func (m *merge) data(f io.ReaderAt, v version) ([]byte, error) {
	if _, data, ok := m.trees.cache.get(v.id()); ok {
		return data, nil
	}
	var k kind
	var data []byte
	var err error
	if f != nil {
		k, data, err = m.readFrom(f, v.src, v.at)
	} else {
		k, data, err = m.read(v.src, v.at)
	}
	if err == nil && k != kindTree {
		err = errBadTree
	}
	if err != nil {
		return nil, err
	}
	m.trees.cache.add(v.id(), k, slices.Clip(data))
	return data, nil
}
