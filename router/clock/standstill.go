package clock

import "time"

// sleepsKept is how many sleeps of the loop are remembered one by one.
const sleepsKept = 64

// standstill counts for how long the loop slept while something that was sent
// lay there: the cost of a lost or late wake-up, and of nothing else. Work that
// takes long is not in it.
type standstill struct {
	sleeps [sleepsKept]struct{ from, to time.Time }
	next   int
}

// slept notes a sleep.
func (s *standstill) slept(from, to time.Time) {
	s.sleeps[s.next%sleepsKept].from, s.sleeps[s.next%sleepsKept].to = from, to
	s.next++
}

// since is for how long of the time since then the loop slept. It looks back no
// further than the sleeps that are remembered.
func (s *standstill) since(then time.Time) (asleep time.Duration) {
	for i := s.next - 1; i >= max(0, s.next-sleepsKept); i-- {
		x := &s.sleeps[i%sleepsKept]
		if !x.to.After(then) {
			break
		}
		from := x.from
		if from.Before(then) {
			from = then
		}
		asleep += x.to.Sub(from)
	}
	return asleep
}
