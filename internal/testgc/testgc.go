// Package testgc has the tests of a package that imports it collect garbage less
// often. A test on a disk in memory leaves little but garbage behind, and spends
// up to half of its CPU on collecting it. GOGC, where it is set, counts instead.
package testgc

import (
	"os"
	"runtime/debug"
)

// percent is how much the heap may grow between two collections, of what was live
// after the first.
const percent = 400

func init() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(percent)
	}
}
