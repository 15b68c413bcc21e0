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

// ErrLocked means that another process, or another Lock of this one, holds the lock. A
// [*LockedError] in the error says who.
var ErrLocked = errors.New("is locked")

// LockedError is the error of a lock that is held already.
type LockedError struct {
	Path string // absolute
	PID  int    // of the holder; 0 if it cannot be read
}

func (e *LockedError) Error() string {
	if e.PID == 0 {
		return e.Path + " is locked by another process"
	}
	return e.Path + " is locked by process " + strconv.Itoa(e.PID)
}

// Is makes errors.Is(err, ErrLocked) true.
func (e *LockedError) Is(target error) bool { return target == ErrLocked }

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

// TakeLock takes the lock of the file name, whose directory exists, and writes into it
// the process id, a newline and the note. It does not wait: if the lock is held, the
// error is a [*LockedError].
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
			return nil, &LockedError{Path: d.Path(name)}
		}
		pause()
	}
}

// errLooking says that the lock is held shared, by a Holder that looks, or
// held by somebody who has not written his process id yet: both pass.
var errLooking = errors.New("the lock is being looked at")

func tryLock(d *Disk, name string, note []byte) (*Lock, error) {
	f, err := openLockable(d.Append, name)
	if err != nil {
		return nil, err
	}
	if err := claim(d, name, f, note); err != nil {
		_ = f.Close() // this gives back the lock too
		return nil, err
	}
	return &Lock{f}, nil
}

// claim locks an open file and signs it.
func claim(d *Disk, name string, f lockable, note []byte) error {
	err := f.flock(lockExclusive)
	switch {
	case wouldBlock(err):
		return whoLocked(d, name, f)
	case err != nil:
		return PathError("lock", name, err)
	}
	if err := stillThere(d, name, f); err != nil {
		return err
	}
	return sign(f, note)
}

func openLockable(open func(string) (File, error), name string) (lockable, error) {
	f, err := open(name)
	if err != nil {
		return nil, err
	}
	return f.(lockable), nil // the files of a Disk are
}

// whoLocked tells a holder of the lock from one who only looks.
func whoLocked(d *Disk, name string, f lockable) error {
	if f.flock(lockShared) == nil {
		return errLooking
	}
	pid, _ := lockPID(f)
	if pid == 0 {
		return errLooking
	}
	return &LockedError{Path: d.Path(name), PID: pid}
}

// stillThere guards against a lock on a file that lost its name between
// opening and locking: the next process would lock another file.
func stillThere(d *Disk, name string, f lockable) error {
	mine, err := f.Stat()
	if err != nil {
		return err
	}
	named, err := d.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) || err == nil && (named.Ino != mine.Ino || named.Dev != mine.Dev) {
		return errMoved
	}
	return err
}

// sign writes who holds the lock.
func sign(f File, note []byte) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	line := strconv.AppendInt(nil, int64(os.Getpid()), 10)
	_, err := f.Write(append(append(line, '\n'), note...))
	return err
}

// lockPID reads what sign wrote.
func lockPID(f File) (int, error) {
	buf := make([]byte, 32)
	n, err := f.ReadAt(buf, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, err
	}
	line, _, ended := bytes.Cut(buf[:n], []byte{'\n'})
	pid, err := strconv.Atoi(string(line))
	if err != nil || !ended || pid <= 0 {
		return 0, nil //nolint:nilerr // not signed yet, or by nobody we know
	}
	return pid, nil
}

// Release empties the file and gives the lock back.
func (l *Lock) Release() error {
	err := l.f.Truncate(0)
	// A child that is just being started may hold a copy of the descriptor, so
	// closing it is not enough.
	return errors.Join(err, l.f.flock(unlocked), l.f.Close())
}

// Holder reports whether somebody holds the lock now, and the process id found in
// the file (0 where there is none). It does not wait. To find out it holds the
// lock shared for an instant; TakeLock knows this and tries again, while
// another Holder at the same instant is not disturbed. The kernel locks the
// files of a *[Disk] only: of any other FS it tells that nobody does.
func Holder(disk FS, name string) (pid int, held bool, err error) {
	d, real := disk.(*Disk)
	if !real {
		return 0, false, nil
	}
	f, err := openLockable(d.Open, name)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, err
	}
	defer f.Close() //nolint:errcheck // nothing was written
	err = f.flock(lockShared)
	if err == nil {
		return 0, false, f.flock(unlocked)
	}
	if !wouldBlock(err) {
		return 0, false, PathError("lock", name, err)
	}
	pid, err = lockPID(f)
	return pid, true, err
}
