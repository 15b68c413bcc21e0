// Package testgc has tests collect garbage less often. A test on a disk in memory
// leaves little but garbage behind, and spends up to half of its CPU on collecting
// it.
package testgc

import (
	"os"
	"runtime/debug"
)

// percent is how much the heap may grow between two collections, of what was live
// after the first.
const percent = 400

// Less is for TestMain. GOGC, where it is set, counts instead.
func Less() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(percent)
	}
}
