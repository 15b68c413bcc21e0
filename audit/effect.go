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

// effect is what follows from one event alone, without the state. It is computed
// on all cores while the log is read.
type effect struct {
	changes []protocol.Change // with git ids, without bytes
	err     error             // why there are none
	differs bool              // the message's bytes are not those that the log gives as delivered
	human   bool              // the message's sender asked for a person
}

// changesOf is the [eventlog.Work] that finds the changes of an event with their
// git ids. A message's event has the id of what it delivers, so it is not rendered.
func changesOf(ev protocol.Event) any {
	x := &effect{}
	if e, ok := ev.Body.(*protocol.MessageEvent); ok && !e.Blob.IsZero() {
		x.changes = ledger.MessageChanges(e, nil)
	} else {
		x.changes, x.err = ledger.Changes(ev)
	}
	x.setIDs()
	return x
}

// checkedChangesOf is the work of a check: [changesOf], but messages are rendered
// again and compared with the event.
func checkedChangesOf(ev protocol.Event) any {
	e, ok := ev.Body.(*protocol.MessageEvent)
	if !ok {
		return changesOf(ev)
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
	x.setIDs()
	return x
}

// setIDs replaces the bytes of changes by their git ids.
func (x *effect) setIDs() { setIDs(x.changes) }

func setIDs(list []protocol.Change) []protocol.Change {
	for i := range list {
		c := &list[i]
		if c.Op == protocol.Put && c.Blob.IsZero() {
			c.Blob = protocol.BlobOf(c.Data)
		}
		c.Data = nil
	}
	return list
}

// effects returns the events after a position, each with its [effect].
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
	x, _ := rec.Value.(*effect) // all work in this package returns one
	return x
}

// history returns all events as package gitcommit needs them.
func history(disk durable.FS) iter.Seq2[gitcommit.Event, error] {
	return func(yield func(gitcommit.Event, error) bool) {
		views := ledger.NewViews(ledger.New(checkMemory))
		for rec, err := range effects(disk, eventlog.Position{}, changesOf) {
			if err != nil {
				yield(gitcommit.Event{}, err)
				return
			}
			views.Fold(rec.Event)
			ev := gitEvent(rec)
			ev.Views = func() []protocol.Change { return setIDs(views.Drain()) }
			if !yield(ev, nil) {
				return
			}
		}
	}
}

func gitEvent(rec eventlog.Record) gitcommit.Event {
	return gitcommit.Event{Seq: rec.Event.Seq, Sum: rec.Sum.String(), Changes: effectOf(rec).changes}
}

// noSegment returns no id for a sealed segment, for trees in which nobody looks one
// up: the check of the log covers their content.
func noSegment(string) (protocol.Blob, error) { return protocol.Blob{}, nil }
