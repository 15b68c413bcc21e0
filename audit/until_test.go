package audit

import (
	"testing"
	"time"

	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/protocol"
)

func TestUntil(t *testing.T) {
	noon := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		said string
		seq  protocol.Seq
		at   time.Time
		past bool
	}{
		{"", 1 << 40, noon, false},
		{"7", 7, noon, false},
		{"7", 8, noon, true},
		{"2026-11-21T12:00:00Z", 1, noon, false},
		{"2026-11-21T12:00:00+01:00", 1, noon, true},
	} {
		u, err := Until{}, error(nil)
		if tt.said != "" {
			u, err = ParseUntil(tt.said)
		}
		testenv.Must(t, err)
		if got := u.Before(protocol.Event{Seq: tt.seq, TS: tt.at}); got != tt.past {
			t.Errorf("with --until %s the replay ends before event %d at %s: %t", tt.said, tt.seq, tt.at, got)
		}
	}
}
