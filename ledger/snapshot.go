package ledger

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/hived/hived/protocol"
)

// magic begins a snapshot and names its version, which changes with any change of
// what follows.
const magic = "hived-snapshot-20\n"

// Encode writes a snapshot: the whole State at its event Seq, whose line in
// the log has that sum. The same State gives the same bytes. Nothing is held in
// memory but a buffer.
//
// A snapshot is a cache of the log up to one event. It is believed only if the
// log holds that event with that sum, and never about anything behind it, which
// is folded (spec §3, recovery). So a State that is ahead of the durable log
// may be written: should the log lose the event, the snapshot counts for
// nothing.
func (s *State) Encode(w io.Writer, sum protocol.Sum) error {
	out := newSink(w)
	out.text(magic)
	out.number(uint64(s.ids.most))           //nolint:gosec // not negative
	out.number(uint64(s.conversations.most)) //nolint:gosec // not negative
	out.bytes(sum[:])
	s.encodeHive(out)
	out.number(uint64(len(s.roll.list)))
	for _, id := range s.roll.list {
		out.text(string(id))
	}
	roster := s.Roster()
	out.number(uint64(len(roster)))
	for _, a := range roster {
		a.encode(out)
	}
	out.number(uint64(len(s.Files)))
	for _, p := range slices.Sorted(maps.Keys(s.Files)) {
		f := s.Files[p]
		out.text(p)
		out.bytes(f.Blob[:])
		out.time(f.At)
	}
	out.number(uint64(s.Tasks.Len()) + 1) //nolint:gosec // not negative
	for record := range s.Tasks.Records() {
		out.long(record)
	}
	s.encodeTroubles(out)
	s.encodeCauses(out)
	s.encodeWindows(out)
	s.encodeStopped(out)
	s.encodeEchoes(out)
	if err := out.close(); err != nil {
		return fmt.Errorf("write a snapshot: %w", err)
	}
	return nil
}

// Decode reads a snapshot and returns the State and the sum of its event. It is an
// error if the snapshot was cut, changed, or made by another version or with other
// settings: a smaller window is not the end of a larger one, since a name that was
// forgotten begins anew. The log has everything: fold it instead.
func Decode(r io.Reader, remember protocol.RememberSettings) (*State, protocol.Sum, error) {
	in := newSource(r)
	s, sum, err := decode(in, remember)
	if err == nil {
		err = in.close()
	}
	if err != nil {
		return nil, protocol.Sum{}, fmt.Errorf("read a snapshot: %w: fold the log instead", err)
	}
	return s, sum, nil
}

func decode(in *source, remember protocol.RememberSettings) (*State, protocol.Sum, error) {
	var sum protocol.Sum
	if in.text() != magic {
		return nil, sum, errors.Join(in.err, errors.New("it does not begin like one of this version"))
	}
	if ids, conversations := int(in.number()), int(in.number()); in.err == nil && (ids != remember.IDs || conversations != remember.Conversations) { //nolint:gosec // only compared
		return nil, sum, fmt.Errorf("it was made with remember.ids %d and remember.conversations %d, and the settings say %d and %d", ids, conversations, remember.IDs, remember.Conversations)
	}
	s := New(remember)
	in.bytes(sum[:])
	s.decodeHive(in)
	for n := in.number(); n > 0 && in.err == nil; n-- {
		known := len(s.roll.list)
		s.roll.add(protocol.AgentID(in.text()))
		in.check(len(s.roll.list) > known, "an agent is numbered twice")
	}
	last := protocol.AgentID("")
	for n := in.number(); n > 0 && in.err == nil; n-- {
		a := decodeAgent(in)
		in.check(len(s.Agents) == 0 || a.ID > last, "its agents are in no order")
		s.Agents[a.ID], last = a, a.ID
	}
	path := ""
	for n := in.number(); n > 0 && in.err == nil; n-- {
		p := in.text()
		in.check(len(s.Files) == 0 || p > path, "its files are in no order")
		var f FileVersion
		in.bytes(f.Blob[:])
		f.At = in.time()
		s.Files[p], path = f, p
	}
	s.decodeTasks(in)
	s.decodeTroubles(in)
	s.decodeCauses(in)
	s.decodeWindows(in)
	s.decodeStopped(in)
	s.decodeEchoes(in)
	return s, sum, in.err
}

func (s *State) decodeTasks(in *source) {
	n := in.number()
	in.check(n > 0, "what belongs to no task is missing")
	for ; n > 0 && in.err == nil; n-- {
		record := in.long()
		if in.err == nil {
			in.fail(s.Tasks.Restore(record))
		}
	}
}

func (s *State) encodeHive(out *sink) {
	out.number(uint64(s.Seq))
	out.time(s.TS)
	out.bytes(s.Newest[:])
	out.number(uint64(s.Settled))
	out.number(uint64(s.Format)) //nolint:gosec // not negative
	out.number(uint64(s.rosterAt))
	out.text(string(s.Lead))
	out.flag(s.GitPaused)
	out.flag(s.Running)
	out.text(s.Onto)
	for _, n := range s.Counts.all() {
		out.number(*n)
	}
}

func (s *State) decodeHive(in *source) {
	s.Seq = protocol.Seq(in.number())
	s.TS = in.time()
	in.bytes(s.Newest[:])
	s.Settled = protocol.Seq(in.number())
	s.Format = int(in.short())
	s.rosterAt = protocol.Seq(in.number())
	s.Lead = protocol.AgentID(in.text())
	s.GitPaused = in.flag()
	s.Running = in.flag()
	s.Onto = in.text()
	for _, n := range s.Counts.all() {
		*n = in.number()
	}
}

func (c *Counts) all() []*uint64 {
	return []*uint64{&c.Messages, &c.Deliveries, &c.Drops, &c.Handled, &c.Quarantines, &c.Duplicates, &c.Alerts}
}

func (a *Agent) encode(out *sink) {
	out.text(string(a.ID))
	out.text(a.Role)
	out.number(uint64(len(a.Caps)))
	for _, c := range a.Caps {
		out.text(c)
	}
	out.number(uint64(a.Slots))   //nolint:gosec // not negative
	out.number(uint64(a.Takes))   //nolint:gosec // not negative
	out.number(uint64(a.Missed))  //nolint:gosec // not negative
	out.number(uint64(a.Missing)) //nolint:gosec // not negative
	out.flag(a.Believed)
	out.long(a.Older)
	a.encodeEchoes(out)
	out.text(string(a.Status))
	out.time(a.Joined)
	for _, b := range []*Box{&a.Inbox, &a.Done, &a.Sent} {
		b.encode(out)
	}
	for _, n := range []uint64{a.Accepted, a.Delivered, a.Handled} {
		out.number(n)
	}
	out.instant(a.hinted)
	out.instant(a.misled)
	out.number(uint64(len(a.misspelt)))
	for _, field := range a.misspelt {
		out.text(field)
	}
	out.text(a.day)
	out.fixed(uint64(a.dayBytes)) //nolint:gosec // the same bits
}

func decodeAgent(in *source) *Agent {
	a := &Agent{ID: protocol.AgentID(in.text()), Role: in.text()}
	for n := in.number(); n > 0 && in.err == nil; n-- {
		a.Caps = append(a.Caps, in.text())
	}
	a.Slots = int(in.short())
	a.Takes = int(in.short())
	a.Missed = int(in.short())
	a.Missing = int(in.short())
	a.Believed = in.flag()
	a.Older = in.long()
	a.decodeEchoes(in)
	a.Status = Status(in.text())
	in.check(a.Status == Active || a.Status == OnHold || a.Status == Archived, "an agent has no status")
	a.Joined = in.time()
	for _, b := range []*Box{&a.Inbox, &a.Done, &a.Sent} {
		b.decode(in)
	}
	for _, n := range []*uint64{&a.Accepted, &a.Delivered, &a.Handled} {
		*n = in.number()
	}
	a.hinted = in.instant()
	a.misled = in.instant()
	n := in.number()
	in.check(n <= MisspeltMost, "an agent was told of too many fields")
	for ; n > 0 && in.err == nil; n-- {
		a.misspelt = append(a.misspelt, in.text())
	}
	a.day = in.text()
	a.dayBytes = int64(in.fixed()) //nolint:gosec // the same bits
	return a
}

func (b *Box) encode(out *sink) {
	out.number(uint64(b.count)) //nolint:gosec // not negative
	for _, page := range b.pages {
		out.bytes(page)
	}
}

// decode fills page after page, so that a box read from a snapshot has no more
// memory than it needs.
func (b *Box) decode(in *source) {
	var room [2 * pageSize]byte
	page, last := room[:0], boxName{}
	for n := in.number(); n > 0 && in.err == nil; n-- {
		from := len(page)
		var name boxName
		page, name = in.entry(page)
		if in.err != nil {
			return
		}
		in.check(b.count == 0 || last.compare(page[from:]) < 0, "a box is in no order")
		if from > 0 && len(page) > pageSize {
			b.pages = append(b.pages, slices.Clone(page[:from]))
			page = append(room[:0], page[from:]...)
		}
		last = name
		b.count++
	}
	if len(page) > 0 {
		b.pages = append(b.pages, slices.Clone(page))
	}
}

// entry appends the next entry of a box, if it is one as pack makes them.
func (in *source) entry(page []byte) ([]byte, boxName) {
	e := source{buf: in.take(in.number())}
	e.end = len(e.buf)
	var n boxName
	if n.made = e.flag(); n.made {
		e.bytes(n.id[:])
	} else {
		n.text = e.text()
	}
	what := e.byte()
	l := BoxFile{Of: protocol.Seq(e.number()), At: instant(e.fixed()).time()} //nolint:gosec // the same bits
	if what&hasContent != 0 {
		e.bytes(l.Blob[:])
		l.Size = int(e.number()) //nolint:gosec // held against what it came from
	}
	switch {
	case what&hasOwnID != 0:
		l.ID = protocol.MessageID(n.id.String())
	case what&hasID != 0:
		l.ID = protocol.MessageID(e.take(uint64(e.end - e.at))) //nolint:gosec // not negative
	}
	var room [256]byte
	held := pack(room[:0], n, l)
	in.check(e.err == nil && (n.made || !nameOf(n.text).made) && bytes.Equal(held, e.buf), "a box holds what is no entry")
	return withLength(page, held), n
}

func (s *State) encodeWindows(out *sink) {
	encodeWindow(out, s.ids, func(a *accepted) {
		out.bytes(a.content[:])
		out.bytes(a.of[:])
	})
	// Names are numbered in the order in which they come, and told once.
	numbers := make([]uint32, len(s.names.list))
	var told uint32
	encodeWindow(out, s.parents, func(p *parent) {
		out.bytes(p.of[:])
		out.bytes(p.hops[:])
		out.bytes(p.at[:])
		out.flag(p.reply)
		out.number(uint64(long(p.from)))
		out.number(uint64(long(p.before)))
		i, ok := p.conversation.number()
		if !ok {
			out.bytes(p.conversation[:])
			return
		}
		first := numbers[i] == 0
		if first {
			told++
			numbers[i] = told
		}
		short := numbered(numbers[i] - 1)
		out.bytes(short[:])
		if first {
			out.text(string(s.names.list[i].name))
		}
	})
	encodeWindow(out, s.conversations, func(c *conversation) {
		out.number(uint64(c.restarted))
		out.heard(c.wide)
		out.number(uint64(len(c.to)))
		for _, h := range c.to {
			out.heard(h)
		}
	})
	encodeWindow(out, s.pairs, func(p *pair) {
		out.number(uint64(p.n))
		out.number(uint64(p.before))
		out.instant(p.since)
	})
}

func (s *State) decodeWindows(in *source) {
	decodeWindow(in, s.ids, func(_ uint64, a *accepted) {
		in.bytes(a.content[:])
		in.bytes(a.of[:])
	})
	decodeWindow(in, s.parents, func(_ uint64, p *parent) { s.decodeParent(in, p) })
	decodeWindow(in, s.conversations, func(_ uint64, c *conversation) {
		c.restarted = protocol.Seq(in.number())
		c.wide = s.decodeHeard(in)
		for n := in.number(); n > 0 && in.err == nil; n-- {
			h := s.decodeHeard(in)
			in.check(h.agent != 0 && (len(c.to) == 0 || h.agent > c.to[len(c.to)-1].agent), "a conversation is in no order")
			c.to = append(c.to, h)
		}
	})
	decodeWindow(in, s.pairs, func(k uint64, p *pair) {
		a, b := uint32(k>>32), uint32(k) //nolint:gosec // the two halves
		in.check(pairOf(a, b) == k && s.knows(b), "a pair is of nobody")
		p.n = in.short()
		p.before = in.short()
		p.since = in.instant()
	})
}

// knows reports whether a number is one of the roll, or nobody's.
func (s *State) knows(agent uint32) bool { return int(agent) <= len(s.roll.list) }

func (s *State) decodeParent(in *source, p *parent) {
	in.bytes(p.of[:])
	in.bytes(p.hops[:])
	in.check(p.hops[3] < 1<<7, "hops are negative")
	in.bytes(p.at[:])
	p.reply = in.flag()
	from, before := in.short(), in.short()
	in.check(s.knows(from) && s.knows(before), "a message is of nobody")
	p.from, p.before = short(from), short(before)
	in.bytes(p.conversation[:])
	i, ok := p.conversation.number()
	if !ok || in.err != nil {
		return
	}
	told := uint32(len(s.names.list)) //nolint:gosec // one for each entry of a window at most
	if i == told {
		name := protocol.ConversationID(in.text())
		_, twice := s.names.numbers[name]
		in.check(!twice && s.names.use(name) == p.conversation, "a conversation has two names")
		return
	}
	in.check(i < told, "a conversation has no name")
	if in.err == nil {
		s.names.list[i].uses++
	}
}

func (out *sink) heard(h heard) {
	out.number(uint64(h.agent))
	out.number(uint64(h.hops)) //nolint:gosec // not negative
	out.number(uint64(h.at))
	out.bytes(h.of[:])
}

func (s *State) decodeHeard(in *source) heard {
	h := heard{agent: in.short(), hops: int32(in.short()), at: in.short()} //nolint:gosec // checked at once
	in.bytes(h.of[:])
	in.check(s.knows(h.agent) && h.hops >= 0, "somebody heard what nobody said")
	return h
}

func encodeWindow[V any](out *sink, w *window[V], value func(*V)) {
	out.number(uint64(w.live)) //nolint:gosec // not negative
	for k, v := range w.all() {
		out.fixed(k)
		value(v)
	}
}

func decodeWindow[V any](in *source, w *window[V], value func(uint64, *V)) {
	n := in.number()
	in.check(n <= uint64(w.most), "a window holds too much") //nolint:gosec // not negative
	for range n {
		var v V
		k := in.fixed()
		value(k, &v)
		if in.check(k != 0, "a window holds nothing"); in.err != nil {
			return
		}
		w.append(k, v)
	}
	if n > 0 {
		in.check(w.reindex(), "a window holds a key twice")
	}
}
