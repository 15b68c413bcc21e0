package task

import (
	"cmp"
	"iter"
	"slices"
	"strings"

	"github.com/hived/hived/protocol"
)

// waiting holds the tasks that go on only when somebody does something, so that what a
// status costs depends on their number alone.
type waiting struct {
	word     []*Task              // wait for somebody's word, the longest first
	wanted   map[string]*Audience // nobody has them, and they are not for everybody; by audience
	stranded []*Task              // hived took them from their holders, or they were tried in vain; in the order of their ids
}

// Audience is whom some tasks that nobody has are meant for.
type Audience struct {
	To    []protocol.Address
	Tasks []protocol.TaskID // never empty, the oldest first
}

// Word returns the tasks that wait for somebody's word, the longest first: those that
// are paused, and those blocked on no other task. The caller must not change the list.
func (b *Book) Word() []*Task { return b.waiting.word }

// Stranded returns the tasks that hived took from their holders and that nobody has had
// since, and those that failed because they were tried in vain.
func (b *Book) Stranded() iter.Seq[*Task] { return slices.Values(b.waiting.stranded) }

// Wanted returns an iterator, in no order, over the audiences of tasks that nobody has.
// Those of tasks that any agent may have are left out.
func (b *Book) Wanted() iter.Seq[Audience] {
	return func(yield func(Audience) bool) {
		for _, a := range b.waiting.wanted {
			if !yield(*a) {
				return
			}
		}
	}
}

func (t *Task) waitsForWord() bool {
	return t.State == Paused || t.State == Blocked && len(t.BlockedOn) == 0
}

func (t *Task) wanted() bool { return t.State == Unassigned && len(t.To) > 0 }

func byAge(a, b *Task) int {
	return cmp.Or(cmp.Compare(a.Since, b.Since), cmp.Compare(a.ID, b.ID))
}

// moved updates the lists for a task, given what it was before.
func (w *waiting) moved(t, was *Task) {
	if was.waitsForWord() {
		if i, found := slices.BinarySearchFunc(w.word, was, byAge); found {
			w.word = slices.Delete(w.word, i, i+1)
		}
	}
	if t.waitsForWord() {
		i, _ := slices.BinarySearchFunc(w.word, t, byAge)
		w.word = slices.Insert(w.word, i, t)
	}
	if was.Stranded != t.Stranded {
		i, found := slices.BinarySearchFunc(w.stranded, t.ID, func(x *Task, id protocol.TaskID) int { return cmp.Compare(x.ID, id) })
		if found {
			w.stranded = slices.Delete(w.stranded, i, i+1)
		} else {
			w.stranded = slices.Insert(w.stranded, i, t)
		}
	}
	if was.wanted() != t.wanted() {
		w.want(t, was)
	}
}

func (w *waiting) want(t, was *Task) {
	if t.wanted() {
		if w.wanted == nil {
			w.wanted = map[string]*Audience{}
		}
		key := audience(t.To)
		a := w.wanted[key]
		if a == nil {
			a = &Audience{To: t.To}
			w.wanted[key] = a
		}
		i, _ := slices.BinarySearch(a.Tasks, t.ID)
		a.Tasks = slices.Insert(a.Tasks, i, t.ID)
		return
	}
	key := audience(was.To)
	a := w.wanted[key]
	if a == nil {
		return
	}
	switch i, found := slices.BinarySearch(a.Tasks, was.ID); {
	case !found:
	case len(a.Tasks) == 1:
		delete(w.wanted, key)
	case i == 0: // as they go, the oldest first
		a.Tasks = a.Tasks[1:]
	default:
		a.Tasks = slices.Delete(a.Tasks, i, i+1)
	}
}

func audience(list []protocol.Address) string {
	var b strings.Builder
	for _, to := range list {
		b.WriteString(string(to))
		b.WriteByte(' ')
	}
	return b.String()
}
