package ledger

import (
	"maps"
	"slices"
	"time"

	"github.com/hived/hived/protocol"
)

// causesMost bounds how many causes of agents' alerts are remembered. Of more the oldest is
// forgotten.
const causesMost = 1000

// CauseRaised returns when an agent last raised an alert of a cause; zero if none is
// remembered.
func (s *State) CauseRaised(cause string) time.Time { return s.causes[cause] }

// causeRaised notes an alert of an agent, and forgets what no setting asks for any more.
func (s *State) causeRaised(ev protocol.Event, cause string) {
	maps.DeleteFunc(s.causes, func(_ string, at time.Time) bool { return ev.TS.Sub(at).Abs() > protocol.AlertEveryMost })
	if _, known := s.causes[cause]; !known && len(s.causes) >= causesMost {
		delete(s.causes, slices.MinFunc(slices.Sorted(maps.Keys(s.causes)), func(a, b string) int { return s.causes[a].Compare(s.causes[b]) }))
	}
	s.causes[cause] = ev.TS
}

func (s *State) encodeCauses(out *sink) {
	out.number(uint64(len(s.causes)))
	for _, cause := range slices.Sorted(maps.Keys(s.causes)) {
		out.text(cause)
		out.time(s.causes[cause])
	}
}

func (s *State) decodeCauses(in *source) {
	last := ""
	for n := in.number(); n > 0 && in.err == nil; n-- {
		cause := in.text()
		in.check(cause > last, "its causes of alerts are in no order")
		s.causes[cause], last = in.time(), cause
	}
}
