//go:build unix

package durable

import (
	"errors"

	"golang.org/x/sys/unix"
)

// What flock is asked for. None of them waits.
const (
	lockExclusive = unix.LOCK_EX | unix.LOCK_NB
	lockShared    = unix.LOCK_SH | unix.LOCK_NB
	unlocked      = unix.LOCK_UN
)

// wouldBlock tells that somebody else holds the lock.
func wouldBlock(err error) bool { return errors.Is(err, unix.EWOULDBLOCK) }
