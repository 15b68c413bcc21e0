package task

import (
	"maps"
	"slices"
	"time"

	"github.com/hived/hived/protocol"
)

// made counts the tasks that agents created in the last hour while they held a task, in
// slots of time. Who created none in an hour is forgotten with the next that comes new.
type made map[protocol.AgentID]*tally

// tally is how many there were in each slot up to the newest; the newest comes first.
type tally struct {
	newest int64
	counts [madeSlots]uint32
}

const (
	madeSlot  = 5 * time.Minute
	madeSlots = int64(time.Hour/madeSlot) + 1 // the first and the last are counted whole
)

func slotOf(at Moment) int64 { return int64(at) / int64(madeSlot) }

// note takes in an event.
func (m made) note(e *protocol.TaskEvent, at Moment) {
	if e.Event != Create || e.Generation == 0 || e.By == protocol.Hive || e.Resumes != "" || e.Unwinds != "" {
		return
	}
	slot := slotOf(at)
	t := m[e.By]
	if t == nil {
		maps.DeleteFunc(m, func(_ protocol.AgentID, old *tally) bool { return old.newest <= slot-madeSlots })
		t = &tally{newest: slot}
		m[e.By] = t
	}
	t.advance(slot)
	t.counts[0]++
}

// advance makes a slot the newest, unless it is that or an earlier one.
func (t *tally) advance(slot int64) {
	by := slot - t.newest
	if by <= 0 {
		return
	}
	was := t.counts
	t.newest, t.counts = slot, [madeSlots]uint32{}
	if by < madeSlots {
		copy(t.counts[by:], was[:])
	}
}

// Made returns how many tasks an agent created while it held one in the hour before a
// moment, and when it may create so many more where most are allowed: zero for now.
func (b *Book) Made(by protocol.AgentID, at Moment, more, most int) (n int, again Moment) {
	is := b.made[by]
	if is == nil {
		return 0, 0
	}
	t := *is
	t.advance(slotOf(at))
	for _, c := range t.counts {
		n += int(c)
	}
	left := n
	for i := madeSlots - 1; i >= 0 && left+more > most; i-- {
		left -= int(t.counts[i])
		again = Moment((t.newest - i + madeSlots) * int64(madeSlot))
	}
	return n, again
}

func (m made) encode(w *writer) {
	w.uvarint(uint64(len(m)))
	for _, id := range slices.Sorted(maps.Keys(m)) {
		w.text(string(id))
		w.varint(m[id].newest)
		for _, n := range m[id].counts {
			w.uvarint(uint64(n))
		}
	}
}

func (m made) decode(r *reader) {
	for n := r.uvarint(); n > 0 && !r.short; n-- {
		t := &tally{}
		m[protocol.AgentID(r.text())] = t
		t.newest = r.varint()
		for i := range t.counts {
			t.counts[i] = uint32(r.uvarint()) //nolint:gosec // refused where it is not the same
		}
	}
}
