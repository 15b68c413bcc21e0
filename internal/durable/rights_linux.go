package durable

import (
	"io/fs"

	"golang.org/x/sys/unix"
)

// SetRights gives a directory, or a regular file, its owner, group and mode. It
// acts on what it has opened and looked at, so it is safe in a directory that
// somebody else writes into: a link is [ErrLink], a file with a second name
// [ErrHardLink], anything else that is neither file nor directory
// [ErrNotRegular]. Only Linux has it; elsewhere it is errors.ErrUnsupported.
func (d *Disk) SetRights(name string, want Rights) error {
	if err := d.setRights(name, want); err != nil {
		return PathError("set the rights of", name, err)
	}
	return nil
}

func (d *Disk) setRights(name string, want Rights) error {
	fd, err := d.openat(name, unix.O_RDONLY|openFlags, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd) //nolint:errcheck // nothing was written
	var st unix.Stat_t
	if err := fstat(fd, &st); err != nil {
		return err
	}
	switch kind := st.Mode & unix.S_IFMT; {
	case kind != unix.S_IFREG && kind != unix.S_IFDIR:
		return ErrNotRegular
	case kind == unix.S_IFREG && st.Nlink > 1:
		return ErrHardLink
	}
	// The mode comes second: a change of owner takes bits off it.
	if st.Uid != want.UID || st.Gid != want.GID {
		if err := onlyErr(func() error { return unix.Fchown(fd, int(want.UID), int(want.GID)) }); err != nil {
			return err
		}
	}
	return onlyErr(func() error { return unix.Fchmod(fd, unixMode(want.Mode)) })
}

// unixMode is the part of modeOf that rights are about, the other way.
func unixMode(m fs.FileMode) uint32 {
	mode := uint32(m.Perm())
	if m&fs.ModeSetuid != 0 {
		mode |= unix.S_ISUID
	}
	if m&fs.ModeSetgid != 0 {
		mode |= unix.S_ISGID
	}
	if m&fs.ModeSticky != 0 {
		mode |= unix.S_ISVTX
	}
	return mode
}
