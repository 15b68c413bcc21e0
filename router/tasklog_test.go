package router

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hived/hived/eventlog"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/durable/faultfs"
	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/ledger"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

// SameTasks compares the tasks of a hive without a daemon with its log: each command was
// answered once and in its own decision, each transition is in the table and begins where
// the one before it ended, and each task has the files that the log says, and no others.
func SameTasks(disk durable.FS) error {
	w := taskLog{state: ledger.New(memSettings().Remember), at: map[protocol.TaskID]task.State{}, epochs: map[protocol.TaskID]uint64{}, files: map[string][]byte{}, checkpoints: ledger.NewCheckpoints(func(seq protocol.Seq) (protocol.Event, error) { return eventlog.ReadEvent(disk, seq) })}
	var group []protocol.Event
	for rec, err := range eventlog.Read(disk, eventlog.Position{}) {
		if err != nil {
			return err
		}
		w.state.Apply(rec.Event)
		w.event(rec.Event)
		if group = append(group, rec.Event); !rec.Event.More {
			w.decision(group)
			group = nil
		}
	}
	w.disk(disk)
	return errors.Join(w.errs...)
}

// taskLog is what a log says of tasks, read independently of the code of package router.
type taskLog struct {
	state       *ledger.State
	at          map[protocol.TaskID]task.State
	epochs      map[protocol.TaskID]uint64
	files       map[string][]byte
	checkpoints *ledger.Checkpoints
	errs        []error
}

func (w *taskLog) wrong(format string, args ...any) {
	w.errs = append(w.errs, fmt.Errorf(format, args...))
}

// event applies one event.
func (w *taskLog) event(ev protocol.Event) {
	changes, err := ledger.Changes(ev)
	if e, ok := ev.Body.(*protocol.TaskEvent); ok && err == nil && e.Checkpoint != nil {
		if err = w.checkpoints.Fill(ev); err == nil {
			changes, err = ledger.Changes(ev)
		}
		if b := e.Checkpoint.Blob; err == nil && !b.IsZero() && !slices.ContainsFunc(changes, func(c protocol.Change) bool { return protocol.BlobOf(c.Data) == b }) {
			w.wrong("event %s: its patch leads to another file than it names", ev.Seq)
		}
	}
	if err != nil {
		w.wrong("event %s: %w", ev.Seq, err)
	}
	for _, c := range changes {
		if protocol.IsTaskPath(c.Path) {
			w.files[c.Path] = c.Data // nil: deleted
		}
	}
	e, ok := ev.Body.(*protocol.TaskEvent)
	if !ok {
		return
	}
	if to, row := task.Next(w.at[e.Task], e.Event); !row || e.From != w.at[e.Task] || e.To != to {
		w.wrong("event %s: task %s was %q, and %s leads from %q to %q", ev.Seq, e.Task, w.at[e.Task], e.Event, e.From, e.To)
	}
	before, rises := w.epochs[e.Task], uint64(0)
	if e.Event == task.Claim || e.Event == task.Accept {
		rises = 1
	}
	if e.Epoch != before+rises {
		w.wrong("event %s: %s of task %s leads from epoch %d to %d", ev.Seq, e.Event, e.Task, before, e.Epoch)
	}
	w.at[e.Task], w.epochs[e.Task] = e.To, e.Epoch
}

// decision checks that a decision has one outcome of the command that it begins with, and
// none of any other.
func (w *taskLog) decision(group []protocol.Event) {
	var steps []string
	rejected, told := 0, 0
	first := group[0]
	for _, ev := range group {
		var of protocol.Seq
		switch e := ev.Body.(type) {
		case *protocol.TaskEvent:
			if of = e.Of; of > 0 {
				steps = append(steps, string(e.Task)+" "+string(e.Event))
			}
		case *protocol.TaskRejectedEvent:
			of = e.Of
			rejected++
		case *protocol.MessageEvent:
			if e.From == protocol.Hive {
				told++
			}
		}
		if of > 0 && of != first.Seq {
			w.wrong("event %s answers event %s in the decision of event %s", ev.Seq, of, first.Seq)
		}
	}
	slices.Sort(steps)
	if n := len(steps); len(slices.Compact(slices.Clone(steps))) != n {
		w.wrong("event %s was carried out twice: %v", first.Seq, steps)
	}
	m, ok := first.Body.(*protocol.MessageEvent)
	is := ok && slices.Contains(m.Delivered, protocol.Hive) && tellsOfTask(m)
	switch {
	case !is && len(steps)+rejected > 0:
		w.wrong("event %s, which is no command about a task, has the outcomes %v, and %d refusals", first.Seq, steps, rejected)
	case is && rejected > 1, is && (rejected == 1) == (len(steps) > 0):
		w.wrong("event %s, %s, has the outcomes %v, and %d refusals", first.Seq, m.Raw, steps, rejected)
	case rejected == 1 && told == 0:
		w.wrong("event %s was refused, and nobody told", first.Seq)
	}
}

func tellsOfTask(m *protocol.MessageEvent) bool {
	c, err := protocol.DecodeMessage([]byte(m.Raw))
	_, known := taskCommands[c.Event]
	return err == nil && (known || c.Task != "")
}

// disk compares the files of tasks with what the log says.
func (w *taskLog) disk(disk durable.FS) {
	for t := range w.state.Tasks.All() {
		if t.State != w.at[t.ID] || t.Epoch != w.epochs[t.ID] {
			w.wrong("task %s is folded to %s at epoch %d, and the log leads to %s at epoch %d", t.ID, t.State, t.Epoch, w.at[t.ID], w.epochs[t.ID])
		}
		p := protocol.TaskDir(t.ID) + "/" + protocol.TaskView
		w.files[p], _ = w.state.View(p)
	}
	for p, want := range w.files {
		have, _, err := durable.ReadFile(disk, p, -1)
		if want == nil && !errors.Is(err, fs.ErrNotExist) || want != nil && (err != nil || string(have) != string(want)) {
			w.wrong("%s is %q, %w; the log says %q", p, have, err, want)
		}
	}
	dirs, err := disk.ReadDir(protocol.PathTasks)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		w.errs = append(w.errs, err)
	}
	for _, dir := range dirs {
		if dir.Name == "README.md" || dir.Name == ".gitkeep" {
			continue
		}
		w.noOthers(disk, path.Join(protocol.PathTasks, dir.Name))
	}
}

// noOthers checks that a task's directory has nothing but what the log says.
func (w *taskLog) noOthers(disk durable.FS, dir string) {
	list, err := disk.ReadDir(dir)
	if err != nil || len(list) == 0 {
		w.wrong("%s is left, %w", dir, err)
	}
	for _, f := range list {
		p := path.Join(dir, f.Name)
		switch {
		case f.Type.IsDir():
			w.noOthers(disk, p)
		case w.files[p] == nil:
			w.wrong("%s is in no event", p)
		}
	}
}

// taskWorkload puts what the agents of the sweep send about tasks into their outboxes: a
// create of two, where the second needs the first, a claim of the first, and a command
// that is refused.
func taskWorkload(t *testing.T, disk durable.FS) {
	t.Helper()
	put(t, disk, "agents/alice/outbox/t.json", `{"id":"t","to":"hive","event":"create","data":{"tasks":[{"title":"second","to":["bob"],"needs":["x"]},{"name":"x","title":"first","to":["bob"]}]}}`)
	put(t, disk, "agents/bob/outbox/t1.json", `{"id":"t1","to":"hive","event":"claim"}`)
	put(t, disk, "agents/bob/outbox/t2.json", `{"id":"t2","to":"hive","event":"claim"}`)
}

// TestTaskCrashAnywhere crashes a daemon at every operation while it takes in commands
// about tasks, and checks that after a restart there are two tasks, one of which bob has
// at its first epoch, and that their files are what the log says.
func TestTaskCrashAnywhere(t *testing.T) {
	t.Parallel()
	for _, how := range []faultfs.Loss{faultfs.Drop, faultfs.Keep, faultfs.Torn(11)} {
		t.Run(how.String(), func(t *testing.T) {
			t.Parallel()
			crashes := sweep(t, func(t *testing.T) *faultfs.Mem {
				t.Helper()
				disk := memHive(t)
				taskWorkload(t, disk)
				return disk
			}, func(disk *faultfs.Mem, k int) (crashed bool, err error) {
				disk.CrashAt(k, how)
				crashed = runOnce(disk) != nil
				disk = disk.Reboot()
				if err := runOnce(disk); err != nil {
					return crashed, fmt.Errorf("the restart failed: %w", err)
				}
				return crashed, errors.Join(SameTasks(disk), tookOne(disk))
			})
			t.Logf("%d crashes", crashes)
		})
	}
}

// TestViewCatchesUpAfterTornLog checks that a start brings a view on the disk back to the
// state of its task after the log lost its end.
func TestViewCatchesUpAfterTornLog(t *testing.T) {
	t.Parallel()
	disk := memHive(t)
	put(t, disk, "agents/alice/outbox/t.json", `{"to":"hive","event":"create","data":{"title":"torn","to":["bob"]}}`)
	disk = crashAfter(t, disk, memSettings(), faultfs.Keep, func(ev protocol.Event) bool {
		_, ok := ev.Body.(*protocol.TaskEvent)
		return ok
	})
	log, _, err := durable.ReadFile(disk, protocol.PathLog, -1)
	at := strings.Index(string(log), `"event":"offer"`)
	if err != nil || at < 0 {
		t.Fatalf("the task was not offered, %v:\n%s", err, log)
	}
	put(t, disk, protocol.PathLog, string(log[:strings.LastIndexByte(string(log[:at]), '\n')+1]))
	if err := errors.Join(runOnce(disk), SameTasks(disk)); err != nil {
		t.Error(err)
	}
}

// TestAnswerNamesWhatWasCreated checks that an answer to a create names each task, in the
// order of the command, whichever needs which, and for a single task its state.
func TestAnswerNamesWhatWasCreated(t *testing.T) {
	t.Parallel()
	disk := memHive(t)
	put(t, disk, "agents/alice/outbox/1.json", `{"id":"c1","to":"hive","event":"create","requires_reply":true,"data":{"tasks":[{"title":"second","to":["bob"],"needs":["x"]},{"name":"x","title":"first","to":["bob"]}]}}`)
	put(t, disk, "agents/bob/outbox/2.json", `{"id":"c2","to":"hive","event":"claim","requires_reply":true}`)
	testenv.Must(t, runOnce(disk))
	state := ledger.New(memSettings().Remember)
	answers := map[protocol.MessageID]string{}
	for rec, err := range eventlog.Read(disk, eventlog.Position{}) {
		testenv.Must(t, err)
		state.Apply(rec.Event)
		if e, ok := rec.Event.Body.(*protocol.MessageEvent); ok && e.From == protocol.Hive {
			m, err := protocol.DecodeMessage([]byte(e.Raw))
			testenv.Must(t, err)
			answers[m.InReplyTo] = string(m.Data)
		}
	}
	ids := map[string]protocol.TaskID{}
	for t := range state.Tasks.All() {
		ids[t.Title] = t.ID
	}
	for id, want := range map[protocol.MessageID]string{
		"c1": fmt.Sprintf(`"tasks":[%q,%q]`, ids["second"], ids["first"]),
		"c2": fmt.Sprintf(`"task":%q`, ids["first"]),
	} {
		if got := answers[id]; !strings.Contains(got, want) || !strings.Contains(got, `"attempt":`) {
			t.Errorf("the answer to %s is %s, want %s", id, got, want)
		}
	}
}

// tookOne checks what the workload leads to.
func tookOne(disk durable.FS) error {
	state := ledger.New(memSettings().Remember)
	for rec, err := range eventlog.Read(disk, eventlog.Position{}) {
		if err != nil {
			return err
		}
		state.Apply(rec.Event)
	}
	var got []string
	for t := range state.Tasks.All() {
		got = append(got, fmt.Sprintf("%s %s %d %s", t.Title, t.State, t.Epoch, t.Holder))
	}
	rejected := state.Tasks.Stats.Rejected[protocol.CodeNoRoom] + state.Tasks.Stats.Rejected[protocol.CodeNoTask] // a claim may come before the create
	if want := []string{"first pending 1 bob", "second unassigned 0 "}; !slices.Equal(got, want) || rejected != 1 {
		return fmt.Errorf("the tasks are %q, and %d commands found none, or no room", got, rejected)
	}
	return nil
}

// TestSweptTaskLeavesNothing checks that the directory of a task that is let go is removed,
// whichever of its files is removed last.
func TestSweptTaskLeavesNothing(t *testing.T) {
	t.Parallel()
	settings := memSettings()
	settings.Tasks.Retention = time.Millisecond
	for _, name := range []string{protocol.TaskBrief, protocol.TaskView} {
		synctest.Test(t, func(t *testing.T) {
			disk := memHive(t)
			put(t, disk, "agents/alice/outbox/t.json", `{"to":"hive","event":"create","data":{"title":"short","to":["bob"]}}`)
			testenv.Must(t, runOnce(disk))
			list, err := disk.ReadDir(protocol.PathTasks)
			if err != nil || len(list) != 1 {
				t.Fatal(list, err)
			}
			put(t, disk, "agents/alice/outbox/u.json", `{"to":"hive","event":"cancel","task":"`+list[0].Name+`"}`)
			testenv.Must(t, runOnce(disk))
			<-time.After(time.Second)
			disk.FailAt(1, fs.ErrPermission, 1, func(op faultfs.Op, p string) bool { return op == faultfs.OpRemove && path.Base(p) == name })
			testenv.Must(t, runWith(disk, settings))
			if list, err := disk.ReadDir(protocol.PathTasks); err != nil || len(list) != 0 {
				t.Errorf("after %s was removed last, %v is left, %v", name, list, err)
			}
			if err := SameTasks(disk); err != nil {
				t.Error(err)
			}
		})
	}
}
