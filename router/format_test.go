package router

import (
	"errors"
	"slices"
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
	return hiveOfFormat(t, protocol.OldestFormat)
}

// hiveOfFormat returns a hive whose log has a format.
func hiveOfFormat(t *testing.T, format int) *faultfs.Mem {
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
		&protocol.HiveEvent{Action: protocol.Initialised, Format: format}, &protocol.AgentEvent{Agent: protocol.Human, Action: protocol.Joined})
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
	if list, next := formats(t, disk); len(list) != 2 || list[1] != protocol.BasicFormat || next != protocol.KindMessage {
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
	if list, _ := formats(t, memHive(t)); len(list) != 1 || list[0] != protocol.BasicFormat {
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

// laterCommand is a command that needs the latest format, although it is refused.
const laterCommand = `{"to":"hive","event":"start","data":{"choices":["a"]}}`

// TestCommandBringsTheLatestFormat checks that a hive goes to the latest format before
// the first command that needs it is decided, and with nothing before.
func TestCommandBringsTheLatestFormat(t *testing.T) {
	disk := hiveOfFormat(t, protocol.BasicFormat)
	put(t, disk, "agents/alice/outbox/1.json", `{"to":"bob","body":"x"}`)
	put(t, disk, "agents/alice/outbox/2.json", `{"to":"hive","event":"create","data":{"title":"a task"}}`)
	testenv.Must(t, runOnce(disk))
	if list, _ := formats(t, disk); len(list) != 1 {
		t.Fatalf("after a message and a task the segments have the formats %v", list)
	}
	put(t, disk, "agents/alice/outbox/3.json", `{"to":"bob","body":"y"}`)
	put(t, disk, "agents/alice/outbox/4.json", laterCommand)
	put(t, disk, "agents/alice/outbox/5.json", `{"to":"bob","body":"z"}`)
	testenv.Must(t, runOnce(disk))
	if list, next := formats(t, disk); len(list) != 2 || list[1] != protocol.LogFormat || next != protocol.KindMessage {
		t.Errorf("after the command the segments have the formats %v, the newest begins with %s", list, next)
	}
	if n := unread(t, disk, "bob"); n != 4 { // three messages, and the offer of the task
		t.Errorf("bob has %d messages", n)
	}
}

// TestCrashOnTheWayToALaterFormat checks that a crash on the way to a later format loses
// nothing and doubles nothing.
func TestCrashOnTheWayToALaterFormat(t *testing.T) {
	t.Parallel()
	for name, way := range map[string]struct {
		from, to int
		command  string
	}{
		"basic":  {protocol.OldestFormat, protocol.BasicFormat, `{"to":"bob","body":"plain"}`},
		"latest": {protocol.BasicFormat, protocol.LogFormat, laterCommand},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				begun := hiveOfFormat(t, way.from)
				testenv.Must(t, sendMail(&scene{disk: begun}))
				put(t, begun, "agents/alice/outbox/1-command.json", way.command)
				crashOnTheWay(t, begun, []int{way.from, way.to})
			})
		})
	}
}

func crashOnTheWay(t *testing.T, begun *faultfs.Mem, want []int) {
	t.Helper()
	const stride = 9
	for k := 1; ; k += stride {
		disk := begun.Copy()
		disk.CrashAt(k, faultfs.Drop)
		crashed := runOnce(disk) != nil
		disk = disk.Reboot()
		if err := errors.Join(runOnce(disk), mailArrived(&scene{disk: disk})); err != nil {
			t.Fatalf("crash at operation %d: %v", k, err)
		}
		if list, _ := formats(t, disk); !slices.Equal(list, want) {
			t.Fatalf("crash at operation %d: the segments have the formats %v", k, list)
		}
		if !crashed {
			return
		}
	}
}
