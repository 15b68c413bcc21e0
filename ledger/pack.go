package ledger

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"math"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/hived/hived/protocol"
)

// instant is a time in nanoseconds since 1970, zero for none: a third of a
// time.Time, and no pointer. It ends in the year 2262.
type instant int64

func instantOf(t time.Time) instant {
	const last = math.MaxInt64 / int64(time.Second)
	switch s := t.Unix(); {
	case t.IsZero():
		return 0
	case s >= last:
		return math.MaxInt64
	case s <= -last:
		return math.MinInt64
	}
	return instant(t.UnixNano())
}

func (i instant) time() time.Time {
	if i == 0 {
		return time.Time{}
	}
	return time.Unix(0, int64(i)).UTC()
}

// shortSeq is a sequence number in six bytes, enough for nine hundred years at
// ten thousand events a second.
type shortSeq [6]byte

func shorten(s protocol.Seq) shortSeq {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], uint64(s))
	return shortSeq(b[:6])
}

func (s shortSeq) seq() protocol.Seq {
	var b [8]byte
	copy(b[:], s[:])
	return protocol.Seq(binary.LittleEndian.Uint64(b[:]))
}

// keyOf returns the key of one or more names in a window: 64 bits of their
// SHA-256, the same on every machine. A new name shares its key with one of a
// million others once in 2^44 messages. An agent can find collisions with its own
// names, and with much work with those of others; [State] says what follows.
func keyOf(names ...string) uint64 {
	var room [256]byte
	b := room[:0]
	for i, s := range names {
		if i > 0 {
			b = append(b, 0) // stands in no id
		}
		b = append(b, s...)
	}
	sum := sha256.Sum256(b)
	return max(1, binary.LittleEndian.Uint64(sum[:])) // zero is no key of a window
}

// parseULID reads an id of the form that hived writes, and no other.
func parseULID(s string) (id ulid.ULID, ok bool) {
	if len(s) != ulid.EncodedSize {
		return id, false
	}
	id, err := ulid.ParseStrict(s)
	if err != nil {
		return id, false
	}
	var text [ulid.EncodedSize]byte
	_ = id.MarshalTextTo(text[:]) // it has the size that it wants
	return id, string(text[:]) == s
}

// shortName is a conversation's name in sixteen bytes: what follows conv- of a
// name that hived made, else unnamed and a number of names.
type shortName [16]byte

const madeConversation = "conv-"

// unnamed begins no ULID of the next 8,000 years.
var unnamed = [...]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0}

func numbered(n uint32) (s shortName) {
	copy(s[:], unnamed[:])
	binary.LittleEndian.PutUint32(s[len(unnamed):], n)
	return s
}

func (s shortName) number() (uint32, bool) {
	return binary.LittleEndian.Uint32(s[len(unnamed):]), bytes.HasPrefix(s[:], unnamed[:])
}

// names holds the names of conversations that agents chose, each once and as
// long as a message is remembered that belongs there.
type names struct {
	numbers map[protocol.ConversationID]uint32
	list    []usedName
	free    []uint32
}

type usedName struct {
	name protocol.ConversationID
	uses uint32
}

// use returns the short form of a name, which is to be released in the end.
func (n *names) use(name protocol.ConversationID) shortName {
	if id, made := strings.CutPrefix(string(name), madeConversation); made {
		if id, ok := parseULID(id); ok && !bytes.HasPrefix(id[:], unnamed[:]) {
			return shortName(id)
		}
	}
	i, ok := n.numbers[name]
	if !ok {
		i = n.add(name)
	}
	n.list[i].uses++
	return numbered(i)
}

func (n *names) add(name protocol.ConversationID) uint32 {
	name = protocol.ConversationID(strings.Clone(string(name))) // it may be a part of something large
	i := uint32(len(n.list))                                    //nolint:gosec // no more than a window has entries
	if last := len(n.free) - 1; last >= 0 {
		i = n.free[last]
		n.free = n.free[:last]
		n.list[i].name = name
	} else {
		n.list = append(n.list, usedName{name: name})
	}
	if n.numbers == nil {
		n.numbers = map[protocol.ConversationID]uint32{}
	}
	n.numbers[name] = i
	return i
}

func (n *names) release(s shortName) {
	i, ok := s.number()
	if !ok {
		return
	}
	u := &n.list[i]
	if u.uses--; u.uses == 0 {
		delete(n.numbers, u.name)
		u.name = ""
		n.free = append(n.free, i)
	}
}

func (n *names) name(s shortName) protocol.ConversationID {
	if i, ok := s.number(); ok {
		return n.list[i].name
	}
	return protocol.ConversationID(madeConversation + ulid.ULID(s).String())
}

// roll numbers agents from 1 in the order in which messages name them. Zero is
// nobody. It grows with the roster: messages name nobody else.
type roll struct {
	numbers map[protocol.AgentID]uint32
	list    []protocol.AgentID
}

func (r *roll) add(id protocol.AgentID) uint32 {
	if n := r.numbers[id]; n != 0 {
		return n
	}
	if r.numbers == nil {
		r.numbers = map[protocol.AgentID]uint32{}
	}
	r.list = append(r.list, id)
	n := uint32(len(r.list)) //nolint:gosec // no more than a hive has agents
	r.numbers[id] = n
	return n
}
