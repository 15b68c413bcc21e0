package audit

import (
	"maps"
	"path"
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
	pos    eventlog.Position
	state  *ledger.State
	tree   *gitcommit.Tree // what the versioned files should be
	views  *ledger.Views   // which are not in the tree yet
	open   map[protocol.Seq]*account
	wholes *ledger.Wholes
	wrong  func(Finding)
}

func newFold(disk durable.FS, wrong func(Finding)) *fold {
	state := ledger.New(windows)
	return &fold{state: state, tree: gitcommit.NewTree(), views: ledger.NewViews(state), open: map[protocol.Seq]*account{}, wholes: wholesOf(disk), wrong: wrong}
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

// add folds one event, whose [effect] is at hand.
func (f *fold) add(rec eventlog.Record) error {
	ev, x := rec.Event, effectOf(rec)
	f.check(ev, x)
	f.state.Apply(ev)
	f.views.Note(ev)
	f.pos = eventlog.Position{Seq: ev.Seq, Sum: rec.Sum}
	_, err := f.tree.Apply(x.changes, noSegment)
	return err
}

// render brings the views in the tree up to the last event, and gives them.
func (f *fold) render() []protocol.Change {
	list := nameAll(f.views.Take())
	if _, err := f.tree.Apply(list, noSegment); err != nil {
		panic(err) // it puts files of hived's own, whose directories are in memory
	}
	return list
}

// catchUp folds what the log holds by now.
func (f *fold) catchUp(disk durable.FS) error {
	for rec, err := range effects(disk, f.pos, examined) {
		if err == nil {
			err = f.add(rec)
		}
		if err != nil {
			return err
		}
	}
	f.render()
	return nil
}

// check holds an event against the state before it.
func (f *fold) check(ev protocol.Event, x *effect) {
	protocol.Handle[none](ev, checks{f, x})
	if ev.Seq%patience == 0 {
		f.settle(ev.Seq - patience/2)
	}
}

// checks has the check of each kind of event.
type checks struct {
	*fold
	x *effect
}

type none = struct{}

func (f checks) OnDuplicate(ev protocol.Event, e *protocol.DuplicateEvent) none {
	of, _, known := f.state.Seen(e.Agent, e.ID)
	if e.Of >= ev.Seq || known && of != e.Of {
		f.wrong(found(protocol.CodeDuplicateOf, "", "the log says that the message repeats event %d, which did not accept it", e.Of).about(ev.Seq, e.ID))
	}
	return none{}
}

func (checks) OnHive(protocol.Event, *protocol.HiveEvent) none                 { return none{} }
func (checks) OnAgent(protocol.Event, *protocol.AgentEvent) none               { return none{} }
func (checks) OnQuarantine(protocol.Event, *protocol.QuarantineEvent) none     { return none{} }
func (checks) OnFile(protocol.Event, *protocol.FileEvent) none                 { return none{} }
func (checks) OnTaskRejected(protocol.Event, *protocol.TaskRejectedEvent) none { return none{} }
func (checks) OnAlert(protocol.Event, *protocol.AlertEvent) none               { return none{} }

// OnTask makes a checkpoint whole of which the event holds a patch, and holds it
// against the id that the event gives it: files and history have that one.
func (f checks) OnTask(ev protocol.Event, e *protocol.TaskEvent) none {
	if e.Checkpoint == nil {
		return none{}
	}
	// What is made whole here is not kept in the state, which has the event too.
	own, c := *e, *e.Checkpoint
	own.Checkpoint, ev.Body = &c, &own
	if err := f.wholes.Fill(ev); err != nil {
		f.wrong(found(protocol.CodeCheckpointDiffers, "", "%v", err).about(ev.Seq, ""))
		return none{}
	}
	if c.Patch == nil {
		return none{}
	}
	changes, err := ledger.Changes(ev)
	if err != nil {
		f.wrong(found(protocol.CodeCheckpointDiffers, "", "%v", err).about(ev.Seq, ""))
		return none{}
	}
	for _, x := range changes {
		if path.Base(x.Path) == protocol.TaskCheckpoint && protocol.BlobOf(x.Data) != c.Blob {
			f.wrong(found(protocol.CodeCheckpointDiffers, "", "its patch does not give the checkpoint of task %s that it names", e.Task).about(ev.Seq, ""))
		}
	}
	return none{}
}

// OnMessage opens the account of a message: every address must be delivered to
// or dropped.
func (f checks) OnMessage(ev protocol.Event, e *protocol.MessageEvent) none {
	if f.x.differs {
		f.wrong(found(protocol.CodeMessageDiffers, "", "its bytes are not those that the log gives as delivered").about(ev.Seq, e.ID))
	}
	owed, group := f.owed(e, f.x)
	got := e.Delivered
	if e.Kept != nil {
		got = slices.Concat(got, e.Kept.To)
	}
	owed = slices.DeleteFunc(owed, func(to protocol.Address) bool { return slices.Contains(got, protocol.AgentID(to)) })
	group = group && len(got) == 0
	if len(owed) == 0 && !group {
		return none{}
	}
	a := &account{id: e.ID, owed: make(map[protocol.Address]bool, len(owed)), group: group}
	for _, to := range owed {
		a.owed[to] = true
	}
	f.open[ev.Seq] = a
	return none{}
}

// owed gives whom a message's addresses mean, and whether a group is among them.
func (f *fold) owed(e *protocol.MessageEvent, x *effect) (owed []protocol.Address, group bool) {
	for _, to := range e.To {
		_, role := to.Role()
		switch id := protocol.AgentID(to); {
		case role, id == protocol.Broadcast:
			group = true
		case (id == protocol.Lead || id == protocol.God) && f.state.Lead != "":
			owed = append(owed, protocol.Address(f.state.Lead))
		default:
			owed = append(owed, to)
		}
	}
	if x.human {
		owed = append(owed, protocol.Address(protocol.Human))
	}
	return owed, group
}

func (f checks) OnDrop(_ protocol.Event, e *protocol.DropEvent) none {
	a := f.open[e.Of]
	if a == nil {
		return none{}
	}
	for _, to := range e.To {
		delete(a.owed, to)
		a.group = false
	}
	if len(a.owed) == 0 && !a.group {
		delete(f.open, e.Of)
	}
	return none{}
}

// OnDelivered holds the delivery of a message that was kept against what the log
// keeps: it was kept for these, and has the bytes that it says.
func (f checks) OnDelivered(ev protocol.Event, e *protocol.DeliveredEvent) none {
	for _, id := range e.To {
		if !f.state.Keeps(e.Of, e.Conversation, id) {
			f.wrong(found(protocol.CodeNotConserved, "", "the log delivers it to %s, for whom it was not kept", id).about(ev.Seq, e.ID))
		}
	}
	if data := e.Content.Bytes(); protocol.BlobOf(data) != e.Blob || len(data) != e.Size {
		f.wrong(found(protocol.CodeMessageDiffers, "", "its bytes are not those that the log gives as delivered").about(ev.Seq, e.ID))
	}
	return none{}
}

func (f checks) OnHandled(ev protocol.Event, e *protocol.HandledEvent) none {
	known := false
	if a := f.state.Agents[e.Agent]; a != nil {
		_, known = a.Inbox.Get(e.File)
		switch e.How {
		case protocol.HowDone, protocol.HowDeleted:
		case protocol.HowReopened:
			_, known = a.Done.Get(e.File)
		case protocol.HowUndeleted:
			known = !known
		}
	}
	if !known {
		f.wrong(found(protocol.CodeHandledUnknown, protocol.InboxDir(e.Agent)+"/"+protocol.SafeName(e.File), "the log says %s, of a message that %s did not have", e.How, e.Agent).about(ev.Seq, e.ID))
	}
	return none{}
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
		f.wrong(found(protocol.CodeNotConserved, "", "the log neither delivered nor dropped it for %s", few(who)).about(seq, a.id))
	}
}

// balance holds the counts of each agent against each other: delivered =
// unread + handled (spec §4.8).
func (f *fold) balance() {
	for _, a := range f.state.Roster() {
		unread := uint64(a.Inbox.Len()) //nolint:gosec // a length is not negative
		if a.Delivered != unread+a.Handled {
			f.wrong(found(protocol.CodeCountDiffers, protocol.InboxDir(a.ID), "%s was given %d messages, handled %d and has %d unread", a.ID, a.Delivered, a.Handled, unread))
		}
	}
}

// few lists at most five names.
func few[S ~string](names []S) string {
	return protocol.Few(names, 5, func(name string) string { return name })
}
