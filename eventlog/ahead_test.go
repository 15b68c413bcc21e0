package eventlog

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/durable/faultfs"
	"github.com/hived/hived/internal/testenv"
	waits "github.com/hived/hived/internal/wait"
	"github.com/hived/hived/protocol"
)

// cores lets this test run as if on a machine of n cores.
func cores(tb testing.TB, n int) {
	tb.Helper()
	was := runtime.GOMAXPROCS(n)
	tb.Cleanup(func() { runtime.GOMAXPROCS(was) })
}

// long returns a log that is read ahead: two sealed segments and an open one, each
// of several batches, with one line that does not fit into a batch.
func long(tb testing.TB) *faultfs.Mem {
	tb.Helper()
	disk := faultfs.New()
	l := create(tb, disk)
	for part := range 3 {
		var evs []protocol.Event
		for i := range 500 {
			size := 900 + 7*(i%50)
			if part == 1 && i == 200 {
				size = 3 * batchSize
			}
			evs = append(evs, messageOf(l.Next()+protocol.Seq(i), size))
		}
		if _, err := l.Append(evs); err != nil {
			tb.Fatal(err)
		}
		if part < 2 {
			seal(tb, l)
		}
	}
	testenv.Must(tb, l.Close())
	return disk
}

func count(ev protocol.Event) any { return fmt.Sprint("event ", ev.Seq) }

// results is all that readers report of a log.
type results struct {
	Records []string
	Ends    []string // how Map, Check and Open ended, and what they found
}

func resultsOf(tb testing.TB, disk durable.FS, after Position) results {
	tb.Helper()
	var t results
	for rec, err := range Map(disk, after, count) {
		if err != nil {
			t.Ends = append(t.Ends, err.Error())
			break
		}
		t.Records = append(t.Records, fmt.Sprint(rec.Event.Seq, rec.Sum, rec.File, rec.LineNo, rec.Value, len(rec.Line), protocol.Summary(rec.Event)))
	}
	events := 0
	var list []*Damage
	stats, err := Check(disk, count, func(rec Record) error {
		if events++; rec.Event.Seq != protocol.Seq(events) || rec.Value != count(rec.Event) {
			tb.Errorf("Check returned event %d as number %d, with %v", rec.Event.Seq, events, rec.Value)
		}
		return nil
	}, func(d *Damage) { list = append(list, d) })
	t.Ends = append(t.Ends, fmt.Sprintf("%+v %d %v", stats, events, err))
	for _, d := range list {
		t.Ends = append(t.Ends, fmt.Sprintf("%+v %v", *d, d))
	}
	l, found, evs, err := open(disk)
	t.Ends = append(t.Ends, fmt.Sprint(found, len(evs), err))
	if err == nil {
		t.Ends = append(t.Ends, fmt.Sprintf("%d %s %d %d %x", l.Next(), l.Sum(), l.Size(), l.first, l.sha.Sum(nil)))
		testenv.Must(tb, l.Close())
	}
	return t
}

func TestReadAheadGivesTheSame(t *testing.T) {
	all := files(t, long(t))
	for _, after := range []protocol.Seq{0, 1, 150, 501, 900, 1503} {
		cores(t, 1)
		want := resultsOf(t, plant(t, all), Position{Seq: after})
		cores(t, 4)
		got := resultsOf(t, plant(t, all), Position{Seq: after})
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("after %d, -one core +four:\n%s", after, diff)
		}
		if n := 1503 - int(after); len(got.Records) != n || n > 0 && !strings.Contains(got.Records[n-1], "event 1503") {
			t.Errorf("after %d: %d events", after, len(got.Records))
		}
	}
}

// TestReadAheadReportsTheSameDamage checks that damage is reported as by a reader
// that reads line after line, wherever in a batch it is and however much of it
// there is.
func TestReadAheadReportsTheSameDamage(t *testing.T) {
	all := files(t, long(t))
	flip := func(at ...int) func(string) string {
		return func(text string) string {
			b := []byte(text)
			for _, i := range at {
				b[i] ^= 1
			}
			return string(b)
		}
	}
	without := func(from, to int) func(string) string {
		return func(text string) string {
			lines := lineList(text)
			return joined(slices.Delete(lines, from, to))
		}
	}
	for _, name := range []string{openName, "log/000000000502.jsonl"} {
		lines := lineList(all[name])
		third := len(joined(lines[:len(lines)/3]))
		for what, damage := range map[string]func(string) string{
			"a line behind the first batches": flip(aheadFrom + 3*batchSize/2),
			"a sum":                           flip(third - 5),
			"a line break":                    flip(third - 1),
			"two lines":                       flip(third-9, third+9),
			"many lines":                      flip(aheadFrom+10, aheadFrom+9000, aheadFrom+batchSize, len(all[name])-200),
			"a line is lost":                  without(450, 451),
			"the last line is torn":           func(s string) string { return s[:len(s)-30] },
			"the file ends in the middle":     func(s string) string { return s[:aheadFrom+batchSize+500] },
			"a hole":                          func(s string) string { return s[:third] + strings.Repeat("\x00", 4096) + s[third+4096:] },
		} {
			bad := change(all, name, damage(all[name]))
			cores(t, 1)
			want := resultsOf(t, plant(t, bad), Position{})
			cores(t, 4)
			got := resultsOf(t, plant(t, bad), Position{})
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s in %s, -one core +four:\n%s", what, name, diff)
			}
		}
	}
}

func running(what string) bool {
	buf := make([]byte, 1<<20)
	return strings.Contains(string(buf[:runtime.Stack(buf, true)]), what)
}

const aWorker = "(*ahead).run"

// TestReadAheadEndsWithTheReader checks that reading a few events starts no
// goroutine, and that none is left when a reader stops early.
func TestReadAheadEndsWithTheReader(t *testing.T) {
	cores(t, 4)
	disk := long(t)
	seen := false
	for rec, err := range Read(disk, Position{}) {
		testenv.Must(t, err)
		if rec.Event.Seq < 100 && running(aWorker) {
			t.Fatalf("workers run at event %d", rec.Event.Seq)
		}
		if seen = running(aWorker); seen {
			break
		}
	}
	if !seen {
		t.Error("no worker was started")
	}
	if running(aWorker) {
		t.Error("a worker still runs after its reader stopped")
	}
	enough := errors.New("enough")
	if _, _, err := Open(disk, Options{}, func(ev protocol.Event) error {
		if ev.Seq == 700 {
			return enough
		}
		return nil
	}); !errors.Is(err, enough) {
		t.Error(err)
	}
	if running(aWorker) {
		t.Error("a worker still runs after its Open stopped")
	}
}

// TestFollowWaitsAlone checks that a follower has no workers while it waits.
func TestFollowWaitsAlone(t *testing.T) {
	cores(t, 4)
	disk := long(t)
	ctx, stop := context.WithCancel(t.Context())
	wake, ended := make(chan struct{}), make(chan error, 1)
	n := 0
	go func() {
		for _, err := range Follow(ctx, disk, Position{}, wake, 0) {
			if err != nil {
				ended <- err
				return
			}
			n++
		}
		ended <- nil
	}()
	for range 2 { // it takes the second wake only once it waits
		waits.Until(t, "the follower to wait", func() bool {
			select {
			case wake <- struct{}{}:
				return true
			default:
				return false
			}
		})
	}
	if running(aWorker) {
		t.Error("a worker runs while the follower waits")
	}
	stop()
	if err := waits.Ended(waits.Longest, "the follower to end", ended); err != nil || n != 1503 {
		t.Errorf("%d events, %v", n, err)
	}
}
