package decide

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

// numbers returns what a walk over all tasks counts for an agent at a time of the
// hive's clock.
func (m *taskModel) numbers(id protocol.AgentID, at time.Time) protocol.TaskNumbers {
	var n protocol.TaskNumbers
	for _, t := range m.tasks {
		if t.ended() {
			continue
		}
		n.Open++
		switch {
		case t.state == "offered":
			n.NotForYou++
		case t.state != "unassigned":
			n.Held++
		case m.unmet(t.needs):
			n.Waiting++
		case t.notBefore.After(at):
			n.NotYet++
			if when := t.notBefore.Add(m.shift); t.may(id) && (n.Next.IsZero() || when.Before(n.Next)) {
				n.Next = when
			}
		default:
			n.NotForYou++
		}
	}
	if n.Next.Nanosecond() > 0 {
		n.Next = n.Next.Truncate(time.Second).Add(time.Second)
	}
	return n
}

// counts compares the numbers of the open tasks with the model's, now and for commands
// that were put into an outbox earlier.
func (h *taskRun) counts(t *rapid.T) {
	for _, id := range modelTeam {
		a := h.d.state.Agents[id]
		if a == nil {
			continue // it joins later
		}
		for _, ago := range []time.Duration{0, time.Second, -40 * time.Second, 2 * time.Minute} {
			at := h.now.Add(-h.m.shift - ago)
			want := h.m.numbers(id, at)
			is := h.d.numbersFor(a, task.Moment(at.UnixNano()))
			if diff := cmp.Diff(want, is); diff != "" {
				t.Fatalf("the numbers for %s at %s (-model +hived):\n%s", id, at, diff)
			}
		}
	}
	waits := 0
	for x := range h.d.state.Tasks.All() {
		if x.State == task.Unassigned && len(h.d.state.Tasks.Unmet(x)) == 0 && x.NotBefore > 0 {
			waits++
		}
	}
	if queued := len(h.d.plan.open.later); queued != waits {
		t.Fatalf("%d tasks are kept by the time when they may be taken, and there are %d", queued, waits)
	}
}

// noTask has an agent claim the best task, and returns the numbers that it is told.
func (b *bench) noTask(who protocol.AgentID) (n protocol.TaskNumbers, text string) {
	b.t.Helper()
	told := false
	for _, x := range b.send(who, `{"to":"hive","event":"claim"}`) {
		e, is := x.Event.Body.(*protocol.MessageEvent)
		if !is || e.From != protocol.Hive || !slices.Contains(e.To, protocol.Address(who)) {
			continue
		}
		m, err := protocol.DecodeMessage([]byte(e.Raw))
		if err != nil {
			b.t.Fatal(err)
		}
		if got := protocol.NumbersIn(m); got != nil {
			n, text, told = *got, m.Text(), true
		}
	}
	if !told {
		b.t.Fatalf("%s found a task, or was told no numbers", who)
	}
	return n, text
}

func (b *bench) create(data string) protocol.TaskID {
	b.t.Helper()
	b.send("human", `{"to":"hive","act":"inform","event":"create","data":`+data+`}`)
	var last protocol.TaskID
	for x := range b.d.state.Tasks.All() {
		last = x.ID
	}
	return last
}

func wantEnd(t *testing.T, is, want string) {
	t.Helper()
	if !strings.HasSuffix(is, want) {
		t.Errorf("the text is\n%s\nand should end in\n%s", is, want)
	}
}

func wantNumbers(t *testing.T, when string, is, want protocol.TaskNumbers) {
	t.Helper()
	if diff := cmp.Diff(want, is); diff != "" {
		t.Errorf("%s, the numbers (-want +got):\n%s", when, diff)
	}
}

// TestNoTaskSaysWhy checks what an agent that finds no task is told, and that it is told
// so in words that it can use.
func TestNoTaskSaysWhy(t *testing.T) {
	t.Parallel()
	b := newBench(t, "alice", "bob")
	n, text := b.noTask("alice")
	wantNumbers(t, "without tasks", n, protocol.TaskNumbers{})
	wantEnd(t, text, "none is open; you are offered one when there is.")

	first := b.create(`{"title":"first","to":["bob"]}`)
	b.send("bob", `{"to":"hive","event":"claim","data":{"start":true}}`)
	b.create(`{"title":"second","to":["@writer"],"needs":["` + string(first) + `"]}`)
	b.create(`{"title":"of others","to":["@writer"]}`)
	mine := b.create(`{"title":"mine","to":["alice"]}`)
	b.send("alice", `{"to":"hive","event":"claim"}`)
	later := b.now.Add(90*time.Minute + 500*time.Millisecond)
	b.send("alice", fmt.Sprintf(`{"to":"hive","event":"release","task":%q,"epoch":1,"data":{"not_before":%q}}`, mine, later.Format(time.RFC3339Nano)))

	n, text = b.noTask("alice")
	next := later.Add(500 * time.Millisecond)
	wantNumbers(t, "of each kind one", n, protocol.TaskNumbers{Open: 4, Held: 1, Waiting: 1, NotYet: 1, NotForYou: 1, Next: next})
	wantEnd(t, text, "of 4 open, 1 in somebody's hands, 1 waiting for other tasks, 1 not to be taken yet, 1 for others; you are offered one when there is. The next that you may have is free from "+
		next.Format(time.RFC3339)+" on; to take it then, send `{\"to\": \"hive\", \"event\": \"claim\"}`.")
	n, _ = b.noTask(protocol.Human)
	wantNumbers(t, "for people", n, protocol.TaskNumbers{Open: 4, Held: 1, Waiting: 1, NotYet: 1, NotForYou: 1})

	b.send("bob", `{"to":"hive","event":"complete","task":"`+string(first)+`","epoch":1}`)
	n, _ = b.noTask(protocol.Human)
	wantNumbers(t, "when what was needed is done", n, protocol.TaskNumbers{Open: 3, NotYet: 1, NotForYou: 2})
}

// TestNoTaskCostsTheSame checks that the answer to an agent that finds no task looks at
// as few tasks, and takes as little memory, in a large hive as in a small one.
func TestNoTaskCostsTheSame(t *testing.T) { // alone, because it counts what is allocated
	looks, allocs := costOfNoTask(t, 100)
	manyLooks, manyAllocs := costOfNoTask(t, 20_000)
	if manyLooks > looks+2*9 { // of 200 times as many, a search looks at 8 more
		t.Errorf("with 100 tasks it looks at %d, with 20,000 at %d", looks, manyLooks)
	}
	if manyAllocs > allocs {
		t.Errorf("with 100 tasks it allocates %v times, with 20,000 %v", allocs, manyAllocs)
	}
}

// costOfNoTask returns at how many tasks the numbers for an agent look, and how often
// they allocate, in a hive with so many tasks, of which it can have none.
func costOfNoTask(t *testing.T, tasks int) (looks int, allocs float64) {
	t.Helper()
	b := newBench(t, "alice", "bob")
	b.send("human", `{"to":"hive","event":"agent-slots","data":{"agent":"bob","slots":1000}}`)
	b.create(`{"title":"held","to":["bob"]}`)
	held := b.claimed("bob")
	for made := 1; made < tasks; made += 50 {
		var list []string
		for i := range 50 {
			list = append(list, []string{
				`{"title":"for others","to":["@writer"]}`, fmt.Sprintf(`{"title":"for one other","to":["@job-%d"]}`, made+i),
				`{"title":"needs","needs":["` + string(held.ID) + `"]}`, `{"title":"later","to":["bob"]}`, `{"title":"later","to":["alice","bob"]}`,
			}[i%5])
		}
		b.d.Record(b.now, &protocol.AgentEvent{Agent: "alice", Action: protocol.Held})
		b.send("human", `{"to":"hive","act":"inform","event":"create","data":{"tasks":[`+strings.Join(list, ",")+`]}}`)
		for i := range 20 {
			x := b.claimed("bob")
			later := b.now.Add(time.Hour + time.Duration(made*7919%tasks+i)*time.Minute).Format(time.RFC3339)
			b.send("bob", fmt.Sprintf(`{"to":"hive","event":"release","task":%q,"epoch":1,"data":{"not_before":%q}}`, x.ID, later))
		}
		b.d.Record(b.now, &protocol.AgentEvent{Agent: "alice", Action: protocol.Released})
	}
	n, _ := b.noTask("alice")
	if kind := (tasks - 1) / 50 * 20; n.Open < tasks-50 || n.NotYet < kind || n.NotForYou < kind || n.Waiting < kind/2 || n.Next.IsZero() {
		t.Fatalf("of %d tasks the numbers are %+v", tasks, n)
	}
	a, at := b.d.state.Agents["alice"], b.d.state.Tasks.Moment(b.now)
	find := func() {
		if b.d.bestFor(a, at) != nil {
			t.Fatal("it finds a task")
		}
		b.d.numbersFor(a, at)
	}
	allocs = testing.AllocsPerRun(10, find)
	open := &b.d.plan.open
	for _, q := range []*queues{&open.soonest, &b.d.plan.waits, &b.d.plan.resting, &b.d.plan.asked} {
		order := q.order
		q.order = func(a, b *task.Task) int { looks++; return order(a, b) }
	}
	find()
	return looks, allocs
}

// claimed has an agent claim the best task, and returns it.
func (b *bench) claimed(who protocol.AgentID) *task.Task {
	b.t.Helper()
	for _, x := range b.send(who, `{"to":"hive","event":"claim"}`) {
		if e, is := x.Event.Body.(*protocol.TaskEvent); is && e.Event == task.Claim {
			return b.d.state.Tasks.Get(e.Task)
		}
	}
	b.t.Fatal("it claims nothing")
	return nil
}

// TestClaimFindsWhatWasNotOfferedYet checks that an agent can claim a task whose time
// came, or that is about to be offered, before hived has come to offer it.
func TestClaimFindsWhatWasNotOfferedYet(t *testing.T) {
	t.Parallel()
	b := newBench(t, "alice")
	b.create(`{"title":"later","to":["alice"]}`)
	x := b.claimed("alice")
	b.send("alice", fmt.Sprintf(`{"to":"hive","event":"release","task":%q,"epoch":1,"data":{"not_before":%q}}`, x.ID, b.now.Add(time.Hour).Format(time.RFC3339)))
	b.now = b.now.Add(time.Hour)
	if got := b.claimed("alice"); got != x {
		t.Errorf("it claims %s", got.ID)
	}

	var agents []protocol.AgentID
	var list []string
	for i := range TasksAtOnce + 2 {
		agents = append(agents, protocol.AgentID(fmt.Sprintf("agent-%03d", i)))
		list = append(list, fmt.Sprintf(`{"title":"one","to":[%q]}`, agents[i]))
	}
	b = newBench(t, agents...)
	b.send("human", `{"to":"hive","act":"inform","event":"create","data":{"tasks":[`+strings.Join(list, ",")+`]}}`)
	for _, who := range []protocol.AgentID{agents[len(agents)-1], agents[0]} {
		if got := b.claimed(who); got.Holder != who {
			t.Errorf("%s claims a task of %q", who, got.Holder)
		}
	}
}
