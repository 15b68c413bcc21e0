package router

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hived/hived/eventlog"
	"github.com/hived/hived/gitcommit"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/durable/faultfs"
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
	opt := InitOptions{Settings: memSettings(), Template: []byte("# settings\n"), Now: time.Now()}
	older, err := prepare(disk, opt)
	if err != nil {
		t.Fatal(err)
	}
	if err := initialise(disk, opt, older); err != nil {
		t.Fatal(err)
	}
	return disk
}

func memSettings() protocol.Settings {
	s := protocol.DefaultSettings()
	s.Settle, s.Rescan, s.Git.CommitDelay = time.Millisecond, 10*time.Millisecond, time.Millisecond
	return s
}

// runOnce runs a daemon on a disk until nothing is left to do.
func runOnce(disk durable.FS) error {
	r, err := open(disk, Config{Settings: memSettings(), Once: true}, deaf{})
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

// workload is what the agents of the sweep have sent: messages with and
// without ids, a duplicate, a broken file, an unknown recipient.
func workload(t *testing.T, disk durable.FS) {
	t.Helper()
	for i := range 4 {
		put(t, disk, fmt.Sprintf("agents/alice/outbox/%d.json", i), fmt.Sprintf(`{"to":"bob","body":"unique-%d"}`, i))
	}
	put(t, disk, "agents/bob/outbox/a.json", `{"id":"a","to":["alice","human"],"body":"unique-a"}`)
	put(t, disk, "agents/bob/outbox/b.json", `{"id":"a","to":["alice","human"],"body":"unique-a"}`)
	put(t, disk, "agents/bob/outbox/c.json", `{"to":`)
	put(t, disk, "agents/bob/outbox/d.json", `{"to":"alcie","body":"lost"}`)
}

// wanted are the inboxes in which each text must be found once.
var wanted = map[string][]string{
	"unique-0": {"bob"}, "unique-1": {"bob"}, "unique-2": {"bob"}, "unique-3": {"bob"},
	"unique-a": {"alice", "human"}, `"code":"malformed"`: {"bob"}, `"code":"no-inbox"`: {"bob"}, `"code":"duplicate"`: {"bob"},
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

// inspect checks that everything arrived once, that the log is whole, and that
// the archive holds what was sent.
func inspect(disk durable.FS) error {
	var errs []error
	found := map[string]map[string]int{}
	for _, id := range []protocol.AgentID{"alice", "bob", "human"} {
		list, err := disk.ReadDir(protocol.InboxDir(id))
		if err != nil {
			return err
		}
		for _, e := range list {
			if !protocol.IsMessageName(e.Name) {
				continue
			}
			data, _, err := durable.ReadFile(disk, protocol.InboxDir(id)+"/"+e.Name, 1<<20)
			if err != nil {
				return err
			}
			for text := range wanted {
				if strings.Contains(string(data), text) {
					if found[text] == nil {
						found[text] = map[string]int{}
					}
					found[text][string(id)]++
				}
			}
		}
	}
	for text, ids := range wanted {
		for _, id := range ids {
			if n := found[text][id]; n != 1 {
				errs = append(errs, fmt.Errorf("%s is in the inbox of %s %d times", text, id, n))
			}
		}
	}
	for _, name := range []string{"alice/outbox/.sent/0.json", "alice/outbox/.sent/3.json", "bob/outbox/.sent/a.json", "bob/outbox/.sent/b.json", "bob/outbox/.sent/bad-c.json", "bob/outbox/.sent/d.json"} {
		if data, _, err := durable.ReadFile(disk, "agents/"+name, 1<<20); err != nil || len(data) == 0 {
			errs = append(errs, fmt.Errorf("%s is not archived: %d bytes, %w", name, len(data), err))
		}
	}
	for _, id := range []protocol.AgentID{"alice", "bob"} {
		if n := Pending(disk, id); n != 0 {
			errs = append(errs, fmt.Errorf("%d files are left in the outbox of %s", n, id))
		}
	}
	if _, err := eventlog.Check(disk, func(d *eventlog.Damage) { errs = append(errs, d) }); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// TestCrashAnywhere crashes a daemon at every operation on the disk, in three
// ways of losing what was not synced, restarts it, and checks that every
// message arrived once. It fails without the sync of the log, with archiving
// before the append, with redo by existence, and without recognising the
// originals of accepted messages.
func TestCrashAnywhere(t *testing.T) {
	t.Parallel()
	for _, loss := range []struct {
		name string
		how  faultfs.Loss
	}{{"what was not synced is lost", faultfs.Drop}, {"everything is kept", faultfs.Keep}, {"what was not synced is torn", faultfs.Torn(7)}} {
		t.Run(loss.name, func(t *testing.T) {
			t.Parallel()
			crashes := 0
			for k := 1; ; k++ {
				disk := memHive(t)
				workload(t, disk)
				disk.CrashAt(k, loss.how)
				crashed := runOnce(disk) != nil
				disk = disk.Reboot()
				if err := runOnce(disk); err != nil {
					t.Fatalf("crash at operation %d: the restart failed: %v", k, err)
				}
				if err := inspect(disk); err != nil {
					t.Fatalf("crash at operation %d:\n%v", k, err)
				}
				if !crashed {
					break
				}
				crashes++
			}
			if crashes < 50 {
				t.Errorf("only %d crashes: the sweep does not reach the whole path", crashes)
			}
			t.Logf("%d crashes", crashes)
		})
	}
}

// TestDiskFull lets the log find no room: nothing is taken in, the status says
// so, and when there is room everything goes on by itself.
func TestDiskFull(t *testing.T) {
	disk := memHive(t)
	put(t, disk, "agents/alice/outbox/1.json", `{"id":"m1","to":"bob","body":"x"}`)
	r, err := open(disk, Config{Settings: memSettings(), Once: true}, deaf{})
	if err != nil {
		t.Fatal(err)
	}
	disk.FailAt(1, durable.ErrNoSpace, -1, func(op faultfs.Op, name string) bool {
		return op == faultfs.OpWrite && name == protocol.PathLog
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	for {
		s, err := ReadStatus(disk)
		if err == nil && s.Intake != "" {
			if len(s.Problems) == 0 || !strings.Contains(strings.Join(s.Problems, " "), "make room") {
				t.Errorf("the status does not say what to do: %v", s.Problems)
			}
			break
		}
		select {
		case err := <-done:
			t.Fatalf("the daemon ended with a full disk: %v", err)
		default:
		}
	}
	if n := unread(t, disk, "bob"); n != 0 {
		t.Errorf("bob got %d messages before they were durable", n)
	}
	disk.Heal()
	if err := <-done; err != nil { // Once ends when the message is delivered
		t.Fatal(err)
	}
	cancel()
	if n := unread(t, disk, "bob"); n != 1 {
		t.Errorf("bob got %d messages", n)
	}
}

// TestFailedSyncEndsTheDaemon: nobody can tell what is on such a disk.
func TestFailedSyncEndsTheDaemon(t *testing.T) {
	disk := memHive(t)
	put(t, disk, "agents/alice/outbox/1.json", `{"id":"m1","to":"bob","body":"x"}`)
	r, err := open(disk, Config{Settings: memSettings(), Once: true}, deaf{})
	if err != nil {
		t.Fatal(err)
	}
	disk.FailAt(1, syscall.EIO, -1, func(op faultfs.Op, name string) bool { return op == faultfs.OpSync && name == protocol.PathLog })
	err = r.Run(context.Background())
	if !errors.Is(err, eventlog.ErrBroken) {
		t.Fatalf("the daemon ended with %v", err)
	}
	disk.Heal()
	disk = disk.Reboot()
	if err := runOnce(disk); err != nil {
		t.Fatalf("the next start: %v", err)
	}
	if n := unread(t, disk, "bob"); n != 1 {
		t.Errorf("bob got %d messages", n)
	}
}

// TestOneInboxCannotBeWritten: the other recipients get theirs at once, the
// one when its directory can be written again.
func TestOneInboxCannotBeWritten(t *testing.T) {
	disk := memHive(t)
	disk.FailAt(1, fs.ErrPermission, 3, func(op faultfs.Op, name string) bool {
		return op == faultfs.OpCreate && strings.HasPrefix(name, "agents/bob/inbox/")
	})
	put(t, disk, "agents/alice/outbox/1.json", `{"id":"m1","to":["bob","human","alice"],"body":"x"}`)
	if err := runOnce(disk); err != nil {
		t.Fatal(err)
	}
	for _, id := range []protocol.AgentID{"bob", "human", "alice"} {
		if n := unread(t, disk, id); n != 1 {
			t.Errorf("%s got %d messages", id, n)
		}
	}
}

// TestGitCannotBeWritten: delivery goes on.
func TestGitCannotBeWritten(t *testing.T) {
	disk := memHive(t)
	disk.FailAt(1, syscall.EIO, -1, func(_ faultfs.Op, name string) bool { return strings.HasPrefix(name, ".git/") })
	put(t, disk, "agents/alice/outbox/1.json", `{"id":"m1","to":"bob","body":"x"}`)
	if err := runOnce(disk); err != nil {
		t.Fatal(err)
	}
	if n := unread(t, disk, "bob"); n != 1 {
		t.Errorf("bob got %d messages", n)
	}
	disk.Heal()
	if err := runOnce(disk); err != nil {
		t.Fatal(err)
	}
	repo, err := gitcommit.Open(disk, gitcommit.Options{})
	if err != nil {
		t.Fatal(err)
	}
	head, err := repo.Head()
	if err != nil {
		t.Fatal(err)
	}
	last := protocol.Seq(0)
	for rec, err := range eventlog.Read(disk, eventlog.Position{}) {
		if err != nil {
			t.Fatal(err)
		}
		last = rec.Event.Seq
	}
	if head.Seq != last {
		t.Errorf("history goes to %d, the log to %d", head.Seq, last)
	}
}

// TestOriginalComesBackEmpty: after a power cut the file of an accepted message
// can stand in its outbox again, without the bytes that its writer never
// synced. It is neither called broken nor lost.
func TestOriginalComesBackEmpty(t *testing.T) {
	disk := memHive(t)
	put(t, disk, "agents/alice/outbox/1.json", `{"to":"bob","body":"once"}`)
	delivered := make(chan struct{})
	cfg := Config{Settings: memSettings(), OnEvent: func(ev protocol.Event) {
		if e, ok := ev.Body.(*protocol.MessageEvent); ok && e.From == "alice" {
			close(delivered)
		}
	}}
	r, err := open(disk, cfg, deaf{})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	ctx, cancel := context.WithCancel(context.Background())
	go func() { done <- r.Run(ctx) }()
	<-delivered
	disk.CrashAt(0, faultfs.Keep)
	cancel()
	if err := <-done; err == nil {
		t.Error("the daemon did not notice the crash")
	}
	disk = disk.Reboot()
	if _, err := disk.Lstat("agents/alice/outbox/.sent/1.json"); err == nil {
		if err := disk.Rename("agents/alice/outbox/.sent/1.json", "agents/alice/outbox/1.json"); err != nil {
			t.Fatal(err)
		}
	}
	f, err := disk.Append("agents/alice/outbox/1.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Truncate(0), f.Close()); err != nil {
		t.Fatal(err)
	}
	if err := runOnce(disk); err != nil {
		t.Fatal(err)
	}
	if bob, alice := unread(t, disk, "bob"), unread(t, disk, "alice"); bob != 1 || alice != 0 {
		t.Errorf("bob has %d messages, alice %d notices", bob, alice)
	}
	if data, _, err := durable.ReadFile(disk, "agents/alice/outbox/.sent/1.json", 1<<10); err != nil || !strings.Contains(string(data), "once") {
		t.Errorf("the archive holds %q, %v", data, err)
	}
}

// TestIntruderThatCannotBeMoved is logged once, not at every look.
func TestIntruderThatCannotBeMoved(t *testing.T) {
	disk := memHive(t)
	put(t, disk, "agents/alice/outbox/1.json", `{"id":"m1","to":"bob","body":"x"}`)
	if err := runOnce(disk); err != nil {
		t.Fatal(err)
	}
	list, err := disk.ReadDir("agents/bob/inbox")
	if err != nil {
		t.Fatal(err)
	}
	put(t, disk, "agents/bob/inbox/"+list[len(list)-1].Name, "scribbled over")
	disk.FailAt(1, fs.ErrPermission, -1, func(op faultfs.Op, name string) bool {
		return op == faultfs.OpRename && strings.HasPrefix(name, "agents/bob/inbox/.done/bad-")
	})
	said := 0
	r, err := open(disk, Config{Settings: memSettings(), OnEvent: func(ev protocol.Event) {
		if q, ok := ev.Body.(*protocol.QuarantineEvent); ok && q.Code == protocol.CodeAltered {
			said++
		}
	}}, deaf{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.events.Close()
	for range 5 {
		r.everything(true)
		if _, err := r.step(t.Context(), time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	if said != 1 {
		t.Errorf("it was logged %d times", said)
	}
}
