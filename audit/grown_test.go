package audit

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/hived/hived/eventlog"
	"github.com/hived/hived/gitcommit"
	"github.com/hived/hived/gitcommit/follow"
	"github.com/hived/hived/hive"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/ledger"
	"github.com/hived/hived/protocol"
)

var (
	grownEvents = flag.Int("events", 20_000, "length of the log in BenchmarkGrown")
	grownDir    = flag.String("hive", "", "where BenchmarkGrown keeps its hive for the next time")
)

// BenchmarkGrown reads, checks and verifies a hive with a long history: twenty
// agents, messages of about a kibibyte, each handled some time after it came
// and swept away later.
func BenchmarkGrown(b *testing.B) {
	dir := *grownDir
	if dir == "" {
		dir = filepath.Join(b.TempDir(), "hive")
	}
	if _, err := os.Stat(dir); err != nil {
		grow(b, dir, protocol.Seq(*grownEvents))
	}
	disk, err := durable.Open(dir)
	testenv.Must(b, err)
	b.Cleanup(func() { _ = disk.Close() })
	row := func(name string, run func() (events int, err error)) {
		b.Run(name, func(b *testing.B) {
			forget()
			total := 0
			b.ReportAllocs()
			for b.Loop() {
				n, err := run()
				testenv.Must(b, err)
				total += n
			}
			b.ReportMetric(float64(total)/b.Elapsed().Seconds(), "events/s")
			b.ReportMetric(peak(), "MB-peak")
		})
	}
	var middle, last eventlog.Position
	row("read", func() (n int, err error) {
		for rec, err := range eventlog.Read(disk, eventlog.Position{}) {
			if err != nil {
				return n, err
			}
			n++
			last = eventlog.Position{Seq: rec.Event.Seq, Sum: rec.Sum}
			if rec.Event.Seq == protocol.Seq(*grownEvents/2) {
				middle = last
			}
		}
		return n, nil
	})
	open := func(after eventlog.Position) func() (int, error) {
		return func() (n int, err error) {
			l, _, err := eventlog.Open(disk, eventlog.Options{After: after}, func(protocol.Event) error {
				n++
				return nil
			})
			if err != nil {
				return n, err
			}
			return n, l.Close()
		}
	}
	row("open", open(eventlog.Position{}))
	row("open/after=half", open(middle))
	row("open/after=all", open(last))
	row("check", func() (int, error) {
		stats, err := eventlog.Check(disk, nil, nil, func(d *eventlog.Damage) { b.Error(d) })
		return stats.Events, err
	})
	row("fold", func() (int, error) {
		_, _, res, err := treeAt(b.Context(), disk, Until{})
		return int(res.Seq), err
	})
	row("verify", func() (int, error) {
		r, err := Verify(b.Context(), disk, Options{Settings: fast()})
		if !r.OK() {
			b.Fatalf("findings:%s", lines(r.Findings))
		}
		return int(r.Seq), err
	})
}

// forget sets the high-water mark of this process's memory to its present use.
func forget() {
	debug.FreeOSMemory()
	_ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) // elsewhere it remains that of the whole run
}

// peak returns the high-water mark in megabytes, 0 where the system does not report it.
func peak() float64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	_, rest, _ := bytes.Cut(status, []byte("VmHWM:"))
	kb, _, _ := strings.Cut(strings.TrimSpace(string(rest)), " ")
	n, _ := strconv.Atoi(kb)
	return float64(n) / 1000
}

const (
	grownAgents  = 20
	grownUnread  = 400  // messages to all agents
	grownDone    = 2000 // messages in .done of all agents
	grownBatch   = 512  // events of a commit
	grownPerPack = 32   // commits between two consolidations
)

// grower makes a hive as a daemon would have left it, in a fraction of the time.
type grower struct {
	tb     testing.TB
	disk   *durable.Disk
	log    *eventlog.Log
	repo   *gitcommit.Repo
	now    time.Time
	n      int               // messages
	unread []string          // file names
	done   []string          // file names
	files  map[string][]byte // what should be on the disk at the end
}

func grow(tb testing.TB, dir string, events protocol.Seq) {
	tb.Helper()
	g := &grower{tb: tb, now: time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC), files: map[string][]byte{}}
	g.must(os.Mkdir(dir, 0o755))
	var err error
	g.disk, err = durable.Open(dir)
	g.must(err)
	defer g.disk.Close()
	g.must(hive.Init(g.disk, hive.Options{Settings: fast(), Template: hive.Template(), Version: "test", Now: g.now}))
	g.log, _, err = eventlog.Open(g.disk, eventlog.Options{}, func(protocol.Event) error { return nil })
	g.must(err)
	g.repo, err = gitcommit.Open(g.disk, gitcommit.Options{Bulk: true})
	g.must(err)
	g.must(follow.Rebuild(tb.Context(), g.disk, g.repo)) // what Init logged
	var joined []protocol.Body
	for i := range grownAgents {
		joined = append(joined, &protocol.AgentEvent{Agent: grownAgent(i), Action: protocol.Joined})
	}
	g.add(joined)
	for commits := 1; g.log.Next() <= events; commits++ {
		var bodies []protocol.Body
		for len(bodies) < grownBatch {
			bodies = append(bodies, g.message(protocol.Seq(len(bodies))))
			if len(g.unread) > grownUnread {
				bodies = append(bodies, g.handle())
			}
			if len(g.done) > grownDone+grownBatch {
				bodies = append(bodies, g.sweep())
			}
		}
		g.add(bodies)
		if commits%grownPerPack == 0 {
			g.must(g.repo.Consolidate(tb.Context()))
		}
	}
	g.must(g.repo.Flush())
	g.must(g.log.Close())
	state := ledger.New(fast().Remember)
	for rec, err := range eventlog.Read(g.disk, eventlog.Position{}) {
		g.must(err)
		state.Apply(rec.Event)
	}
	for p := range state.AllViews {
		g.files[p], _ = state.View(p)
	}
	for p, data := range g.files {
		g.must(g.disk.MkdirAll(filepath.ToSlash(filepath.Dir(p)), 0o755))
		g.must(os.WriteFile(g.disk.Path(p), data, 0o644))
	}
}

func (g *grower) must(err error) {
	g.tb.Helper()
	testenv.Must(g.tb, err)
}

func grownAgent(i int) protocol.AgentID {
	return protocol.AgentID(fmt.Sprintf("agent-%02d", i%grownAgents))
}

func grownName(n int) string { return fmt.Sprintf("01J8ZQ5V6W7X8Y9Z%010d.json", n) }

// message returns a message of an agent to the next one; its event will have the
// index at in this batch.
func (g *grower) message(at protocol.Seq) protocol.Body {
	n := g.n
	g.n++
	from, to, id := grownAgent(n), grownAgent(n+1), strings.TrimSuffix(grownName(n), ".json")
	text := grownText(n)
	e := &protocol.MessageEvent{
		ID: protocol.MessageID(id), From: from, To: []protocol.Address{protocol.Address(to)}, Act: protocol.Inform, Subject: "grown",
		Conversation: protocol.ConversationID(id), Delivered: []protocol.AgentID{to}, File: grownName(n), Sent: grownName(n),
		Original: &protocol.Original{Name: grownName(n), Ino: uint64(n), MTime: protocol.Stamp(g.now), SHA256: strings.Repeat("0", 64)},
		Set:      jsontext.Value(fmt.Sprintf(`{"act":"inform","conversation":%q,"from":%q,"hops":0,"id":%q}`, id, from, id)),
		Raw:      fmt.Sprintf(`{"to":%q,"subject":"grown","body":%q}`, to, text),
	}
	data, err := ledger.Delivered(protocol.Event{Seq: g.log.Next() + at, TS: g.now, Body: e}, e)
	g.must(err)
	e.Blob, e.Size = protocol.BlobOf(data), len(data)
	g.unread = append(g.unread, e.File)
	return e
}

// grownText returns about a kibibyte of text that no other message has, as varied
// as prose.
func grownText(n int) string {
	const syllables = "bacadafagahajakalamanaparasatavawayabecedefegehejekelemeneperesetevewe"
	rnd := rand.New(rand.NewPCG(uint64(n), 1))
	var b strings.Builder
	for b.Len() < 1000 {
		for range 1 + rnd.IntN(3) {
			i := rnd.IntN(len(syllables)/2) * 2
			b.WriteString(syllables[i : i+2])
		}
		b.WriteByte(' ')
	}
	return b.String()
}

func (g *grower) handle() protocol.Body {
	file := g.unread[0]
	g.unread, g.done = g.unread[1:], append(g.done, file)
	return &protocol.HandledEvent{Agent: grownReader(file), File: file, How: protocol.HowDone}
}

func grownReader(file string) protocol.AgentID {
	n, _ := strconv.Atoi(strings.TrimSuffix(file[16:], ".json"))
	return grownAgent(n + 1)
}

func (g *grower) sweep() protocol.Body {
	e := &protocol.HiveEvent{Action: protocol.Swept}
	for _, file := range g.done[:grownBatch] {
		n, _ := strconv.Atoi(strings.TrimSuffix(file[16:], ".json"))
		e.Paths = append(e.Paths, protocol.DoneDir(grownReader(file))+"/"+file, protocol.SentDir(grownAgent(n))+"/"+file)
	}
	g.done = slices.Clone(g.done[grownBatch:])
	return e
}

// add logs and commits events.
func (g *grower) add(bodies []protocol.Body) {
	var evs []protocol.Event
	for _, body := range bodies {
		evs = append(evs, protocol.Event{Seq: g.log.Next() + protocol.Seq(len(evs)), TS: g.now, Body: body})
	}
	_, err := g.log.Append(evs)
	g.must(err)
	if g.log.Due() {
		ev, _, err := g.log.Seal(g.now, g.log.Format())
		g.must(err)
		evs = append(evs, ev)
	}
	for _, ev := range evs {
		g.record(ev)
	}
	g.must(follow.Rebuild(g.tb.Context(), g.disk, g.repo))
	g.now = g.now.Add(time.Second)
}

func (g *grower) record(ev protocol.Event) {
	changes, err := ledger.Changes(ev)
	g.must(err)
	for _, c := range changes {
		switch c.Op {
		case protocol.Put:
			g.files[c.Path] = c.Data
		case protocol.Move:
			g.files[c.Path] = g.files[c.From]
			delete(g.files, c.From)
		case protocol.Delete:
			delete(g.files, c.Path)
		case protocol.PutFile:
		}
	}
}
