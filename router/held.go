package router

import (
	"cmp"
	"slices"
	"time"

	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

// Held is a task that is in somebody's hand.
type Held struct {
	Task   protocol.TaskID  `json:"task"`
	Holder protocol.AgentID `json:"holder"`
	Signs
}

// Signs are when the holder of a task was last heard of, as far as the daemon has
// seen since it started, when it last reached something new or began to, and by when
// either must come again: else the task stalls, and one that is not started yet, or
// stalled, is taken away.
type Signs struct {
	HeardAt      time.Time `json:"heard_at,omitzero"`
	HearBy       time.Time `json:"hear_by,omitzero"`
	ProgressedAt time.Time `json:"progressed_at,omitzero"`
	ProgressBy   time.Time `json:"progress_by,omitzero"`
}

// heldMost is how many held tasks a status lists; those that are missed next come
// first.
const heldMost = 1000

// Held lists the tasks that are in somebody's hand, the one whose holder is missed
// next first.
func (d *Decider) Held() []Held {
	list := make([]Held, 0, len(d.plan.held))
	for t := range d.plan.held {
		list = append(list, d.held(t))
	}
	slices.SortFunc(list, func(a, b Held) int {
		return cmp.Or(a.next().Compare(b.next()), cmp.Compare(a.Task, b.Task))
	})
	return list[:min(len(list), heldMost)]
}

// next is when the task stalls, or is taken away, if nothing comes.
func (h Held) next() time.Time {
	if !h.ProgressBy.IsZero() && h.ProgressBy.Before(h.HearBy) {
		return h.ProgressBy
	}
	return h.HearBy
}

func (d *Decider) held(t *task.Task) Held {
	book, s := d.state.Tasks, &d.settings.Tasks
	h := Held{Task: t.ID, Holder: t.Holder, Signs: Signs{HeardAt: book.Time(d.plan.signs[t.Holder]), ProgressedAt: book.Time(t.Progressed)}}
	switch t.State {
	case task.Pending:
		h.HearBy = book.Time(book.Running(t.Since).Add(s.Lease))
	case task.InProgress:
		h.HearBy, h.ProgressBy = book.Time(d.alive(t)), book.Time(d.progress(t))
	case task.Stalled:
		h.HearBy = book.Time(book.Running(t.Since).Add(s.StallGrace))
	case task.Retrying, task.Unassigned, task.Offered, task.Paused, task.Blocked, task.Completed, task.Failed, task.Cancelled:
	}
	return h
}
