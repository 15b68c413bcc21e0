package agenda

import (
	"cmp"
	"container/heap"
	"slices"
	"time"
)

// Queues holds the agents due for a scan, one queue per kind.
type Queues struct {
	Moved   Queue // of the times of their directories
	Outbox  Queue
	Inbox   Queue
	Own     Queue
	Crowded Queue // of .sent and .done, one of which exceeds its limit
}

// Queue holds agents in the order in which they became due, each once. An agent that has
// more left after its turn goes to the end, so one that floods delays only itself (spec
// §3, order).
type Queue struct {
	Waiting []*Agent // for reading; Add and Take change it
	in      map[*Agent]bool
}

// Add puts an agent at the end, unless it is in the queue.
func (q *Queue) Add(a *Agent) {
	if q.in[a] {
		return
	}
	if q.in == nil {
		q.in = map[*Agent]bool{}
	}
	q.in[a] = true
	q.Waiting = append(q.Waiting, a)
}

// Take removes the first agent and returns it; nil where the queue is empty.
func (q *Queue) Take() *Agent {
	if len(q.Waiting) == 0 {
		return nil
	}
	a := q.Waiting[0]
	if q.Waiting = q.Waiting[1:]; len(q.Waiting) == 0 {
		q.Waiting = nil
	}
	delete(q.in, a)
	return a
}

// timers is a heap of agents, ordered by when they are due: the cost goes by how many
// are due and not by how many there are.
type timers []*Agent

func (t *timers) Len() int           { return len(*t) }
func (t *timers) Less(i, j int) bool { return (*t)[i].due.Before((*t)[j].due) }

func (t *timers) Swap(i, j int) {
	list := *t
	list[i], list[j] = list[j], list[i]
	list[i].place, list[j].place = i+1, j+1
}

// Push is for package heap.
func (t *timers) Push(x any) {
	a := x.(*Agent) //nolint:forcetypeassert // nothing else is put in
	*t = append(*t, a)
	a.place = len(*t)
}

// Pop is for package heap.
func (t *timers) Pop() any {
	last := len(*t) - 1
	a := (*t)[last]
	(*t)[last] = nil
	*t = (*t)[:last]
	a.place = 0
	return a
}

// set moves an agent to where its times, as they are now, belong.
func (t *timers) set(a *Agent) {
	a.due = time.Time{}
	for _, at := range [...]time.Time{a.again, a.ownLate, a.poll, a.listDue()} {
		if sooner(at, a.due) {
			a.due = at
		}
	}
	switch {
	case a.due.IsZero() && a.place > 0:
		heap.Remove(t, a.place-1)
	case a.due.IsZero():
	case a.place > 0:
		heap.Fix(t, a.place-1)
	default:
		heap.Push(t, a)
	}
}

// all returns the agents that have a time, the earliest first.
func (t *timers) all() []*Agent {
	return slices.SortedFunc(slices.Values(*t), func(a, b *Agent) int {
		return cmp.Or(a.due.Compare(b.due), cmp.Compare(a.ID, b.ID))
	})
}

// until returns the agents that are due.
func (t *timers) until(now time.Time) []*Agent {
	var list []*Agent
	// A heap: below what is not due, nothing is.
	var from func(i int)
	from = func(i int) {
		if i < len(*t) && !now.Before((*t)[i].due) {
			list = append(list, (*t)[i])
			from(2*i + 1)
			from(2*i + 2)
		}
	}
	from(0)
	return list
}
