package router

import (
	"errors"
	"log/slog"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hived/hived/internal/durable/faultfs"
	"github.com/hived/hived/internal/snapshot"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/router/decide"
)

// TestJournal checks that events that find no room wait, can be recalled, and are appended
// when there is room, and that any other failure is an error.
func TestJournal(t *testing.T) {
	t.Parallel()
	disk := memHive(t)
	cfg := Config{Settings: memSettings()}
	cfg.fill()
	j, state, _, err := openJournal(disk, &cfg, snapshot.Keeper{Disk: disk, Log: slog.New(slog.DiscardHandler)}, func(*protocol.AlertEvent) {})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	events := func(n int) (list []decide.Decision) {
		for i := range n {
			ev := protocol.Event{Seq: state.Seq + 1 + protocol.Seq(i), TS: at(0), Body: &protocol.HiveEvent{Action: protocol.Started}}
			list = append(list, decide.Decision{Event: ev})
		}
		return list
	}
	begin := state.Seq
	first := events(2)
	if sums, err := j.append(first); err != nil || len(sums) != 2 || j.full() {
		t.Fatalf("%d sums, %v", len(sums), err)
	}
	for _, d := range first {
		state.Apply(d.Event)
	}
	disk.Capacity(1)
	list := events(2)
	for range 2 {
		if sums, err := j.append(list); err != nil || sums != nil || !j.full() {
			t.Fatalf("on a full disk: %d sums, %v", len(sums), err)
		}
	}
	recalled, err := j.recall([]protocol.Seq{begin, begin + 2, begin + 4})
	if err != nil {
		t.Fatal(err)
	}
	var seqs []protocol.Seq
	for _, ev := range recalled {
		seqs = append(seqs, ev.Seq)
	}
	if diff := cmp.Diff([]protocol.Seq{begin, begin + 2, begin + 4}, seqs); diff != "" {
		t.Error(diff)
	}
	disk.Capacity(-1)
	if sums, err := j.append(j.stuck); err != nil || len(sums) != 2 || j.full() {
		t.Fatalf("with room again: %d sums, %v", len(sums), err)
	}
	for _, d := range list {
		state.Apply(d.Event)
	}
	disk.FailAt(1, syscall.EIO, -1, func(op faultfs.Op, _ string) bool { return op == faultfs.OpSync })
	if sums, err := j.append(events(1)); !errors.Is(err, syscall.EIO) || sums != nil {
		t.Errorf("on a broken disk: %d sums, %v", len(sums), err)
	}
}
