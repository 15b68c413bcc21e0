package router

import (
	"errors"
	"io/fs"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hived/hived/eventlog"
	strides "github.com/hived/hived/internal/sweep"
	"github.com/hived/hived/ledger"
	"github.com/hived/hived/mailbox"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/router/decide"
	"github.com/hived/hived/task"
)

// TestRestartGivesFullTime checks that running timers begin anew at a start, because what
// went on while no daemon ran is not known.
func TestRestartGivesFullTime(t *testing.T) {
	scenario(t, "anna berta", func(h *crew) {
		h.create("human", `{"tasks": [{"title": "works", "to": ["anna"]}, {"title": "taken", "to": ["berta"]}, {"title": "offered", "to": ["berta"]}]}`)
		works, taken, offered := h.created()[0], h.created()[1], h.created()[2]
		h.begin("anna", works)
		h.pass(100 * time.Second)
		h.does("berta", "claim", taken, "")
		h.pass(15 * time.Second)
		h.down()
		h.pass(time.Hour)
		h.up()

		h.pass(29 * time.Second)
		h.is(taken, task.Pending)
		h.pass(2 * time.Second)
		h.is(taken, task.Unassigned)
		h.pass(88 * time.Second)
		h.is(works, task.InProgress)
		h.pass(2 * time.Second)
		h.is(works, task.Stalled)
		if n := len(h.times(offered, task.OfferExpired)); n == 0 {
			t.Error("no offer expired")
		}
	})
}

// TestNotBeforeWhileDown checks that a task that was to be offered while no daemon ran is
// offered once, at the start.
func TestNotBeforeWhileDown(t *testing.T) {
	scenario(t, "anna", func(h *crew) {
		id := h.create("human", `{"title": "wait"}`)
		h.begin("anna", id)
		h.does("anna", "release", id, `{"not_before": "`+time.Now().Add(10*time.Minute).Format(time.RFC3339)+`"}`)
		h.down()
		h.pass(time.Hour)
		h.up()
		h.pass(time.Second)
		h.wantHistory(id, "create offer claim start release offer")
	})
}

// TestClockSet checks that when somebody sets the clock of the machine by a day while tasks
// are in every state with a timer, nothing stalls, nothing expires, and each wait lasts as
// long as it should.
func TestClockSet(t *testing.T) {
	for name, by := range map[string]time.Duration{"forward": 24 * time.Hour, "back": -24 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			scenario(t, "anna berta carla", func(h *crew) {
				h.slots("anna", 5)
				h.create("human", many(5, `{"title": "task %d", "to": ["anna"]}`))
				ids := h.created()
				works, taken, paused, retrying, cancelling := ids[0], ids[1], ids[2], ids[3], ids[4]
				for _, id := range []protocol.TaskID{works, paused, retrying, cancelling} {
					h.begin("anna", id)
				}
				later := h.create("human", `{"title": "later", "to": ["carla"]}`)
				h.begin("carla", later)
				h.does("anna", "pause_for_approval", paused, `{"question": "May I?"}`)
				h.does("carla", "release", later, `{"not_before": "`+time.Now().Add(10*time.Minute).UTC().Format(time.RFC3339)+`"}`)
				h.passAlive(time.Minute, "anna")
				h.does("human", "cancel", cancelling, "")
				h.does("anna", "transient_error", retrying, `{"not_before": "`+time.Now().Add(time.Minute).UTC().Format(time.RFC3339)+`"}`)
				h.does("anna", "claim", taken, "")
				h.passAlive(20*time.Second, "anna")

				h.ahead.Store(int64(by))
				h.collect()
				h.passAlive(20*time.Second, "anna")
				h.is(works, task.InProgress)
				h.is(taken, task.Pending)
				h.is(paused, task.Paused)
				h.is(retrying, task.Retrying)
				h.is(later, task.Unassigned)
				h.is(cancelling, task.InProgress)
				if n := jumps(h, by); n != 1 {
					t.Errorf("the log has the jump %d times", n)
				}

				h.passAlive(15*time.Second, "anna") // the lease began anew
				if n := len(h.times(taken, task.LeaseExpired)); n != 1 {
					t.Errorf("the lease ended %d times", n)
				}
				h.passAlive(6*time.Second, "anna")
				h.is(retrying, task.InProgress)
				h.passAlive(20*time.Second, "anna")
				h.is(cancelling, task.Cancelled)
				h.passAlive(4*time.Minute, "anna")
				h.is(works, task.Stalled) // no progress for five minutes
				h.passAlive(3*time.Minute, "anna")
				if n := len(h.times(later, task.Offer)); n != 1 {
					t.Errorf("the task was offered %d times before its time", n)
				}
				h.passAlive(time.Minute, "anna")
				if n := len(h.times(later, task.Offer)); n != 2 {
					t.Errorf("the task was offered %d times", n)
				}
				h.pass(18 * time.Minute)
				h.is(paused, task.Paused)
				h.pass(2 * time.Minute)
				h.is(paused, task.Failed)
			})
		})
	}
}

// jumps returns how often the log says that the clock was set by so much.
func jumps(h *crew, by time.Duration) (n int) {
	for _, e := range all[*protocol.HiveEvent](h) {
		if e.Action == protocol.ClockJumped {
			if off := time.Duration(e.Jump)*time.Millisecond - by; off.Abs() > time.Second {
				h.Errorf("the clock jumped by %s", by+off)
			}
			n++
		}
	}
	return n
}

// TestTaskRetention checks that a task that has ended leaves memory and disk after its
// retention, unless others wait for it.
func TestTaskRetention(t *testing.T) {
	scenarioWith(t, "anna", func(s *protocol.Settings) { s.Tasks.Retention, s.Tasks.ApprovalTimeout = time.Hour, 3*time.Hour }, func(h *crew) {
		h.create("human", `{"tasks": [{"title": "parent", "name": "p"}, {"title": "alone"}, {"title": "child", "needs": ["p"]}]}`)
		parent, alone, child := h.created()[0], h.created()[1], h.created()[2]
		for _, id := range []protocol.TaskID{parent, alone} {
			h.begin("anna", id)
			h.does("anna", "progress", id, `{"milestone": "half"}`)
			h.does("anna", "complete", id, `{"result": 1}`)
		}
		h.does("anna", "claim", child, "")
		h.does("anna", "release", child, `{"not_before": "`+time.Now().Add(150*time.Minute).Format(time.RFC3339)+`"}`)
		h.pass(59 * time.Minute)
		h.is(alone, task.Completed)
		h.pass(2 * time.Minute)
		if h.router.state.Tasks.Get(alone) != nil {
			t.Error("the task is still in memory")
		}
		if _, err := h.disk.Lstat(protocol.TaskDir(alone)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the directory of the task is still there: %v", err)
		}
		h.refused(protocol.CodeIllegalTransition, "human", "cancel", alone, "") // its end is still known
		h.is(parent, task.Completed)

		h.pass(90 * time.Minute)
		h.begin("anna", child)
		h.does("anna", "pause_for_approval", child, `{"question": "May I?"}`)
		h.pass(2 * time.Hour)
		if h.router.state.Tasks.Get(parent) != nil {
			t.Error("the parent is still in memory, though no task waits for it")
		}
		// What the task needs is done, also when that is forgotten.
		h.does("human", "approval_granted", child, "")
		h.does("anna", "release", child, "")
		h.pass(2 * time.Second) // the second execution that reached nothing new
		h.begin("anna", child)
		h.does("anna", "complete", child, "")
		h.is(child, task.Completed)
	})
}

// TestHistoryFromTheLog checks that each task can be made again from the log alone, byte
// for byte.
func TestHistoryFromTheLog(t *testing.T) {
	scenario(t, "anna berta", func(h *crew) {
		first := h.create("human", `{"title": "a long way"}`)
		h.begin("anna", first)
		h.does("anna", "progress", first, `{"milestone": "half", "checkpoint": {"n": 5}}`)
		h.pass(3 * time.Minute)
		h.pass(time.Minute)
		h.begin("berta", first)
		h.does("berta", "failure", first, `{"category": "transient", "reason": "busy"}`)
		h.down()
		h.pass(time.Minute)
		h.up()
		h.does("berta", "pause_for_approval", first, `{"question": "May I?"}`)
		h.does("human", "approval_granted", first, "")
		h.does("berta", "failure", first, `{"category": "logic", "reason": "a loop"}`)
		second := h.created()[1]
		h.does("human", "cancel", second, "")
		h.does("human", "resume", first, "")
		h.refused(protocol.CodeFenced, "anna", "complete", first, "")
		h.pass(time.Hour)
		h.down()

		again := ledger.New(h.settings.Remember)
		for rec, err := range eventlog.Read(h.disk, eventlog.Position{}) {
			h.must(err)
			again.Apply(rec.Event)
		}
		ids := h.created()
		if again.Tasks.Len() != 3 || len(ids) != 3 {
			t.Fatalf("the log has %d tasks, and %d were created", again.Tasks.Len(), len(ids))
		}
		for _, id := range ids {
			doc, err := task.Document(again.Tasks.Get(id))
			h.must(err)
			if is := h.file(id, protocol.TaskView); is != string(doc) {
				t.Errorf("the file is\n%s\nand the log gives\n%s", is, doc)
			}
		}
		steps := h.stepsOf(first)
		if v := h.view(first); len(steps) <= 16 || len(v.History) != 16 || v.History[15].Event != steps[len(steps)-1].Event {
			t.Errorf("the history has %d steps, and the log %d", len(v.History), len(steps))
		}
	})
}

func (h *crew) stepsOf(id protocol.TaskID) (list []*protocol.TaskEvent) {
	for _, e := range all[*protocol.TaskEvent](h) {
		if e.Task == id {
			list = append(list, e)
		}
	}
	return list
}

// TestTenThousandTimers checks that when ten thousand timers are due at the same moment, a
// message that is sent then waits for no more than a batch of them.
func TestTenThousandTimers(t *testing.T) {
	t.Parallel()
	count := strides.Of(strides.Timers)
	synctest.Test(t, func(t *testing.T) {
		h := newCrew(t, "anna", func(s *protocol.Settings) { s.Tasks.Retention = time.Hour })
		h.post("human", `{"to": "hive", "event": "git-pause"}`) // history is not what this is about
		parent := h.create("human", `{"title": "parent"}`)
		for range count / decide.TasksMost {
			h.posts("human", "create", "", many(decide.TasksMost, `{"title": "%d", "needs": ["`+string(parent)+`"]}`))
		}
		h.collect()
		h.does("human", "cancel", parent, "")
		swept, before := 0, 0
		h.callOnEvents(func(ev protocol.Event) {
			switch e := ev.Body.(type) {
			case *protocol.HiveEvent:
				if e.Action != protocol.Swept {
					return
				}
				if swept++; swept == 1 {
					h.post("anna", `{"to": "human", "body": "who hears me?"}`)
					time.AfterFunc(hearing/2, func() { // a hint comes a moment after its file
						h.hints <- []mailbox.Hint{{Agent: "anna", Part: mailbox.PartOutbox}}
					})
				}
			case *protocol.MessageEvent:
				if e.From == "anna" {
					before = swept
				}
			}
		})
		h.pass(time.Hour + time.Second)
		if before == 0 || before > decide.TasksAtOnce {
			t.Errorf("the message came after %d of the tasks", before)
		}
		if swept < count {
			t.Errorf("only %d tasks are gone", swept)
		}
	})
}
