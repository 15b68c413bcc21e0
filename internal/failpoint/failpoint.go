// Package failpoint names the moments between two steps of hived that only belong
// together: a file is written and has no name yet, an event is durable and nothing of
// it is carried out. In a program that was linked with [Arm] the variable
// HIVED_FAILPOINT kills the process at one of them, as SIGKILL does: "log-written", or
// "log-written:3" for the third time. In any other program [Hit] compares one name and
// does nothing.
//
// After such a death the disk has what the kernel holds; what a power cut leaves of it
// is for other tests.
package failpoint

import (
	"os"
	"strconv"
	"strings"
	"sync/atomic"
)

// Point is the name of a moment.
type Point string

// The moments of eventlog, mailbox, router and gitcommit, in the order in which they
// occur there.
const (
	OpenCopied  Point = "open-copied"  // the open segment is copied, the copy is not in its place
	LogWritten  Point = "log-written"  // a batch is written, not synced
	LogSynced   Point = "log-synced"   // it is accepted, nothing of it is carried out
	SealNamed   Point = "seal-named"   // the open segment has its second name
	SealWritten Point = "seal-written" // the next segment is written and synced, without its name
	SealRenamed Point = "seal-renamed" // it is log.jsonl, its directory is not synced

	DeliveryWritten Point = "delivery-written" // an inbox file has a temporary name
	DeliveryNamed   Point = "delivery-named"   // it has its own
	OriginalMoved   Point = "original-moved"   // an original is in .sent
	FileRemoved     Point = "file-removed"     // a swept file is gone

	Redone           Point = "redone"            // recovery placed everything again, and logged nothing
	RecoveryLogged   Point = "recovery-logged"   // `started` is in the log, originals are still to be looked for
	CarriedOut       Point = "carried-out"       // all of a batch is in its place
	CheckpointSynced Point = "checkpoint-synced" // everything is on the disk, `settled` is not logged
	SnapshotWritten  Point = "snapshot-written"  // not synced, under a temporary name
	SnapshotSynced   Point = "snapshot-synced"
	SnapshotRenamed  Point = "snapshot-renamed"

	PackWritten  Point = "pack-written"  // a pack is written and synced, without its name
	PackNamed    Point = "pack-named"    // the pack has its name, its index not
	PackIndexed  Point = "pack-indexed"  // both have theirs, no branch refers to them
	RefLocked    Point = "ref-locked"    // git's lock on the branch is taken
	RefMoved     Point = "ref-moved"     // the branch names the new commit, nothing is synced
	IndexWritten Point = "index-written" // git's index is written under a temporary name
	IndexLocked  Point = "index-locked"  // git's lock on the index is taken
	IndexPlaced  Point = "index-placed"
	PacksMerged  Point = "packs-merged" // the merged pack is there, and those that it replaces
)

// Points returns all points.
func Points() []Point {
	return []Point{
		OpenCopied, LogWritten, LogSynced, SealNamed, SealWritten, SealRenamed,
		DeliveryWritten, DeliveryNamed, OriginalMoved, FileRemoved,
		Redone, RecoveryLogged, CarriedOut, CheckpointSynced, SnapshotWritten, SnapshotSynced, SnapshotRenamed,
		PackWritten, PackNamed, PackIndexed, RefLocked, RefMoved, IndexWritten, IndexLocked, IndexPlaced, PacksMerged,
	}
}

// Variable names the point at which a program linked with [Arm] dies.
const Variable = "HIVED_FAILPOINT"

// Arm is for go build -ldflags: a program linked with it obeys [Variable]. A build tag
// would do the same, but everything would be compiled a second time.
const Arm = "-X github.com/hived/hived/internal/failpoint.minds=yes"

var (
	minds       string // set by the linker
	armed, left = arm()
)

// arm returns the point that kills, and at which of its occurrences it does.
func arm() (Point, *atomic.Int64) {
	var left atomic.Int64
	if minds == "" {
		return "", &left
	}
	name, times, _ := strings.Cut(os.Getenv(Variable), ":")
	n, err := strconv.ParseInt(times, 10, 64)
	if times != "" && err != nil {
		panic(Variable + ": not a number of times: " + times)
	}
	left.Store(max(n, 1))
	return Point(name), &left
}

// Hit kills the process if the point is the armed one and has occurred often enough.
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
