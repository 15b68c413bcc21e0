package router_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hived/hived/audit"
	"github.com/hived/hived/eventlog"
	"github.com/hived/hived/gitcommit"
	"github.com/hived/hived/hive"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/durable/faultfs"
	"github.com/hived/hived/ledger"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/router"
)

// life is a hive over some days, on a disk in memory and with a clock of its own (see
// bubble): on each day of its course its agents do their deeds, and a daemon runs. The
// next call of live goes on with what a fault interrupted: an agent that does not know
// whether its message was sent sends it again, with the same id. [TestLife] lists what
// happens in it.
type life struct {
	disk *faultfs.Mem
	day  int
	done int       // how many of the day's deeds are done
	now  time.Time // when the last call of live ended
	ends []ending  // of daemons that did not end well
	hit  *hit      // the failure of operations, if one is planned

	*course
	until int      // the day before which the life ends
	sent  []string // what is delivered by then
}

// course is what happens in a life: its days, the first day after which nothing waits on
// purpose, and the recipients that each message must have reached once.
type course struct {
	days       []day
	settled    int
	deliveries map[string]string
}

// mail is a course with everything that can happen to a message.
var mail = &course{days, settled, deliveries}

// ending is the end of a daemon that did not end well.
type ending struct {
	started bool // the daemon had started
	err     error
}

// day has what the agents do, and the daemon's settings.
type day struct {
	deeds  []deed
	beside bool // the daemon runs while the deeds are done, and for some time after
	set    func(s *protocol.Settings)
}

// deed is one thing that an agent does; it may be done again.
type deed func(disk *faultfs.Mem) error

// posts sends a message, and checks that it was sent.
func posts(from protocol.AgentID, file, text string) deed {
	return func(disk *faultfs.Mem) error {
		return durable.Publish(disk, protocol.OutboxDir(from)+"/"+file, []byte(text), 0o644, true)
	}
}

// orders sends a command of people.
func orders(id, event, data string) deed {
	return posts(protocol.Human, id+".json", fmt.Sprintf(`{"id":%q,"to":"hive","event":%q,"data":%s}`, id, event, data))
}

// each does something with at most n of the messages in a directory.
func each(dir string, n int, do func(disk *faultfs.Mem, name string) error) deed {
	return func(disk *faultfs.Mem) error {
		list, err := disk.ReadDir(dir)
		left := n
		for _, e := range list {
			if err == nil && protocol.IsMessageName(e.Name) && left > 0 {
				left--
				err = do(disk, e.Name)
			}
		}
		return err
	}
}

const everything = 1 << 20

// handles moves messages in an inbox to .done.
func handles(id protocol.AgentID, n int) deed {
	return each(protocol.InboxDir(id), n, func(disk *faultfs.Mem, name string) error {
		return disk.Rename(protocol.InboxDir(id)+"/"+name, protocol.DoneDir(id)+"/"+name)
	})
}

// reopens takes a message back out of .done.
func reopens(id protocol.AgentID) deed {
	return each(protocol.DoneDir(id), 1, func(disk *faultfs.Mem, name string) error {
		return disk.Rename(protocol.DoneDir(id)+"/"+name, protocol.InboxDir(id)+"/"+name)
	})
}

// deletes removes a message unread.
func deletes(id protocol.AgentID) deed {
	return each(protocol.InboxDir(id), 1, func(disk *faultfs.Mem, name string) error {
		return disk.Remove(protocol.InboxDir(id) + "/" + name)
	})
}

// writes writes a file that is no message, in place of what is there.
func writes(name, text string) deed {
	return func(disk *faultfs.Mem) error { return durable.Publish(disk, name, []byte(text), 0o644, false) }
}

func removes(name string) deed {
	return func(disk *faultfs.Mem) error {
		if err := disk.Remove(name); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
}

// plants makes a FIFO.
func plants(name string) deed {
	return func(disk *faultfs.Mem) error {
		if err := disk.Special(name, fs.ModeNamedPipe); !errors.Is(err, fs.ErrExist) {
			return err
		}
		return nil
	}
}

// youth is the day before the course: it makes the roster, and nearly as many packs in
// git as make hived merge them.
var youth = day{
	deeds: []deed{
		orders("h1", "agent-add", `{"agent":"bob","role":"worker"}`),
		orders("h2", "agent-add", `{"agent":"carol","role":"worker"}`),
		orders("h3", "agent-lead", `{"agent":"alice"}`),
		orders("h4", "agent-hold", `{"agent":"erin"}`),
		orders("h5", "agent-archive", `{"agent":"dave"}`),
		writes("agents/carol/plan.md", "the plan\n"),
		func(disk *faultfs.Mem) (err error) {
			for i := range early {
				err = errors.Join(err, posts("carol", fmt.Sprintf("y%d.json", i), fmt.Sprintf(`{"id":"y%d","to":"erin","body":"early"}`, i))(disk))
			}
			return err
		},
	},
	set: func(s *protocol.Settings) { s.Git.CommitBatch = 1 },
}

const early = 38 // number of messages on the day of youth

var days = []day{
	{deeds: []deed{
		posts("alice", "1.json", `{"id":"a1","to":"bob","conversation":"talk","body":"one"}`),
		posts("alice", "2.json", `{"id":"a2","to":["bob","human"],"body":"two"}`),
		posts("alice", "3.json", `{"id":"a3","to":"bbo","body":"nobody"}`),
		posts("alice", "4.json", `{"id":"a4","to":"bob","body":"late","expires_at":"1999-01-01T00:00:00Z"}`),
		posts("bob", "bad.json", `{"to":`),
		posts("erin", "1.json", `{"id":"e1","to":"lead","body":"held"}`),
	}, set: func(s *protocol.Settings) { s.Git.CommitBatch = 4 }},
	{deeds: []deed{
		handles("bob", everything),
		posts("bob", "1.json", `{"id":"b1","to":"alice","in_reply_to":"a1","body":"reply"}`),
		posts("bob", "2.json", `{"id":"b2","to":"broadcast","body":"to all"}`),
		posts("alice", "5.json", `{"id":"a1","to":"bob","conversation":"talk","body":"one"}`),
		posts("alice", "6.json", `{"id":"a2","to":"carol","body":"another two"}`),
		posts("carol", "1.json", `{"id":"c1","to":["dave","@worker"],"body":"for the archive"}`),
		posts("carol", "big.json", `{"id":"c2","to":"bob","body":"`+strings.Repeat("x", 3000)+`"}`),
		plants("agents/carol/outbox/pipe.json"),
		writes("agents/alice/memory.md", "what alice knows\n"),
		writes("board.md", "# Plan\n"),
	}},
	{deeds: []deed{
		handles("alice", everything),
		handles(protocol.Human, everything),
		posts("alice", "7.json", `{"id":"a5","to":"bob","in_reply_to":"b1","body":"three"}`),
		writes("agents/alice/memory.md", "what alice knows now\n"),
		orders("h6", "agent-release", `{"agent":"erin"}`),
		orders("h7", "git-pause", `{}`),
	}, beside: true, set: func(s *protocol.Settings) { s.Rescan = 2 * time.Second }},
	{deeds: []deed{
		reopens("bob"),
		removes("agents/carol/plan.md"),
		posts("bob", "3.json", `{"id":"b3","to":"alice","in_reply_to":"a5","body":"too far"}`),
		orders("h8", "agent-restore", `{"agent":"dave"}`),
		orders("h9", "git-resume", `{}`),
	}},
	{deeds: []deed{
		handles("bob", 2),
		deletes("carol"),
		orders("h10", "continue", `{"conversation":"talk"}`),
		posts("dave", "1.json", `{"id":"d1","to":"broadcast","body":"back"}`),
	}},
	{deeds: []deed{
		posts("bob", "4.json", `{"id":"b4","to":"alice","in_reply_to":"a5","body":"as far again"}`),
	}},
	{}, // lets go what the day before recorded
}

// settled is the first day after which nothing waits on purpose.
const settled = 4

// deliveries has the recipients that each message must have reached once.
var deliveries = map[string]string{
	"human h1": "hive", "human h2": "hive", "human h3": "hive", "human h4": "hive", "human h5": "hive",
	"human h6": "hive", "human h7": "hive", "human h8": "hive", "human h9": "hive", "human h10": "hive",
	"alice a1": "bob", "alice a2": "bob human", "alice a3": "", "alice a4": "", "alice a5": "bob",
	"bob b1": "alice", "bob b2": "alice carol erin", "bob b3": "", "bob b4": "alice",
	"carol c1": "bob carol dave", "dave d1": "alice bob carol erin", "erin e1": "alice",
}

func lifeSettings() protocol.Settings {
	s := protocol.DefaultSettings()
	s.Settle, s.Rescan, s.Git.CommitDelay = time.Millisecond, 100*time.Millisecond, time.Millisecond
	s.HopCap, s.MaxMessageBytes = 2, 2048
	s.Retention.Files = 2
	s.Log.SegmentBytes = 12 << 10
	lifeTasks(&s.Tasks)
	return s
}

// bubble runs a function in a synctest bubble, whose clock stands still while anything
// works and goes on at once when everything waits: no wait costs time.
func bubble(t *testing.T, f func() error) (err error) {
	t.Helper()
	synctest.Test(t, func(*testing.T) { err = f() })
	return err
}

// pause lets the clock of a bubble go on.
func pause(d time.Duration) { <-time.After(d) }

// newLife returns a hive before the first day of a course.
func newLife(c *course) (*life, error) {
	disk := faultfs.New()
	for _, a := range []protocol.AgentID{"alice", "bob", "carol", "dave", "erin"} {
		if err := disk.MkdirAll(protocol.OutboxDir(a), 0o755); err != nil {
			return nil, err
		}
	}
	if err := hive.Init(disk, hive.Options{Settings: lifeSettings(), Template: []byte("# settings\n"), Now: time.Now()}); err != nil {
		return nil, err
	}
	l := &life{disk: disk, course: c, until: len(c.days)}
	err := l.spend(youth)
	l.now, l.done = time.Now(), 0
	return l, err
}

// fork returns a second life that goes on from here, in a bubble of its own.
func (l *life) fork() *life {
	return &life{disk: l.disk.Copy(), day: l.day, done: l.done, now: l.now, course: l.course, until: l.until, sent: l.sent}
}

// live goes on with the life to its end or to a crash.
func (l *life) live() error {
	pause(time.Until(l.now))
	for ; l.day < l.until; l.day, l.done = l.day+1, 0 {
		if err := l.spend(l.days[l.day]); err != nil {
			return err
		}
	}
	l.now = time.Now()
	return nil
}

// patience is how often something that fails is tried again, after a second each time.
const patience = 200

// again tries something until it does not fail, or the disk has crashed.
func again(try func() error) error {
	for n := 0; ; n++ {
		err := try()
		if err == nil || errors.Is(err, faultfs.ErrCrashed) || n == patience {
			return err
		}
		pause(time.Second)
	}
}

func (l *life) spend(d day) error {
	if d.beside {
		return again(func() error { return l.together(d) })
	}
	if err := l.act(d); err != nil {
		return err
	}
	return again(func() error { return l.daemon(context.Background(), d, true) })
}

// act does the deeds of a day that are not done yet.
func (l *life) act(d day) error {
	for ; l.done < len(d.deeds); l.done++ {
		if err := again(func() error { return d.deeds[l.done](l.disk) }); err != nil {
			return err
		}
	}
	return nil
}

// together has the agents act while a daemon runs, which goes on until it has made a sync
// point.
func (l *life) together(d day) error {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	l.mount() // now, and not while the agents act
	ended := make(chan error, 1)
	go func() { ended <- l.daemon(ctx, d, false) }()
	acted := l.act(d)
	select {
	case err := <-ended:
		return errors.Join(acted, err)
	case <-time.After(8 * time.Second):
	}
	stop()
	return errors.Join(acted, <-ended)
}

// daemon runs hived, as a process of its own.
func (l *life) daemon(ctx context.Context, d day, once bool) error {
	l.mount()
	settings := lifeSettings()
	if d.set != nil {
		d.set(&settings)
	}
	r, err := router.New(l.disk, router.Config{Settings: settings, Once: once})
	started := err == nil
	if started {
		err = r.Run(ctx)
	}
	if err != nil {
		l.ends = append(l.ends, ending{started, err})
	}
	return err
}

// mount mounts the file system again before a daemon that follows one whose disk failed. A
// file system that could not write its names takes nothing more before it is mounted
// again, and has lost what was not synced. If only the contents of files are lost, the
// next process may run on the same file system.
func (l *life) mount() {
	if l.hit != nil && l.hit.remount() {
		l.disk.CrashAt(0, faultfs.Drop)
		l.disk = l.disk.Reboot()
		l.hit.install(l.disk)
	}
	l.disk.Reopen()
}

// check compares log, files and git with each other and with what was sent.
func (l *life) check() error {
	errs := []error{l.verify(), l.sweptOut(), router.SameTasks(l.disk)}
	got, err := l.delivered()
	if err != nil {
		return err
	}
	for key, to := range got {
		if want, sent := l.deliveries[key]; !sent || want != to {
			errs = append(errs, fmt.Errorf("%s was delivered to %q, not to %q", key, to, want))
		}
	}
	for _, key := range l.sent {
		if _, ok := got[key]; !ok {
			errs = append(errs, fmt.Errorf("%s was not accepted", key))
		}
	}
	return errors.Join(errs...)
}

func (l *life) verify() error {
	report, err := audit.Verify(context.Background(), l.disk, audit.Options{Settings: lifeSettings()})
	if err != nil {
		return err
	}
	var errs []error
	for _, f := range slices.Concat(report.Findings, report.Notes) {
		errs = append(errs, fmt.Errorf("verify: %s: %s", f.Code, f))
	}
	if report.GitSeq != report.Seq {
		errs = append(errs, fmt.Errorf("git ends at event %s, the log at %s", report.GitSeq, report.Seq))
	}
	return errors.Join(errs...)
}

// sweptOut checks that what was swept is gone, unless something took its name since;
// verify does not check that, because an agent may leave files in .sent or .done.
func (l *life) sweptOut() error {
	state := ledger.New(lifeSettings().Remember)
	var swept []string
	for rec, err := range eventlog.Read(l.disk, eventlog.Position{}) {
		if err != nil {
			return err
		}
		state.Apply(rec.Event)
		if e, ok := rec.Event.Body.(*protocol.HiveEvent); ok && e.Action == protocol.Swept {
			swept = append(swept, e.Paths...)
		}
	}
	kept := map[string]bool{}
	for _, a := range state.Roster() {
		for dir, box := range map[string]*ledger.Box{protocol.DoneDir(a.ID): &a.Done, protocol.SentDir(a.ID): &a.Sent} {
			for name := range box.Names() {
				kept[dir+"/"+name] = true
			}
		}
	}
	var errs []error
	for _, p := range swept {
		if _, err := l.disk.Lstat(p); err == nil && !kept[p] {
			errs = append(errs, fmt.Errorf("%s was swept and is still there", p))
		}
	}
	return errors.Join(errs...)
}

// delivered returns the recipients of each accepted message, by its sender and id.
func (l *life) delivered() (map[string]string, error) {
	got := map[string]string{}
	for rec, err := range eventlog.Read(l.disk, eventlog.Position{}) {
		if err != nil {
			return nil, err
		}
		m, ok := rec.Event.Body.(*protocol.MessageEvent)
		if !ok || m.From == protocol.Hive || m.ID[0] == 'y' {
			continue
		}
		key := string(m.From) + " " + string(m.ID)
		if _, twice := got[key]; twice {
			return nil, fmt.Errorf("%s was accepted twice", key)
		}
		var to []string
		for _, id := range m.Delivered {
			to = append(to, string(id))
		}
		slices.Sort(to)
		got[key] = strings.Join(to, " ")
	}
	return got, nil
}

// kindOf returns a name for what an event says, for [TestLife].
func kindOf(ev protocol.Event) string {
	kind := string(ev.Body.Kind()) + " "
	switch e := ev.Body.(type) {
	case *protocol.MessageEvent:
		if e.Kept != nil {
			return kind + "kept"
		}
		if e.Hops > 0 && e.From != protocol.Hive {
			return kind + "reply"
		}
	case *protocol.DropEvent:
		return kind + string(e.Reason)
	case *protocol.QuarantineEvent:
		return kind + string(e.Code)
	case *protocol.HandledEvent:
		return kind + string(e.How)
	case *protocol.FileEvent:
		if e.Deleted {
			return kind + "deleted"
		}
		return kind + e.Path
	case *protocol.HiveEvent:
		return kind + string(e.Action)
	case *protocol.AgentEvent:
		return kind + string(e.Action)
	case *protocol.DuplicateEvent, *protocol.DeliveredEvent, *protocol.TaskEvent, *protocol.TaskRejectedEvent, *protocol.AlertEvent:
	}
	return strings.TrimSpace(kind)
}

// TestLife checks that the days have all the kinds of events that the sweeps are to cover.
func TestLife(t *testing.T) {
	t.Parallel()
	var l *life
	if err := bubble(t, func() (err error) {
		if l, err = newLife(mail); err != nil {
			return err
		}
		l.disk = l.disk.Copy() // operations count from here
		begun := l.disk.Copy()
		l.sent = slices.Collect(maps.Keys(deliveries))
		return errors.Join(l.live(), l.check(), l.tally(t, begun, l.disk.Ops()))
	}); err != nil {
		t.Fatal(err)
	}
	if len(l.ends) > 0 {
		t.Error(l.ends)
	}
}

// tally compares what happened since the day of youth with what should have happened.
func (l *life) tally(t *testing.T, young durable.FS, ops int) error {
	t.Helper()
	from, _, err := lastEvent(young)
	if err != nil {
		return err
	}
	count := map[string]int{}
	syncPoints := 0 // of daemons that went on
	before := ""
	for rec, err := range eventlog.Read(l.disk, eventlog.Position{}) {
		if err != nil {
			return err
		}
		if rec.Event.Seq <= from {
			continue
		}
		now := kindOf(rec.Event)
		if before == "hive settled" && now != "hive stopped" {
			syncPoints++
		}
		count[now]++
		before = now
	}
	for _, want := range []string{
		"message", "message reply", "message kept", "delivered", "duplicate",
		"drop no-inbox", "drop expired",
		"quarantine malformed", "quarantine too-large", "quarantine not-a-file", "quarantine id-conflict",
		"handled done", "handled deleted", "handled reopened",
		"file board.md", "file agents/alice/memory.md", "file deleted",
		"agent released", "agent restored",
		"hive git-paused", "hive git-resumed", "hive continued", "hive sealed", "hive swept", "hive settled", "hive started", "hive stopped",
	} {
		if count[want] == 0 {
			t.Errorf("the log has no %q", want)
		}
		delete(count, want)
	}
	if syncPoints == 0 {
		t.Error("no sync point was made while a daemon ran")
	}
	was, is := commits(young), commits(l.disk)
	packs, err := l.disk.ReadDir(".git/objects/pack")
	if err != nil || is <= was || len(packs)/2 >= is {
		t.Errorf("%d commits became %d, in %d files: packs were not merged, %v", was, is, len(packs), err)
	}
	last, sum, err := lastEvent(l.disk)
	if err != nil {
		return err
	}
	if data, _, err := durable.ReadFile(l.disk, protocol.SnapshotFile, 1<<20); err != nil || !strings.Contains(string(data), string(sum[:])) {
		t.Errorf("the snapshot is not at event %s, %v", last, err)
	}
	t.Logf("%d operations, events %s to %s, %d to %d commits; also %v", ops, from, last, was, is, slices.Sorted(maps.Keys(count)))
	return nil
}

func lastEvent(disk durable.FS) (seq protocol.Seq, sum protocol.Sum, err error) {
	for rec, err := range eventlog.Read(disk, eventlog.Position{}) {
		if err != nil {
			return 0, sum, err
		}
		seq, sum = rec.Event.Seq, rec.Sum
	}
	return seq, sum, nil
}

func commits(disk durable.FS) (n int) {
	for range gitcommit.Commits(disk) {
		n++
	}
	return n
}
