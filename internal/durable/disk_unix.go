//go:build unix && !linux

package durable

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// nonblock keeps the opening of a FIFO that was put in place of a file from
// waiting.
const nonblock = unix.O_NONBLOCK | unix.O_NOCTTY

// appendAccess makes the system write at the end of a file.
const appendAccess = os.O_APPEND

// syncAccess is how a file is opened that is only to be synced.
const syncAccess = os.O_RDONLY

func syncDir(dir *os.File) error { return dir.Sync() }

// flock takes or gives back the lock of the open file.
func (f *file) flock(how int) error {
	for {
		err := unix.Flock(int(f.f.Fd()), how)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// infoOf puts what the system says into our words.
func infoOf(name string, info fs.FileInfo) Info {
	out := commonInfo(name, info)
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		out.Dev, out.Ino, out.Links = uint64(st.Dev), uint64(st.Ino), uint64(st.Nlink)
		out.UID, out.GID = st.Uid, st.Gid
	}
	return out
}
