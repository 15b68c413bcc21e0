package ledger

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/hived/hived/protocol"
)

// The breaker counts echoes: messages from an agent to agents that may be the
// result of one that it was given (spec §4.3). Volume alone does not count.
const (
	// Echo is one echo in the unit of events and [State.Echoes].
	Echo = 1_000_000
	// tokensMost bounds how many messages an agent may answer.
	tokensMost = 64
	// WordsAnHour is how many messages from human may reset counts within an hour.
	WordsAnHour = 30
)

// CountsAsAgent reports whether an agent gives and takes tokens: hive never does,
// and human only after too many words within an hour.
func (s *State) CountsAsAgent(id protocol.AgentID) bool {
	return id != protocol.Hive && (id != protocol.Human || s.HumanCounts)
}

// counting returns how many of a list count as agents.
func (s *State) counting(list []protocol.AgentID) int {
	n := 0
	for _, id := range list {
		if s.CountsAsAgent(id) {
			n++
		}
	}
	return n
}

// Echoes returns an agent's count at now, in units of 1/[Echo] of an echo, when
// leakPerHour echoes are forgotten each hour.
func (s *State) Echoes(id protocol.AgentID, now time.Time, leakPerHour int) int {
	a := s.Agents[id]
	if a == nil || a.echoes == 0 {
		return 0
	}
	passed := max(0, now.Sub(a.echoedAt))
	hours, rest := int(passed/time.Hour), int((passed % time.Hour).Milliseconds())
	leaked := hours*leakPerHour*Echo + rest*leakPerHour*Echo/int(time.Hour.Milliseconds())
	return max(0, a.echoes-leaked)
}

// EchoesOf returns how much a message from an agent to these adds to its count: one
// for every eight begun, if it can be an echo of something that it was given. A
// first reply adds nothing; first is what [State.FirstReply] returns for the message.
func (s *State) EchoesOf(from protocol.AgentID, to []protocol.AgentID, first protocol.Seq) int {
	if a := s.Agents[from]; a == nil || a.tokens == 0 || first != 0 || !s.CountsAsAgent(from) {
		return 0
	}
	return (s.counting(to) + 7) / 8 * Echo
}

// FirstReply returns the event of the message that a reply answers, if that is not
// itself a reply and its sender has not answered it before; else zero.
func (s *State) FirstReply(from protocol.AgentID, to []protocol.AgentID, inReplyTo protocol.MessageID) protocol.Seq {
	p := s.answered(from, to, inReplyTo)
	number := s.roll.numbers[from]
	if p == nil || p.reply || number == 0 || long(p.from) == number {
		return 0
	}
	of := p.of.seq()
	if s.replied.get(repliedKey(number, of)) != nil {
		return 0
	}
	return of
}

// repliedKey returns the key of a message and an agent that answered it.
func repliedKey(agent uint32, of protocol.Seq) uint64 { return uint64(agent)<<40 ^ uint64(of) }

// Words returns how many messages from human reset counts within the last hour.
func (s *State) Words(now time.Time) int {
	n := 0
	for _, at := range s.words {
		if now.Sub(at.time()) < time.Hour {
			n++
		}
	}
	return n
}

// echo folds a message into the counts of its sender and its recipients.
func (s *State) echo(ev protocol.Event, e *protocol.MessageEvent) {
	switch {
	case e.From == protocol.Hive:
		return
	case !s.CountsAsAgent(e.From):
		s.word(ev, e.Delivered)
		return
	}
	to := s.counting(e.Delivered)
	if a := s.Agents[e.From]; a != nil && to > 0 {
		a.tokens = max(0, a.tokens-1)
		if e.Echoes > 0 {
			a.echoes, a.echoedAt = e.Echoes, ev.TS
		}
	}
	if e.First != 0 {
		s.replied.put(repliedKey(s.roll.add(e.From), e.First))
		return
	}
	s.giveTokens(e.Delivered)
}

func (s *State) giveTokens(to []protocol.AgentID) {
	for _, id := range to {
		if a := s.Agents[id]; a != nil && s.CountsAsAgent(id) {
			a.tokens = min(tokensMost, a.tokens+1)
		}
	}
}

// word folds a message from a person: the counts of its recipients start at zero.
func (s *State) word(ev protocol.Event, to []protocol.AgentID) {
	if s.counting(to) == 0 {
		return
	}
	s.words = append(s.words, instantOf(ev.TS))
	s.words = slices.Delete(s.words, 0, max(0, len(s.words)-WordsAnHour))
	for _, id := range to {
		s.resetEchoes(id)
	}
}

// resetEchoes closes an agent's breaker and sets its count to zero.
func (s *State) resetEchoes(id protocol.AgentID) {
	if a := s.Agents[id]; a != nil {
		a.echoes, a.Stopped = 0, false
	}
}

// resetHuman lets messages from human reset counts again.
func (s *State) resetHuman() {
	s.HumanCounts, s.words = false, nil
	s.resetEchoes(protocol.Human)
}

// busyPair is how many messages two agents may send each other within a day,
// without a message from a person, before people are told.
const busyPair = 100

// pair counts what two agents sent each other since a day began.
type pair struct {
	since  instant
	n      uint32
	before uint32 // on the day before
}

// exchange counts a message between two agents.
func (s *State) exchange(from, to protocol.AgentID, at time.Time) {
	if from == to || !s.CountsAsAgent(from) || !s.CountsAsAgent(to) {
		return
	}
	key := pairOf(s.roll.add(from), s.roll.add(to))
	p := s.pairs.put(key)
	switch age := at.Sub(p.since.time()).Abs(); {
	case p.since == 0 || age >= 48*time.Hour:
		*p = pair{since: instantOf(at)}
	case age >= 24*time.Hour:
		*p = pair{since: p.since + instant(24*time.Hour), before: p.n}
	}
	if p.n++; p.n > busyPair {
		s.busy[key] = true
	}
}

// Busy is a pair of agents that write to each other very often.
type Busy struct {
	One, Other protocol.AgentID
	Messages   int // within a day
}

// BusyPairs returns the pairs with more than busyPair messages in a day in which no
// person took part, sorted by name.
func (s *State) BusyPairs(now time.Time) []Busy {
	var list []Busy
	for key := range s.busy {
		p := s.pairs.get(key)
		if p == nil {
			continue
		}
		n := p.n
		switch age := now.Sub(p.since.time()).Abs(); {
		case age >= 48*time.Hour:
			continue
		case age < 24*time.Hour:
			n = max(n, p.before)
		}
		if n > busyPair {
			one, other := s.roll.list[key>>32-1], s.roll.list[uint32(key)-1] //nolint:gosec // the two halves
			list = append(list, Busy{min(one, other), max(one, other), int(n)})
		}
	}
	slices.SortFunc(list, func(a, b Busy) int {
		return cmp.Or(cmp.Compare(a.One, b.One), cmp.Compare(a.Other, b.Other))
	})
	return list
}

func (a *Agent) encodeEchoes(out *sink) {
	out.flag(a.Stopped)
	out.number(uint64(a.echoes)) //nolint:gosec // not negative
	out.time(a.echoedAt)
	out.number(uint64(a.tokens)) //nolint:gosec // not negative
}

func (a *Agent) decodeEchoes(in *source) {
	a.Stopped = in.flag()
	a.echoes = int(in.number()) //nolint:gosec // checked at once
	in.check(a.echoes >= 0, "echoes are negative")
	a.echoedAt = in.time()
	a.tokens = int(in.short())
	in.check(a.tokens <= tokensMost, "an agent has too many tokens")
}

func (s *State) encodeEchoes(out *sink) {
	out.flag(s.HumanCounts)
	out.number(uint64(len(s.words)))
	for _, at := range s.words {
		out.instant(at)
	}
	encodeWindow(out, s.replied, func(*struct{}) {})
	out.number(uint64(len(s.busy)))
	for _, key := range slices.Sorted(maps.Keys(s.busy)) {
		out.fixed(key)
	}
}

func (s *State) decodeEchoes(in *source) {
	s.HumanCounts = in.flag()
	n := in.number()
	in.check(n <= WordsAnHour, "there are too many words of human")
	for ; n > 0 && in.err == nil; n-- {
		s.words = append(s.words, in.instant())
	}
	decodeWindow(in, s.replied, func(uint64, *struct{}) {})
	for n := in.number(); n > 0 && in.err == nil; n-- {
		key := in.fixed()
		a, b := uint32(key>>32), uint32(key) //nolint:gosec // the two halves
		in.check(a != 0 && pairOf(a, b) == key && s.knows(b), "a pair is of nobody")
		s.busy[key] = true
	}
}
