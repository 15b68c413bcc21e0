package ledger

import (
	"iter"
	"slices"
	"time"

	"github.com/hived/hived/protocol"
)

// Talk is a conversation, as far as the State remembers it.
type Talk struct {
	Conversation protocol.ConversationID
	Last         protocol.Seq       // the event that accepted its newest message
	At           time.Time          // when that was, to the second
	From         protocol.AgentID   // who sent it; nobody: an adopted one that names no sender
	Hops         int                // of the same
	To           []protocol.AgentID // who was given a message of it, in name order; one to many names nobody
	Kept         int                // messages of it that wait until somebody lets it go on
}

// Talks returns an iterator over the conversations, that with the newest message
// first. Messages from hived do not count. A conversation whose message lost its id to
// another sender's counts as of that other message. It looks no further back than the
// caller iterates.
func (s *State) Talks() iter.Seq[Talk] {
	return func(yield func(Talk) bool) {
		seen := map[shortName]bool{}
		for i := s.parents.next; i > s.parents.first; i-- {
			e := s.parents.at(i - 1)
			if e.is(0) || seen[e.value.conversation] {
				continue
			}
			seen[e.value.conversation] = true
			if t := s.talk(e.value); t.Conversation != "" && !yield(t) {
				return
			}
		}
	}
}

// talk returns the conversation of its newest message.
func (s *State) talk(p parent) Talk {
	t := Talk{Conversation: s.names.name(p.conversation), Last: p.of.seq(), At: time.Unix(int64(long(p.at)), 0).UTC(), Hops: int(long(p.hops))}
	if from := long(p.from); from > 0 {
		t.From = s.roll.list[from-1]
	}
	if c := s.conversations.get(keyOf(string(t.Conversation))); c != nil {
		for _, h := range c.to {
			t.To = append(t.To, s.roll.list[h.agent-1])
		}
		slices.Sort(t.To)
	}
	if st := s.stopped[t.Conversation]; st != nil {
		t.Kept = len(st.mail)
	}
	return t
}
