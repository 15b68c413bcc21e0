package gitcommit

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/hived/hived/protocol"
)

// Bounds of what a merge remembers of directories and files.
const (
	mostVersions      = 1 << 15  // directories whose newest version is known
	mostTreesCompared = 4096     // trees of one commit that are compared
	mostTree          = 2 << 20  // bytes of a tree that is compared
	leastFile         = 8 << 10  // bytes of a file that is worth it
	mostHeld          = 16 << 20 // bytes of differences of one commit, beyond which files stay as they are
	versionsCache     = 16 << 20 // bytes of trees in memory
)

// treeVersions remembers the versions of directories, and of large files, in the
// packs that a merge has passed. A directory that gains an entry with every commit,
// and a checkpoint that is patched, would otherwise be stored whole each time.
type treeVersions struct {
	byPath map[string]*lineage
	cache  *objectCache
	delta  deltaMaker
	trees  int
	held   int // bytes of differences of the current commit
}

// lineage is the known versions of one directory or file.
type lineage struct {
	newest version
	first  version // of the chain that ends at the newest
}

// version is an object and its position in a source.
type version struct {
	src  *source
	at   int
	kind kind // tree or blob
}

func (v version) id() protocol.Blob { return protocol.Blob(v.src.idx.name(v.at)) }
func (v version) rank() uint32      { return v.src.ranks[v.at] }

// difference replaces an object that a source holds whole.
type difference struct {
	base  protocol.Blob
	data  []byte
	depth uint8
}

func newTreeVersions() *treeVersions {
	return &treeVersions{byPath: make(map[string]*lineage), cache: newObjectCache(versionsCache)}
}

// versions walks the trees that the last commit of a source brought and returns,
// by position in its index, the differences to store instead of objects.
func (m *merge) versions(f io.ReaderAt, src *source) (map[int]*difference, error) {
	out := make(map[int]*difference)
	if src.tree.IsZero() {
		return out, nil
	}
	m.trees.trees, m.trees.held = 0, 0
	return out, m.compareTree(f, src, "", src.tree, out)
}

// compareTree compares one directory with its previous version, and descends.
func (m *merge) compareTree(f io.ReaderAt, src *source, path string, id protocol.Blob, out map[int]*difference) error {
	t := m.trees
	at, ok := src.idx.search(id)
	if !ok || t.trees == mostTreesCompared {
		return nil // it came with another pack
	}
	t.trees++
	now := version{src, at, kindTree}
	data, err := m.data(f, now)
	if err != nil || len(data) > mostTree {
		return err
	}
	entries, err := decodeTree(data)
	if err != nil {
		return err
	}
	if err := m.recordVersion(f, path, now, data, out); err != nil {
		return err
	}
	for _, e := range entries {
		if e.sub == nil {
			if err := m.compareFile(f, src, path+e.name, e.id, out); err != nil {
				return err
			}
			continue
		}
		if err := m.compareTree(f, src, path+e.name+"/", e.sub.id, out); err != nil {
			return err
		}
	}
	return nil
}

// compareFile compares a large file with its previous version. Messages and segments
// of the log have only one version.
func (m *merge) compareFile(f io.ReaderAt, src *source, path string, id protocol.Blob, out map[int]*difference) error {
	if !hasVersions(path) || m.trees.held > mostHeld {
		return nil
	}
	at, ok := src.idx.search(id)
	if !ok {
		return nil // it came with another pack
	}
	now := version{src, at, kindBlob}
	whole, size, err := m.isWhole(f, now)
	if err != nil || !whole || size < leastFile || size > mostCompared {
		return err
	}
	data, err := m.data(f, now)
	if err != nil {
		return err
	}
	return m.recordVersion(f, path, now, data, out)
}

// hasVersions reports whether a file may change after it was written.
func hasVersions(path string) bool {
	if strings.HasPrefix(path, protocol.PathSegments+"/") {
		return false
	}
	parts := strings.SplitN(path, "/", 4)
	return parts[0] != "agents" || len(parts) < 4 || parts[2] != "inbox" && parts[2] != "outbox"
}

// recordVersion compares a version with the previous one of its path, if there is
// one; the path of a directory ends with a slash.
func (m *merge) recordVersion(f io.ReaderAt, path string, now version, data []byte, out map[int]*difference) error {
	t := m.trees
	known := t.byPath[path]
	if known == nil {
		if len(t.byPath) < mostVersions {
			t.byPath[path] = &lineage{newest: now, first: now}
		}
		return nil
	}
	return m.addDifference(f, known, now, data, out)
}

// addDifference makes a difference from the newest version, or from the first of its
// chain where that has become too long.
func (m *merge) addDifference(f io.ReaderAt, known *lineage, now version, data []byte, out map[int]*difference) error {
	whole, _, err := m.isWhole(f, now)
	if err != nil {
		return err
	}
	begins := true
	for _, base := range []version{known.newest, known.first} {
		depth := m.depth[base.rank()]
		if !whole || depth >= mostDepth || base.rank() == now.rank() || out[now.at] != nil {
			continue // notYet is more than mostDepth
		}
		was, err := m.data(nil, base)
		if err != nil {
			return err
		}
		m.trees.delta.index(was)
		if d := m.trees.delta.from(data, len(data)/2); d != nil {
			out[now.at] = &difference{base.id(), bytes.Clone(d), depth + 1}
			m.trees.held += len(d)
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

// isWhole reports whether an object is stored whole and not written yet, and its size.
func (m *merge) isWhole(f io.ReaderAt, v version) (whole bool, size int64, err error) {
	if m.depth[v.rank()] != notYet {
		return false, 0, nil
	}
	var b [mostHead]byte
	n, err := f.ReadAt(b[:], v.src.idx.entry(v.at).offset)
	if err != nil && !errors.Is(err, io.EOF) {
		return false, 0, err
	}
	k, size, used := readHead(b[:n])
	if used == 0 {
		return false, 0, errBadPack
	}
	return k == v.kind, size, nil
}

// data returns the bytes of a version, from f if it is the pack of that version.
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
	if err == nil && k != v.kind {
		err = errBadTree
	}
	if err != nil {
		return nil, err
	}
	m.trees.cache.add(v.id(), k, slices.Clip(data))
	return data, nil
}
