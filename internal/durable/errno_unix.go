//go:build unix

package durable

import (
	"golang.org/x/sys/unix"
)

const errNotDir = unix.ENOTDIR

// meanings is what system errors mean to the callers of an FS. Others stand
// for themselves.
var meanings = map[error]error{
	unix.ELOOP:  ErrLink,
	unix.ENXIO:  ErrNotRegular,
	unix.EISDIR: ErrNotRegular,
	unix.ENODEV: ErrNotRegular,
	unix.ENOSPC: ErrNoSpace,
	unix.EDQUOT: ErrNoSpace,
	unix.EROFS:  ErrReadOnly,
}
