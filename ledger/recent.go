package ledger

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

// Lately is how long the State remembers what went wrong.
const Lately = time.Hour

// Trouble is what went wrong within the last hour, of one sort: messages that were
// not delivered for one reason, files that were set aside, alerts, or tasks that were
// taken from their holders.
type Trouble struct {
	Kind  protocol.Kind    // drop, quarantine, alert or task
	Code  protocol.Code    // for a drop its reason; for a task what its holder was told
	Agent protocol.AgentID // whose it is: sender, author or holder; empty: the hive's, or that of several
	Task  protocol.TaskID  // the newest; of tasks alone
	Of    protocol.Seq     // the newest event
	Text  string           // of the newest event, at most troubleText characters
	First time.Time
	Last  time.Time
	Told  time.Time // when a notice about it went to a person or the lead; zero: never

	slot   int64 // the one of Last
	counts [slots]uint32
}

// Trouble is counted in slots of time, so that a count covers the last hour, and
// no longer time.
const (
	slotTime    = 5 * time.Minute
	slots       = int64(Lately/slotTime) + 1
	troubleText = 200
)

// sortsMost bounds how many agents' troubles of one kind are counted separately.
// Those of further agents are counted together.
const sortsMost = 32

// troubleKey identifies the troubles that are counted together.
type troubleKey struct {
	kind  protocol.Kind
	code  protocol.Code
	agent protocol.AgentID
}

func (a troubleKey) compare(b troubleKey) int {
	return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.code, b.code), cmp.Compare(a.agent, b.agent))
}

func slotOf(at time.Time) int64 { return at.Unix() / int64(slotTime/time.Second) }

// Troubles lists what went wrong within the hour before now, ordered by kind,
// code and agent.
func (s *State) Troubles(now time.Time) []Trouble {
	var list []Trouble
	for _, k := range slices.SortedFunc(maps.Keys(s.troubles), troubleKey.compare) {
		if t := s.troubles[k]; now.Sub(t.Last) < Lately {
			list = append(list, *t)
		}
	}
	return list
}

// Count returns how often it happened within the hour before now.
func (t *Trouble) Count(now time.Time) int {
	n, from := uint32(0), slotOf(now)-slots
	for i := range slots {
		if slot := t.slot - i; slot > from {
			n += t.counts[index(slot)]
		}
	}
	return int(max(n, 1))
}

// TroubleTold returns when a notice about trouble of this sort last went to a person
// or the lead; zero if none did within [Lately].
func (s *State) TroubleTold(kind protocol.Kind, code protocol.Code, agent protocol.AgentID) time.Time {
	t := s.troubles[troubleKey{kind, code, agent}]
	if t == nil && s.sorts(kind) >= sortsMost {
		t = s.troubles[troubleKey{kind: kind, code: code}]
	}
	if t == nil {
		return time.Time{}
	}
	return t.Told
}

// TroubleCount returns how often trouble of this sort came within the hour before now.
func (s *State) TroubleCount(now time.Time, kind protocol.Kind, code protocol.Code, agent protocol.AgentID) int {
	t := s.troubles[troubleKey{kind, code, agent}]
	if t == nil || now.Sub(t.Last) >= Lately {
		return 0
	}
	return t.Count(now)
}

// sorts counts the sorts of a kind that name an agent.
func (s *State) sorts(kind protocol.Kind) (n int) {
	for k := range s.troubles {
		if k.kind == kind && k.agent != "" {
			n++
		}
	}
	return n
}

// trouble notes what went wrong, n times at once. The time is that of
// the event.
func (s *State) trouble(ev protocol.Event, k troubleKey, n int, text string) *Trouble {
	t := s.troubles[k]
	if t == nil {
		maps.DeleteFunc(s.troubles, func(_ troubleKey, t *Trouble) bool {
			return ev.TS.Sub(t.Last).Abs() >= Lately && ev.TS.Sub(t.Told).Abs() >= Lately
		})
		if k.agent != "" && s.sorts(k.kind) >= sortsMost {
			k.agent = ""
			t = s.troubles[k]
		}
	}
	if t == nil {
		t = &Trouble{Kind: k.kind, Code: k.code, Agent: k.agent, First: ev.TS, slot: slotOf(ev.TS)}
		s.troubles[k] = t
	}
	t.count(ev.TS, n)
	t.Of, t.Last, t.Text = ev.Seq, ev.TS, protocol.Cut(text, troubleText)
	return t
}

// count adds to the slot of a time. A clock that was set back by more than an hour
// begins anew.
func (t *Trouble) count(at time.Time, n int) {
	slot := slotOf(at)
	if slot < t.slot-slots || slot > t.slot+slots {
		t.counts = [slots]uint32{}
		t.slot, t.First = slot, at
	}
	for t.slot < slot {
		t.slot++
		t.counts[index(t.slot)] = 0
	}
	t.counts[index(t.slot)] += uint32(min(n, 1<<20)) //nolint:gosec // not negative
}

func index(slot int64) int64 { return (slot%slots + slots) % slots }

// taken reports whether an event takes a task from its holder against its will, and
// returns what the holder is told then.
func taken(e *protocol.TaskEvent) (protocol.Code, bool) {
	switch {
	case e.By != protocol.Hive:
		return "", false
	case e.Event == task.LeaseExpired:
		return protocol.CodeLeaseExpired, true
	case e.Event == task.Release:
		return protocol.CodeReleased, true
	case e.Event == task.MaxRetriesExceeded && e.From == task.Stalled:
		return protocol.CodeTaskFailed, true
	case e.Event == task.Timeout:
		return protocol.CodeApprovalTimeout, true
	}
	return "", false
}

func (s *State) encodeTroubles(out *sink) {
	out.number(uint64(len(s.troubles)))
	for _, k := range slices.SortedFunc(maps.Keys(s.troubles), troubleKey.compare) {
		t := s.troubles[k]
		for _, text := range []string{string(k.kind), string(k.code), string(k.agent), string(t.Task), t.Text} {
			out.text(text)
		}
		out.number(uint64(t.Of))
		for _, at := range t.times() {
			out.time(*at)
		}
		out.fixed(uint64(t.slot)) //nolint:gosec // the same bits
		for _, n := range t.counts {
			out.number(uint64(n))
		}
	}
}

func (t *Trouble) times() []*time.Time { return []*time.Time{&t.First, &t.Last, &t.Told} }

func (s *State) decodeTroubles(in *source) {
	var last troubleKey
	for n := in.number(); n > 0 && in.err == nil; n-- {
		k := troubleKey{protocol.Kind(in.text()), protocol.Code(in.text()), protocol.AgentID(in.text())}
		in.check(k.compare(last) > 0, "its troubles are in no order")
		t := &Trouble{Kind: k.kind, Code: k.code, Agent: k.agent, Task: protocol.TaskID(in.text()), Text: in.text(), Of: protocol.Seq(in.number())}
		for _, at := range t.times() {
			*at = in.time()
		}
		t.slot = int64(in.fixed()) //nolint:gosec // the same bits
		for i := range t.counts {
			t.counts[i] = in.short()
		}
		s.troubles[k], last = t, k
	}
}
