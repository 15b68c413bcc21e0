package eventlog

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/durable/faultfs"
	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/protocol"
)

func TestRoundTrip(t *testing.T) {
	disk := faultfs.New()
	want := small(t, disk)
	l, found, got, err := open(disk)
	testenv.Must(t, err)
	same(t, got, want)
	if found != (Recovery{}) {
		t.Errorf("recovered %+v from nothing", found)
	}
	if l.Next() != 10 {
		t.Errorf("next is %d", l.Next())
	}
	want = append(want, add(t, l, 3)...)
	want = append(want, seal(t, l))
	want = append(want, add(t, l, 1)...)
	all := files(t, disk)
	if int(l.Size()) != len(all[openName]) {
		t.Errorf("size %d of %d", l.Size(), len(all[openName]))
	}
	got, err = read(disk, Position{})
	testenv.Must(t, err)
	same(t, got, want)
	stats, bad := check(t, disk)
	if len(bad) > 0 {
		t.Errorf("damage: %v", bad)
	}
	size := int64(0)
	for _, data := range all {
		size += int64(len(data))
	}
	if diff := cmp.Diff(Stats{Events: 14, Segments: 3, Bytes: size, Last: 14, Sum: l.Sum()}, stats); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestReadAfter checks that Read returns what stands after each position, and that
// Line, File and LineNo are those of the file.
func TestReadAfter(t *testing.T) {
	all, want := smallFiles(t)
	disk := plant(t, all)
	var sums []protocol.Sum
	for rec, err := range Read(disk, Position{}) {
		testenv.Must(t, err)
		sums = append(sums, rec.Sum)
		if line := lineList(all[rec.File])[rec.LineNo-1]; strings.TrimSuffix(line, "\n") != string(rec.Line) {
			t.Errorf("seq %d is not line %d of %s", rec.Event.Seq, rec.LineNo, rec.File)
		}
	}
	for seq := range len(want) + 1 {
		for _, given := range []bool{false, true} {
			at := Position{Seq: protocol.Seq(seq)}
			if given && seq > 0 {
				at.Sum = sums[seq-1]
			}
			var got []protocol.Event
			for rec, err := range Read(disk, at) {
				testenv.Must(t, err)
				if line := lineList(all[rec.File])[rec.LineNo-1]; strings.TrimSuffix(line, "\n") != string(rec.Line) {
					t.Errorf("after %v: seq %d is not line %d of %s", at, rec.Event.Seq, rec.LineNo, rec.File)
				}
				got = append(got, rec.Event)
			}
			if diff := cmp.Diff(want[seq:], got, cmp.Transformer("nil", func(evs []protocol.Event) []protocol.Event { return append([]protocol.Event{}, evs...) })); diff != "" && len(got)+len(want[seq:]) > 0 {
				t.Errorf("after %v -want +got:\n%s", at, diff)
			}
		}
	}
}

func TestCreateRefuses(t *testing.T) {
	all, _ := smallFiles(t)
	for _, tt := range []struct {
		name  string
		files map[string]string
		want  error
	}{
		{"a log", map[string]string{openName: "x"}, fs.ErrExist},
		{"a sealed segment", map[string]string{seg1: all[seg1]}, fs.ErrExist},
		{"a foreign log", map[string]string{"log/foreign-1.jsonl": "x"}, nil},
		{"what a crash left", map[string]string{tempName: "x"}, nil},
	} {
		disk := plant(t, tt.files)
		l, _, err := Create(disk, Options{}, noon, began)
		if !errors.Is(err, tt.want) {
			t.Errorf("%s: %v", tt.name, err)
		}
		if err == nil {
			add(t, l, 1)
			if stats, bad := check(t, disk); stats.Events != 2 || len(bad) > 0 {
				t.Errorf("%s: %+v, %v", tt.name, stats, bad)
			}
			continue
		}
		if diff := cmp.Diff(tt.files, files(t, disk)); diff != "" {
			t.Errorf("%s: -want +got:\n%s", tt.name, diff)
		}
	}
	for _, bodies := range [][]protocol.Body{nil, {note(1).Body}, {&protocol.HiveEvent{Action: protocol.Initialised}}} {
		if _, _, err := Create(faultfs.New(), Options{}, noon, bodies...); !errors.Is(err, errHead) {
			t.Errorf("%v: %v", bodies, err)
		}
	}
}

func TestAppendInOrder(t *testing.T) {
	disk := faultfs.New()
	l := create(t, disk)
	before := disk.Ops()
	for _, seqs := range [][]protocol.Seq{{1}, {3}, {2, 2}, {2, 4}, {0}} {
		var evs []protocol.Event
		for _, seq := range seqs {
			evs = append(evs, note(seq))
		}
		if _, err := l.Append(evs); err == nil {
			t.Errorf("%v was taken", seqs)
		}
	}
	if _, err := l.Append(nil); err != nil {
		t.Error(err)
	}
	if disk.Ops() != before {
		t.Error("something was written")
	}
	add(t, l, 1000)
	if ops := disk.Ops() - before; ops != 2 {
		t.Errorf("%d operations for a batch, want a write and a sync", ops)
	}
}

func TestDue(t *testing.T) {
	disk := faultfs.New()
	l, _, err := Create(disk, Options{SegmentBytes: 1000}, noon, began)
	testenv.Must(t, err)
	for !l.Due() {
		add(t, l, 1)
	}
	if l.Size() < 1000 || l.Size() > 1300 {
		t.Errorf("due at %d", l.Size())
	}
	seal(t, l)
	if l.Due() {
		t.Error("due again at once")
	}
}

func TestClosed(t *testing.T) {
	l := create(t, faultfs.New())
	for range 2 {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := l.Append(notes(2, 1)); !errors.Is(err, errClosed) {
		t.Error(err)
	}
	if _, _, err := l.Seal(noon, l.Format()); !errors.Is(err, errClosed) {
		t.Error(err)
	}
}

// noLinks is a disk on a file system without hard links.
type noLinks struct{ durable.FS }

func (noLinks) Link(string, string) error { return syscall.EPERM }

func TestSealWithoutLinks(t *testing.T) {
	disk := faultfs.New()
	want := small(t, noLinks{disk})
	got, err := read(disk, Position{})
	testenv.Must(t, err)
	same(t, got, want)
	if _, bad := check(t, disk); len(bad) > 0 {
		t.Error(bad)
	}
}

// TestOpenUndoesSeal checks that a seal that was interrupted after the second name
// was made, by link or by copy, is undone, even if the open segment has grown
// since.
func TestOpenUndoesSeal(t *testing.T) {
	whole, want := smallFiles(t)
	third := "log/000000000007.jsonl"
	lines := lineList(whole[openName])
	for name, second := range map[string]string{"the same": whole[openName], "grown since": joined(lines[:2])} {
		disk := plant(t, change(change(whole, third, second), tempName, "half"))
		if _, bad := check(t, disk); len(bad) > 0 {
			t.Errorf("%s: %v", name, bad)
		}
		got, err := read(disk, Position{})
		testenv.Must(t, err)
		same(t, got, want)
		l, _, got, err := open(disk)
		testenv.Must(t, err)
		same(t, got, want)
		if diff := cmp.Diff(whole, files(t, disk)); diff != "" {
			t.Errorf("%s: -want +got:\n%s", name, diff)
		}
		seal(t, l)
	}
	// Anything else under that name is not ours to remove.
	disk := plant(t, change(whole, third, strings.Replace(whole[openName], "note", "vote", 1)))
	if _, _, _, err := open(disk); !errors.As(err, new(*Damage)) {
		t.Errorf("opened: %v", err)
	}
}

func TestPosition(t *testing.T) {
	sum := protocol.Sum{1, 2, 0xab}
	for _, tt := range []struct {
		s    string
		want Position
		ok   bool
	}{
		{"0", Position{}, true},
		{"42", Position{Seq: 42}, true},
		{"42:" + sum.String(), Position{42, sum}, true},
		{"", Position{}, false},
		{"42:", Position{}, false},
		{"x", Position{}, false},
		{"-1", Position{}, false},
		{":" + sum.String(), Position{}, false},
		{"0:" + sum.String(), Position{}, false},
		{"42:" + sum.String()[1:], Position{}, false},
		{"42:" + strings.Repeat("0", 32), Position{}, false},
	} {
		got, err := ParsePosition(tt.s)
		if got != tt.want || (err == nil) != tt.ok {
			t.Errorf("%q: %v, %v", tt.s, got, err)
		}
		if tt.ok && got.String() != tt.s {
			t.Errorf("%q became %q", tt.s, got)
		}
	}
}

// TestLinesReadAgain checks that what follows the last line break is read again: it
// may have changed.
func TestLinesReadAgain(t *testing.T) {
	text := []byte("one\ntw")
	l := newLines(bytes.NewReader(text), 0)
	if line, err := l.next(); string(line) != "one\n" || err != nil {
		t.Fatalf("%q, %v", line, err)
	}
	if _, err := l.next(); !errors.Is(err, io.EOF) || string(l.tail) != "tw" || l.off != 4 {
		t.Fatalf("%v, tail %q at %d", err, l.tail, l.off)
	}
	l.f = strings.NewReader("one\nother\n")
	if line, err := l.next(); string(line) != "other\n" || err != nil {
		t.Errorf("%q, %v", line, err)
	}
}

// TestReadEvent reads single events, and checks the error for one that is not in
// the log.
func TestReadEvent(t *testing.T) {
	disk := faultfs.New()
	want := small(t, disk)
	for _, ev := range want {
		got, err := ReadEvent(disk, ev.Seq)
		testenv.Must(t, err)
		same(t, []protocol.Event{got}, []protocol.Event{ev})
	}
	next := want[len(want)-1].Seq + 1
	if _, err := ReadEvent(disk, next); err == nil || !strings.Contains(err.Error(), "not in the log") {
		t.Errorf("event %s: %v", next, err)
	}
}
