package audit

import (
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/hived/hived/eventlog"
	"github.com/hived/hived/gitcommit"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/ledger"
	"github.com/hived/hived/protocol"
)

// windows bound what a check keeps of ids and conversations: it decides
// nothing, so what is long ago does not matter.
var windows = protocol.RememberSettings{IDs: 1 << 16, Conversations: 1 << 10}

// fold is what the log says, kept while it is read. Its memory is bounded by
// what is alive: the files that should be there and the unread messages.
type fold struct {
	pos   eventlog.Position
	state *ledger.State
	tree  *gitcommit.Tree // what the versioned files should be
	open  map[protocol.Seq]*account
	wrong func(Finding)
}

func newFold(wrong func(Finding)) *fold {
	return &fold{state: ledger.New(windows), tree: gitcommit.NewTree(), open: map[protocol.Seq]*account{}, wrong: wrong}
}

// account is one message of which it is not yet known what became of it for
// everybody (spec §4.8).
type account struct {
	id    protocol.MessageID
	owed  map[protocol.Address]bool // by whom it is named, and who was neither given it nor dropped
	group bool                      // it goes to a group too, and nobody has it yet
}

// patience is after how many events a message must be accounted for. hived
// writes its drops right behind it.
const patience = 1 << 12

// add folds one event.
func (f *fold) add(rec eventlog.Record, changes []protocol.Change) error {
	ev := rec.Event
	f.check(ev)
	f.state.Apply(ev)
	f.pos = eventlog.Position{Seq: ev.Seq, Sum: rec.Sum}
	// A segment's content is the log's own business: its place is enough here.
	_, err := f.tree.Apply(changes, func(string) (protocol.Blob, error) { return protocol.Blob{}, nil })
	return err
}

// catchUp folds what the log holds by now.
func (f *fold) catchUp(disk durable.FS) error {
	for _, err := range history(disk, f.pos, f.add) {
		if err != nil {
			return err
		}
	}
	return nil
}

// history gives the events after a position as git needs them. Where also is
// not nil it sees each of them first.
func history(disk durable.FS, after eventlog.Position, also func(eventlog.Record, []protocol.Change) error) iter.Seq2[gitcommit.Event, error] {
	return func(yield func(gitcommit.Event, error) bool) {
		for rec, err := range eventlog.Read(disk, after) {
			var changes []protocol.Change
			if err == nil {
				changes, err = ledger.Changes(rec.Event)
			}
			if err == nil && also != nil {
				err = also(rec, changes)
			}
			if err != nil {
				yield(gitcommit.Event{}, fmt.Errorf("read the log: %w", err))
				return
			}
			if !yield(gitcommit.Event{Seq: rec.Event.Seq, Sum: rec.Sum.String(), Changes: changes}, nil) {
				return
			}
		}
	}
}

// check holds an event against the state before it.
func (f *fold) check(ev protocol.Event) {
	switch e := ev.Body.(type) {
	case *protocol.MessageEvent:
		f.message(ev, e)
	case *protocol.DropEvent:
		f.drop(e)
	case *protocol.HandledEvent:
		f.handled(ev, e)
	case *protocol.DuplicateEvent:
		of, _, known := f.state.Seen(e.Agent, e.ID)
		if e.Of >= ev.Seq || known && of != e.Of {
			f.wrong(found(codeDuplicateOf, "", "the log says that the message repeats event %d, which did not accept it", e.Of).about(ev.Seq, e.ID))
		}
	case *protocol.HiveEvent, *protocol.AgentEvent, *protocol.QuarantineEvent, *protocol.FileEvent, *protocol.AlertEvent:
	}
	if ev.Seq%patience == 0 {
		f.settle(ev.Seq - patience/2)
	}
}

// message opens the account of a message: every address must be delivered to
// or dropped.
func (f *fold) message(ev protocol.Event, e *protocol.MessageEvent) {
	data, err := ledger.Delivered(ev, e)
	if err != nil || protocol.BlobOf(data) != e.Blob || len(data) != e.Size {
		f.wrong(found(codeMessageDiffers, "", "its bytes are not those that the log gives as delivered").about(ev.Seq, e.ID))
	}
	a := &account{id: e.ID, owed: map[protocol.Address]bool{}}
	for _, to := range e.To {
		f.owe(a, to)
	}
	if m, err := protocol.DecodeMessage([]byte(e.Raw)); err == nil && m.NeedsHuman {
		f.owe(a, protocol.Address(protocol.Human))
	}
	for _, id := range e.Delivered {
		delete(a.owed, protocol.Address(id))
		a.group = false
	}
	if len(a.owed) > 0 || a.group {
		f.open[ev.Seq] = a
	}
}

// owe notes whom an address means.
func (f *fold) owe(a *account, to protocol.Address) {
	_, role := to.Role()
	switch id := protocol.AgentID(to); {
	case role, id == protocol.Broadcast:
		a.group = true
	case (id == protocol.Lead || id == protocol.God) && f.state.Lead != "":
		a.owed[protocol.Address(f.state.Lead)] = true
	default:
		a.owed[to] = true
	}
}

func (f *fold) drop(e *protocol.DropEvent) {
	a := f.open[e.Of]
	if a == nil {
		return
	}
	for _, to := range e.To {
		delete(a.owed, to)
		a.group = false
	}
	if len(a.owed) == 0 && !a.group {
		delete(f.open, e.Of)
	}
}

func (f *fold) handled(ev protocol.Event, e *protocol.HandledEvent) {
	known := false
	if a := f.state.Agents[e.Agent]; a != nil {
		if e.How == protocol.HowReopened {
			_, known = a.Done[e.File]
		} else {
			_, known = a.Inbox[e.File]
		}
	}
	if !known {
		f.wrong(found(codeHandledUnknown, protocol.InboxDir(e.Agent)+"/"+protocol.SafeName(e.File), "the log says %s, of a message that %s did not have", e.How, e.Agent).about(ev.Seq, e.ID))
	}
}

// settle reports the messages up to an event that are still not accounted for.
func (f *fold) settle(through protocol.Seq) {
	for _, seq := range slices.Sorted(maps.Keys(f.open)) {
		if seq > through {
			break
		}
		a := f.open[seq]
		delete(f.open, seq)
		who := slices.Sorted(maps.Keys(a.owed))
		if a.group {
			who = append(who, "a group")
		}
		f.wrong(found(codeNotConserved, "", "the log neither delivered nor dropped it for %s", few(who)).about(seq, a.id))
	}
}

// balance holds the counts of each agent against each other: delivered =
// unread + handled (spec §4.8).
func (f *fold) balance() {
	for _, a := range f.state.Roster() {
		if unread := uint64(len(a.Inbox)); a.Delivered != unread+a.Handled {
			f.wrong(found(codeCountDiffers, protocol.InboxDir(a.ID), "%s was given %d messages, handled %d and has %d unread", a.ID, a.Delivered, a.Handled, unread))
		}
	}
}

// few lists at most five names.
func few[S ~string](names []S) string {
	const most = 5
	text := ""
	for i, n := range names {
		if i == most {
			return fmt.Sprintf("%s and %d more", text, len(names)-most)
		}
		if i > 0 {
			text += ", "
		}
		text += string(n)
	}
	return text
}
