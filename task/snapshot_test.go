package task

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/protocol"
)

func records(b *Book) []string {
	var list []string
	for r := range b.Records() {
		list = append(list, string(r))
	}
	return list
}

// restored returns the book that records lead to, read as from a snapshot.
func restored(tb testing.TB, list []string) *Book {
	tb.Helper()
	b := NewBook()
	for _, r := range list {
		testenv.Must(tb, b.Restore([]byte(r)))
	}
	return b
}

// sameBook compares all that a book holds except how far it has been restored.
var sameBook = cmp.Options{cmp.AllowUnexported(Book{}, Task{}, waiting{}, lineage{}), cmpopts.IgnoreFields(Book{}, "restored", "newest")}

// everyBook returns a book with a task in every state, and tasks that wait.
func everyBook(tb testing.TB) *Book {
	tb.Helper()
	s := newStory(tb)
	for i, state := range States() {
		id := protocol.TaskID("01M7YW2XY9P0EW1X9MFVTQ89" + string(rune('A'+i)) + "0")
		s.seq, s.now = s.seq+1, s.now.Add(1)
		other := in(tb, state)
		for _, step := range other.Get(one).history.steps() {
			e := protocol.TaskEvent{Task: id, Event: step.Event, By: step.By, Agents: step.Agents, Attempt: step.Attempt, Reason: "why", Category: protocol.AuthFailure}
			if step.Event == Create {
				e.Spec = &protocol.TaskSpec{Title: "é", Priority: -3, Approvals: 2, To: []protocol.Address{"@r"}, Approvers: []protocol.Address{"b"}}
				e.Needs, e.Resumes, e.Repairs, e.Depth = []protocol.TaskID{one}, one, one, 1
				e.Checkpoint = &protocol.Checkpoint{Milestone: "m", SHA256: "0102030405060708"}
			}
			s.do(e)
		}
	}
	s.Jumped(-7e9, s.now)
	s.Rejected(&protocol.TaskRejectedEvent{Code: protocol.CodeFenced})
	s.Wrote("01M7YW2XY9P0EW1X9MFVTQ89A0", s.seq)
	return s.Book
}

// TestSnapshot checks that a snapshot restores the same book, and has the same
// bytes when written again (spec §8).
func TestSnapshot(t *testing.T) {
	want := everyBook(t)
	list := records(want)
	got := restored(t, list)
	if diff := cmp.Diff(want, got, sameBook); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(list, records(got)); diff != "" {
		t.Error(diff)
	}
}

// TestSnapshotDamaged checks that records that are damaged, cut, too long, out of
// order or there twice are refused, or are another book that is written as it was
// read.
func TestSnapshotDamaged(t *testing.T) {
	list := records(everyBook(t))
	for i, r := range list {
		for n := range len(r) {
			b := restored(t, list[:i])
			if err := b.Restore([]byte(r[:n])); err == nil {
				t.Fatalf("record %d cut to %d of %d bytes is accepted", i, n, len(r))
			}
		}
		if err := restored(t, list[:i]).Restore([]byte(r + "\x00")); err == nil {
			t.Errorf("record %d with a byte more is accepted", i)
		}
	}
	for _, order := range [][]int{{1}, {0, 0}, {0, 1, 1}, {0, 2, 1}} {
		b := NewBook()
		var err error
		for _, i := range order {
			err = b.Restore([]byte(list[i]))
		}
		if err == nil {
			t.Errorf("the order %v is accepted", order)
		}
	}
}

// FuzzRestore checks that any record is refused or written again as it was, and
// that the book can then go on.
func FuzzRestore(f *testing.F) {
	head := records(NewBook())[0]
	for i, r := range records(everyBook(f)) {
		f.Add(i > 0, []byte(r))
	}
	f.Fuzz(func(t *testing.T, ofTask bool, record []byte) {
		b := NewBook()
		if ofTask {
			b = restored(t, []string{head})
		}
		if b.Restore(record) != nil {
			return
		}
		got := records(b)
		if got[len(got)-1] != string(record) || ofTask != (len(got) == 2) {
			t.Fatalf("%x is written as %x", record, got)
		}
		for task := range b.All() {
			if _, err := Document(task); err != nil {
				t.Log(err) // text that is not UTF-8
			}
			b.Unmet(task)
			for _, on := range Events() {
				to, _ := Next(task.State, on)
				_ = b.Apply(protocol.Event{Seq: task.Changed + 1, TS: start}, &protocol.TaskEvent{Task: task.ID, Event: on, From: task.State, To: to, Epoch: task.Epoch, By: "alice"})
			}
			b.Forget(task.ID)
		}
		b.Report(start)
	})
}
