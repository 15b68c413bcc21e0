package task

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/hived/hived/protocol"
)

// Book holds the tasks of a hive: the fold of their events.
type Book struct {
	tasks    map[protocol.TaskID]*Task
	children map[protocol.TaskID][]protocol.TaskID // which tasks wait for a task, while they wait; each list in order
	shift    time.Duration                         // by how much the clock was set while hived ran
	clocks   Moment                                // no running clock began before that
	set      Moment                                // when the machine's clock was last seen to be set
	views    protocol.Seq                          // from this event on task.json is a view; zero: it has events of its own
	waiting  waiting
	line     lineage
	made     made                            // by holders of tasks
	stopped  map[protocol.TaskID]bool        // hived could not decide about them: their clocks stand still; nil where there is none
	steps    map[protocol.TaskID]*chainSteps // of the chains of tasks that have any, by the first task of each
	Stats    Stats
	restored bool            // the head of a snapshot was read,
	newest   protocol.TaskID // and the tasks up to this one
}

// NewBook returns a book without tasks.
func NewBook() *Book {
	return &Book{tasks: map[protocol.TaskID]*Task{}, children: map[protocol.TaskID][]protocol.TaskID{}, line: newLineage(), Stats: newStats(), steps: map[protocol.TaskID]*chainSteps{}, made: made{}}
}

// Get returns the task with an id; nil if there is none.
func (b *Book) Get(id protocol.TaskID) *Task { return b.tasks[id] }

// Len returns the number of tasks.
func (b *Book) Len() int { return len(b.tasks) }

// All returns an iterator over the tasks in the order of their ids, which is that of
// their creation.
func (b *Book) All() iter.Seq[*Task] {
	return func(yield func(*Task) bool) {
		for _, id := range slices.Sorted(maps.Keys(b.tasks)) {
			if !yield(b.tasks[id]) {
				return
			}
		}
	}
}

// Moment returns the time of the hive's clock when the machine's clock shows now.
func (b *Book) Moment(now time.Time) Moment { return Moment(now.Add(-b.shift).UnixNano()) }

// Time is the inverse of Moment; the zero Moment gives the zero time.
func (b *Book) Time(m Moment) time.Time {
	if m == 0 {
		return time.Time{}
	}
	return time.Unix(0, int64(m)).Add(b.shift).UTC()
}

// Running returns when a timer that began at since counts as begun: not before hived
// last started, or saw the machine's clock jump. Nobody knows what happened until
// then, and unknown is never dead (spec §8.3).
func (b *Book) Running(since Moment) Moment { return max(since, b.clocks) }

// tick is how far the time of a file may be behind the clock of the machine: the
// kernel stamps a change with the time of its last tick.
const tick = 10 * time.Millisecond

// Put returns when a file that was found now was put in its place: its ctime, which
// its writer cannot choose. A file without a ctime counts as put there now. One from
// before the clock was set shows the time of another clock: it counts as put there
// when that was noticed.
func (b *Book) Put(ctime, now time.Time) Moment {
	at := b.Moment(now)
	if ctime.IsZero() {
		return at
	}
	return min(max(b.Moment(ctime.Add(tick)), b.set), at)
}

// Started restarts all running timers, as hived started at now.
func (b *Book) Started(now time.Time) { b.clocks = b.Moment(now) }

// Jumped records that the clock of the machine was set by some time.
func (b *Book) Jumped(by time.Duration, now time.Time) {
	b.shift += by
	b.Started(now)
	if by != 0 {
		b.set = b.clocks
	}
}

// Children returns the tasks that wait for one, in the order of their ids.
func (b *Book) Children(id protocol.TaskID) []protocol.TaskID { return slices.Clone(b.children[id]) }

// Unmet returns the tasks that a task still waits for. One that is no longer there
// was completed: any other end also ends the tasks that wait for it.
func (b *Book) Unmet(t *Task) []protocol.TaskID {
	var list []protocol.TaskID
	for _, need := range t.waitsFor() {
		if n := b.tasks[need]; n != nil && n.State != Completed {
			list = append(list, need)
		}
	}
	return list
}

// Lost returns a task that t waits for and that will never be completed; nil if there
// is none.
func (b *Book) Lost(t *Task) *Task {
	for _, need := range t.waitsFor() {
		if n := b.tasks[need]; n != nil && Ended(n.State) && n.State != Completed {
			return n
		}
	}
	return nil
}

// waitsFor returns the tasks that must be completed before a task goes on.
func (t *Task) waitsFor() []protocol.TaskID {
	switch t.State {
	case Unassigned:
		return t.needs
	case Blocked:
		return t.BlockedOn
	}
	return nil
}

// Apply folds an event. One that the table does not know changes nothing and returns
// an error; hived writes none.
func (b *Book) Apply(ev protocol.Event, e *protocol.TaskEvent) error {
	if e.Event == StepStarted || e.Event == StepEnded {
		return b.applyStep(ev, e)
	}
	if e.Event == Effort {
		return b.applyEffort(ev, e)
	}
	t := b.tasks[e.Task]
	created := t == nil
	if created {
		t = &Task{}
	}
	at := b.Moment(ev.TS)
	was := *t
	if err := t.Apply(ev, e, at); err != nil {
		return err
	}
	if created {
		b.chained(t)
		b.tasks[t.ID] = t
		b.line.entered(t)
	} else if Ended(t.State) {
		b.line.ended(t)
	}
	if e.Step != nil { // a question about it, or the answer
		b.noteStep(ev, e)
	}
	if e.From != e.To {
		b.endSilence(t)
	}
	t.shift = b.shift
	if b.views > 0 {
		t.Viewed = ev.Seq
	}
	if e.Of > 0 {
		delete(b.stopped, t.ID)
	}
	b.wait(t, was.waitsFor(), t.waitsFor())
	b.waiting.moved(t, &was)
	b.made.note(e, at)
	b.Stats.count(&was, t, e, at, b.views > 0)
	return nil
}

// wait keeps who waits for whom.
func (b *Book) wait(t *Task, before, after []protocol.TaskID) {
	for _, id := range before {
		list := b.children[id]
		i, found := slices.BinarySearch(list, t.ID)
		switch {
		case !found:
		case len(list) == 1:
			delete(b.children, id)
		case i == 0: // as they go when the one that they wait for is done
			b.children[id] = list[1:]
		default:
			b.children[id] = slices.Delete(list, i, i+1)
		}
	}
	for _, id := range after {
		if i, found := slices.BinarySearch(b.children[id], t.ID); !found {
			b.children[id] = slices.Insert(b.children[id], i, t.ID)
		}
	}
}

// Rejected counts a rejected command.
func (b *Book) Rejected(e *protocol.TaskRejectedEvent) {
	b.Stats.Rejected[e.Code]++
	delete(b.stopped, protocol.TaskID(e.Task))
}

// Stop stops the timers of a task, because hived could not decide about it, until the
// next command about the task (spec §3.10).
func (b *Book) Stop(id protocol.TaskID) {
	if b.tasks[id] == nil {
		return
	}
	if b.stopped == nil {
		b.stopped = map[protocol.TaskID]bool{}
	}
	b.stopped[id] = true
}

// Stopped reports whether the timers of a task are stopped.
func (b *Book) Stopped(id protocol.TaskID) bool { return b.stopped[id] }

// AllStopped returns the tasks whose timers are stopped, in the order of their ids.
func (b *Book) AllStopped() []protocol.TaskID { return slices.Sorted(maps.Keys(b.stopped)) }

// ViewsFrom records from which event on task.json has no events of its own; zero: it
// has. Of several calls the first counts.
func (b *Book) ViewsFrom(seq protocol.Seq) {
	if b.views == 0 || seq == 0 {
		b.views = seq
	}
}

// HasView reports whether the task.json of a task is a view, rather than the content
// of an event in a log of an earlier format.
func (b *Book) HasView(t *Task) bool { return b.views > 0 && t.Viewed >= b.views }

// Wrote records that an event holds task.json as of all events up to it.
func (b *Book) Wrote(id protocol.TaskID, seq protocol.Seq) {
	if t := b.tasks[id]; t != nil {
		t.Viewed = seq
	}
}

// Forget removes a task that ended long ago.
func (b *Book) Forget(id protocol.TaskID) {
	t := b.tasks[id]
	if t == nil {
		return
	}
	b.wait(t, t.waitsFor(), nil)
	b.waiting.moved(&Task{ID: id}, t)
	if b.lastOfChain(t) {
		delete(b.steps, t.Origin())
	}
	b.line.leaves(t)
	b.Stats.States[t.State]--
	delete(b.tasks, id)
	delete(b.stopped, id)
}

// Best compares tasks by what is to be done first: priority, then age.
func Best(a, b *Task) int {
	return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.ID, b.ID))
}
