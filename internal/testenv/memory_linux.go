package testenv

import (
	"os"

	"golang.org/x/sys/unix"
)

// shared is where Linux has a file system in memory that everybody may write to.
// In a container it often is too small, and no program may be run from it.
const shared = "/dev/shm"

func inMemory() {
	var s unix.Statfs_t
	if err := unix.Statfs(shared, &s); err != nil ||
		s.Type != unix.TMPFS_MAGIC || s.Flags&(unix.ST_NOEXEC|unix.ST_RDONLY) != 0 || float64(s.Bavail)*float64(s.Bsize) < room ||
		unix.Access(shared, unix.W_OK|unix.X_OK) != nil {
		return
	}
	if err := os.Setenv("TMPDIR", shared); err != nil {
		panic(err)
	}
}
