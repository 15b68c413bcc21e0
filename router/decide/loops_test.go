package decide

import (
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/proof/docpage"
	"github.com/hived/hived/protocol"
)

// others returns all names but one.
func others(all []string, me string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(id string) bool { return id == me })
}

// fresh returns a message that begins a thread.
func fresh(to ...string) []*simMessage { return []*simMessage{{to: to}} }

// answer returns a reply by in_reply_to.
func answer(m *simMessage) []*simMessage {
	return []*simMessage{{to: []string{m.from}, re: m, quotes: true}}
}

// ring returns a shape in which a message is passed on for ever, each time in a fresh
// thread.
func ring(name string, n int, turn time.Duration, passes int) shape {
	all := somebody(n)
	next := func(me string) string { return all[(slices.Index(all, me)+1)%n] }
	return shape{
		name: name, turn: turn, passes: passes, agents: n, begin: []*simMessage{{from: all[0], to: []string{next(all[0])}}},
		react: func(me string, _ *simMessage) []*simMessage { return fresh(next(me)) },
	}
}

// crowd returns a shape in which the first talk of n agents answer everybody in fresh
// threads, after a message of human to the first.
func crowd(name string, n, talk, passes int) shape {
	all := somebody(n)
	return shape{
		name: name, turn: fast, passes: passes, agents: n, begin: []*simMessage{{from: "human", to: all[:1]}},
		react: func(me string, _ *simMessage) []*simMessage {
			if !slices.Contains(all[:talk], me) {
				return nil
			}
			return fresh(others(all, me)...)
		},
	}
}

// fast is the time between reading and writing at machine speed.
const fast = 10 * time.Millisecond

// every returns n messages with a gap between each and the next.
func every(n int, gap time.Duration, message func(i int) *simMessage) []*simMessage {
	list := make([]*simMessage, n)
	for i := range list {
		list[i] = message(i)
		list[i].at = time.Duration(i) * gap
	}
	return list
}

// pingPong returns a shape in which two agents write to each other for ever.
func pingPong(name string, turn time.Duration, passes int, next func(me string, m *simMessage) []*simMessage) shape {
	return shape{name: name, turn: turn, passes: passes, begin: []*simMessage{{from: "a0", to: []string{"a1"}}}, react: next}
}

func back(_ string, m *simMessage) []*simMessage { return fresh(m.from) }

// loopShapes returns the shapes that the rules must stop.
func loopShapes() []shape {
	never := 2000 // a shape that passes so many is never stopped
	list := []shape{
		pingPong("two in one thread", fast, 13, func(_ string, m *simMessage) []*simMessage { return answer(m) }),
		pingPong("two in fresh threads, at machine speed", fast, 401, back),
		pingPong("two in fresh threads, at 40 s a turn", 40*time.Second, 449, back),
		ring("ring of 3 in fresh threads", 3, fast, 601),
		ring("ring of 5 in fresh threads", 5, fast, 1001),
		ring("ring of 5, at 20 s a turn", 5, 20*time.Second, 1161),
		ring("ring of 5, at 60 s a turn", 5, 60*time.Second, 1711),
		ring("one that writes to itself", 1, fast, 201),
		crowd("two that broadcast in a hive of 19", 19, 2, 134),
		crowd("all 20 answer all", 20, 20, 1322),
		crowd("reply-all of 3 in fresh threads", 3, 3, 602),
		{
			name: "an agent and an auto-answering `human`", turn: fast, passes: 461, begin: []*simMessage{{from: "human", to: somebody(1)}},
			react: back,
		},
	}
	for i := range list {
		list[i].most = never
	}
	return list
}

// honestShapes returns the shapes of which every message must pass.
func honestShapes() []shape {
	fifty, five, four := somebody(51), somebody(6), somebody(4)
	reply := func(_ string, m *simMessage) []*simMessage {
		if m.quotes {
			return nil
		}
		return answer(m)
	}
	return []shape{
		{
			name: "5,000 from one agent at night", turn: fast,
			begin: every(5000, 2*time.Second, func(int) *simMessage { return &simMessage{from: "a0", to: []string{"a1"}} }),
		},
		{name: "50 answers to a broadcast", turn: fast, begin: []*simMessage{{from: "a0", to: others(fifty, "a0")}}, react: reply},
		{
			name: "3,000 jobs of a client and a worker, answered by `in_reply_to`", turn: fast,
			begin: every(3000, time.Second, func(int) *simMessage { return &simMessage{from: "a0", to: []string{"a1"}} }), react: reply,
		},
		{
			name: "4 letters a day in one thread, for 60 days", turn: 6 * time.Hour, begin: []*simMessage{{from: "a0", to: []string{"a1"}}},
			react: func(_ string, m *simMessage) []*simMessage {
				if m.at >= 60*24*time.Hour-6*time.Hour {
					return nil
				}
				return answer(m)
			},
		},
		{
			name: "1,000 reports about tasks", turn: fast,
			begin: every(1000, time.Second, func(int) *simMessage { return &simMessage{from: "a0", to: []string{"hive"}, hive: true} }),
		},
		{
			name: "100 broadcasts to 5, each answered by all", turn: time.Second,
			begin: every(100, time.Minute, func(int) *simMessage { return &simMessage{from: "a0", to: others(five, "a0")} }), react: reply,
		},
		{
			name: "two who write six times an hour in fresh threads, for a week", turn: 10 * time.Minute, begin: []*simMessage{{from: "a0", to: []string{"a1"}}},
			react: func(_ string, m *simMessage) []*simMessage {
				if m.at >= 7*24*time.Hour-10*time.Minute {
					return nil
				}
				return fresh(m.from)
			},
		},
		{
			name: "30 reviews of 8 letters within an hour", turn: 10 * time.Second,
			begin: every(30, 2*time.Minute, func(int) *simMessage { return &simMessage{from: "a0", to: []string{"a1"}} }),
			react: func(_ string, m *simMessage) []*simMessage {
				depth := 0
				for p := m; p.re != nil; p = p.re {
					depth++
				}
				if depth >= 7 {
					return nil
				}
				return answer(m)
			},
		},
		{
			name: "1,000 jobs through a pipeline of 4, passed on by `in_reply_to`", turn: fast, agents: 4,
			begin: every(1000, time.Second, func(int) *simMessage { return &simMessage{from: "a0", to: []string{"a1"}} }),
			react: func(me string, m *simMessage) []*simMessage {
				i := slices.Index(four, me)
				if i == 3 {
					return nil
				}
				return []*simMessage{{to: []string{four[i+1]}, re: m, quotes: true}}
			},
		},
		{
			name: "5 who share one conversation, a letter each day for 60 days", turn: fast,
			begin: standup(somebody(5), 60),
		},
		{
			name: "25 words an hour of `human`, each answered, for 8 hours", turn: time.Second,
			begin: every(200, 144*time.Second, func(int) *simMessage { return &simMessage{from: "human", to: []string{"a0"}} }), react: reply,
		},
		{
			name: "100 clients with 10 questions each to one worker", turn: fast,
			begin: every(1000, time.Second, func(i int) *simMessage { return &simMessage{from: fmt.Sprintf("c%d", i%100), to: []string{"a0"}} }), react: reply,
		},
	}
}

// standup returns a named conversation to which everybody adds a message each morning.
func standup(all []string, days int) (list []*simMessage) {
	var last *simMessage
	for day := range days {
		for i, me := range all {
			last = &simMessage{shared: true, at: time.Duration(day)*24*time.Hour + time.Duration(i)*time.Minute, from: me, to: others(all, me), re: last}
			list = append(list, last)
		}
	}
	return list
}

// alikeShapes returns loops that cannot be told from work, and so pass.
func alikeShapes() []shape {
	slow := pingPong("two in fresh threads, at 15 min a turn", 15*time.Minute, 0, back)
	anew := pingPong("ask, answer, ask anew, in fresh threads", fast, 0, func(_ string, m *simMessage) []*simMessage {
		if m.quotes {
			return fresh(m.from)
		}
		return answer(m)
	})
	slow.most, anew.most = 2000, 2000
	return []shape{slow, anew}
}

var updateLoops = flag.Bool("loops.update", false, "write the table of docs/adr/0027-count-echoes.md")

// simulatedCaps returns the rules as they were before echoes were counted.
func simulatedCaps() rules { return &capRules{pairs: map[[2]string]*capPair{}} }

// simulatedEchoes returns the rules as they are now.
func simulatedEchoes() rules {
	return &echoRules{agents: map[string]*echoAgent{}, answered: map[[2]int]bool{}}
}

// program is the rules as hived implements them.
type program struct {
	*bench
	t     *testing.T
	ids   map[int]protocol.MessageID
	begin time.Time
}

func newProgram(t *testing.T, s shape) *program {
	t.Helper()
	var all []protocol.AgentID
	for _, m := range s.begin {
		for _, id := range append([]string{m.from}, m.to...) {
			all = append(all, protocol.AgentID(id))
		}
	}
	for _, id := range somebody(s.agents) {
		all = append(all, protocol.AgentID(id))
	}
	slices.Sort(all)
	all = slices.DeleteFunc(slices.Compact(all), func(id protocol.AgentID) bool { return id == protocol.Human || id == protocol.Hive })
	b := newBench(t, all...)
	b.d.settings.InboxCap = 1 << 24
	return &program{bench: b, t: t, ids: map[int]protocol.MessageID{}, begin: b.now}
}

func (p *program) pass(m *simMessage) []string {
	p.now = p.begin.Add(m.at)
	text := fmt.Sprintf(`{"id":"m%d","to":["%s"],"body":""`, m.n, strings.Join(m.to, `","`))
	switch {
	case m.hive:
		text += `,"event":"progress","task":"x","epoch":1`
	case m.re != nil && m.quotes:
		text += fmt.Sprintf(`,"in_reply_to":"m%d"`, m.re.n)
	case m.re != nil:
		text += `,"conversation":"c"`
	case m.shared:
		text += `,"conversation":"c"`
	}
	decoded, err := protocol.DecodeMessage([]byte(text + "}"))
	testenv.Must(p.t, err)
	x := protocol.Arrival{Agent: protocol.AgentID(m.from), Name: fmt.Sprintf("%d.json", m.n), ModTime: p.now, Raw: []byte(text + "}"), Message: decoded}
	x.Original.Name = x.Name
	waits, _, err := p.d.mustWait(p.now, x)
	testenv.Must(p.t, err)
	if waits {
		p.d.Drain(p.now)
		return nil
	}
	var to []string
	for _, d := range p.arrive(x) {
		if e, ok := d.Event.Body.(*protocol.MessageEvent); ok && e.From == x.Agent {
			for _, id := range e.Delivered {
				to = append(to, string(id))
			}
		}
	}
	return to
}

// outcome is how many messages of a shape passed, and how many were stopped.
type outcome struct{ passed, stopped int }

func (s shape) outcome(by rules) outcome {
	p, q := s.run(by)
	return outcome{p, q}
}

func (o outcome) String() string {
	if o.stopped == 0 {
		return "passes"
	}
	text := strconv.Itoa(o.passed)
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return "stopped after " + text
}

// TestLoops plays each shape by the earlier rules, by the present rules simulated, and on
// the program, which must agree with the simulation. The table of
// docs/adr/0027-count-echoes.md has the results.
func TestLoops(t *testing.T) {
	const page = "../../docs/adr/0027-count-echoes.md"
	for _, part := range []struct {
		name   string
		shapes []shape
	}{{"loops", loopShapes()}, {"work", honestShapes()}, {"alike", alikeShapes()}} {
		var table strings.Builder
		table.WriteString("| shape | before | now |\n|---|---|---|\n")
		for _, s := range part.shapes {
			t.Run(s.name, func(t *testing.T) {
				before, now := s.outcome(simulatedCaps()), s.outcome(simulatedEchoes())
				fmt.Fprintf(&table, "| %s | %s | %s |\n", s.name, before, now)
				if got := s.outcome(newProgram(t, s)); got != now {
					t.Errorf("the program has %+v, the simulation %+v", got, now)
				}
				if want := (outcome{s.passes, now.stopped}); s.passes > 0 && now != want || s.passes == 0 && now.stopped > 0 {
					t.Errorf("the simulation has %+v, want %d messages to pass (zero: all)", now, s.passes)
				}
			})
		}
		docpage.Hold(t, page, "<!-- "+part.name+": go test ./router/decide -run TestLoops -loops.update -->\n", "<!-- end of "+part.name+" -->", table.String(), *updateLoops)
	}
}
