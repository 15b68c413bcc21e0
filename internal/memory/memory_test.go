package memory

import (
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestCollector checks that a busy hive may allocate its headroom and a quiet one
// little, and that a percentage that somebody set is set again.
func TestCollector(t *testing.T) {
	percent := func() int {
		now := debug.SetGCPercent(50)
		debug.SetGCPercent(now)
		return now
	}
	was := debug.SetGCPercent(50)
	defer debug.SetGCPercent(was)
	runtime.GC()
	used := max(live(), 1<<20)
	room := func(n int) collector { return collector{headroom: int64(n) * int64(used) / 100} }
	for _, tt := range []struct {
		name string
		c    collector
		base int
		do   func(c *collector)
		want func(int) bool
	}{
		{"busy with much room", room(300), 50, func(c *collector) { c.busy() }, func(n int) bool { return n > 150 && n < 600 }},
		{"busy with less room than the share", room(10), 50, func(c *collector) { c.busy() }, func(n int) bool { return n == 50 }},
		{"quiet", room(300), 50, func(c *collector) { c.quiet() }, func(n int) bool { return n == quietPercent }},
		{"awake again", room(300), 50, func(c *collector) { c.quiet(); c.busy() }, func(n int) bool { return n > 150 && n < 600 }},
		{"ended", room(300), 50, func(c *collector) { c.quiet(); c.end() }, func(n int) bool { return n == 50 }},
		{"not the hive's process", collector{}, 50, func(c *collector) { c.quiet(); c.busy() }, func(n int) bool { return n == 50 }},
		{"somebody saves memory", room(300), 1, func(c *collector) { c.quiet(); c.busy() }, func(n int) bool { return n == 1 }},
		{"somebody collects by himself", room(300), -1, func(c *collector) { c.quiet(); c.busy() }, func(n int) bool { return n == -1 }},
	} {
		debug.SetGCPercent(tt.base)
		tt.c.begin()
		tt.do(&tt.c)
		if n := percent(); !tt.want(n) {
			t.Errorf("%s: the percentage is %d", tt.name, n)
		}
	}
}

// TestQuiet checks that memory is given back ever more rarely in one quiet time.
func TestQuiet(t *testing.T) {
	t.Parallel()
	var x quiet
	n := 0
	for range 10*quietAfter + 1 { // the first counts as something new
		if x.due(7) {
			n++
		}
	}
	if n != 4 { // after 5, 10, 20 and 40
		t.Errorf("memory was given back %d times in one quiet time", n)
	}
}

// TestQuietHive checks that a quiet hive compacts its state and gives memory back,
// with git and without.
func TestQuietHive(t *testing.T) {
	t.Parallel()
	var did []string
	m := New(0, func() { did = append(did, "give back") })
	for range quietAfter {
		m.Rescanned(7, func() { did = append(did, "compact") })
	}
	if len(did) != 0 {
		t.Errorf("before it was quiet: %v", did)
	}
	m.Rescanned(7, func() { did = append(did, "compact") })
	if diff := cmp.Diff([]string{"compact", "give back"}, did); diff != "" {
		t.Error(diff)
	}
}
