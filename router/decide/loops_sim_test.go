package decide

import (
	"container/heap"
	"fmt"
	"slices"
	"time"
)

// letter is a message between agents of a shape.
type letter struct {
	at     time.Duration // since the beginning
	from   string
	to     []string
	re     *letter // what it answers, in whose conversation it is; nil: a fresh one
	quotes bool    // it says so by in_reply_to, and not by the conversation alone
	shared bool    // it is in a conversation that all know by name
	hive   bool    // it is a report to hive about a task

	n    int // of the order in which they were sent
	hops int // as the simulated rules count
}

// first tells whether a letter is a reply, by in_reply_to, to one that is none.
func (l *letter) first() bool { return l.quotes && !l.re.quotes && l.re.from != l.from }

// shape is a way in which agents write to each other.
type shape struct {
	name  string
	turn  time.Duration // from reading to writing
	begin []*letter
	// react says what an agent writes when it reads a letter.
	react  func(me string, l *letter) []*letter
	most   int // letters that are enough to see that nothing stops them; zero: all there are
	passes int // so many pass before it is stopped; zero: all
	agents int // that may write without being written to at first
}

// rules decide who of its recipients gets a letter.
type rules interface{ pass(l *letter) []string }

// run plays a shape and tells how many letters passed before nobody had
// anything to say any more, and how many did not.
func (s shape) run(by rules) (passed, stopped int) {
	q := &letters{}
	send := func(l *letter) {
		l.n = q.sent
		q.sent++
		heap.Push(q, l)
	}
	mine := map[*letter]*letter{} // each run has its own
	for _, l := range s.begin {
		again := *l
		again.re = mine[l.re]
		mine[l] = &again
		send(&again)
	}
	for q.Len() > 0 && (s.most == 0 || passed < s.most) {
		l := heap.Pop(q).(*letter) //nolint:forcetypeassert // nothing else is put in
		to := by.pass(l)
		if len(to) == 0 && !l.hive {
			stopped++
			continue
		}
		passed++
		for _, me := range to {
			if s.react == nil {
				continue
			}
			for _, next := range s.react(me, l) {
				next.from, next.at = me, l.at+s.turn
				send(next)
			}
		}
	}
	return passed, stopped
}

// letters come in the order of their times.
type letters struct {
	list []*letter
	sent int
}

func (q *letters) Len() int { return len(q.list) }
func (q *letters) Less(i, j int) bool {
	a, b := q.list[i], q.list[j]
	return a.at < b.at || a.at == b.at && a.n < b.n
}
func (q *letters) Swap(i, j int) { q.list[i], q.list[j] = q.list[j], q.list[i] }
func (q *letters) Push(x any)    { q.list = append(q.list, x.(*letter)) } //nolint:forcetypeassert // by heap alone
func (q *letters) Pop() any {
	last := q.list[len(q.list)-1]
	q.list = q.list[:len(q.list)-1]
	return last
}

// capRules are the rules that there were before: a cap on hops, and one on the
// turns of two agents within an hour.
type capRules struct {
	pairs map[[2]string]*capPair
}

type capPair struct {
	last  string
	since time.Duration
	turns int
}

func (r *capRules) pass(l *letter) (to []string) {
	if l.hive || l.from == "human" {
		return l.to
	}
	if l.re != nil {
		l.hops = l.re.hops + 1
	}
	if l.hops > 12 {
		return nil
	}
	for _, id := range l.to {
		p := r.pairs[pairOfNames(l.from, id)]
		if p == nil || l.at-p.since >= time.Hour || p.turns < 100 {
			to = append(to, id)
		}
	}
	for _, id := range to {
		if len(to) > 16 || id == l.from || id == "human" {
			continue
		}
		k := pairOfNames(l.from, id)
		p := r.pairs[k]
		if p == nil || l.at-p.since >= time.Hour {
			p = &capPair{since: l.at}
			r.pairs[k] = p
		}
		if p.last != "" && p.last != l.from {
			p.turns++
		}
		p.last = l.from
	}
	return to
}

func pairOfNames(a, b string) [2]string { return [2]string{min(a, b), max(a, b)} }

// echoRules are the rules of spec §4.3, in floating point and without a log.
type echoRules struct {
	agents   map[string]*echoAgent
	answered map[[2]int]bool // sender and letter
	names    []string
	words    []time.Duration // of human, that started counts anew
	human    bool            // it counts as an agent
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

func (r *echoRules) word(l *letter) bool {
	if l.from != "human" || r.human {
		return false
	}
	r.words = slices.DeleteFunc(r.words, func(t time.Duration) bool { return l.at-t >= time.Hour })
	if r.human = len(r.words) == 30; r.human {
		return false
	}
	r.words = append(r.words, l.at)
	return true
}

func (r *echoRules) pass(l *letter) []string {
	if l.hive {
		return l.to
	}
	if r.word(l) {
		for _, id := range l.to {
			a := r.agent(id)
			a.echoes, a.open = 0, false
		}
		return l.to
	}
	if l.re != nil && l.from != "human" {
		l.hops = max(0, l.re.hops-int((l.at-l.re.at)/time.Hour)) + 1
	}
	if l.re != nil && l.re.from == "human" && !r.human {
		l.hops = 1
	}
	agents := slices.DeleteFunc(slices.Clone(l.to), func(id string) bool { return id == "human" && !r.human })
	if len(agents) == 0 {
		return l.to
	}
	a := r.agent(l.from)
	a.echoes = max(0, a.echoes-(l.at-a.at).Hours()*5)
	a.at = l.at
	key := [2]int{slices.Index(r.names, l.from), 0}
	first := false
	if l.re != nil && l.quotes {
		key[1] = l.re.n
		first = l.first() && !r.answered[key]
	}
	count := 0.0
	if a.tokens > 0 && !first {
		count = float64((len(agents) + 7) / 8)
	}
	if a.open = a.open || a.echoes+count > 200; a.open {
		return nil
	}
	if l.hops > 12 {
		return nil
	}
	a.tokens = max(0, a.tokens-1)
	a.echoes += count
	if first {
		r.answered[key] = true
		return l.to
	}
	for _, id := range agents {
		x := r.agent(id)
		x.tokens = min(64, x.tokens+1)
	}
	return l.to
}

// somebody names so many agents.
func somebody(n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("a%d", i)
	}
	return list
}
