package durable

import (
	"errors"
	"io/fs"
	"path/filepath"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// Disk is an FS on the real disk. On Linux every name is resolved by the
// kernel, below the descriptor of the root and without following any link.
type Disk struct {
	dir  string
	root int // opened for reading: syncfs takes no O_PATH descriptor
	// plain says that the kernel, or a filter before it, has no openat2: names
	// are then walked one element at a time.
	plain bool
	// failed holds the first failed sync of a directory or of the whole disk.
	failed *atomic.Pointer[error]

	// near is a directory that is kept open, with a slash at its end, and nearFD
	// its descriptor: see [Near]. Empty: none is.
	near   string
	nearFD int
}

// Open opens the disk below the directory dir. The way to dir itself may lead
// through links; nothing below it does.
func Open(dir string) (*Disk, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	root, err := again(func() (int, error) {
		return unix.Open(abs, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return nil, PathError("open", abs, err)
	}
	d := &Disk{dir: abs, root: root, failed: new(atomic.Pointer[error])}
	fd, err := d.openat2(".", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err == nil {
		return d, unix.Close(fd)
	}
	// Old container filters answer EPERM to calls that they do not know.
	if !errors.Is(err, unix.ENOSYS) && !errors.Is(err, unix.EPERM) {
		_ = unix.Close(root)
		return nil, PathError("open", abs, err)
	}
	d.plain = true
	return d, nil
}

// Path returns the absolute path of a name, for messages and for watching. It
// stays below the root whatever the name is.
func (d *Disk) Path(name string) string {
	return filepath.Join(d.dir, filepath.Join("/", name))
}

// Close closes the root. It comes after the last use of the disk.
func (d *Disk) Close() error {
	err := unix.Close(d.root)
	d.root = -1
	return err
}

const openFlags = unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC | unix.O_LARGEFILE

// Open implements FS.
func (d *Disk) Open(name string) (File, error) {
	return d.openRegular("open", name, unix.O_RDONLY)
}

// Append implements FS.
func (d *Disk) Append(name string) (File, error) {
	return d.openRegular("append", name, unix.O_RDWR|unix.O_APPEND|unix.O_CREAT)
}

// openRegular opens what must turn out to be a regular file. O_NONBLOCK keeps
// a FIFO from holding us up before fstat can tell what it is.
func (d *Disk) openRegular(op, name string, flags int) (File, error) {
	fd, err := d.openat(name, flags|openFlags, 0o644)
	if err != nil {
		return nil, PathError(op, name, err)
	}
	var st unix.Stat_t
	if err = fstat(fd, &st); err == nil && st.Mode&unix.S_IFMT != unix.S_IFREG {
		err = ErrNotRegular
	}
	if err != nil {
		_ = unix.Close(fd)
		return nil, PathError(op, name, err)
	}
	return &file{fd: fd, name: name}, nil
}

// Create implements FS.
func (d *Disk) Create(name string, perm fs.FileMode) (File, error) {
	fd, err := d.openat(name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|openFlags, uint32(perm.Perm()))
	if err != nil {
		return nil, PathError("create", name, err)
	}
	return &file{fd: fd, name: name}, nil
}

// Lstat implements FS.
func (d *Disk) Lstat(name string) (Info, error) {
	var st unix.Stat_t
	var err error
	if d.near != "" && name == d.near[:len(d.near)-1] {
		err = fstat(d.nearFD, &st)
	} else {
		err = d.inParent(name, func(dir int, base string) error {
			return unix.Fstatat(dir, base, &st, unix.AT_SYMLINK_NOFOLLOW)
		})
	}
	if err != nil {
		return Info{}, PathError("lstat", name, err)
	}
	return infoOf(name, &st), nil
}

// Mkdir implements FS.
func (d *Disk) Mkdir(name string, perm fs.FileMode) error {
	err := d.inParent(name, func(dir int, base string) error {
		return unix.Mkdirat(dir, base, uint32(perm.Perm()))
	})
	if err != nil {
		return PathError("mkdir", name, err)
	}
	return nil
}

// MkdirAll implements FS.
func (d *Disk) MkdirAll(name string, perm fs.FileMode) error {
	return mkdirAll(d, name, perm)
}

// Remove implements FS.
func (d *Disk) Remove(name string) error {
	err := d.inParent(name, func(dir int, base string) error {
		err := unix.Unlinkat(dir, base, 0)
		if errors.Is(err, unix.EISDIR) {
			return unix.Unlinkat(dir, base, unix.AT_REMOVEDIR)
		}
		return err
	})
	if err != nil {
		return PathError("remove", name, err)
	}
	return nil
}

// Rename implements FS.
func (d *Disk) Rename(from, to string) error {
	err := d.inParents(from, to, unix.Renameat)
	if err != nil {
		return moveError("rename", from, to, err)
	}
	return nil
}

// RenameNew implements FS. If the file system cannot do it in one step, the file has
// both names for a moment, and a crash may leave both.
func (d *Disk) RenameNew(from, to string) error {
	err := d.inParents(from, to, d.renameNew)
	if err != nil {
		return moveError("rename", from, to, err)
	}
	return nil
}

func (d *Disk) renameNew(fromDir int, from string, toDir int, to string) error {
	if !d.plain {
		err := unix.Renameat2(fromDir, from, toDir, to, unix.RENAME_NOREPLACE)
		if !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOSYS) {
			return err
		}
	}
	if err := unix.Linkat(fromDir, from, toDir, to, 0); err != nil {
		return err
	}
	return unix.Unlinkat(fromDir, from, 0)
}

// Link implements FS.
func (d *Disk) Link(from, to string) error {
	err := d.inParents(from, to, func(fromDir int, from string, toDir int, to string) error {
		return unix.Linkat(fromDir, from, toDir, to, 0)
	})
	if err != nil {
		return moveError("link", from, to, err)
	}
	return nil
}

// SyncDir implements FS.
func (d *Disk) SyncDir(name string) error {
	fd, err := d.openDir(name)
	if err != nil {
		return PathError("syncdir", name, err)
	}
	defer unix.Close(fd) //nolint:errcheck // nothing was written
	if err := onlyErr(func() error { return unix.Fsync(fd) }); err != nil {
		return d.fail(syncError("syncdir", name, err))
	}
	return nil
}

// SyncAll implements FS with syncfs(2), which syncs the whole file system that
// the root is on, and nothing that is mounted below the root.
func (d *Disk) SyncAll() error {
	if err := d.failed.Load(); err != nil {
		return *err
	}
	if err := onlyErr(func() error { return unix.Syncfs(d.root) }); err != nil {
		return d.fail(syncError("syncall", d.dir, err))
	}
	return nil
}

// fail keeps the first failed sync: the kernel reports a lost write once, and
// the next sync would be a success that means nothing.
func (d *Disk) fail(err error) error {
	d.failed.CompareAndSwap(nil, &err)
	return err
}

// openDir opens a directory for listing and syncing.
func (d *Disk) openDir(name string) (int, error) {
	return d.openat(name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
}

// infoOf puts what the kernel says into our words.
func infoOf(name string, st *unix.Stat_t) Info {
	_, base := split(name)
	return Info{
		Name:    base,
		Mode:    modeOf(st.Mode),
		Size:    st.Size,
		ModTime: timeOf(st.Mtim),
		CTime:   timeOf(st.Ctim),
		Dev:     uint64(st.Dev), //nolint:unconvert // 32 bits on some platforms
		Ino:     st.Ino,
		Links:   uint64(st.Nlink), //nolint:unconvert // 32 bits on some platforms
		UID:     st.Uid,
		GID:     st.Gid,
	}
}
