// Package testenv makes tests cheap that write many small files and leave little
// but garbage behind.
package testenv

import (
	"os"
	"runtime/debug"
	"strings"
)

// percent is how much the heap may grow between two collections, of what was live
// after the first.
const percent = 400

// room is how much memory the tests of the project may take for their files, in
// bytes. They take a tenth of it.
const room = 1 << 30

// Cheap is for TestMain. Garbage is collected less often, and temporary directories are
// in memory if the machine has a file system there: the kernel behaves the same, and
// what survives a power cut is tested on simulated disks. GOGC and TMPDIR take
// precedence if they are set; TMPDIR=/tmp runs the tests on the disk. With -bench
// nothing changes, so that figures are those of the usual disk and collector.
func Cheap() {
	for _, arg := range os.Args[1:] {
		if name, value, _ := strings.Cut(arg, "="); name == "-test.bench" && value != "" {
			return
		}
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(percent)
	}
	if os.Getenv("TMPDIR") == "" {
		inMemory()
	}
}
