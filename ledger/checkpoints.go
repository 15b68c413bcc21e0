package ledger

import (
	"fmt"

	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

// Checkpoints restores whole checkpoints from the patches that events hold. For a caller
// that reads a log in order, or asks for the newest, the checkpoint before is mostly
// in memory; else the chain of patches is read back to a checkpoint that was logged
// whole, which is never far (see [task.Task.MayPatch]).
type Checkpoints struct {
	recall func(protocol.Seq) (protocol.Event, error)
	last   map[protocol.TaskID]lastCheckpoint
	bytes  int
}

// lastCheckpoint is the newest checkpoint of a task that was seen.
type lastCheckpoint struct {
	at protocol.Seq
	*protocol.Checkpoint
}

// How many bytes and checkpoints are kept in memory.
const (
	checkpointBytes = 8 << 20
	checkpointTasks = 1 << 12
)

// NewCheckpoints returns Checkpoints that read with recall the events that they do
// not have in memory.
func NewCheckpoints(recall func(protocol.Seq) (protocol.Event, error)) *Checkpoints {
	return &Checkpoints{recall: recall, last: map[protocol.TaskID]lastCheckpoint{}}
}

// Fill sets Whole of the checkpoint that comes with an event, if there is one.
func (w *Checkpoints) Fill(ev protocol.Event) error {
	e, ok := ev.Body.(*protocol.TaskEvent)
	if !ok || e.Checkpoint == nil {
		return nil
	}
	c := e.Checkpoint
	if c.Patch == nil {
		c.Whole = c.Data
	} else if c.Whole == nil {
		last, err := w.At(e.Task, c.After)
		if err != nil {
			return fmt.Errorf("read the checkpoint that event %d patches: %w", ev.Seq, err)
		}
		if c.Whole, err = task.MergePatch(last.Data, c.Patch); err != nil {
			return fmt.Errorf("patch a checkpoint by event %d: %w", ev.Seq, err)
		}
	}
	w.keep(e.Task, lastCheckpoint{ev.Seq, &protocol.Checkpoint{Milestone: c.Milestone, Schema: c.Schema, SHA256: c.SHA256, Data: c.Whole}})
	return nil
}

// At returns the whole checkpoint that an event brought a task.
func (w *Checkpoints) At(id protocol.TaskID, seq protocol.Seq) (*protocol.Checkpoint, error) {
	if last, ok := w.last[id]; ok && last.at == seq {
		return last.Checkpoint, nil
	}
	ev, err := w.recall(seq)
	if err == nil {
		err = w.Fill(ev)
	}
	if err != nil {
		return nil, err
	}
	if last, ok := w.last[id]; ok && last.at == seq {
		return last.Checkpoint, nil
	}
	return nil, fmt.Errorf("event %d is no checkpoint of task %s", seq, id)
}

// DataIn returns the bytes that an event puts at a path; nil if it puts none.
func (w *Checkpoints) DataIn(ev protocol.Event, path string) ([]byte, error) {
	if err := w.Fill(ev); err != nil {
		return nil, err
	}
	changes, err := Changes(ev)
	for _, c := range changes {
		if c.Op == protocol.Put && c.Path == path {
			return c.Data, nil
		}
	}
	return nil, err
}

func (w *Checkpoints) keep(id protocol.TaskID, x lastCheckpoint) {
	if was, ok := w.last[id]; ok {
		w.bytes -= len(was.Data)
	}
	if w.bytes += len(x.Data); w.bytes > checkpointBytes || len(w.last) > checkpointTasks {
		clear(w.last)
		w.bytes = len(x.Data)
	}
	w.last[id] = x
}
