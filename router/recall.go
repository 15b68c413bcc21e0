package router

import (
	"fmt"

	"github.com/hived/hived/eventlog"
	"github.com/hived/hived/ledger"
	"github.com/hived/hived/protocol"
)

// recall reads an event again, also one that waits for room in the log.
func (r *Router) recall(seq protocol.Seq) (protocol.Event, error) {
	for _, d := range r.stuck {
		if d.Event.Seq == seq {
			return d.Event, nil
		}
	}
	return r.readEvent(seq)
}

// recallAll reads events again, in one pass where they are near each other.
func (r *Router) recallAll(seqs []protocol.Seq) (evs []protocol.Event, err error) {
	for len(seqs) > 0 {
		near := 1
		for near < len(seqs) && seqs[near]-seqs[near-1] <= recallGap {
			near++
		}
		want := seqs[:near]
		for rec, err := range eventlog.Read(r.disk, eventlog.Position{Seq: want[0] - 1}) {
			if err != nil {
				return nil, err
			}
			if rec.Event.Seq == want[0] {
				evs = append(evs, rec.Event)
				if want = want[1:]; len(want) == 0 {
					break
				}
			}
		}
		if len(want) > 0 {
			return nil, fmt.Errorf("read event %s: %w", want[0], ledger.ErrNoEvent)
		}
		seqs = seqs[near:]
	}
	return evs, nil
}

// recallGap is how many events are rather read over than looked for anew.
const recallGap = 2048

// readEvent reads one event again from the log.
func (r *Router) readEvent(seq protocol.Seq) (protocol.Event, error) { return readEvent(r.disk, seq) }
