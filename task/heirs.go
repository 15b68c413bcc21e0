package task

import (
	"slices"

	"github.com/hived/hived/protocol"
)

// Past is what is known about an ended task that was forgotten: how it ended, and
// where the log has what a task that resumes it goes on from.
type Past struct {
	ID                    protocol.TaskID
	State                 State
	BriefAt, CheckpointAt protocol.Seq
}

// grave is a [Past] without its id, in few bytes because many are kept.
type grave struct {
	briefAt, checkpointAt protocol.Seq
	state                 byte // its code
}

// pastMost is how many forgotten tasks are remembered by default.
const pastMost = 1 << 16

// lineage is what is known about ended tasks: those that were forgotten, which task
// resumes which, and which ones that needed another failed or were cancelled.
type lineage struct {
	past  map[protocol.TaskID]grave
	left  []protocol.TaskID                     // forgotten tasks, in the order in which they were forgotten
	most  int                                   // how many of them are known, the last ones
	heirs map[protocol.TaskID][]protocol.TaskID // the tasks that resume a task; each list in order
	kin   map[protocol.TaskID][]protocol.TaskID // the failed tasks that needed a task; each list in order

	chains map[protocol.TaskID][]protocol.TaskID // the tasks of a chain but its first, by that; each list in order
}

func newLineage() lineage {
	return lineage{past: map[protocol.TaskID]grave{}, most: pastMost, heirs: map[protocol.TaskID][]protocol.TaskID{}, kin: map[protocol.TaskID][]protocol.TaskID{}, chains: map[protocol.TaskID][]protocol.TaskID{}}
}

// entered notes a task that was created or restored, and ended of one that
// failed or was cancelled.
func (l *lineage) entered(t *Task) {
	if was := t.Terms().Resumes; was != "" {
		insert(l.heirs, was, t.ID)
	}
	if t.Origin() != t.ID {
		insert(l.chains, t.Origin(), t.ID)
	}
	l.ended(t)
}

func (l *lineage) ended(t *Task) {
	for _, need := range t.Lacked() {
		insert(l.kin, need, t.ID)
	}
}

// leaves records a task that is forgotten.
func (l *lineage) leaves(t *Task) {
	if was := t.Terms().Resumes; was != "" {
		remove(l.heirs, was, t.ID)
	}
	if t.Origin() != t.ID {
		remove(l.chains, t.Origin(), t.ID)
	}
	for _, need := range t.Lacked() {
		remove(l.kin, need, t.ID)
	}
	if Ended(t.State) {
		l.bury(Past{t.ID, t.State, t.BriefAt, t.CheckpointAt})
	}
}

func (l *lineage) bury(p Past) {
	if _, known := l.past[p.ID]; !known {
		l.left = append(l.left, p.ID)
	}
	l.past[p.ID] = grave{p.BriefAt, p.CheckpointAt, code(stateCodes, p.State)}
	for len(l.left) > l.most {
		delete(l.past, l.left[0])
		l.left = l.left[1:]
	}
}

func insert(in map[protocol.TaskID][]protocol.TaskID, key, id protocol.TaskID) {
	if i, found := slices.BinarySearch(in[key], id); !found {
		in[key] = slices.Insert(in[key], i, id)
	}
}

func remove(in map[protocol.TaskID][]protocol.TaskID, key, id protocol.TaskID) {
	i, found := slices.BinarySearch(in[key], id)
	if !found {
		return
	}
	if in[key] = slices.Delete(in[key], i, i+1); len(in[key]) == 0 {
		delete(in, key)
	}
}

// Remember sets how many forgotten tasks are known, the last ones. It is called
// before the first event.
func (b *Book) Remember(most int) { b.line.most = most }

// Past returns what is known about a forgotten task.
func (b *Book) Past(id protocol.TaskID) (p Past, known bool) { return b.line.find(id) }

func (l *lineage) find(id protocol.TaskID) (p Past, known bool) {
	g, known := l.past[id]
	if !known {
		return Past{}, false
	}
	return Past{id, stateCodes[g.state], g.briefAt, g.checkpointAt}, true
}

// StateOf returns the state of a task, or that in which a forgotten one ended.
func (b *Book) StateOf(id protocol.TaskID) (s State, known bool) {
	if t := b.tasks[id]; t != nil {
		return t.State, true
	}
	p, known := b.line.find(id)
	return p.State, known
}

// Heir returns the task that stands for one that others need: itself, unless it has
// failed or was cancelled; then the newest that resumes it, directly or through
// others, and has not failed itself. If all have, live is false, and heir is the last
// of them.
func (b *Book) Heir(id protocol.TaskID) (heir protocol.TaskID, live bool) {
	if s, known := b.StateOf(id); known && s != Failed && s != Cancelled {
		return id, true
	}
	heir = id
	for _, next := range slices.Backward(b.line.heirs[id]) {
		h, live := b.Heir(next)
		if live {
			return h, true
		}
		if heir == id {
			heir = h
		}
	}
	return heir, false
}

// Kin returns the tasks that needed one and have failed or were cancelled, in the
// order of their ids.
func (b *Book) Kin(id protocol.TaskID) []protocol.TaskID { return slices.Clone(b.line.kin[id]) }

func (l *lineage) encode(w *writer) {
	w.uvarint(uint64(len(l.left)))
	for _, id := range l.left {
		p, _ := l.find(id)
		w.text(string(id))
		w.text(string(p.State))
		w.uvarint(uint64(p.BriefAt))
		w.uvarint(uint64(p.CheckpointAt))
	}
}

func (l *lineage) decode(r *reader) {
	for n := r.uvarint(); n > 0 && !r.short; n-- {
		p := Past{protocol.TaskID(r.text()), State(r.text()), protocol.Seq(r.uvarint()), protocol.Seq(r.uvarint())}
		if r.short = r.short || !Ended(p.State); !r.short {
			l.bury(p)
		}
	}
}
