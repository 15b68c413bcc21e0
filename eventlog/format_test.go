package eventlog

import (
	"errors"
	"strings"
	"testing"

	"github.com/hived/hived/internal/durable/faultfs"
	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/protocol"
)

// needsTwo returns an event that format 1 cannot hold.
func needsTwo(seq protocol.Seq) protocol.Event {
	return protocol.Event{Seq: seq, TS: noon, Body: &protocol.TaskEvent{Task: "t", Event: "progress", Checkpoint: &protocol.Checkpoint{Patch: []byte(`{"a":1}`)}}}
}

// TestSegmentsTakeWhatTheirFormatHolds checks that a segment holds no event that
// needs a higher format, and that a segment's format is not lower than that of the
// one before.
func TestSegmentsTakeWhatTheirFormatHolds(t *testing.T) {
	disk := faultfs.New()
	l, _, err := Create(disk, Options{}, noon, &protocol.HiveEvent{Action: protocol.Initialised, Format: 1})
	testenv.Must(t, err)
	_, err = l.Append([]protocol.Event{note(2), needsTwo(3)})
	if err == nil || !strings.Contains(err.Error(), "event 3 needs a log of format 2, and its segment has format 1") {
		t.Fatalf("a segment of format 1 took an event of format 2: %v", err)
	}
	if l.Next() != 2 {
		t.Fatalf("the next event is %d", l.Next())
	}
	add(t, l, 1)
	if _, _, err := l.Seal(noon, 2); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Append([]protocol.Event{needsTwo(l.Next())}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := l.Seal(noon, 1); err == nil {
		t.Error("the log went back to format 1")
	}
	testenv.Must(t, l.Close())
	l, _, err = Open(disk, Options{}, func(protocol.Event) error { return nil })
	testenv.Must(t, err)
	if l.Format() != 2 {
		t.Errorf("opened again it has format %d", l.Format())
	}
	testenv.Must(t, l.Close())
	if _, err := Check(disk, nil, nil, func(d *Damage) { t.Error(d) }); err != nil {
		t.Error(err)
	}
}

// TestLaterFormatIsNamed checks that the error for a later format has its number
// and what to do.
func TestLaterFormatIsNamed(t *testing.T) {
	_, _, _, err := open(plant(t, map[string]string{openName: encode(`"hive","action":"initialised","format":4`)}))
	const want = "log.jsonl line 1: the log was written by another version of hived: log format 4, this hived reads 1 to 3: install a newer one"
	if !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v", err)
	}
}
