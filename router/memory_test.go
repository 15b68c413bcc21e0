package router

import (
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"

	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/internal/wait"
)

// TestCollector: a busy hive may allocate its headroom, a quiet one little, and
// what somebody set comes back.
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

// TestRest: a hive that has become quiet gives memory back, ever more rarely.
func TestRest(t *testing.T) {
	forced := func() uint32 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.NumForcedGC
	}
	h := newHive(t, "alice", "bob")
	h.settings.Rescan = 10 * time.Millisecond
	before := forced()
	h.up()
	h.send("alice", "1", `{"to":"bob","id":"m1","body":"x"}`)
	h.delivery("m1")
	wait.Until(t, "memory to be given back", func() bool { return forced() != before }, h.story)
	h.down()

	var x quiet
	n := 0
	for range 10*quietAfter + 1 { // the first is news
		if x.due(7) {
			n++
		}
	}
	if n != 4 { // after 5, 10, 20 and 40
		t.Errorf("memory was given back %d times in one quiet time", n)
	}
}

// TestQuietHive compacts its state and gives memory back, with git and without.
func TestQuietHive(t *testing.T) {
	t.Parallel()
	var did []string
	m := memory{giveBack: func() { did = append(did, "give back") }}
	for range quietAfter {
		m.rescanned(7, func() { did = append(did, "compact") })
	}
	if len(did) != 0 {
		t.Errorf("before it was quiet: %v", did)
	}
	m.rescanned(7, func() { did = append(did, "compact") })
	if diff := cmp.Diff([]string{"compact", "give back"}, did); diff != "" {
		t.Error(diff)
	}
}

// TestQuietHiveWithoutGit gives memory back itself.
func TestQuietHiveWithoutGit(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	var g gitWatch
	var beside errgroup.Group
	g.giveBack(&beside)
	testenv.Must(t, beside.Wait())
	if runtime.ReadMemStats(&after); after.NumForcedGC == before.NumForcedGC {
		t.Error("no memory was given back")
	}
}
