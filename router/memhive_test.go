package router

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/durable/faultfs"
	strides "github.com/hived/hived/internal/sweep"
	"github.com/hived/hived/protocol"
)

// memHive makes a hive with two agents on a disk in memory.
func memHive(t *testing.T) *faultfs.Mem {
	t.Helper()
	disk := faultfs.New()
	for _, a := range []string{"alice", "bob"} {
		if err := disk.MkdirAll("agents/"+a+"/outbox", 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := MakeHive(disk, memSettings(), false, nil); err != nil {
		t.Fatal(err)
	}
	return disk
}

// oneClock gives holders that do not beat the time-outs of those that do.
func oneClock(s *protocol.TaskSettings) {
	s.TurnHeartbeat, s.TurnProgress = s.HeartbeatTimeout, s.ProgressTimeout
}

func memSettings() protocol.Settings {
	s := protocol.DefaultSettings()
	s.Settle, s.Rescan, s.Git.CommitDelay = time.Millisecond, 10*time.Millisecond, time.Millisecond
	oneClock(&s.Tasks)
	return s
}

// runOnce runs a daemon on a disk until nothing is left to do.
func runOnce(disk durable.FS) error { return runWith(disk, memSettings()) }

func runWith(disk durable.FS, settings protocol.Settings) error {
	r, err := New(disk, Config{Settings: settings, Once: true})
	if err != nil {
		return err
	}
	return r.Run(context.Background())
}

func put(t *testing.T, disk durable.FS, name, text string) {
	t.Helper()
	if err := durable.Publish(disk, name, []byte(text), 0o644, true); err != nil {
		t.Fatal(err)
	}
}

// unread counts the messages in an inbox.
func unread(t *testing.T, disk durable.FS, id protocol.AgentID) int {
	t.Helper()
	list, err := disk.ReadDir(protocol.InboxDir(id))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, e := range list {
		if protocol.IsMessageName(e.Name) {
			n++
		}
	}
	return n
}

// messagesIn returns the names of the messages in a directory.
func messagesIn(t *testing.T, disk durable.FS, dir string) map[string]bool {
	t.Helper()
	list, err := disk.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, e := range list {
		if protocol.IsMessageName(e.Name) {
			names[e.Name] = true
		}
	}
	return names
}

// crashAfter runs a daemon on a disk that crashes with the first event for which last
// returns true, and returns what is left of the disk.
func crashAfter(t *testing.T, disk *faultfs.Mem, settings protocol.Settings, loss faultfs.Loss, last func(protocol.Event) bool) *faultfs.Mem {
	t.Helper()
	r, err := open(disk, Config{Settings: settings, Once: true, OnEvent: func(ev protocol.Event) {
		if last(ev) {
			disk.CrashAt(0, loss)
		}
	}}, noWatcher{})
	if err != nil {
		t.Fatal(err)
	}
	if r.Run(t.Context()) == nil {
		t.Fatal("the daemon did not notice the crash")
	}
	return disk.Reboot()
}

// sweep calls crash with a copy of one disk for each operation k at which a daemon
// is to crash, or for those that [strides.Stories] leaves, until there is none to
// crash at, and returns how many operations there were. In each, the clock goes on
// at once when all goroutines wait.
func sweep(t *testing.T, begin func(t *testing.T) *faultfs.Mem, crash func(disk *faultfs.Mem, k int) (crashed bool, err error)) (crashes int) {
	t.Helper()
	var begun *faultfs.Mem
	synctest.Test(t, func(t *testing.T) { begun = begin(t) })
	for k := 1; ; k += strides.Of(strides.Stories) {
		var crashed bool
		var err error
		synctest.Test(t, func(*testing.T) {
			<-time.After(time.Hour) // so that all begin in the same hour
			crashed, err = crash(begun.Copy(), k)
		})
		if err != nil {
			t.Fatalf("crash at operation %d:\n%v", k, err)
		}
		if !crashed {
			return k - 1
		}
	}
}
