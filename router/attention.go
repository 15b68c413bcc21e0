package router

import (
	"cmp"
	"container/heap"
	"slices"
	"time"

	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

// attention is what is remembered of one agent between two looks at it.
type attention struct {
	id       protocol.AgentID
	force    bool          // with the inbox: also for delivered files that were changed in place
	again    time.Time     // an unsettled file wants another look; zero: none
	ownLate  time.Time     // own files that may be versioned again only then; zero: none
	poll     time.Time     // nobody tells of this agent, so it is looked at then; zero: the rescan does
	pace     time.Duration // between two such looks; zero: none is due
	listed   time.Time     // when the inbox was looked at
	listNext bool          // the inbox wants a look, inboxEvery after that
	began    task.Moment   // when the round of its outbox began that is under way
	heard    task.Moment   // when the last one began that has ended: what was there then was taken in
	doubted  time.Time     // since when so many messages are gone that it may be an accident; zero: they are not
	acted    time.Time     // when the agent last did something that is in the log
	swept    time.Time     // when retention was looked at
	relieved time.Time     // and when because of too many files

	due   time.Time // the earliest of these moments, zero: none; kept by timers
	place int       // among the timers, from 1; zero: not there
}

// attentionRoot is the same for what belongs to no agent.
type attentionRoot struct {
	agents   bool
	own      bool
	believed bool      // the files that agents believe are to be looked at
	late     time.Time // board.md may be versioned again only then; zero: at once
}

// wants are the agents that something has to be looked at of.
type wants struct {
	look    queue // whether anything moved
	outbox  queue
	inbox   queue
	own     queue
	crowded queue // their .sent or .done holds too much
}

// queue holds agents in the order in which they asked to be looked at, each
// once. One that has more left after its turn goes to the end: so a flooding
// agent delays itself alone (spec §3, order).
type queue struct {
	list []*attention
	in   map[*attention]bool
}

func (q *queue) add(a *attention) {
	if q.in[a] {
		return
	}
	if q.in == nil {
		q.in = map[*attention]bool{}
	}
	q.in[a] = true
	q.list = append(q.list, a)
}

// take gives the agent whose turn it is; nil where nobody waits.
func (q *queue) take() *attention {
	if len(q.list) == 0 {
		return nil
	}
	a := q.list[0]
	if q.list = q.list[1:]; len(q.list) == 0 {
		q.list = nil
	}
	delete(q.in, a)
	return a
}

func (q *queue) has(a *attention) bool { return q.in[a] }

// timers orders agents by when they want a look: what is due costs something,
// and not how many agents there are.
type timers []*attention

func (t *timers) Len() int           { return len(*t) }
func (t *timers) Less(i, j int) bool { return (*t)[i].due.Before((*t)[j].due) }

func (t *timers) Swap(i, j int) {
	list := *t
	list[i], list[j] = list[j], list[i]
	list[i].place, list[j].place = i+1, j+1
}

// Push is for package heap.
func (t *timers) Push(x any) {
	a := x.(*attention) //nolint:forcetypeassert // nothing else is put in
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

// set puts an agent where the times that it holds now belong.
func (t *timers) set(a *attention) {
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

// all gives the agents that have a time, the earliest first.
func (t *timers) all() []*attention {
	return slices.SortedFunc(slices.Values(*t), func(a, b *attention) int {
		return cmp.Or(a.due.Compare(b.due), cmp.Compare(a.id, b.id))
	})
}

// until gives the agents that are due.
func (t *timers) until(now time.Time) []*attention {
	var list []*attention
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

// listDue is when the inbox is to be looked at; zero: nothing asks for it.
func (a *attention) listDue() time.Time {
	if !a.listNext {
		return time.Time{}
	}
	return a.listed.Add(inboxEvery)
}

// sooner tells whether a time is set and comes before another, or that is not.
func sooner(t, than time.Time) bool {
	return !t.IsZero() && (than.IsZero() || t.Before(than))
}

// dueTimers has those looked at whose time has come.
func (r *Router) dueTimers(now time.Time) {
	due := func(t time.Time) bool { return !t.IsZero() && (r.stopping || !now.Before(t)) }
	list := r.timers.until(now)
	if r.stopping {
		list = r.timers.all()
	}
	for _, a := range list {
		if due(a.again) {
			a.again = time.Time{}
			r.wants.outbox.add(a)
			r.wants.inbox.add(a)
		}
		if due(a.ownLate) {
			a.ownLate = time.Time{}
			r.wants.own.add(a)
		}
		if due(a.poll) {
			a.poll = time.Time{}
			r.wants.look.add(a)
		}
		if due(a.listDue()) {
			a.listNext = false
			r.wants.inbox.add(a)
		}
		r.timers.set(a)
	}
	if due(r.root.late) {
		r.root.late, r.root.own = time.Time{}, true
	}
}

// nextWake is how long nothing needs a look.
func (r *Router) nextWake(now time.Time) time.Duration {
	next := now.Add(r.cfg.Settings.Rescan)
	times := []time.Time{r.root.late, r.mark.due(r.state)}
	if len(r.timers) > 0 {
		times = append(times, r.timers[0].due)
	}
	if at := r.decider.NextTask(); at != 0 {
		times = append(times, r.state.Tasks.Time(at))
	}
	times = append(times, r.decider.NextStops(now))
	if r.news() {
		times = append(times, r.told.Add(time.Second))
	}
	for _, t := range times {
		if sooner(t, next) {
			next = t
		}
	}
	return max(next.Sub(now), time.Millisecond)
}

// lookAgain takes note of when something doubtful wants another look.
func (r *Router) lookAgain(a *attention, at time.Time) {
	if sooner(at, a.again) {
		a.again = at
		r.timers.set(a)
	}
}

// wantInbox has an inbox looked at, but not all the time.
func (r *Router) wantInbox(now time.Time, a *attention) {
	if a.force || r.stopping || now.Sub(a.listed).Abs() >= inboxEvery {
		r.wants.inbox.add(a)
		return
	}
	a.listNext = true
	r.timers.set(a)
}
