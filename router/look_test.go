package router

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/durable/faultfs"
	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/internal/wait"
	"github.com/hived/hived/ledger"
	"github.com/hived/hived/mailbox"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/router/agenda"
)

// tally counts operations on a disk.
type tally struct{ stats, lists, opens, changes int }

// counting is a disk that counts the operations on it.
type counting struct {
	durable.FS
	opened func(name string)

	mu sync.Mutex
	n  tally // guarded by mu, because several inboxes are written at once
}

func (c *counting) count(which func(*tally) *int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	*which(&c.n)++
}

func (c *counting) change() { c.count(func(n *tally) *int { return &n.changes }) }

func (c *counting) Lstat(name string) (durable.Info, error) {
	c.count(func(n *tally) *int { return &n.stats })
	return c.FS.Lstat(name)
}

func (c *counting) ReadDir(name string) ([]durable.Entry, error) {
	c.count(func(n *tally) *int { return &n.lists })
	return c.FS.ReadDir(name)
}

func (c *counting) Open(name string) (durable.File, error) {
	c.count(func(n *tally) *int { return &n.opens })
	if c.opened != nil {
		c.opened(name)
	}
	return c.FS.Open(name)
}

func (c *counting) Create(name string, perm fs.FileMode) (durable.File, error) {
	c.change()
	return c.FS.Create(name, perm)
}

func (c *counting) Rename(from, to string) error {
	c.change()
	return c.FS.Rename(from, to)
}

func (c *counting) RenameNew(from, to string) error {
	c.change()
	return c.FS.RenameNew(from, to)
}

func (c *counting) Remove(name string) error {
	c.change()
	return c.FS.Remove(name)
}

// attentive is a watcher that watches everything and has no hints.
type attentive struct{ noWatcher }

func (attentive) Watched(protocol.AgentID) bool { return true }

// stepper is a router whose steps and clock the test controls.
type stepper struct {
	*testing.T
	*Router
	disk *counting
	now  time.Time
}

func numbered(i int) protocol.AgentID { return protocol.AgentID(fmt.Sprintf("a%03d", i)) }

// newStepper makes a hive with so many agents on a disk in memory, and starts a router.
func newStepper(t *testing.T, agents int, watch watcher, edit func(*Config)) *stepper {
	t.Helper()
	disk := memHive(t)
	for i := range agents - 3 { // alice, bob and human
		testenv.Must(t, disk.MkdirAll(protocol.OutboxDir(numbered(i)), 0o755))
	}
	return stepperOn(t, disk, watch, edit)
}

// stepperOn starts a router on a disk with a hive.
func stepperOn(t *testing.T, disk *faultfs.Mem, watch watcher, edit func(*Config)) *stepper {
	t.Helper()
	l := &stepper{T: t, disk: &counting{FS: disk}, now: time.Now()}
	cfg := Config{Settings: protocol.DefaultSettings()}
	if edit != nil {
		edit(&cfg)
	}
	var err error
	l.Router, err = open(l.disk, cfg, watch)
	testenv.Must(t, err)
	t.Cleanup(func() { l.events.Close() })
	return l
}

// steps runs steps until nothing is left to do at once.
func (l *stepper) steps() {
	l.Helper()
	for busy, n := true, 0; busy; n++ {
		var err error
		busy, err = l.step(l.Context(), l.now)
		testenv.Must(l, err)
		if n > 10_000 {
			l.Fatal("the steps do not end")
		}
	}
}

// rescanAll does a rescan and all that follows from it.
func (l *stepper) rescanAll() {
	l.Helper()
	testenv.Must(l, l.rescan())
	l.steps()
}

// settle does rescans a minute apart, until everything was scanned and scrubbed.
func (l *stepper) settle() {
	l.Helper()
	l.agenda.ScrubAll()
	for range 2 * agenda.ScrubEvery {
		l.steps()
		l.now = l.now.Add(time.Minute)
		l.rescanAll()
	}
	l.now = l.now.Add(time.Second) // not yet time for another status
}

// used returns how many disk operations a function costs.
func (l *stepper) used(do func()) tally {
	l.Helper()
	l.disk.n = tally{}
	do()
	return l.disk.n
}

func (l *stepper) equal(what string, got, want any) {
	l.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		l.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// TestQuietRescan checks that a rescan of a hive where nothing happened costs three stats
// for each agent, of its own directory, inbox and outbox, and one each for agents/,
// board.md, log.jsonl, PROTOCOL.md and registry.json. Finding git's branch tip costs the
// same in every hive: a stat, a listing and two files. Nothing else is read.
func TestQuietRescan(t *testing.T) {
	for _, n := range []int{3, 40, 200} {
		t.Run(fmt.Sprint(n, " agents"), func(t *testing.T) {
			l := newStepper(t, n, attentive{}, nil)
			l.settle()
			for range agenda.ScrubEvery - 1 {
				if used, want := l.used(l.rescanAll), (tally{stats: 3*n + 5 + 1, lists: 1, opens: 2}); used != want {
					t.Errorf("a quiet rescan cost %+v, want %+v", used, want)
				}
			}
		})
	}
}

// TestOneMessageCostsTheSameAmongMany checks that what a message costs does not depend on
// how many agents there are.
func TestOneMessageCostsTheSameAmongMany(t *testing.T) {
	var costs []tally
	for _, n := range []int{3, 200} {
		l := newStepper(t, n, attentive{}, nil)
		l.settle()
		put(t, l.disk.FS, "agents/alice/outbox/1.json", `{"to":"bob","body":"x"}`)
		used := l.used(func() {
			l.agenda.Hints(l.now, []mailbox.Hint{{Agent: "alice", Part: mailbox.PartOutbox}})
			l.steps()
		})
		l.equal("unread", unread(t, l.disk.FS, "bob"), 1)
		costs = append(costs, used)
	}
	if costs[0] != costs[1] {
		t.Errorf("a message costs %+v among 3 agents, %+v among 200", costs[0], costs[1])
	}
}

// unreadEverywhere returns the disk of a hive where each of n agents has so many unread
// messages.
func unreadEverywhere(t *testing.T, n, messages int) *faultfs.Mem {
	t.Helper()
	l := newStepper(t, n, attentive{}, nil)
	for i := range messages {
		put(t, l.disk.FS, fmt.Sprintf("agents/alice/outbox/%03d.json", i), `{"to":"broadcast","body":"x"}`)
	}
	l.settle()
	l.equal("unread", unread(t, l.disk.FS, "bob"), messages)
	testenv.Must(t, l.finish(t.Context()))
	mem, ok := l.disk.FS.(*faultfs.Mem)
	if !ok {
		t.Fatal("the disk is not in memory")
	}
	return mem
}

// TestTurnsAreBounded checks that a file that was changed in place is found, and that each
// rescan scrubs no more files than its share, exceeded by the files of one agent at most.
func TestTurnsAreBounded(t *testing.T) {
	const agents, messages, perRescan = 12, 30, 20
	disk := unreadEverywhere(t, agents, messages)
	found := 0
	l := stepperOn(t, disk, attentive{}, func(cfg *Config) {
		cfg.Settings.Rescan = perRescan * time.Second / agenda.FilesPerSecond
		cfg.Settings.Settle = time.Millisecond
		cfg.OnEvent = func(ev protocol.Event) {
			if q, ok := ev.Body.(*protocol.QuarantineEvent); ok && q.Code == protocol.CodeAltered {
				found++
			}
		}
	})
	l.settle()
	for range agents*messages/perRescan + agents { // to the end of the first scrub
		l.rescanAll()
	}
	list, err := disk.ReadDir("agents/bob/inbox")
	testenv.Must(t, err)
	f, err := disk.Append("agents/bob/inbox/" + list[len(list)-1].Name)
	testenv.Must(t, err)
	if _, err := f.Write([]byte("scribbled")); err != nil {
		t.Fatal(err)
	}
	f.Close()
	quiet := 3*agents + 4
	passes := 0
	for ; found == 0 && passes < 100; passes++ {
		l.now = l.now.Add(l.cfg.Settings.Rescan)
		if used := l.used(l.rescanAll); found == 0 && used.stats > quiet+perRescan+messages+10 {
			t.Errorf("a rescan stats %d names, %d of them not for the scrub", used.stats, quiet)
		}
	}
	l.equal("files set aside", found, 1)
	if least := agents * messages / (perRescan + messages) / 2; passes < least {
		t.Errorf("the change was found after %d rescans, so there was no bound", passes)
	}
}

// TestStartWithOutboxes checks that what was sent while no daemon ran is delivered before
// unread messages are scrubbed.
func TestStartWithOutboxes(t *testing.T) {
	disk := unreadEverywhere(t, 100, 5)
	put(t, disk, "agents/"+string(numbered(96))+"/outbox/new.json", `{"id":"new","to":"bob","body":"x"}`)
	delivered, early, reads := false, 0, 0
	l := stepperOn(t, disk, attentive{}, func(cfg *Config) {
		cfg.OnEvent = func(ev protocol.Event) {
			if e, ok := ev.Body.(*protocol.MessageEvent); ok && e.ID == "new" {
				delivered, early = true, reads
			}
		}
	})
	l.disk.opened = func(name string) {
		if strings.Contains(name, "/inbox/") {
			reads++
		}
	}
	l.agenda.ScrubAll()
	l.steps()
	l.equal("delivered", delivered, true)
	l.equal("unread files read before that", early, 0)
	for passes := 0; reads < 5*97; passes++ {
		if l.rescanAll(); passes > 1000 {
			t.Fatalf("%d unread files were read in the scrub after the start", reads)
		}
	}
}

// TestQuietAgentsAreNotPolled checks that agents that cannot be watched are polled often
// only as long as something happens there.
func TestQuietAgentsAreNotPolled(t *testing.T) {
	l := newStepper(t, 20, noWatcher{}, func(cfg *Config) { cfg.Settings.Rescan = 10 * time.Second })
	l.settle()
	l.equal("polled after many quiet looks", l.agenda.Next(), time.Time{})
	put(t, l.disk.FS, "agents/alice/outbox/1.json", `{"to":"bob","body":"x"}`)
	l.agenda.ScrubAll()
	l.steps()
	l.equal("the next look", l.agenda.Next().Sub(l.now), agenda.PollFast)
	var times []time.Duration
	for begin := l.now; !l.agenda.Next().IsZero(); l.steps() {
		l.now = l.agenda.Next()
		l.agenda.Due(l.now)
		l.equal("polled", len(l.agenda.Queues.Moved.Waiting), 1)
		l.equal("polled", l.agenda.Queues.Moved.Waiting[0].ID, protocol.AgentID("alice"))
		times = append(times, l.now.Sub(begin))
		if len(times) > 100 {
			t.Fatal("the polling does not end")
		}
	}
	if !slices.IsSorted(times) || len(times) > 20 {
		t.Errorf("polled at %v", times)
	}
	l.equal("unread", unread(t, l.disk.FS, "bob"), 1)
}

// TestFileSystemWithoutEvents checks that messages and answers arrive though no hint comes
// and the next rescan is an hour away.
func TestFileSystemWithoutEvents(t *testing.T) {
	h := newHive(t, "alice", "bob")
	h.settings.Rescan = time.Hour
	r, err := open(h.disk, h.config(), noWatcher{})
	testenv.Must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	for i, from := range []string{"alice", "bob", "alice"} {
		id := fmt.Sprint("m", i)
		h.send(from, id, `{"id":"`+id+`","to":["alice","bob","human"],"body":"x"}`)
		h.delivery(id)
	}
	cancel()
	testenv.Must(t, wait.Ended(wait.Longest, "the daemon to stop", done, h.story))
}

// TestAlteredIsHinted checks that a message that is written over in place is set right as
// soon as it has settled.
func TestAlteredIsHinted(t *testing.T) {
	h := newHive(t, "alice", "bob")
	h.settings.Rescan = time.Hour
	h.up()
	h.send("alice", "1", `{"id":"m1","to":"bob","body":"x"}`)
	e := h.delivery("m1")
	for len(h.list("agents/bob/inbox")) == 0 { // the event comes just before the file
	}
	f, err := os.OpenFile(h.path("agents/bob/inbox/"+e.File), os.O_WRONLY, 0)
	testenv.Must(t, err)
	if _, err := f.WriteString("other words"); err != nil { // in one write: an empty file would be filled again without an event
		t.Fatal(err)
	}
	f.Close()
	await(h, "quarantine", func(_ protocol.Event, q *protocol.QuarantineEvent) bool { return q.Code == protocol.CodeAltered })
}

// TestReadAhead checks that the next batch is read while one becomes durable, and that what
// was read of an agent that may no longer send is forgotten.
func TestReadAhead(t *testing.T) {
	h := newHive(t, "alice", "bob")
	const files = batchEvents + 400 // in one inbox
	for i := range files {
		h.write(fmt.Sprintf("agents/alice/outbox/%03d.json", i), `{"to":"bob","body":"x"}`)
	}
	r, err := New(h.disk, h.config())
	testenv.Must(t, err)
	step := func() {
		t.Helper()
		if _, err := r.step(t.Context(), time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	step()
	if len(r.intake.ahead["alice"].Arrivals) == 0 {
		t.Error("nothing was read ahead")
	}
	r.state.Agents["alice"].Status = ledger.OnHold
	step()
	if len(r.intake.ahead) > 0 || r.boxes.Listed("alice") {
		t.Error("messages of an agent on hold were not forgotten")
	}
	final := fmt.Sprintf("%03d.json", files-1)
	if err := os.WriteFile(h.path("agents/alice/outbox/"+final), []byte(`{"to":"bob","body":"y"}`), 0o600); err != nil {
		t.Fatal(err) // written in place, so that no directory changes
	}
	r.state.Agents["alice"].Status = ledger.Active
	r.agenda.Want("alice")
	for range files / batchPerTurn {
		step()
	}
	testenv.Must(t, errors.Join(r.finish(t.Context()), r.events.Close(), r.lock.release()))
	var sent []string
	raw := ""
	for _, ev := range h.log() {
		if m, ok := ev.Body.(*protocol.MessageEvent); ok {
			sent, raw = append(sent, m.Sent), m.Raw
		}
	}
	if len(sent) != files || !slices.IsSorted(sent) || !strings.Contains(raw, "y") {
		t.Errorf("%d messages were accepted, in order: %t, the last one is %s", len(sent), slices.IsSorted(sent), raw)
	}
}

// TestHintsAreHeardBesideAnything checks that a hint counts for the next step, whatever
// else comes at the same time.
func TestHintsAreHeardBesideAnything(t *testing.T) {
	t.Parallel()
	heard := hintWatcher{hints: make(chan []mailbox.Hint, 1)}
	r, err := open(memHive(t), Config{Settings: memSettings()}, heard)
	testenv.Must(t, err)
	for range 64 { // which of the two comes first is random
		r.git.committed <- nil
		heard.hints <- []mailbox.Hint{{Part: mailbox.PartRoot}}
		r.agenda.Root.Own = false
		testenv.Must(t, r.wait(t.Context(), nil, time.Hour))
		if !r.agenda.Root.Own {
			t.Fatal("the hint was not taken before the next step")
		}
		select {
		case <-r.git.committed:
		default:
		}
	}
}

// TestHintDuringARound checks that what is sent while an earlier listing of its outbox is
// still being processed is found without waiting for a rescan, however the loop learns of
// it.
func TestHintDuringARound(t *testing.T) {
	const files = batchEvents + 100
	hint := []mailbox.Hint{{Agent: "alice", Part: mailbox.PartOutbox}}
	for name, hear := range map[string]func(l *stepper){
		"a hint":                  func(l *stepper) { l.agenda.Hints(l.now, hint) },
		"hints were lost":         func(l *stepper) { l.agenda.Hints(l.now, []mailbox.Hint{{Overflow: true}}) },
		"its own directory moved": func(l *stepper) { l.agenda.Hints(l.now, []mailbox.Hint{{Agent: "alice", Part: mailbox.PartOwn}}) },
		"a hint while it is on hold": func(l *stepper) {
			l.state.Agents["alice"].Status = ledger.OnHold
			l.agenda.Hints(l.now, hint)
			l.steps()
			l.state.Agents["alice"].Status = ledger.Active
			l.agenda.Want("alice")
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := newStepper(t, 3, attentive{}, nil)
			l.settle()
			for i := range files {
				put(t, l.disk.FS, fmt.Sprintf("agents/alice/outbox/%03d.json", i), `{"to":"bob","body":"x"}`)
			}
			l.agenda.Hints(l.now, hint)
			if _, err := l.step(t.Context(), l.now); err != nil {
				t.Fatal(err)
			}
			if left := files - unread(t, l.disk.FS, "bob"); left <= 0 {
				t.Fatal("one step took all files")
			}
			put(t, l.disk.FS, "agents/alice/outbox/late.json", `{"to":"bob","body":"x"}`)
			hear(l)
			l.steps()
			l.equal("delivered", unread(t, l.disk.FS, "bob"), files+1)
		})
	}
}

// TestBurstOnARunningDaemon checks that messages that are renamed into their outboxes one
// after the other are all delivered because of their hints alone.
func TestBurstOnARunningDaemon(t *testing.T) {
	const agents, each = 6, 200
	var names []string
	for i := range agents {
		names = append(names, string(numbered(i)))
	}
	h := newHive(t, append(names, "bob")...)
	h.settings.Rescan = time.Hour
	h.settings.InboxCap = agents * each
	h.up()
	h.send(names[0], "first", `{"id":"first","to":"human","body":"x"}`)
	h.delivery("first") // so the daemon watches
	var senders sync.WaitGroup
	for _, name := range names {
		senders.Go(func() {
			for i := range each {
				dir := h.path("agents/"+name+"/outbox") + "/"
				err := os.WriteFile(dir+"next", []byte(`{"to":"bob","body":"x"}`), 0o600)
				if err = errors.Join(err, os.Rename(dir+"next", fmt.Sprintf("%s%d.json", dir, i))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	senders.Wait()
	delivered := 0
	await(h, fmt.Sprintf("all %d messages", agents*each), func(_ protocol.Event, e *protocol.MessageEvent) bool {
		if len(e.Delivered) == 1 && e.Delivered[0] == "bob" {
			delivered++
		}
		return delivered == agents*each
	})
}
