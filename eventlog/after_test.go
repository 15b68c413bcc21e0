package eventlog

import (
	"errors"
	"strings"
	"testing"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/protocol"
)

func openAfter(disk durable.FS, after Position) (*Log, Recovery, []protocol.Event, error) {
	evs := []protocol.Event{}
	l, found, err := Open(disk, Options{After: after}, func(ev protocol.Event) error {
		evs = append(evs, ev)
		return nil
	})
	return l, found, evs, err
}

// sumsOf returns the sum of each event.
func sumsOf(tb testing.TB, disk durable.FS) map[protocol.Seq]protocol.Sum {
	tb.Helper()
	sums := map[protocol.Seq]protocol.Sum{}
	for rec, err := range Read(disk, Position{}) {
		testenv.Must(tb, err)
		sums[rec.Event.Seq] = rec.Sum
	}
	return sums
}

// TestOpenAfter checks that, after any position, the log goes on as if all of it
// had been read, and that what it seals afterwards is in order.
func TestOpenAfter(t *testing.T) {
	all, evs := smallFiles(t)
	sums := sumsOf(t, plant(t, all))
	for after := range protocol.Seq(10) {
		disk := plant(t, all)
		l, found, got, err := openAfter(disk, Position{after, sums[after]})
		if err != nil || found.Torn != "" {
			t.Fatalf("after %d: %+v, %v", after, found, err)
		}
		same(t, got, evs[after:])
		if l.Sum() != sums[9] || l.Size() != int64(len(all[openName])) {
			t.Errorf("after %d: the log is at %s with %d bytes", after, l.Sum(), l.Size())
		}
		seal(t, l)
		add(t, l, 2)
		testenv.Must(t, l.Close())
		if stats, list := check(t, disk); len(list) > 0 || stats.Events != 12 || stats.Segments != 3 {
			t.Errorf("after %d: then %+v %v", after, stats, list)
		}
	}
}

// TestOpenAfterWhatIsNotThere checks that a position that is not in this log is an
// error and changes nothing: the caller then opens the log from its beginning.
func TestOpenAfterWhatIsNotThere(t *testing.T) {
	all, evs := smallFiles(t)
	sums := sumsOf(t, plant(t, all))
	torn := change(all, openName, all[openName]+`{"seq":10,"ts`)
	half := change(all, openName, joined(lineList(all[openName])[:2]))
	half[openName] += strings.Replace(lineList(all[openName])[2], "note 9", "NOTE 9", 1)[:60]
	for _, tt := range []struct {
		name  string
		files map[string]string
		after Position
		found protocol.Sum
	}{
		{"wrong sum in a sealed segment", all, Position{5, sums[4]}, sums[5]},
		{"wrong sum of a segment's first event", all, Position{4, sums[5]}, sums[4]},
		{"wrong sum in the open segment", all, Position{8, sums[7]}, sums[8]},
		{"wrong sum of the first event of all", all, Position{1, sums[7]}, sums[1]},
		{"beyond the end", all, Position{10, sums[9]}, protocol.Sum{}},
		{"far beyond the end", all, Position{1 << 40, sums[9]}, protocol.Sum{}},
		{"wrong sum at a torn end", torn, Position{9, sums[8]}, sums[9]},
		{"beyond a torn end", torn, Position{10, sums[9]}, protocol.Sum{}},
		{"in the line that is torn", half, Position{9, sums[9]}, protocol.Sum{}},
	} {
		disk := plant(t, tt.files)
		_, _, got, err := openAfter(disk, tt.after)
		var m *Mismatch
		if !errors.As(err, &m) || m.At != tt.after || m.Found != tt.found {
			t.Errorf("%s: %v", tt.name, err)
		}
		if len(got) > 0 {
			t.Errorf("%s: got events from %d on, want none", tt.name, got[0].Seq)
		}
		if now := files(t, disk); now[openName] != tt.files[openName] {
			t.Errorf("%s: log.jsonl was changed", tt.name)
		}
		l, found, got, err := open(disk)
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		testenv.Must(t, l.Close())
		if wasTorn := tt.files[openName] != all[openName]; (found.Torn != "") != wasTorn {
			t.Errorf("%s: opened from its beginning: Torn is %q", tt.name, found.Torn)
		}
		same(t, got, evs[:len(got):len(got)])
	}
}

func TestOpenAfterSetsATornLineAside(t *testing.T) {
	all, evs := smallFiles(t)
	sums := sumsOf(t, plant(t, all))
	all = change(all, openName, all[openName]+`{"seq":10,"ts`)
	for after := range protocol.Seq(10) {
		disk := plant(t, all)
		l, found, got, err := openAfter(disk, Position{after, sums[after]})
		if err != nil || found.TornBytes != 13 {
			t.Fatalf("after %d: %+v, %v", after, found, err)
		}
		same(t, got, evs[after:])
		add(t, l, 1)
		if left := l.Foreign(); len(left) > 0 {
			t.Errorf("after %d: the torn line was not cut: %+v", after, left)
		}
		testenv.Must(t, l.Close())
		if stats, list := check(t, disk); len(list) > 0 || stats.Events != 10 {
			t.Errorf("after %d: then %+v %v", after, stats, list)
		}
	}
}

// TestOpenAfterFindsDamage checks that segments that are not read are known to be
// there, and that what is read is checked.
func TestOpenAfterFindsDamage(t *testing.T) {
	all, _ := smallFiles(t)
	sums := sumsOf(t, plant(t, all))
	const seg0 = "log/000000000002.jsonl"
	flipped := func(name string, line int) map[string]string {
		lines := lineList(all[name])
		lines[line] = strings.Replace(lines[line], "note", "NOTE", 1)
		lines[line] = strings.Replace(lines[line], "sha256", "SHA256", 1)
		return change(all, name, joined(lines))
	}
	for _, tt := range []struct {
		name  string
		files map[string]string
		after protocol.Seq
		file  string
		line  int
		err   error
	}{
		{"the segment before is missing", change(all, seg1, ""), 8, seg1, 0, ErrMissing},
		{"the segment in between is missing", change(all, seg2, ""), 8, seg2, 0, ErrMissing},
		{"the segment of the position is missing", change(all, seg2, ""), 5, seg2, 0, ErrMissing},
		{"a segment has another name", change(change(all, seg0, all[seg1]), seg1, ""), 8, seg1, 0, ErrMissing},
		{"a segment is empty", change(all, seg2, "\n"), 8, seg2, 1, nil},
		{"a segment is another one", change(all, seg2, all[seg1]), 8, seg2, 1, errSegment},
		{"log.jsonl is missing", change(all, openName, ""), 8, openName, 0, ErrMissing},
		{"log.jsonl has no first line", change(all, openName, "x"+all[openName]), 8, openName, 1, nil},
		{"a line before the position", flipped(openName, 1), 9, openName, 2, protocol.ErrSum},
		{"a line behind the position", flipped(seg2, 2), 5, seg2, 3, protocol.ErrSum},
		{"the line that names the segment", flipped(seg2, 0), 8, seg2, 1, nil},
	} {
		_, _, _, err := openAfter(plant(t, tt.files), Position{tt.after, sums[tt.after]})
		var bad *Damage
		if !errors.As(err, &bad) || bad.File != tt.file || bad.Line != tt.line || tt.err != nil && !errors.Is(bad.Err, tt.err) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

// counting is a disk that counts the bytes read of each file.
type counting struct {
	durable.FS
	read map[string]int64
}

func (c counting) Open(name string) (durable.File, error) {
	f, err := c.FS.Open(name)
	return &countingFile{f, c.read, name}, err
}

type countingFile struct {
	durable.File
	read map[string]int64
	name string
}

func (f *countingFile) ReadAt(b []byte, off int64) (int, error) {
	n, err := f.File.ReadAt(b, off)
	f.read[f.name] += int64(n)
	return n, err
}

func TestOpenAfterReadsNothingBefore(t *testing.T) {
	disk := counting{long(t), map[string]int64{}}
	sums := sumsOf(t, disk)
	clear(disk.read)
	l, _, evs, err := openAfter(disk, Position{1400, sums[1400]})
	if err != nil || len(evs) != 103 {
		t.Fatalf("%d events, %v", len(evs), err)
	}
	testenv.Must(t, l.Close())
	for name, n := range disk.read {
		if strings.HasPrefix(name, protocol.PathSegments+"/") && n > headSize {
			t.Errorf("%d bytes of %s were read", n, name)
		}
	}
}

// TestOpenAfterACrash checks that a crash at any moment of opening leaves a log
// that opens after the position.
func TestOpenAfterACrash(t *testing.T) {
	all, evs := smallFiles(t)
	sums := sumsOf(t, plant(t, all))
	all = change(all, "log/000000000007.jsonl", all[openName])
	all[openName] += `{"seq":10,"ts`
	for _, at := range []protocol.Seq{0, 5, 9} {
		after := Position{at, sums[at]}
		for _, loss := range losses() {
			for n, done := 1, false; !done; n++ {
				disk := plant(t, all)
				disk.CrashAt(n, loss)
				_, _, _, err := openAfter(disk, after)
				done = err == nil
				l, _, got, err := openAfter(disk.Reboot(), after)
				if err != nil {
					t.Fatalf("after %d, %v at operation %d: %v", at, loss, n, err)
				}
				same(t, got, evs[at:])
				add(t, l, 1)
				seal(t, l)
			}
		}
	}
}
