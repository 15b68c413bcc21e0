package capsule

import (
	"bytes"
	"os"
	"path/filepath"
)

// keyLives reports whether a process that this user can look at has a step's key in its
// environment: some programs close the lock for the processes that they start.
func keyLives(key string) bool {
	want := []byte(EnvKey + "=" + key)
	list, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		return false
	}
	for _, path := range list {
		env, err := os.ReadFile(path) //nolint:gosec // of a process
		if err != nil {
			continue // of another user, or ended
		}
		for text := range bytes.SplitSeq(env, []byte{0}) {
			if bytes.Equal(text, want) {
				return true
			}
		}
	}
	return false
}
