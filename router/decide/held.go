package decide

import (
	"cmp"
	"slices"
	"time"

	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

// heldMost is how many held tasks a status lists at most.
const heldMost = 1000

// Held returns the tasks that somebody has in hand, at most heldMost, ordered by when
// each stalls or is taken away if its holder stays silent.
func (d *Decider) Held() []protocol.HeldTask {
	list := make([]protocol.HeldTask, 0, len(d.plan.held))
	for t := range d.plan.held {
		list = append(list, d.held(t))
	}
	slices.SortFunc(list, func(a, b protocol.HeldTask) int {
		return cmp.Or(nextMiss(a).Compare(nextMiss(b)), cmp.Compare(a.Task, b.Task))
	})
	return list[:min(len(list), heldMost)]
}

// nextMiss returns when the task stalls, or is taken away, if nothing comes.
func nextMiss(h protocol.HeldTask) time.Time {
	if !h.ProgressBy.IsZero() && h.ProgressBy.Before(h.HearBy) {
		return h.ProgressBy
	}
	return h.HearBy
}

func (d *Decider) held(t *task.Task) protocol.HeldTask {
	book, s := d.state.Tasks, &d.settings.Tasks
	h := protocol.HeldTask{Task: t.ID, Holder: t.Holder, Signs: protocol.Signs{HeardAt: book.Time(d.plan.lastHeard[t.Holder]), ProgressedAt: book.Time(t.Progressed)}}
	switch t.State {
	case task.Pending:
		h.HearBy = book.Time(book.Running(t.Since).Add(s.Lease))
	case task.InProgress:
		h.HearBy, h.ProgressBy = book.Time(d.heartbeatEnds(t)), book.Time(d.progressEnds(t))
	case task.Stalled:
		h.HearBy = book.Time(book.Running(t.Since).Add(s.StallGrace))
	case task.Retrying, task.Unassigned, task.Offered, task.Paused, task.Blocked, task.Completed, task.Failed, task.Cancelled:
	}
	return h
}
