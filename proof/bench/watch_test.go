package bench

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"
)

// Where nobody looks at a terminal, a row is announced by one plain line; on a
// terminal one line is written over, and is gone at the end.
func TestBenchWatch(t *testing.T) {
	for _, c := range []struct {
		over bool
		want string
	}{
		{false, "hived: burst, about 1m30s left\nhived: year, about 8s left\n"},
		{true, "\r\x1b[Khived: burst, about 1m30s left (2 %, round 1 of 5)\r\x1b[Khived: year, about 8s left (80 %, 0 % of a year)\r\x1b[K"},
	} {
		synctest.Test(t, func(t *testing.T) { // where no time passes: what is shown too often is left out
			var said bytes.Buffer
			w := &Watch{W: &said, Over: c.over}
			for _, p := range []Progress{
				{Row: "burst", Doing: "round 1 of 5", Share: 0.02, Left: 90 * time.Second},
				{Row: "burst", Doing: "round 2 of 5", Share: 0.04, Left: 80 * time.Second},
				{Row: "year", Doing: "0 % of a year", Share: 0.8, Left: 8 * time.Second},
			} {
				w.Tell(p)
			}
			w.End()
			if said.String() != c.want {
				t.Errorf("on a terminal %v: got  %q\nwant %q", c.over, said.String(), c.want)
			}
		})
	}
}
