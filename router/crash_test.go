package router

import (
	"errors"
	"io/fs"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hived/hived/eventlog"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/durable/faultfs"
	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/protocol"
)

// story is what happens to a hive with two agents, alice and bob, on a disk in memory: one
// deed after the other, the last of which are checks. If lose is set, the daemon that runs
// after the deeds crashes at one operation after the other, and then is played on what each
// crash leaves. There is one such sweep for each member of lose.
type story struct {
	name  string
	deeds []deed
	lose  []losing
	since func(protocol.Event) bool // operations count from the event that fits; nil: from the start
	then  []deed
}

// losing is what a crash at the k-th operation loses.
type losing func(k int) faultfs.Loss

// each returns a sweep for each way of losing what was not synced.
func each(list ...faultfs.Loss) (out []losing) {
	for _, how := range list {
		out = append(out, func(int) faultfs.Loss { return how })
	}
	return out
}

// inTurn returns one sweep in which the ways of losing alternate.
func inTurn(list ...faultfs.Loss) []losing {
	return []losing{func(k int) faultfs.Loss { return list[k%len(list)] }}
}

// TestCrashStories plays stories of hives whose disk crashes or refuses. A new case is a
// new row here.
func TestCrashStories(t *testing.T) {
	t.Parallel()
	for _, st := range []story{
		// Everything that an outbox can hold arrives once. This fails without the
		// sync of the log, with archiving before the append, with redo by existence,
		// and without recognising the originals of accepted messages.
		{
			name:  "mail",
			deeds: []deed{sendMail},
			lose:  each(faultfs.Drop, faultfs.Keep, faultfs.Torn(7)),
			then:  []deed{run, mailArrived},
		},

		// A step of a task is begun, and another has ended: their records say so, and the
		// locks are there.
		{
			name:  "steps",
			deeds: []deed{taskInProgress, stepEnds, stepBegins},
			lose:  each(faultfs.Drop, faultfs.Keep, faultfs.Torn(7)),
			then:  []deed{run, stepsRecorded},
		},

		// A daemon crashes while it sweeps files that no sync point has covered yet: what the
		// crash brings back in an outbox or an inbox is neither archived nor shown again.
		{
			name:  "sweeping",
			deeds: []deed{handledAndCommitted(faultfs.Drop), with(keepOneFile)},
			lose:  each(faultfs.Drop),
			then:  []deed{run, sweptAsLogged},
		},
		{
			name:  "sweeping and nothing is lost",
			deeds: []deed{handledAndCommitted(faultfs.Keep), with(keepOneFile)},
			lose:  each(faultfs.Keep),
			then:  []deed{run, sweptAsLogged},
		},
		{
			name:  "sweeping and a removal fails",
			deeds: []deed{handledAndCommitted(faultfs.Drop), with(keepOneFile)},
			lose:  each(faultfs.Drop),
			then:  []deed{refuse(fs.ErrPermission, 1, faultfs.OpRemove, alicesSent), run, sweptAsLogged},
		},

		// A swept file that cannot be removed is removed when it can be.
		{
			name: "swept file cannot be removed",
			deeds: []deed{
				handledAndCommitted(faultfs.Keep), with(keepOneFile),
				refuse(fs.ErrPermission, 3, faultfs.OpRemove, alicesSent), run, sweptAsLogged,
			},
		},

		// An old message that its agent takes back out of .done is unread again, though
		// retention would sweep it at the same moment.
		{
			name: "reopened is not swept",
			deeds: []deed{
				handledAndCommitted(faultfs.Keep), run, reopenOldest(3), with(keepOneFile),
				run, sweptAsLogged, unreadBy("bob", 1),
			},
		},

		// A power cut brings back an archived file that was swept, and takes the one that was
		// archived under its name since. The first message is not sent again.
		{
			name: "swept name is used again",
			deeds: []deed{
				send("alice", "x", `{"to":"bob","body":"unique-x"}`), run,
				send("alice", "y", `{"to":"bob","body":"unique-y"}`), run,
				with(keepOneFile), crash(faultfs.Keep, swept),
				sendUnsynced("alice", "x", `{"to":"bob","body":"z"}`), crash(faultfs.Drop, archivedAs("x.json")),
				there(alicesSent + "x.json"), // the first is back
				with(keepAll), run, unreadBy("bob", 3),
			},
		},

		// What recovery puts back because the history lags does not include what an agent
		// has taken back out of .done meanwhile.
		{
			name: "reopened while git is behind",
			deeds: []deed{
				send("human", "0", `{"to":"hive","event":"git-pause","body":""}`), sendOne,
				run, handle, run, move(bobsDone, bobsInbox), run,
				unreadBy("bob", 1), count(bobsDone, 0),
			},
		},

		// A message that its agent had moved to .done, and the log does not know of
		// yet, is not delivered again.
		{
			name: "handled before a crash",
			deeds: []deed{
				sendOne, crash(faultfs.Keep, message, handle), run,
				unreadBy("bob", 0), count(bobsDone, 1),
			},
		},

		// A power cut brings back what an agent had deleted, and before the daemon runs
		// again the agent moves it to .done.
		{
			name: "deleted then done",
			deeds: []deed{
				sendOne, run, remove(bobsInbox), crash(faultfs.Drop, handled), handle,
				run, count(bobsDone, 0), // in the log it is deleted
			},
		},

		// After a crash between the intake of a broken file and its archiving, its agent is
		// held at once.
		{
			name: "held before its original is archived",
			deeds: []deed{
				send("alice", "1", `{"to":`), crash(faultfs.Keep, quarantined),
				backInOutbox("bad-1.json"), send("human", "h", `{"to":"hive","event":"agent-hold","data":{"agent":"alice"}}`),
				with(func(s *protocol.Settings) { s.Settle = time.Minute }), // the daemon ends before the file has settled
				run, there(alicesSent + "bad-1.json"), notThere("agents/alice/outbox/1.json"),
			},
		},

		// After a power cut the file of an accepted message can be in its outbox again,
		// without some of the bytes that its writer never synced. It is neither reported as
		// broken, nor sent again, nor lost.
		originalBack("original empty", ""),
		originalBack("original as zeros", "\x00\x00\x00"),
		originalBack("original cut", originalText[:9]),
		originalBack("original with zeros", originalText[:9]+strings.Repeat("\x00", len(originalText)-9)),
		originalBack("original without its line break", strings.TrimSuffix(originalText, "\n")),
		originalBack("original with another time", originalText),

		// The daemon takes out what an agent wrote over a message. The message is not lost,
		// and what was written is in .done, once.
		{
			name:  "written over",
			deeds: []deed{sendOne, run, scribble},
			lose:  inTurn(faultfs.Keep, faultfs.Drop),
			then:  []deed{run, messageStands, setAsideOnce},
		},
		{
			name:  "written over and not settled",
			deeds: []deed{sendOne, crash(faultfs.Keep, message), scribble},
			lose:  inTurn(faultfs.Keep, faultfs.Drop),
			then:  []deed{run, messageStands, setAsideOnce},
		},

		// A power cut takes the end of what was logged about a message that its agent had
		// written over.
		{
			name: "written over and a torn log",
			deeds: []deed{
				sendOne, run, scribble, crash(faultfs.Keep, quarantined), tearLog(`"from":"hive","to":["human"]`), run,
				messageStands, logged(`"kind":"alert","more":true,"code":"altered"`, 1),
			},
		},

		// What an agent takes away between the event that sets it aside and the move is in
		// .done all the same, as the log says.
		{
			name:  "written over and taken away",
			deeds: []deed{sendOne, run, scribble, runUntil(quarantined, handle), asideHolds(scribbledText)},
		},

		// An agent moved to .done a message that it had written over. The archive has what
		// was delivered, wherever the crash comes.
		{
			name:  "written over then done",
			deeds: []deed{sendOne, run, scribble, handle, syncDirs(bobsDone, bobsInbox)},
			lose:  []losing{func(k int) faultfs.Loss { return []faultfs.Loss{faultfs.Torn(uint64(k)), faultfs.Drop}[k%2] }},
			then:  []deed{run, doneIsWhole},
		},

		// An inbox that was deleted is made again, and filled. What was unread there
		// does not count as deleted by its agent, wherever the crash comes.
		{
			name:  "inbox gone",
			deeds: []deed{sendSeveral(2), run, deleteInbox},
			lose:  each(faultfs.Drop, faultfs.Keep, faultfs.Torn(7)),
			then:  []deed{run, unreadInLog(2), asLogged("bob")},
		},

		// What bob deleted is delivered again.
		{
			name:  "undelete",
			deeds: []deed{sendSeveral(2), run, deleteFirst, run, run, unreadInLog(1), askUndelete, syncAll},
			lose:  inTurn(faultfs.Drop, faultfs.Keep, faultfs.Torn(7)),
			then:  []deed{run, unreadInLog(2), asLogged("bob")},
		},

		// The last of many messages that vanished from bob's inbox at once is delivered again
		// from the event on that says that a person wants that.
		{
			name:  "put back",
			deeds: []deed{sendSeveral(2), run, deleteFirst, logMissing, run, send("human", "p", `{"to":"hive","event":"inbox-put-back","data":{"agent":"bob"}}`), syncAll},
			lose:  inTurn(faultfs.Drop, faultfs.Keep, faultfs.Torn(7)),
			since: putBack,
			then:  []deed{run, unreadInLog(2), asLogged("bob")},
		},

		// A failed sync of the log ends the daemon, because what is on such a disk is not
		// known.
		{
			name: "failed sync",
			deeds: []deed{
				sendOne, endWith(eventlog.ErrBroken, refuse(syscall.EIO, -1, faultfs.OpSync, protocol.PathLog)),
				heal, reboot, run, unreadBy("bob", 1),
			},
		},

		// A stop whose last scan finds no room for what was sent logs nothing more, and
		// leaves it to the next start.
		{
			name: "full disk at a stop",
			deeds: []deed{
				start(sendOne, refuse(durable.ErrNoSpace, 1, faultfs.OpWrite, protocol.PathLog, protocol.PathScratch+"/log"), stop), unreadBy("bob", 0),
				run, unreadBy("bob", 1),
			},
		},

		// If one inbox cannot be written, the other recipients get the message at once, and
		// that one when its directory can be written again.
		{
			name: "one inbox cannot be written",
			deeds: []deed{
				refuse(fs.ErrPermission, 3, faultfs.OpCreate, bobsInbox), send("alice", "1", `{"id":"m1","to":["bob","human","alice"],"body":"x"}`),
				run, unreadBy("bob", 1), unreadBy("human", 1), unreadBy("alice", 1),
			},
		},

		// What could not be placed before a clean stop is placed after the next start.
		// Neither a sync point nor a snapshot passes it.
		{
			name: "refused until the stop",
			deeds: []deed{
				refuse(fs.ErrPermission, -1, faultfs.OpCreate, bobsInbox), send("alice", "1", `{"id":"m1","to":["bob","human"],"body":"x"}`),
				runUntil(message, stop), unreadBy("human", 1),
				heal, run, unreadBy("bob", 1),
			},
		},

		// No sync point passes a message whose original is still in the outbox, so that the
		// next start knows of it.
		{
			name: "not settled before its original is archived",
			deeds: []deed{
				sendOne, refuseMoves("agents/alice/outbox/"), runUntil(message, stop), notSettled,
				heal, run, there(alicesSent + "1.json"), unreadBy("bob", 1),
			},
		},

		// A stop after a file that was set aside unread logs no sync point, because nothing of
		// the file is in the history. Later stops do: what human deleted is not placed again.
		{
			name: "settled after what changed nothing",
			deeds: []deed{
				with(func(s *protocol.Settings) { s.InboxCap, s.MaxMessageBytes = 1, 1000 }),
				send("alice", "1", `{"to":"bob","body":"x"}`), run,
				send("bob", "1", strings.Repeat("x", 2000)), run, // the notice of it finds bob's inbox full
				send("alice", "2", `{"to":"human","body":"x"}`), run,
				remove(protocol.InboxDir(protocol.Human) + "/"), run, unreadBy(protocol.Human, 0),
			},
		},

		// Delivery goes on where git cannot be written.
		{
			name: "git cannot be written",
			deeds: []deed{
				refuse(syscall.EIO, -1, "", ".git/"), sendOne, run, unreadBy("bob", 1),
				heal, run, historyIsWhole,
			},
		},

		// An agent that a command puts on the roster has an inbox before the next message of
		// the same batch goes there.
		{
			name: "message to a newcomer",
			deeds: []deed{
				send("human", "1", `{"to":"hive","event":"agent-add","data":{"agent":"carol"},"body":""}`), send("human", "2", `{"to":"carol","body":"x"}`),
				run, noAlert, unreadBy("carol", 1),
			},
		},
	} {
		t.Run(st.name, func(t *testing.T) {
			t.Parallel()
			switch len(st.lose) {
			case 0:
				synctest.Test(t, func(t *testing.T) { testenv.Must(t, newScene(t).play(st.deeds)) })
			case 1:
				st.sweep(t, st.lose[0])
			default:
				for _, lose := range st.lose {
					t.Run(lose(1).String(), func(t *testing.T) {
						t.Parallel()
						st.sweep(t, lose)
					})
				}
			}
		})
	}
}

// sweep plays a story with a crash of the daemon at one operation after the other.
func (st story) sweep(t *testing.T, lose losing) {
	t.Helper()
	var begun *scene
	crashes := sweep(t, func(t *testing.T) *faultfs.Mem {
		t.Helper()
		begun = newScene(t)
		testenv.Must(t, begun.play(st.deeds))
		return begun.disk
	}, func(disk *faultfs.Mem, k int) (crashed bool, err error) {
		s := &scene{disk: disk, settings: begun.settings, file: begun.file}
		cut := func(s *scene) error { s.disk.CrashAt(k, lose(k)); return nil }
		if st.since != nil {
			crashed = runUntil(st.since, cut)(s) != nil
		} else {
			crashed = errors.Join(cut(s), run(s)) != nil
		}
		return crashed, s.play(append([]deed{reboot}, st.then...))
	})
	if crashes < 30 { // 49 to 112 as the goroutines happen to be scheduled
		t.Errorf("only %d crashes: the sweep does not cover the whole path", crashes)
	}
	t.Logf("%d crashes", crashes)
}

// originalText is alice's message whose original comes back.
const originalText = "{\"to\":\"bob\",\"body\":\"once\"}\n"

// originalBack returns the story of an accepted message whose original a crash left in its
// outbox with some of its bytes.
func originalBack(name, left string) story {
	return story{
		name: name,
		deeds: []deed{
			send("alice", "1", originalText), crash(faultfs.Keep, message), backInOutbox("1.json"), rewrite("agents/alice/outbox/1.json", left),
			run, unreadBy("bob", 1), unreadBy("alice", 0), holds(alicesSent+"1.json", originalText),
		},
	}
}
