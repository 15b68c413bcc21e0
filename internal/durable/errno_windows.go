package durable

import (
	"errors"
	"syscall"

	"golang.org/x/sys/windows"
)

const errNotDir = syscall.ENOTDIR

// sentinel finds what a system error means to the callers of an FS; nil means
// that the error stands for itself. The numbers that Go invents for Windows
// are taken too, because faultfs and tests use them.
func sentinel(err error) error {
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		return nil
	}
	switch errno {
	case syscall.ELOOP:
		return ErrLink
	case syscall.ENXIO, syscall.EISDIR, syscall.ENODEV:
		return ErrNotRegular
	case windows.ERROR_DISK_FULL, windows.ERROR_HANDLE_DISK_FULL, windows.ERROR_DISK_QUOTA_EXCEEDED,
		syscall.ENOSPC, syscall.EDQUOT:
		return ErrNoSpace
	case windows.ERROR_WRITE_PROTECT, syscall.EROFS:
		return ErrReadOnly
	default:
		return nil
	}
}
