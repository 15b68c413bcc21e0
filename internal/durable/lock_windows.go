package durable

import (
	"errors"

	"golang.org/x/sys/windows"
)

// What flock is asked for. None of them waits.
const (
	lockExclusive = windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY
	lockShared    = windows.LOCKFILE_FAIL_IMMEDIATELY
	unlocked      = -1
)

// wouldBlock tells that somebody else holds the lock.
func wouldBlock(err error) bool { return errors.Is(err, windows.ERROR_LOCK_VIOLATION) }

// flock locks one byte far behind the end of the file: locks of Windows keep
// others from reading what they cover, and the process id must stay readable.
func (f *file) flock(how int) error {
	h := windows.Handle(f.f.Fd())
	at := &windows.Overlapped{OffsetHigh: 1 << 30}
	if how == unlocked {
		return windows.UnlockFileEx(h, 0, 1, 0, at)
	}
	return windows.LockFileEx(h, uint32(how), 0, 1, 0, at) //nolint:gosec // one of the flags above
}
