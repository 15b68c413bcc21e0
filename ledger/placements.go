package ledger

import (
	"path"
	"strings"

	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

// Class is the kind of a [Placement]: how the disk is made to agree with it.
type Class uint8

// The classes.
const (
	Delivery   Class = iota + 1 // a message in an inbox
	Redelivery                  // an unread message that is to be written again; another event has its bytes
	Original                    // a file of an outbox, in .sent: moved there, or written there if it is gone
	Aside                       // what took the name of a message in an inbox, in .done
	Handled                     // a message that its agent moved or deleted: done again if a crash undid it
	Swept                       // a file that retention removes
	Own                         // a file of hived's own: a task's, or PROTOCOL.md
	Lock                        // the lock of a step: an empty file that git does not have; From is the record beside it, and the data are the boot of the intent
	View                        // a file that shows the state, see [State.View]
)

// Placement is what one event does to one file of the work tree, as the daemon
// carries it out, the first time and again after a crash. Data is nil where
// nothing is written, for Redelivery and View, for what had no bytes worth
// keeping, and where the event has only the git id (see [Checkpoints.DataIn]).
type Placement struct {
	Class           Class
	Agent           protocol.AgentID   // in whose directories the file is; empty for hived's own
	Of              protocol.Seq       // the event that brought the file; zero for Redelivery and View, where the state has it
	protocol.Change                    // to the versioned tree, where the event has one for the file (see [Changes])
	Original        *protocol.Original // for Original: the file in the outbox; nil for what an older hive had archived
}

// Placements returns what an event, whose [Changes] are given, does to the files of
// the work tree: deliveries first, then the original, and the view last. Files that
// agents write themselves are left out, except for what they do to their messages.
func Placements(ev protocol.Event, changes []protocol.Change) []Placement {
	p := placer{ev.Seq, make([]Placement, 0, len(changes)+1)}
	switch e := ev.Body.(type) {
	case *protocol.MessageEvent:
		n := len(changes)
		if e.Sent != "" {
			n--
		}
		p.all(Delivery, changes[:n])
		for _, c := range changes[n:] {
			p.one(Original, c).Original = e.Original
		}
	case *protocol.DeliveredEvent:
		p.all(Delivery, changes)
	case *protocol.QuarantineEvent:
		p.quarantine(e, changes)
	case *protocol.DuplicateEvent:
		p.one(Original, changes[0]).Original = e.Original
	case *protocol.HandledEvent:
		class := Handled
		if e.How == protocol.HowUndeleted {
			class = Delivery
		}
		p.one(class, changes[0]).Of = e.Of
	case *protocol.HiveEvent:
		switch {
		case e.Action == protocol.Swept:
			p.sweep(changes)
		case e.Adopted != nil:
			p.one(adoptedAs(changes[0].Path), changes[0])
		}
	case *protocol.FileEvent:
		if e.By == protocol.Hive {
			p.all(Own, changes)
		}
	case *protocol.TaskEvent:
		p.task(e, changes)
	case *protocol.AlertEvent:
		if e.Code == protocol.CodeAltered && e.Agent != "" {
			p.one(Redelivery, put(e.Path, nil)).Of = 0
		}
	case *protocol.AgentEvent, *protocol.DropEvent, *protocol.TaskRejectedEvent:
	}
	if view := ChangesView(ev); view != "" {
		p.one(View, put(view, nil)).Of = 0
	}
	return p.list
}

// placer lists the placements of one event.
type placer struct {
	seq  protocol.Seq
	list []Placement
}

func (p *placer) one(class Class, c protocol.Change) *Placement {
	p.list = append(p.list, Placement{Class: class, Agent: ownerOf(c.Path), Of: p.seq, Change: c})
	return &p.list[len(p.list)-1]
}

func (p *placer) all(class Class, changes []protocol.Change) {
	for _, c := range changes {
		p.one(class, c)
	}
}

// sweep removes files, and the lock of a step with its record.
func (p *placer) sweep(changes []protocol.Change) {
	for _, c := range changes {
		p.one(Swept, c)
		if lock := protocol.LockOf(c.Path); lock != "" {
			p.one(Swept, protocol.Change{Op: protocol.Delete, Path: lock})
		}
	}
}

// task places the files of a task; of a step that begins the lock comes before the
// record, which says that it is there.
func (p *placer) task(e *protocol.TaskEvent, changes []protocol.Change) {
	if e.Event == task.StepStarted {
		p.one(Lock, protocol.Change{Op: protocol.Put, Path: protocol.LockOf(changes[0].Path), From: changes[0].Path, Data: []byte(e.Step.Boot)})
	}
	p.all(Own, changes)
}

func (p *placer) quarantine(e *protocol.QuarantineEvent, changes []protocol.Change) {
	c := put(e.Path, nil)
	if len(changes) > 0 {
		c = changes[0]
	}
	if e.Code != protocol.CodeAltered {
		p.one(Original, c).Original = e.Original
		return
	}
	c.From = protocol.InboxDir(e.Agent) + "/" + protocol.AsideFile(path.Base(e.Path))
	p.one(Aside, c)
}

// adoptedAs returns the class of a file that an older hive left in a mailbox.
func adoptedAs(p string) Class {
	switch id := ownerOf(p); path.Dir(p) {
	case protocol.SentDir(id):
		return Original
	case protocol.DoneDir(id):
		return Handled
	}
	return Delivery
}

// Belongs returns the path at which the file that a placement brought belongs now, as
// of the last event folded. It is empty if the file is gone, or if another event's
// file has its place. A message that was handled since belongs in .done, one that was
// taken back in the inbox. For a removal, it is the path at which there is a file of
// that name again.
func (s *State) Belongs(p Placement) string {
	switch p.Class {
	case Delivery, Aside:
		return s.inMailbox(p.Agent, path.Base(p.Path), p.Of)
	case Redelivery, Swept:
		if _, there := s.BoxFile(p.Path); there {
			return p.Path
		}
	case Handled:
		if p.Op == protocol.Put {
			return s.inMailbox(p.Agent, path.Base(p.Path), p.Of)
		}
		return s.inMailbox(p.Agent, path.Base(p.Path), 0)
	case Original:
		// What has no bytes in the log is never swept: there is no other copy.
		if l, _ := s.BoxFile(p.Path); l.Of == p.Of || p.Data == nil && p.Blob.IsZero() {
			return p.Path
		}
	case Own:
		if s.wrote(p) {
			return p.Path
		}
	case Lock:
		if id, name := taskFile(p.Path); s.Tasks.HasLock(id, name) {
			return p.Path
		}
	case View:
		if s.hasView(p.Path) {
			return p.Path
		}
	}
	return ""
}

// inMailbox returns the path of the unread or handled message of a name that an event
// brought, or, if of is zero, that any event brought; empty if there is none.
func (s *State) inMailbox(id protocol.AgentID, name string, of protocol.Seq) string {
	for _, dir := range []string{protocol.InboxDir(id), protocol.DoneDir(id)} {
		if l, there := s.BoxFile(dir + "/" + name); there && (of == 0 || l.Of == of) {
			return dir + "/" + name
		}
	}
	return ""
}

// wrote reports whether a file of hived's own is still as an event wrote it.
func (s *State) wrote(p Placement) bool {
	if s.hasView(p.Path) {
		return false
	}
	if id, name := taskFile(p.Path); id != "" {
		return s.Tasks.Has(id, name, p.Of)
	}
	blob := p.Blob
	if blob.IsZero() {
		blob = protocol.BlobOf(p.Data)
	}
	return s.Files[p.Path].Blob == blob
}

// BoxFile returns the file at a path in a mailbox, as of the last event folded, and
// whether there is one.
func (s *State) BoxFile(p string) (BoxFile, bool) {
	a, dir, name := s.locate(p)
	if a == nil {
		return BoxFile{}, false
	}
	switch dir {
	case protocol.InboxDir(a.ID):
		return a.Inbox.Get(name)
	case protocol.DoneDir(a.ID):
		return a.Done.Get(name)
	case protocol.SentDir(a.ID):
		return a.Sent.Get(name)
	}
	return BoxFile{}, false
}

// ownerOf returns the agent whose directory a path is below; empty for any other path.
func ownerOf(p string) protocol.AgentID {
	rest, ok := strings.CutPrefix(p, protocol.PathAgents+"/")
	if !ok {
		return ""
	}
	id, _, _ := strings.Cut(rest, "/")
	return protocol.AgentID(id)
}
