//go:build !linux

package durable

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
)

// Disk is an FS on the real disk, here on os.Root. This is weaker than what
// Linux gets:
//
//   - Links are refused by looking before each step. A link that is put in
//     place between looking and using is followed, though never out of the root.
//   - RenameNew on files has both names for a moment, and a crash may leave both.
//   - SyncAll walks the tree and syncs file after file.
//   - On Windows directories cannot be synced: names are as durable as the
//     journal of NTFS makes them.
//   - BeingWritten is never known.
type Disk struct {
	dir  string
	root *os.Root
	// failed holds the first failed sync of a directory or of the whole disk.
	failed atomic.Pointer[error]
}

// Open opens the disk below the directory dir. The way to dir itself may lead
// through links; nothing below it does.
func Open(dir string) (*Disk, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(abs)
	if err != nil {
		return nil, PathError("open", abs, bare(err))
	}
	return &Disk{dir: abs, root: root}, nil
}

// Path returns the absolute path of a name, for messages and for watching. It
// stays below the root whatever the name is.
func (d *Disk) Path(name string) string {
	return filepath.Join(d.dir, filepath.Join(string(filepath.Separator), filepath.FromSlash(name)))
}

// Close closes the root. It comes after the last use of the disk.
func (d *Disk) Close() error { return d.root.Close() }

// bare takes the cause out of an error of package os: an FS has its own words
// around it.
func bare(err error) error {
	var pathErr *fs.PathError
	var linkErr *os.LinkError
	var callErr *os.SyscallError
	switch {
	case errors.As(err, &pathErr):
		return pathErr.Err
	case errors.As(err, &linkErr):
		return linkErr.Err
	case errors.As(err, &callErr):
		return callErr.Err
	default:
		return err
	}
}

// wrap is nil for nil.
func wrap(op, name string, err error) error {
	if err == nil {
		return nil
	}
	return PathError(op, name, bare(err))
}

// wayTo refuses names that leave the root and links on the way to a name.
func (d *Disk) wayTo(name string) error {
	if !ValidName(name) || !filepath.IsLocal(filepath.FromSlash(name)) {
		return ErrName
	}
	for i := range len(name) {
		if name[i] != '/' {
			continue
		}
		info, err := d.root.Lstat(name[:i])
		switch {
		case err != nil:
			return err
		case info.Mode()&fs.ModeSymlink != 0:
			return ErrLink
		case !info.IsDir():
			return errNotDir
		}
	}
	return nil
}

// Open implements FS.
func (d *Disk) Open(name string) (File, error) {
	f, err := d.openRegular("open", name, os.O_RDONLY)
	if f, ok := f.(*file); ok && syncAccess != os.O_RDONLY {
		f.again = func() error { return d.syncFile(name) }
	}
	return f, err
}

// Append implements FS.
func (d *Disk) Append(name string) (File, error) {
	return d.openRegular("append", name, os.O_RDWR|appendAccess|os.O_CREATE)
}

func (d *Disk) openRegular(op, name string, flags int) (File, error) {
	if err := d.wayTo(name); err != nil {
		return nil, wrap(op, name, err)
	}
	before, err := d.root.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist) && flags&os.O_CREATE != 0:
		flags |= os.O_EXCL // what appears in between is not what was looked at
	case err != nil:
		return nil, wrap(op, name, err)
	case before.Mode()&fs.ModeSymlink != 0:
		return nil, PathError(op, name, ErrLink)
	case !before.Mode().IsRegular():
		return nil, PathError(op, name, ErrNotRegular)
	}
	f, err := d.root.OpenFile(name, flags|nonblock, 0o644)
	if err != nil {
		return nil, wrap(op, name, err)
	}
	after, err := f.Stat()
	if err == nil && (!after.Mode().IsRegular() || before != nil && !os.SameFile(before, after)) {
		err = ErrNotRegular
	}
	if err != nil {
		_ = f.Close()
		return nil, wrap(op, name, err)
	}
	return &file{f: f, name: name, toEnd: appendAccess == 0 && flags&os.O_CREATE != 0}, nil
}

// Create implements FS.
func (d *Disk) Create(name string, perm fs.FileMode) (File, error) {
	err := d.wayTo(name)
	if err != nil {
		return nil, wrap("create", name, err)
	}
	f, err := d.root.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, perm.Perm())
	if err != nil {
		return nil, wrap("create", name, err)
	}
	return &file{f: f, name: name}, nil
}

// Lstat implements FS.
func (d *Disk) Lstat(name string) (Info, error) {
	if err := d.wayTo(name); err != nil {
		return Info{}, wrap("lstat", name, err)
	}
	info, err := d.root.Lstat(name)
	if err != nil {
		return Info{}, wrap("lstat", name, err)
	}
	return infoOf(name, info), nil
}

// ReadDir implements FS.
func (d *Disk) ReadDir(name string) ([]Entry, error) {
	dir, err := d.openDir(name)
	if err != nil {
		return nil, wrap("readdir", name, err)
	}
	defer dir.Close() //nolint:errcheck // nothing was written
	found, err := dir.ReadDir(-1)
	if err != nil {
		return nil, wrap("readdir", name, err)
	}
	list := make([]Entry, len(found))
	for i, e := range found {
		list[i] = Entry{Name: e.Name(), Type: e.Type()}
	}
	slices.SortFunc(list, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

// openDir opens a directory that no link stands for.
func (d *Disk) openDir(name string) (*os.File, error) {
	if err := d.wayTo(name); err != nil {
		return nil, err
	}
	info, err := d.root.Lstat(name)
	switch {
	case err != nil:
		return nil, err
	case info.Mode()&fs.ModeSymlink != 0:
		return nil, ErrLink
	case !info.IsDir():
		return nil, errNotDir
	}
	return d.root.Open(name)
}

// Mkdir implements FS.
func (d *Disk) Mkdir(name string, perm fs.FileMode) error {
	err := d.wayTo(name)
	if err == nil {
		err = d.root.Mkdir(name, perm.Perm())
	}
	return wrap("mkdir", name, err)
}

// MkdirAll implements FS.
func (d *Disk) MkdirAll(name string, perm fs.FileMode) error {
	return mkdirAll(d, name, perm)
}

// Remove implements FS.
func (d *Disk) Remove(name string) error {
	err := d.wayTo(name)
	if err == nil {
		err = d.root.Remove(name)
	}
	return wrap("remove", name, err)
}

// Rename implements FS.
func (d *Disk) Rename(from, to string) error {
	return d.move("rename", from, to, d.root.Rename)
}

// RenameNew implements FS.
func (d *Disk) RenameNew(from, to string) error {
	return d.move("rename", from, to, func(from, to string) error {
		if err := d.root.Link(from, to); err != nil {
			return err
		}
		return d.root.Remove(from)
	})
}

// Link implements FS.
func (d *Disk) Link(from, to string) error {
	return d.move("link", from, to, d.root.Link)
}

func (d *Disk) move(op, from, to string, do func(from, to string) error) error {
	err := d.wayTo(from)
	if err == nil {
		err = d.wayTo(to)
	}
	if err == nil {
		err = do(from, to)
	}
	if err != nil {
		return moveError(op, from, to, bare(err))
	}
	return nil
}

// SyncDir implements FS.
func (d *Disk) SyncDir(name string) error {
	dir, err := d.openDir(name)
	if err != nil {
		return wrap("syncdir", name, err)
	}
	defer dir.Close() //nolint:errcheck // nothing was written
	if err := syncDir(dir); err != nil {
		return d.fail(syncError("syncdir", name, bare(err)))
	}
	return nil
}

// SyncAll implements FS.
func (d *Disk) SyncAll() error {
	if err := d.failed.Load(); err != nil {
		return *err
	}
	if err := d.syncTree("."); err != nil {
		return d.fail(syncError("syncall", d.dir, bare(err)))
	}
	return nil
}

// syncTree syncs what is in a directory, and then the directory. What goes
// away meanwhile needs no sync, and what may not be opened is not of ours.
func (d *Disk) syncTree(name string) error {
	list, err := d.ReadDir(name)
	if err != nil {
		return err
	}
	for _, e := range list {
		child := e.Name
		if name != "." {
			child = name + "/" + child
		}
		switch {
		case e.Type.IsDir():
			err = d.syncTree(child)
		case e.Type.IsRegular():
			err = d.syncFile(child)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
			return err
		}
	}
	return d.SyncDir(name)
}

func (d *Disk) syncFile(name string) error {
	f, err := d.openRegular("sync", name, syncAccess)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// fail keeps the first failed sync: a system may report a lost write once, and
// the next sync would be a success that means nothing.
func (d *Disk) fail(err error) error {
	d.failed.CompareAndSwap(nil, &err)
	return err
}

// file is a File on an os.File.
type file struct {
	f     *os.File
	name  string
	toEnd bool  // each Write goes to the end, without the help of the system
	err   error // the first failed Sync
	// again opens what has the name now, and syncs that; nil where the system
	// syncs what is open for reading.
	again func() error
}

// Read implements File.
func (f *file) Read(p []byte) (int, error) {
	n, err := f.f.Read(p)
	return n, f.wrap("read", err)
}

// ReadAt implements File.
func (f *file) ReadAt(p []byte, off int64) (int, error) {
	n, err := f.f.ReadAt(p, off)
	return n, f.wrap("read", err)
}

// Write implements File.
func (f *file) Write(p []byte) (int, error) {
	if f.toEnd {
		if _, err := f.f.Seek(0, io.SeekEnd); err != nil {
			return 0, f.wrap("write", err)
		}
	}
	n, err := f.f.Write(p)
	return n, f.wrap("write", err)
}

// Sync implements File.
func (f *file) Sync() error {
	if f.err == nil {
		sync := f.f.Sync
		if f.again != nil {
			sync = f.again
		}
		if err := sync(); err != nil {
			f.err = syncError("sync", f.name, bare(err))
		}
	}
	return f.err
}

// Truncate implements File.
func (f *file) Truncate(size int64) error { return f.wrap("truncate", f.f.Truncate(size)) }

// Stat implements File.
func (f *file) Stat() (Info, error) {
	info, err := f.f.Stat()
	if err != nil {
		return Info{}, f.wrap("stat", err)
	}
	return infoOf(f.name, info), nil
}

// Close implements File.
func (f *file) Close() error { return f.wrap("close", f.f.Close()) }

// wrap is nil for nil, and leaves io.EOF bare for those who read.
func (f *file) wrap(op string, err error) error {
	if errors.Is(err, io.EOF) {
		return io.EOF
	}
	return wrap(op, f.name, err)
}

// commonInfo is what every platform tells.
func commonInfo(name string, info fs.FileInfo) Info {
	_, base := split(name)
	return Info{Name: base, Mode: info.Mode(), Size: info.Size(), ModTime: info.ModTime()}
}
