package place

import (
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/ledger"
	"github.com/hived/hived/mailbox"
	"github.com/hived/hived/protocol"
)

// Options are what a [Placer] works with. All are required.
type Options struct {
	Disk        durable.FS
	Boxes       *mailbox.Boxes
	State       *ledger.State       // as of the newest event; read only
	Checkpoints *ledger.Checkpoints // the checkpoints that patches refer to
	Log         *slog.Logger
	MaxBytes    int64 // of a message
	Loop        Loop
}

// Loop makes the decisions of a [Placer], and logs them.
type Loop interface {
	// SetAside logs that the file under the name of a message in an inbox is moved
	// to .done/as, with its bytes, if it has any. It returns when that is durable.
	SetAside(now time.Time, id protocol.AgentID, file string, data []byte) (as string, err error)
}

// Placer carries out placements, and tries those again that the disk refused. It
// belongs to one goroutine.
type Placer struct {
	disk        durable.FS
	boxes       *mailbox.Boxes
	state       *ledger.State
	checkpoints *ledger.Checkpoints
	log         *slog.Logger
	max         int64
	loop        Loop

	originals map[original]archivePlace // accepted files that still stand in an outbox
	queue     queue
	restoring bool // the queue holds what a person took away; it is emptied before the daemon ends
}

// New returns a placer with an empty retry queue.
func New(opt Options) *Placer {
	return &Placer{
		disk: opt.Disk, boxes: opt.Boxes, state: opt.State, checkpoints: opt.Checkpoints, log: opt.Log, max: opt.MaxBytes, loop: opt.Loop,
		originals: map[original]archivePlace{},
		queue:     newQueue(),
	}
}

// original identifies an outbox file.
type original struct {
	agent protocol.AgentID
	file  protocol.Original
}

// originalFile returns the identity of a file without its ctime, which each rename
// changes: the file may be moved there and back.
func originalFile(id protocol.AgentID, o protocol.Original) original {
	o.CTime = ""
	return original{id, o}
}

// archivePlace is where an accepted original belongs.
type archivePlace struct {
	as    string
	seq   protocol.Seq
	swept bool // retention has let it go meanwhile
}

// Backlog is what is not in its place yet.
type Backlog struct {
	Files     int          // placements that the disk refused
	Originals int          // accepted files that still stand in an outbox
	Inboxes   int          // inboxes that vanished and are being filled
	Settled   protocol.Seq // nothing of the events up to this one is among them
}

// Backlog returns what is not in its place yet, as of the newest event.
func (pl *Placer) Backlog() Backlog {
	q := &pl.queue
	b := Backlog{Files: len(q.items) - q.fresh, Originals: len(pl.originals), Inboxes: len(q.fill), Settled: pl.state.Seq}
	if b.Files > 0 { // else there is nothing to look for, however much waits to be tried
		for _, x := range q.items {
			if x.refused {
				b.Settled = min(b.Settled, x.of-1)
			}
		}
	}
	for _, f := range pl.originals {
		b.Settled = min(b.Settled, f.seq-1)
	}
	return b
}

// Pending reports whether a file of an agent's is not in its place yet.
func (pl *Placer) Pending(id protocol.AgentID) bool {
	if pl.queue.of[id] > 0 {
		return true
	}
	for x := range pl.originals {
		if x.agent == id {
			return true
		}
	}
	return false
}

// FilePending reports whether what belongs at a path is not in its place yet.
func (pl *Placer) FilePending(p string) bool { return pl.queue.items[p] != nil }

// Put writes a file of hived's own as it is after the newest event.
func (pl *Placer) Put(p string, data []byte) {
	pl.try(&item{class: ledger.Own, of: pl.state.Seq, path: p, data: data})
}

// agents lists the roster in name order.
func (pl *Placer) agents() []protocol.AgentID {
	return slices.Sorted(maps.Keys(pl.state.Agents))
}
