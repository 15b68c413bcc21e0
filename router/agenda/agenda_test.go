package agenda

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hived/hived/mailbox"
	"github.com/hived/hived/protocol"
)

// at is a moment of these tests.
func at(ms int) time.Time { return time.UnixMilli(int64(1_000_000_000 + ms)) }

// newTestAgenda is an agenda of some agents for whom nothing is due.
func newTestAgenda(ids ...protocol.AgentID) *Agenda {
	g := New(Options{Rescan: 2 * time.Second, Relist: func(protocol.AgentID) {}})
	for _, id := range ids {
		g.Begin(id)
	}
	g.Queues = Queues{}
	return &g
}

// taken empties a queue and returns who stood in it, in order.
func taken(q *Queue) (ids []protocol.AgentID) {
	for a := q.Take(); a != nil; a = q.Take() {
		ids = append(ids, a.ID)
	}
	return ids
}

// waiting returns who is due for what, by kind of scan, and empties the queues.
func waiting(g *Agenda) map[string][]protocol.AgentID {
	found := map[string][]protocol.AgentID{}
	for kind, q := range map[string]*Queue{"moved": &g.Queues.Moved, "outbox": &g.Queues.Outbox, "inbox": &g.Queues.Inbox, "own": &g.Queues.Own, "crowded": &g.Queues.Crowded} {
		if ids := taken(q); ids != nil {
			found[kind] = ids
		}
	}
	return found
}

// TestAgendaBegins: an agent is due when it begins, its outbox too, and agents are
// gone over by name.
func TestAgendaBegins(t *testing.T) {
	t.Parallel()
	g := New(Options{Rescan: time.Second})
	for _, id := range []protocol.AgentID{"c", "a", "b"} {
		g.Begin(id)
	}
	arrived := []protocol.AgentID{"c", "a", "b"}
	if diff := cmp.Diff(map[string][]protocol.AgentID{"moved": arrived, "outbox": arrived}, waiting(&g)); diff != "" {
		t.Error(diff)
	}
	g.scanAll()
	if diff := cmp.Diff(map[string][]protocol.AgentID{"moved": {"a", "b", "c"}}, waiting(&g)); diff != "" || !g.Root.Agents || !g.Root.Own {
		t.Errorf("%+v\n%s", g.Root, diff)
	}
}

// TestAgendaHints: a hint makes due what it is about, and a new listing of an
// outbox; lost hints make all due.
func TestAgendaHints(t *testing.T) {
	t.Parallel()
	b := []protocol.AgentID{"b"}
	for _, tt := range []struct {
		name   string
		hint   mailbox.Hint
		want   map[string][]protocol.AgentID
		relist []protocol.AgentID
		root   Root
	}{
		{"outbox", mailbox.Hint{Agent: "b", Part: mailbox.PartOutbox}, map[string][]protocol.AgentID{"outbox": b}, b, Root{}},
		{"inbox", mailbox.Hint{Agent: "b", Part: mailbox.PartInbox}, map[string][]protocol.AgentID{"inbox": b}, nil, Root{}},
		{"altered", mailbox.Hint{Agent: "b", Part: mailbox.PartAltered}, map[string][]protocol.AgentID{"inbox": b}, nil, Root{}},
		{"own", mailbox.Hint{Agent: "b", Part: mailbox.PartOwn}, map[string][]protocol.AgentID{"own": b, "moved": b}, nil, Root{}},
		{"somebody new", mailbox.Hint{Agent: "n", Part: mailbox.PartOutbox}, map[string][]protocol.AgentID{}, nil, Root{Agents: true}},
		{"agents", mailbox.Hint{Part: mailbox.PartAgents}, map[string][]protocol.AgentID{}, nil, Root{Agents: true}},
		{"the root", mailbox.Hint{Part: mailbox.PartRoot}, map[string][]protocol.AgentID{}, nil, Root{Own: true}},
		{"lost", mailbox.Hint{Overflow: true}, map[string][]protocol.AgentID{"moved": {"a", "b"}}, nil, Root{Agents: true, Own: true}},
	} {
		g := newTestAgenda("a", "b")
		var relisted []protocol.AgentID
		g.opts.Relist = func(id protocol.AgentID) { relisted = append(relisted, id) }
		g.Hints(at(0), []mailbox.Hint{tt.hint, tt.hint})
		if diff := cmp.Diff(tt.want, waiting(g)); diff != "" || !slices.Equal(slices.Compact(relisted), tt.relist) || g.Root != tt.root {
			t.Errorf("%s: relisted %v, %+v\n%s", tt.name, relisted, g.Root, diff)
		}
		if force := g.Agents["b"].Force; force != (tt.name == "altered") {
			t.Errorf("%s: for altered files too: %v", tt.name, force)
		}
	}
}

// TestAgendaSparesAnInbox: one that changes all the time is scanned ten times a
// second, and at once where a file was altered.
func TestAgendaSparesAnInbox(t *testing.T) {
	t.Parallel()
	g := newTestAgenda("a")
	a := g.Agents["a"]
	inbox := map[string][]protocol.AgentID{"inbox": {"a"}}
	none := map[string][]protocol.AgentID{}
	check := func(what string, want map[string][]protocol.AgentID) {
		t.Helper()
		if diff := cmp.Diff(want, waiting(g)); diff != "" {
			t.Errorf("%s:\n%s", what, diff)
		}
	}
	a.Listed = at(0)
	g.wantInbox(at(40), a)
	check("too early", none)
	if got := g.Next(); !got.Equal(at(100)) {
		t.Errorf("next %s", got)
	}
	g.Due(at(99))
	check("still too early", none)
	g.Due(at(100))
	check("in time", inbox)
	a.Listed = at(100)
	g.Hints(at(101), []mailbox.Hint{{Agent: "a", Part: mailbox.PartAltered}})
	check("altered", inbox)
	if got := g.Next(); !got.IsZero() {
		t.Errorf("next %s, and nothing is due", got)
	}
}

// TestAgendaTimes: the earliest time of each kind counts, brings its own scan, and
// is used up; the last step waits for none.
func TestAgendaTimes(t *testing.T) {
	t.Parallel()
	plan := func(g *Agenda) {
		g.Again(g.Agents["a"], Messages, at(30))
		g.Again(g.Agents["a"], Messages, at(10))
		g.Again(g.Agents["a"], Messages, at(20))
		g.Again(g.Agents["b"], OwnFiles, at(40))
		g.Again(g.Agents["b"], OwnFiles, at(50))
		g.Again(nil, OwnFiles, at(60))
		g.poll(at(0), g.Agents["c"], 70*time.Millisecond)
		g.poll(at(0), g.Agents["b"], g.opts.Rescan) // the rescan comes as soon
	}
	want := []map[string][]protocol.AgentID{
		{"outbox": {"a"}, "inbox": {"a"}},
		{"own": {"b"}},
		{},
		{"moved": {"c"}},
	}
	g := newTestAgenda("a", "b", "c")
	plan(g)
	if !g.Unread(g.Agents["a"]) {
		t.Error("a doubtful file is settled")
	}
	for i, ms := range []int{10, 40, 60, 70} {
		if got := g.Next(); !got.Equal(at(ms)) {
			t.Errorf("next %s, want %s", got, at(ms))
		}
		g.Due(at(ms))
		if diff := cmp.Diff(want[i], waiting(g)); diff != "" || g.Root.Own != (ms >= 60) {
			t.Errorf("at %d: %+v\n%s", ms, g.Root, diff)
		}
	}
	if got := g.Next(); !got.IsZero() || g.Unread(g.Agents["a"]) {
		t.Errorf("next %s, and nothing is due", got)
	}
	g = newTestAgenda("a", "b", "c")
	plan(g)
	g.Stopping = true
	g.Due(at(0))
	if diff := cmp.Diff(map[string][]protocol.AgentID{"outbox": {"a"}, "inbox": {"a"}, "own": {"b"}, "moved": {"c"}}, waiting(g)); diff != "" || !g.Root.Own {
		t.Errorf("the last step:\n%s", diff)
	}
}

// TestScrubPace: a scrub goes over all agents once, spends no more than its
// allowance between two rescans, and is not begun anew while it is under way.
func TestScrubPace(t *testing.T) {
	t.Parallel()
	g := newTestAgenda("a", "b", "c")
	g.ScrubAll()
	if diff := cmp.Diff(2*FilesPerSecond, g.scrub.allowance); diff != "" {
		t.Error(diff)
	}
	spend := func(files int) {
		t.Helper()
		if !g.scrubDue() {
			t.Fatal("the scrub is not due")
		}
		g.nextScrub()
		g.scrub.allowance -= files
	}
	spend(2*FilesPerSecond - 1)
	spend(2 * FilesPerSecond)
	if g.scrubDue() {
		t.Error("the scrub goes on beyond its allowance")
	}
	g.ScrubAll()
	if g.scrubDue() {
		t.Error("a scrub under way was begun anew")
	}
	g.allowScrub()
	spend(0)
	if g.scrubDue() {
		t.Error("the scrub goes on after the last agent")
	}
	g.ScrubAll()
	if g.Stopping = true; g.scrubDue() {
		t.Error("the last step waits for a scrub")
	}
}

// TestScrubAfterLostHints: a scrub then comes to every agent, also to those that the
// one under way has passed, and spends no more than it may.
func TestScrubAfterLostHints(t *testing.T) {
	t.Parallel()
	lost := []mailbox.Hint{{Overflow: true}}
	g := newTestAgenda("a", "b", "c")
	comesTo := func(want ...protocol.AgentID) {
		t.Helper()
		var list []protocol.AgentID
		for g.scrubDue() {
			list = append(list, g.nextScrub().ID)
		}
		if diff := cmp.Diff(want, list); diff != "" {
			t.Error(diff)
		}
	}
	g.ScrubAll()
	g.nextScrub()
	g.Hints(at(0), lost)
	comesTo("b", "c", "a")
	g.Hints(at(0), lost)
	comesTo("a", "b", "c")
	g.scrub.allowance = 0
	g.Hints(at(0), lost)
	comesTo()
	g.allowScrub()
	comesTo("a", "b", "c")
}

func TestTimers(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(int64(1_000_000+s), 0) }
	var list timers
	agents := make([]*Agent, 50)
	for i := range agents {
		agents[i] = &Agent{ID: protocol.AgentID(fmt.Sprintf("a%03d", i)), again: at(i * 37 % 50), poll: at(200)}
		list.set(agents[i])
	}
	ids := func(due []*Agent) (ids []string) {
		for _, a := range due {
			ids = append(ids, string(a.ID))
		}
		slices.Sort(ids)
		return ids
	}
	if diff := cmp.Diff([]string{"a000", "a023", "a046"}, ids(list.until(at(2)))); diff != "" {
		t.Errorf("due (-want +got):\n%s", diff)
	}
	if n := len(list.all()); n != 50 {
		t.Errorf("%d of all", n)
	}
	for _, a := range agents {
		a.again = time.Time{}
		list.set(a)
	}
	if n := len(list.until(at(199))); n != 0 {
		t.Errorf("%d due, want none", n)
	}
	agents[7].again = at(3)
	list.set(agents[7])
	if list[0] != agents[7] {
		t.Errorf("the first is %s", list[0].ID)
	}
	for _, a := range agents {
		a.again, a.poll = time.Time{}, time.Time{}
		list.set(a)
	}
	if len(list) != 0 {
		t.Errorf("%d are left that want nothing", len(list))
	}
}
