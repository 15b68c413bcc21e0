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

// Records gives a book as bytes for a snapshot: first what belongs to no task,
// then each task. The same book gives the same bytes. A record is good until the
// next one.
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

// Restore takes the records in their order. What [Book.Records] would not write
// is refused.
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

// same refuses what there are other bytes for.
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
	for _, s := range []string{string(t.ID), t.Title, string(t.Creator), string(t.Resumes), string(t.Repairs), string(t.State), string(t.Holder), string(t.Category), t.Reason, t.Milestone} {
		w.text(s)
	}
	writeList(w, t.To)
	writeList(w, t.Needs)
	writeList(w, t.Lacked)
	writeList(w, t.Approvers)
	writeList(w, t.Offered)
	writeList(w, t.Declined)
	writeList(w, t.BlockedOn)
	writeList(w, t.Votes)
	writeList(w, t.takers)
	for _, n := range t.counts() {
		w.int(*n)
	}
	for _, m := range t.moments() {
		w.varint(int64(*m))
	}
	for _, seq := range t.seqs() {
		w.uvarint(uint64(*seq))
	}
	w.uvarint(t.Epoch)
	for _, n := range t.shorts() {
		w.int(int(*n))
	}
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
	w.text(string(t.history))
}

func (t *Task) counts() []*int {
	return []*int{&t.Priority, &t.Attempt, &t.Retries}
}

func (t *Task) shorts() []*int32 {
	return []*int32{&t.links, &t.patched, &t.Depth, &t.Needed, &t.Version, &t.Rounds, &t.Ignored, &t.Fruitless}
}

func (t *Task) moments() []*Moment {
	return []*Moment{&t.Since, &t.NotBefore, &t.Until, &t.Expected, &t.Progressed, &t.Cancelling, &t.Broken, &t.Pause}
}

func (t *Task) seqs() []*protocol.Seq {
	return []*protocol.Seq{&t.CheckpointAt, &t.ResultAt, &t.BriefAt, &t.Changed, &t.Viewed}
}

func decodeTask(r *reader) *Task {
	t := &Task{
		ID: protocol.TaskID(r.text()), Title: r.text(), Creator: protocol.AgentID(r.text()), Resumes: protocol.TaskID(r.text()), Repairs: protocol.TaskID(r.text()),
		State: State(r.text()), Holder: protocol.AgentID(r.text()), Category: protocol.Category(r.text()), Reason: r.text(), Milestone: r.text(),
		To: readList[protocol.Address](r), Needs: readList[protocol.TaskID](r), Lacked: readList[protocol.TaskID](r), Approvers: readList[protocol.Address](r),
		Offered: readList[protocol.AgentID](r), Declined: readList[protocol.AgentID](r), BlockedOn: readList[protocol.TaskID](r), Votes: readList[protocol.AgentID](r),
		takers: readList[protocol.AgentID](r),
	}
	for _, n := range t.counts() {
		*n = int(r.varint())
	}
	for _, m := range t.moments() {
		*m = Moment(r.varint())
	}
	for _, seq := range t.seqs() {
		*seq = protocol.Seq(r.uvarint())
	}
	t.Epoch = r.uvarint()
	for _, n := range t.shorts() {
		*n = int32(r.varint()) //nolint:gosec // refused where it is not the same
	}
	t.Gated, t.Stranded = r.uvarint() == 1, r.uvarint() == 1
	t.Spent, t.Reminded, t.Advanced = r.uvarint() == 1, r.uvarint() == 1, r.uvarint() == 1
	for i := range t.CheckpointSum {
		t.CheckpointSum[i] = r.byte()
	}
	t.created, t.shift = r.varint(), time.Duration(r.varint())
	t.Questions = decodeQuestions(r)
	t.Left = decodeLeaving(r)
	t.history = []byte(r.text())
	if !slices.Contains(stateCodes, t.State) || !t.history.whole() {
		return nil
	}
	return t
}
