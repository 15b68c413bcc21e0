package router

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

// TestStandstillIsTold: who wants to know hears of each message how long the loop
// slept while it lay there.
func TestStandstillIsTold(t *testing.T) {
	h := newHive(t, "alice", "bob")
	h.settings.Rescan = time.Hour
	cfg := h.config()
	told := make(chan time.Duration, 16)
	cfg.OnStandstill = func(d time.Duration) { told <- d }
	h.upWith(cfg)
	h.send("alice", "1", `{"to":"bob","id":"m1","body":"x"}`)
	h.delivery("m1")
	h.down()
	if len(told) != 1 {
		t.Errorf("%d messages were told of", len(told))
	}
	for len(told) > 0 {
		if d := <-told; d < 0 || d > 20*time.Second {
			t.Errorf("the loop slept %s beside a message", d)
		}
	}
}
