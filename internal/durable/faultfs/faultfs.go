// Package faultfs is a disk in memory behind [durable.FS] that can crash, fail,
// lie and fill up. It promises to be no kinder than a real disk may be:
//
//   - contents are durable after File.Sync or SyncAll, names after SyncDir of
//     their directory or SyncAll. One says nothing about the other, so a file
//     whose name was synced and whose data was not comes back empty;
//   - a rename is one step: a sync of either directory makes both sides durable,
//     together with what happened before it in these directories;
//   - a directory is found again only if its own name is durable;
//   - what a failed sync should have saved is lost, and no later sync saves it.
//
// Faults are planned with CrashAt, FailAt, ShortWrite and Capacity, counted in
// mutating operations: those of [Op]. Permissions are kept and not enforced.
// It leaves to others what the files mean, and any real input and output.
package faultfs

import (
	"errors"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hived/hived/internal/durable"
)

// ErrCrashed is the error of every call after the crash.
var ErrCrashed = errors.New("the disk has crashed")

// Op is the name of a mutating operation. Making a missing file by Append is a
// create, MkdirAll is one mkdir for each directory that it makes, and RenameNew
// is a rename.
type Op string

// The mutating operations.
const (
	OpCreate   Op = "create"
	OpWrite    Op = "write"
	OpTruncate Op = "truncate"
	OpSync     Op = "sync"
	OpRename   Op = "rename"
	OpLink     Op = "link"
	OpRemove   Op = "remove"
	OpMkdir    Op = "mkdir"
	OpSyncDir  Op = "syncdir"
	OpSyncAll  Op = "syncall"
)

// Filter chooses operations: name is the name that the operation is about, of
// a rename or link the new one, of a file the one that it was opened by.
type Filter func(op Op, name string) bool

// Mem is the disk. It may be used by many goroutines at once.
type Mem struct {
	mu      sync.Mutex // guards everything below, inodes and open files too
	root    *inode
	lastIno uint64
	clock   func() time.Time
	pending []change // names that are not durable, oldest first
	limit   int64    // bytes in all files; < 0 for none
	syncErr error    // the first failed sync of a directory or of everything

	ops     int
	crashIn int // operations up to the crash; 0 for none planned
	loss    Loss
	crashed bool
	faults  []*fault
}

// New returns an empty disk without faults.
func New() *Mem {
	m := &Mem{clock: time.Now, limit: -1, loss: Drop}
	m.root = m.newInode(fs.ModeDir | 0o755)
	m.root.links = 1
	return m
}

// SetClock sets where modification times come from; it is time.Now at first.
func (m *Mem) SetClock(now func() time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.clock = now
}

// Open implements FS.
func (m *Mem) Open(name string) (durable.File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	node, err := m.regularLocked(name)
	if err != nil {
		return nil, durable.PathError("open", name, err)
	}
	return m.openLocked(node, name, reading), nil
}

// Create implements FS.
func (m *Mem) Create(name string, perm fs.FileMode) (durable.File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	node, err := m.addLocked(OpCreate, name, perm.Perm())
	if err != nil {
		return nil, durable.PathError("create", name, err)
	}
	return m.openLocked(node, name, writing), nil
}

// Append implements FS.
func (m *Mem) Append(name string) (durable.File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	node, err := m.regularLocked(name)
	if errors.Is(err, fs.ErrNotExist) {
		node, err = m.addLocked(OpCreate, name, 0o644)
	}
	if err != nil {
		return nil, durable.PathError("append", name, err)
	}
	return m.openLocked(node, name, appending), nil
}

// Lstat implements FS.
func (m *Mem) Lstat(name string) (durable.Info, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	node, err := m.findLocked(name)
	if err != nil {
		return durable.Info{}, durable.PathError("lstat", name, err)
	}
	return node.info(name), nil
}

// ReadDir implements FS.
func (m *Mem) ReadDir(name string) ([]durable.Entry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	dir, err := m.dirLocked(name)
	if err != nil {
		return nil, durable.PathError("readdir", name, err)
	}
	list := make([]durable.Entry, 0, len(dir.names))
	for _, n := range slices.Sorted(maps.Keys(dir.names)) {
		list = append(list, durable.Entry{Name: n, Type: dir.names[n].mode.Type()})
	}
	return list, nil
}

// Mkdir implements FS.
func (m *Mem) Mkdir(name string, perm fs.FileMode) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, err := m.addLocked(OpMkdir, name, fs.ModeDir|perm.Perm()); err != nil {
		return durable.PathError("mkdir", name, err)
	}
	return nil
}

// MkdirAll implements FS.
func (m *Mem) MkdirAll(name string, perm fs.FileMode) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !durable.ValidName(name) {
		return durable.PathError("mkdir", name, durable.ErrName)
	}
	for i := 0; i <= len(name); i++ {
		if i < len(name) && name[i] != '/' {
			continue
		}
		_, err := m.dirLocked(name[:i])
		if errors.Is(err, fs.ErrNotExist) {
			_, err = m.addLocked(OpMkdir, name[:i], fs.ModeDir|perm.Perm())
		}
		if err != nil {
			return durable.PathError("mkdir", name[:i], err)
		}
	}
	return nil
}

// Rename implements FS.
func (m *Mem) Rename(from, to string) error {
	return m.moved("rename", from, to, m.renameLocked)
}

// RenameNew implements FS.
func (m *Mem) RenameNew(from, to string) error {
	return m.moved("rename", from, to, func(from, to string) error {
		if _, err := m.findLocked(from); err != nil {
			return err
		}
		if _, err := m.findLocked(to); err == nil {
			return fs.ErrExist
		}
		return m.renameLocked(from, to)
	})
}

// Link implements FS.
func (m *Mem) Link(from, to string) error {
	return m.moved("link", from, to, m.linkLocked)
}

func (m *Mem) moved(op, from, to string, do func(from, to string) error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := do(from, to); err != nil {
		return durable.PathError(op, from+" -> "+to, err)
	}
	return nil
}

func (m *Mem) renameLocked(from, to string) error {
	oldDir, oldBase, err := m.parentLocked(from)
	if err != nil {
		return err
	}
	newDir, newBase, err := m.parentLocked(to)
	if err != nil {
		return err
	}
	node, target := oldDir.names[oldBase], newDir.names[newBase]
	switch {
	case node == nil:
		return fs.ErrNotExist
	case node == target:
		return nil
	case node.names != nil && strings.HasPrefix(to, from+"/"):
		return syscall.EINVAL
	case target == nil:
	case target.names == nil && node.names != nil:
		return syscall.ENOTDIR
	case target.names != nil && node.names == nil:
		return syscall.EISDIR
	case len(target.names) > 0:
		return syscall.ENOTEMPTY
	}
	return m.doLocked(OpRename, to, func() {
		m.setLocked(edit{newDir, newBase, node}, edit{oldDir, oldBase, nil})
	})
}

func (m *Mem) linkLocked(from, to string) error {
	node, err := m.findLocked(from)
	if err != nil {
		return err
	}
	dir, base, err := m.parentLocked(to)
	switch {
	case err != nil:
		return err
	case dir.names[base] != nil:
		return fs.ErrExist
	case node.names != nil:
		return syscall.EPERM
	}
	return m.doLocked(OpLink, to, func() { m.setLocked(edit{dir, base, node}) })
}

// Remove implements FS.
func (m *Mem) Remove(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	dir, base, err := m.parentLocked(name)
	if err == nil {
		node := dir.names[base]
		switch {
		case base == ".":
			err = syscall.EINVAL
		case node == nil:
			err = fs.ErrNotExist
		case len(node.names) > 0:
			err = syscall.ENOTEMPTY
		default:
			err = m.doLocked(OpRemove, name, func() { m.setLocked(edit{dir, base, nil}) })
		}
	}
	if err != nil {
		return durable.PathError("remove", name, err)
	}
	return nil
}

// Symlink plants a symbolic link, at once durable and not counted.
func (m *Mem) Symlink(name, target string) error {
	return m.plant(name, fs.ModeSymlink|0o777, target)
}

// Special plants a FIFO, device or socket, at once durable and not counted.
func (m *Mem) Special(name string, mode fs.FileMode) error {
	return m.plant(name, mode, "")
}

func (m *Mem) plant(name string, mode fs.FileMode, data string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	dir, base, err := m.parentLocked(name)
	switch {
	case err != nil:
		return durable.PathError("plant", name, err)
	case dir.names[base] != nil:
		return durable.PathError("plant", name, fs.ErrExist)
	}
	node := m.newInode(mode)
	node.data, node.synced, node.links = []byte(data), []byte(data), 1
	dir.names[base], dir.durable[base] = node, node
	dir.mtime = m.clock()
	return nil
}

// addLocked makes a file or directory.
func (m *Mem) addLocked(op Op, name string, mode fs.FileMode) (*inode, error) {
	dir, base, err := m.parentLocked(name)
	if err != nil {
		return nil, err
	}
	if base == "." || dir.names[base] != nil {
		return nil, fs.ErrExist
	}
	var node *inode
	err = m.doLocked(op, name, func() {
		node = m.newInode(mode)
		m.setLocked(edit{dir, base, node})
	})
	return node, err
}

// parentLocked finds the directory that a name stands in. Every way to a name
// leads through here.
func (m *Mem) parentLocked(name string) (dir *inode, base string, err error) {
	if m.crashed {
		return nil, "", ErrCrashed
	}
	if !durable.ValidName(name) {
		return nil, "", durable.ErrName
	}
	elements := strings.Split(name, "/")
	dir = m.root
	for _, e := range elements[:len(elements)-1] {
		next := dir.names[e]
		switch {
		case next == nil:
			return nil, "", fs.ErrNotExist
		case next.mode.Type() == fs.ModeSymlink:
			return nil, "", syscall.ELOOP
		case next.names == nil:
			return nil, "", syscall.ENOTDIR
		}
		dir = next
	}
	return dir, elements[len(elements)-1], nil
}

// findLocked finds what stands under a name.
func (m *Mem) findLocked(name string) (*inode, error) {
	dir, base, err := m.parentLocked(name)
	switch {
	case err != nil:
		return nil, err
	case base == ".":
		return dir, nil
	case dir.names[base] == nil:
		return nil, fs.ErrNotExist
	default:
		return dir.names[base], nil
	}
}

func (m *Mem) dirLocked(name string) (*inode, error) {
	node, err := m.findLocked(name)
	switch {
	case err != nil:
		return nil, err
	case node.mode.Type() == fs.ModeSymlink:
		return nil, syscall.ELOOP
	case node.names == nil:
		return nil, syscall.ENOTDIR
	default:
		return node, nil
	}
}

func (m *Mem) regularLocked(name string) (*inode, error) {
	node, err := m.findLocked(name)
	switch {
	case err != nil:
		return nil, err
	case node.mode.Type() == fs.ModeSymlink:
		return nil, syscall.ELOOP
	case !node.mode.IsRegular():
		return nil, durable.ErrNotRegular
	default:
		return node, nil
	}
}

var _ durable.FS = (*Mem)(nil)
