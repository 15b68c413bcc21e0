package router

import (
	"runtime"
	"testing"
	"time"

	"github.com/hived/hived/internal/wait"
	"github.com/hived/hived/ledger"
	"github.com/hived/hived/protocol"
)

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

	var x rest
	n := 0
	for range 10*restAfter + 1 { // the first is news
		if x.due(7) {
			n++
		}
	}
	if n != 4 { // after 5, 10, 20 and 40
		t.Errorf("memory was given back %d times in one quiet time", n)
	}
}

// TestQuietHiveWithoutGit gives memory back too.
func TestQuietHiveWithoutGit(t *testing.T) {
	r := &Router{state: ledger.New(protocol.DefaultSettings().Remember)}
	r.collector.begin()
	defer r.collector.end()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	r.giveBack()
	r.rest.beside.Wait()
	if runtime.ReadMemStats(&after); after.NumForcedGC == before.NumForcedGC {
		t.Error("no memory was given back")
	}
}
