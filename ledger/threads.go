package ledger

import (
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"math"
	"slices"
	"time"

	"github.com/hived/hived/protocol"
)

// accepted is what is remembered of a message whose sender chose its id, by sender
// and id: ids of different senders never collide (spec §4.2).
type accepted struct {
	content [8]byte
	of      shortSeq
}

// Seen returns the event that accepted this id from this sender, and the first
// half of the [protocol.ContentHash] of its message; ok is false if none is
// remembered.
func (s *State) Seen(from protocol.AgentID, id protocol.MessageID) (of protocol.Seq, content [8]byte, ok bool) {
	a := s.ids.get(keyOf(string(from), string(id)))
	if a == nil {
		return 0, content, false
	}
	return a.of.seq(), a.content, true
}

// parent is what a reply needs to know of the message that it answers. The
// newest message of an id stands under the id alone. When another sender uses
// the id, the one before moves to its sender and the id, and the newest says
// whose it is. So an id that one sender used, as nearly all are, costs one entry.
type parent struct {
	of           shortSeq
	hops         [4]byte
	at           [4]byte // when it was accepted, as [secondsOf] says
	from, before [4]byte // numbers of the roll: who sent it, and who used the id before; zero: nobody
	conversation shortName
	reply        bool // it names what it answers
}

func short(n uint32) (b [4]byte) {
	binary.LittleEndian.PutUint32(b[:], n)
	return b
}

func long(b [4]byte) uint32 { return binary.LittleEndian.Uint32(b[:]) }

// conversation is what hop counting needs to know of a thread.
type conversation struct {
	restarted protocol.Seq // messages up to here count no hops any more
	to        []heard      // the newest message that each agent was given, by agent
	wide      heard        // the newest message to more than wideFrom agents, and who sent it
}

// heard is a message of a thread, and an agent that it concerns.
type heard struct {
	agent uint32 // of the roll
	hops  int32
	at    uint32 // when it was accepted, as [secondsOf] says
	of    shortSeq
}

func (h heard) seq() protocol.Seq { return h.of.seq() }

// hopsLeft is what a parent counts of its hops for a reply that comes now: one
// less for each full hour, because who takes hours to answer is in no loop.
func hopsLeft(hops, at uint32, now time.Time) int {
	hours := max(0, int64(secondsOf(now))-int64(at)) / int64(time.Hour/time.Second)
	return int(max(0, int64(hops)-hours))
}

// secondsOf is a time in seconds since 1970, to the year 2106.
func secondsOf(t time.Time) uint32 {
	return uint32(max(0, min(t.Unix(), math.MaxUint32)))
}

// wideFrom bounds what a thread costs in memory: a message to more agents than
// this counts as heard by everybody but its sender.
const wideFrom = 16

// given finds the message that an agent was given last.
func (c *conversation) given(agent uint32) (int, heard) {
	i, ok := slices.BinarySearchFunc(c.to, agent, func(h heard, agent uint32) int { return cmp.Compare(h.agent, agent) })
	if !ok {
		return i, heard{}
	}
	return i, c.to[i]
}

// heard returns the newest message that an agent was given, including those to many.
func (c *conversation) heard(agent uint32) heard {
	_, h := c.given(agent)
	if c.wide.agent != agent && c.wide.seq() > h.seq() {
		h = c.wide
	}
	return h
}

func (c *conversation) give(h heard) {
	i, old := c.given(h.agent)
	if old.agent == h.agent {
		c.to[i] = h
		return
	}
	if n := len(c.to); n == cap(c.to) { // append would double what mostly stays small
		c.to = append(make([]heard, 0, n+1+n/8), c.to...)
	}
	c.to = slices.Insert(c.to, i, h)
}

// Thread describes the message that a new one follows (spec §4.3).
type Thread struct {
	Known        bool
	Conversation protocol.ConversationID
	Hops         int // of the parent, less one for each full hour since
}

// Thread finds the parent of a message from this sender to these: what
// inReplyTo names, else the newest message of the conversation that the sender
// was given.
func (s *State) Thread(now time.Time, from protocol.AgentID, to []protocol.AgentID, inReplyTo protocol.MessageID, conv protocol.ConversationID) Thread {
	if p := s.answered(from, to, inReplyTo); p != nil {
		t := Thread{Known: true, Conversation: s.names.name(p.conversation), Hops: hopsLeft(long(p.hops), long(p.at), now)}
		if c := s.conversations.get(keyOf(string(t.Conversation))); c != nil && p.of.seq() <= c.restarted {
			t.Hops = 0
		}
		return t
	}
	if conv == "" {
		return Thread{}
	}
	c := s.conversations.get(keyOf(string(conv)))
	if c == nil {
		return Thread{}
	}
	h := c.heard(s.roll.numbers[from])
	if h.seq() == 0 {
		return Thread{}
	}
	t := Thread{Known: true, Conversation: conv}
	if h.seq() > c.restarted {
		t.Hops = hopsLeft(uint32(h.hops), h.at, now) //nolint:gosec // not negative
	}
	return t
}

// answered finds the message that a reply means, because several may have used
// its id: the newest that one of the recipients sent, else the sender's own,
// else the newest in a thread of which the sender was given something. What
// none of them had a part in is not meant.
func (s *State) answered(from protocol.AgentID, to []protocol.AgentID, id protocol.MessageID) *parent {
	if id == "" {
		return nil
	}
	newest := s.parents.get(keyOf(string(id)))
	if newest == nil {
		return nil
	}
	var best *parent
	for _, who := range to {
		if p := s.sentBy(who, id, newest); p != nil && (best == nil || p.of.seq() > best.of.seq()) {
			best = p
		}
	}
	if best == nil {
		best = s.sentBy(from, id, newest)
	}
	for p := newest; best == nil && p != nil; p = s.before(p, id) {
		c := s.conversations.get(keyOf(string(s.names.name(p.conversation))))
		if c != nil && c.heard(s.roll.numbers[from]).seq() != 0 {
			best = p
		}
	}
	return best
}

// sentBy returns the message with an id from one sender, given the newest with
// that id.
func (s *State) sentBy(who protocol.AgentID, id protocol.MessageID, newest *parent) *parent {
	switch n := s.roll.numbers[who]; {
	case n == 0:
		return nil
	case long(newest.from) == n:
		return newest
	case long(newest.before) == 0:
		return nil
	}
	return s.parents.get(keyOf(string(who), string(id)))
}

// before returns the message from another sender that had the id before this one.
func (s *State) before(p *parent, id protocol.MessageID) *parent {
	n := long(p.before)
	if n == 0 {
		return nil
	}
	old := s.parents.get(keyOf(string(s.roll.list[n-1]), string(id)))
	if old == nil || old.of.seq() >= p.of.seq() { // that sender used it again since
		return nil
	}
	return old
}

// KnowsConversation reports whether the State remembers a thread of that name.
func (s *State) KnowsConversation(conv protocol.ConversationID) bool {
	return s.conversations.get(keyOf(string(conv))) != nil || s.stopped[conv] != nil
}

func (s *State) thread(conv protocol.ConversationID) *conversation {
	return s.conversations.put(keyOf(string(conv)))
}

// restart makes the hops of a conversation, and what those who take part in it
// sent each other, count from zero.
func (s *State) restart(conv protocol.ConversationID) {
	c := s.thread(conv)
	c.restarted = s.Seq
	s.tellAnew(conv)
	for i, a := range c.to {
		for _, b := range c.to[:i] {
			if p := s.pairs.get(pairOf(a.agent, b.agent)); p != nil {
				*p = pair{}
				delete(s.busy, pairOf(a.agent, b.agent))
			}
		}
	}
}

// remember folds what later messages are compared with.
func (s *State) remember(ev protocol.Event, e *protocol.MessageEvent) {
	if sum, err := hex.DecodeString(e.Content); err == nil && len(sum) == 16 {
		s.accept(e.From, e.ID, [16]byte(sum))
	}
	if e.From == protocol.Hive {
		return
	}
	hops := clampHops(e.Hops - e.Claimed)
	from := s.roll.add(e.From)
	s.follow(from, e.ID, e.Conversation, hops, e.InReplyTo != "")
	if e.From == protocol.Human && !s.HumanCounts {
		s.restart(e.Conversation)
	}
	c := s.thread(e.Conversation)
	if len(e.Delivered) > wideFrom {
		c.wide = heard{from, hops, secondsOf(ev.TS), shorten(ev.Seq)}
		return
	}
	for _, id := range e.Delivered {
		c.give(heard{s.roll.add(id), hops, secondsOf(ev.TS), shorten(ev.Seq)})
		s.exchange(e.From, id, ev.TS)
	}
}

// accept remembers an id that its sender chose.
func (s *State) accept(from protocol.AgentID, id protocol.MessageID, content [16]byte) {
	*s.ids.put(keyOf(string(from), string(id))) = accepted{[8]byte(content[:8]), shorten(s.Seq)}
}

// follow remembers a message that can be answered. A sender is nobody where an
// adopted message names none.
func (s *State) follow(from uint32, id protocol.MessageID, conv protocol.ConversationID, hops int32, reply bool) {
	name := s.names.use(conv)
	p := s.parents.put(keyOf(string(id)))
	old := *p
	*p = parent{of: shorten(s.Seq), hops: short(uint32(hops)), at: short(secondsOf(s.TS)), from: short(from), before: old.before, conversation: name, reply: reply} //nolint:gosec // not negative
	if n := long(old.from); n == 0 || n == from {
		s.names.release(old.conversation)
		return
	}
	p.before = old.from
	p = s.parents.put(keyOf(string(s.roll.list[long(old.from)-1]), string(id)))
	s.names.release(p.conversation)
	*p = old
}

// clampHops keeps what the codecs of messages allow (spec §2).
func clampHops(n int) int32 { return int32(max(0, min(n, math.MaxInt32))) }

func (s *State) rememberAdopted(seq protocol.Seq, f *protocol.AdoptedFile, owner protocol.AgentID, box string) {
	if f.From != "" && box == protocol.SentDir(owner) {
		if m, err := protocol.DecodeMessage(f.Content.Bytes()); err == nil {
			s.accept(f.From, f.ID, protocol.ContentHash(m))
		}
	}
	hops := clampHops(f.Hops)
	var from uint32
	if f.From != "" {
		from = s.roll.add(f.From)
	}
	s.follow(from, f.ID, f.Conversation, hops, false)
	if f.Conversation != "" && box != protocol.SentDir(owner) {
		c := s.thread(f.Conversation)
		agent := s.roll.add(owner)
		if _, h := c.given(agent); h.hops <= hops {
			c.give(heard{agent, hops, secondsOf(s.TS), shorten(seq)})
		}
	}
}

// pairOf is the key of two agents of the roll; zero where one is nobody.
func pairOf(a, b uint32) uint64 {
	if a > b {
		a, b = b, a
	}
	if a == 0 {
		return 0
	}
	return uint64(a)<<32 | uint64(b)
}
