package router

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hived/hived/eventlog"
	"github.com/hived/hived/gitcommit"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/durable/faultfs"
	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/mailbox"
	"github.com/hived/hived/protocol"
)

// oldHive returns a hive of format 1.
func oldHive(t *testing.T) *faultfs.Mem {
	t.Helper()
	disk := faultfs.New()
	for _, a := range []string{"alice", "bob"} {
		if err := disk.MkdirAll("agents/"+a+"/outbox", 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{protocol.PathScratch, protocol.PathSegments, protocol.PathTasks} {
		if err := disk.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	log, _, err := eventlog.Create(disk, eventlog.Options{SegmentBytes: memSettings().Log.SegmentBytes}, time.Now(),
		&protocol.HiveEvent{Action: protocol.Initialised, Format: 1}, &protocol.AgentEvent{Agent: protocol.Human, Action: protocol.Joined})
	if err == nil {
		err = errors.Join(log.Close(), gitcommit.Init(disk), FirstRun(t.Context(), disk, Config{Settings: memSettings()}))
	}
	if err != nil {
		t.Fatal(err)
	}
	return disk
}

// formats returns the format of each segment, and the kind of the first event after the
// line that begins the newest one.
func formats(t *testing.T, disk durable.FS) (list []int, next protocol.Kind) {
	t.Helper()
	for rec, err := range eventlog.Read(disk, eventlog.Position{}) {
		if err != nil {
			t.Fatal(err)
		}
		if e, ok := rec.Event.Body.(*protocol.HiveEvent); ok && e.Format > 0 {
			list, next = append(list, e.Format), ""
			continue
		}
		if next == "" {
			next = rec.Event.Body.Kind()
		}
	}
	return list, next
}

// TestFirstMessageBringsTheNewFormat checks that a hive of format 1 goes to format 2 before
// its first message is decided, and not when it is started, and that a new one begins with
// format 2.
func TestFirstMessageBringsTheNewFormat(t *testing.T) {
	disk := oldHive(t)
	run := func() {
		t.Helper()
		if err := runOnce(disk); err != nil {
			t.Fatal(err)
		}
	}
	run()
	run()
	if list, _ := formats(t, disk); len(list) != 1 || list[0] != 1 {
		t.Fatalf("after two starts the segments have the formats %v", list)
	}
	put(t, disk, "agents/alice/outbox/1.json", `{"to":"bob","body":"x"}`)
	run()
	if list, next := formats(t, disk); len(list) != 2 || list[1] != protocol.LogFormat || next != protocol.KindMessage {
		t.Errorf("after a message the segments have the formats %v, the newest begins with %s", list, next)
	}
	put(t, disk, "agents/bob/outbox/1.json", `{"to":"alice","body":"y"}`)
	run() // from its snapshot
	if list, _ := formats(t, disk); len(list) != 2 {
		t.Errorf("after another the segments have the formats %v", list)
	}
	if _, err := eventlog.Check(disk, nil, nil, func(d *eventlog.Damage) { t.Error(d) }); err != nil {
		t.Error(err)
	}
	if list, _ := formats(t, memHive(t)); len(list) != 1 || list[0] != protocol.LogFormat {
		t.Errorf("a new hive has the formats %v", list)
	}
}

// TestNewFormatWaitsForRoom checks that on a full disk the message waits until the old
// segment can be sealed.
func TestNewFormatWaitsForRoom(t *testing.T) {
	disk := oldHive(t)
	put(t, disk, "agents/alice/outbox/1.json", `{"to":"bob","body":"x"}`)
	r, err := open(disk, Config{Settings: memSettings()}, noWatcher{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.events.Close()
	r.agenda.ScrubAll()
	disk.FailAt(1, durable.ErrNoSpace, 3, func(op faultfs.Op, name string) bool {
		return op == faultfs.OpWrite && strings.HasSuffix(name, "log.new")
	})
	for range 3 {
		busy, err := r.step(t.Context(), time.Now())
		if err != nil {
			t.Fatal(err)
		}
		if busy || !r.events.full() || unread(t, disk, "bob") > 0 || mailbox.Pending(disk, "alice") != 1 {
			t.Fatalf("on a full disk: busy %v, paused %v, bob has %d messages, %d wait", busy, r.events.full(), unread(t, disk, "bob"), mailbox.Pending(disk, "alice"))
		}
	}
	for range 2 {
		if _, err := r.step(t.Context(), time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	if r.events.full() || unread(t, disk, "bob") != 1 {
		t.Errorf("with room again: paused %v, bob has %d messages", r.events.full(), unread(t, disk, "bob"))
	}
}

// TestCrashOnTheWayToTheNewFormat checks that a crash on the way to the new format loses
// nothing and doubles nothing.
func TestCrashOnTheWayToTheNewFormat(t *testing.T) {
	t.Parallel()
	const stride = 9
	synctest.Test(t, func(t *testing.T) {
		begun := oldHive(t)
		testenv.Must(t, sendMail(&scene{disk: begun}))
		for k := 1; ; k += stride {
			disk := begun.Copy()
			disk.CrashAt(k, faultfs.Drop)
			crashed := runOnce(disk) != nil
			disk = disk.Reboot()
			if err := errors.Join(runOnce(disk), mailArrived(&scene{disk: disk})); err != nil {
				t.Fatalf("crash at operation %d: %v", k, err)
			}
			if list, _ := formats(t, disk); len(list) != 2 {
				t.Fatalf("crash at operation %d: the segments have the formats %v", k, list)
			}
			if !crashed {
				return
			}
		}
	})
}
