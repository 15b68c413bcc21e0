package router

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hived/hived/eventlog"
	"github.com/hived/hived/gitcommit"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/durable/faultfs"
	"github.com/hived/hived/ledger"
	"github.com/hived/hived/mailbox"
	"github.com/hived/hived/protocol"
)

// This file has the deeds that the stories of TestCrashStories are made of.

// scene is the hive of a story, as it is after some of its deeds.
type scene struct {
	disk     *faultfs.Mem
	settings protocol.Settings // of the daemons
	events   []protocol.Event  // logged by the daemons
	stop     func()            // stops the daemon that runs
	file     string            // the message in bob's inbox that was last scribbled over or deleted
	of       protocol.Seq      // the event that has that message
}

// deed does something to a hive, or checks it. Its error says why it could not be done, or
// what is wrong.
type deed func(s *scene) error

func newScene(t *testing.T) *scene {
	t.Helper()
	return &scene{disk: memHive(t), settings: memSettings()}
}

// play does one deed after the other, up to the first that fails.
func (s *scene) play(deeds []deed) error {
	for i, do := range deeds {
		if err := do(s); err != nil {
			return fmt.Errorf("deed %d of %d: %w", i+1, len(deeds), err)
		}
	}
	return nil
}

// played returns a hive after some deeds.
func played(t *testing.T, deeds ...deed) *scene {
	t.Helper()
	s := newScene(t)
	if err := s.play(deeds); err != nil {
		t.Fatal(err)
	}
	return s
}

// The directories of the stories, with a slash.
const (
	bobsInbox  = "agents/bob/inbox/"
	bobsDone   = "agents/bob/inbox/.done/"
	alicesSent = "agents/alice/outbox/.sent/"
)

// daemon runs a daemon until nothing is left to do. The deeds of begun are done when it
// has recovered, before it works, and those of do at the first event that fits when,
// unless that is nil.
func (s *scene) daemon(begun []deed, when func(protocol.Event) bool, do []deed) (ended, failed error) {
	r, err := New(s.disk, Config{Settings: s.settings, Once: true, OnEvent: func(ev protocol.Event) {
		s.events = append(s.events, ev)
		if when != nil && when(ev) {
			when = nil
			failed = errors.Join(failed, s.play(do))
		}
	}})
	if err != nil {
		return err, failed
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	s.stop = stop
	failed = errors.Join(failed, s.play(begun))
	return r.Run(ctx), failed
}

// run runs a daemon until nothing is left to do.
func run(s *scene) error { return errors.Join(s.daemon(nil, nil, nil)) }

// start runs a daemon, and does deeds when it has recovered.
func start(deeds ...deed) deed {
	return func(s *scene) error { return errors.Join(s.daemon(deeds, nil, nil)) }
}

// runUntil runs a daemon, and does deeds at the first event that fits.
func runUntil(when func(protocol.Event) bool, deeds ...deed) deed {
	return func(s *scene) error { return errors.Join(s.daemon(nil, when, deeds)) }
}

// stop stops the daemon that runs.
func stop(s *scene) error { s.stop(); return nil }

// endWith runs a daemon that must end with an error after deeds that are done when
// it has recovered.
func endWith(want error, deeds ...deed) deed {
	return func(s *scene) error {
		ended, failed := s.daemon(deeds, nil, nil)
		if !errors.Is(ended, want) {
			failed = errors.Join(failed, fmt.Errorf("the daemon ended with %w", ended))
		}
		return failed
	}
}

// crash runs a daemon, does deeds at the first event that fits, has the disk crash at that
// moment, and goes on with what is left of it.
func crash(loss faultfs.Loss, when func(protocol.Event) bool, deeds ...deed) deed {
	return func(s *scene) error {
		ended, failed := s.daemon(nil, when, append(slices.Clip(deeds), func(s *scene) error { s.disk.CrashAt(0, loss); return nil }))
		if !errors.Is(ended, faultfs.ErrCrashed) {
			failed = errors.Join(failed, fmt.Errorf("the daemon did not notice the crash: %w", ended))
		}
		return errors.Join(failed, reboot(s))
	}
}

// reboot goes on with what a crash leaves of the disk. Without a crash before, it is a
// power cut.
func reboot(s *scene) error { s.disk = s.disk.Reboot(); return nil }

// is reports whether an event is of a kind and fits.
func is[T protocol.Body](fits func(T) bool) func(protocol.Event) bool {
	return func(ev protocol.Event) bool {
		e, ok := ev.Body.(T)
		return ok && fits(e)
	}
}

// Events at which something happens.
var (
	message     = is(func(e *protocol.MessageEvent) bool { return e.From == "alice" })
	handled     = is(func(*protocol.HandledEvent) bool { return true })
	quarantined = is(func(*protocol.QuarantineEvent) bool { return true })
	swept       = is(func(e *protocol.HiveEvent) bool { return e.Action == protocol.Swept })
	putBack     = is(func(e *protocol.AgentEvent) bool { return e.Action == protocol.InboxPutBack })
)

// archivedAs fits the message whose original is archived under a name.
func archivedAs(file string) func(protocol.Event) bool {
	return is(func(e *protocol.MessageEvent) bool { return e.Sent == file })
}

// with changes the settings of the daemons to come.
func with(set func(*protocol.Settings)) deed {
	return func(s *scene) error { set(&s.settings); return nil }
}

func keepOneFile(s *protocol.Settings) { s.Retention.Files = 1 }

func keepAll(s *protocol.Settings) { s.Retention = memSettings().Retention }

// refuse has operations fail on names with one of some prefixes, so many times or, if
// times < 0, until heal. Without op all operations fail.
func refuse(err error, times int, op faultfs.Op, prefixes ...string) deed {
	return func(s *scene) error {
		s.disk.FailAt(1, err, times, func(o faultfs.Op, name string) bool {
			return (op == "" || o == op) && slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(name, p) })
		})
		return nil
	}
}

// refuseMoves refuses moves into a directory and those below it.
func refuseMoves(prefix string) deed {
	return func(s *scene) error {
		return s.play([]deed{refuse(fs.ErrPermission, -1, faultfs.OpRename, prefix), refuse(fs.ErrPermission, -1, faultfs.OpLink, prefix)})
	}
}

func heal(s *scene) error { s.disk.Heal(); return nil }

func syncAll(s *scene) error { return s.disk.SyncAll() }

func syncDirs(dirs ...string) deed {
	return func(s *scene) (err error) {
		for _, dir := range dirs {
			err = errors.Join(err, s.disk.SyncDir(strings.TrimSuffix(dir, "/")))
		}
		return err
	}
}

// write writes a file, in place of what is there.
func (s *scene) write(name, text string) error {
	return durable.Publish(s.disk, name, []byte(text), 0o644, durable.Synced)
}

func (s *scene) read(name string) (string, error) {
	data, _, err := durable.ReadFile(s.disk, name, 1<<20)
	return string(data), err
}

// send sends a message of an agent.
func send(from protocol.AgentID, file, text string) deed {
	return func(s *scene) error { return s.write(protocol.OutboxDir(from)+"/"+file+".json", text) }
}

// sendUnsynced sends a message that a power cut takes.
func sendUnsynced(from protocol.AgentID, file, text string) deed {
	return func(s *scene) error {
		return durable.Publish(s.disk, protocol.OutboxDir(from)+"/"+file+".json", []byte(text), 0o644, false)
	}
}

// sendOne has alice send bob a message.
func sendOne(s *scene) error { return send("alice", "1", `{"id":"m1","to":"bob","body":"x"}`)(s) }

// sendSeveral has alice send bob n messages.
func sendSeveral(n int) deed {
	return func(s *scene) (err error) {
		for i := range n {
			err = errors.Join(err, send("alice", strconv.Itoa(i), fmt.Sprintf(`{"to":"bob","body":"unique-%d"}`, i))(s))
		}
		return err
	}
}

// sendMail sends messages with and without ids, a duplicate, a broken file, and one
// to an unknown recipient.
func sendMail(s *scene) error {
	return s.play([]deed{
		sendSeveral(4),
		send("bob", "a", `{"id":"a","to":["alice","human"],"body":"unique-a"}`),
		send("bob", "b", `{"id":"a","to":["alice","human"],"body":"unique-a"}`),
		send("bob", "c", `{"to":`),
		send("bob", "d", `{"to":"alcie","body":"lost"}`),
	})
}

// messages lists the messages in a directory, in the order of their names.
func (s *scene) messages(dir string) (names []string, err error) {
	list, err := s.disk.ReadDir(strings.TrimSuffix(dir, "/"))
	for _, e := range list {
		if protocol.IsMessageName(e.Name) {
			names = append(names, e.Name)
		}
	}
	return names, err
}

// eachMessage does something with each message of a directory, which must have one at
// least.
func eachMessage(dir string, do func(s *scene, name string) error) deed {
	return func(s *scene) error {
		names, err := s.messages(dir)
		if len(names) == 0 {
			return errors.Join(err, fmt.Errorf("there is no message in %s", dir))
		}
		for _, name := range names {
			err = errors.Join(err, do(s, name))
		}
		return err
	}
}

// move moves all messages from one directory to another.
func move(from, to string) deed {
	return eachMessage(from, func(s *scene, name string) error { return s.disk.Rename(from+name, to+name) })
}

// handle has bob move all his messages to .done.
var handle = move(bobsInbox, bobsDone)

// remove removes all messages in a directory.
func remove(dir string) deed {
	return eachMessage(dir, func(s *scene, name string) error { return s.disk.Remove(dir + name) })
}

const scribbledText = "scribbled over"

// scribble has bob write over his message.
var scribble = eachMessage(bobsInbox, func(s *scene, name string) error {
	s.file = name
	return s.write(bobsInbox+name, scribbledText)
})

// reopenOldest has bob take the oldest message back out of .done, which must have several.
func reopenOldest(of int) deed {
	return func(s *scene) error {
		names, err := s.messages(bobsDone)
		if len(names) != of {
			return errors.Join(err, fmt.Errorf("there are %d messages in .done", len(names)))
		}
		return s.disk.Rename(bobsDone+names[0], bobsInbox+names[0])
	}
}

// deleteInbox deletes bob's inbox with all that is in it.
func deleteInbox(s *scene) error {
	return errors.Join(mailbox.New(s.disk, mailbox.Options{}).Remove(protocol.InboxDir("bob")), s.disk.SyncAll())
}

// deleteFirst has bob delete the first of his messages.
var deleteFirst = inLog(func(s *scene, state *ledger.State) error {
	for file, l := range state.Agents["bob"].Inbox.All() {
		s.file, s.of = file, l.Of
		return s.disk.Remove(bobsInbox + file)
	}
	return errors.New("bob has no message")
})

// askUndelete sends the command of a person that delivers that message again.
func askUndelete(s *scene) error {
	return send("human", "u", fmt.Sprintf(`{"to":"hive","event":"inbox-undelete","data":{"agent":"bob","messages":[%d]}}`, s.of))(s)
}

// logMissing logs that one message is missing from bob's inbox, and was not deleted.
func logMissing(s *scene) error {
	events, _, err := eventlog.Open(s.disk, eventlog.Options{}, func(protocol.Event) error { return nil })
	if err != nil {
		return err
	}
	_, err = events.Append([]protocol.Event{{Seq: events.Next(), TS: time.Now(), Body: &protocol.AgentEvent{Agent: "bob", Action: protocol.InboxMissing, Count: 1}}})
	return errors.Join(err, events.Close())
}

// handledAndCommitted has the disk crash when git holds three messages that bob had just
// moved to .done.
func handledAndCommitted(how faultfs.Loss) deed {
	return func(s *scene) error {
		if err := sendSeveral(3)(s); err != nil {
			return err
		}
		var mu sync.Mutex // guards what follows, because the committer runs beside the loop
		var last protocol.Seq
		count := 0
		var failed error
		cfg := Config{Settings: s.settings}
		delivered := 0
		cfg.OnEvent = func(ev protocol.Event) {
			switch ev.Body.(type) {
			case *protocol.MessageEvent:
				if delivered++; delivered == 3 {
					failed = s.play([]deed{syncDirs(bobsInbox), handle}) // what bob does here is not synced
				}
			case *protocol.HandledEvent:
				mu.Lock()
				defer mu.Unlock()
				last = ev.Seq
				count++
			}
		}
		cfg.OnCommit = func(through protocol.Seq) {
			mu.Lock()
			defer mu.Unlock()
			if count == 3 && through >= last {
				s.disk.CrashAt(0, how)
			}
		}
		r, err := New(s.disk, cfg)
		if err != nil {
			return err
		}
		if err := r.Run(context.Background()); !errors.Is(err, faultfs.ErrCrashed) {
			failed = errors.Join(failed, fmt.Errorf("the daemon did not notice the crash: %w", err))
		}
		return errors.Join(failed, reboot(s))
	}
}

// backInOutbox moves an archived original of alice back into her outbox, if there is one.
func backInOutbox(as string) deed {
	return func(s *scene) error {
		return durable.IgnoreNotExist(s.disk.Rename(alicesSent+as, "agents/alice/outbox/1.json"))
	}
}

// rewrite writes into an existing file, which stays the same file.
func rewrite(name, text string) deed {
	return func(s *scene) error {
		f, err := s.disk.Append(name)
		if err != nil {
			return err
		}
		err = f.Truncate(0)
		_, failed := f.Write([]byte(text))
		return errors.Join(err, failed, f.Close())
	}
}

// tearLog cuts off the end of the log's last line, which must have a text in it.
func tearLog(last string) deed {
	return func(s *scene) error {
		log, err := s.read(protocol.PathLog)
		if err != nil || !strings.Contains(log[strings.LastIndex(log[:len(log)-1], "\n"):], last) {
			return errors.Join(err, fmt.Errorf("the last event does not have %s", last))
		}
		return s.write(protocol.PathLog, log[:len(log)-2])
	}
}

// inLog does something with the state that the log folds to.
func inLog(do func(s *scene, state *ledger.State) error) deed {
	return func(s *scene) error {
		state := ledger.New(s.settings.Remember)
		for rec, err := range eventlog.Read(s.disk, eventlog.Position{}) {
			if err != nil {
				return err
			}
			state.Apply(rec.Event)
		}
		return do(s, state)
	}
}

// The deeds from here on are checks.

// count checks that a directory has so many messages.
func count(dir string, want int) deed {
	return func(s *scene) error {
		if names, err := s.messages(dir); err != nil || len(names) != want {
			return errors.Join(err, fmt.Errorf("%s has %d messages, not %d: %v", dir, len(names), want, names))
		}
		return nil
	}
}

// unreadBy checks that an agent has so many unread messages.
func unreadBy(id protocol.AgentID, want int) deed { return count(protocol.InboxDir(id), want) }

// unreadInLog checks that bob has so many unread messages in the log, none of them missing.
func unreadInLog(want int) deed {
	return inLog(func(_ *scene, state *ledger.State) error {
		if bob := state.Agents["bob"]; bob.Inbox.Len() != want || bob.Missing != 0 {
			return fmt.Errorf("the log says that bob has %d unread messages, of which %d are missing", bob.Inbox.Len(), bob.Missing)
		}
		return nil
	})
}

// there checks that a file is there.
func there(name string) deed {
	return func(s *scene) error { _, err := s.disk.Lstat(name); return err }
}

func notThere(name string) deed {
	return func(s *scene) error {
		if _, err := s.disk.Lstat(name); err == nil {
			return fmt.Errorf("%s is still there", name)
		}
		return nil
	}
}

// holds checks that a file holds a text.
func holds(name, want string) deed {
	return func(s *scene) error {
		if have, err := s.read(name); err != nil || have != want {
			return errors.Join(err, fmt.Errorf("%s holds %q", name, have))
		}
		return nil
	}
}

// messageStands checks that bob's inbox has the message that he had written over.
func messageStands(s *scene) error {
	if have, err := s.read(bobsInbox + s.file); !strings.Contains(have, `"id": "m1"`) {
		return errors.Join(err, fmt.Errorf("the message is %q", have))
	}
	return nil
}

// doneIsWhole checks that .done has the whole message under that name.
func doneIsWhole(s *scene) error {
	if have, err := s.read(bobsDone + s.file); !strings.HasPrefix(have, "{") || !strings.HasSuffix(have, "}\n") {
		return errors.Join(err, fmt.Errorf("the archive holds %q", have))
	}
	return nil
}

// setAsideOnce checks that .done has one file that was set aside, as the log says.
var setAsideOnce = inLog(func(s *scene, state *ledger.State) error {
	if n := state.Agents["bob"].Done.Len(); n != 1 {
		return fmt.Errorf("%d files are set aside", n)
	}
	return sameBoxes(s.disk, state.Agents["bob"])
})

// asideHolds checks that the file that was set aside last holds a text.
func asideHolds(want string) deed {
	return func(s *scene) error {
		aside := ""
		for _, ev := range s.events {
			if q, ok := ev.Body.(*protocol.QuarantineEvent); ok {
				aside = q.Path
			}
		}
		return holds(aside, want)(s)
	}
}

// logged checks that the open segment of the log has a text so many times.
func logged(text string, want int) deed {
	return func(s *scene) error {
		log, err := s.read(protocol.PathLog)
		if n := strings.Count(log, text); n != want {
			return errors.Join(err, fmt.Errorf("%s is logged %d times", text, n))
		}
		return err
	}
}

// noAlert checks that no daemon has logged an alert.
func noAlert(s *scene) error {
	for _, ev := range s.events {
		if a, ok := ev.Body.(*protocol.AlertEvent); ok {
			return fmt.Errorf("alert %s: %s", a.Code, a.Text)
		}
	}
	return nil
}

// notSettled checks that no sync point passes alice's message.
func notSettled(s *scene) error {
	var seq protocol.Seq
	for _, ev := range s.events {
		if message(ev) {
			seq = ev.Seq
		}
	}
	for _, ev := range s.events {
		if e, ok := ev.Body.(*protocol.HiveEvent); ok && e.Action == protocol.Settled && e.Through >= seq {
			return fmt.Errorf("settled through %d, and the original of %d is not archived", e.Through, seq)
		}
	}
	return nil
}

// historyIsWhole checks that git has all of the log.
var historyIsWhole = inLog(func(s *scene, state *ledger.State) error {
	repo, err := gitcommit.Open(s.disk, gitcommit.Options{})
	if err != nil {
		return err
	}
	head, err := repo.Head()
	if err == nil && head.Seq != state.Seq {
		err = fmt.Errorf("history ends at %d, the log at %d", head.Seq, state.Seq)
	}
	return err
})

// sweptAsLogged checks that something was swept, and that the mailboxes are as the log
// says.
func sweptAsLogged(s *scene) error {
	for rec, err := range eventlog.Read(s.disk, eventlog.Position{}) {
		if err != nil {
			return err
		}
		if swept(rec.Event) {
			return asLogged("alice", "bob")(s)
		}
	}
	return errors.New("nothing was swept")
}

// asLogged checks that the mailboxes of agents are as the log says.
func asLogged(agents ...protocol.AgentID) deed {
	return inLog(func(s *scene, state *ledger.State) (err error) {
		for _, id := range agents {
			err = errors.Join(err, sameBoxes(s.disk, state.Agents[id]))
		}
		return err
	})
}

// wanted has the inboxes in which each text of sendMail must be found once.
var wanted = map[string][]protocol.AgentID{
	"unique-0": {"bob"}, "unique-1": {"bob"}, "unique-2": {"bob"}, "unique-3": {"bob"},
	"unique-a": {"alice", "human"}, `"code":"malformed"`: {"bob"}, `"code":"no-inbox"`: {"bob"}, `"code":"duplicate"`: {"bob"},
}

// mailArrived checks that what sendMail sent has arrived once and is archived, and that
// the log is whole.
func mailArrived(s *scene) error {
	var errs []error
	got := map[protocol.AgentID]string{} // all messages of an inbox
	for _, id := range []protocol.AgentID{"alice", "bob", "human"} {
		names, err := s.messages(protocol.InboxDir(id))
		errs = append(errs, err)
		for _, name := range names {
			text, err := s.read(protocol.InboxDir(id) + "/" + name)
			errs = append(errs, err)
			got[id] += text
		}
	}
	for text, ids := range wanted {
		for _, id := range ids {
			if n := strings.Count(got[id], text); n != 1 {
				errs = append(errs, fmt.Errorf("%s is in the inbox of %s %d times", text, id, n))
			}
		}
	}
	for _, name := range []string{"alice/outbox/.sent/0.json", "alice/outbox/.sent/3.json", "bob/outbox/.sent/a.json", "bob/outbox/.sent/b.json", "bob/outbox/.sent/bad-c.json", "bob/outbox/.sent/d.json"} {
		if text, err := s.read("agents/" + name); text == "" {
			errs = append(errs, fmt.Errorf("%s is not archived: %w", name, err))
		}
	}
	for _, id := range []protocol.AgentID{"alice", "bob"} {
		if n := mailbox.Pending(s.disk, id); n != 0 {
			errs = append(errs, fmt.Errorf("%d files are left in the outbox of %s", n, id))
		}
	}
	_, err := eventlog.Check(s.disk, nil, nil, func(d *eventlog.Damage) { errs = append(errs, d) })
	return errors.Join(append(errs, err)...)
}

// boxesOf returns what the log says of an agent's mailboxes, by directory.
func boxesOf(a *ledger.Agent) map[string]*ledger.Box {
	return map[string]*ledger.Box{protocol.InboxDir(a.ID): &a.Inbox, protocol.DoneDir(a.ID): &a.Done, protocol.SentDir(a.ID): &a.Sent}
}

// sameBoxes compares an agent's mailboxes on the disk with the log, and checks that no file
// waits in the outbox.
func sameBoxes(disk durable.FS, a *ledger.Agent) error {
	var errs []error
	for dir, box := range boxesOf(a) {
		list, err := disk.ReadDir(dir)
		if err != nil {
			return err
		}
		var names []string
		for _, e := range list {
			if strings.HasSuffix(e.Name, ".json") {
				names = append(names, e.Name)
			}
		}
		if diff := cmp.Diff(slices.Sorted(box.Names()), names); diff != "" {
			errs = append(errs, fmt.Errorf("%s (-log +disk):\n%s", dir, diff))
		}
	}
	if n := mailbox.Pending(disk, a.ID); n != 0 {
		errs = append(errs, fmt.Errorf("%d files are left in the outbox of %s", n, a.ID))
	}
	return errors.Join(errs...)
}
