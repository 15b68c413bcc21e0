//go:build unix

package durable

import (
	"errors"

	"golang.org/x/sys/unix"
)

const errNotDir = unix.ENOTDIR

// sentinel finds what a system error means to the callers of an FS; nil means
// that the error stands for itself.
func sentinel(err error) error {
	var errno unix.Errno
	if !errors.As(err, &errno) {
		return nil
	}
	switch errno {
	case unix.ELOOP:
		return ErrLink
	case unix.ENXIO, unix.EISDIR, unix.ENODEV:
		return ErrNotRegular
	case unix.ENOSPC, unix.EDQUOT:
		return ErrNoSpace
	case unix.EROFS:
		return ErrReadOnly
	default:
		return nil
	}
}
