package ledger

import (
	"encoding/hex"
	"slices"
	"time"

	"github.com/hived/hived/protocol"
)

// nameKey is a sender and an id that it chose: ids of different senders never
// collide (spec §4.2).
type nameKey struct {
	from protocol.AgentID
	id   protocol.MessageID
}

// accepted is what is remembered of a message with a chosen id.
type accepted struct {
	of      protocol.Seq
	content [16]byte
}

// Seen gives the event that accepted this id of this sender, and the hash of
// what it said.
func (s *State) Seen(from protocol.AgentID, id protocol.MessageID) (of protocol.Seq, content [16]byte, ok bool) {
	a, ok := s.ids.get(nameKey{from, id})
	return a.of, a.content, ok
}

// parent is what a reply needs to know of the message that it answers. Where
// several senders used one id, the newest stands.
type parent struct {
	of           protocol.Seq
	conversation protocol.ConversationID
	hops         int
}

// conversation is what hop counting needs to know of a thread.
type conversation struct {
	restarted protocol.Seq // messages up to here count no hops any more
	told      time.Time    // of the last notice about the hop cap
	to        map[protocol.AgentID]heard
	wide      heard            // the newest message to more than wideFrom agents
	wideBy    protocol.AgentID // and who sent it
}

// heard is the newest message of a thread that an agent was given.
type heard struct {
	of   protocol.Seq
	hops int
}

// wideFrom bounds what a thread costs in memory: a message to more agents than
// this counts as heard by everybody but its sender.
const wideFrom = 16

// Thread is what is known of the message that a new one follows (spec §4.3).
type Thread struct {
	Known        bool
	Conversation protocol.ConversationID
	Hops         int // of the parent
}

// Thread finds the parent of a message from this sender: inReplyTo, else the
// newest message of the conversation that the sender was given.
func (s *State) Thread(from protocol.AgentID, inReplyTo protocol.MessageID, conv protocol.ConversationID) Thread {
	if inReplyTo != "" {
		if p, ok := s.parents.get(inReplyTo); ok {
			t := Thread{Known: true, Conversation: p.conversation, Hops: p.hops}
			if c, ok := s.conversations.get(p.conversation); ok && p.of <= c.restarted {
				t.Hops = 0
			}
			return t
		}
	}
	if conv == "" {
		return Thread{}
	}
	c, ok := s.conversations.get(conv)
	if !ok {
		return Thread{}
	}
	h := c.to[from]
	if c.wideBy != from && c.wide.of > h.of {
		h = c.wide
	}
	if h.of == 0 {
		return Thread{}
	}
	if h.of <= c.restarted {
		h.hops = 0
	}
	return Thread{Known: true, Conversation: conv, Hops: h.hops}
}

// Told gives the time of the last notice about the hop cap in a conversation.
func (s *State) Told(conv protocol.ConversationID) time.Time {
	if c, ok := s.conversations.get(conv); ok {
		return c.told
	}
	return time.Time{}
}

// KnowsConversation tells whether a thread of that name is remembered.
func (s *State) KnowsConversation(conv protocol.ConversationID) bool {
	_, ok := s.conversations.get(conv)
	return ok
}

func (s *State) thread(conv protocol.ConversationID) *conversation {
	c, ok := s.conversations.get(conv)
	if !ok {
		c = &conversation{to: map[protocol.AgentID]heard{}}
	}
	s.conversations.put(conv, c)
	return c
}

// restart makes the hops of a conversation, and the alternations of those who
// take part in it, count from zero.
func (s *State) restart(conv protocol.ConversationID) {
	c := s.thread(conv)
	c.restarted, c.told = s.Seq, time.Time{}
	for a := range c.to {
		for b := range c.to {
			if p, ok := s.pairs.get(pairOf(a, b)); ok {
				*p = pair{}
			}
		}
	}
}

// remember folds what later messages are judged by.
func (s *State) remember(ev protocol.Event, e *protocol.MessageEvent) {
	if sum, err := hex.DecodeString(e.Content); err == nil && len(sum) == 16 {
		s.ids.put(nameKey{e.From, e.ID}, accepted{ev.Seq, [16]byte(sum)})
	}
	if e.From == protocol.Hive {
		return
	}
	s.parents.put(e.ID, parent{ev.Seq, e.Conversation, e.Hops})
	if e.From == protocol.Human {
		s.restart(e.Conversation)
	}
	c := s.thread(e.Conversation)
	if len(e.Delivered) > wideFrom {
		c.wide, c.wideBy = heard{ev.Seq, e.Hops}, e.From
		return
	}
	for _, id := range e.Delivered {
		c.to[id] = heard{ev.Seq, e.Hops}
		s.alternate(e.From, id, ev.TS)
	}
}

func (s *State) rememberAdopted(seq protocol.Seq, f *protocol.AdoptedFile, owner protocol.AgentID, box string) {
	if f.From != "" && box == protocol.SentDir(owner) {
		if m, err := protocol.DecodeMessage(f.Content.Bytes()); err == nil {
			s.ids.put(nameKey{f.From, f.ID}, accepted{seq, protocol.ContentHash(m)})
		}
	}
	s.parents.put(f.ID, parent{seq, f.Conversation, f.Hops})
	if f.Conversation != "" && box != protocol.SentDir(owner) {
		c := s.thread(f.Conversation)
		if h := c.to[owner]; h.hops <= f.Hops {
			c.to[owner] = heard{seq, f.Hops}
		}
	}
}

// pairKey is two agents, the smaller id first.
type pairKey struct{ a, b protocol.AgentID }

func pairOf(a, b protocol.AgentID) pairKey {
	if a > b {
		a, b = b, a
	}
	return pairKey{a, b}
}

// pair counts how often two agents took turns since an hour began.
type pair struct {
	last  protocol.AgentID // who sent last
	since time.Time        // when the hour began
	turns int
	told  time.Time
}

// Turns tells how often these two took turns within the hour, and when they
// were told that it was too often.
func (s *State) Turns(a, b protocol.AgentID, now time.Time) (turns int, told time.Time) {
	p, ok := s.pairs.get(pairOf(a, b))
	if !ok || now.Sub(p.since).Abs() >= time.Hour {
		return 0, time.Time{}
	}
	return p.turns, p.told
}

// alternate counts a turn where the other of two agents sent last. People and
// the coordinator take no part in loops.
func (s *State) alternate(from, to protocol.AgentID, at time.Time) {
	if from == to || slices.Contains([]protocol.AgentID{protocol.Human, protocol.Hive}, from) || to == protocol.Human || to == protocol.Hive {
		return
	}
	k := pairOf(from, to)
	p, ok := s.pairs.get(k)
	if !ok || at.Sub(p.since).Abs() >= time.Hour {
		p = &pair{since: at}
	}
	if p.last != "" && p.last != from {
		p.turns++
	}
	p.last = from
	s.pairs.put(k, p)
}

// told notes that somebody was told why a thread stands still.
func (s *State) told(ev protocol.Event, e *protocol.DropEvent) {
	switch e.Reason {
	case protocol.HopCap:
		s.thread(e.Conversation).told = ev.TS
	case protocol.PairCap:
		for _, to := range e.To {
			if p, ok := s.pairs.get(pairOf(e.From, protocol.AgentID(to))); ok {
				p.told = ev.TS
			}
		}
	case protocol.NoInbox, protocol.InboxFull, protocol.Expired:
	}
}
