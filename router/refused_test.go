package router

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hived/hived/eventlog"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/durable/faultfs"
	"github.com/hived/hived/internal/wait"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/view"
)

// The tests of this file look into a daemon while its disk refuses, step by step or by its
// status. What can be seen from outside is in a row of TestCrashStories.

// TestDiskFull checks that when the log finds no room nothing is taken in, the status says
// so, and everything goes on by itself when there is room.
func TestDiskFull(t *testing.T) {
	disk := memHive(t)
	put(t, disk, "agents/alice/outbox/1.json", `{"id":"m1","to":"bob","body":"x"}`)
	r, err := open(disk, Config{Settings: memSettings(), Once: true}, noWatcher{})
	if err != nil {
		t.Fatal(err)
	}
	disk.FailAt(1, durable.ErrNoSpace, -1, func(op faultfs.Op, name string) bool {
		return op == faultfs.OpWrite && name == protocol.PathLog
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	var s view.Status
	wait.Until(t, "a status that says that intake pauses", func() bool {
		select {
		case err := <-done:
			t.Fatalf("the daemon ended with a full disk: %v", err)
		default:
		}
		s, err = view.ReadStatus(disk)
		return err == nil && s.Intake != ""
	})
	if !slices.Contains(s.Trouble, view.Problem{Code: view.DiskFull}) {
		t.Errorf("the status does not say why: %v", s.Trouble)
	}
	if n := unread(t, disk, "bob"); n != 0 {
		t.Errorf("bob got %d messages before they were durable", n)
	}
	disk.Heal()
	if err := wait.Ended(wait.Longest, "the daemon to end", done); err != nil { // Once ends when the message is delivered
		t.Fatal(err)
	}
	cancel()
	if n := unread(t, disk, "bob"); n != 1 {
		t.Errorf("bob got %d messages", n)
	}
}

// TestSealWaitsForWhatIsDecided checks that a segment is sealed only after what was decided
// while a full disk kept a batch waiting, because that has its sequence numbers already.
func TestSealWaitsForWhatIsDecided(t *testing.T) {
	disk := memHive(t)
	put(t, disk, "agents/alice/outbox/1.json", `{"id":"m1","to":"bob","body":"`+strings.Repeat("x", 5000)+`"}`)
	cfg := Config{Settings: memSettings()}
	cfg.Settings.Log.SegmentBytes = 4 << 10
	r, err := open(disk, cfg, noWatcher{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.events.Close()
	step := func() {
		t.Helper()
		if _, err := r.step(t.Context(), time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	r.agenda.ScrubAll()
	disk.FailAt(1, durable.ErrNoSpace, 1, func(op faultfs.Op, name string) bool {
		return op == faultfs.OpWrite && strings.Contains(name, "log") // the name that the log was opened with, or another
	})
	step()
	if len(r.events.stuck) == 0 {
		t.Fatal("the disk was not full")
	}
	r.alerts.raise(time.Now(), &protocol.AlertEvent{Code: protocol.CodeStray, Text: "meanwhile"})
	step()
	if len(r.events.stuck) > 0 || unread(t, disk, "bob") != 1 {
		t.Fatal("the daemon did not go on when there was room")
	}
	step()
	if n, err := eventlog.Check(disk, nil, nil, func(d *eventlog.Damage) { t.Error(d) }); err != nil {
		t.Errorf("%v, %v", n, err)
	}
	list, err := disk.ReadDir(protocol.PathSegments)
	if err != nil || len(list) == 0 {
		t.Errorf("no segment was sealed: %v", err)
	}
}

// TestOwedIsNotDeleted checks that a message that the disk refuses to place does not count
// as deleted by its agent, which handles what is there.
func TestOwedIsNotDeleted(t *testing.T) {
	disk := memHive(t)
	put(t, disk, "agents/alice/outbox/1.json", `{"id":"m1","to":"bob","body":"x"}`)
	disk.FailAt(1, fs.ErrPermission, -1, func(op faultfs.Op, name string) bool {
		return op == faultfs.OpCreate && strings.HasPrefix(name, "agents/bob/inbox/")
	})
	r, err := open(disk, Config{Settings: memSettings()}, noWatcher{})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	for i := range 6 {
		if err := disk.Mkdir(fmt.Sprintf("agents/bob/inbox/.%d", i), 0o755); err != nil { // moves the time of the inbox
			t.Fatal(err)
		}
		now = now.Add(time.Second)
		r.agenda.ScrubAll()
		for busy := true; busy; {
			if busy, err = r.step(t.Context(), now); err != nil {
				t.Fatal(err)
			}
		}
	}
	disk.Heal()
	if err := errors.Join(r.finish(t.Context()), r.events.Close()); err != nil {
		t.Fatal(err)
	}
	if err := runOnce(disk); err != nil {
		t.Fatal(err)
	}
	if n := unread(t, disk, "bob"); n != 1 {
		t.Errorf("bob got %d messages", n)
	}
}

// TestCheckpointOfARunningDaemon checks that what the log calls settled survives a power
// cut, because nothing places it again.
func TestCheckpointOfARunningDaemon(t *testing.T) {
	disk := memHive(t)
	put(t, disk, "agents/alice/outbox/1.json", `{"id":"m1","to":"bob","body":"x"}`)
	if err := disk.SyncAll(); err != nil { // what is there now is not tested
		t.Fatal(err)
	}
	var r *Router
	var mu sync.Mutex
	var sent, settled, committed protocol.Seq
	cutOff := func(seq *protocol.Seq, now protocol.Seq) {
		mu.Lock()
		defer mu.Unlock()
		if *seq = now; sent > 0 && settled >= sent && committed >= settled {
			disk.CrashAt(0, faultfs.Drop)
		}
	}
	cfg := Config{Settings: memSettings(), OnCommit: func(through protocol.Seq) { cutOff(&committed, through) }}
	cfg.OnEvent = func(ev protocol.Event) {
		switch e := ev.Body.(type) {
		case *protocol.MessageEvent:
			cutOff(&sent, ev.Seq)
			r.sync.since = r.sync.since.Add(-syncEvery) // this runs in the loop's goroutine
		case *protocol.HiveEvent:
			if e.Action == protocol.Settled {
				cutOff(&settled, e.Through)
			}
		}
	}
	var err error
	if r, err = open(disk, cfg, noWatcher{}); err != nil {
		t.Fatal(err)
	}
	if err := r.Run(t.Context()); !errors.Is(err, faultfs.ErrCrashed) {
		t.Fatalf("the daemon ended with %v", err)
	}
	disk = disk.Reboot()
	if err := runOnce(disk); err != nil {
		t.Fatal(err)
	}
	if n := unread(t, disk, "bob"); n != 1 {
		t.Errorf("bob has %d messages", n)
	}
}

// TestTakenPlaceThatCannotBeFreed checks that what an agent wrote over a message is logged
// once if it cannot be set aside, not at every scan.
func TestTakenPlaceThatCannotBeFreed(t *testing.T) {
	disk := played(t, sendOne, run, scribble).disk
	disk.FailAt(1, fs.ErrPermission, -1, func(op faultfs.Op, name string) bool {
		return op == faultfs.OpRename && strings.HasPrefix(name, "agents/bob/inbox/.done/bad-")
	})
	said := 0
	r, err := open(disk, Config{Settings: memSettings(), OnEvent: func(ev protocol.Event) {
		if q, ok := ev.Body.(*protocol.QuarantineEvent); ok && q.Code == protocol.CodeAltered {
			said++
		}
	}}, noWatcher{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.events.Close()
	step := func() {
		r.agenda.ScrubAll()
		if _, err := r.step(t.Context(), time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	wait.Until(t, "it to be logged", func() bool { step(); return said > 0 })
	after := time.Now()
	wait.Until(t, "it to rest again and again", func() bool { step(); return time.Since(after) > 5*r.cfg.Settings.Settle })
	if said != 1 {
		t.Errorf("what was written over the message was logged %d times", said)
	}
}

// TestGoneInboxCannotBeFilled checks that a vanished inbox that cannot be written is not
// scanned all the time, and gets what was unread once it can be written.
func TestGoneInboxCannotBeFilled(t *testing.T) {
	disk := played(t, sendSeveral(2), run, deleteInbox).disk
	disk.FailAt(1, fs.ErrPermission, -1, func(op faultfs.Op, name string) bool {
		return op == faultfs.OpCreate && strings.HasPrefix(name, "agents/bob/inbox/")
	})
	r, err := open(disk, Config{Settings: memSettings()}, noWatcher{})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	pass := func() {
		t.Helper()
		now = now.Add(time.Second)
		r.agenda.ScrubAll()
		for busy := true; busy; {
			if busy, err = r.step(t.Context(), now); err != nil {
				t.Fatal(err)
			}
		}
	}
	pass()
	pass()
	if waiting := r.place.Backlog().Files; waiting != 2 || !r.agenda.Next().IsZero() {
		t.Errorf("%d files are in the retry queue, want 2; the next scan is at %v", waiting, r.agenda.Next())
	}
	disk.Heal()
	pass()
	pass()
	if err := errors.Join(r.finish(t.Context()), r.events.Close()); err != nil {
		t.Fatal(err)
	}
	if names := messagesIn(t, disk, protocol.InboxDir("bob")); len(names) != 2 {
		t.Errorf("bob has %v", names)
	}
	if _, err := disk.Lstat(protocol.InboxDir("bob") + "/.hived"); err != nil {
		t.Error(err)
	}
}

// TestFloodHearsOfTheRest checks that sync points are logged also while there is always more
// to take in.
func TestFloodHearsOfTheRest(t *testing.T) {
	disk := memHive(t)
	ctx, cancel := context.WithTimeout(t.Context(), wait.Longest)
	defer cancel()
	n := 0
	flood := func() {
		n++
		put(t, disk, fmt.Sprintf("agents/alice/outbox/%d.json", n), `{"to":"bob","body":"x"}`)
	}
	var r *Router
	r, err := open(disk, Config{Settings: memSettings(), OnEvent: func(ev protocol.Event) {
		switch e := ev.Body.(type) {
		case *protocol.MessageEvent:
			flood()
			r.agenda.Queues.Outbox.Add(r.agenda.Agents["alice"]) // as a hint would
		case *protocol.HiveEvent:
			if e.Action == protocol.Settled && e.Through == 1 {
				cancel()
			}
		}
	}}, noWatcher{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.events.Close()
	flood()
	done := make(chan synced, 1)
	done <- synced{through: 1}
	r.sync.done = done
	if err := r.loop(ctx); err != nil {
		t.Fatal(err)
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		t.Errorf("after %d messages nothing was settled", n)
	}
}
