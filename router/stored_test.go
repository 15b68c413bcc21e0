package router_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/hived/hived/audit"
	"github.com/hived/hived/eventlog"
	"github.com/hived/hived/hive"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/durable/faultfs"
	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

// storeHive asks for the stored hive, audit/testdata/format2.tar.gz, to be made again. It is
// test data: what it holds and what is printed about it stays the same. It has each status
// of an agent, each state of a message and each state of a task.
var storeHive = flag.String("store", "", "make the stored hive anew, as this `file`")

// storedSettings is the hive.yaml of the stored hive: limits that a few messages reach, and
// time-outs of tasks, of which only those of gus, who beats, end while a daemon runs.
const storedSettings = `hop_cap: 2
routing: {breaker: {echoes: 4, leak_per_hour: 0}}
settle: 1ms
rescan: 100ms
outbox_strays_after: 1s
max_message_bytes: 2048
inbox_cap: 14
git: {commit_delay: 1m}
retention: {age: 168h, files: 6}
own_files: {max_bytes: 1024}
tasks:
  lease: 30s
  heartbeat_timeout: 3s
  turn_heartbeat: 10m
  stall_grace: 10m
  approval_timeout: 6h
  cancel_grace: 10m
  backoff: {base: 1h, max: 1h}
  retention: 12h
`

// says sends a message with an id of its own.
func says(from protocol.AgentID, id, rest string) deed {
	return posts(from, id+".json", fmt.Sprintf(`{"id":%q,%s}`, id, rest))
}

// creates has somebody create tasks.
func creates(from protocol.AgentID, id, data string) deed {
	return says(from, id, `"to":"hive","event":"create","data":`+data)
}

// holds has an agent begin a task and then report on it, all in one day: its commands are
// taken in the order of their ids.
func holds(who protocol.AgentID, id, title string, said ...string) (list []deed) {
	for i, report := range append([]string{"claim {}", "start {}"}, said...) {
		event, data, _ := strings.Cut(report, " ")
		epoch := 1
		if event == string(task.Claim) {
			epoch = 0
		}
		list = append(list, reports(who, fmt.Sprintf("%s-%02d", id, i), event, title, epoch, data))
	}
	return list
}

// makes makes a directory.
func makes(dir string) deed {
	return func(disk *faultfs.Mem) error { return disk.MkdirAll(dir, 0o755) }
}

// echoes has two agents write to each other without in_reply_to until the breaker stops
// one; what that sends then waits.
func echoes(one, other protocol.AgentID, n int) (list []deed) {
	for i := range n {
		list = append(list, posts(one, fmt.Sprintf("echo-%d.json", i), fmt.Sprintf(`{"to":%q,"body":"and you?"}`, other)), waits(time.Second))
		one, other = other, one
	}
	return list
}

const gate = "go test ./..."

// beside returns a day on which a daemon runs while the agents act, a second after each
// other.
func beside(steps ...[]deed) day {
	d := day{beside: true}
	for _, step := range steps {
		d.deeds = append(append(d.deeds, step...), waits(time.Second))
	}
	return d
}

// storedDays has few days, because each end of a daemon costs a commit.
var storedDays = []day{
	{deeds: []deed{
		orders("h01", "agent-add", `{"agent":"bob","role":"builder","capabilities":["go","sql"],"slots":6}`),
		orders("h02", "agent-add", `{"agent":"carol","role":"builder","slots":6}`),
		orders("h03", "agent-add", `{"agent":"gus","role":"tester","slots":2}`),
		orders("h04", "agent-lead", `{"agent":"alice"}`),
		orders("h05", "agent-hold", `{"agent":"erin"}`),
		orders("h06", "agent-archive", `{"agent":"dave"}`),
		orders("h07", "agent-hold", `{"agent":"bbo"}`),
		orders("h08", "agent-promote", `{"agent":"bob"}`),
		writes("agents/alice/identity.md", "I am alice, and I plan.\n"),
		writes("agents/bob/identity.md", "I am bob.\n"),
		writes("agents/bob/notes.md", "nothing yet\n"),
	}},
	beside(
		[]deed{ // what can happen to a message at once
			says("alice", "a1", `"to":"bob","act":"request","conversation":"talk","subject":"build it","body":{"parts":["one","two"],"left":2}`),
			says("alice", "a2", `"to":["bob","human"],"body":"two readers"`),
			says("alice", "a3", `"to":["bbo","carol"],"body":"one of them is nobody"`),
			says("alice", "a4", `"to":"bob","body":"late","expires_at":"1999-01-01T00:00:00Z"`),
			says("alice", "a5", `"to":"@builder","act":"query","subject":"who is free?","boddy":"a slip"`),
			says("alice", "a6", `"to":"dave","body":"for the archive"`),
			says("alice", "a7", `"to":"bob","body":"people want a copy","needs_human":true`),
			says("erin", "e1", `"to":"lead","body":"held"`),
			posts("bob", "bad.json", `{"to":`),
			posts("bob", "latin.json", "{\"to\":\"alice\",\"body\":\"caf\xe9\"}"),
			posts("carol", "big.json", `{"id":"c1","to":"bob","body":"`+strings.Repeat("x", 3000)+`"}`),
			makes("agents/carol/outbox/folder.json"),
			posts("carol", "draft.txt", "a stray\n"),
			posts("carol", "noid.json", `{"to":"alice","from":"god","subject":"\u001b[31mred","body":"line one\nline two"}`),
			writes("board.md", "# Board\n\nalice plans, bob builds.\n"),
			writes("agents/bob/notes.md", "alice wants it built\n"),
			writes("agents/carol/big.md", strings.Repeat("too large ", 200)),
			writes("agents/bob/inbox/planted.json", `{"id":"p1","from":"alice","to":"bob","body":"planted"}`),
		},
		[]deed{ // answers, the same again, other content under the same id
			handles("bob", 3), handles("alice", everything), handles(protocol.Human, 1),
			says("bob", "b1", `"to":"alice","act":"agree","in_reply_to":"a1","body":"I will"`),
			says("bob", "b2", `"to":"broadcast","body":"to all"`),
			says("bob", "b3", `"to":"hive","subject":"thank you"`),
			says("bob", "b4", `"to":"hive","event":"agent-lead","data":{"agent":"bob"}`),
			posts("alice", "again.json", `{"id":"a1","to":"bob","act":"request","conversation":"talk","subject":"build it","body":{"parts":["one","two"],"left":2}}`),
			posts("alice", "other.json", `{"id":"a2","to":"carol","body":"another two"}`),
			creates("alice", "t1", `{"tasks":[{"title":"second","to":["bob"],"needs":["x"]},{"name":"x","title":"first","body":"all of it","to":["bob","carol"],"gate":"`+gate+`","priority":3}]}`),
			creates("alice", "t2", `{"title":"old","to":["carol"],"data":{"n":[1,2]}}`),
			creates("alice", "t3", `{"title":"never","needs":["01ARZ3NDEKTSV4RRFFQ69G5FAV"]}`),
			creates("alice", "t4", `{"title":"unwanted","to":["carol"]}`),
			creates("alice", "t5", `{"title":"forgotten","to":["bob"]}`),
			removes("agents/bob/notes.md"), removes("agents/carol/outbox/draft.txt"), removes("agents/carol/big.md"), removes("agents/bob/inbox/planted.json"),
		},
		[]deed{ // one wins, one loses
			handles("bob", everything), handles("carol", everything),
			says("alice", "a8", `"to":"bob","in_reply_to":"b1","body":"when?"`),
			reports("bob", "w1", "accept", "first", 0, `{}`),
			waits(time.Second),
			reports("carol", "w1", "accept", "first", 0, `{}`),
			reports("carol", "w2", "claim", "old", 0, `{}`),
			reports("carol", "w3", "reject", "unwanted", 0, `{"reason":"not mine"}`),
			waits(time.Second),
			reports("alice", "w1", "cancel", "unwanted", 0, `{"reason":"nobody wants it"}`),
			reports("bob", "w2", "accept", "forgotten", 0, `{}`),
		},
		[]deed{
			says("bob", "b5", `"to":["alice","human"],"in_reply_to":"a8","body":"too far"`), // is kept
			reports("bob", "x1", "start", "first", 1, `{}`),
			reports("bob", "x2", "progress", "first", 1, `{"milestone":"half","checkpoint":{"schema":"build/1","done":[1,2],"left":9,"log":"`+strings.Repeat("as it was ", 40)+`"}}`),
			reports("bob", "x3", "progress", "first", 1, `{"patch":{"left":3}}`),
			reports("bob", "x4", "progress", "first", 1, `{"patch":{"left":1,"done":null},"milestone":"nearly"}`),
			reports("bob", "x5", "progress", "first", 1, `{"milestone":"a milestone alone"}`),
			reports("bob", "x6", "start", "forgotten", 1, `{}`),
			reports("bob", "x7", "pause_for_approval", "forgotten", 1, `{"question":"Is anybody there?"}`),
			reports("carol", "x1", "start", "old", 1, `{}`),
			reports("carol", "x2", "complete", "old", 1, `{"result":"done early"}`),
			reports("carol", "x3", "complete", "first", 7, `{}`),
		},
		[]deed{reports("bob", "y1", "pause_for_approval", "first", 1, `{"question":"May I drop the old tables?"}`)},
		[]deed{
			reports(protocol.Human, "y1", "approval_granted", "first", 0, `{"comment":"yes, all of them"}`),
			orders("h10", "continue", `{"conversation":"talk"}`), // delivers b5
		},
		[]deed{
			reports("bob", "z1", "complete", "first", 1, `{"result":{"files":12},"gate":{"exit":0,"sha256":"`+protocol.GateSum(gate)+`"}}`),
			reports("bob", "z2", "progress", "first", 1, `{"milestone":"too late"}`),
		},
	),
	{deeds: []deed{waits(13 * time.Hour), handles(protocol.Human, everything), handles("alice", everything), handles("bob", everything), handles("carol", everything)}},
	beside(
		[]deed{
			creates("alice", "t6", `{"tasks":[{"title":"working","to":["bob"]},{"title":"paused","to":["bob"],"approvals":2,"approvers":["alice","human"]},{"title":"asked","to":["carol"]},{"title":"blocked","to":["carol"]},{"title":"retrying","to":["carol"]}]}`),
			creates("alice", "t7", `{"tasks":[{"title":"stalled","to":["gus"]},{"title":"lost","to":["gus"]},{"title":"denied","to":["bob"]},{"title":"repaired","to":["carol"]},{"title":"stopping","to":["carol"]}]}`),
			creates(protocol.Human, "t8", `{"tasks":[{"title":"failed","name":"f","to":["bob"]},{"title":"doomed","needs":["f"]},{"title":"given back","to":["bob","carol"]},{"title":"stopped","to":["bob"]},{"title":"nobody's","to":["@painter"]}]}`),
		},
		holds("bob", "p1", "working", `progress {"checkpoint":{"pages":[1,2,3]}}`, `progress {"patch":{"next":4},"expected_for":"20m"}`),
		holds("bob", "p2", "paused", `pause_for_approval {"question":"Shall it be blue?"}`),
		holds("bob", "p3", "denied", `pause_for_approval {"question":"May I spend it?"}`),
		holds("bob", "p4", "failed", `progress {"milestone":"it does not work"}`, `fatal_error {"reason":"it cannot be done"}`),
		holds("bob", "p5", "given back", `progress {"checkpoint":{"so far":"a"}}`, `release {"reason":"I lack tools","patch":{"so far":"b"}}`),
		holds("carol", "p1", "asked", `block_on_dependency {"reason":"Which of the two?"}`),
		holds("carol", "p2", "blocked", `failure {"category":"schema","reason":"What is a jar?"}`),
		holds("carol", "p3", "retrying", `failure {"category":"transient","reason":"it is busy","checkpoint":{"n":1}}`),
		holds("carol", "p4", "repaired", `failure {"category":"logic","reason":"the test is wrong"}`),
		[]deed{reports("carol", "p5-00", "claim", "stopping", 0, `{}`), reports("bob", "p9-00", "claim", "stopped", 0, `{}`)},
		[]deed{
			handles("bob", everything), handles("carol", everything),
			reports("alice", "q1", "approval_granted", "paused", 0, `{"comment":"blue is well"}`),
			reports("alice", "q2", "answer", "asked", 0, `{"comment":"the second, and here is why: it is newer"}`),
			reports("alice", "q3", "amend", "working", 0, `{"body":"half of it will do","reason":"it was too much"}`),
			reports(protocol.Human, "q1", "approval_denied", "denied", 0, `{"comment":"no money"}`),
			reports("bob", "q0", "start", "stopped", 1, `{}`),
			reports("bob", "q1", "release", "given back", 1, `{}`),
			reports("bob", "q2", "approval_granted", "paused", 0, `{"comment":"I may not"}`),
			says("carol", "c2", `"to":"hive","event":"claim","task":"01ARZ3NDEKTSV4RRFFQ69G5FAV"`),
			reports("carol", "q1", "claim", "doomed", 0, `{}`),
			reports("carol", "q2", "start", "stopping", 1, `{}`),
		},
		[]deed{
			reports(protocol.Human, "q2", "cancel", "stopped", 0, `{}`),
			reports("carol", "q3", "cancelled", "stopping", 1, `{}`), // nobody has asked to cancel it yet
			waits(time.Second),
			reports("alice", "q4", "cancel", "stopping", 0, `{"reason":"enough"}`),
			reports(protocol.Human, "q3", "resume", "failed", 0, `{"family":true}`),
			deletes("carol"), reopens("bob"),
			waits(time.Second),
			reports("carol", "q4", "cancelled", "stopping", 1, `{}`),
			undeletes("h11"),
			orders("h12", "git-pause", `{}`), waits(time.Second), orders("h13", "git-resume", `{}`),
		},
		holds("gus", "r1", "lost"),
		holds("gus", "r2", "stalled", `progress {"milestone":"began"}`),
		[]deed{writes("agents/gus/alive", `{"every":"1s"}`), waits(time.Second), writes("agents/gus/alive", ` {"every":"1s"}`)},
		[]deed{reports("gus", "r3", "release", "lost", 1, `{}`)}, // and does not beat from here on
		echoes("hank", "ivy", 13),
		[]deed{
			orders("h14", "continue", `{"agent":"hank"}`),
			says("alice", "a9", `"to":"bob","in_reply_to":"b5","body":"as far again"`),
			orders("h15", "agent-release", `{"agent":"erin"}`), waits(time.Second), orders("h16", "agent-hold", `{"agent":"erin"}`),
			waits(time.Second),
			says("erin", "e2", `"to":"alice","body":"waits"`),
			orders("h17", "agent-archive", `{"agent":"hank"}`), waits(time.Second), orders("h18", "agent-restore", `{"agent":"hank"}`),
		},
		[]deed{says("bob", "b6", `"to":"alice","in_reply_to":"a9","body":"and again"`)},
		[]deed{says("alice", "a10", `"to":["bob","human"],"in_reply_to":"b6","body":"is kept to the end"`)},
	),
	{deeds: append(fills("gus", 12),
		handles("bob", 2), handles("carol", 2),
		writes("agents/alice/memory.md", "what alice knows now\n"),
		makes("agents/new one"), // not a valid agent name
		makes("agents/frank"),
		creates("alice", "t9", `{"tasks":[{"title":"offered","to":["bob"]},{"title":"pending","to":["carol"]}]}`))},
	{deeds: []deed{
		reports("carol", "s1", "claim", "pending", 0, `{}`),
		reports("carol", "s2", "complete", "asked", 1, `{"result":["it","is","done"]}`),
		says("bob", "b9", `"to":"alice","act":"done","subject":"the last word","body":""`),
	}},
}

// undeletes asks that what an agent deleted is delivered again.
func undeletes(id string) deed {
	return func(disk *faultfs.Mem) error {
		for rec, err := range eventlog.Read(disk, eventlog.Position{}) {
			if err != nil {
				return err
			}
			if e, ok := rec.Event.Body.(*protocol.HandledEvent); ok && e.How == protocol.HowDeleted {
				return orders(id, "inbox-undelete", fmt.Sprintf(`{"agent":%q,"messages":[%s]}`, e.Agent, e.Of))(disk)
			}
		}
		return errors.New("nothing was deleted")
	}
}

// fills sends more than an inbox holds.
func fills(id protocol.AgentID, n int) (list []deed) {
	for i := range n {
		list = append(list, says(protocol.Human, fmt.Sprintf("f%02d", i), fmt.Sprintf(`"to":%q,"body":"number %d"`, id, i)))
	}
	return list
}

// walk lists a disk, each directory before what it holds, without the repository, which is
// built again from the log and would be two thirds of the size.
func walk(disk durable.FS, dir string) (list []testenv.Packed, err error) {
	entries, err := disk.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		name := path.Join(dir, e.Name)
		if name == ".git" {
			continue
		}
		info, err := disk.Lstat(name)
		if err != nil {
			return nil, err
		}
		x := testenv.Packed{Name: name, Mode: info.Mode, ModTime: info.ModTime}
		var below []testenv.Packed
		if info.Mode.IsDir() {
			below, err = walk(disk, name)
		} else {
			x.Data, _, err = durable.ReadFile(disk, name, -1)
		}
		if err != nil {
			return nil, err
		}
		list = append(append(list, x), below...)
	}
	return list, nil
}

// TestStoredHive makes the stored hive; see [storeHive].
func TestStoredHive(t *testing.T) {
	if *storeHive == "" {
		t.Skip("-store FILE makes the stored hive anew; what it is now, the tests of audit and cmd/hived hold")
	}
	if err := bubble(t, func() error {
		pause(time.Until(time.Date(2026, 11, 22, 8, 0, 0, 0, time.UTC)))
		values, err := hive.ParseSettings([]byte(storedSettings))
		if err != nil {
			return err
		}
		for i := range storedDays {
			storedDays[i].set = func(s *protocol.Settings) {
				*s = values
				if i < 2 {
					s.Log.SegmentBytes = 24 << 10
				}
			}
		}
		l := &life{disk: faultfs.New(), course: &course{days: storedDays}, until: len(storedDays)}
		for _, a := range []protocol.AgentID{"alice", "bob", "carol", "dave", "erin", "gus", "hank", "ivy"} {
			if err := l.disk.MkdirAll(protocol.OutboxDir(a), 0o755); err != nil {
				return err
			}
		}
		if err := hive.Init(l.disk, hive.Options{Settings: values, Template: []byte(storedSettings), Version: "stored", Now: time.Now()}); err != nil {
			return err
		}
		l.disk.CrashAt(900, faultfs.Drop)
		if err := l.live(); !errors.Is(err, faultfs.ErrCrashed) {
			return fmt.Errorf("the life did not crash, but ended with %w", err)
		}
		l.disk = l.disk.Reboot()
		if err := l.live(); err != nil {
			return err
		}
		if r, err := audit.Verify(context.Background(), l.disk, audit.Options{Settings: values}); err != nil || !r.OK() {
			return fmt.Errorf("the stored hive is not sound: %w, %v", err, r.Findings)
		}
		list, err := walk(l.disk, ".")
		if err != nil {
			return err
		}
		return testenv.Pack(*storeHive, list)
	}); err != nil {
		t.Fatal(err)
	}
}
