package durable

import (
	"syscall"

	"golang.org/x/sys/windows"
)

const errNotDir = syscall.ENOTDIR

// meanings is what system errors mean to the callers of an FS. Others stand
// for themselves. The numbers that Go invents for Windows are here too, because
// faultfs and tests use them.
var meanings = map[error]error{
	syscall.ELOOP:                     ErrLink,
	syscall.ENXIO:                     ErrNotRegular,
	syscall.EISDIR:                    ErrNotRegular,
	syscall.ENODEV:                    ErrNotRegular,
	syscall.ENOSPC:                    ErrNoSpace,
	syscall.EDQUOT:                    ErrNoSpace,
	windows.ERROR_DISK_FULL:           ErrNoSpace,
	windows.ERROR_HANDLE_DISK_FULL:    ErrNoSpace,
	windows.ERROR_DISK_QUOTA_EXCEEDED: ErrNoSpace,
	syscall.EROFS:                     ErrReadOnly,
	windows.ERROR_WRITE_PROTECT:       ErrReadOnly,
}
