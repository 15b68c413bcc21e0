package decide

import (
	"errors"
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

// logged returns a bench whose log can be read again.
func logged(t *testing.T, agents ...protocol.AgentID) *bench {
	t.Helper()
	b := newBench(t, agents...)
	b.log = map[protocol.Seq]protocol.Event{}
	b.d.recall = recalls(func(seq protocol.Seq) (protocol.Event, error) {
		ev, ok := b.log[seq]
		if !ok {
			return ev, ledger.ErrNoEvent
		}
		return ev, nil
	})
	return b
}

// goOn delivers what was kept of threads that may go on.
func (b *bench) goOn() []Decision {
	b.t.Helper()
	for more := true; more; {
		var err error
		more, err = b.d.deliverContinued(b.now)
		testenv.Must(b.t, err)
	}
	return b.take()
}

// TestKeptInTheSameBatch checks that a message can be kept and delivered in one batch,
// before it is in the log.
func TestKeptInTheSameBatch(t *testing.T) {
	b := stopped(t)
	b.send("bob", `{"id":"k0","to":"alice","conversation":"c","body":"x"}`)
	for _, a := range []protocol.Arrival{b.found("bob", `{"id":"k1","to":"alice","conversation":"c","body":"x"}`), b.found(protocol.Human, resume)} {
		if _, err := b.d.Arrival(b.now, a); err != nil {
			t.Fatal(err)
		}
	}
	got := story(b.goOn())
	if want := []string{"delivered k0 to [alice]", "delivered k1 to [alice]"}; !slices.Equal(got[max(0, len(got)-2):], want) {
		t.Errorf("decided %v, want %v at the end", got, want)
	}
}

// stops tells senders what was stopped, where that is due.
func (b *bench) stops() []Decision {
	b.t.Helper()
	testenv.Must(b.t, b.d.tellStops(b.now))
	return b.take()
}

// stopped returns a bench where alice and bob have used up the hops of conversation c.
func stopped(t *testing.T, agents ...protocol.AgentID) *bench {
	t.Helper()
	b := logged(t, append([]protocol.AgentID{"alice", "bob"}, agents...)...)
	b.talk("c", "alice", "bob", 13)
	return b
}

const resume = `{"to":"hive","event":"continue","data":{"conversation":"c"}}`

// TestStoppedIsKept checks that what the hop cap stops is kept, and that `hived continue`
// delivers it in order and with its own bytes.
func TestStoppedIsKept(t *testing.T) {
	b := stopped(t, "carol")
	var want []string
	for n := range 70 { // more than one call delivers
		got := b.send("bob", fmt.Sprintf(`{"id":"k%d","to":["alice","carol"],"conversation":"c","body":%q}`, n, strings.Repeat("x", n)))
		if !strings.HasPrefix(story(got)[0], "message bob hops 13 to [] kept for [alice carol]") {
			t.Fatal(story(got))
		}
		want = append(want, fmt.Sprintf("delivered k%d to [alice carol]", n))
	}
	unread := b.d.state.Agents["carol"].Inbox.Len()
	if b.send(protocol.Human, resume); len(b.d.state.Kept()) != 1 {
		t.Fatal("the thread is no longer kept, and nothing was delivered")
	}
	got := b.goOn()
	if diff := cmp.Diff(want, story(got)); diff != "" {
		t.Error(diff)
	}
	if n := b.d.state.Agents["carol"].Inbox.Len(); n != unread+70 || len(b.d.state.Kept()) != 0 {
		t.Errorf("carol has %d unread messages, want %d; still kept: %v", n, unread+70, b.d.state.Kept())
	}
	for _, d := range got {
		e := d.Event.Body.(*protocol.DeliveredEvent)
		ev := b.log[e.Of]
		data, err := ledger.Delivered(ev, ev.Body.(*protocol.MessageEvent))
		if err != nil || len(d.Changes) != 2 || string(d.Changes[0].Data) != string(data) || d.Changes[0].Path != "agents/alice/inbox/"+e.File {
			t.Fatalf("%s: %v, %+v", e.ID, err, d.Changes)
		}
	}
	if got := story(b.send("alice", `{"to":"bob","in_reply_to":"k3","body":"x"}`)); got[0] != "message alice hops 1 to [bob]" {
		t.Errorf("the answer to a message that was kept: %v", got)
	}
}

// TestKeptIsJudgedWhenItGoesOn checks that a kept message is not delivered if by then it has
// expired or the inbox is full.
func TestKeptIsJudgedWhenItGoesOn(t *testing.T) {
	b := stopped(t, "carol")
	b.send("bob", `{"id":"old","to":"alice","conversation":"c","expires_at":"2026-11-21T09:30:00Z","body":"x"}`)
	b.send("bob", `{"id":"new","to":["alice","carol"],"conversation":"c","body":"x"}`)
	for file := range b.d.state.Agents["bob"].Inbox.Names() {
		b.d.Handled(b.now, "bob", file, protocol.HowDone)
	}
	b.take()
	b.d.settings.InboxCap = b.d.state.Agents["alice"].Inbox.Len()
	b.now = b.now.Add(time.Hour)
	b.send(protocol.Human, resume)
	want := []string{
		"drop expired [alice]", "notice expired to [bob]",
		"delivered new to [carol]", "drop inbox-full [alice]", "notice inbox-full to [bob]",
	}
	got := b.goOn()
	if diff := cmp.Diff(want, story(got)); diff != "" {
		t.Error(diff)
	}
	for i, more := range []bool{true, false, true, true, false} {
		if got[i].Event.More != more {
			t.Errorf("%s: more follows in its decision: %t, want %t", story(got)[i], got[i].Event.More, more)
		}
	}
	if len(b.d.state.Kept()) != 0 {
		t.Errorf("%v is still kept", b.d.state.Kept())
	}
}

// TestKeptIsBounded checks that a thread keeps at most a thousand messages, and that
// further ones are dropped.
func TestKeptIsBounded(t *testing.T) {
	b := stopped(t)
	for n := range ledger.KeptOfThread {
		b.send("bob", fmt.Sprintf(`{"id":"k%d","to":"alice","conversation":"c","body":"x"}`, n))
	}
	got := story(b.send("bob", `{"to":"alice","conversation":"c","body":"x"}`))
	if diff := cmp.Diff([]string{"message bob hops 13 to []", "drop hop-cap [alice]"}, got); diff != "" {
		t.Error(diff)
	}
	if got := b.d.state.Kept(); got["c"] != ledger.KeptOfThread {
		t.Errorf("kept: %v", got)
	}
	if got := b.needs(); len(got) == 0 || got[0].Conversation != "c" || got[0].Count != ledger.KeptOfThread {
		t.Errorf("what needs a person: %+v", got)
	}
}

// TestEachSenderLearnsOfItsFirstStop checks that a sender is told of its first stopped
// message at once, and of the others once an hour in one notice with their ids.
func TestEachSenderLearnsOfItsFirstStop(t *testing.T) {
	b := stopped(t, "carol", "dave")
	say := func(from protocol.AgentID, id string) []string {
		got := b.send(from, fmt.Sprintf(`{"id":%q,"to":["alice","bob"],"conversation":"c","hops":13,"body":"x"}`, id))
		return slices.DeleteFunc(story(got), func(s string) bool { return !strings.HasPrefix(s, "notice") })
	}
	for _, tt := range []struct {
		from protocol.AgentID
		id   string
		want []string
	}{
		{"carol", "c1", []string{"notice hop-cap to [carol]", "notice hop-cap to [human]"}},
		{"dave", "d1", []string{"notice hop-cap to [dave]"}},
		{"carol", "c2", nil},
		{"carol", "c3", nil},
	} {
		if diff := cmp.Diff(tt.want, say(tt.from, tt.id)); diff != "" && len(tt.want) > 0 {
			t.Errorf("%s: %s", tt.id, diff)
		}
	}
	at := b.d.nextStops(b.now)
	if got := at.Sub(b.now); got != time.Hour {
		t.Errorf("the next notice is due in %s", got)
	}
	b.now = at.Add(-time.Nanosecond)
	if got := story(b.stops()); len(got) > 0 {
		t.Errorf("too early: %v", got)
	}
	b.now = at
	got := b.stops()
	if diff := cmp.Diff([]string{"notice hop-cap to [carol]"}, story(got)); diff != "" {
		t.Error(diff)
	}
	if !strings.Contains(notices(got), "c2, c3") || !strings.Contains(notices(got), "ask human to let it go on") {
		t.Error(notices(got))
	}
	if got := story(b.stops()); len(got) > 0 || !b.d.nextStops(b.now).IsZero() {
		t.Errorf("told again: %v, next at %s", got, b.d.nextStops(b.now))
	}
	b.now = b.now.Add(90 * time.Minute)
	say("carol", "c4")
	if got := notices(b.stops()); !strings.Contains(got, "c4") || strings.Contains(got, "c3") {
		t.Errorf("over an hour after the last notice carol was not told of c4 alone at once: %s", got)
	}
}

// TestStopsAreBounded checks that a notice lists only so many ids, and counts the others.
func TestStopsAreBounded(t *testing.T) {
	b := stopped(t)
	for n := range 100 {
		b.send("bob", fmt.Sprintf(`{"id":"k%d","to":"alice","conversation":"c","body":"x"}`, n))
	}
	b.now = b.now.Add(time.Hour)
	if got := notices(b.stops()); !strings.Contains(got, "k50 and 49 more") || !strings.Contains(got, `"count":99`) {
		t.Error(got)
	}
}

// TestErrorIsNoRefusal checks that a command is not refused because the log cannot be
// read, which is no fault of its sender.
func TestErrorIsNoRefusal(t *testing.T) {
	b := logged(t, "alice", "bob")
	sent := b.send("alice", `{"to":"bob","body":"x"}`)[0].Event
	b.d.Handled(b.now, "bob", sent.Body.(*protocol.MessageEvent).File, protocol.HowDeleted)
	b.take()
	broken := errors.New("the disk is broken")
	b.d.recall = func([]protocol.Seq) ([]protocol.Event, error) { return nil, broken }
	_, err := b.d.Arrival(b.now, b.found(protocol.Human, fmt.Sprintf(`{"to":"hive","event":"inbox-undelete","data":{"agent":"bob","messages":[%d]}}`, sent.Seq)))
	if !errors.Is(err, broken) {
		t.Errorf("Arrival: %v, want %v; decided %v", err, broken, story(b.d.Drain(b.now)))
	}
}
