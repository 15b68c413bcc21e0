package router

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hived/hived/eventlog"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/durable/faultfs"
	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
	"github.com/hived/hived/view"
)

// dry is a source of entropy that is used up.
type dry struct{}

func (dry) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

func runDry(disk durable.FS) error {
	r, err := open(disk, Config{Settings: memSettings(), Once: true, Entropy: dry{}}, noWatcher{})
	if err != nil {
		return err
	}
	return r.Run(context.Background())
}

// undecided returns a hive whose daemon had to end when it decided about alice's message.
func undecided(t *testing.T) *faultfs.Mem {
	t.Helper()
	disk := memHive(t)
	put(t, disk, "agents/alice/outbox/1.json", `{"to":"bob","body":"unique-1"}`)
	if err := runDry(disk); !errors.Is(err, io.ErrUnexpectedEOF) || !strings.Contains(err.Error(), "decide about outbox/1.json of alice") {
		t.Fatalf("the daemon ended with %v", err)
	}
	put(t, disk, "agents/alice/outbox/2.json", `{"to":"bob","body":"unique-2"}`)
	put(t, disk, "agents/bob/outbox/1.json", `{"to":"alice","body":"unique-3"}`)
	return disk
}

// served returns how often alice's message was set aside, and an error unless all others
// arrived once.
func served(disk durable.FS) (aside int, err error) {
	alerts, delivered := 0, 0
	for rec, err := range eventlog.Read(disk, eventlog.Position{}) {
		if err != nil {
			return aside, err
		}
		switch e := rec.Event.Body.(type) {
		case *protocol.QuarantineEvent:
			if e.Agent != "alice" || e.Code != protocol.CodeInternalError || e.Original.Name != "1.json" || !strings.Contains(string(e.Content.Bytes()), "unique-1") {
				return aside, fmt.Errorf("set aside: %+v", e)
			}
			aside++
		case *protocol.AlertEvent:
			if e.Code == protocol.CodeInternalError {
				alerts++
			}
		case *protocol.MessageEvent:
			if e.From != protocol.Hive && len(e.Delivered) == 1 {
				delivered++
			}
		default:
		}
	}
	if alerts != aside || delivered != 3-aside {
		err = fmt.Errorf("%d alerts, %d messages delivered, %d set aside", alerts, delivered, aside)
	}
	return aside, err
}

// TestUndecidedIsSetAside checks that the next daemon sets aside the file about which the
// last one could not decide, tells its author and people, and serves everybody else, and
// that the same message sent again is a new one.
func TestUndecidedIsSetAside(t *testing.T) {
	t.Parallel()
	disk := undecided(t)
	left, _, err := durable.ReadFile(disk, protocol.SuspectFile, -1)
	testenv.Must(t, err)
	for _, want := range []string{`"agent":"alice"`, `"name":"1.json"`, `"sha256":"`, "unexpected EOF"} {
		if !strings.Contains(string(left), want) {
			t.Errorf("%s does not say %s", left, want)
		}
	}
	testenv.Must(t, runOnce(disk))
	if aside, err := served(disk); err != nil || aside != 1 {
		t.Fatalf("%d files are set aside, %v", aside, err)
	}
	if _, err := disk.Lstat(protocol.SuspectFile); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s is still there: %v", protocol.SuspectFile, err)
	}
	if n := unread(t, disk, "alice"); n != 2 { // bob's message, and the notice
		t.Errorf("alice has %d messages", n)
	}
	put(t, disk, protocol.SuspectFile, string(left)) // as a crash leaves it
	put(t, disk, "agents/alice/outbox/1.json", `{"to":"bob","body":"unique-1"}`)
	testenv.Must(t, runOnce(disk))
	if n := unread(t, disk, "bob"); n != 2 {
		t.Errorf("bob has %d messages", n)
	}
}

// TestUndecidedAndCrash checks that nothing else is harmed by a crash at any operation of
// the daemon that could not decide, or of the next one.
func TestUndecidedAndCrash(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		run   func(durable.FS) error
		least int
	}{"in the first": {runDry, 0}, "in the next": {runOnce, 1}} {
		for how, loss := range map[string]faultfs.Loss{"lost": faultfs.Drop, "kept": faultfs.Keep} {
			t.Run(name+", "+how, func(t *testing.T) {
				t.Parallel()
				sweep(t, undecided, func(disk *faultfs.Mem, k int) (crashed bool, err error) {
					if tt.least == 0 {
						_ = disk.Remove(protocol.SuspectFile)
					}
					disk.CrashAt(k, loss)
					err = tt.run(disk)
					crashed = err != nil && !errors.Is(err, io.ErrUnexpectedEOF)
					disk = disk.Reboot()
					if err := runOnce(disk); err != nil {
						return crashed, fmt.Errorf("the restart failed: %w", err)
					}
					aside, err := served(disk)
					if err == nil && aside < tt.least {
						err = errors.New("it was taken in")
					}
					return crashed, err
				})
			})
		}
	}
}

// overdue returns a hive with a task that alice had, whose daemon had to end when something
// was due with it: when the task, which she had given back for a minute, was to be offered
// again, or when nobody had approved what she asked.
func overdue(t *testing.T, last protocol.TaskAction) (disk *faultfs.Mem, id protocol.TaskID) {
	t.Helper()
	disk = memHive(t)
	send := func(from, name, text string) {
		put(t, disk, "agents/"+from+"/outbox/"+name+".json", text)
		testenv.Must(t, runOnce(disk))
	}
	send("human", "1", `{"to":"hive","event":"create","data":{"title":"first","to":["alice"]}}`)
	for rec, err := range eventlog.Read(disk, eventlog.Position{}) {
		testenv.Must(t, err)
		if e, ok := rec.Event.Body.(*protocol.TaskEvent); ok {
			id = e.Task
		}
	}
	of := `"task":"` + string(id) + `"`
	send("alice", "1", `{"to":"hive","event":"claim",`+of+`}`)
	if last == task.Release {
		send("alice", "2", `{"to":"hive","event":"release",`+of+`,"epoch":1,"data":{"not_before":"`+time.Now().Add(time.Minute).UTC().Format(time.RFC3339)+`"}}`)
	} else {
		send("alice", "2", `{"to":"hive","event":"start",`+of+`,"epoch":1}`)
		send("alice", "3", `{"to":"hive","event":"pause_for_approval",`+of+`,"epoch":1,"data":{"question":"May I?"}}`)
	}
	<-time.After(2 * memSettings().Tasks.ApprovalTimeout)
	if err := runDry(disk); !errors.Is(err, io.ErrUnexpectedEOF) || !strings.Contains(err.Error(), "do what is due with task") {
		t.Fatalf("the daemon ended with %v", err)
	}
	return disk, id
}

// stood returns how often the clocks of a task were stopped in the log, and its last event.
func stood(disk durable.FS, id protocol.TaskID) (stopped int, last string, err error) {
	for rec, err := range eventlog.Read(disk, eventlog.Position{}) {
		if err != nil {
			return stopped, last, err
		}
		switch e := rec.Event.Body.(type) {
		case *protocol.AlertEvent:
			if e.Code == protocol.CodeInternalError && e.Path == protocol.TaskDir(id) {
				stopped++
			}
		case *protocol.TaskEvent:
			if e.Task == id {
				last = string(e.Event)
			}
		default:
		}
	}
	return stopped, last, nil
}

// TestOverdueStandsStill checks that the next daemon stops the clocks of the task that the
// last one could not decide about, tells people, serves everybody else, and lets the task
// go on with the next command about it.
func TestOverdueStandsStill(t *testing.T) {
	t.Parallel()
	for _, now := range []protocol.TaskAction{task.Release, task.PauseForApproval} {
		t.Run("after "+string(now), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { standsStill(t, now) })
		})
	}
}

func standsStill(t *testing.T, now protocol.TaskAction) {
	t.Helper()
	disk, id := overdue(t, now)
	left, _, err := durable.ReadFile(disk, protocol.SuspectFile, -1)
	testenv.Must(t, err)
	if want := `{"task":"` + string(id) + `","error":"`; !strings.HasPrefix(string(left), want) {
		t.Fatalf("%s holds %s", protocol.SuspectFile, left)
	}
	put(t, disk, "agents/human/outbox/2.json", `{"to":"hive","event":"create","data":{"title":"second","to":["bob"]}}`)
	put(t, disk, "agents/bob/outbox/1.json", `{"to":"alice","body":"unique-1"}`)
	testenv.Must(t, runOnce(disk))
	if n, last, err := stood(disk, id); n != 1 || last != string(now) || err != nil {
		t.Fatalf("the task was stopped %d times, its last event is %s, %v", n, last, err)
	}
	if n := unread(t, disk, "bob"); n != 1 {
		t.Errorf("bob has %d offers", n)
	}
	st, err := view.ReadStatus(disk)
	testenv.Must(t, err)
	if want := []view.Problem{{Code: view.TaskStopped, Value: string(id)}}; !slices.Equal(st.Trouble, want) {
		t.Errorf("the status says %v", st.Trouble)
	}

	put(t, disk, protocol.SuspectFile, string(left)) // as a crash leaves it
	testenv.Must(t, runOnce(disk))
	if n, last, err := stood(disk, id); n != 1 || last != string(now) || err != nil {
		t.Fatalf("after a crash: stopped %d times, the last is %s, %v", n, last, err)
	}
	if _, err := disk.Lstat(protocol.SuspectFile); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s is still there: %v", protocol.SuspectFile, err)
	}

	r, err := open(disk, Config{Settings: memSettings()}, noWatcher{})
	testenv.Must(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	<-time.After(time.Second)                                                                            // the time of what was due with the task has passed
	put(t, disk, "agents/bob/outbox/2.json", `{"to":"hive","event":"complete","task":"`+string(id)+`"}`) // the task is not bob's
	<-time.After(time.Second)
	stop()
	testenv.Must(t, <-ended)
	if _, last, err := stood(disk, id); last == string(now) || err != nil {
		t.Errorf("after a command the last event is %s, %v", last, err)
	}
	st, err = view.ReadStatus(disk)
	testenv.Must(t, err)
	if len(st.Trouble) > 0 {
		t.Errorf("the status says %v", st.Trouble)
	}
}

// TestOverdueAndCrash checks that after a crash at any operation, the task is stopped at
// most once, and never goes on in part.
func TestOverdueAndCrash(t *testing.T) {
	t.Parallel()
	for how, loss := range map[string]faultfs.Loss{"lost": faultfs.Drop, "kept": faultfs.Keep} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			var id protocol.TaskID
			sweep(t, func(t *testing.T) (disk *faultfs.Mem) {
				t.Helper()
				disk, id = overdue(t, task.Release)
				return disk
			}, func(disk *faultfs.Mem, k int) (crashed bool, err error) {
				disk.CrashAt(k, loss)
				crashed = runOnce(disk) != nil
				disk = disk.Reboot()
				if err := runOnce(disk); err != nil {
					return crashed, fmt.Errorf("the restart failed: %w", err)
				}
				n, last, err := stood(disk, id)
				if err == nil && (n != 1 || last != string(task.Release)) {
					err = fmt.Errorf("stopped %d times, the last is %s", n, last)
				}
				return crashed, err
			})
		})
	}
}
