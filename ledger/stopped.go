package ledger

import (
	"maps"
	"slices"
	"time"

	"github.com/hived/hived/protocol"
)

// What is kept is bounded: so many messages of one thread, and of all threads.
const (
	KeptOfThread = 1000
	KeptOfHive   = 100_000
)

// idsOfStops bounds how many ids of stopped messages one notice lists.
const idsOfStops = 50

// tellEvery is how often, after the first time, a sender is told which of its
// messages were stopped in a thread, and a person that any were (spec §4.3).
const tellEvery = time.Hour

// stopped is a thread in which a cap stopped messages.
type stopped struct {
	mail    []Kept // oldest first
	going   int    // of these, from the first: they are to be delivered
	senders map[protocol.AgentID]*stops
	person  instant // a person was told
}

// stops is what one sender was told about its messages that were stopped in a thread.
type stops struct {
	told instant
	rest []protocol.MessageID // that it was not told about, at most idsOfStops
	more int                  // besides them
}

// Kept is a message that is kept until its thread goes on.
type Kept struct {
	Of           protocol.Seq
	Conversation protocol.ConversationID
	From         protocol.AgentID
	To           []protocol.AgentID
}

// CanKeep reports whether one more message of a thread may be kept.
func (s *State) CanKeep(conv protocol.ConversationID) bool {
	st := s.stopped[conv]
	return s.kept < KeptOfHive && (st == nil || len(st.mail) < KeptOfThread)
}

// Kept returns how many messages are kept, by thread.
func (s *State) Kept() map[protocol.ConversationID]int {
	all := map[protocol.ConversationID]int{}
	for conv, st := range s.stopped {
		if len(st.mail) > 0 {
			all[conv] = len(st.mail)
		}
	}
	return all
}

// Keeps reports whether a message is kept for an agent.
func (s *State) Keeps(of protocol.Seq, conv protocol.ConversationID, to protocol.AgentID) bool {
	st := s.stopped[conv]
	return st != nil && slices.ContainsFunc(st.mail, func(k Kept) bool { return k.Of == of && slices.Contains(k.To, to) })
}

// TellStop reports whether the sender of a message that is being stopped must be
// told at once, and whether a person must.
func (s *State) TellStop(now time.Time, conv protocol.ConversationID, from protocol.AgentID) (sender, person bool) {
	st := s.stopped[conv]
	if st == nil {
		return true, true
	}
	return st.senders[from] == nil, due(st.person, now)
}

func due(told instant, now time.Time) bool {
	return told == 0 || now.Sub(told.time()).Abs() >= tellEvery
}

// Stops is what a sender was not told yet about its stopped messages of a thread.
type Stops struct {
	Conversation protocol.ConversationID
	From         protocol.AgentID
	IDs          []protocol.MessageID
	More         int // besides these
}

// StopsVersion returns a number that changes whenever the result of [State.StopsDue]
// may change, other than with the time.
func (s *State) StopsVersion() uint64 { return s.stopsVersion }

// StopsDue returns what senders must be told now, in a fixed order, and when the
// next one is due; zero if none is.
func (s *State) StopsDue(now time.Time) (list []Stops, next time.Time) {
	for _, conv := range slices.Sorted(maps.Keys(s.stopped)) {
		st := s.stopped[conv]
		for _, from := range slices.Sorted(maps.Keys(st.senders)) {
			x := st.senders[from]
			if len(x.rest) == 0 {
				continue
			}
			if at := x.told.time().Add(tellEvery); x.told != 0 && now.Before(at) {
				if next.IsZero() || at.Before(next) {
					next = at
				}
				continue
			}
			list = append(list, Stops{conv, from, slices.Clone(x.rest), x.more})
		}
	}
	return list, next
}

// GoingOn returns the kept messages to be delivered next, at most most of them.
func (s *State) GoingOn(most int) []Kept {
	var list []Kept
	for _, conv := range s.goingOn {
		st := s.stopped[conv]
		list = append(list, st.mail[:min(st.going, most-len(list))]...)
		if len(list) == most {
			break
		}
	}
	return list
}

func (s *State) stop(conv protocol.ConversationID) *stopped {
	st := s.stopped[conv]
	if st == nil {
		st = &stopped{senders: map[protocol.AgentID]*stops{}}
		s.stopped[conv] = st
	}
	return st
}

// keep notes a message that is kept.
func (s *State) keep(ev protocol.Event, e *protocol.MessageEvent) {
	st := s.stop(e.Conversation)
	st.mail = append(st.mail, Kept{ev.Seq, e.Conversation, e.From, e.Kept.To})
	s.kept++
	if e.Kept.Told {
		st.toldPerson(ev.TS)
	}
	s.note(st, ev, e.From, e.ID)
}

// stops notes a drop in a thread that is stopped, and a kept message
// that was dropped in the end.
func (s *State) stops(ev protocol.Event, e *protocol.DropEvent) {
	st := s.stopped[e.Conversation]
	if st == nil {
		return
	}
	if e.Reason == protocol.HopCap {
		if e.Told {
			st.toldPerson(ev.TS)
		}
		s.note(st, ev, e.From, e.ID)
		return
	}
	to := make([]protocol.AgentID, len(e.To))
	for i, id := range e.To {
		to[i] = protocol.AgentID(id)
	}
	s.release(e.Of, e.Conversation, to)
}

// toldPerson notes that a person was told together with a sender, if that was due.
func (st *stopped) toldPerson(at time.Time) {
	if due(st.person, at) {
		st.person = instantOf(at)
	}
}

// note records what a sender was told.
func (s *State) note(st *stopped, ev protocol.Event, from protocol.AgentID, id protocol.MessageID) {
	s.stopsVersion++
	x := st.senders[from]
	switch {
	case x == nil:
		st.senders[from] = &stops{told: instantOf(ev.TS)}
	case len(x.rest) < idsOfStops:
		x.rest = append(x.rest, id)
	default:
		x.more++
	}
}

// toldOfStops folds a notice that told a sender about the rest.
func (s *State) toldOfStops(ev protocol.Event, e *protocol.MessageEvent) {
	st := s.stopped[e.Conversation]
	if st == nil || len(e.To) != 1 {
		return
	}
	if x := st.senders[protocol.AgentID(e.To[0])]; x != nil {
		*x = stops{told: instantOf(ev.TS)}
		s.stopsVersion++
	}
}

// tellAnew makes the next stop in a thread be reported at once.
func (s *State) tellAnew(conv protocol.ConversationID) {
	st := s.stopped[conv]
	if st == nil {
		return
	}
	s.stopsVersion++
	st.person = 0
	maps.DeleteFunc(st.senders, func(_ protocol.AgentID, x *stops) bool { return len(x.rest) == 0 })
}

// letGoOn queues the kept messages of a thread for delivery. Its senders need not
// be told about them any more.
func (s *State) letGoOn(conv protocol.ConversationID) {
	st := s.stopped[conv]
	if st == nil {
		return
	}
	s.stopsVersion++
	clear(st.senders)
	if st.going == 0 && len(st.mail) > 0 {
		s.goingOn = append(s.goingOn, conv)
	}
	st.going = len(st.mail)
	s.forgetStopped(conv)
}

// release notes what became of a kept message for some of its recipients.
func (s *State) release(of protocol.Seq, conv protocol.ConversationID, to []protocol.AgentID) {
	st := s.stopped[conv]
	if st == nil {
		return
	}
	i := slices.IndexFunc(st.mail, func(k Kept) bool { return k.Of == of })
	if i < 0 {
		return
	}
	k := &st.mail[i]
	k.To = slices.DeleteFunc(slices.Clone(k.To), func(id protocol.AgentID) bool { return slices.Contains(to, id) })
	if len(k.To) > 0 {
		return
	}
	st.mail = slices.Delete(st.mail, i, i+1)
	s.kept--
	if i < st.going {
		st.going--
		if st.going == 0 {
			s.goingOn = slices.DeleteFunc(s.goingOn, func(c protocol.ConversationID) bool { return c == conv })
		}
	}
	s.forgetStopped(conv)
}

// forgetStopped forgets a thread in which nothing is kept and about which nobody
// has to be told anything.
func (s *State) forgetStopped(conv protocol.ConversationID) {
	if st := s.stopped[conv]; st != nil && len(st.mail) == 0 && len(st.senders) == 0 {
		delete(s.stopped, conv)
	}
}

func (s *State) encodeStopped(out *sink) {
	out.number(uint64(len(s.stopped)))
	for _, conv := range slices.Sorted(maps.Keys(s.stopped)) {
		st := s.stopped[conv]
		out.text(string(conv))
		out.number(uint64(st.going)) //nolint:gosec // not negative
		out.instant(st.person)
		out.number(uint64(len(st.mail)))
		for _, k := range st.mail {
			out.number(uint64(k.Of))
			out.text(string(k.From))
			out.number(uint64(len(k.To)))
			for _, id := range k.To {
				out.text(string(id))
			}
		}
		out.number(uint64(len(st.senders)))
		for _, from := range slices.Sorted(maps.Keys(st.senders)) {
			x := st.senders[from]
			out.text(string(from))
			out.instant(x.told)
			out.number(uint64(x.more)) //nolint:gosec // not negative
			out.number(uint64(len(x.rest)))
			for _, id := range x.rest {
				out.text(string(id))
			}
		}
	}
	out.number(uint64(len(s.goingOn)))
	for _, conv := range s.goingOn {
		out.text(string(conv))
	}
}

func (s *State) decodeStopped(in *source) {
	for n := in.number(); n > 0 && in.err == nil; n-- {
		conv := protocol.ConversationID(in.text())
		in.check(s.stopped[conv] == nil, "a thread is stopped twice")
		st := s.stop(conv)
		st.going = int(in.short())
		st.person = in.instant()
		for m := in.number(); m > 0 && in.err == nil; m-- {
			k := Kept{Conversation: conv, Of: protocol.Seq(in.number()), From: protocol.AgentID(in.text())}
			for to := in.number(); to > 0 && in.err == nil; to-- {
				k.To = append(k.To, protocol.AgentID(in.text()))
			}
			st.mail = append(st.mail, k)
			s.kept++
		}
		in.check(st.going <= len(st.mail), "more goes on than is kept")
		for m := in.number(); m > 0 && in.err == nil; m-- {
			from, x := protocol.AgentID(in.text()), &stops{told: in.instant(), more: int(in.short())}
			for ids := in.number(); ids > 0 && in.err == nil; ids-- {
				x.rest = append(x.rest, protocol.MessageID(in.text()))
			}
			st.senders[from] = x
		}
	}
	for n := in.number(); n > 0 && in.err == nil; n-- {
		conv := protocol.ConversationID(in.text())
		in.check(s.stopped[conv] != nil && s.stopped[conv].going > 0, "nothing goes on in a thread")
		s.goingOn = append(s.goingOn, conv)
	}
}
