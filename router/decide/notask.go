package decide

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/hived/hived/ledger"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

// openTasks knows of the tasks that nobody has which of them cannot be taken now, so
// that an agent that finds no task is told why without a look at all of them. Each
// event of a task moves it; nothing is moved as time passes, because commands are
// judged as of when they were put into the outbox, which goes back from one to the next.
type openTasks struct {
	book    *task.Book
	waiting map[*task.Task]bool // need tasks that are not completed
	later   []*task.Task        // need nothing, and may not be taken before a moment; the earliest first
	soonest queues              // the same tasks, by audience
}

func newOpenTasks(book *task.Book) openTasks {
	return openTasks{book: book, waiting: map[*task.Task]bool{}, soonest: newQueues(byNotBefore)}
}

func byNotBefore(a, b *task.Task) int {
	return cmp.Or(cmp.Compare(a.NotBefore, b.NotBefore), cmp.Compare(a.ID, b.ID))
}

// leave removes a task before an event changes it.
func (o *openTasks) leave(t *task.Task) {
	if t.State != task.Unassigned {
		return
	}
	delete(o.waiting, t)
	if t.NotBefore == 0 {
		return
	}
	if i, in := slices.BinarySearchFunc(o.later, t, o.soonest.order); in {
		o.later = without(o.later, i)
		o.soonest.remove(t)
	}
}

// enter adds a task as it is now.
func (o *openTasks) enter(t *task.Task) {
	switch {
	case t.State != task.Unassigned:
	case len(o.book.Unmet(t)) > 0:
		o.waiting[t] = true
	case t.NotBefore > 0:
		i, _ := slices.BinarySearchFunc(o.later, t, o.soonest.order)
		o.later = slices.Insert(o.later, i, t)
		o.soonest.add(t)
	}
}

// released counts the tasks anew that need the task of an event, when that may matter to
// them: it is completed, or an adoption brings it after them.
func (o *openTasks) released(t *task.Task, e *protocol.TaskEvent) {
	if t.State != task.Completed && e.From != "" {
		return
	}
	for _, id := range o.book.Children(t.ID) {
		if child := o.book.Get(id); child != nil {
			o.leave(child)
			o.enter(child)
		}
	}
}

// after returns how many tasks of a list in the order of not_before may be taken at a
// moment.
func (o *openTasks) after(list []*task.Task, at task.Moment) int {
	const last = "\xff" // no id comes after it
	i, _ := slices.BinarySearchFunc(list, &task.Task{NotBefore: at, ID: last}, o.soonest.order)
	return i
}

// next returns when a task that an agent may have can be taken first, later than at;
// zero if none is known.
func (o *openTasks) next(a *ledger.Agent, at task.Moment) (first task.Moment) {
	for _, to := range addresses(a) {
		for _, q := range o.soonest.byAddress[to] {
			if i := o.after(q.list, at); i < len(q.list) && (first == 0 || q.list[i].NotBefore < first) {
				first = q.list[i].NotBefore
			}
		}
	}
	return first
}

// unqueued returns a task that an agent may have and that is in no queue, because hived
// has not come to offer it since its time came or what it needs was completed; nil if
// there is none.
func (p *plan) unqueued(a *ledger.Agent, at task.Moment) *task.Task {
	for _, t := range p.ready {
		if eligible(t, a) && p.claimable(t, at) {
			return t
		}
	}
	for _, to := range addresses(a) {
		for _, q := range p.open.soonest.byAddress[to] {
			if q.list[0].NotBefore <= at {
				return q.list[0]
			}
		}
	}
	return nil
}

// numbersFor counts the open tasks by why an agent that could take none of them at a
// moment cannot (spec §8.2).
func (d *Decider) numbersFor(a *ledger.Agent, at task.Moment) protocol.TaskNumbers {
	var n protocol.TaskNumbers
	for state, tasks := range d.state.Tasks.Stats.States {
		if task.Ended(state) {
			continue
		}
		n.Open += tasks
		if task.Held(state) {
			n.Held += tasks
		}
	}
	open := &d.plan.open
	n.Waiting = len(open.waiting)
	n.NotYet = len(open.later) - open.after(open.later, at)
	n.NotForYou = n.Open - n.Held - n.Waiting - n.NotYet
	if next := open.next(a, at); next > 0 {
		n.Next = wholeSecond(d.state.Tasks.Time(next))
	}
	return n
}

// wholeSecond returns a time, or the next whole second: who comes at the time that was
// told must not be too early.
func wholeSecond(t time.Time) time.Time {
	whole := t.Truncate(time.Second)
	if whole.Before(t) {
		whole = whole.Add(time.Second)
	}
	return whole
}

// refuseNoTask refuses a claim of the best task where there is none for the sender, and
// says what keeps it from those that are open.
func (d *Decider) refuseNoTask(r *report, a *ledger.Agent) error {
	n := d.numbersFor(a, r.putAt)
	data := map[string]any{"open": n.Open, "held": n.Held, "waiting": n.Waiting, "not_yet": n.NotYet, "not_for_you": n.NotForYou}
	text := "there is no task that you could have now: " + numbersText(&n) + "; you are offered one when there is"
	if !n.Next.IsZero() {
		data["next"] = n.Next
		text += ". The next that you may have is free from " + n.Next.Format(time.RFC3339) + " on; to take it then, " + howToTask(r.by, task.Claim, "", 0, "", "")
	}
	return &detailed{&refusal{protocol.CodeNoTask, text}, data}
}

// numbersText says how many tasks are open, and why they cannot be had.
func numbersText(n *protocol.TaskNumbers) string {
	if n.Open == 0 {
		return "none is open"
	}
	var parts []string
	for _, p := range []struct {
		n    int
		what string
	}{{n.Held, "in somebody's hands"}, {n.Waiting, "waiting for other tasks"}, {n.NotYet, "not to be taken yet"}, {n.NotForYou, "for others"}} {
		if p.n > 0 {
			parts = append(parts, digits(p.n)+" "+p.what)
		}
	}
	return "of " + digits(n.Open) + " open, " + strings.Join(parts, ", ")
}
