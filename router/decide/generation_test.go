package decide

import (
	"cmp"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/ledger"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

// generation returns the generation of what an agent creates now.
func (m *taskModel) generation(by protocol.AgentID) (gen int) {
	for _, t := range m.tasks {
		if by != protocol.Human && t.holder == by && !t.ended() && t.state != "unassigned" && t.state != "offered" {
			gen = max(gen, t.gen+1)
		}
	}
	return gen
}

// lately returns how many tasks an agent created in the last hour while it held one, the
// first five minutes of which count whole.
func (m *taskModel) lately(by protocol.AgentID, at time.Time) (n int) {
	const slot = 5 * time.Minute
	for _, when := range m.made[by] {
		if when.Truncate(slot).After(at.Truncate(slot).Add(-time.Hour - slot)) {
			n++
		}
	}
	return n
}

// badGeneration returns what is wrong with the generation of a new task, or nothing.
func (m *taskModel) badGeneration(e *protocol.TaskEvent, at time.Time) string {
	of := m.ever(cmp.Or(e.Resumes, e.Repairs, e.Unwinds))
	want := m.generation(e.By)
	if of != nil {
		want = of.gen
	}
	if e.Generation != want {
		return fmt.Sprintf("it is of generation %d, and should be of %d", e.Generation, want)
	}
	if of == nil && want > 0 {
		m.made[e.By] = append(m.made[e.By], at)
	}
	return ""
}

// holdersBench is a bench whose agents hold a task each.
func holdersBench(t *testing.T, agents ...protocol.AgentID) *bench {
	t.Helper()
	b := newBench(t, agents...)
	for _, who := range agents {
		b.create(`{"title":"first","to":["` + string(who) + `"]}`)
		b.claimed(who)
	}
	return b
}

// creates has an agent create a task, and returns it, or the refusal.
func (b *bench) creates(who protocol.AgentID, data string) (*task.Task, *protocol.TaskRejectedEvent) {
	b.t.Helper()
	for _, x := range b.send(who, `{"to":"hive","event":"create","data":`+data+`}`) {
		switch e := x.Event.Body.(type) {
		case *protocol.TaskEvent:
			if e.Event == task.Create {
				return b.d.state.Tasks.Get(e.Task), nil
			}
		case *protocol.TaskRejectedEvent:
			return nil, e
		}
	}
	b.t.Fatalf("%s is not answered", data)
	return nil, nil
}

func wantRefusal(t *testing.T, no *protocol.TaskRejectedEvent, code protocol.Code, words ...string) {
	t.Helper()
	if no == nil || no.Code != code {
		t.Fatalf("refused is %+v, want %s", no, code)
	}
	for _, w := range words {
		if !strings.Contains(no.Detail, w) {
			t.Errorf("%q does not say %q", no.Detail, w)
		}
	}
}

// TestGenerations checks that what a holder creates is one generation deeper than what
// it holds, also while that waits, up to the limit, and that others create as before.
func TestGenerations(t *testing.T) {
	t.Parallel()
	b := newBench(t, "alice", "bob")
	b.d.settings.Tasks.Generations = 2
	if x, _ := b.creates("alice", `{"title":"of nobody at work","to":["bob"]}`); x.Terms().Generation != 0 {
		t.Errorf("who holds nothing creates generation %d", x.Terms().Generation)
	}
	for want := range int32(3) {
		held := b.claimed("bob")
		if held.Terms().Generation != want {
			t.Fatalf("it claims generation %d, want %d", held.Terms().Generation, want)
		}
		b.send("bob", `{"to":"hive","event":"start","task":"`+string(held.ID)+`","epoch":1}`)
		b.send("bob", `{"to":"hive","event":"block_on_dependency","task":"`+string(held.ID)+`","epoch":1,"data":{"reason":"wait"}}`)
		x, no := b.creates("bob", `{"title":"next","to":["bob"]}`)
		if want == 2 {
			wantRefusal(t, no, protocol.CodeTooDeep, string(held.ID), "generation 3", "allows 2 (tasks.generations)", `"event": "complete"`, "ask human")
			continue
		}
		if x.Terms().Generation != want+1 {
			t.Errorf("while it holds generation %d it creates %d", want, x.Terms().Generation)
		}
	}
	if x, _ := b.creates("human", `{"title":"of people"}`); x.Terms().Generation != 0 {
		t.Errorf("people create generation %d", x.Terms().Generation)
	}
}

// TestCreatedPerHour checks that a holder creates so many tasks in an hour and no more,
// all of a command or none, that a snapshot keeps the count, and that the refusal says
// when it may again.
func TestCreatedPerHour(t *testing.T) {
	t.Parallel()
	b := holdersBench(t, "alice")
	b.d.settings.Tasks.CreatedPerHour = 3
	one, two := `{"title":"x","to":["alice"]}`, `{"tasks":[{"title":"x","to":["alice"]},{"title":"y","to":["alice"]}]}`
	b.creates("alice", two)
	first := b.now
	b.now = b.now.Add(20 * time.Minute)
	tasks := b.d.state.Tasks.Len()
	_, no := b.creates("alice", two)
	until := first.Truncate(5 * time.Minute).Add(65 * time.Minute)
	wantRefusal(t, no, protocol.CodeTooMany, "created 2 tasks", "may create 3 (tasks.created_per_hour)", until.Format(time.RFC3339))
	if b.d.state.Tasks.Len() != tasks {
		t.Error("a part of the command was carried out")
	}
	_, no = b.creates("alice", `{"tasks":[`+one+`,`+one+`,`+one+`,`+one+`]}`)
	wantRefusal(t, no, protocol.CodeTooMany, "it has 4 tasks", "at most 3")
	if _, no = b.creates("alice", one); no != nil {
		t.Fatalf("the third is refused: %s", no.Detail)
	}
	text, err := stateBytes(b.d.state)
	testenv.Must(t, err)
	state, _, err := ledger.Decode(strings.NewReader(text), b.d.settings.Remember)
	testenv.Must(t, err)
	b.d = New(state, b.d.settings, zeros{}, noLog)
	b.now = until.Add(-time.Second)
	_, no = b.creates("alice", one)
	wantRefusal(t, no, protocol.CodeTooMany)
	b.now = until
	if _, no = b.creates("alice", two); no != nil {
		t.Errorf("it may again, and is refused: %s", no.Detail)
	}
}

// TestGenerationNeedsFormat3 checks that a hive comes to format 3 with the first task
// that a holder creates, and with no other.
func TestGenerationNeedsFormat3(t *testing.T) {
	t.Parallel()
	b := holdersBench(t, "alice")
	b.d.state.Format = protocol.BasicFormat
	b.d.recordAgent(b.now, &protocol.AgentEvent{Agent: "bob", Action: protocol.Joined})
	for who, want := range map[protocol.AgentID]int{"alice": protocol.LogFormat, "bob": protocol.BasicFormat, "human": protocol.BasicFormat} {
		if is := b.d.formatFor(b.found(who, `{"to":"hive","event":"create","data":{"title":"x"}}`)); is != want {
			t.Errorf("a create by %s needs format %d, want %d", who, is, want)
		}
	}
}
