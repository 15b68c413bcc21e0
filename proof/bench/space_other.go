//go:build !linux && !darwin

package bench

// freeBytes reports that the free space is unknown on this system.
func freeBytes(string) (int64, bool) { return 0, false }
