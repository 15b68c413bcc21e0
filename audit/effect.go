package audit

import (
	"fmt"
	"iter"
	"strings"

	"github.com/hived/hived/eventlog"
	"github.com/hived/hived/gitcommit"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/ledger"
	"github.com/hived/hived/protocol"
)

// effect is what follows from one event by itself. It is worked out on all
// cores while the log is read.
type effect struct {
	changes []protocol.Change // with git ids, without bytes
	err     error             // why there are none
	differs bool              // of a message: its bytes are not what the log gives as delivered
	human   bool              // of a message: the sender asked for a person
}

// named is the work of who needs no more than git ids. What a message delivers
// has its id in the event.
func named(ev protocol.Event) any {
	x := &effect{}
	if e, ok := ev.Body.(*protocol.MessageEvent); ok && !e.Blob.IsZero() {
		x.changes = ledger.MessageChanges(e, nil)
	} else {
		x.changes, x.err = ledger.Changes(ev)
	}
	x.name()
	return x
}

// examined is the work of a check: [named], and messages are made again.
func examined(ev protocol.Event) any {
	e, ok := ev.Body.(*protocol.MessageEvent)
	if !ok {
		return named(ev)
	}
	data, err := ledger.Delivered(ev, e)
	if err != nil {
		return &effect{err: err}
	}
	x := &effect{changes: ledger.MessageChanges(e, data), differs: protocol.BlobOf(data) != e.Blob || len(data) != e.Size}
	if strings.Contains(e.Raw, "human") || strings.Contains(e.Raw, `\u`) { // else the field is not there
		m, err := protocol.DecodeMessage([]byte(e.Raw))
		x.human = err == nil && m.NeedsHuman
	}
	x.name()
	return x
}

// name puts ids into the place of bytes.
func (x *effect) name() { nameAll(x.changes) }

func nameAll(list []protocol.Change) []protocol.Change {
	for i := range list {
		c := &list[i]
		if c.Op == protocol.Put && c.Blob.IsZero() {
			c.Blob = protocol.BlobOf(c.Data)
		}
		c.Data = nil
	}
	return list
}

// effects gives the events after a position with what work found.
func effects(disk durable.FS, after eventlog.Position, work eventlog.Work) iter.Seq2[eventlog.Record, error] {
	return func(yield func(eventlog.Record, error) bool) {
		for rec, err := range eventlog.Map(disk, after, work) {
			if err == nil {
				err = effectOf(rec).err
			}
			if err != nil {
				yield(eventlog.Record{}, fmt.Errorf("read the log: %w", err))
				return
			}
			if !yield(rec, nil) {
				return
			}
		}
	}
}

func effectOf(rec eventlog.Record) *effect {
	x, _ := rec.Value.(*effect) // all work here gives one
	return x
}

// history gives all events as git needs them.
func history(disk durable.FS) iter.Seq2[gitcommit.Event, error] {
	return func(yield func(gitcommit.Event, error) bool) {
		views := ledger.NewViews(ledger.New(windows))
		for rec, err := range effects(disk, eventlog.Position{}, named) {
			if err != nil {
				yield(gitcommit.Event{}, err)
				return
			}
			views.Fold(rec.Event)
			ev := gitEvent(rec)
			ev.Views = func() []protocol.Change { return nameAll(views.Take()) }
			if !yield(ev, nil) {
				return
			}
		}
	}
}

func gitEvent(rec eventlog.Record) gitcommit.Event {
	return gitcommit.Event{Seq: rec.Event.Seq, Sum: rec.Sum.String(), Changes: effectOf(rec).changes}
}

// noSegment stands for the ids of sealed segments in a tree of which nobody asks
// for them: their content is the log's own business.
func noSegment(string) (protocol.Blob, error) { return protocol.Blob{}, nil }
