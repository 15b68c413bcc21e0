package router

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/hived/hived/eventlog"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/snapshot"
	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/internal/wait"
	"github.com/hived/hived/ledger"
	"github.com/hived/hived/protocol"
)

// encoded returns a state encoded, so that two can be compared.
func encoded(t *testing.T, s *ledger.State) string {
	t.Helper()
	var b bytes.Buffer
	testenv.Must(t, s.Encode(&b, protocol.Sum{}))
	return b.String()
}

// folded returns the state that the whole log folds to at an event.
func folded(t *testing.T, disk durable.FS, remember protocol.RememberSettings, at protocol.Seq) string {
	t.Helper()
	s := ledger.New(remember)
	for rec, err := range eventlog.Read(disk, eventlog.Position{}) {
		testenv.Must(t, err)
		if rec.Event.Seq > at {
			break
		}
		s.Apply(rec.Event)
	}
	return encoded(t, s)
}

// segmented returns a hive with a log of several segments.
func segmented(t *testing.T) *hive {
	t.Helper()
	h := newHive(t, "alice", "bob")
	h.settings.Log.SegmentBytes = 4 << 10
	for i := range 20 {
		h.send("alice", strconv.Itoa(i), fmt.Sprintf(`{"id":"m%d","to":"bob","body":"%0500d"}`, i, i))
	}
	h.once()
	return h
}

// TestSnapshot checks that a start does not read the log that the snapshot covers.
func TestSnapshot(t *testing.T) {
	h := segmented(t)
	segments := h.list("log")
	if len(segments) < 2 {
		t.Fatalf("the log has the segments %v", segments)
	}
	name := "log/" + segments[0]
	os.Chmod(h.path(name), 0o644)
	text := h.read(name)
	h.write(name, text[:len(text)/2]+"X"+text[len(text)/2+1:])
	h.once()
	testenv.Must(t, os.Remove(h.path(protocol.SnapshotFile)))
	if _, err := New(h.disk, h.config()); err == nil {
		t.Fatal("without a snapshot the damage in the log was not noticed")
	}
}

// TestSnapshotRefused checks that what is no snapshot of this log is not used, and only
// makes the start slower.
func TestSnapshotRefused(t *testing.T) {
	other := segmented(t)
	for name, spoil := range map[string]func(h *hive){
		"cut":   func(h *hive) { h.write(protocol.SnapshotFile, h.read(protocol.SnapshotFile)[:100]) },
		"empty": func(h *hive) { h.write(protocol.SnapshotFile, "") },
		"a byte": func(h *hive) {
			s := []byte(h.read(protocol.SnapshotFile))
			s[len(s)/2]++
			h.write(protocol.SnapshotFile, string(s))
		},
		"other hive":    func(h *hive) { h.write(protocol.SnapshotFile, other.read(protocol.SnapshotFile)) },
		"other windows": func(h *hive) { h.settings.Remember.IDs-- },
		"beyond the end": func(h *hive) { // two more events, with the log of before
			log, segments := h.read("log.jsonl"), h.list("log")
			h.once()
			h.write("log.jsonl", log)
			for _, s := range h.list("log") {
				if !slices.Contains(segments, s) {
					os.Remove(h.path("log/" + s))
				}
			}
			if err := os.RemoveAll(h.path(".git")); err != nil { // git knows that the log was longer
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := segmented(t)
			h.t = t
			spoil(h)
			r, err := open(h.disk, h.config(), noWatcher{})
			testenv.Must(t, err)
			defer r.events.Close()
			if got := encoded(t, r.state); got != folded(t, h.disk, h.settings.Remember, r.state.Seq) {
				t.Error("the state is not what the log gives")
			}
		})
	}
}

// TestSnapshotWhileRunning checks that snapshots are made while the log grows, that after a
// crash the newest is the state at its event, and that the rest is folded upon it.
func TestSnapshotWhileRunning(t *testing.T) {
	disk := memHive(t)
	settings := memSettings()
	settings.Log.SegmentBytes = 4 << 10
	var taken []protocol.Seq
	for round := range 10 {
		for i := range 10 {
			put(t, disk, fmt.Sprintf("agents/alice/outbox/%d-%d.json", round, i), fmt.Sprintf(`{"to":"bob","body":"%0500d"}`, i))
		}
		r, err := open(disk, Config{Settings: settings, Once: true}, noWatcher{})
		testenv.Must(t, err)
		if got := encoded(t, r.state); got != folded(t, disk, settings.Remember, r.state.Seq) {
			t.Fatal("the state is not what the log gives")
		}
		r.events.snapshot.Least = 1
		if err := r.loop(context.Background()); err != nil { // without a clean stop
			t.Fatal(err)
		}
		if done := r.events.snapshot.Done(); done != nil {
			testenv.Must(t, r.events.snapshot.Ended(wait.Receive(t, "the snapshot", done)))
		}
		testenv.Must(t, r.events.Close())
		disk = disk.Reboot()
		if s, at, _, err := snapshot.Read(disk, settings.Remember); err == nil {
			taken = append(taken, at.Seq)
			if encoded(t, s) != folded(t, disk, settings.Remember, at.Seq) {
				t.Errorf("the snapshot is not the state at %s", at.Seq)
			}
		}
	}
	if taken = slices.Compact(taken); len(taken) < 2 {
		t.Errorf("there were snapshots at %v", taken)
	}
}
