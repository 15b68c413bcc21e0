package router

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hived/hived/internal/durable/faultfs"
	"github.com/hived/hived/mailbox"
	"github.com/hived/hived/protocol"
)

// vanish moves the inboxes of agents out of the way.
func vanish(l *looker, ids ...protocol.AgentID) {
	l.Helper()
	for _, id := range ids {
		if err := l.disk.FS.Rename(protocol.InboxDir(id), protocol.AgentDir(id)+"/gone"); err != nil {
			l.Fatal(err)
		}
		l.hints([]mailbox.Hint{{Agent: id, Part: mailbox.PartOwn}})
	}
}

// TestRefillInPortions: inboxes that vanish are filled in one pass over the log, a
// portion in each step, and what is sent meanwhile is delivered in between.
func TestRefillInPortions(t *testing.T) {
	const messages = 3*refillLetters + 10
	l := lookAgain(t, unreadEverywhere(t, 6, messages), attentive{}, nil)
	l.settle()
	vanish(l, "bob", numbered(0))
	l.now = l.now.Add(inboxEvery)
	opened := 0
	l.disk.opened = func(name string) {
		if strings.HasPrefix(name, protocol.PathLog) {
			opened++
		}
	}
	before, mail := 0, 0
	for busy, steps := true, 0; busy; steps++ {
		if steps > 100 {
			t.Fatal("it does not end")
		}
		var err error
		if steps > 0 {
			mail++
			put(t, l.disk.FS, fmt.Sprintf("agents/alice/outbox/new%d.json", steps), `{"to":"a001","body":"x"}`)
			l.hints([]mailbox.Hint{{Agent: "alice", Part: mailbox.PartOutbox}})
		}
		if busy, err = l.step(t.Context(), l.now); err != nil {
			t.Fatal(err)
		}
		now := 0
		for _, id := range []protocol.AgentID{"bob", numbered(0)} {
			if _, err := l.disk.FS.Lstat(protocol.InboxDir(id)); err == nil {
				now += unread(t, l.disk.FS, id)
			}
		}
		if now-before > refillLetters+1 { // the last event may be for both
			t.Errorf("step %d delivered %d", steps, now-before)
		}
		before = now
		if got := unread(t, l.disk.FS, numbered(1)) - messages; got != mail {
			t.Errorf("%d of %d that were sent meanwhile came after step %d", got, mail, steps)
		}
		if len(l.refill.left) == 0 && steps > 5 {
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

// TestRefillIsCutShort: a daemon that ends in the middle of it goes on with it
// when it starts again, and what was handled meanwhile does not come back.
func TestRefillIsCutShort(t *testing.T) {
	const messages = 2*refillLetters + 10
	l := lookAgain(t, unreadEverywhere(t, 3, messages), attentive{}, nil)
	l.settle()
	var first string
	for name := range l.state.Agents["bob"].Inbox.Names() {
		first = name
		break
	}
	vanish(l, "bob")
	l.now = l.now.Add(inboxEvery)
	for len(l.refill.left) == 0 {
		if _, err := l.step(t.Context(), l.now); err != nil {
			t.Fatal(err)
		}
	}
	l.refill.close()
	if n := unread(t, l.disk.FS, "bob"); n == 0 || n >= messages {
		t.Fatalf("%d are there", n)
	}
	if err := l.disk.FS.Rename("agents/bob/inbox/"+first, "agents/bob/inbox/.done/"+first); err != nil {
		t.Fatal(err)
	}
	again := lookAgain(t, l.disk.FS.(*faultfs.Mem), attentive{}, nil) //nolint:forcetypeassert // it is one
	again.settle()
	again.equal("unread", unread(t, again.disk.FS, "bob"), messages-1)
	again.equal("handled", again.state.Counts.Handled, uint64(1))
}
