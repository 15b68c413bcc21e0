package audit

import (
	"math"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// measure reads the limits from the kernel.
func (m *machine) measure() {
	m.watches = readNumber("/proc/sys/fs/inotify/max_user_watches")
	m.instances = readNumber("/proc/sys/fs/inotify/max_user_instances")
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) == nil {
		m.openFiles = clamp(limit.Cur)
	}
	var st unix.Statfs_t
	if unix.Statfs(m.dir, &st) != nil {
		return
	}
	m.fileSystem = fileSystemOf(int64(st.Type)) //nolint:unconvert // its type differs between platforms
	if st.Bsize > 0 && st.Bavail <= math.MaxInt64/uint64(st.Bsize) {
		m.blockBytes = int64(st.Bavail) * int64(st.Bsize) //nolint:gosec,unconvert // held to the range above; types differ between platforms
	}
	if st.Files > 0 { // some file systems count no inodes
		m.inodes = clamp(st.Ffree)
	}
}

func clamp(n uint64) int64 { return int64(min(n, math.MaxInt64)) }

func readNumber(file string) int64 {
	data, err := os.ReadFile(file) //nolint:gosec // one of the kernel's own
	if err != nil {
		return -1
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64)
	if err != nil {
		return -1
	}
	return n
}

func fileSystemOf(magic int64) string {
	switch uint32(magic) { //nolint:gosec // magic numbers have 32 bits
	case unix.NFS_SUPER_MAGIC:
		return "nfs"
	case unix.SMB_SUPER_MAGIC, unix.SMB2_SUPER_MAGIC, unix.CIFS_SUPER_MAGIC:
		return "smb"
	case unix.V9FS_MAGIC:
		return "9p"
	case unix.FUSE_SUPER_MAGIC:
		return "fuse"
	case unix.TMPFS_MAGIC:
		return "tmpfs"
	case unix.OVERLAYFS_SUPER_MAGIC:
		return "overlay"
	case unix.EXT4_SUPER_MAGIC:
		return "ext4"
	case unix.XFS_SUPER_MAGIC:
		return "xfs"
	case unix.BTRFS_SUPER_MAGIC:
		return "btrfs"
	}
	return "another file system"
}

// canWrite reports whether this process may create files in a directory.
func canWrite(dir string) bool { return unix.Access(dir, unix.W_OK|unix.X_OK) == nil }
