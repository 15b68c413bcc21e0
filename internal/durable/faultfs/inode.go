package faultfs

import (
	"io/fs"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/hived/hived/internal/durable"
)

// inode is a file or a directory, twice: as programs see it, and as it would
// be found after the power went.
type inode struct {
	ino          uint64
	mode         fs.FileMode
	links        uint64
	mtime, ctime time.Time

	data     []byte  // what programs see; of a link its target
	synced   []byte  // what is on the disk
	unsynced []patch // what leads from synced to data, oldest first
	writers  int     // open files that may write

	names   map[string]*inode // what programs see; nil unless a directory
	durable map[string]*inode // what is on the disk
}

// patch is one write at off, or where data is nil a truncation to off.
type patch struct {
	off  int64
	data []byte
}

func (p patch) apply(b []byte) []byte {
	end := p.off + int64(len(p.data))
	if grow := end - int64(len(b)); grow > 0 {
		b = append(b, make([]byte, grow)...)
	}
	if p.data == nil {
		return b[:p.off:p.off]
	}
	copy(b[p.off:], p.data)
	return b
}

// edit puts a file under a name in a directory, or takes the name away where
// node is nil.
type edit struct {
	dir  *inode
	base string
	node *inode
}

// change is what one operation does to names: all of it or nothing.
type change []edit

func (m *Mem) newInode(mode fs.FileMode) *inode {
	m.lastIno++
	now := m.clock()
	n := &inode{ino: m.lastIno, mode: mode, mtime: now, ctime: now}
	if mode.IsDir() {
		n.names, n.durable = map[string]*inode{}, map[string]*inode{}
	}
	return n
}

func (n *inode) info(name string) durable.Info {
	return durable.Info{
		Name:    name[strings.LastIndexByte(name, '/')+1:],
		Mode:    n.mode,
		Size:    int64(len(n.data)),
		ModTime: n.mtime,
		CTime:   n.ctime,
		Dev:     1,
		Ino:     n.ino,
		Links:   n.links,
	}
}

// patchLocked changes the contents of a file.
func (m *Mem) patchLocked(n *inode, p patch) {
	n.data = p.apply(n.data)
	n.unsynced = append(n.unsynced, p)
	n.mtime = m.clock()
	n.ctime = n.mtime
}

// setLocked changes names, in one step.
func (m *Mem) setLocked(edits ...edit) {
	now := m.clock()
	for _, e := range edits {
		if old := e.dir.names[e.base]; old != nil {
			old.links--
			old.ctime = now
		}
		if e.node == nil {
			delete(e.dir.names, e.base)
		} else {
			e.dir.names[e.base] = e.node
			e.node.links++
			e.node.ctime = now
		}
		e.dir.mtime, e.dir.ctime = now, now
	}
	m.pending = append(m.pending, edits)
}

// takeLocked takes out of the pending changes those of a directory, and all
// before them that touch a directory which these touch: a journal keeps order.
func (m *Mem) takeLocked(dir *inode) []change {
	touched := map[*inode]bool{dir: true}
	var taken, left []change
	for _, c := range slices.Backward(m.pending) {
		if !slices.ContainsFunc(c, func(e edit) bool { return touched[e.dir] }) {
			left = append(left, c)
			continue
		}
		taken = append(taken, c)
		for _, e := range c {
			touched[e.dir] = true
		}
	}
	slices.Reverse(taken)
	slices.Reverse(left)
	m.pending = left
	return taken
}

// commit makes changes of names durable.
func commit(changes []change) {
	for _, c := range changes {
		for _, e := range c {
			if e.node == nil {
				delete(e.dir.durable, e.base)
			} else {
				e.dir.durable[e.base] = e.node
			}
		}
	}
}

// save makes the contents durable.
func (n *inode) save() {
	for _, p := range n.unsynced {
		n.synced = p.apply(n.synced)
	}
	n.unsynced = nil
}

// walk visits everything below a directory, in name order, by what a directory
// holds: see liveNames and durableNames. A file with two names is visited twice.
func (n *inode) walk(holds func(*inode) map[string]*inode, visit func(*inode)) {
	visit(n)
	names := holds(n)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		names[name].walk(holds, visit)
	}
}

// liveNames is what a directory holds as programs see it, durableNames what a
// crash leaves of that.
func liveNames(n *inode) map[string]*inode    { return n.names }
func durableNames(n *inode) map[string]*inode { return n.durable }

// tearLocked lets a part of what was not synced reach the disk: of each
// directory a first part of its changes, of each file a first part of what was
// written to it, the last write of it in part.
func (m *Mem) tearLocked(seed uint64) {
	random := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // repeatable on purpose
	for _, dir := range m.changedDirsLocked() {
		all := m.pending
		cut := random.IntN(len(all) + 1)
		m.pending = all[:cut]
		commit(m.takeLocked(dir))
		m.pending = append(m.pending, all[cut:]...)
	}
	m.pending = nil
	m.root.walk(durableNames, func(n *inode) {
		if len(n.unsynced) == 0 {
			return
		}
		whole := random.IntN(len(n.unsynced) + 1)
		kept := slices.Clone(n.unsynced[:whole])
		if whole < len(n.unsynced) {
			if torn := n.unsynced[whole]; len(torn.data) > 0 {
				kept = append(kept, patch{torn.off, torn.data[:random.IntN(len(torn.data))]})
			}
		}
		n.unsynced = kept
		n.save()
	})
}

// changedDirsLocked lists the directories with pending changes, oldest first.
func (m *Mem) changedDirsLocked() []*inode {
	var dirs []*inode
	for _, c := range m.pending {
		for _, e := range c {
			if !slices.Contains(dirs, e.dir) {
				dirs = append(dirs, e.dir)
			}
		}
	}
	return dirs
}

// onDisk copies a tree as it is on the disk; the copy is seen so by programs
// too. Links of one file stay links of one.
func onDisk(n *inode, made map[*inode]*inode) *inode {
	if c := made[n]; c != nil {
		c.links++
		return c
	}
	c := &inode{ino: n.ino, mode: n.mode, links: 1, mtime: n.mtime, ctime: n.ctime, data: slices.Clone(n.synced), synced: slices.Clone(n.synced)}
	made[n] = c
	if n.names == nil {
		return c
	}
	c.names, c.durable = map[string]*inode{}, map[string]*inode{}
	for name, child := range n.durable {
		c.names[name] = onDisk(child, made)
	}
	maps.Copy(c.durable, c.names)
	return c
}

// twin copies a tree in both its forms. made holds the copies so far.
func twin(n *inode, made map[*inode]*inode) *inode {
	if c, done := made[n]; done {
		return c
	}
	c := *n
	made[n] = &c
	c.writers = 0
	c.data, c.synced, c.unsynced = slices.Clone(n.data), slices.Clone(n.synced), slices.Clone(n.unsynced)
	for _, names := range []*map[string]*inode{&c.names, &c.durable} {
		if *names = maps.Clone(*names); *names == nil {
			continue
		}
		for name, child := range *names {
			(*names)[name] = twin(child, made)
		}
	}
	return &c
}
