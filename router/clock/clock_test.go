package clock

import (
	"testing"
	"time"
)

func TestClockJumped(t *testing.T) {
	t.Parallel()
	var wall time.Time
	var ran time.Duration
	c := Clock{Now: func() time.Time { return wall }, past: func(since time.Time) time.Duration { return ran }}
	wall = time.Date(2027, 3, 1, 12, 0, 0, 0, time.UTC)
	c.Begin()
	tests := []struct {
		name      string
		wall, ran time.Duration
		want      time.Duration
	}{
		{"both go on", time.Hour, time.Hour, 0},
		{"a little off", time.Hour + 4*time.Second, time.Hour, 0},
		{"set forward", 25 * time.Hour, time.Hour, 24 * time.Hour},
		{"set back", -23 * time.Hour, time.Hour, -24 * time.Hour},
		{"the machine slept", 8 * time.Hour, time.Minute, 8*time.Hour - time.Minute},
		{"just enough", 5 * time.Second, 0, 5 * time.Second},
	}
	for _, x := range tests {
		wall, ran = wall.Add(x.wall), x.ran
		if got := c.Jumped(); got != x.want {
			t.Errorf("%s: it jumped by %s, not %s", x.name, got, x.want)
		}
		if x.want == 0 {
			c.Begin()
		}
		if ran = 0; c.Jumped() != 0 {
			t.Errorf("%s: it is told twice", x.name)
		}
	}
}
