// Package memory decides how much memory the daemon takes: much while it is busy, and
// little in a quiet hive, whose machine has other things to do.
package memory

import (
	"math/bits"
	"runtime/debug"
	"runtime/metrics"

	"github.com/hived/hived/protocol"
)

// Memory sets how much memory the process takes. It is for one goroutine.
type Memory struct {
	collector collector
	quiet     quiet
	giveBack  func()
}

// New returns the Memory of a process that may allocate at least headroom bytes between
// garbage collections while it is busy; with zero the collector is left alone. giveBack
// returns free memory to the system; it is called when there is nothing else to do.
func New(headroom int64, giveBack func()) Memory {
	return Memory{collector: collector{headroom: headroom}, giveBack: giveBack}
}

// Begin takes over the garbage collector, if the process serves only the hive.
func (m *Memory) Begin() { m.collector.begin() }

// End restores the garbage collector.
func (m *Memory) End() { m.collector.end() }

// Busy is called for every batch: a busy hive may allocate more.
func (m *Memory) Busy() { m.collector.busy() }

// Rescanned is called at each rescan, with the newest event. If the hive is quiet, it
// gives memory back, after compact has moved scattered memory together.
func (m *Memory) Rescanned(seq protocol.Seq, compact func()) {
	if m.quiet.due(seq) {
		m.collector.quiet()
		compact()
		m.giveBack()
	}
}

// quietAfter is how many rescans without an event make a hive quiet.
const quietAfter = 5

// quiet detects that a hive is quiet, as it is most of its life. What was put off
// until then, in git above all, takes memory again, so memory is given back anew
// after twice the time, and so on.
type quiet struct {
	seq     protocol.Seq // of the last event at the last rescan
	rescans int          // since then
}

// due reports, at each rescan, whether to give memory back.
func (x *quiet) due(seq protocol.Seq) bool {
	if seq != x.seq {
		x.seq, x.rescans = seq, 0
		return false
	}
	x.rescans++
	return x.rescans%quietAfter == 0 && bits.OnesCount(uint(x.rescans/quietAfter)) == 1
}

// quietPercent is how much may be allocated beyond what is in use before a collection
// in a quiet hive: there that takes a while, and a collection disturbs nobody.
const quietPercent = 2

// collector sets how much is allocated between garbage collections. With Go's way, a
// share of what is in use alone, a small hive with much traffic would collect all the
// time.
type collector struct {
	headroom int64 // bytes that a busy hive may allocate at least
	base     int   // the percentage that was set before; if it is quietPercent or less, it stays
	now      int
}

// begin takes over the collector, if the process serves only the hive.
func (c *collector) begin() {
	if c.headroom == 0 {
		return
	}
	c.base = debug.SetGCPercent(quietPercent)
	c.now = quietPercent
	c.busy()
}

// end restores the collector.
func (c *collector) end() { c.set(c.base) }

// quiet makes the collector leave little garbage.
func (c *collector) quiet() {
	c.set(quietPercent)
}

// busy adapts the collector to what is in use now. It is called for every batch:
// what is in use can be many times as much a moment later.
func (c *collector) busy() {
	want := max(c.base, percentFor(live(), c.headroom))
	if c.now >= c.base && 4*max(want-c.now, c.now-want) < c.now {
		return // the world stops for each change
	}
	c.set(want)
}

func (c *collector) set(percent int) {
	if c.base <= quietPercent {
		percent = c.base // somebody saves memory, or collects explicitly
	}
	if percent != c.now {
		debug.SetGCPercent(percent)
		c.now = percent
	}
}

// percentFor returns the percentage of live that is headroom bytes.
func percentFor(live uint64, headroom int64) int {
	const most = 1000
	return int(min(most, 100*headroom/int64(max(live, 1<<20)))) //nolint:gosec // what is in memory is less
}

// live returns what was in use at the last collection, in bytes.
func live() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	if sample[0].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return sample[0].Value.Uint64()
}
