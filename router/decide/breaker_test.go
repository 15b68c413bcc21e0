package decide

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/ledger"
	"github.com/hived/hived/protocol"
)

// tries has an agent send a message unless the breaker makes it wait in the outbox.
// It reports whether it waits, and whether it is for people.
func (b *bench) tries(from protocol.AgentID, text string, behind bool) (waits, people bool) {
	b.t.Helper()
	m, err := protocol.DecodeMessage([]byte(text))
	if err != nil {
		b.t.Fatalf("%s: %v", text, err)
	}
	waits, people, err = b.d.mustWait(b.now, protocol.Arrival{Agent: from, Message: m, Behind: behind})
	testenv.Must(b.t, err)
	if !waits {
		b.send(from, text)
	}
	return waits, people
}

// loop has two agents write to each other in fresh threads until one has to wait.
// It returns which one, and how many messages were sent before.
func (b *bench) loop(one, other protocol.AgentID) (who protocol.AgentID, sent int) {
	b.t.Helper()
	for ; sent < 1000; sent++ {
		if waits, _ := b.tries(one, fmt.Sprintf(`{"to":%q,"body":"x"}`, other), false); waits {
			return one, sent
		}
		one, other = other, one
	}
	b.t.Fatal("after 1,000 messages no agent has to wait")
	return "", 0
}

// TestBreakerOpens checks that an open breaker is logged, that its agent and a person
// are told once, and that messages that go to no agent still pass.
func TestBreakerOpens(t *testing.T) {
	b := newBench(t, "alice", "bob", "carol")
	who, sent := b.loop("alice", "bob")
	if who != "bob" || sent != 401 {
		t.Fatalf("%s has to wait after %d messages", who, sent)
	}
	opened := b.take()
	want := []string{"alert echo-cap", "notice echo-cap to [bob]", "notice echo-cap to [human]"}
	if diff := cmp.Diff(want, story(opened)); diff != "" {
		t.Error(diff)
	}
	if !opened[0].Event.More || !opened[1].Event.More || opened[2].Event.More {
		t.Error("the alert and its notices are not one decision")
	}
	if !strings.Contains(notices(opened), "hived continue --agent bob") {
		t.Error(notices(opened))
	}
	if got := b.needs(); len(got) == 0 || !slices.Contains(got[0].Commands, "hived continue --agent bob") {
		t.Errorf("what needs a person: %+v", got)
	}
	for _, tt := range []struct {
		to            string
		behind        bool
		waits, people bool
	}{
		{to: `"alice"`, waits: true},
		{to: `"bob"`, waits: true},
		{to: `"broadcast"`, waits: true},
		{to: `"hive"`},
		{to: `"hive"`, behind: true},
		{to: `"human"`, people: true},
		{to: `["human","alice"]`, waits: true, people: true},
		{to: `"human"`, behind: true, waits: true, people: true},
		{to: `"nobody"`},
	} {
		waits, people := b.tries("bob", `{"to":`+tt.to+`,"body":"x"}`, tt.behind)
		if waits != tt.waits || people != tt.people {
			t.Errorf("to %s, behind another: %t: waits %t, is for people %t", tt.to, tt.behind, waits, people)
		}
	}
	if got := story(b.take()); len(got) > 0 {
		t.Errorf("the breaker opened again: %v", got)
	}
	if waits, _ := b.tries("alice", `{"to":"carol","body":"x"}`, false); waits {
		t.Error("alice, who is not stopped, has to wait")
	}
	b.now = b.now.Add(100 * time.Hour)
	if waits, _ := b.tries("bob", `{"to":"alice","body":"x"}`, false); !waits {
		t.Error("the breaker closed by itself")
	}
}

// TestPairWithoutInReplyTo shows that a client and a worker that answer without
// in_reply_to look like a loop: after 200 jobs the next answer waits and a person is
// told, as PROTOCOL.md says.
func TestPairWithoutInReplyTo(t *testing.T) {
	b := newBench(t, "client", "worker")
	jobs := 0
	for ; jobs < 1000; jobs++ {
		if waits, _ := b.tries("client", `{"to":"worker","body":"a job"}`, false); waits {
			t.Fatalf("the client waits with job %d", jobs+1)
		}
		if waits, _ := b.tries("worker", `{"to":"client","body":"done"}`, false); waits {
			break
		}
	}
	if jobs != 200 {
		t.Errorf("the pair did %d jobs, want 200", jobs)
	}
	want := []string{"alert echo-cap", "notice echo-cap to [worker]", "notice echo-cap to [human]"}
	if diff := cmp.Diff(want, story(b.take())); diff != "" {
		t.Error(diff)
	}
	if got := b.needs(); len(got) == 0 || !slices.Contains(got[0].Commands, "hived continue --agent worker") {
		t.Errorf("what needs a person: %+v", got)
	}
	const said = "Answers without it\nlook like a loop: after 200 what you send to agents waits until a person looks."
	if !strings.Contains(string(protocol.Guide(b.d.settings)), said) {
		t.Errorf("PROTOCOL.md does not say %q", said)
	}
	// A person lets the worker go on, and it now answers as PROTOCOL.md says.
	b.command(`{"to":"hive","event":"continue","data":{"agent":"worker"}}`)
	for i := range 1000 {
		b.send("client", fmt.Sprintf(`{"id":"job-%d","to":"worker","body":"a job"}`, i))
		if waits, _ := b.tries("worker", fmt.Sprintf(`{"to":"client","in_reply_to":"job-%d","body":"done"}`, i), false); waits {
			t.Fatalf("with in_reply_to it waits after %d jobs", i)
		}
	}
}

// TestBreakerCloses checks that `hived continue --agent` and a message of a person
// close the breaker, and that the count begins at zero.
func TestBreakerCloses(t *testing.T) {
	for name, word := range map[string]string{
		"continue": `{"to":"hive","event":"continue","data":{"agent":"bob"}}`,
		"a word":   `{"to":"bob","body":"go on, but slowly"}`,
	} {
		b := newBench(t, "alice", "bob")
		b.loop("alice", "bob")
		b.command(word)
		if b.d.state.Agents["bob"].Stopped || b.d.state.Echoes("bob", b.now, 5) != 0 {
			t.Errorf("%s: bob still counts %d", name, b.d.state.Echoes("bob", b.now, 5))
		}
		// alice counts on from 200.
		b.command(strings.ReplaceAll(word, "bob", "alice"))
		if who, sent := b.loop("bob", "alice"); sent < 399 {
			t.Errorf("%s: %s has to wait after %d more", name, who, sent)
		}
	}
}

// TestContinueAgent checks that continue of an agent is refused where it makes no sense.
func TestContinueAgent(t *testing.T) {
	b := newBench(t, "alice", "bob")
	b.command(`{"to":"hive","event":"agent-lead","data":{"agent":"bob"}}`)
	b.loop("alice", "bob")
	for _, tt := range []struct {
		from protocol.AgentID
		data string
		code protocol.Code
	}{
		{"bob", `{"agent":"bob"}`, protocol.CodeNotAllowed},
		{"alice", `{"agent":"bob"}`, protocol.CodeNotAllowed},
		{"human", `{"agent":"bbo"}`, protocol.CodeUnknownAgent},
		{"human", `{"agent":"bob","conversation":"c"}`, protocol.CodeBadCommand},
	} {
		got := story(b.send(tt.from, `{"to":"hive","event":"continue","data":`+tt.data+`}`))
		if want := fmt.Sprintf("notice %s to [%s]", tt.code, tt.from); !slices.Contains(got, want) {
			t.Errorf("%s of %s: %v", tt.data, tt.from, got)
		}
	}
	if !b.d.state.Agents["bob"].Stopped {
		t.Error("a refused command closed bob's breaker")
	}
}

// TestTheLeadLoops checks that people are told when it is the lead that loops, because
// the lead is whom the others' trouble is reported to.
func TestTheLeadLoops(t *testing.T) {
	b := newBench(t, "alice", "bob")
	b.command(`{"to":"hive","event":"agent-lead","data":{"agent":"bob"}}`)
	b.loop("alice", "bob")
	if got := story(b.take()); !slices.Contains(got, "notice echo-cap to [human]") {
		t.Error(got)
	}
}

// TestFirstRepliesCountNothing checks that only first replies count nothing: a second
// one, and a reply to a reply, are echoes.
func TestFirstRepliesCountNothing(t *testing.T) {
	b := newBench(t, "alice", "bob", "carol")
	count := func(from protocol.AgentID, text string) (echoes int, first protocol.Seq) {
		e := b.send(from, text)[0].Event.Body.(*protocol.MessageEvent)
		return e.Echoes / ledger.Echo, e.First
	}
	b.send("alice", `{"id":"q","to":["bob","carol"],"body":"x"}`)
	for _, tt := range []struct {
		from   protocol.AgentID
		text   string
		echoes int
		first  bool
	}{
		{"bob", `{"id":"a","to":"alice","in_reply_to":"q","body":"x"}`, 0, true},
		{"carol", `{"id":"b","to":"alice","in_reply_to":"q","body":"x"}`, 0, true},
		{"alice", `{"id":"c","to":"bob","in_reply_to":"a","body":"x"}`, 0, false}, // so far alice got only first replies
		{"bob", `{"id":"d","to":"alice","in_reply_to":"q","body":"x"}`, 1, false},
		{"alice", `{"id":"e","to":["bob","alice"],"in_reply_to":"d","body":"x"}`, 1, false},
	} {
		echoes, first := count(tt.from, tt.text)
		if echoes != tt.echoes || first > 0 != tt.first {
			t.Errorf("%s: %s counts %d, first reply to %d", tt.from, tt.text, echoes, first)
		}
	}
}

// TestHumanCounts checks that thirty messages of human an hour start counts anew, and
// that beyond them human counts as an agent until a person runs `hived continue`.
func TestHumanCounts(t *testing.T) {
	b := newBench(t, "alice", "bob")
	word := func() []string { return story(b.send(protocol.Human, `{"to":"bob","conversation":"c","body":"x"}`)) }
	for range ledger.WordsAnHour {
		if got := word(); got[0] != "message human hops 0 to [bob]" {
			t.Fatal(got)
		}
	}
	b.command(`{"to":"hive","event":"git-pause"}`) // goes to no agent, and does not count
	want := []string{"alert human-counts", "notice human-counts to [human]", "message human hops 0 to [bob]"}
	if diff := cmp.Diff(want, word()); diff != "" {
		t.Error(diff)
	}
	b.send("bob", `{"to":"human","conversation":"c","body":"x"}`)
	if got := word(); got[0] != "message human hops 2 to [bob]" {
		t.Errorf("the hops of human are not counted: %v", got)
	}
	if who, sent := b.loop("human", "bob"); sent < 395 || sent > 401 {
		t.Errorf("%s has to wait after %d messages", who, sent)
	}
	b.command(`{"to":"hive","event":"continue","data":{"agent":"human"}}`)
	if got := word(); got[0] != "message human hops 0 to [bob]" || b.d.state.HumanCounts || b.d.state.Agents["bob"].Stopped {
		t.Errorf("after continue: %v", got)
	}
	for range 3 { // the pace of a person
		b.now = b.now.Add(time.Hour)
		for range 25 {
			word()
		}
	}
	if b.d.state.HumanCounts {
		t.Error("human counts as an agent at 25 messages an hour")
	}
}

// TestBusyPairs checks that a pair is shown to people when it exchanged over a hundred
// messages within a day, without a message of a person.
func TestBusyPairs(t *testing.T) {
	b := newBench(t, "alice", "bob", "carol")
	for range 101 {
		b.send("alice", `{"to":"bob","body":"x"}`)
	}
	b.send("bob", `{"to":"carol","body":"x"}`)
	if got := b.needs(); len(got) != 1 || got[0].Code != protocol.CodeBusyPair {
		t.Errorf("what needs a person: %+v", got)
	}
	want := []ledger.Busy{{One: "alice", Other: "bob", Messages: 101}}
	if diff := cmp.Diff(want, b.d.state.BusyPairs(b.now)); diff != "" {
		t.Error(diff)
	}
	if got := b.d.state.BusyPairs(b.now.Add(48 * time.Hour)); len(got) > 0 {
		t.Errorf("two days later: %v", got)
	}
	b.send("alice", `{"to":"bob","conversation":"c","body":"x"}`)
	b.send("bob", `{"to":"alice","conversation":"c","body":"x"}`)
	b.send(protocol.Human, `{"to":"bob","conversation":"c","body":"x"}`)
	if got := b.d.state.BusyPairs(b.now); len(got) > 0 {
		t.Errorf("after a message of a person: %v", got)
	}
}
