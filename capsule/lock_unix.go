//go:build unix

package capsule

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// tryLock takes the lock of a step if nobody has it. It is opened for reading, so that
// agents that run as other users than the daemon can take it. A file that was removed or
// replaced meanwhile is no lock: whoever runs the step may have the old one.
func tryLock(path string) (*os.File, lockState, error) {
	f, err := os.Open(path) //nolint:gosec // below the hive's own directory; a link is not the same file
	if errors.Is(err, fs.ErrNotExist) {
		return nil, lockMissing, nil
	}
	if err != nil {
		return nil, lockUntried, fmt.Errorf("take the lock of the step: %w", err)
	}
	state, err := flock(f, path)
	if state != lockOwn {
		return nil, state, errors.Join(err, f.Close())
	}
	return f, lockOwn, nil
}

func flock(f *os.File, path string) (lockState, error) {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	switch {
	case errors.Is(err, unix.EWOULDBLOCK):
		return lockHeld, nil
	case err != nil:
		return lockUntried, fmt.Errorf("take the lock of the step: %w; hived step needs a file system of this machine", err)
	}
	own, err := f.Stat()
	if err != nil {
		return lockUntried, fmt.Errorf("take the lock of the step: %w", err)
	}
	if there, err := os.Lstat(path); err != nil || !os.SameFile(own, there) {
		return lockMissing, nil //nolint:nilerr // it is not there any more
	}
	return lockOwn, nil
}
