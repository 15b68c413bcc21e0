package ledger

import (
	"errors"
	"fmt"

	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

// Changes returns what an event does to the versioned tree (spec §6): on the
// disk, in git, and in a replay. It depends on the event alone. The error says
// that the event's content cannot be decoded.
func Changes(ev protocol.Event) ([]protocol.Change, error) {
	r := protocol.Handle[result](ev, effects{})
	return r.changes, r.err
}

// MessageChanges is [Changes] for a message event whose delivered bytes the
// caller already has.
func MessageChanges(e *protocol.MessageEvent, delivered []byte) []protocol.Change {
	list := make([]protocol.Change, 0, len(e.Delivered)+1)
	for _, id := range e.Delivered {
		if id != protocol.Hive {
			list = append(list, protocol.Change{Op: protocol.Put, Path: protocol.InboxDir(id) + "/" + e.File, Data: delivered, Blob: e.Blob})
		}
	}
	if e.Sent != "" {
		list = append(list, put(protocol.SentDir(e.From)+"/"+e.Sent, []byte(e.Raw)))
	}
	return list
}

// Delivered returns the bytes that a message's recipients got, computed from the
// event.
func Delivered(ev protocol.Event, e *protocol.MessageEvent) ([]byte, error) {
	m, err := protocol.DecodeMessage([]byte(e.Raw))
	if err != nil {
		return nil, fmt.Errorf("read message %s of seq %d again: %w", e.ID, ev.Seq, err)
	}
	data, err := protocol.Deliver(m, e.Set, ev.Seq, ev.TS)
	if err != nil {
		return nil, fmt.Errorf("write message %s of seq %d again: %w", e.ID, ev.Seq, err)
	}
	return data, nil
}

type result struct {
	changes []protocol.Change
	err     error
}

func only(list ...protocol.Change) result { return result{changes: list} }

func put(path string, data []byte) protocol.Change {
	return protocol.Change{Op: protocol.Put, Path: path, Data: data}
}

// effects computes the changes of each kind of event.
type effects struct{}

func (effects) OnHive(_ protocol.Event, e *protocol.HiveEvent) result {
	switch {
	case e.Action == protocol.Sealed && e.Segment != nil:
		return only(protocol.Change{Op: protocol.PutFile, Path: protocol.PathSegments + "/" + e.Segment.Name})
	case e.Action == protocol.Adopted && e.Adopted != nil:
		return only(put(e.Adopted.Path, e.Adopted.Content.Bytes()))
	case e.Action == protocol.Swept:
		list := make([]protocol.Change, 0, len(e.Paths))
		for _, p := range e.Paths {
			list = append(list, protocol.Change{Op: protocol.Delete, Path: p})
		}
		return result{changes: list}
	}
	return result{}
}

func (effects) OnAgent(protocol.Event, *protocol.AgentEvent) result { return result{} }

func (effects) OnMessage(ev protocol.Event, e *protocol.MessageEvent) result {
	data, err := Delivered(ev, e)
	if err != nil {
		return result{err: err}
	}
	return result{changes: MessageChanges(e, data)}
}

func (effects) OnDrop(protocol.Event, *protocol.DropEvent) result { return result{} }

func (effects) OnQuarantine(_ protocol.Event, e *protocol.QuarantineEvent) result {
	if e.Content == nil {
		return result{}
	}
	return only(put(e.Path, e.Content.Bytes()))
}

func (effects) OnDuplicate(_ protocol.Event, e *protocol.DuplicateEvent) result {
	return only(put(protocol.SentDir(e.Agent)+"/"+e.Sent, []byte(e.Raw)))
}

func (effects) OnHandled(_ protocol.Event, e *protocol.HandledEvent) result {
	inbox, done := protocol.InboxDir(e.Agent)+"/"+e.File, protocol.DoneDir(e.Agent)+"/"+e.File
	switch e.How {
	case protocol.HowDone:
		return only(protocol.Change{Op: protocol.Move, From: inbox, Path: done})
	case protocol.HowReopened:
		return only(protocol.Change{Op: protocol.Move, From: done, Path: inbox})
	case protocol.HowUndeleted:
		return only(put(inbox, e.Content.Bytes()))
	case protocol.HowDeleted:
	}
	return only(protocol.Change{Op: protocol.Delete, Path: inbox})
}

func (effects) OnDelivered(_ protocol.Event, e *protocol.DeliveredEvent) result {
	data := e.Content.Bytes()
	list := make([]protocol.Change, 0, len(e.To))
	for _, id := range e.To {
		list = append(list, protocol.Change{Op: protocol.Put, Path: protocol.InboxDir(id) + "/" + e.File, Data: data, Blob: e.Blob})
	}
	return result{changes: list}
}

func (effects) OnFile(_ protocol.Event, e *protocol.FileEvent) result {
	if e.Deleted || e.Content == nil {
		return only(protocol.Change{Op: protocol.Delete, Path: e.Path})
	}
	return only(put(e.Path, e.Content.Bytes()))
}

func (effects) OnTask(ev protocol.Event, e *protocol.TaskEvent) result {
	changes, err := task.Changes(ev, e)
	return result{changes, err}
}

func (effects) OnTaskRejected(protocol.Event, *protocol.TaskRejectedEvent) result { return result{} }

func (effects) OnAlert(protocol.Event, *protocol.AlertEvent) result { return result{} }

// DeliveredBytes returns the bytes that an event put into an inbox. The error is
// [ErrNoEvent] for an event that delivers nothing.
func DeliveredBytes(ev protocol.Event) ([]byte, error) {
	changes, err := Changes(ev)
	if err != nil {
		return nil, err
	}
	for _, p := range Placements(ev, changes) {
		if p.Class == Delivery || p.Class == Handled && p.Op == protocol.Put {
			return p.Data, nil
		}
	}
	return nil, ErrNoEvent
}

// ErrNoEvent is returned when the log has no such event, or has one of another
// kind.
var ErrNoEvent = errors.New("it is not in the log")
