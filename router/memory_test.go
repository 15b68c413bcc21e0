package router

import (
	"runtime"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/internal/wait"
)

// TestRest checks that a hive that has become quiet gives memory back.
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
}

// TestQuietHiveWithoutGit checks that a quiet hive without git gives memory back itself.
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
