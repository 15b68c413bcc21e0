package router

import (
	"testing"
	"time"
)

// TestStandstillIsTold checks that OnStandstill is called for each message with how long the
// loop slept while the message waited.
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
		t.Errorf("OnStandstill was called %d times, want once", len(told))
	}
	for len(told) > 0 {
		if d := <-told; d < 0 || d > 20*time.Second {
			t.Errorf("the loop slept %s while a message waited", d)
		}
	}
}
