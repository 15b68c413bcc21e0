package router

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/hived/hived/eventlog"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/durable/faultfs"
	strides "github.com/hived/hived/internal/sweep"
	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/protocol"
)

var histories = flag.Int("histories", strides.Of(strides.Histories), "random histories of TestModel")

// TestModel runs random histories on a hive, and checks that it agrees with a model of it:
// sends of every kind, handled moves, commands, own files, jumps of the clock, seals and
// sweeps, crashes, and crashes while recovering. A plain run has the same histories every
// time, as far as the daemon's goroutines are scheduled in the same way, so that no change
// is judged by chance. The long form draws new ones:
//
//	go test ./router -run 'TestModel$' -timeout 0 -histories 2000
//
// A history that failed is shown in its shortest form, and -rapid.seed repeats it.
func TestModel(t *testing.T) {
	t.Parallel()
	given := map[string]bool{}
	flag.Visit(func(f *flag.Flag) { given[f.Name] = true })
	set := map[string]string{"rapid.checks": strconv.Itoa(*histories), "rapid.nofailfile": "true"}
	if given["histories"] && !given["rapid.seed"] {
		set["rapid.seed"] = "0"
	}
	for name, value := range set {
		testenv.Must(t, flag.Set(name, value))
	}
	origin := modelOrigin(t)
	total := map[string]int{}
	rapid.Check(t, func(rt *rapid.T) {
		h := newModelRun(t, origin)
		rt.Repeat(h.actions())
		h.daemon(rt)
		testenv.Must(rt, h.replays())
		for k, n := range h.model.tally {
			total[k] += n
		}
	})
	for _, k := range slices.Sorted(maps.Keys(total)) {
		t.Logf("%6d %s", total[k], k)
	}
}

// modelRun is one history: what agents and people do to a hive on a disk in
// memory, the daemons that run over it in between, and the model that must agree
// with the hive whenever a daemon ended well.
type modelRun struct {
	t        *testing.T
	disk     *faultfs.Mem
	model    *hiveModel
	settings protocol.Settings
	now      time.Time
	n        int // number of names and texts given out
	ops      int // number of operations of the longest run
	drafts   map[protocol.AgentID][]*draft
	ran      *Router // the last daemon that ended well
}

func modelSettings() protocol.Settings {
	s := memSettings()
	s.HopCap, s.InboxCap, s.MaxMessageBytes = 4, 6, 2000
	return s
}

// modelOrigin makes the hive that all histories begin with.
func modelOrigin(t *testing.T) *faultfs.Mem {
	t.Helper()
	disk := memHive(t)
	disk.CrashAt(0, faultfs.Keep)
	return disk
}

func newModelRun(t *testing.T, origin *faultfs.Mem) *modelRun {
	t.Helper()
	h := &modelRun{
		t: t, disk: origin.Reboot(), model: newHiveModel(modelSettings()), settings: modelSettings(),
		now: time.Date(2027, 3, 1, 12, 0, 0, 0, time.UTC), drafts: map[protocol.AgentID][]*draft{},
	}
	h.model.keeps = h.settings.Retention.Files
	h.tick()
	testenv.Must(t, h.judge())
	return h
}

// tick sets the disk's clock to the history's time.
func (h *modelRun) tick() {
	now := h.now
	h.disk.SetClock(func() time.Time { return now })
}

// actions returns what can happen.
func (h *modelRun) actions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"send": h.send, "send more": h.send, "talk": h.talk, "talk more": h.talk, "answer": h.answer, "answer more": h.answer, "send again": h.sendAgain, "command": h.command,
		"broken": h.broken, "done": h.done, "reopen": h.reopen, "delete": h.delete, "scribble": h.scribble, "own": h.own,
		"join": h.join, "clock": h.clock, "settings": h.set, "cut": h.cut,
		"daemon": h.daemon, "daemon again": h.daemon, "crash": h.crash, "crash again": h.crash,
	}
}

func fail(t *rapid.T, err error) {
	t.Helper()
	testenv.Must(t, err)
}

// with draws an agent that has an outbox.
func (h *modelRun) with(t *rapid.T, box func(protocol.AgentID) string) protocol.AgentID {
	var list []protocol.AgentID
	for _, id := range []protocol.AgentID{"alice", "bob", "carol", "dave", protocol.Human} {
		if _, err := h.disk.Lstat(box(id)); err == nil {
			list = append(list, id)
		}
	}
	return rapid.SampledFrom(list).Draw(t, "agent")
}

// put writes a file into an outbox.
func (h *modelRun) put(t *rapid.T, id protocol.AgentID, d *draft, text string) {
	h.n++
	name := fmt.Sprintf("%s%d.json", rapid.SampledFrom([]string{"", "", "a", "z"}).Draw(t, "name"), h.n)
	if old := rapid.SampledFrom([]string{"", "", "", "x.json"}).Draw(t, "again"); old != "" {
		if _, err := h.disk.Lstat(protocol.OutboxDir(id) + "/" + old); err != nil {
			name = old
		}
	}
	sync := rapid.SampledFrom([]bool{true, true, false}).Draw(t, "sync")
	p := protocol.OutboxDir(id) + "/" + name
	fail(t, durable.Publish(h.disk, p, []byte(text), 0o644, durable.Sync(sync)))
	info, err := h.disk.Lstat(p)
	fail(t, err)
	h.model.files[info.Ino] = &modelFile{agent: h.model.agent(id).id, name: name, draft: d, contents: []string{text}, run: h.model.tally["daemons"], synced: sync}
	h.now = h.now.Add(time.Millisecond)
	h.tick()
}

func (h *modelRun) sends(t *rapid.T, id protocol.AgentID, d *draft) {
	h.drafts[id] = append(h.drafts[id], d)
	h.put(t, id, d, d.bytes())
}

func (h *modelRun) newID() string { h.n++; return fmt.Sprint("m", h.n) }

func (h *modelRun) send(t *rapid.T) {
	id := h.with(t, protocol.OutboxDir)
	pick := func(label string, from ...string) string { return rapid.SampledFrom(from).Draw(t, label) }
	d := &draft{Body: fmt.Sprint("text ", h.n), Act: pick("act", "", "", "inform", "request")}
	d.To = rapid.SliceOfN(rapid.SampledFrom([]string{
		"alice", "bob", "alice", "bob", "carol", "human", "hive", "lead", "god", "broadcast", "@maker", "@none", "alcie", "dave",
	}), 1, 3).Draw(t, "to")
	if rapid.Bool().Draw(t, "names itself") {
		d.ID = h.newID()
	}
	d.Conversation = protocol.ConversationID(pick("conversation", "", "", "c1", "c2"))
	d.InReplyTo = protocol.MessageID(pick("reply", "", "", "", "m1", "m2", "m3", "m4", "m9", "nothing"))
	d.From = pick("from", "", "", "", string(id), "bob", "hive")
	d.Hops = rapid.SampledFrom([]int{0, 0, 0, 0, 1, 3, 4, 2147483647}).Draw(t, "hops")
	d.NeedsHuman = pick("needs human", "", "", "", "yes") != ""
	switch pick("expires", "", "", "", "past", "future") {
	case "past":
		d.Expires = h.now.Add(-time.Minute).Truncate(time.Second)
	case "future":
		d.Expires = h.now.Add(time.Hour).Truncate(time.Second)
	}
	h.sends(t, id, d)
}

// answer has an agent answer the newest message in its inbox.
func (h *modelRun) answer(t *rapid.T) {
	id := h.with(t, protocol.OutboxDir)
	names := h.names(protocol.InboxDir(id))
	if len(names) == 0 {
		return
	}
	data, _, err := durable.ReadFile(h.disk, protocol.InboxDir(id)+"/"+names[len(names)-1], -1)
	fail(t, err)
	var m struct {
		ID           string `json:"id"`
		From         string `json:"from"`
		Conversation string `json:"conversation"`
	}
	if json.Unmarshal(data, &m) != nil {
		return // scribbled over
	}
	h.n++
	d := &draft{Body: fmt.Sprint("answer ", h.n), To: []string{m.From}}
	switch rapid.SampledFrom([]string{"message", "conversation", "both"}).Draw(t, "to what") {
	case "message":
		d.InReplyTo = protocol.MessageID(m.ID)
	case "conversation":
		d.Conversation = protocol.ConversationID(m.Conversation)
	default:
		d.InReplyTo, d.Conversation = protocol.MessageID(m.ID), protocol.ConversationID(m.Conversation)
	}
	h.sends(t, id, d)
}

// talk has two agents write to each other in turn, each time in a new conversation.
func (h *modelRun) talk(t *rapid.T) {
	for _, pair := range [][2]protocol.AgentID{{"alice", "bob"}, {"bob", "alice"}} {
		h.n++
		h.sends(t, pair[0], &draft{Body: fmt.Sprint("talk ", h.n), To: []string{string(pair[1])}})
	}
}

// sendAgain sends an earlier message again, in other words or with other content.
func (h *modelRun) sendAgain(t *rapid.T) {
	id := h.with(t, protocol.OutboxDir)
	var named []*draft
	for _, d := range h.drafts[id] {
		if d.ID != "" {
			named = append(named, d)
		}
	}
	if len(named) == 0 {
		return
	}
	d := *rapid.SampledFrom(named).Draw(t, "what")
	switch rapid.SampledFrom([]string{"same", "spelling", "created", "other"}).Draw(t, "how") {
	case "spelling":
		d.Spelling++
	case "created":
		d.Created = h.now.Format(time.RFC3339)
	case "other":
		h.n++
		d.Body = fmt.Sprint("other ", h.n)
	}
	h.put(t, id, &d, d.bytes())
}

// command sends a command to hive, mostly as a person.
func (h *modelRun) command(t *rapid.T) {
	id := rapid.SampledFrom([]protocol.AgentID{protocol.Human, protocol.Human, protocol.Human, "alice"}).Draw(t, "by")
	h.n++
	d := &draft{Body: fmt.Sprint("command ", h.n), To: []string{"hive"}, Reply: rapid.SampledFrom([]string{"", "true", "false"}).Draw(t, "wants a reply")}
	d.Event = rapid.SampledFrom([]string{
		"agent-add", "agent-hold", "agent-hold", "agent-release", "agent-release", "agent-archive", "agent-restore",
		"agent-restore", "agent-lead", "continue", "git-pause", "git-resume",
	}).Draw(t, "event")
	switch d.Event {
	case "continue":
		d.About = rapid.SampledFrom([]protocol.ConversationID{"c1", "c2", "c3"}).Draw(t, "conversation")
	case "git-pause", "git-resume":
	default:
		d.Agent = rapid.SampledFrom([]protocol.AgentID{"alice", "bob", "bob", "carol", protocol.Human, "nobody"}).Draw(t, "about")
	}
	if d.Event == "agent-add" {
		d.Role = rapid.SampledFrom([]string{"maker", "checker"}).Draw(t, "role")
	}
	h.sends(t, id, d)
}

// broken writes a file that is no message, or too large for one.
func (h *modelRun) broken(t *rapid.T) {
	id := h.with(t, protocol.OutboxDir)
	h.n++
	if rapid.Bool().Draw(t, "large") {
		d := &draft{Body: strconv.Itoa(h.n), To: []string{"bob"}, Big: true}
		h.put(t, id, d, d.bytes())
		return
	}
	h.put(t, id, nil, rapid.SampledFrom([]string{`{"to":`, `{"to":"bob"}`, "", "\xff", `[{"to":"bob","body":1}]`}).Draw(t, "text"))
}

// names returns the names of the messages in a directory.
func (h *modelRun) names(dir string) []string {
	list, err := h.disk.ReadDir(dir)
	if err != nil {
		return nil
	}
	var names []string
	for _, e := range list {
		if protocol.IsMessageName(e.Name) {
			names = append(names, e.Name)
		}
	}
	return names
}

// file draws an agent and a message in its box that hived delivered. The agent is nil if
// there is none.
func (h *modelRun) file(t *rapid.T, box func(protocol.AgentID) string) (*modelAgent, string) {
	id := h.with(t, box)
	names := slices.DeleteFunc(h.names(box(id)), func(name string) bool { return strings.HasPrefix(name, "bad-") })
	if len(names) == 0 {
		return nil, ""
	}
	return h.model.agent(id), rapid.SampledFrom(names).Draw(t, "file")
}

// moves notes what an agent did with a message.
func (h *modelRun) moves(a *modelAgent, file, from, to string) {
	if a.moves[file] == nil {
		a.moves[file] = &modelMove{places: []string{from}}
	}
	a.moves[file].places = append(a.moves[file].places, to)
	if h.model.crashed && to != "done" || h.model.paused && to == "gone" {
		a.moves[file].lost = true // recovery may place it again, or may have swept it
	}
}

func (h *modelRun) done(t *rapid.T) {
	a, _ := h.file(t, protocol.InboxDir)
	if a == nil {
		return
	}
	names := h.names(protocol.InboxDir(a.id))
	for _, name := range names[:rapid.IntRange(1, len(names)).Draw(t, "how many")] {
		fail(t, h.disk.Rename(protocol.InboxDir(a.id)+"/"+name, protocol.DoneDir(a.id)+"/"+name))
		h.moves(a, name, "inbox", "done")
	}
	if rapid.Bool().Draw(t, "sync") {
		fail(t, h.disk.SyncDir(protocol.DoneDir(a.id)))
	}
}

func (h *modelRun) reopen(t *rapid.T) {
	a, name := h.file(t, protocol.DoneDir)
	if a == nil {
		return
	}
	fail(t, h.disk.Rename(protocol.DoneDir(a.id)+"/"+name, protocol.InboxDir(a.id)+"/"+name))
	h.moves(a, name, "done", "inbox")
}

func (h *modelRun) delete(t *rapid.T) {
	a, name := h.file(t, protocol.InboxDir)
	if a == nil || a.moves[name] != nil {
		return // moved out of .done: that is recorded later, as a sweep
	}
	fail(t, h.disk.Remove(protocol.InboxDir(a.id)+"/"+name))
	h.moves(a, name, "inbox", "gone")
}

// scribble writes over a message that is not handled.
func (h *modelRun) scribble(t *rapid.T) {
	a, name := h.file(t, protocol.InboxDir)
	if a == nil || a.moves[name] != nil {
		return // in .done it is not read again
	}
	h.n++
	text := fmt.Sprint("scribbled ", h.n)
	fail(t, durable.Publish(h.disk, protocol.InboxDir(a.id)+"/"+name, []byte(text), 0o644, true))
	a.scribbles[name] = append(a.scribbles[name], text)
}

// own writes or deletes an own file.
func (h *modelRun) own(t *rapid.T) {
	a := h.model.agent(h.with(t, protocol.AgentDir))
	p := protocol.AgentDir(a.id) + "/" + rapid.SampledFrom([]string{"memory.md", "plan.md"}).Draw(t, "own file")
	if rapid.SampledFrom([]bool{false, false, true}).Draw(t, "deleted") {
		if err := h.disk.Remove(p); err != nil {
			return
		}
		a.writes[p] = append(a.writes[p], noFile)
		return
	}
	h.n++
	text := fmt.Sprint("own ", h.n)
	fail(t, durable.Publish(h.disk, p, []byte(text), 0o644, durable.Sync(rapid.Bool().Draw(t, "sync"))))
	a.writes[p] = append(a.writes[p], text)
}

// join makes a directory, and so an agent.
func (h *modelRun) join(t *rapid.T) {
	id := rapid.SampledFrom([]protocol.AgentID{"carol", "dave"}).Draw(t, "who")
	if err := h.disk.Mkdir(protocol.AgentDir(id), 0o755); err != nil {
		return
	}
	fail(t, h.disk.SyncDir(protocol.PathAgents))
}

func (h *modelRun) clock(t *rapid.T) {
	day := 24 * time.Hour
	h.now = h.now.Add(rapid.SampledFrom([]time.Duration{time.Second, 40 * time.Minute, 2 * time.Hour, -time.Minute, -day, 10 * 365 * day}).Draw(t, "jump"))
	h.now = h.now.Add(-time.Duration(max(0, h.now.Year()-2090)) * 365 * day)
	h.tick()
}

// set draws whether the next daemons seal and sweep.
func (h *modelRun) set(t *rapid.T) {
	h.settings = modelSettings()
	if rapid.Bool().Draw(t, "seal") {
		h.settings.Log.SegmentBytes = 4 << 10
	}
	if rapid.Bool().Draw(t, "sweep") {
		h.settings.Retention.Files = 2
	}
	h.model.settings = h.settings
}

// run runs a daemon in a synctest bubble, whose time begins at the history's and passes
// only while all goroutines wait.
func (h *modelRun) run() (err error) {
	h.model.tally["daemons"]++
	h.model.keeps = min(h.model.keeps, h.settings.Retention.Files)
	h.ran = nil
	synctest.Test(h.t, func(*testing.T) {
		<-time.After(time.Until(h.now))
		h.disk.SetClock(time.Now)
		var r *Router
		if r, err = open(h.disk, Config{Settings: h.settings, Once: true, Entropy: zeros{}}, noWatcher{}); err == nil {
			err = r.Run(context.Background())
			h.ran = r
		}
		h.now = time.Now()
	})
	h.tick()
	h.ops = max(h.ops, h.disk.Ops())
	return err
}

// daemon runs a daemon to its end, and checks that everything is as the model says.
func (h *modelRun) daemon(t *rapid.T) {
	h.disk.CrashAt(1<<30, faultfs.Keep)
	if err := h.run(); err != nil {
		t.Fatalf("the daemon ended with %v", err)
	}
	err := h.judge()
	if err == nil {
		err = h.compare()
	}
	if err != nil {
		t.Fatalf("%v\nthe log:\n%s", err, h.log())
	}
}

var modelLosses = rapid.SampledFrom([]faultfs.Loss{faultfs.Drop, faultfs.Keep, faultfs.Torn(1), faultfs.Torn(2), faultfs.Torn(3)})

// crash has a daemon die at a random operation, if it gets that far.
func (h *modelRun) crash(t *rapid.T) {
	h.disk.CrashAt(rapid.IntRange(1, max(h.ops, 60)).Draw(t, "operation"), modelLosses.Draw(t, "loss"))
	err := h.run()
	if _, dead := h.disk.Lstat("."); err != nil && dead == nil {
		t.Fatalf("the daemon ended with %v", err)
	}
	h.reboot(t)
}

// cut has the disk crash while no daemon runs.
func (h *modelRun) cut(t *rapid.T) {
	h.disk.CrashAt(0, modelLosses.Draw(t, "loss"))
	h.reboot(t)
}

// reboot notes what a crash left of unsynced files.
func (h *modelRun) reboot(t *rapid.T) {
	ops := h.disk.Ops()
	h.disk = h.disk.Reboot()
	h.ops = max(h.ops, ops)
	h.tick()
	h.model.crashed = true
	h.model.tally["crashes"]++
	left := map[uint64]bool{}
	for id, a := range h.model.agents {
		for _, name := range h.names(protocol.OutboxDir(id)) {
			p := protocol.OutboxDir(id) + "/" + name
			info, err := h.disk.Lstat(p)
			fail(t, err)
			data, _, err := durable.ReadFile(h.disk, p, -1)
			fail(t, err)
			left[info.Ino] = true
			if f := h.model.files[info.Ino]; f != nil && !slices.Contains(f.contents, string(data)) {
				f.contents = append(f.contents, string(data))
			}
		}
		for _, move := range a.moves {
			move.lost = true
		}
		for p := range a.writes {
			a.writes[p] = append(a.writes[p], h.content(p))
		}
	}
	for ino, f := range h.model.files {
		f.maybe = f.maybe || !f.synced && !left[ino]
		if f.synced && len(f.contents) > 1 {
			t.Fatalf("%s of %s was synced, and holds %q", f.name, f.agent, f.contents)
		}
	}
}

func (h *modelRun) content(p string) string {
	data, _, err := durable.ReadFile(h.disk, p, -1)
	if err != nil {
		return noFile
	}
	return string(data)
}

// log returns the events as text.
func (h *modelRun) log() string {
	var b strings.Builder
	for rec, err := range eventlog.Read(h.disk, eventlog.Position{}) {
		if err != nil {
			return err.Error()
		}
		b.WriteString(lines([]protocol.Event{rec.Event}))
	}
	return b.String()
}

// judge has the model judge the new events.
func (h *modelRun) judge() error {
	var list []protocol.Event
	for rec, err := range eventlog.Read(h.disk, eventlog.Position{}) {
		if err != nil {
			return err
		}
		if rec.Event.Seq > h.model.seq {
			list = append(list, rec.Event)
		}
	}
	return h.model.judge(list)
}

// compare compares the disk with the model, after a daemon that ended well.
func (h *modelRun) compare() error {
	var errs []error
	if _, err := eventlog.Check(h.disk, nil, nil, func(d *eventlog.Damage) { errs = append(errs, d) }); err != nil {
		return err
	}
	if h.model.running {
		errs = append(errs, errors.New("the daemon did not say that it stopped"))
	}
	for _, id := range slices.Sorted(maps.Keys(h.model.agents)) {
		if a := h.model.agents[id]; a.joined {
			errs = append(errs, h.compareBoxes(a), h.compareMoves(a), h.compareOwn(a), h.compareState(a))
		}
	}
	for _, id := range []protocol.AgentID{"carol", "dave"} {
		if _, err := h.disk.Lstat(protocol.AgentDir(id)); err == nil && !h.model.known(id) {
			errs = append(errs, fmt.Errorf("%s has a directory and did not join", id))
		}
	}
	errs = append(errs, h.compareFiles(), h.compareRoster())
	h.model.crashed, h.model.keeps = false, modelSettings().Retention.Files
	return errors.Join(errs...)
}

func (h *modelRun) compareBoxes(a *modelAgent) error {
	var errs []error
	for dir, box := range map[string]map[string]*modelBoxFile{
		protocol.InboxDir(a.id): a.inbox, protocol.DoneDir(a.id): a.done, protocol.SentDir(a.id): a.sent,
	} {
		names := h.names(dir)
		for name, l := range box {
			if h.model.crashed && l.lost && !slices.Contains(names, name) {
				delete(box, name)
			}
		}
		if want := slices.Sorted(maps.Keys(box)); !slices.Equal(want, names) {
			errs = append(errs, fmt.Errorf("%s (-model +disk):\n%s", dir, cmp.Diff(want, names)))
		}
		for name, l := range box {
			if data := h.content(dir + "/" + name); !l.bare && protocol.BlobOf([]byte(data)) != l.blob {
				errs = append(errs, fmt.Errorf("%s/%s holds %q, which is not what event %s says", dir, name, data, l.of))
			}
		}
	}
	return errors.Join(errs...)
}

// compareMoves checks that every move is recorded, unless a crash may have undone it.
func (h *modelRun) compareMoves(a *modelAgent) error {
	for file, move := range a.moves {
		is := "gone"
		if a.inbox[file] != nil {
			is = "inbox"
		} else if a.done[file] != nil {
			is = "done"
		}
		want := move.places[len(move.places)-1]
		swept := want == "done" && is == "gone" && h.settings.Retention.Files < 10 || h.model.tally["swept"] > 0
		if is != want && !move.lost && !swept {
			return fmt.Errorf("%s of %s went through %v, and the log has it in %s", file, a.id, move.places, is)
		}
	}
	a.moves, a.scribbles = map[string]*modelMove{}, map[string][]string{}
	if a.got != len(a.inbox)+a.handled {
		return fmt.Errorf("%s got %d messages, of which %d are unread and %d handled", a.id, a.got, len(a.inbox), a.handled)
	}
	return nil
}

// compareOwn checks that the newest versions of own files are recorded. A deletion may be
// recorded by the next daemon.
func (h *modelRun) compareOwn(a *modelAgent) error {
	for p := range a.writes {
		is := h.content(p)
		logged, known := a.own[p]
		if !known {
			logged = noFile
		}
		if is != logged && (is != noFile || a.missed[p]) {
			return fmt.Errorf("%s holds %q, and the log has %q", p, is, logged)
		}
		a.missed[p] = is != logged
		a.writes[p] = []string{is}
	}
	return nil
}

// compareState compares the daemon's own state with the model.
func (h *modelRun) compareState(a *modelAgent) error {
	is := h.ran.state.Agents[a.id]
	if is == nil {
		return fmt.Errorf("%s is not on the roster", a.id)
	}
	if is.Inbox.Len() != len(a.inbox) || is.Done.Len() != len(a.done) || int(is.Delivered) != a.got || int(is.Handled) != a.handled {
		return fmt.Errorf("%s: the state counts %d unread, %d in .done, %d delivered, %d handled; the model %d, %d, %d, %d",
			a.id, is.Inbox.Len(), is.Done.Len(), is.Delivered, is.Handled, len(a.inbox), len(a.done), a.got, a.handled)
	}
	return nil
}

// compareFiles checks that every file of an outbox was dealt with, unless its agent is
// held, or a crash took it.
func (h *modelRun) compareFiles() error {
	waiting := map[string]bool{}
	for ino, f := range h.model.files {
		p := protocol.OutboxDir(f.agent) + "/" + f.name
		switch held := h.model.agent(f.agent).status == "held"; {
		case held && f.accepted > 0 && f.draft != nil && f.draft.Big:
			// It was not read. What a crash left of it may be another file.
			if info, err := h.disk.Lstat(p); err == nil && info.Ino == ino && !f.synced {
				waiting[p] = true
			}
		case f.accepted > 0, f.maybe:
		case held:
			waiting[p] = true
		default:
			return fmt.Errorf("nothing was decided about %s of %s", f.name, f.agent)
		}
	}
	for id := range h.model.agents {
		for _, name := range h.names(protocol.OutboxDir(id)) {
			if p := protocol.OutboxDir(id) + "/" + name; !waiting[p] {
				return fmt.Errorf("%s is still there", p)
			}
			delete(waiting, protocol.OutboxDir(id)+"/"+name)
		}
	}
	if len(waiting) > 0 {
		return fmt.Errorf("these are gone: %v", slices.Sorted(maps.Keys(waiting)))
	}
	return nil
}

// compareRoster compares registry.json with the model.
func (h *modelRun) compareRoster() error {
	var roster struct {
		Lead   protocol.AgentID `json:"lead"`
		Agents map[protocol.AgentID]struct {
			Role   string `json:"role"`
			Status string `json:"status"`
		} `json:"agents"`
	}
	if err := json.Unmarshal([]byte(h.content(protocol.PathRegistry)), &roster); err != nil {
		return fmt.Errorf("read the roster: %w", err)
	}
	for id, a := range h.model.agents {
		if is := roster.Agents[id]; a.joined && (is.Role != a.role || is.Status != a.status) || !a.joined && is.Status != "" {
			return fmt.Errorf("the roster has %s as %v", id, is)
		}
	}
	if roster.Lead != h.model.lead {
		return fmt.Errorf("the roster has %q as lead, not %q", roster.Lead, h.model.lead)
	}
	return nil
}
