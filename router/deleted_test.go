package router

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hived/hived/internal/durable/faultfs"
	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/ledger"
	"github.com/hived/hived/mailbox"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/router/decide"
)

// fullInbox makes a hive in which bob and a000 have so many unread messages.
func fullInbox(t *testing.T, messages int, edit func(*Config)) *stepper {
	t.Helper()
	l := newStepper(t, 4, attentive{}, edit)
	l.agenda.ScrubAll()
	l.steps()
	for i := range messages {
		l.sends("alice", fmt.Sprintf("%03d", i), `{"to":["bob","a000"],"body":"x"}`)
	}
	l.settle()
	l.equal("unread", l.bob().Inbox.Len(), messages)
	return l
}

func (l *stepper) bob() *ledger.Agent { return l.state.Agents["bob"] }

// sends sends a message of an agent, which is taken in at once.
func (l *stepper) sends(from protocol.AgentID, name, text string) {
	l.Helper()
	put(l.T, l.disk.FS, protocol.OutboxDir(from)+"/"+name+".json", text)
	l.agenda.Hints(l.now, []mailbox.Hint{{Agent: from, Part: mailbox.PartOutbox}})
	l.steps()
}

// takes removes the first messages of an agent's inbox.
func (l *stepper) takes(id protocol.AgentID, n int) {
	l.Helper()
	for _, name := range slices.Collect(l.state.Agents[id].Inbox.Names())[:n] {
		testenv.Must(l, l.disk.FS.Remove(protocol.InboxDir(id)+"/"+name))
	}
}

// rescanFour does four rescans, each when what the one before found has settled, and calls
// between after each of the first three.
func (l *stepper) rescanFour(between func()) {
	l.Helper()
	for range 3 {
		l.rescanAll()
		between()
		l.now = l.now.Add(l.cfg.Settings.Settle)
	}
	l.rescanAll()
}

func nothing() {}

// startAgain starts a daemon on the same disk without its history, because nothing was
// committed there, and what is missing would be put back.
func (l *stepper) startAgain(edit func(*Config)) *stepper {
	l.Helper()
	testenv.Must(l, l.disk.FS.Rename(".git", "old.git"))
	return stepperOn(l.T, l.disk.FS.(*faultfs.Mem), attentive{}, edit) //nolint:forcetypeassert // it is always a Mem
}

// TestMassDeletionLimit checks that up to 20 messages may be deleted at once.
func TestMassDeletionLimit(t *testing.T) {
	for _, tt := range []struct{ gone, missing int }{{1, 0}, {20, 0}, {21, 21}, {25, 25}} {
		t.Run(strconv.Itoa(tt.gone), func(t *testing.T) {
			l := fullInbox(t, 30, nil)
			l.takes("bob", tt.gone)
			l.rescanFour(nothing)
			unread := 30 - tt.gone + tt.missing
			l.equal("unread, missing", []int{l.bob().Inbox.Len(), l.bob().Missing}, []int{unread, tt.missing})
			if tt.missing > 0 && l.state.Counts.Alerts == 0 {
				t.Error("nobody is told of the missing messages")
			}
		})
	}
}

// TestMassDeletionBelieved checks that very many deletions are believed when a second scan
// finds all else as it was, and the agent did something meanwhile.
func TestMassDeletionBelieved(t *testing.T) {
	acts := func(l *stepper) func() {
		i := 0
		return func() {
			i++
			l.now = l.now.Add(time.Millisecond)
			l.sends("bob", strconv.Itoa(i), `{"to":"human","body":"x"}`)
		}
	}
	for name, tt := range map[string]struct {
		before  func(l *stepper)
		between func(l *stepper) func()
		missing int
	}{
		"the agent acts":       {nil, acts, 0},
		"it acted before that": {func(l *stepper) { acts(l)() }, func(*stepper) func() { return nothing }, 25},
		"another agent acts": {nil, func(l *stepper) func() {
			return func() { l.sends("alice", fmt.Sprint(l.state.Seq), `{"to":"human","body":"x"}`) }
		}, 25},
		"another inbox lost some": {func(l *stepper) { l.takes("a000", 21) }, acts, 25},
	} {
		t.Run(name, func(t *testing.T) {
			l := fullInbox(t, 30, nil)
			if tt.before != nil {
				tt.before(l)
			}
			l.now = l.now.Add(time.Second)
			l.takes("bob", 25)
			l.rescanFour(tt.between(l))
			l.equal("unread, missing", []int{l.bob().Inbox.Len(), l.bob().Missing}, []int{5 + tt.missing, tt.missing})
		})
	}
}

// TestDeletedWhileTheIndexIsLocked checks that a deletion that is in doubt while git's index
// is locked is believed soon after the lock is gone, not only at the next rescan.
func TestDeletedWhileTheIndexIsLocked(t *testing.T) {
	const lock = ".git/index.lock"
	synctest.Test(t, func(t *testing.T) {
		disk := memHive(t)
		put(t, disk, "agents/alice/outbox/1.json", `{"to":"bob","body":"x"}`)
		err := runOnce(disk)
		_, _, state := readViews(t, disk)
		for file := range state.Agents["bob"].Inbox.Names() {
			err = errors.Join(err, disk.Remove(protocol.InboxDir("bob")+"/"+file))
		}
		put(t, disk, lock, "")
		freed := make(chan error)
		go func() {
			<-time.After(5 * time.Millisecond)
			freed <- disk.Remove(lock)
		}()
		settings := memSettings()
		settings.Rescan = time.Hour
		err = errors.Join(err, runWith(disk, settings), <-freed)
		testenv.Must(t, err)
		_, _, state = readViews(t, disk)
		if n := state.Agents["bob"].Inbox.Len(); n != 0 {
			t.Errorf("bob has %d unread messages", n)
		}
	})
}

// TestMissingFillsNoInbox checks that missing messages that are not believed to be deleted
// take no room in the inbox, also after a start, and are listed as needing a person until
// that is settled.
func TestMissingFillsNoInbox(t *testing.T) {
	const room = 30
	capped := func(cfg *Config) { cfg.Settings.InboxCap = room }
	l := fullInbox(t, room, capped)
	l.sends("alice", "over", `{"to":"bob","body":"x"}`)
	l.equal("unread", l.bob().Inbox.Len(), room)
	l.takes("bob", 25)
	l.rescanFour(nothing)
	needed := func() (codes []protocol.Code) {
		for _, n := range decide.NeedsYou(l.state, l.cfg.Settings, l.now) {
			if n.Agent == "bob" && len(n.Commands) == 2 {
				codes = append(codes, n.Code)
			}
		}
		return codes
	}
	l.equal("needs a person", needed(), []protocol.Code{protocol.CodeMassDeletion})
	testenv.Must(t, l.finish(t.Context()))
	l = l.startAgain(capped)
	for i := range 26 {
		l.sends("alice", fmt.Sprint("more", i), `{"to":"bob","body":"x"}`)
	}
	l.equal("unread", l.bob().Inbox.Len(), room+25)
	l.rescanFour(nothing)
	l.equal("missing", l.bob().Missing, 25)
	l.equal("needs a person", needed(), []protocol.Code{protocol.CodeMassDeletion})
	l.sends("human", "order", `{"to":"hive","event":"inbox-believe","data":{"agent":"bob"}}`)
	l.rescanFour(nothing)
	l.equal("unread, missing", []int{l.bob().Inbox.Len(), l.bob().Missing}, []int{room, 0})
	l.equal("needs a person", needed(), []protocol.Code(nil))
}

// TestPutBack checks that what vanished is delivered again when a person asks for it, also
// if the daemon is killed before it has done so.
func TestPutBack(t *testing.T) {
	for _, killed := range []bool{false, true} {
		t.Run(fmt.Sprint("killed ", killed), func(t *testing.T) {
			l := fullInbox(t, 30, nil)
			l.takes("bob", 25)
			l.rescanFour(nothing)
			if killed {
				put(t, l.disk.FS, "agents/human/outbox/order.json", `{"to":"hive","event":"inbox-put-back","data":{"agent":"bob"}}`)
				l.agenda.Hints(l.now, []mailbox.Hint{{Agent: "human", Part: mailbox.PartOutbox}})
				if _, _, err := l.intake.take(t.Context(), l.now); err != nil {
					t.Fatal(err)
				}
				testenv.Must(t, l.flush(l.now))
				l = l.startAgain(nil)
			} else {
				l.sends("human", "order", `{"to":"hive","event":"inbox-put-back","data":{"agent":"bob"}}`)
			}
			l.rescanFour(nothing)
			l.equal("in the inbox", unread(t, l.disk.FS, "bob"), 30)
			l.equal("unread, missing", []int{l.bob().Inbox.Len(), l.bob().Missing}, []int{30, 0})
			l.equal("handled", l.state.Counts.Handled, uint64(0))
		})
	}
}

// TestUndelete checks that messages that were deleted by mistake can be delivered again with
// the bytes that they had, and are then handled like any other.
func TestUndelete(t *testing.T) {
	l := fullInbox(t, 3, nil)
	var of protocol.Seq
	var file string
	for name, x := range l.bob().Inbox.All() {
		of, file = x.Of, name
		break
	}
	was := holding(t, l.disk.FS, "agents/bob/inbox/"+file)
	order := func(name, data string) (refused string) {
		t.Helper()
		before := l.state.Counts.Messages
		l.sends("human", name, `{"to":"hive","event":"inbox-undelete","data":`+data+`}`)
		if l.state.Counts.Messages-before > 1 {
			return "refused"
		}
		return ""
	}
	good := fmt.Sprintf(`{"agent":"bob","messages":[%d]}`, of)
	l.equal("of one that is unread", order("1", good), "refused")
	l.takes("bob", 1)
	l.rescanFour(nothing)
	l.equal("deleted", l.bob().Inbox.Len(), 2)
	for name, data := range map[string]string{
		"nobody": `{"agent":"nobody","messages":[1]}`, "none": `{"agent":"bob"}`, "no-message": `{"agent":"bob","messages":[1]}`,
		"future": `{"agent":"bob","messages":[9999]}`, "not-his": fmt.Sprintf(`{"agent":"alice","messages":[%d]}`, of),
		"twice": fmt.Sprintf(`{"agent":"bob","messages":[%d,%d]}`, of, of),
	} {
		l.equal(name, order(name, data), "refused")
	}
	l.equal("of one that is deleted", order("2", good), "")
	l.equal("in the inbox", holding(t, l.disk.FS, "agents/bob/inbox/"+file), was)
	l.equal("unread, handled", []int{l.bob().Inbox.Len(), int(l.bob().Handled)}, []int{3, 0})
	// A power cut takes the message, and it is placed again from the log.
	testenv.Must(t, l.disk.FS.Remove("agents/bob/inbox/"+file))
	l = l.startAgain(nil)
	l.equal("in the inbox after a start", holding(t, l.disk.FS, "agents/bob/inbox/"+file), was)
	testenv.Must(t, l.disk.FS.Rename("agents/bob/inbox/"+file, "agents/bob/inbox/.done/"+file))
	l.rescanFour(nothing)
	l.equal("unread, handled", []int{l.bob().Inbox.Len(), int(l.bob().Handled)}, []int{2, 1})
}
