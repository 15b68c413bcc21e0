package eventlog

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/durable/faultfs"
	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/protocol"
)

// TestDecisionsAreWhole cuts a log at every byte of a write that holds the three
// events of one decision, and checks that all of them are there or none, and that
// the log goes on from where it then ends.
func TestDecisionsAreWhole(t *testing.T) {
	disk := faultfs.New()
	ts := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	l, _, err := Create(disk, Options{SegmentBytes: 1 << 20}, ts, &protocol.HiveEvent{Action: protocol.Initialised, Format: protocol.LogFormat})
	testenv.Must(t, err)
	event := func(seq protocol.Seq, more bool) protocol.Event {
		return protocol.Event{Seq: seq, TS: ts, More: more, Body: &protocol.AlertEvent{Code: "x", Text: "y"}}
	}
	if _, err := l.Append([]protocol.Event{event(2, false)}); err != nil {
		t.Fatal(err)
	}
	before := l.Size()
	if _, err := l.Append([]protocol.Event{event(3, true), event(4, true), event(5, false)}); err != nil {
		t.Fatal(err)
	}
	testenv.Must(t, l.Close())
	whole, _, err := durable.ReadFile(disk, protocol.PathLog, 1<<20)
	testenv.Must(t, err)
	for n := before; n <= int64(len(whole)); n++ {
		disk := faultfs.New()
		testenv.Must(t, durable.Publish(disk, protocol.PathLog, whole[:n], 0o644, true))
		var got []protocol.Seq
		l, found, err := Open(disk, Options{SegmentBytes: 1 << 20}, func(ev protocol.Event) error { got = append(got, ev.Seq); return nil })
		if err != nil {
			t.Fatalf("cut at %d: %v", n, err)
		}
		want := []protocol.Seq{1, 2}
		if n == int64(len(whole)) {
			want = []protocol.Seq{1, 2, 3, 4, 5}
		}
		if !slices.Equal(got, want) || (found.Torn != "") != (n > before && n < int64(len(whole))) {
			t.Fatalf("cut at %d of %d: events %v, torn %q", n, len(whole), got, found.Torn)
		}
		if found.Torn != "" {
			kept, _, err := durable.ReadFile(disk, found.Torn, 1<<20)
			if err != nil || !bytes.Equal(kept, whole[before:n]) {
				t.Fatalf("cut at %d: set aside %q, %v", n, kept, err)
			}
		}
		if _, err := l.Append([]protocol.Event{event(l.Next(), false)}); err != nil {
			t.Fatal(err)
		}
		if _, _, err := l.Seal(ts, l.Format()); err != nil {
			t.Fatal(err)
		}
		testenv.Must(t, l.Close())
		if _, err := Check(disk, nil, nil, func(d *Damage) { t.Errorf("cut at %d: %v", n, d) }); err != nil {
			t.Fatal(err)
		}
	}
}
