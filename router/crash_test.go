package router

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hived/hived/eventlog"
	"github.com/hived/hived/gitcommit"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/durable/faultfs"
	strides "github.com/hived/hived/internal/sweep"
	"github.com/hived/hived/internal/wait"
	"github.com/hived/hived/ledger"
	"github.com/hived/hived/mailbox"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/view"
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

// oneClock has the same clocks hold for all holders.
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
		if n := mailbox.Pending(disk, id); n != 0 {
			errs = append(errs, fmt.Errorf("%d files are left in the outbox of %s", n, id))
		}
	}
	if _, err := eventlog.Check(disk, nil, nil, func(d *eventlog.Damage) { errs = append(errs, d) }); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// sweep has a daemon crash at each operation on a copy of one disk, or at those
// that [strides.Stories] leaves, until none is left to crash at. It says how many
// operations there were. Where all of them wait, their clock goes on at once.
func sweep(t *testing.T, begin func(t *testing.T) *faultfs.Mem, crash func(disk *faultfs.Mem, k int) (crashed bool, err error)) (crashes int) {
	t.Helper()
	var begun *faultfs.Mem
	synctest.Test(t, func(t *testing.T) { begun = begin(t) })
	for k := 1; ; k += strides.Of(strides.Stories) {
		var crashed bool
		var err error
		synctest.Test(t, func(*testing.T) {
			<-time.After(time.Hour) // each begins in the same hour
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
			crashes := sweep(t, func(t *testing.T) *faultfs.Mem {
				t.Helper()
				disk := memHive(t)
				workload(t, disk)
				return disk
			}, func(disk *faultfs.Mem, k int) (crashed bool, err error) {
				disk.CrashAt(k, loss.how)
				crashed = runOnce(disk) != nil
				disk = disk.Reboot()
				if err := runOnce(disk); err != nil {
					return crashed, fmt.Errorf("the restart failed: %w", err)
				}
				return crashed, inspect(disk)
			})
			if crashes < 50 {
				t.Errorf("only %d crashes: the sweep does not reach the whole path", crashes)
			}
			t.Logf("%d crashes", crashes)
		})
	}
}

// TestCrashWhileSweeping crashes a daemon that lets files go which no checkpoint
// has covered yet: what a crash brings back, in an outbox or in an inbox, is
// neither archived again nor shown again.
func TestCrashWhileSweeping(t *testing.T) {
	t.Parallel()
	for _, loss := range []struct {
		name  string
		how   faultfs.Loss
		fails int // removals in .sent, after the crash
	}{{"lost", faultfs.Drop, 0}, {"kept", faultfs.Keep, 0}, {"lost, and a removal fails", faultfs.Drop, 1}} {
		t.Run(loss.name, func(t *testing.T) {
			t.Parallel()
			sweep(t, func(t *testing.T) *faultfs.Mem {
				t.Helper()
				return handledAndCommitted(t, loss.how)
			}, func(disk *faultfs.Mem, k int) (crashed bool, err error) {
				disk.CrashAt(k, loss.how)
				crashed = runSweeping(disk) != nil
				disk = disk.Reboot()
				if loss.fails > 0 {
					disk.FailAt(1, fs.ErrPermission, loss.fails, func(op faultfs.Op, name string) bool {
						return op == faultfs.OpRemove && strings.HasPrefix(name, protocol.SentDir("alice")+"/")
					})
				}
				if err := runSweeping(disk); err != nil {
					return crashed, fmt.Errorf("the restart failed: %w", err)
				}
				return crashed, asLogged(disk)
			})
		})
	}
}

// handledAndCommitted gives the disk of a hive that crashed when git held three
// messages and their recipient had just moved them to .done.
func handledAndCommitted(t *testing.T, how faultfs.Loss) *faultfs.Mem {
	t.Helper()
	disk := memHive(t)
	for i := range 3 {
		put(t, disk, fmt.Sprintf("agents/alice/outbox/%d.json", i), fmt.Sprintf(`{"to":"bob","body":"unique-%d"}`, i))
	}
	var mu sync.Mutex
	var last protocol.Seq
	var files []string
	handled := 0
	cfg := Config{Settings: memSettings()}
	cfg.OnEvent = func(ev protocol.Event) {
		switch e := ev.Body.(type) {
		case *protocol.MessageEvent:
			if files = append(files, e.File); len(files) < 3 {
				return
			}
			err := disk.SyncDir(protocol.InboxDir("bob")) // and not what bob does then
			for _, file := range files {
				err = errors.Join(err, disk.Rename(protocol.InboxDir("bob")+"/"+file, protocol.DoneDir("bob")+"/"+file))
			}
			if err != nil {
				t.Error(err)
			}
		case *protocol.HandledEvent:
			mu.Lock()
			last = ev.Seq
			handled++
			mu.Unlock()
		}
	}
	cfg.OnCommit = func(through protocol.Seq) {
		mu.Lock()
		defer mu.Unlock()
		if handled == 3 && through >= last {
			disk.CrashAt(0, how)
		}
	}
	r, err := open(disk, cfg, noWatcher{})
	if err != nil {
		t.Fatal(err)
	}
	if r.Run(t.Context()) == nil {
		t.Fatal("the daemon did not notice the crash")
	}
	return disk.Reboot()
}

func runSweeping(disk durable.FS) error {
	settings := memSettings()
	settings.Retention.Files = 1
	return runWith(disk, settings)
}

// asLogged compares the mailboxes with what the log says is in them.
func asLogged(disk durable.FS) error {
	state := ledger.New(memSettings().Remember)
	sweeps := 0
	for rec, err := range eventlog.Read(disk, eventlog.Position{}) {
		if err != nil {
			return err
		}
		if e, ok := rec.Event.Body.(*protocol.HiveEvent); ok && e.Action == protocol.Swept {
			sweeps++
		}
		state.Apply(rec.Event)
	}
	var errs []error
	if sweeps == 0 {
		errs = append(errs, errors.New("nothing was swept"))
	}
	for _, id := range []protocol.AgentID{"alice", "bob"} {
		errs = append(errs, sameBoxes(disk, state.Agents[id]))
	}
	return errors.Join(errs...)
}

// boxesOf gives what the log says of an agent's mailboxes, by directory.
func boxesOf(a *ledger.Agent) map[string]*ledger.Box {
	return map[string]*ledger.Box{protocol.InboxDir(a.ID): &a.Inbox, protocol.DoneDir(a.ID): &a.Done, protocol.SentDir(a.ID): &a.Sent}
}

// sameBoxes compares an agent's mailboxes on the disk with what the log says is
// in them, and wants nothing to wait.
func sameBoxes(disk durable.FS, a *ledger.Agent) error {
	var errs []error
	for dir, box := range boxesOf(a) {
		list, err := disk.ReadDir(dir)
		if err != nil {
			return err
		}
		var names []string
		for _, e := range list {
			if strings.HasSuffix(e.Name, ".json") {
				names = append(names, e.Name)
			}
		}
		if diff := cmp.Diff(slices.Sorted(box.Names()), names); diff != "" {
			errs = append(errs, fmt.Errorf("%s (-log +disk):\n%s", dir, diff))
		}
	}
	if n := mailbox.Pending(disk, a.ID); n != 0 {
		errs = append(errs, fmt.Errorf("%d files are left in the outbox of %s", n, a.ID))
	}
	return errors.Join(errs...)
}

// TestDiskFull lets the log find no room: nothing is taken in, the status says
// so, and when there is room everything goes on by itself.
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

// TestSealWaitsForWhatIsDecided: what was decided while a full disk kept a batch
// waiting has its numbers, and a segment is sealed after it.
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
		return op == faultfs.OpWrite && strings.Contains(name, "log") // it has its name since it was opened, or another
	})
	step()
	if len(r.events.stuck) == 0 {
		t.Fatal("the disk was not full")
	}
	r.alerts.raise(time.Now(), &protocol.AlertEvent{Code: protocol.CodeStray, Text: "meanwhile"})
	step()
	if len(r.events.stuck) > 0 || unread(t, disk, "bob") != 1 {
		t.Fatal("it did not go on when there was room")
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

// TestStopOnFullDisk: a stop whose last pass finds no room for what was sent says
// nothing more, and leaves it to the next start.
func TestStopOnFullDisk(t *testing.T) {
	disk := memHive(t)
	r, err := New(disk, Config{Settings: memSettings()})
	if err != nil {
		t.Fatal(err)
	}
	put(t, disk, "agents/alice/outbox/1.json", `{"id":"m1","to":"bob","body":"x"}`)
	disk.FailAt(1, durable.ErrNoSpace, 1, func(op faultfs.Op, name string) bool {
		return op == faultfs.OpWrite && strings.Contains(name, "log")
	})
	if err := errors.Join(r.finish(t.Context()), r.events.Close()); err != nil {
		t.Fatal(err)
	}
	if n := unread(t, disk, "bob"); n != 0 {
		t.Errorf("bob got %d messages that are not in the log", n)
	}
	if err := runOnce(disk); err != nil {
		t.Fatal(err)
	}
	if n := unread(t, disk, "bob"); n != 1 {
		t.Errorf("bob got %d messages", n)
	}
}

// TestSweptFileThatCannotBeRemoved is removed when it can be.
func TestSweptFileThatCannotBeRemoved(t *testing.T) {
	disk := handledAndCommitted(t, faultfs.Keep)
	disk.FailAt(1, fs.ErrPermission, 3, func(op faultfs.Op, name string) bool {
		return op == faultfs.OpRemove && strings.HasPrefix(name, protocol.SentDir("alice")+"/")
	})
	if err := errors.Join(runSweeping(disk), asLogged(disk)); err != nil {
		t.Error(err)
	}
}

// TestReopenedIsNotSwept: an old message that its agent takes back out of .done
// is unread again, though retention would let it go in the same moment.
func TestReopenedIsNotSwept(t *testing.T) {
	disk := handledAndCommitted(t, faultfs.Keep)
	if err := runOnce(disk); err != nil {
		t.Fatal(err)
	}
	list, err := disk.ReadDir(protocol.DoneDir("bob"))
	if err != nil || len(list) != 3 {
		t.Fatalf("%v, %v", list, err)
	}
	oldest := list[0].Name
	if err := disk.Rename(protocol.DoneDir("bob")+"/"+oldest, protocol.InboxDir("bob")+"/"+oldest); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(runSweeping(disk), asLogged(disk)); err != nil {
		t.Error(err)
	}
	if n := unread(t, disk, "bob"); n != 1 {
		t.Errorf("bob has %d unread messages", n)
	}
}

// TestReopenedWhileGitIsBehind: what recovery puts back for a history that lags
// is not what an agent has taken back out of .done meanwhile.
func TestReopenedWhileGitIsBehind(t *testing.T) {
	disk := memHive(t)
	put(t, disk, "agents/human/outbox/0.json", `{"to":"hive","event":"git-pause","body":""}`)
	put(t, disk, "agents/alice/outbox/1.json", `{"to":"bob","body":"x"}`)
	box := map[bool]string{true: protocol.InboxDir("bob"), false: protocol.DoneDir("bob")}
	for _, unread := range []bool{true, false} { // it is handled, and then it is not
		if err := runOnce(disk); err != nil {
			t.Fatal(err)
		}
		name := slices.Collect(maps.Keys(messagesIn(t, disk, box[unread])))[0]
		if err := disk.Rename(box[unread]+"/"+name, box[!unread]+"/"+name); err != nil {
			t.Fatal(err)
		}
	}
	if err := runOnce(disk); err != nil {
		t.Fatal(err)
	}
	if unread, done := messagesIn(t, disk, box[true]), messagesIn(t, disk, box[false]); len(unread) != 1 || len(done) != 0 {
		t.Errorf("unread %v, in .done %v", unread, done)
	}
}

// messagesIn are the names of the messages in a directory.
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

// TestMessageToNewcomer: who is put on the roster by a command has an inbox
// before the next message of the same batch goes there.
func TestMessageToNewcomer(t *testing.T) {
	disk := memHive(t)
	put(t, disk, "agents/human/outbox/1.json", `{"to":"hive","event":"agent-add","data":{"agent":"carol"},"body":""}`)
	put(t, disk, "agents/human/outbox/2.json", `{"to":"carol","body":"x"}`)
	r, err := open(disk, Config{Settings: memSettings(), Once: true, OnEvent: func(ev protocol.Event) {
		if a, ok := ev.Body.(*protocol.AlertEvent); ok {
			t.Errorf("alert %s: %s", a.Code, a.Text)
		}
	}}, noWatcher{})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := unread(t, disk, "carol"); n != 1 {
		t.Errorf("carol has %d messages", n)
	}
}

// TestFailedSyncEndsTheDaemon: nobody can tell what is on such a disk.
func TestFailedSyncEndsTheDaemon(t *testing.T) {
	disk := memHive(t)
	put(t, disk, "agents/alice/outbox/1.json", `{"id":"m1","to":"bob","body":"x"}`)
	r, err := open(disk, Config{Settings: memSettings(), Once: true}, noWatcher{})
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

// TestDebtAtStop: what could not be placed before a clean stop is placed after
// the next start. Neither the settled mark nor a snapshot passes it.
func TestDebtAtStop(t *testing.T) {
	disk := memHive(t)
	disk.FailAt(1, fs.ErrPermission, -1, func(op faultfs.Op, name string) bool {
		return op == faultfs.OpCreate && strings.HasPrefix(name, "agents/bob/inbox/")
	})
	put(t, disk, "agents/alice/outbox/1.json", `{"id":"m1","to":["bob","human"],"body":"x"}`)
	ctx, stop := context.WithCancel(t.Context())
	cfg := Config{Settings: memSettings(), OnEvent: func(ev protocol.Event) {
		if e, ok := ev.Body.(*protocol.MessageEvent); ok && e.From == "alice" {
			stop()
		}
	}}
	r, err := open(disk, cfg, noWatcher{})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if n := unread(t, disk, "human"); n != 1 {
		t.Errorf("human got %d messages", n)
	}
	disk.Heal()
	if err := runOnce(disk); err != nil {
		t.Fatal(err)
	}
	if n := unread(t, disk, "bob"); n != 1 {
		t.Errorf("bob got %d messages", n)
	}
}

// TestNotSettledBeforeItsOriginalIsArchived: the mark does not pass a message
// whose original is still in the outbox, so that the next start knows of it.
func TestNotSettledBeforeItsOriginalIsArchived(t *testing.T) {
	disk := memHive(t)
	put(t, disk, "agents/alice/outbox/1.json", `{"id":"m1","to":"bob","body":"x"}`)
	disk.FailAt(1, fs.ErrPermission, -1, func(op faultfs.Op, name string) bool {
		return (op == faultfs.OpRename || op == faultfs.OpLink) && strings.HasPrefix(name, "agents/alice/outbox/")
	})
	ctx, stop := context.WithCancel(t.Context())
	var message protocol.Seq
	var settled []protocol.Seq
	cfg := Config{Settings: memSettings(), OnEvent: func(ev protocol.Event) {
		switch e := ev.Body.(type) {
		case *protocol.MessageEvent:
			if e.From == "alice" {
				message = ev.Seq
				stop()
			}
		case *protocol.HiveEvent:
			if e.Action == protocol.Settled {
				settled = append(settled, e.Through)
			}
		}
	}}
	r, err := open(disk, cfg, noWatcher{})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Run(ctx); err != nil {
		t.Fatal(err)
	}
	for _, through := range settled {
		if through >= message {
			t.Errorf("settled through %d, and the original of %d is not archived", through, message)
		}
	}
	disk.Heal()
	if err := runOnce(disk); err != nil {
		t.Fatal(err)
	}
	if _, err := disk.Lstat("agents/alice/outbox/.sent/1.json"); err != nil || unread(t, disk, "bob") != 1 {
		t.Errorf("the original: %v; bob got %d messages", err, unread(t, disk, "bob"))
	}
}

// TestOwedIsNotDeleted: what an inbox does not take yet is missing there, and
// its agent, who works through what is there, did not delete it.
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
		if err := disk.Mkdir(fmt.Sprintf("agents/bob/inbox/.%d", i), 0o755); err != nil { // its time moves
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

// TestHandledBeforeACrash: a message that its agent had moved to .done, and the
// log does not know of yet, is not delivered again.
func TestHandledBeforeACrash(t *testing.T) {
	disk := memHive(t)
	put(t, disk, "agents/alice/outbox/1.json", `{"id":"m1","to":"bob","body":"x"}`)
	var moved string
	cfg := Config{Settings: memSettings(), OnEvent: func(ev protocol.Event) {
		if e, ok := ev.Body.(*protocol.MessageEvent); ok && moved == "" {
			moved = protocol.DoneDir("bob") + "/" + e.File
			if err := disk.Rename(protocol.InboxDir("bob")+"/"+e.File, moved); err != nil {
				t.Error(err)
			}
			disk.CrashAt(0, faultfs.Keep)
		}
	}}
	r, err := open(disk, cfg, noWatcher{})
	if err != nil {
		t.Fatal(err)
	}
	if r.Run(t.Context()) == nil {
		t.Fatal("the daemon did not notice the crash")
	}
	disk = disk.Reboot()
	if err := runOnce(disk); err != nil {
		t.Fatal(err)
	}
	if n := unread(t, disk, "bob"); n != 0 {
		t.Errorf("bob has %d unread messages", n)
	}
	if _, err := disk.Lstat(moved); err != nil {
		t.Error(err)
	}
}

// TestCheckpointOfARunningDaemon: what the log calls settled survives a power
// cut, for nothing places it again.
func TestCheckpointOfARunningDaemon(t *testing.T) {
	disk := memHive(t)
	put(t, disk, "agents/alice/outbox/1.json", `{"id":"m1","to":"bob","body":"x"}`)
	if err := disk.SyncAll(); err != nil { // what is there now is not in question
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
			r.sync.since = r.sync.since.Add(-syncEvery) // this is the loop's goroutine
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

// TestOriginalComesBackInPart: after a power cut the file of an accepted message
// can stand in its outbox again, without some of the bytes that its writer never
// synced. It is neither called broken, nor sent again, nor lost.
func TestOriginalComesBackInPart(t *testing.T) {
	t.Parallel()
	const text = "{\"to\":\"bob\",\"body\":\"once\"}\n"
	for name, left := range map[string]string{
		"nothing": "", "zeros": "\x00\x00\x00", "the beginning": text[:9], "with zeros": text[:9] + strings.Repeat("\x00", len(text)-9),
		"all but the last line break": text[:len(text)-1], "all, with another time": text,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			disk := acceptedAndCrashed(t, text)
			f, err := disk.Append("agents/alice/outbox/1.json")
			if err != nil {
				t.Fatal(err)
			}
			_, err = f.Write([]byte(left))
			if err := errors.Join(err, f.Close()); err != nil {
				t.Fatal(err)
			}
			if err := runOnce(disk); err != nil {
				t.Fatal(err)
			}
			if bob, alice := unread(t, disk, "bob"), unread(t, disk, "alice"); bob != 1 || alice != 0 {
				t.Errorf("bob has %d messages, alice %d notices", bob, alice)
			}
			if data, _, err := durable.ReadFile(disk, "agents/alice/outbox/.sent/1.json", 1<<10); err != nil || string(data) != text {
				t.Errorf("the archive holds %q, %v", data, err)
			}
		})
	}
}

// acceptedAndCrashed gives a disk after a crash in which alice's only message is
// accepted, and its original stands in her outbox, empty.
func acceptedAndCrashed(t *testing.T, text string) *faultfs.Mem {
	t.Helper()
	disk := memHive(t)
	put(t, disk, "agents/alice/outbox/1.json", text)
	delivered := make(chan struct{})
	cfg := Config{Settings: memSettings(), OnEvent: func(ev protocol.Event) {
		if e, ok := ev.Body.(*protocol.MessageEvent); ok && e.From == "alice" {
			close(delivered)
		}
	}}
	r, err := open(disk, cfg, noWatcher{})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	ctx, cancel := context.WithCancel(context.Background())
	go func() { done <- r.Run(ctx) }()
	wait.Receive(t, "alice's message to be accepted", delivered)
	disk.CrashAt(0, faultfs.Keep)
	cancel()
	if err := wait.Ended(wait.Longest, "the daemon to end", done); err == nil || errors.Is(err, wait.ErrInVain) {
		t.Errorf("the daemon did not notice the crash: %v", err)
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
	return disk
}

// TestIntruderThatCannotBeMoved is logged once, not at every look.
func TestIntruderThatCannotBeMoved(t *testing.T) {
	disk, _ := scribbled(t)
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
		t.Errorf("it was logged %d times", said)
	}
}

// crashAfter runs a daemon on a disk that crashes with the first event for which last
// says so, and gives what is left of the disk.
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

// scribbled is a hive in which bob wrote over his only message.
func scribbled(t *testing.T) (disk *faultfs.Mem, name string) {
	t.Helper()
	disk = memHive(t)
	put(t, disk, "agents/alice/outbox/1.json", `{"id":"m1","to":"bob","body":"x"}`)
	if err := runOnce(disk); err != nil {
		t.Fatal(err)
	}
	list, err := disk.ReadDir("agents/bob/inbox")
	if err != nil {
		t.Fatal(err)
	}
	name = list[len(list)-1].Name
	put(t, disk, "agents/bob/inbox/"+name, "scribbled over")
	return disk, name
}

// TestIntruderAndCrash crashes a daemon at every operation while it takes out
// what its agent wrote over a message. The message is not lost, and what was
// written is in .done, once.
func TestIntruderAndCrash(t *testing.T) {
	t.Parallel()
	t.Run("settled", func(t *testing.T) {
		t.Parallel()
		disk, name := scribbled(t)
		disk.CrashAt(0, faultfs.Keep)
		intruderAndCrash(t, disk, name)
	})
	t.Run("not settled", func(t *testing.T) {
		t.Parallel()
		disk := memHive(t)
		put(t, disk, "agents/alice/outbox/1.json", `{"id":"m1","to":"bob","body":"x"}`)
		name := ""
		disk = crashAfter(t, disk, memSettings(), faultfs.Keep, func(ev protocol.Event) bool {
			e, ok := ev.Body.(*protocol.MessageEvent)
			if ok {
				name = e.File
			}
			return ok
		})
		put(t, disk, "agents/bob/inbox/"+name, "scribbled over")
		disk.CrashAt(0, faultfs.Keep)
		intruderAndCrash(t, disk, name)
	})
}

func intruderAndCrash(t *testing.T, origin *faultfs.Mem, name string) {
	t.Helper()
	for k, crashed := 1, true; crashed; k += strides.Of(strides.Stories) {
		disk := origin.Reboot()
		disk.CrashAt(k, []faultfs.Loss{faultfs.Keep, faultfs.Drop}[k%2])
		crashed = runOnce(disk) != nil
		disk = disk.Reboot()
		if err := runOnce(disk); err != nil {
			t.Fatalf("crash at operation %d: the restart failed: %v", k, err)
		}
		data, _, err := durable.ReadFile(disk, protocol.InboxDir("bob")+"/"+name, 1<<10)
		if !strings.Contains(string(data), `"id": "m1"`) {
			t.Errorf("crash at operation %d: the message is %q, %v", k, data, err)
		}
		state := ledger.New(memSettings().Remember)
		for rec, err := range eventlog.Read(disk, eventlog.Position{}) {
			if err != nil {
				t.Fatal(err)
			}
			state.Apply(rec.Event)
		}
		if err := sameBoxes(disk, state.Agents["bob"]); err != nil || state.Agents["bob"].Done.Len() != 1 {
			t.Errorf("crash at operation %d: %d files set aside, %v", k, state.Agents["bob"].Done.Len(), err)
		}
	}
}

// TestIntruderAndTornLog: a power cut takes the end of what was logged about a
// message that its agent had written over.
func TestIntruderAndTornLog(t *testing.T) {
	t.Parallel()
	disk, name := scribbled(t)
	disk = crashAfter(t, disk, memSettings(), faultfs.Keep, func(ev protocol.Event) bool {
		_, ok := ev.Body.(*protocol.QuarantineEvent)
		return ok
	})
	log, _, err := durable.ReadFile(disk, protocol.PathLog, -1)
	if err != nil || !strings.Contains(string(log[strings.LastIndex(string(log[:len(log)-1]), "\n"):]), `"from":"hive","to":["human"]`) {
		t.Fatalf("the last event does not tell of the alert, %v", err)
	}
	put(t, disk, protocol.PathLog, string(log[:len(log)-2]))
	if err := runOnce(disk); err != nil {
		t.Fatal(err)
	}
	data, _, err := durable.ReadFile(disk, protocol.InboxDir("bob")+"/"+name, 1<<10)
	if !strings.Contains(string(data), `"id": "m1"`) {
		t.Errorf("the message is %q, %v", data, err)
	}
	log, _, err = durable.ReadFile(disk, protocol.PathLog, -1)
	if n := strings.Count(string(log), `"kind":"alert","more":true,"code":"altered"`); n != 1 {
		t.Errorf("it is alerted %d times, %v", n, err)
	}
}

// TestDeletedThenDoneAndCrash: a power cut brings back what its agent had deleted,
// and before the daemon runs again the agent moves it to .done.
func TestDeletedThenDoneAndCrash(t *testing.T) {
	t.Parallel()
	disk := memHive(t)
	put(t, disk, "agents/alice/outbox/1.json", `{"to":"bob","body":"x"}`)
	if err := runOnce(disk); err != nil {
		t.Fatal(err)
	}
	list, err := disk.ReadDir("agents/bob/inbox")
	if err != nil {
		t.Fatal(err)
	}
	inbox, done := "agents/bob/inbox/"+list[len(list)-1].Name, "agents/bob/inbox/.done/"+list[len(list)-1].Name
	if err := disk.Remove(inbox); err != nil {
		t.Fatal(err)
	}
	disk = crashAfter(t, disk, memSettings(), faultfs.Drop, func(ev protocol.Event) bool {
		_, ok := ev.Body.(*protocol.HandledEvent)
		return ok
	})
	if err := disk.Rename(inbox, done); err != nil {
		t.Fatal(err)
	}
	if err := runOnce(disk); err != nil {
		t.Fatal(err)
	}
	if _, err := disk.Lstat(done); err == nil {
		t.Error("it is in .done, and the log has it deleted")
	}
}

// TestSweptNameUsedAgainAndCrash: a power cut brings back an archived file that was
// swept, and takes the one that was archived under its name since. What the first
// said is not sent once more.
func TestSweptNameUsedAgainAndCrash(t *testing.T) {
	t.Parallel()
	settings := memSettings()
	settings.Retention.Files = 1
	disk := memHive(t)
	runUntil := func(loss faultfs.Loss, last func(protocol.Event) bool) {
		t.Helper()
		disk = crashAfter(t, disk, settings, loss, last)
	}
	for _, name := range []string{"x", "y"} {
		put(t, disk, "agents/alice/outbox/"+name+".json", `{"to":"bob","body":"unique-`+name+`"}`)
		if err := runOnce(disk); err != nil {
			t.Fatal(err)
		}
	}
	runUntil(faultfs.Keep, func(ev protocol.Event) bool {
		e, ok := ev.Body.(*protocol.HiveEvent)
		return ok && e.Action == protocol.Swept
	})
	if err := durable.Publish(disk, "agents/alice/outbox/x.json", []byte(`{"to":"bob","body":"z"}`), 0o644, false); err != nil {
		t.Fatal(err)
	}
	runUntil(faultfs.Drop, func(ev protocol.Event) bool {
		e, ok := ev.Body.(*protocol.MessageEvent)
		return ok && e.Sent == "x.json"
	})
	if _, err := disk.Lstat("agents/alice/outbox/.sent/x.json"); err != nil {
		t.Fatal(err) // the first is back
	}
	if err := runOnce(disk); err != nil {
		t.Fatal(err)
	}
	if n := unread(t, disk, "bob"); n != 3 {
		t.Errorf("bob has %d messages of 3", n)
	}
}

// TestSettledAfterWhatChangedNothing: a stop after a file that was set aside unread
// is not marked, for nothing of it is in the history. The stops after it are.
func TestSettledAfterWhatChangedNothing(t *testing.T) {
	t.Parallel()
	settings := memSettings()
	settings.InboxCap, settings.MaxMessageBytes = 1, 1000
	disk := memHive(t)
	run := func() {
		t.Helper()
		if err := runWith(disk, settings); err != nil {
			t.Fatal(err)
		}
	}
	put(t, disk, "agents/alice/outbox/1.json", `{"to":"bob","body":"x"}`)
	run()
	put(t, disk, "agents/bob/outbox/1.json", strings.Repeat("x", 2000)) // the notice of it finds bob's inbox full
	run()
	put(t, disk, "agents/alice/outbox/2.json", `{"to":"human","body":"x"}`)
	run()
	list, err := disk.ReadDir("agents/human/inbox")
	if err != nil {
		t.Fatal(err)
	}
	if err := disk.Remove("agents/human/inbox/" + list[len(list)-1].Name); err != nil {
		t.Fatal(err)
	}
	run()
	if n := unread(t, disk, protocol.Human); n != 0 {
		t.Error("what human deleted was placed again")
	}
}

// TestScribbledThenDoneAndCrash crashes a daemon at every operation while it
// notes that its agent moved to .done what it had written over. The archive holds
// what was delivered, wherever the crash comes.
func TestScribbledThenDoneAndCrash(t *testing.T) {
	t.Parallel()
	origin, name := scribbled(t)
	done := protocol.DoneDir("bob") + "/" + name
	if err := errors.Join(origin.Rename(protocol.InboxDir("bob")+"/"+name, done), origin.SyncDir(protocol.DoneDir("bob")), origin.SyncDir(protocol.InboxDir("bob"))); err != nil {
		t.Fatal(err)
	}
	origin.CrashAt(0, faultfs.Keep)
	for k, crashed := 1, true; crashed; k += strides.Of(strides.Stories) {
		disk := origin.Reboot()
		disk.CrashAt(k, []faultfs.Loss{faultfs.Torn(uint64(k)), faultfs.Drop}[k%2])
		crashed = runOnce(disk) != nil
		disk = disk.Reboot()
		if err := runOnce(disk); err != nil {
			t.Fatalf("crash at operation %d: the restart failed: %v", k, err)
		}
		data, _, err := durable.ReadFile(disk, done, 1<<10)
		if !strings.HasPrefix(string(data), "{") || !strings.HasSuffix(string(data), "}\n") {
			t.Errorf("crash at operation %d: the archive holds %q, %v", k, data, err)
		}
	}
}

// TestHeldBeforeItsOriginalIsArchived: after a crash between taking a broken file
// in and archiving it, its agent is held at once.
func TestHeldBeforeItsOriginalIsArchived(t *testing.T) {
	t.Parallel()
	disk := memHive(t)
	put(t, disk, "agents/alice/outbox/1.json", `{"to":`)
	r, err := open(disk, Config{Settings: memSettings(), OnEvent: func(ev protocol.Event) {
		if _, ok := ev.Body.(*protocol.QuarantineEvent); ok {
			disk.CrashAt(0, faultfs.Keep)
		}
	}}, noWatcher{})
	if err != nil {
		t.Fatal(err)
	}
	if r.Run(t.Context()) == nil {
		t.Fatal("the daemon did not notice the crash")
	}
	disk = disk.Reboot()
	if _, err := disk.Lstat("agents/alice/outbox/.sent/bad-1.json"); err == nil {
		if err := disk.Rename("agents/alice/outbox/.sent/bad-1.json", "agents/alice/outbox/1.json"); err != nil {
			t.Fatal(err)
		}
	}
	put(t, disk, "agents/human/outbox/h.json", `{"to":"hive","event":"agent-hold","data":{"agent":"alice"}}`)
	settings := memSettings()
	settings.Settle = time.Minute // the daemon ends before it has rested
	if err := runWith(disk, settings); err != nil {
		t.Fatal(err)
	}
	if _, err := disk.Lstat("agents/alice/outbox/.sent/bad-1.json"); err != nil {
		t.Error(err)
	}
	if _, err := disk.Lstat("agents/alice/outbox/1.json"); err == nil {
		t.Error("the original is still in its outbox")
	}
}

// TestInboxGoneAndCrash crashes a daemon at every operation while it makes an
// inbox again that was deleted, and fills it. What was unread there does not
// count as deleted by its agent, wherever the crash comes.
func TestInboxGoneAndCrash(t *testing.T) {
	t.Parallel()
	for name, loss := range map[string]faultfs.Loss{"lost": faultfs.Drop, "kept": faultfs.Keep, "torn": faultfs.Torn(7)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bobHasTwo(t, inboxDeleted, atOnce, loss)
		})
	}
}

// TestUndeleteAndCrash crashes a daemon at every operation while it delivers again
// what bob deleted, with each way of losing what was not synced in turn.
func TestUndeleteAndCrash(t *testing.T) {
	t.Parallel()
	bobHasTwo(t, undeleteAsked, atOnce, faultfs.Drop, faultfs.Keep, faultfs.Torn(7))
}

// TestPutBackAndCrash crashes a daemon at every operation from when it has logged
// that what vanished from bob's inbox is to be delivered again, with each way of
// losing what was not synced in turn.
func TestPutBackAndCrash(t *testing.T) {
	t.Parallel()
	bobHasTwo(t, putBackAsked, onceLogged, faultfs.Drop, faultfs.Keep, faultfs.Torn(7))
}

// bobHasTwo wants bob to have two unread messages, of which none is missing, after a
// crash at any operation and a restart.
func bobHasTwo(t *testing.T, begin func(t *testing.T) *faultfs.Mem, crash func(disk *faultfs.Mem, k int, loss faultfs.Loss) error, losses ...faultfs.Loss) {
	t.Helper()
	crashes := sweep(t, begin, func(disk *faultfs.Mem, k int) (crashed bool, err error) {
		crashed = crash(disk, k, losses[k%len(losses)]) != nil
		disk = disk.Reboot()
		if err := runOnce(disk); err != nil {
			return crashed, fmt.Errorf("the restart failed: %w", err)
		}
		state := ledger.New(memSettings().Remember)
		for rec, err := range eventlog.Read(disk, eventlog.Position{}) {
			if err != nil {
				return crashed, err
			}
			state.Apply(rec.Event)
		}
		if bob := state.Agents["bob"]; bob.Inbox.Len() != 2 || bob.Missing != 0 {
			return crashed, fmt.Errorf("the log says that bob has %d unread messages, of which %d are missing", bob.Inbox.Len(), bob.Missing)
		}
		return crashed, sameBoxes(disk, state.Agents["bob"])
	})
	if crashes < 50 {
		t.Errorf("only %d crashes: the sweep does not reach the whole path", crashes)
	}
}

// atOnce has a daemon crash at the k-th operation.
func atOnce(disk *faultfs.Mem, k int, loss faultfs.Loss) error {
	disk.CrashAt(k, loss)
	return runOnce(disk)
}

// onceLogged has a daemon crash at the k-th operation after it logged that messages
// are to be put back.
func onceLogged(disk *faultfs.Mem, k int, loss faultfs.Loss) error {
	r, err := open(disk, Config{Settings: memSettings(), Once: true, OnEvent: func(ev protocol.Event) {
		if e, ok := ev.Body.(*protocol.AgentEvent); ok && e.Action == protocol.InboxPutBack {
			disk.CrashAt(k, loss)
		}
	}}, noWatcher{})
	if err != nil {
		return err
	}
	return r.Run(context.Background())
}

// twoForBob is a hive whose daemon stopped when bob had two unread messages.
func twoForBob(t *testing.T) *faultfs.Mem {
	t.Helper()
	disk := memHive(t)
	for i := range 2 {
		put(t, disk, fmt.Sprintf("agents/alice/outbox/%d.json", i), `{"to":"bob","body":"x"}`)
	}
	if err := runOnce(disk); err != nil {
		t.Fatal(err)
	}
	return disk
}

// inboxDeleted is a hive whose daemon stopped, and in which bob's inbox, with two
// messages, was deleted then.
func inboxDeleted(t *testing.T) *faultfs.Mem {
	t.Helper()
	disk := twoForBob(t)
	if err := errors.Join(mailbox.New(disk, mailbox.Options{}).Remove(protocol.InboxDir("bob")), disk.SyncAll()); err != nil {
		t.Fatal(err)
	}
	return disk
}

// undeleteAsked is a hive whose daemon stopped, in which bob deleted one of two
// messages, and a person wants it back.
func undeleteAsked(t *testing.T) *faultfs.Mem {
	t.Helper()
	disk := twoForBob(t)
	_, _, state := readViews(t, disk)
	var err error
	var gone ledger.Letter
	for file, l := range state.Agents["bob"].Inbox.All() {
		gone, err = l, errors.Join(err, disk.Remove(protocol.InboxDir("bob")+"/"+file))
		break
	}
	if err = errors.Join(err, runOnce(disk), runOnce(disk)); err != nil {
		t.Fatal(err)
	}
	if _, _, state = readViews(t, disk); state.Agents["bob"].Inbox.Len() != 1 {
		t.Fatalf("the deletion was not seen: %d are unread", state.Agents["bob"].Inbox.Len())
	}
	put(t, disk, "agents/human/outbox/u.json", fmt.Sprintf(`{"to":"hive","event":"inbox-undelete","data":{"agent":"bob","messages":[%d]}}`, gone.Of))
	if err := disk.SyncAll(); err != nil {
		t.Fatal(err)
	}
	return disk
}

// putBackAsked is a hive whose daemon stopped, in which one of two messages is missing
// from bob's inbox, the last of many that vanished at once, and a person wants it back.
func putBackAsked(t *testing.T) *faultfs.Mem {
	t.Helper()
	disk := twoForBob(t)
	_, _, state := readViews(t, disk)
	var err error
	for file := range state.Agents["bob"].Inbox.All() {
		err = errors.Join(err, disk.Remove(protocol.InboxDir("bob")+"/"+file))
		break
	}
	events, _, opened := eventlog.Open(disk, eventlog.Options{}, func(protocol.Event) error { return nil })
	if err = errors.Join(err, opened); err != nil {
		t.Fatal(err)
	}
	_, err = events.Append([]protocol.Event{{Seq: events.Next(), TS: time.Now(), Body: &protocol.AgentEvent{Agent: "bob", Action: protocol.InboxMissing, Count: 1}}})
	if err = errors.Join(err, events.Close(), runOnce(disk)); err != nil {
		t.Fatal(err)
	}
	put(t, disk, "agents/human/outbox/p.json", `{"to":"hive","event":"inbox-put-back","data":{"agent":"bob"}}`)
	if err := disk.SyncAll(); err != nil {
		t.Fatal(err)
	}
	return disk
}

// TestGoneInboxCannotBeFilled: it is not looked into all the time, and gets what
// was unread when it can be written.
func TestGoneInboxCannotBeFilled(t *testing.T) {
	disk := inboxDeleted(t)
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
	if owed := r.place.Backlog().Files; owed != 2 || !r.agenda.Next().IsZero() {
		t.Errorf("%d files are owed, another look at %v", owed, r.agenda.Next())
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

// TestIntruderTakenAway: what an agent takes away between the event that sets it
// aside and the move stands in .done all the same, as the log says.
func TestIntruderTakenAway(t *testing.T) {
	disk, name := scribbled(t)
	aside := ""
	r, err := open(disk, Config{Settings: memSettings(), Once: true, OnEvent: func(ev protocol.Event) {
		if q, ok := ev.Body.(*protocol.QuarantineEvent); ok {
			aside = q.Path
			if err := disk.Rename("agents/bob/inbox/"+name, "agents/bob/inbox/.done/"+name); err != nil {
				t.Error(err)
			}
		}
	}}, noWatcher{})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, _, err := durable.ReadFile(disk, aside, 1<<20); string(got) != "scribbled over" {
		t.Errorf("%s holds %q, %v", aside, got, err)
	}
}

// TestFloodHearsOfTheRest: while there is always more to take in, what the disk
// has settled is logged all the same.
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
