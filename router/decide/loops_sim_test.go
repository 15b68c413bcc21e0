package decide

import (
	"container/heap"
	"fmt"
	"slices"
	"time"
)

// simMessage is a message of a simulated shape.
type simMessage struct {
	at     time.Duration // since the beginning
	from   string
	to     []string
	re     *simMessage // what it answers, in the same conversation; nil: it begins a thread
	quotes bool        // it has in_reply_to, and not the conversation alone
	shared bool        // it is in a conversation that all agents know by name
	hive   bool        // it is a report to hive about a task

	n    int // place in the order in which they were sent
	hops int // as the simulated rules count them
}

// first reports whether a message is a reply by in_reply_to to one that is no reply.
func (m *simMessage) first() bool { return m.quotes && !m.re.quotes && m.re.from != m.from }

// shape is a way in which agents write to each other.
type shape struct {
	name  string
	turn  time.Duration // from reading to writing
	begin []*simMessage
	// react returns what an agent writes when it reads a message.
	react  func(me string, m *simMessage) []*simMessage
	most   int // the run ends after so many messages, because nothing stops them; zero: no limit
	passes int // how many messages should pass before the shape is stopped; zero: all
	agents int // how many agents take part, also if begin does not name them
}

// rules decide which of its recipients get a message.
type rules interface{ pass(m *simMessage) []string }

// run plays a shape until no agent writes any more. It returns how many messages
// passed, and how many were stopped.
func (s shape) run(by rules) (passed, stopped int) {
	q := &simQueue{}
	send := func(m *simMessage) {
		m.n = q.sent
		q.sent++
		heap.Push(q, m)
	}
	mine := map[*simMessage]*simMessage{} // copies, because rules count hops in them
	for _, m := range s.begin {
		again := *m
		again.re = mine[m.re]
		mine[m] = &again
		send(&again)
	}
	for q.Len() > 0 && (s.most == 0 || passed < s.most) {
		m := heap.Pop(q).(*simMessage) //nolint:forcetypeassert // nothing else is put in
		to := by.pass(m)
		if len(to) == 0 && !m.hive {
			stopped++
			continue
		}
		passed++
		for _, me := range to {
			if s.react == nil {
				continue
			}
			for _, next := range s.react(me, m) {
				next.from, next.at = me, m.at+s.turn
				send(next)
			}
		}
	}
	return passed, stopped
}

// simQueue is a heap of messages in the order of their times.
type simQueue struct {
	list []*simMessage
	sent int
}

func (q *simQueue) Len() int { return len(q.list) }
func (q *simQueue) Less(i, j int) bool {
	a, b := q.list[i], q.list[j]
	return a.at < b.at || a.at == b.at && a.n < b.n
}
func (q *simQueue) Swap(i, j int) { q.list[i], q.list[j] = q.list[j], q.list[i] }
func (q *simQueue) Push(x any)    { q.list = append(q.list, x.(*simMessage)) } //nolint:forcetypeassert // by heap alone
func (q *simQueue) Pop() any {
	last := q.list[len(q.list)-1]
	q.list = q.list[:len(q.list)-1]
	return last
}

// capRules are the rules before echoes were counted: a cap on hops, and one on how often
// two agents take turns within an hour.
type capRules struct {
	pairs map[[2]string]*capPair
}

type capPair struct {
	last  string
	since time.Duration
	turns int
}

func (r *capRules) pass(m *simMessage) (to []string) {
	if m.hive || m.from == "human" {
		return m.to
	}
	if m.re != nil {
		m.hops = m.re.hops + 1
	}
	if m.hops > 12 {
		return nil
	}
	for _, id := range m.to {
		p := r.pairs[pairOfNames(m.from, id)]
		if p == nil || m.at-p.since >= time.Hour || p.turns < 100 {
			to = append(to, id)
		}
	}
	for _, id := range to {
		if len(to) > 16 || id == m.from || id == "human" {
			continue
		}
		k := pairOfNames(m.from, id)
		p := r.pairs[k]
		if p == nil || m.at-p.since >= time.Hour {
			p = &capPair{since: m.at}
			r.pairs[k] = p
		}
		if p.last != "" && p.last != m.from {
			p.turns++
		}
		p.last = m.from
	}
	return to
}

func pairOfNames(a, b string) [2]string { return [2]string{min(a, b), max(a, b)} }

// echoRules implement the rules of spec §4.3 in floating point and without a log.
type echoRules struct {
	agents   map[string]*echoAgent
	answered map[[2]int]bool // sender and message
	names    []string
	words    []time.Duration // when human wrote what started counts anew, within an hour
	human    bool            // human counts as an agent
}

type echoAgent struct {
	echoes float64
	at     time.Duration
	tokens int
	open   bool
}

func (r *echoRules) agent(id string) *echoAgent {
	if r.agents[id] == nil {
		r.agents[id] = &echoAgent{}
		r.names = append(r.names, id)
	}
	return r.agents[id]
}

func (r *echoRules) word(m *simMessage) bool {
	if m.from != "human" || r.human {
		return false
	}
	r.words = slices.DeleteFunc(r.words, func(t time.Duration) bool { return m.at-t >= time.Hour })
	if r.human = len(r.words) == 30; r.human {
		return false
	}
	r.words = append(r.words, m.at)
	return true
}

func (r *echoRules) pass(m *simMessage) []string {
	if m.hive {
		return m.to
	}
	if r.word(m) {
		for _, id := range m.to {
			a := r.agent(id)
			a.echoes, a.open = 0, false
		}
		return m.to
	}
	if m.re != nil && m.from != "human" {
		m.hops = max(0, m.re.hops-int((m.at-m.re.at)/time.Hour)) + 1
	}
	if m.re != nil && m.re.from == "human" && !r.human {
		m.hops = 1
	}
	agents := slices.DeleteFunc(slices.Clone(m.to), func(id string) bool { return id == "human" && !r.human })
	if len(agents) == 0 {
		return m.to
	}
	a := r.agent(m.from)
	a.echoes = max(0, a.echoes-(m.at-a.at).Hours()*5)
	a.at = m.at
	key := [2]int{slices.Index(r.names, m.from), 0}
	first := false
	if m.re != nil && m.quotes {
		key[1] = m.re.n
		first = m.first() && !r.answered[key]
	}
	count := 0.0
	if a.tokens > 0 && !first {
		count = float64((len(agents) + 7) / 8)
	}
	if a.open = a.open || a.echoes+count > 200; a.open {
		return nil
	}
	if m.hops > 12 {
		return nil
	}
	a.tokens = max(0, a.tokens-1)
	a.echoes += count
	if first {
		r.answered[key] = true
		return m.to
	}
	for _, id := range agents {
		x := r.agent(id)
		x.tokens = min(64, x.tokens+1)
	}
	return m.to
}

// somebody returns the names of n agents.
func somebody(n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("a%d", i)
	}
	return list
}
