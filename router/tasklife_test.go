package router_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/hived/hived/eventlog"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/durable/faultfs"
	strides "github.com/hived/hived/internal/sweep"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

var errNoTask = errors.New("there is no such task")

// titled returns the newest task with a title, found as an agent would find it.
func titled(disk *faultfs.Mem, title string) (protocol.TaskID, error) {
	list, err := disk.ReadDir(protocol.PathTasks)
	if err != nil {
		return "", err
	}
	slices.Reverse(list)
	for _, dir := range list {
		data, _, err := durable.ReadFile(disk, protocol.TaskDir(protocol.TaskID(dir.Name))+"/"+protocol.TaskBrief, -1)
		var brief struct {
			Title string `json:"title"`
		}
		if err == nil {
			err = json.Unmarshal(data, &brief)
		}
		if err != nil {
			return "", err
		}
		if brief.Title == title {
			return protocol.TaskID(dir.Name), nil
		}
	}
	return "", fmt.Errorf("%w: %s", errNoTask, title)
}

// reports returns a deed that sends a command about the task with a title; an epoch of
// zero is left out.
func reports(from protocol.AgentID, id, event, title string, epoch int, data string) deed {
	return func(disk *faultfs.Mem) error {
		of, err := titled(disk, title)
		if err != nil {
			return err
		}
		with := data
		if slices.Contains([]task.Event{task.ApprovalGranted, task.ApprovalDenied, task.Answer}, task.Event(event)) {
			var v task.View
			view, _, err := durable.ReadFile(disk, protocol.TaskDir(of)+"/"+protocol.TaskView, -1)
			if err = errors.Join(err, json.Unmarshal(view, &v)); err != nil {
				return err
			}
			if v.Question != nil {
				with = fmt.Sprintf(`{"ask":%s,%s`, v.Question.Ask, data[len("{"):])
			}
		}
		text := fmt.Sprintf(`{"id":%q,"to":"hive","event":%q,"task":%q,"data":%s}`, id, event, of, with)
		if epoch > 0 {
			text = fmt.Sprintf(`{"id":%q,"to":"hive","event":%q,"task":%q,"epoch":%d,"data":%s}`, id, event, of, epoch, with)
		}
		return posts(from, id+".json", text)(disk)
	}
}

// waits returns a deed that lets time pass.
func waits(d time.Duration) deed {
	return func(*faultfs.Mem) error {
		pause(d)
		return nil
	}
}

// work returns a course with what can happen to tasks: one that needs another, an
// approval, a lease that ends, a silent holder, a failure that passes, a
// cancelled one, reports that come too late, and ended ones that are let go.
var work = &course{
	days: []day{
		{deeds: []deed{
			posts("alice", "t1.json", `{"id":"t1","to":"hive","event":"create","data":{"tasks":[{"title":"second","to":["bob"],"needs":["x"]},{"name":"x","title":"first","to":["bob","carol"]},{"title":"third","to":["carol"]}]}}`),
			posts("alice", "t2.json", `{"id":"t2","to":"hive","event":"create","data":{"title":"never","needs":["01ARZ3NDEKTSV4RRFFQ69G5FAV"]}}`),
		}},
		{deeds: []deed{
			reports("bob", "b1", "accept", "first", 0, `{}`),
			reports("carol", "c1", "accept", "first", 0, `{}`),
			reports("carol", "c2", "accept", "third", 0, `{}`),
		}},
		{deeds: []deed{
			reports("bob", "b2", "start", "first", 1, `{}`),
			reports("bob", "b3", "progress", "first", 1, `{"milestone":"half","checkpoint":{"done":[1,2],"left":9}}`),
			reports("bob", "b4", "progress", "first", 1, `{"patch":{"left":3}}`),
			reports("bob", "b5", "pause_for_approval", "first", 1, `{"question":"go on?"}`),
		}, beside: true},
		{deeds: []deed{
			reports(protocol.Human, "h11", "approval_granted", "first", 0, `{"comment":"yes"}`),
			reports("carol", "c3", "start", "third", 1, `{}`),
			reports("carol", "c4", "claim", "third", 0, `{}`),
		}},
		{deeds: []deed{
			reports("bob", "b6", "complete", "first", 1, `{"result":{"sum":42}}`),
			reports("carol", "c5", "start", "third", 2, `{}`),
			reports("carol", "c6", "failure", "third", 2, `{"category":"transient","reason":"busy"}`),
		}},
		{deeds: []deed{
			reports("bob", "b7", "accept", "second", 0, `{}`),
			reports("bob", "b8", "start", "second", 1, `{"reason":"at once"}`),
			reports("alice", "t3", "cancel", "third", 0, `{"reason":"not wanted"}`),
			reports("bob", "b9", "complete", "first", 1, `{"result":"again"}`),
		}, beside: true},
		{deeds: []deed{waits(20 * time.Hour)}},
	},
	settled: 5,
	deliveries: map[string]string{
		"human h1": "hive", "human h2": "hive", "human h3": "hive", "human h4": "hive", "human h5": "hive",
		"alice t1": "hive", "alice t2": "hive", "alice t3": "hive", "human h11": "hive",
		"bob b1": "hive", "bob b2": "hive", "bob b3": "hive", "bob b4": "hive", "bob b5": "hive", "bob b6": "hive", "bob b7": "hive", "bob b8": "hive", "bob b9": "hive",
		"carol c1": "hive", "carol c2": "hive", "carol c3": "hive", "carol c4": "hive", "carol c5": "hive", "carol c6": "hive",
	},
}

// lifeTasks makes time-outs short, so that they end while a daemon runs.
func lifeTasks(s *protocol.TaskSettings) {
	s.Lease, s.HeartbeatTimeout, s.StallGrace, s.CancelGrace = 2*time.Second, 3*time.Second, time.Second, 2*time.Second
	s.Retention = 12 * time.Hour
	s.TurnHeartbeat, s.TurnProgress = s.HeartbeatTimeout, s.ProgressTimeout
}

// TestTaskLife checks that the course has all the kinds of events that the sweeps are to
// cover.
func TestTaskLife(t *testing.T) {
	t.Parallel()
	var l *life
	count := map[string]int{}
	ops := 0
	if err := bubble(t, func() (err error) {
		if l, err = newLife(work); err != nil {
			return err
		}
		l.disk = l.disk.Copy() // operations count from here
		for key := range l.deliveries {
			l.sent = append(l.sent, key)
		}
		err = errors.Join(l.live(), l.check())
		ops = l.disk.Ops()
		for rec, failed := range eventlog.Read(l.disk, eventlog.Position{}) {
			if failed != nil {
				return failed
			}
			switch e := rec.Event.Body.(type) {
			case *protocol.TaskEvent:
				count[string(e.Event)]++
			case *protocol.TaskRejectedEvent:
				count[string(e.Code)]++
			}
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if len(l.ends) > 0 {
		t.Error(l.ends)
	}
	for _, want := range []string{
		"create", "offer", "accept", "claim", "start", "progress", "pause_for_approval", "approval_granted", "complete", "transient_error", "retry",
		"lease_expired", "offer_expired", "heartbeat_lost", "release", "cancel", "cancelled",
		"unknown-need", "race-lost", "fenced", "illegal-transition",
	} {
		if count[want] == 0 {
			t.Errorf("the log has no %q", want)
		}
	}
	left, err := l.disk.ReadDir(protocol.PathTasks)
	if err != nil || len(left) != 2 {
		t.Errorf("%d tasks are left, %v; the third was cancelled long ago, and the second still needs the first", len(left), err)
	}
	t.Logf("%d operations; %v", ops, count)
}

// TestTaskLifeCrashes crashes a hive with tasks at its operations.
func TestTaskLifeCrashes(t *testing.T) {
	t.Parallel()
	sweep(t, plan(mornings(t, work), crashes, strides.TaskCrashes))
}

// TestTaskLifeFails has operations fail in a hive with tasks.
func TestTaskLifeFails(t *testing.T) {
	t.Parallel()
	sweep(t, plan(mornings(t, work), failing(), strides.TaskFails))
}

// TestTaskLifeCrashesAgain crashes a hive with tasks in its recovery too.
func TestTaskLifeCrashesAgain(t *testing.T) {
	t.Parallel()
	sweep(t, crashAgain(t, work, strides.Of(strides.TaskRecoveries), strides.Of(strides.TaskRecovery)))
}
