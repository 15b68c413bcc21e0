package task

import (
	"bytes"
	"encoding/binary"
	"errors"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/hived/hived/protocol"
)

// Records returns an iterator over the records of a book for a snapshot: first what
// belongs to no task, then each task. The same book gives the same bytes. A record is
// valid until the next one.
func (b *Book) Records() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		w := writer{}
		b.head(&w)
		if !yield(w.b) {
			return
		}
		for t := range b.All() {
			w.b = w.b[:0]
			t.encode(&w)
			if !yield(w.b) {
				return
			}
		}
	}
}

var errRecord = errors.New("a task is not written as it should be")

// Restore adds a record to a book; records come in their order. It is an error if
// [Book.Records] would not write the same bytes.
func (b *Book) Restore(record []byte) error {
	r, again := reader{b: record}, writer{}
	if !b.restored {
		b.restored = true
		b.decodeHead(&r)
		b.head(&again)
		return same(&r, record, again.b)
	}
	t := decodeTask(&r)
	if t == nil || t.ID <= b.newest {
		return errRecord
	}
	t.encode(&again)
	b.tasks[t.ID], b.newest = t, t.ID
	b.line.entered(t)
	b.wait(t, nil, t.waitsFor())
	b.waiting.moved(t, &Task{})
	return same(&r, record, again.b)
}

// same returns an error if the same value would be written in other bytes.
func same(r *reader, record, again []byte) error {
	if r.short || !bytes.Equal(record, again) {
		return errRecord
	}
	return nil
}

// writer is the counterpart of reader.
type writer struct{ b []byte }

func (w *writer) uvarint(n uint64) { w.b = binary.AppendUvarint(w.b, n) }
func (w *writer) varint(n int64)   { w.b = binary.AppendVarint(w.b, n) }
func (w *writer) text(s string)    { w.b = appendText(w.b, s) }
func (w *writer) int(n int)        { w.varint(int64(n)) }

func (w *writer) flag(set bool) {
	if set {
		w.uvarint(1)
		return
	}
	w.uvarint(0)
}

func writeList[S ~string](w *writer, list []S) {
	w.uvarint(uint64(len(list)))
	for _, s := range list {
		w.text(string(s))
	}
}

func readList[S ~string](r *reader) []S {
	var list []S
	for n := r.uvarint(); n > 0 && !r.short; n-- {
		list = append(list, S(r.text()))
	}
	return list
}

// head writes the names that codes stand for, because another version of the
// table may number them differently.
func (b *Book) head(w *writer) {
	writeList(w, eventCodes)
	writeList(w, stateCodes)
	w.varint(int64(b.shift))
	w.varint(int64(b.clocks))
	w.varint(int64(b.set))
	w.uvarint(uint64(b.views))
	s := &b.Stats
	writeMap(w, s.States, func(n int) { w.int(n) })
	writeMap(w, s.Spent, func(d time.Duration) { w.varint(int64(d)) })
	writeMap(w, s.Transitions, w.uvarint)
	writeMap(w, s.Rejected, w.uvarint)
	for _, n := range []uint64{s.Executions, s.Retries, s.Recoveries} {
		w.uvarint(n)
	}
	w.varint(int64(s.Recovering))
	b.line.encode(w)
	b.encodeSteps(w)
	b.made.encode(w)
	if len(b.stopped) > 0 { // few heads have it, and none of before did
		writeList(w, b.AllStopped())
	}
}

func (b *Book) decodeHead(r *reader) {
	readList[Event](r) // those of this version, or it is not the same
	readList[State](r)
	b.shift, b.clocks, b.set, b.views = time.Duration(r.varint()), Moment(r.varint()), Moment(r.varint()), protocol.Seq(r.uvarint())
	s := &b.Stats
	readMap(r, s.States, func() int { return int(r.varint()) })
	readMap(r, s.Spent, func() time.Duration { return time.Duration(r.varint()) })
	readMap(r, s.Transitions, r.uvarint)
	readMap(r, s.Rejected, r.uvarint)
	for _, n := range []*uint64{&s.Executions, &s.Retries, &s.Recoveries} {
		*n = r.uvarint()
	}
	s.Recovering = time.Duration(r.varint())
	b.line.decode(r)
	b.decodeSteps(r)
	b.made.decode(r)
	if len(r.b) > 0 {
		b.stopped = map[protocol.TaskID]bool{}
		for _, id := range readList[protocol.TaskID](r) {
			b.stopped[id] = true
		}
	}
}

func writeMap[K ~string, V any](w *writer, m map[K]V, value func(V)) {
	w.uvarint(uint64(len(m)))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		w.text(string(k))
		value(m[k])
	}
}

func readMap[K ~string, V any](r *reader, m map[K]V, value func() V) {
	for n := r.uvarint(); n > 0 && !r.short; n-- {
		k := K(r.text())
		m[k] = value()
	}
}

func (t *Task) encode(w *writer) {
	terms := t.Terms()
	for _, s := range []string{string(t.ID), t.Title, string(t.Creator), string(terms.Resumes), string(terms.Origin), string(terms.Repairs), string(terms.Unwinds), string(terms.UnwoundBy), string(t.State), string(t.Holder), string(t.Category), t.Reason, t.Milestone} {
		w.text(s)
	}
	writeList(w, t.To)
	writeList(w, t.Needs())
	writeList(w, t.Lacked())
	writeList(w, terms.Approvers)
	writeList(w, t.Offered)
	writeList(w, t.Declined)
	writeList(w, t.BlockedOn)
	writeList(w, t.Questions.Votes())
	writeList(w, t.takers)
	w.int(t.Attempt)
	for _, m := range t.moments() {
		w.varint(int64(*m))
	}
	for _, seq := range t.seqs() {
		w.uvarint(uint64(*seq))
	}
	w.uvarint(t.Epoch)
	for _, n := range t.shorts(&terms) {
		w.int(int(*n))
	}
	w.flag(terms.Derived)
	w.flag(t.Gated)
	w.flag(t.Stranded)
	w.flag(t.Spent)
	w.flag(t.Reminded)
	w.flag(t.Advanced)
	w.b = append(w.b, t.CheckpointSum[:]...)
	w.varint(t.created)
	w.varint(int64(t.shift))
	t.Questions.encode(w)
	t.Left.encode(w)
	efforts := t.Efforts()
	for _, n := range efforts.counts() {
		w.int(int(*n))
	}
	w.uvarint(uint64(efforts.At))
	w.text(string(t.history))
}

func (t *Task) shorts(terms *Terms) []*int32 {
	return []*int32{&t.Priority, &t.Retries, &t.links, &t.patched, &terms.Depth, &terms.Generation, &terms.Needed, &t.Version, &t.Rounds, &t.Ignored, &t.Fruitless}
}

func (t *Task) moments() []*Moment {
	return []*Moment{&t.Since, &t.NotBefore, &t.Until, &t.Expected, &t.Progressed, &t.Cancelling, &t.Broken, &t.Pause}
}

func (t *Task) seqs() []*protocol.Seq {
	return []*protocol.Seq{&t.CheckpointAt, &t.ResultAt, &t.BriefAt, &t.Changed, &t.Viewed}
}

func decodeTask(r *reader) *Task {
	t, terms := &Task{}, Terms{}
	t.ID, t.Title, t.Creator = protocol.TaskID(r.text()), r.text(), protocol.AgentID(r.text())
	terms.Resumes, terms.Origin, terms.Repairs = protocol.TaskID(r.text()), protocol.TaskID(r.text()), protocol.TaskID(r.text())
	terms.Unwinds, terms.UnwoundBy = protocol.TaskID(r.text()), protocol.TaskID(r.text())
	t.State, t.Holder, t.Category, t.Reason, t.Milestone = State(r.text()), protocol.AgentID(r.text()), protocol.Category(r.text()), r.text(), r.text()
	t.To, t.needs = readList[protocol.Address](r), readList[protocol.TaskID](r)
	t.needs = append(t.needs, readList[protocol.TaskID](r)...)
	terms.Approvers = readList[protocol.Address](r)
	t.Offered, t.Declined, t.BlockedOn = readList[protocol.AgentID](r), readList[protocol.AgentID](r), readList[protocol.TaskID](r)
	votes := readList[protocol.AgentID](r)
	t.takers = readList[protocol.AgentID](r)
	t.Attempt = int(r.varint())
	for _, m := range t.moments() {
		*m = Moment(r.varint())
	}
	for _, seq := range t.seqs() {
		*seq = protocol.Seq(r.uvarint())
	}
	t.Epoch = r.uvarint()
	for _, n := range t.shorts(&terms) {
		*n = int32(r.varint()) //nolint:gosec // refused where it is not the same
	}
	terms.Derived = r.uvarint() == 1
	t.Gated, t.Stranded = r.uvarint() == 1, r.uvarint() == 1
	t.Spent, t.Reminded, t.Advanced = r.uvarint() == 1, r.uvarint() == 1, r.uvarint() == 1
	for i := range t.CheckpointSum {
		t.CheckpointSum[i] = r.byte()
	}
	t.created, t.shift = r.varint(), time.Duration(r.varint())
	t.SetTerms(terms)
	if t.Questions = decodeQuestions(r); t.Questions != nil {
		t.Questions.Given = votes
	}
	t.Left = decodeLeaving(r)
	efforts := Efforts{}
	for _, n := range efforts.counts() {
		*n = int32(r.varint()) //nolint:gosec // refused where it is not the same
	}
	efforts.At = protocol.Seq(r.uvarint())
	t.setEfforts(efforts)
	t.history = []byte(r.text())
	if !slices.Contains(stateCodes, t.State) || !t.history.whole() {
		return nil
	}
	return t
}
