package eventlog

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/durable/faultfs"
	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/protocol"
)

var (
	began = &protocol.HiveEvent{Action: protocol.Initialised, Format: protocol.LogFormat}
	noon  = time.Date(2026, 11, 21, 12, 0, 0, 123456789, time.UTC)
)

func note(seq protocol.Seq) protocol.Event {
	return protocol.Event{Seq: seq, TS: noon, Body: &protocol.AlertEvent{Code: protocol.CodeStray, Text: fmt.Sprint("note ", seq)}}
}

func notes(from protocol.Seq, n int) []protocol.Event {
	var evs []protocol.Event
	for i := range n {
		evs = append(evs, note(from+protocol.Seq(i)))
	}
	return evs
}

func create(tb testing.TB, disk durable.FS) *Log {
	tb.Helper()
	l, evs, err := Create(disk, Options{}, noon, began)
	testenv.Must(tb, err)
	if len(evs) != 1 || evs[0].Seq != 1 {
		tb.Fatalf("created with %v", evs)
	}
	return l
}

func add(tb testing.TB, l *Log, n int) []protocol.Event {
	tb.Helper()
	evs := notes(l.Next(), n)
	sums, err := l.Append(evs)
	testenv.Must(tb, err)
	if len(sums) != n || sums[n-1] != l.Sum() {
		tb.Fatalf("sums %v, last %v", sums, l.Sum())
	}
	return evs
}

func seal(tb testing.TB, l *Log) protocol.Event {
	tb.Helper()
	ev, sum, err := l.Seal(noon, l.Format())
	testenv.Must(tb, err)
	if sum != l.Sum() || ev.Seq+1 != l.Next() {
		tb.Fatalf("sealed as %d with %v, log at %d with %v", ev.Seq, sum, l.Next(), l.Sum())
	}
	return ev
}

// small writes a log of two sealed segments, seq 1 to 3 and 4 to 6, and an open
// one, 7 to 9, and returns its events.
func small(tb testing.TB, disk durable.FS) []protocol.Event {
	tb.Helper()
	l := create(tb, disk)
	all := []protocol.Event{{Seq: 1, TS: noon, Body: began}}
	all = append(all, add(tb, l, 2)...)
	all = append(all, seal(tb, l))
	all = append(all, add(tb, l, 2)...)
	all = append(all, seal(tb, l))
	all = append(all, add(tb, l, 2)...)
	testenv.Must(tb, l.Close())
	return all
}

func read(disk durable.FS, after Position) ([]protocol.Event, error) {
	var evs []protocol.Event
	for rec, err := range Read(disk, after) {
		if err != nil {
			return evs, err
		}
		evs = append(evs, rec.Event)
	}
	return evs, nil
}

func open(disk durable.FS) (*Log, Recovery, []protocol.Event, error) {
	var evs []protocol.Event
	l, found, err := Open(disk, Options{}, func(ev protocol.Event) error {
		evs = append(evs, ev)
		return nil
	})
	return l, found, evs, err
}

func check(tb testing.TB, disk durable.FS) (Stats, []*Damage) {
	tb.Helper()
	var list []*Damage
	stats, err := Check(disk, nil, nil, func(d *Damage) { list = append(list, d) })
	testenv.Must(tb, err)
	return stats, list
}

func same(tb testing.TB, got, want []protocol.Event) {
	tb.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		tb.Fatalf("events -want +got:\n%s", diff)
	}
}

// files returns the contents of every file of a disk; plant makes a disk with such
// files.
func files(tb testing.TB, disk durable.FS) map[string]string {
	tb.Helper()
	all := map[string]string{}
	for _, dir := range []string{".", protocol.PathSegments, protocol.PathScratch} {
		list, err := disk.ReadDir(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			tb.Fatal(err)
		}
		for _, e := range list {
			if e.Type.IsDir() {
				continue
			}
			name := strings.TrimPrefix(dir+"/"+e.Name, "./")
			data, _, err := durable.ReadFile(disk, name, -1)
			testenv.Must(tb, err)
			all[name] = string(data)
		}
	}
	return all
}

func plant(tb testing.TB, all map[string]string) *faultfs.Mem {
	tb.Helper()
	disk := faultfs.New()
	for _, dir := range []string{protocol.PathSegments, protocol.PathScratch} {
		testenv.Must(tb, disk.Mkdir(dir, 0o755))
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		testenv.Must(tb, durable.Publish(disk, name, []byte(all[name]), 0o644, false))
	}
	testenv.Must(tb, disk.SyncAll())
	return disk
}

func change(all map[string]string, name string, to string) map[string]string {
	other := maps.Clone(all)
	if to == "" {
		delete(other, name)
	} else {
		other[name] = to
	}
	return other
}

func smallFiles(tb testing.TB) (map[string]string, []protocol.Event) {
	tb.Helper()
	disk := faultfs.New()
	evs := small(tb, disk)
	return files(tb, disk), evs
}

const (
	seg1 = "log/000000000001.jsonl"
	seg2 = "log/000000000004.jsonl"
)

// lineList splits a file into its lines, with their line breaks.
func lineList(s string) []string { return slices.Collect(strings.Lines(s)) }

func joined(lines []string) string { return strings.Join(lines, "") }
