package router

import (
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/hived/hived/internal/durable/faultfs"
	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/mailbox"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/router/agenda"
)

// portion is how many messages one step puts back into vanished inboxes.
const portion = 64

// vanish moves the inboxes of agents out of the way.
func vanish(l *stepper, ids ...protocol.AgentID) {
	l.Helper()
	for _, id := range ids {
		testenv.Must(l, l.disk.FS.Rename(protocol.InboxDir(id), protocol.AgentDir(id)+"/gone"))
		l.agenda.Hints(l.now, []mailbox.Hint{{Agent: id, Part: mailbox.PartOwn}})
	}
}

// TestRefillInPortions checks that vanished inboxes are filled with one reading of the log,
// a portion in each step, and that what is sent meanwhile is delivered between the steps.
func TestRefillInPortions(t *testing.T) {
	const messages = 3*portion + 10
	l := stepperOn(t, unreadEverywhere(t, 6, messages), attentive{}, nil)
	l.settle()
	vanish(l, "bob", numbered(0))
	l.now = l.now.Add(agenda.InboxEvery)
	opened := 0
	l.disk.opened = func(name string) {
		if strings.HasPrefix(name, protocol.PathLog) {
			opened++
		}
	}
	before, mail := 0, 0
	for busy, steps := true, 0; busy; steps++ {
		if steps > 100 {
			t.Fatal("the steps do not end")
		}
		var err error
		if steps > 0 {
			mail++
			put(t, l.disk.FS, fmt.Sprintf("agents/alice/outbox/new%d.json", steps), `{"to":"a001","body":"x"}`)
			l.agenda.Hints(l.now, []mailbox.Hint{{Agent: "alice", Part: mailbox.PartOutbox}})
		}
		busy, err = l.step(t.Context(), l.now)
		testenv.Must(t, err)
		now := 0
		for _, id := range []protocol.AgentID{"bob", numbered(0)} {
			if _, err := l.disk.FS.Lstat(protocol.InboxDir(id)); err == nil {
				now += unread(t, l.disk.FS, id)
			}
		}
		if now-before > portion+1 { // the last event may be for both
			t.Errorf("step %d put back %d messages", steps, now-before)
		}
		before = now
		if got := unread(t, l.disk.FS, numbered(1)) - messages; got != mail {
			t.Errorf("after step %d only %d of %d messages that were sent meanwhile have come", steps, got, mail)
		}
		if l.place.Backlog().Inboxes == 0 && steps > 5 {
			break
		}
	}
	l.steps()
	l.equal("filled", []int{unread(t, l.disk.FS, "bob"), unread(t, l.disk.FS, numbered(0)), unread(t, l.disk.FS, numbered(1))}, []int{messages, messages, messages + mail})
	if opened > 10 {
		t.Errorf("the log was opened %d times", opened)
	}
	l.settle()
	for _, id := range []protocol.AgentID{"bob", numbered(0)} {
		if _, err := l.disk.FS.Lstat(protocol.InboxDir(id) + "/.hived"); err != nil {
			t.Errorf("the inbox of %s got no marker: %v", id, err)
		}
	}
	l.equal("handled", l.state.Counts.Handled, uint64(0))
}

// TestRefillIsCutShort checks that the next daemon fills an inbox that one had filled in
// part when it ended, and that what was handled meanwhile does not come back.
func TestRefillIsCutShort(t *testing.T) {
	const messages = 2*portion + 10
	l := stepperOn(t, unreadEverywhere(t, 3, messages), attentive{}, nil)
	l.settle()
	var first string
	for name := range l.state.Agents["bob"].Inbox.Names() {
		first = name
		break
	}
	vanish(l, "bob")
	l.now = l.now.Add(agenda.InboxEvery)
	for l.place.Backlog().Inboxes == 0 {
		if _, err := l.step(t.Context(), l.now); err != nil {
			t.Fatal(err)
		}
	}
	l.place.Close()
	if n := unread(t, l.disk.FS, "bob"); n == 0 || n >= messages {
		t.Fatalf("%d messages are in the inbox", n)
	}
	testenv.Must(t, l.disk.FS.Rename("agents/bob/inbox/"+first, "agents/bob/inbox/.done/"+first))
	again := stepperOn(t, l.disk.FS.(*faultfs.Mem), attentive{}, nil) //nolint:forcetypeassert // it is always a Mem
	again.settle()
	again.equal("unread", unread(t, again.disk.FS, "bob"), messages-1)
	again.equal("handled", again.state.Counts.Handled, uint64(1))
}

// TestRefusedInPortions checks that a step tries only a portion of what belongs in an inbox
// that cannot be written, so that messages to others do not wait for it.
func TestRefusedInPortions(t *testing.T) {
	const messages = 3*portion + 10
	l := stepperOn(t, unreadEverywhere(t, 3, messages), attentive{}, nil)
	l.settle()
	vanish(l, "bob")
	l.now = l.now.Add(agenda.InboxEvery)
	tried := 0
	l.disk.FS.(*faultfs.Mem).FailAt(1, fs.ErrPermission, -1, func(op faultfs.Op, name string) bool { //nolint:forcetypeassert // it is always a Mem
		refused := op == faultfs.OpCreate && strings.HasPrefix(name, protocol.InboxDir("bob")+"/.hived-0")
		if refused {
			tried++
		}
		return refused
	})
	for range 8 {
		before := tried
		if _, err := l.step(t.Context(), l.now); err != nil {
			t.Fatal(err)
		}
		if n := tried - before; n > portion {
			t.Errorf("a step tried %d messages", n)
		}
	}
	l.equal("owed", l.place.Backlog().Files, messages)
	l.disk.FS.(*faultfs.Mem).Heal() //nolint:forcetypeassert // it is always a Mem
	l.steps()
	for range 4 {
		if _, err := l.step(t.Context(), l.now); err != nil {
			t.Fatal(err)
		}
	}
	l.equal("filled", unread(t, l.disk.FS, "bob"), messages)
	l.equal("owed", l.place.Backlog().Files, 0)
}

// TestRestoredBeforeTheEnd checks that what a person took away is back when the daemon has
// ended, even if restoring had just begun, because the next daemon would take it for
// deleted.
func TestRestoredBeforeTheEnd(t *testing.T) {
	const messages = 2*portion + 10
	l := stepperOn(t, unreadEverywhere(t, 3, messages), attentive{}, nil)
	l.settle()
	for file := range l.state.Agents["bob"].Inbox.Names() {
		if err := l.disk.FS.Remove(protocol.InboxDir("bob") + "/" + file); err != nil {
			t.Fatal(err)
		}
	}
	l.place.Restore()
	l.equal("put back at once", unread(t, l.disk.FS, "bob"), 0)
	l.place.Close()
	l.equal("put back", unread(t, l.disk.FS, "bob"), messages)
}
