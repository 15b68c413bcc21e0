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

// checkMemory bounds how many ids and conversations a check remembers: it decides
// nothing, so it needs no old ones.
var checkMemory = protocol.RememberSettings{IDs: 1 << 16, Conversations: 1 << 10}

// fold is the state that the log amounts to, kept while it is read. Its memory is
// bounded by what is alive: the files that should exist and the unread messages.
type fold struct {
	pos         eventlog.Position
	state       *ledger.State
	tree        *gitcommit.Tree // what the versioned files should be
	views       *ledger.Views   // those that are not in the tree yet
	open        map[protocol.Seq]*account
	checkpoints *ledger.Checkpoints
	report      func(Finding)
}

func newFold(disk durable.FS, wrong func(Finding)) *fold {
	state := ledger.New(checkMemory)
	return &fold{state: state, tree: gitcommit.NewTree(), views: ledger.NewViews(state), open: map[protocol.Seq]*account{}, checkpoints: newCheckpoints(disk), report: wrong}
}

// account is a message that the log has not yet delivered or dropped for every
// recipient (spec §4.8).
type account struct {
	id    protocol.MessageID
	open  map[protocol.Address]bool // named recipients for whom it was neither delivered nor dropped
	group bool                      // it is also for a group, and nobody has it yet
}

// accountWithin is the number of events within which a message must be accounted
// for. hived writes its drops right behind it.
const accountWithin = 1 << 12

// add folds one event, which carries its [effect].
func (f *fold) add(rec eventlog.Record) error {
	ev, x := rec.Event, effectOf(rec)
	f.checkEvent(ev, x)
	f.state.Apply(ev)
	f.views.Note(ev)
	f.pos = eventlog.Position{Seq: ev.Seq, Sum: rec.Sum}
	_, err := f.tree.Apply(x.changes, noSegment)
	return err
}

// render brings the views in the tree up to the last event, and returns those that
// changed.
func (f *fold) render() []protocol.Change {
	list := setIDs(f.views.Drain())
	if _, err := f.tree.Apply(list, noSegment); err != nil {
		panic(err) // it puts files of hived's own, whose directories are in memory
	}
	return list
}

// catchUp folds what was appended to the log since.
func (f *fold) catchUp(disk durable.FS) error {
	for rec, err := range effects(disk, f.pos, checkedChangesOf) {
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

// checkEvent checks an event against the state before it.
func (f *fold) checkEvent(ev protocol.Event, x *effect) {
	protocol.Handle[none](ev, checks{f, x})
	if ev.Seq%accountWithin == 0 {
		f.reportOpen(ev.Seq - accountWithin/2)
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
		f.report(found(protocol.CodeDuplicateOf, "", "the log says that the message repeats event %d, which did not accept it", e.Of).about(ev.Seq, e.ID))
	}
	return none{}
}

func (checks) OnHive(protocol.Event, *protocol.HiveEvent) none                 { return none{} }
func (checks) OnAgent(protocol.Event, *protocol.AgentEvent) none               { return none{} }
func (checks) OnQuarantine(protocol.Event, *protocol.QuarantineEvent) none     { return none{} }
func (checks) OnFile(protocol.Event, *protocol.FileEvent) none                 { return none{} }
func (checks) OnTaskRejected(protocol.Event, *protocol.TaskRejectedEvent) none { return none{} }
func (checks) OnAlert(protocol.Event, *protocol.AlertEvent) none               { return none{} }

// OnTask restores the whole checkpoint where the event holds a patch, and compares
// it with the id in the event, which files and history have.
func (f checks) OnTask(ev protocol.Event, e *protocol.TaskEvent) none {
	if e.Checkpoint == nil {
		return none{}
	}
	// The state shares the event, so the whole checkpoint goes into a copy.
	own, c := *e, *e.Checkpoint
	own.Checkpoint, ev.Body = &c, &own
	if err := f.checkpoints.Fill(ev); err != nil {
		f.report(found(protocol.CodeCheckpointDiffers, "", "%v", err).about(ev.Seq, ""))
		return none{}
	}
	if c.Patch == nil {
		return none{}
	}
	changes, err := ledger.Changes(ev)
	if err != nil {
		f.report(found(protocol.CodeCheckpointDiffers, "", "%v", err).about(ev.Seq, ""))
		return none{}
	}
	for _, x := range changes {
		if path.Base(x.Path) == protocol.TaskCheckpoint && protocol.BlobOf(x.Data) != c.Blob {
			f.report(found(protocol.CodeCheckpointDiffers, "", "its patch does not give the checkpoint of task %s that it names", e.Task).about(ev.Seq, ""))
		}
	}
	return none{}
}

// OnMessage opens the account of a message: the log must deliver or drop it for
// every address.
func (f checks) OnMessage(ev protocol.Event, e *protocol.MessageEvent) none {
	if f.x.differs {
		f.report(found(protocol.CodeMessageDiffers, "", "its bytes are not those that the log gives as delivered").about(ev.Seq, e.ID))
	}
	open, group := f.recipients(e, f.x)
	got := e.Delivered
	if e.Kept != nil {
		got = slices.Concat(got, e.Kept.To)
	}
	open = slices.DeleteFunc(open, func(to protocol.Address) bool { return slices.Contains(got, protocol.AgentID(to)) })
	group = group && len(got) == 0
	if len(open) == 0 && !group {
		return none{}
	}
	a := &account{id: e.ID, open: make(map[protocol.Address]bool, len(open)), group: group}
	for _, to := range open {
		a.open[to] = true
	}
	f.open[ev.Seq] = a
	return none{}
}

// recipients returns the recipients that a message's addresses name, and whether a group
// is among them.
func (f *fold) recipients(e *protocol.MessageEvent, x *effect) (named []protocol.Address, group bool) {
	for _, to := range e.To {
		_, role := to.Role()
		switch id := protocol.AgentID(to); {
		case role, id == protocol.Broadcast:
			group = true
		case (id == protocol.Lead || id == protocol.God) && f.state.Lead != "":
			named = append(named, protocol.Address(f.state.Lead))
		default:
			named = append(named, to)
		}
	}
	if x.human {
		named = append(named, protocol.Address(protocol.Human))
	}
	return named, group
}

func (f checks) OnDrop(_ protocol.Event, e *protocol.DropEvent) none {
	a := f.open[e.Of]
	if a == nil {
		return none{}
	}
	for _, to := range e.To {
		delete(a.open, to)
		a.group = false
	}
	if len(a.open) == 0 && !a.group {
		delete(f.open, e.Of)
	}
	return none{}
}

// OnDelivered checks the delivery of a message that was kept: it was kept for these
// recipients, and its bytes are those that the event names.
func (f checks) OnDelivered(ev protocol.Event, e *protocol.DeliveredEvent) none {
	for _, id := range e.To {
		if !f.state.Keeps(e.Of, e.Conversation, id) {
			f.report(found(protocol.CodeNotConserved, "", "the log delivers it to %s, for whom it was not kept", id).about(ev.Seq, e.ID))
		}
	}
	if data := e.Content.Bytes(); protocol.BlobOf(data) != e.Blob || len(data) != e.Size {
		f.report(found(protocol.CodeMessageDiffers, "", "its bytes are not those that the log gives as delivered").about(ev.Seq, e.ID))
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
		f.report(found(protocol.CodeHandledUnknown, protocol.InboxDir(e.Agent)+"/"+protocol.SafeName(e.File), "the log says %s about a message that %s did not have", e.How, e.Agent).about(ev.Seq, e.ID))
	}
	return none{}
}

// reportOpen reports the messages up to an event that are not accounted for.
func (f *fold) reportOpen(through protocol.Seq) {
	for _, seq := range slices.Sorted(maps.Keys(f.open)) {
		if seq > through {
			break
		}
		a := f.open[seq]
		delete(f.open, seq)
		who := slices.Sorted(maps.Keys(a.open))
		if a.group {
			who = append(who, "a group")
		}
		f.report(found(protocol.CodeNotConserved, "", "the log neither delivered nor dropped it for %s", few(who)).about(seq, a.id))
	}
}

// checkCounts checks that for each agent delivered = unread + handled (spec §4.8).
func (f *fold) checkCounts() {
	for _, a := range f.state.Roster() {
		unread := uint64(a.Inbox.Len()) //nolint:gosec // a length is not negative
		if a.Delivered != unread+a.Handled {
			f.report(found(protocol.CodeCountDiffers, protocol.InboxDir(a.ID), "%s was given %d messages, handled %d and has %d unread", a.ID, a.Delivered, a.Handled, unread))
		}
	}
}

// few lists at most five names.
func few[S ~string](names []S) string {
	return protocol.Few(names, 5, func(name string) string { return name })
}
