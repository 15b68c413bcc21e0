//go:build failpoint

package failpoint

import (
	"os"
	"strconv"
	"strings"
	"sync/atomic"
)

var (
	armed Point
	left  atomic.Int64 // times until it kills
)

func init() {
	name, times, _ := strings.Cut(os.Getenv(Variable), ":")
	armed = Point(name)
	n, err := strconv.ParseInt(times, 10, 64)
	left.Store(max(n, 1))
	if times != "" && err != nil {
		panic(Variable + ": not a number of times: " + times)
	}
}

// Hit kills the process if the point is the armed one, and has come so many
// times.
func Hit(p Point) {
	if p != armed || left.Add(-1) != 0 {
		return
	}
	self, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = self.Kill()
	}
	if err != nil {
		panic(err)
	}
	select {} // the signal is on its way
}
