package clock

import (
	"testing"
	"time"
)

// TestStandstill: only sleeps count, and only from the time on since when
// something lay there.
func TestStandstill(t *testing.T) {
	t.Parallel()
	at := func(ms int) time.Time { return time.UnixMilli(int64(ms)) }
	var s standstill
	if got := s.since(at(0)); got != 0 {
		t.Errorf("before any sleep: %s", got)
	}
	for i := range 100 { // 10 ms of sleep, 5 of work
		s.slept(at(15*i), at(15*i+10))
	}
	for then, want := range map[int]time.Duration{
		1500:      0,
		15*99 + 4: 6 * time.Millisecond,
		15 * 98:   20 * time.Millisecond,
		15*98 - 3: 20 * time.Millisecond,
		0:         sleepsKept * 10 * time.Millisecond,
	} {
		if got := s.since(at(then)); got != want {
			t.Errorf("since %d: %s, want %s", then, got, want)
		}
	}
}
