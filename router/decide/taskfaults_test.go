package decide

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

// newTaskBench is a bench with one agent that takes tasks, and a lead.
func newTaskBench(t *testing.T, agents ...protocol.AgentID) *bench {
	t.Helper()
	b := newBench(t, append(agents, "alice")...)
	b.d.recordAgent(b.now, &protocol.AgentEvent{Agent: "alice", Action: protocol.LeadSet})
	b.d.Drain(b.now)
	return b
}

// tells has an agent send a command about a task, and returns the events of tasks and
// the codes of refusals that it leads to.
func (b *bench) tells(by protocol.AgentID, event string, id protocol.TaskID, epoch uint64, data string) []string {
	b.t.Helper()
	if x := b.d.state.Tasks.Get(id); x != nil && answers(event) {
		if ask, _ := x.Open(); ask > 0 {
			data = withAsk(data, ask)
		}
	}
	return outcomes(b.send(by, fmt.Sprintf(`{"to":"hive","event":%q,"task":%q,"epoch":%d,"data":%s}`, event, id, epoch, data)))
}

func outcomes(list []Decision) (out []string) {
	for _, x := range list {
		switch e := x.Event.Body.(type) {
		case *protocol.TaskEvent:
			out = append(out, string(e.Event))
		case *protocol.TaskRejectedEvent:
			out = append(out, string(e.Code))
		}
	}
	return out
}

// makes creates tasks, and returns the ids of all tasks in the order of their titles.
func (b *bench) makes(specs string) (list []protocol.TaskID) {
	b.t.Helper()
	b.send("alice", `{"to":"hive","event":"create","data":{"tasks":[`+specs+`]}}`)
	for x := range b.d.state.Tasks.All() {
		list = append(list, x.ID)
	}
	slices.SortFunc(list, func(p, q protocol.TaskID) int {
		return slices.Compare([]byte(b.d.state.Tasks.Get(p).Title), []byte(b.d.state.Tasks.Get(q).Title))
	})
	return list
}

// later lets time pass, and returns what hived does at each time that it planned for.
func (b *bench) later(d time.Duration) (out []string) {
	b.t.Helper()
	end := b.now.Add(d)
	for over := false; !over; {
		next := b.d.state.Tasks.Time(b.d.nextTask())
		if over = next.IsZero() || next.After(end); over {
			next = end
		}
		b.now = latest(b.now, next)
		for more := true; more; {
			var err error
			more, err = b.d.Tasks(b.now, Senses{})
			testenv.Must(b.t, err)
			out = append(out, outcomes(b.d.Drain(b.now))...)
		}
	}
	return out
}

func (b *bench) want(id protocol.TaskID, state task.State) {
	b.t.Helper()
	if x := b.d.state.Tasks.Get(id); x.State != state {
		b.t.Errorf("task %s is %s and not %s", x.Title, x.State, state)
	}
}

// begun creates a task and has bob take and start it.
func (b *bench) begun(spec string) protocol.TaskID {
	b.t.Helper()
	id := b.makes(spec)[0]
	b.tells("bob", "accept", id, 0, `{}`)
	b.tells("bob", "start", id, 1, `{}`)
	b.want(id, task.InProgress)
	return id
}

// TestRejectedOffersLeaveRoom checks that an agent that rejects its offers is made new
// ones.
func TestRejectedOffersLeaveRoom(t *testing.T) {
	t.Parallel()
	b := newTaskBench(t, "bob", "carol")
	for n := range 5 {
		ids := b.makes(fmt.Sprintf(`{"title":"t%d","to":["bob","carol"]}`, n))
		id := ids[len(ids)-1]
		if got := b.tells("bob", "reject", id, 0, `{}`); !slices.Equal(got, []string{"reject"}) {
			t.Fatalf("rejecting offer %d leads to %v", n, got)
		}
		b.tells("carol", "reject", id, 0, `{}`)
		b.tells("alice", "cancel", id, 0, `{}`)
	}
}

// TestFailsOnceForTwoReasons checks that a task fails once when it needs two tasks and
// one of them fails because of the other.
func TestFailsOnceForTwoReasons(t *testing.T) {
	t.Parallel()
	b := newTaskBench(t, "bob")
	ids := b.makes(`{"name":"a","title":"a","to":["bob"]},{"name":"b","title":"b","needs":["a"]},{"title":"c","needs":["a","b"]}`)
	got := b.tells("alice", "cancel", ids[0], 0, `{}`)
	if !slices.Equal(got, []string{"cancel", "dependency_failed", "dependency_failed"}) {
		t.Errorf("cancelling leads to %v", got)
	}
	b.want(ids[1], task.Failed)
	b.want(ids[2], task.Failed)
}

// TestManyChildren checks that when a task ends that many wait for, they are carried on
// a batch at a time, also by a daemon that is started in between.
func TestManyChildren(t *testing.T) {
	t.Parallel()
	const children = 200
	for _, tt := range []struct{ event, leadsTo string }{{"cancel", "dependency_failed"}, {"complete", "offer"}} {
		t.Run(tt.event, func(t *testing.T) {
			t.Parallel()
			b := newTaskBench(t, "bob")
			for i := range children {
				b.d.Record(b.now, &protocol.AgentEvent{Agent: protocol.AgentID(fmt.Sprintf("bob%d", i)), Action: protocol.Joined})
			}
			b.d.Drain(b.now)
			// Each is for another agent, so that all are offered at once.
			id := b.family(children, func(i int) string { return fmt.Sprintf(`"to":["bob%d"]`, i) })[0]
			by := protocol.AgentID("alice")
			if tt.event == "complete" {
				by = "bob"
				b.tells(by, "start", id, 1, `{}`)
			}
			all := b.tells(by, tt.event, id, 1, `{}`)
			if n := count(all, tt.leadsTo); n != TasksAtOnce {
				t.Errorf("%s leads to %d %s at once", tt.event, n, tt.leadsTo)
			}
			b.d = New(b.d.state, b.d.settings, zeros{}, noLog)
			for range children/TasksAtOnce + 1 {
				_, err := b.d.Tasks(b.now, Senses{})
				testenv.Must(t, err)
				got := outcomes(b.d.Drain(b.now))
				if n := count(got, tt.leadsTo); n > TasksAtOnce && tt.event == "cancel" {
					t.Errorf("a batch has %d %s", n, tt.leadsTo)
				}
				all = append(all, got...)
			}
			if n := count(all, tt.leadsTo); n != children {
				t.Errorf("%d %s for %d tasks", n, tt.leadsTo, children)
			}
		})
	}
}

// TestUrgentChild checks that of many tasks that waited for one, the most urgent is
// offered first.
func TestUrgentChild(t *testing.T) {
	t.Parallel()
	const children = 2 * TasksAtOnce
	b := newTaskBench(t, "bob", "carol")
	ids := b.family(children, func(i int) string { return fmt.Sprintf(`"to":["carol"],"priority":%d`, i) })
	b.tells("bob", "start", ids[0], 1, `{}`)
	b.tells("bob", "complete", ids[0], 1, `{}`)
	b.want(ids[children], task.Offered)
}

// TestClaimWhatHasJustBecomeFree checks that of many tasks that waited for one, each can
// be claimed as soon as that is completed.
func TestClaimWhatHasJustBecomeFree(t *testing.T) {
	t.Parallel()
	b := newTaskBench(t, "bob", "carol")
	const children = 2 * TasksAtOnce
	ids := b.family(children, func(i int) string {
		if i == children-1 {
			return `"to":["carol"]`
		}
		return `"to":["bob"],"priority":1`
	})
	b.tells("bob", "start", ids[0], 1, `{}`)
	b.tells("bob", "complete", ids[0], 1, `{}`)
	if got := outcomes(b.send("carol", `{"to":"hive","event":"claim"}`)); count(got, "claim") != 1 {
		t.Errorf("the claim leads to %v", got)
	}
}

// TestWhatIsNoSignOfLife checks that what somebody did to an inbox is no sign of life of
// its owner, in a running daemon as in a restarted one, and that an agent that a person
// held or archived is not reported as silent.
func TestWhatIsNoSignOfLife(t *testing.T) {
	t.Parallel()
	b := newTaskBench(t, "bob")
	b.makes(`{"title":"a","to":["bob"]}`)
	b.later(48 * time.Hour)
	if !b.d.state.Agents["bob"].Silent() {
		t.Errorf("bob let offers run out, and is not silent: %+v", b.d.state.Agents["bob"])
	}
	if _, _, err := b.d.SetAside(b.now, "bob", "x.json", []byte("x")); err != nil {
		t.Fatal(err)
	}
	b.d.Drain(b.now)
	live := b.later(48 * time.Hour)
	b.d = New(b.d.state, b.d.settings, zeros{}, noLog)
	if anew := b.later(48 * time.Hour); len(live) > 0 || len(anew) > 0 {
		t.Errorf("the running daemon decided %v, the restarted one %v, want nothing", live, anew)
	}
	for _, act := range []protocol.AgentAction{protocol.Held, protocol.Archived} {
		b := newTaskBench(t, "bob")
		b.makes(`{"title":"1","to":["bob"]},{"title":"2","to":["bob"]},{"title":"3","to":["bob"]}`)
		b.d.recordAgent(b.now, &protocol.AgentEvent{Agent: "bob", Action: act})
		b.d.state.Agents["bob"].Missed = 2 * OffersWaiting
		if x := b.later(time.Hour); count(x, "offer_expired") != 0 {
			t.Errorf("%s: %v", act, x)
		}
		if n := b.d.state.Counts.Alerts; n > 0 {
			t.Errorf("%s: %d alerts", act, n)
		}
	}
}

// family has bob take a task that others wait for, and returns the ids of all.
func (b *bench) family(children int, of func(i int) string) []protocol.TaskID {
	b.t.Helper()
	list := []string{`{"name":"a","title":"a","to":["bob"]}`}
	for i := range children {
		list = append(list, `{"title":"b","needs":["a"],`+of(i)+`}`)
	}
	ids := b.makes(strings.Join(list, ","))
	b.tells("bob", "accept", ids[0], 0, `{}`)
	return ids
}

func count(list []string, what string) (n int) {
	for _, x := range list {
		if x == what {
			n++
		}
	}
	return n
}

// TestNeedsStayMet checks that a task that its holder gave back is offered again although
// the task that it needed was completed and let go.
func TestNeedsStayMet(t *testing.T) {
	t.Parallel()
	b := newTaskBench(t, "bob")
	ids := b.makes(`{"name":"a","title":"a","to":["bob"]},{"title":"b","to":["bob"],"needs":["a"]}`)
	b.tells("bob", "accept", ids[0], 0, `{}`)
	b.tells("bob", "start", ids[0], 1, `{}`)
	b.tells("bob", "complete", ids[0], 1, `{}`)
	b.tells("bob", "accept", ids[1], 0, `{}`)
	b.tells("bob", "start", ids[1], 1, `{}`)
	b.d.settings.Tasks.Retention = time.Minute
	b.tells("bob", "pause_for_approval", ids[1], 1, `{"question":"?"}`)
	b.d.plan.schedule(b.d.state.Tasks.Get(ids[0]), b.d.due(b.d.state.Tasks.Get(ids[0])))
	b.later(2 * time.Minute)
	if b.d.state.Tasks.Get(ids[0]) != nil {
		t.Fatal("the first task was not let go")
	}
	b.tells("human", "approval_granted", ids[1], 0, `{}`)
	if got := b.tells("bob", "release", ids[1], 1, `{}`); !slices.Equal(got, []string{"release"}) {
		t.Errorf("giving it back leads to %v", got)
	}
	if got := b.later(b.d.settings.Tasks.Lease); !slices.Equal(got, []string{"offer"}) {
		t.Errorf("after the release: %v", got)
	}
}

// TestCancelledAndSilent checks that a task that is to be cancelled is not offered again
// when its holder goes silent, or gives it back.
func TestCancelledAndSilent(t *testing.T) {
	t.Parallel()
	b := newTaskBench(t, "bob")
	id := b.begun(`{"title":"a","to":["bob"]}`)
	b.later(100 * time.Second)
	b.tells("alice", "cancel", id, 0, `{}`)
	if got := b.later(10 * time.Minute); !slices.Equal(got, []string{"heartbeat_lost", "cancelled"}) {
		t.Errorf("a silent holder leads to %v", got)
	}
	second := newTaskBench(t, "bob")
	id = second.begun(`{"title":"b","to":["bob"]}`)
	second.tells("alice", "cancel", id, 0, `{}`)
	if got := second.tells("bob", "release", id, 1, `{"reason":"stopped"}`); !slices.Equal(got, []string{"cancelled"}) {
		t.Errorf("giving it back leads to %v", got)
	}
}

// TestReportsAreLife checks that a holder that reports something new now and then needs
// no alive file.
func TestReportsAreLife(t *testing.T) {
	t.Parallel()
	b := newTaskBench(t, "bob")
	id := b.begun(`{"title":"a","to":["bob"]}`)
	for n := range 5 {
		if got := b.later(100 * time.Second); len(got) > 0 {
			t.Fatalf("after report %d: %v", n, got)
		}
		b.tells("bob", "progress", id, 1, fmt.Sprintf(`{"checkpoint":%d}`, n))
	}
}

// TestFarTimes checks that a time that no line of the log or no clock can hold is
// refused, or counts as past.
func TestFarTimes(t *testing.T) {
	t.Parallel()
	b := newTaskBench(t, "bob")
	id := b.begun(`{"title":"a","to":["bob"]}`)
	for data, want := range map[string]string{
		`{"not_before":"9999-12-31T23:59:59-01:00"}`: "bad-command",
		`{"not_before":"2300-01-01T00:00:00Z"}`:      "bad-command",
	} {
		for _, event := range []string{"release", "transient_error"} {
			if got := b.tells("bob", event, id, 1, data); !slices.Equal(got, []string{want}) {
				t.Errorf("%s with %s leads to %v", event, data, got)
			}
		}
	}
	b.tells("bob", "progress", id, 1, `{"checkpoint":1,"expected_until":"0002-01-01T00:00:00Z"}`)
	if x := b.d.state.Tasks.Get(id); x.Expected != 0 {
		t.Errorf("after an expected_until long past the task expects a report until %d", x.Expected)
	}
	if got := b.tells("bob", "release", id, 1, `{"not_before":"0002-01-01T00:00:00Z"}`); !slices.Equal(got, []string{"release"}) {
		t.Errorf("a release with a not_before long past leads to %v", got)
	}
	if got := b.later(b.d.settings.Tasks.Lease); !slices.Equal(got, []string{"offer"}) {
		t.Errorf("after the release: %v", got)
	}
}

// TestSameCheckpoint checks that reporting the same checkpoint again does not keep a task
// from being stalled.
func TestSameCheckpoint(t *testing.T) {
	t.Parallel()
	b := newTaskBench(t, "bob")
	id := b.begun(`{"title":"a","to":["bob"]}`)
	var got []string
	for range 5 {
		b.tells("bob", "progress", id, 1, `{"milestone":"half","checkpoint":{"n":1}}`)
		got = append(got, b.later(62*time.Second)...)
	}
	if !slices.Equal(got, []string{"progress_stalled"}) {
		t.Errorf("the same checkpoint for five minutes leads to %v", got)
	}
}

// TestOneApprovalCountsOnce checks that where two must approve, one agent cannot approve
// twice.
func TestOneApprovalCountsOnce(t *testing.T) {
	t.Parallel()
	b := newTaskBench(t, "bob")
	id := b.begun(`{"title":"a","to":["bob"],"approvals":2}`)
	b.tells("bob", "pause_for_approval", id, 1, `{"question":"?"}`)
	for _, want := range []string{"approval_vote", "voted-twice"} {
		if got := b.tells("alice", "approval_granted", id, 0, `{}`); !slices.Equal(got, []string{want}) {
			t.Errorf("approving leads to %v, want %s", got, want)
		}
	}
	b.want(id, task.Paused)
}

// TestCompletedStaysCompleted checks that a task that was to be cancelled, and was
// completed before, stays completed.
func TestCompletedStaysCompleted(t *testing.T) {
	t.Parallel()
	b := newTaskBench(t, "bob")
	id := b.begun(`{"title":"a","to":["bob"]}`)
	b.tells("alice", "cancel", id, 0, `{}`)
	b.tells("bob", "complete", id, 1, `{}`)
	for by, event := range map[protocol.AgentID]string{"bob": "cancelled", "alice": "cancel"} {
		if got := b.tells(by, event, id, 1, `{}`); !slices.Equal(got, []string{"illegal-transition"}) {
			t.Errorf("%s of a completed task leads to %v", event, got)
		}
	}
	if got := b.later(time.Hour); len(got) > 0 {
		t.Errorf("an hour later: %v", got)
	}
	b.want(id, task.Completed)
}

// TestJitterIsOfTheTask checks that the time of the next offer is the same for the same
// history, and differs between tasks.
func TestJitterIsOfTheTask(t *testing.T) {
	t.Parallel()
	next := func() (list []task.Moment) {
		b := newTaskBench(t, "bob", "carol")
		ids := b.makes(`{"title":"a","to":["bob"]},{"title":"b","to":["carol"]}`)
		b.tells("bob", "accept", ids[0], 0, `{}`)
		b.tells("carol", "accept", ids[1], 0, `{}`)
		b.later(30 * time.Second)
		for _, id := range ids {
			b.want(id, task.Unassigned)
			list = append(list, b.d.state.Tasks.Get(id).NotBefore-b.d.state.Tasks.Get(id).Since)
		}
		return list
	}
	first, second := next(), next()
	if !slices.Equal(first, second) || first[0] == first[1] || first[0] <= 0 {
		t.Errorf("the next offers come after %v, and after %v", first, second)
	}
}
