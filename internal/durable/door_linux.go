package durable

import (
	"errors"
	"io/fs"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// beneath is how every name is resolved: never out of the root, never through
// a link, not even one of /proc.
const beneath = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS

// maxAgain bounds the tries at EAGAIN, which openat2 says when it raced with a
// rename, and open when somebody holds a lease on the file.
const maxAgain = 16

// dirFlags opens a directory as a place for further calls only.
const dirFlags = unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC

// openat opens a name below the root.
func (d *Disk) openat(name string, flags int, perm uint32) (int, error) {
	if !ValidName(name) {
		return -1, ErrName
	}
	if !d.plain {
		return d.openat2(name, flags, perm)
	}
	dir, base, err := d.walk(name)
	if err != nil {
		return -1, err
	}
	defer d.leave(dir)
	return step(dir, base, flags, perm)
}

// openat2 goes without O_NOFOLLOW: the resolution refuses links, in the last
// element too, and O_DIRECTORY with O_NOFOLLOW would call one "no directory".
func (d *Disk) openat2(name string, flags int, perm uint32) (int, error) {
	how := unix.OpenHow{Flags: uint64(flags), Resolve: beneath} //nolint:gosec // flags are constants of ours
	if flags&unix.O_CREAT != 0 {
		how.Mode = uint64(perm)
	}
	dir := d.root
	if rest, ok := d.isNear(name); ok {
		dir, name = d.nearFD, rest
	}
	return again(func() (int, error) { return unix.Openat2(dir, name, &how) })
}

// isNear returns a name as seen from the directory that is kept open.
func (d *Disk) isNear(name string) (rest string, ok bool) {
	if d.near == "" {
		return name, false
	}
	return strings.CutPrefix(name, d.near)
}

// keepNear is what [Near] gives on Linux.
func (d *Disk) keepNear(dir string) (FS, func(), error) {
	fd, err := d.openat(dir, dirFlags, 0)
	if err != nil {
		return nil, nil, PathError("open", dir, err)
	}
	held := *d
	held.near, held.nearFD = dir+"/", fd
	return &held, func() { _ = unix.Close(fd) }, nil
}

// inParent calls do with the directory that a name stands in, opened through
// the door, and with the last element of the name.
func (d *Disk) inParent(name string, do func(dir int, base string) error) error {
	dir, base, err := d.parent(name)
	if err != nil {
		return err
	}
	defer d.leave(dir)
	return onlyErr(func() error { return do(dir, base) })
}

// inParents is inParent for two names.
func (d *Disk) inParents(from, to string, do func(fromDir int, from string, toDir int, to string) error) error {
	fromDir, fromBase, err := d.parent(from)
	if err != nil {
		return err
	}
	defer d.leave(fromDir)
	if !ValidName(to) {
		return ErrName
	}
	fromParent, _ := split(from)
	toParent, toBase := split(to)
	toDir := fromDir
	if toParent != fromParent {
		if toDir, toBase, err = d.parent(to); err != nil {
			return err
		}
		defer d.leave(toDir)
	}
	return onlyErr(func() error { return do(fromDir, fromBase, toDir, toBase) })
}

// parent opens the directory of a name. What it returns goes back to leave.
func (d *Disk) parent(name string) (dir int, base string, err error) {
	if !ValidName(name) {
		return -1, "", ErrName
	}
	if d.plain {
		return d.walk(name)
	}
	parent, base := split(name)
	switch {
	case parent == ".":
		return d.root, base, nil
	case d.near != "" && parent == d.near[:len(d.near)-1]:
		return d.nearFD, base, nil
	}
	dir, err = d.openat2(parent, dirFlags, 0)
	return dir, base, err
}

// leave closes a directory of parent or walk, unless it stays open.
func (d *Disk) leave(dir int) {
	if dir != d.root && (d.near == "" || dir != d.nearFD) {
		_ = unix.Close(dir)
	}
}

// walk is parent without openat2: one element at a time, no link followed.
func (d *Disk) walk(name string) (dir int, base string, err error) {
	dir = d.root
	for {
		before, after, ok := strings.Cut(name, "/")
		if !ok {
			return dir, name, nil
		}
		next, err := step(dir, before, dirFlags, 0)
		d.leave(dir)
		if err != nil {
			return -1, "", err
		}
		dir, name = next, after
	}
}

// step opens one element. With O_DIRECTORY the kernel says of a link that it
// is no directory; callers want to know that it is a link.
func step(dir int, element string, flags int, perm uint32) (int, error) {
	fd, err := again(func() (int, error) { return unix.Openat(dir, element, flags|unix.O_NOFOLLOW, perm) })
	if !errors.Is(err, unix.ENOTDIR) {
		return fd, err
	}
	var st unix.Stat_t
	if unix.Fstatat(dir, element, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK {
		return -1, unix.ELOOP
	}
	return -1, err
}

// again repeats an opening that a signal or a race interrupted.
func again(open func() (int, error)) (int, error) {
	for tries := 0; ; {
		fd, err := open()
		switch {
		case err == nil:
			return fd, nil
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EAGAIN) && tries < maxAgain:
			tries++
		default:
			return -1, err
		}
	}
}

// onlyErr repeats a call that a signal interrupted.
func onlyErr(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

func fstat(fd int, st *unix.Stat_t) error {
	return onlyErr(func() error { return unix.Fstat(fd, st) })
}

func timeOf(ts unix.Timespec) time.Time { return time.Unix(ts.Unix()) }

// modeOf turns the mode of a Unix inode into Go's.
func modeOf(m uint32) fs.FileMode {
	mode := fs.FileMode(m&0o777) | typeOf(m>>12)
	if m&unix.S_ISUID != 0 {
		mode |= fs.ModeSetuid
	}
	if m&unix.S_ISGID != 0 {
		mode |= fs.ModeSetgid
	}
	if m&unix.S_ISVTX != 0 {
		mode |= fs.ModeSticky
	}
	return mode
}

// typeOf turns the type of a directory entry (DT_*, which is the top of an
// inode's mode) into Go's bits.
func typeOf(dt uint32) fs.FileMode {
	switch dt {
	case unix.DT_REG:
		return 0
	case unix.DT_DIR:
		return fs.ModeDir
	case unix.DT_LNK:
		return fs.ModeSymlink
	case unix.DT_FIFO:
		return fs.ModeNamedPipe
	case unix.DT_SOCK:
		return fs.ModeSocket
	case unix.DT_CHR:
		return fs.ModeDevice | fs.ModeCharDevice
	case unix.DT_BLK:
		return fs.ModeDevice
	default:
		return fs.ModeIrregular
	}
}
