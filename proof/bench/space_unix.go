//go:build linux || darwin

package bench

import "syscall"

// freeBytes returns the free space of the file system of a directory, in bytes.
func freeBytes(dir string) (int64, bool) {
	var st syscall.Statfs_t
	if syscall.Statfs(dir, &st) != nil {
		return 0, false
	}
	return int64(st.Bavail) * int64(st.Bsize), true //nolint:gosec,unconvert // far below the range; types differ between platforms
}
