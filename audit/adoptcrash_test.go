package audit

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hived/hived/eventlog"
	"github.com/hived/hived/hive"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/durable/faultfs"
	"github.com/hived/hived/internal/sweep"
	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/ledger"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/router"
	"github.com/hived/hived/task"
)

const (
	scribble   = "somebody wrote over this"
	tasksAside = protocol.PathScratch + "/tasks-damaged"
)

// withoutLog returns a hive in memory that lost its log: one task is in hand,
// another is offered, the files of a third are damaged, and messages are unread.
func withoutLog(t *testing.T, set protocol.Settings) *faultfs.Mem {
	t.Helper()
	disk := faultfs.New()
	must := func(err error) {
		t.Helper()
		testenv.Must(t, err)
	}
	put := func(p, text string) { t.Helper(); must(durable.Publish(disk, p, []byte(text), 0o644, true)) }
	must(errors.Join(disk.MkdirAll("agents/alice/outbox", 0o755), disk.MkdirAll("agents/bob/outbox", 0o755)))
	must(hive.Init(disk, hive.Options{Settings: set, Template: []byte("# settings\n"), Now: time.Now()}))
	put("agents/human/outbox/1.json", `{"to":"hive","event":"create","data":{"tasks":[{"title":"held","to":["alice"]},{"title":"offered","to":["bob"]},{"title":"damaged","to":["bob"]}]}}`)
	put("agents/alice/outbox/1.json", `{"to":"bob","body":"x"}`)
	must(runMem(disk, set))
	tasks := tasksOf(t, disk)
	for i, x := range []string{`"claim"`, `"start","epoch":1`, `"progress","epoch":1,"data":{"checkpoint":{"a":1}}`} {
		put(fmt.Sprintf("agents/alice/outbox/t%d.json", i), fmt.Sprintf(`{"to":"hive","task":%q,"event":%s}`, tasks["held"].ID, x))
	}
	must(runMem(disk, set))
	put(protocol.TaskDir(tasks["damaged"].ID)+"/"+protocol.TaskView, scribble)
	must(errors.Join(disk.Remove(protocol.PathLog), disk.SyncAll()))
	return disk
}

func runMem(disk durable.FS, set protocol.Settings) error {
	r, err := router.New(disk, router.Config{Settings: set, Once: true})
	if err != nil {
		return err
	}
	return r.Run(context.Background())
}

// tasksOf returns the tasks of a log by their titles.
func tasksOf(t *testing.T, disk durable.FS) map[string]*task.Task {
	t.Helper()
	state := ledger.New(fast().Remember)
	for rec, err := range eventlog.Read(disk, eventlog.Position{}) {
		testenv.Must(t, err)
		state.Apply(rec.Event)
	}
	all := map[string]*task.Task{}
	for x := range state.Tasks.All() {
		all[x.Title] = x
	}
	return all
}

// adoptedOnce returns an error unless all that was in the files is in the log,
// once, and the damaged file is kept.
func adoptedOnce(disk durable.FS, set protocol.Settings) error {
	var errs []error
	tasks, messages := map[string]int{}, 0
	state := ledger.New(set.Remember)
	for rec, err := range eventlog.Read(disk, eventlog.Position{}) {
		if err != nil {
			return err
		}
		switch e := rec.Event.Body.(type) {
		case *protocol.TaskEvent:
			if e.Event == task.Adopted {
				tasks[fmt.Sprintf("%s %d %s", e.To, e.Epoch, e.Adopted.Holder)]++
			}
		case *protocol.HiveEvent:
			if e.Adopted != nil && strings.HasPrefix(e.Adopted.Path, protocol.InboxDir("bob")) {
				messages++
			}
		}
		state.Apply(rec.Event)
	}
	if d := cmp.Diff(map[string]int{"in_progress 1 alice": 1, "offered 0 ": 1, "failed 0 ": 1}, tasks); d != "" {
		errs = append(errs, fmt.Errorf("the tasks that were adopted (-want +got):\n%s", d))
	}
	if bob := state.Agents["bob"]; messages == 0 || bob == nil || bob.Inbox.Len() < messages {
		errs = append(errs, fmt.Errorf("%d messages to bob were adopted, and his inbox is %+v", messages, bob))
	}
	kept := 0
	for _, dir := range []string{protocol.PathTasks, tasksAside} {
		list, err := disk.ReadDir(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
		for _, e := range list {
			if data, _, err := durable.ReadFile(disk, dir+"/"+e.Name+"/"+protocol.TaskView, 1<<20); err == nil && string(data) == scribble {
				kept++
			}
		}
	}
	if kept != 1 {
		errs = append(errs, fmt.Errorf("the damaged file is kept %d times", kept))
	}
	r, err := Verify(context.Background(), disk, Options{Settings: set})
	if len(r.Findings) > 0 {
		errs = append(errs, fmt.Errorf("verify found%s", lines(r.Findings)))
	}
	return errors.Join(append(errs, err)...)
}

// TestAdoptionAndCrash has `hived repair --adopt` die at each operation from the
// first that concerns tasks until the log is begun and the first file of a task is
// written again, in the night at all operations, each time with another way of
// losing what was not synced. It checks that a second try, or a daemon where there
// is a log, leaves the tasks and messages once, and a sound hive.
func TestAdoptionAndCrash(t *testing.T) {
	t.Parallel()
	set := fast()
	adopt := func(disk durable.FS) error {
		_, err := Repair(context.Background(), disk, RepairOptions{Settings: set, Adopt: true})
		return err
	}
	var begun *faultfs.Mem
	first, last, all := 0, 0, 0
	synctest.Test(t, func(t *testing.T) {
		begun = withoutLog(t, set)
		disk := begun.Copy()
		disk.FailAt(1, nil, 1, func(_ faultfs.Op, name string) bool { // counts, and fails none
			all++
			if first == 0 && strings.HasPrefix(name, tasksAside) {
				first = all
			}
			if last == 0 && strings.HasPrefix(name, protocol.PathTasks+"/") {
				last = all
			}
			return false
		})
		testenv.Must(t, adopt(disk))
	})
	if first == 0 || last-first < 10 {
		t.Fatalf("operations %d to %d of %d concern tasks", first, last, all)
	}
	reached := last // how many more there are is not the same in each run
	if sweep.Everything() {
		first, last = 1, all
	}
	losses := []faultfs.Loss{faultfs.Drop, faultfs.Keep, faultfs.Torn(7)}
	for k := first; k <= last; k++ {
		synctest.Test(t, func(t *testing.T) {
			<-time.After(time.Hour) // each begins at the same time
			disk := begun.Copy()
			disk.CrashAt(k, losses[k%len(losses)])
			if adopt(disk) == nil && k <= reached {
				t.Errorf("operation %d was not reached", k)
			}
			disk = disk.Reboot()
			var err error
			if _, none := disk.Lstat(protocol.PathLog); none != nil || k%2 == 0 {
				err = adopt(disk)
			}
			if err = errors.Join(err, runMem(disk, set), adoptedOnce(disk, set)); err != nil {
				t.Errorf("crash at operation %d:\n%v", k, err)
			}
		})
	}
}
