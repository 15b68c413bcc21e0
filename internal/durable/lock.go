package durable

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"strconv"
	"time"
)

// ErrLocked says that another process, or another Lock of this one, holds the
// lock. errors.As with a *[LockedError] tells who.
var ErrLocked = errors.New("is locked")

// LockedError is the error of a lock that somebody holds.
type LockedError struct {
	Path string // absolute
	PID  int    // of the holder; 0 where it cannot be read
}

func (e *LockedError) Error() string {
	if e.PID == 0 {
		return e.Path + " is locked by another process"
	}
	return e.Path + " is locked by process " + strconv.Itoa(e.PID)
}

// Is makes errors.Is(err, ErrLocked) true.
func (e *LockedError) Is(target error) bool { return target == ErrLocked } //nolint:errorlint // a sentinel

// Lock is a kernel lock on a file, held by one process at a time. It ends with
// Release, or with the process, however that ends; the file stays.
type Lock struct {
	f lockable
}

// lockable is an open file that the kernel can lock.
type lockable interface {
	File
	flock(how int) error
}

// How long, at most, a Lock stands aside for others that only look.
const (
	lockTries = 20
	lockPause = 10 * time.Millisecond
)

// errMoved says that the locked file is no longer the one of that name.
var errMoved = errors.New("the lock file was replaced")

// TakeLock takes the lock of the file `name`, whose directory exists, and
// writes into it the process id, a newline and the note. Where somebody holds
// it, it does not wait: the error is a *[LockedError].
func TakeLock(d *Disk, name string, note []byte) (*Lock, error) {
	return takeLock(d, name, note, func() { time.Sleep(lockPause) })
}

func takeLock(d *Disk, name string, note []byte, pause func()) (*Lock, error) {
	for tries := 1; ; tries++ {
		lock, err := tryLock(d, name, note)
		if err == nil {
			return lock, nil
		}
		again := errors.Is(err, errLooking) || errors.Is(err, errMoved)
		if !again {
			return nil, err
		}
		if tries == lockTries {
			pid, _ := lockPID(d, name)
			return nil, &LockedError{Path: d.Path(name), PID: pid}
		}
		pause()
	}
}
