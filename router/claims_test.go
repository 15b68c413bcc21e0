package router

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/hived/hived/agent"
	"github.com/hived/hived/eventlog"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/internal/wait"
	"github.com/hived/hived/ledger"
	"github.com/hived/hived/protocol"
)

// act is one thing that somebody did with a message, or saw of it.
type act struct {
	name string // of the message, or its id
	what string // deliver, claim, reopen, delete, sees, send
	says string // of a message that is sent
}

// messageModel is one message, which is absent, unread, done or deleted. A claim moves it
// to .done, and one of several claims wins.
var messageModel = porcupine.Model{
	Partition: byName,
	Init:      func() any { return "absent" },
	Step: func(state, input, output any) (bool, any) {
		a, is, out := input.(act), state.(string), output.(string)
		from := map[string]string{"deliver": "absent", "claim": "unread", "reopen": "done", "delete": "unread"}
		to := map[string]string{"deliver": "unread", "claim": "done", "reopen": "unread", "delete": "deleted"}
		switch {
		case a.what == "sees" && out == "no":
			return is != "unread", state
		case a.what == "sees":
			return is == out, state
		case out == "gone":
			return is != from[a.what], state
		}
		return is == from[a.what], to[a.what]
	},
}

// idModel is one id of one sender: the first message with it is accepted, one that says
// the same is a duplicate, and any other is refused (spec §4.2).
var idModel = porcupine.Model{
	Partition: byName,
	Init:      func() any { return "" },
	Step: func(state, input, output any) (bool, any) {
		a, is := input.(act), state.(string)
		switch output.(string) {
		case "message":
			return is == "", a.says
		case "duplicate":
			return is == a.says, state
		}
		return is != "" && is != a.says, state
	},
}

// byName splits a history by message.
func byName(history []porcupine.Operation) [][]porcupine.Operation {
	parts := map[string][]porcupine.Operation{}
	for _, op := range history {
		name := op.Input.(act).name
		parts[name] = append(parts[name], op)
	}
	return slices.Collect(maps.Values(parts))
}

// record is a history that several goroutines write.
type record struct {
	began time.Time
	mu    sync.Mutex
	ops   []porcupine.Operation
}

func (r *record) now() int64 { return int64(time.Since(r.began)) }

func (r *record) add(who int, a act, out string, from, to int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ops = append(r.ops, porcupine.Operation{ClientId: who, Input: a, Output: out, Call: from, Return: to})
}

// moves does one thing and records its outcome, which is "gone" if the message is not there
// any more.
func (r *record) moves(t *testing.T, who int, a act, do func() error) {
	t.Helper()
	from, out := r.now(), "won"
	switch err := do(); {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, agent.ErrNotFound), errors.Is(err, errTooLate):
		out = "gone"
	case err != nil:
		t.Errorf("%s %s: %v", a.what, a.name, err)
	}
	r.add(who, a, out, from, r.now())
}

var errTooLate = errors.New("somebody else was quicker")

// claims is a hive in which several processes of bob want the same messages.
type claims struct {
	*hive
	t        *testing.T
	record   record
	said     map[string]int64 // when the log last had an event about a message
	events   atomic.Int32
	finished atomic.Bool
}

// event records what the log says of a message. It was true at some time between the event
// before and this one.
func (c *claims) event(ev protocol.Event) {
	now := c.record.now()
	file, out, what := "", "", "sees"
	switch e := ev.Body.(type) {
	case *protocol.MessageEvent:
		if e.From == "alice" {
			file, what, out = e.File, "deliver", "won"
		}
	case *protocol.HandledEvent:
		file = e.File
		out = map[protocol.How]string{protocol.HowDone: "done", protocol.HowReopened: "unread", protocol.HowDeleted: "deleted"}[e.How]
	}
	if file == "" {
		return
	}
	c.record.add(0, act{name: file, what: what}, out, c.said[file], now)
	c.said[file] = now
	if what == "deliver" {
		c.events.Add(1)
	}
}

// box opens bob's mailbox as a process of its own would.
func (c *claims) box() (*agent.Box, *durable.Disk) {
	disk, err := durable.Open(c.dir)
	if err != nil {
		c.t.Error(err)
	}
	box, err := agent.Open(disk, "bob")
	if err != nil {
		c.t.Error(err)
	}
	return box, disk
}

// claimer claims what it finds, until all messages have come and are claimed.
func (c *claims) claimer(who int, all int32) {
	box, disk := c.box()
	defer disk.Close()
	seen := map[string]bool{}
	for deadline := time.Now().Add(wait.Longest); time.Now().Before(deadline); runtime.Gosched() {
		over := c.finished.Load() && c.events.Load() == all
		from := c.record.now()
		names, err := box.Unread()
		if err != nil {
			c.t.Error(err)
		}
		now := c.record.now()
		for name := range seen {
			if !slices.Contains(names, name) {
				c.record.add(who, act{name: name, what: "sees"}, "no", from, now)
				delete(seen, name)
			}
		}
		for _, name := range names {
			seen[name] = true
			c.record.add(who, act{name: name, what: "sees"}, "unread", from, now)
			c.record.moves(c.t, who, act{name: name, what: "claim"}, func() error {
				l, err := box.Done(name)
				if err == nil && !l.Moved {
					return errTooLate
				}
				return err
			})
		}
		if over && len(names) == 0 {
			return
		}
	}
	c.t.Error("not all messages came")
}

// person takes messages back out of .done, and deletes a few.
func (c *claims) person(who, reopens int) {
	defer c.finished.Store(true)
	_, disk := c.box()
	defer disk.Close()
	for n := 0; n < reopens && !c.t.Failed(); runtime.Gosched() {
		list, err := disk.ReadDir(protocol.DoneDir("bob"))
		if err != nil {
			c.t.Error(err)
		}
		if len(list) == 0 {
			continue
		}
		n++
		name := list[rand.IntN(len(list))].Name
		inbox, done := protocol.InboxDir("bob")+"/"+name, protocol.DoneDir("bob")+"/"+name
		c.record.moves(c.t, who, act{name: name, what: "reopen"}, func() error { return disk.RenameNew(done, inbox) })
		if n%10 == 0 {
			c.record.moves(c.t, who, act{name: name, what: "delete"}, func() error { return disk.Remove(inbox) })
		}
	}
}

// TestClaims has several processes of one agent handle the same messages, while the daemon
// delivers more and a person takes some back and deletes others. It checks that what each
// process is told of each message is true, and what the log says too.
func TestClaims(t *testing.T) {
	t.Parallel()
	const messages, claimers, reopens = 12, 4, 40
	c := &claims{hive: newHive(t, "alice", "bob"), t: t, record: record{began: time.Now()}, said: map[string]int64{}}
	c.settings.Settle, c.settings.Rescan = 5*time.Millisecond, 10*time.Millisecond
	cfg := c.config()
	keep := cfg.OnEvent
	cfg.OnEvent = func(ev protocol.Event) { keep(ev); c.event(ev) }
	c.upWith(cfg)
	var g sync.WaitGroup
	for who := range claimers {
		g.Go(func() { c.claimer(who+1, messages) })
	}
	g.Go(func() { c.person(claimers+1, reopens) })
	alice, err := agent.Open(c.disk, "alice")
	testenv.Must(t, err)
	for n := range messages {
		if _, err := alice.Send(agent.Draft{To: []protocol.Address{"bob"}, Subject: strconv.Itoa(n)}); err != nil {
			t.Fatal(err)
		}
	}
	g.Wait()
	c.down()
	judgeHistory(t, messageModel, c.record.ops)
	c.asLogged()
}

// asLogged compares bob's mailbox with the log, without messages that were taken out of
// .done and deleted, because that is not logged at once if it was between two scans.
func (c *claims) asLogged() {
	c.t.Helper()
	deleted := map[string]bool{}
	for _, op := range c.record.ops {
		if a := op.Input.(act); a.what == "delete" && op.Output == "won" {
			deleted[a.name] = true
		}
	}
	state := ledger.New(c.settings.Remember)
	for rec, err := range eventlog.Read(c.disk, eventlog.Position{}) {
		testenv.Must(c.t, err)
		state.Apply(rec.Event)
	}
	for dir, box := range map[string]*ledger.Box{protocol.InboxDir("bob"): &state.Agents["bob"].Inbox, protocol.DoneDir("bob"): &state.Agents["bob"].Done} {
		logged := slices.DeleteFunc(slices.Sorted(box.Names()), func(name string) bool { return deleted[name] })
		if diff := cmp.Diff(logged, slices.Sorted(maps.Keys(messagesIn(c.t, c.disk, dir))), cmpopts.EquateEmpty()); diff != "" {
			c.t.Errorf("%s (-log +disk):\n%s\n%s", dir, diff, c.story())
		}
	}
}

// judgeHistory checks that a history is possible, and that enough happened in it.
func judgeHistory(t *testing.T, model porcupine.Model, ops []porcupine.Operation) {
	t.Helper()
	if result := porcupine.CheckOperationsTimeout(model, ops, wait.Longest); result != porcupine.Ok {
		t.Errorf("the history is %s:", result)
		for _, op := range ops {
			t.Logf("%12d %12d  %d %+v %s", op.Call, op.Return, op.ClientId, op.Input, op.Output)
		}
	}
	tally := map[string]int{}
	for _, op := range ops {
		tally[op.Input.(act).what+" "+op.Output.(string)]++
	}
	t.Log(tally)
}

// TestSameID has several processes of one agent send messages with the same id at the same
// time, and checks that one is accepted.
func TestSameID(t *testing.T) {
	t.Parallel()
	const ids, senders = 6, 4
	h := newHive(t, "alice", "bob")
	h.settings.Settle, h.settings.Rescan = 5*time.Millisecond, 10*time.Millisecond
	h.up()
	r := record{began: time.Now()}
	type sent struct {
		act  act
		from int64
	}
	files := map[string]sent{} // by outbox file
	var g sync.WaitGroup
	for who := range senders {
		g.Go(func() {
			disk, err := durable.Open(h.dir)
			if err != nil {
				t.Error(err)
				return
			}
			defer disk.Close()
			alice, err := agent.Open(disk, "alice")
			for n := range ids {
				id, says := fmt.Sprint("m", n), fmt.Sprint("text ", who%2)
				from := r.now()
				var s agent.Sent
				if err == nil {
					s, err = alice.Send(agent.Draft{ID: protocol.MessageID(id), To: []protocol.Address{"bob"}, Subject: says})
				}
				if err != nil {
					t.Error(err)
					return
				}
				r.mu.Lock()
				files[s.File] = sent{act{name: id, what: "send", says: says}, from}
				r.mu.Unlock()
			}
		})
	}
	g.Wait()
	seen := 0
	await(h, "the last of them", func(ev protocol.Event, _ protocol.Body) bool {
		if name := originalOf(ev); name != "" {
			s := files[name]
			r.add(0, s.act, string(ev.Body.Kind()), s.from, r.now()+int64(ev.Seq)) // later than the events before
			seen++
		}
		return seen == ids*senders
	})
	h.down()
	judgeHistory(t, idModel, r.ops)
	accepted := 0
	for _, op := range r.ops {
		if op.Output == "message" {
			accepted++
		}
	}
	if accepted != ids || len(h.list(protocol.InboxDir("bob"))) != ids {
		t.Errorf("%d of %d were accepted, %v delivered", accepted, ids, h.list(protocol.InboxDir("bob")))
	}
}

// originalOf returns the outbox file that an event was made from.
func originalOf(ev protocol.Event) string {
	var o *protocol.Original
	switch e := ev.Body.(type) {
	case *protocol.MessageEvent:
		o = e.Original
	case *protocol.DuplicateEvent:
		o = e.Original
	case *protocol.QuarantineEvent:
		o = e.Original
	}
	if o == nil {
		return ""
	}
	return o.Name
}

// TestWrongHistories checks that the models reject histories that must not happen.
func TestWrongHistories(t *testing.T) {
	op := func(n int64, what, says, out string) porcupine.Operation {
		return porcupine.Operation{Input: act{name: "m", what: what, says: says}, Output: out, Call: 10 * n, Return: 10*n + 15}
	}
	for name, tt := range map[string]struct {
		model porcupine.Model
		ops   []porcupine.Operation
		fine  bool
	}{
		"one winner":                 {messageModel, []porcupine.Operation{op(1, "deliver", "", "won"), op(2, "claim", "", "won"), op(3, "claim", "", "gone")}, true},
		"two winners":                {messageModel, []porcupine.Operation{op(1, "deliver", "", "won"), op(2, "claim", "", "won"), op(3, "claim", "", "won")}, false},
		"two, and reopened between":  {messageModel, []porcupine.Operation{op(1, "deliver", "", "won"), op(2, "claim", "", "won"), op(3, "reopen", "", "won"), op(4, "claim", "", "won")}, true},
		"won before it came":         {messageModel, []porcupine.Operation{op(1, "claim", "", "won"), op(5, "deliver", "", "won")}, false},
		"nobody has it":              {messageModel, []porcupine.Operation{op(1, "deliver", "", "won"), op(4, "claim", "", "gone")}, false},
		"handled and still there":    {messageModel, []porcupine.Operation{op(1, "deliver", "", "won"), op(2, "claim", "", "won"), op(5, "sees", "", "unread")}, false},
		"logged and nobody did it":   {messageModel, []porcupine.Operation{op(1, "deliver", "", "won"), op(3, "sees", "", "done")}, false},
		"deleted and claimed":        {messageModel, []porcupine.Operation{op(1, "deliver", "", "won"), op(3, "delete", "", "won"), op(5, "claim", "", "won")}, false},
		"accepted once":              {idModel, []porcupine.Operation{op(1, "send", "a", "message"), op(2, "send", "a", "duplicate"), op(3, "send", "b", "quarantine")}, true},
		"accepted twice":             {idModel, []porcupine.Operation{op(1, "send", "a", "message"), op(2, "send", "a", "message")}, false},
		"a duplicate of another":     {idModel, []porcupine.Operation{op(1, "send", "a", "message"), op(2, "send", "b", "duplicate")}, false},
		"a duplicate of nothing yet": {idModel, []porcupine.Operation{op(1, "send", "a", "duplicate"), op(5, "send", "a", "message")}, false},
	} {
		if got := porcupine.CheckOperations(tt.model, tt.ops); got != tt.fine {
			t.Errorf("%s: possible is %t", name, got)
		}
	}
}
