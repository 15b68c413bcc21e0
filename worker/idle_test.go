package worker

import (
	"slices"
	"testing"
	"time"

	"github.com/hived/hived/protocol"
)

// TestStrands checks what a worker does that has nothing to do.
func TestStrands(t *testing.T) {
	t.Parallel()
	now := time.Date(2027, 3, 1, 12, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	forOthers := protocol.TaskNumbers{Open: 2, Waiting: 1, NotForYou: 1}
	tests := map[string]struct {
		idle    idleness
		propose bool
		want    []strand
	}{
		"it finds tasks":                   {idleness{Numbers: forOthers}, true, nil},
		"not for long":                     {idleness{Since: ago(29 * time.Minute), Numbers: forOthers}, true, nil},
		"nothing moves":                    {idleness{Since: ago(30 * time.Minute), Numbers: forOthers}, true, []strand{strandAlert}},
		"people know":                      {idleness{Since: ago(2 * time.Hour), Numbers: forOthers, Alerted: ago(59 * time.Minute)}, true, nil},
		"people knew an hour ago":          {idleness{Since: ago(2 * time.Hour), Numbers: forOthers, Alerted: ago(time.Hour)}, true, []strand{strandAlert}},
		"no task is open":                  {idleness{Since: ago(time.Hour)}, true, nil},
		"somebody has one":                 {idleness{Since: ago(time.Hour), Numbers: protocol.TaskNumbers{Open: 2, Held: 1, Waiting: 1}}, false, nil},
		"one will be free":                 {idleness{Since: ago(time.Hour), Numbers: protocol.TaskNumbers{Open: 2, NotYet: 1, NotForYou: 1}}, true, nil},
		"somebody has one, help":           {idleness{Since: ago(time.Hour), Numbers: protocol.TaskNumbers{Open: 2, Held: 1, Waiting: 1}}, true, []strand{strandPropose}},
		"help was offered less than a day": {idleness{Since: ago(48 * time.Hour), Numbers: protocol.TaskNumbers{Open: 1, Held: 1}, Proposed: ago(23 * time.Hour)}, true, nil},
		"help was offered a day ago":       {idleness{Since: ago(48 * time.Hour), Numbers: protocol.TaskNumbers{Open: 1, Held: 1}, Proposed: ago(24 * time.Hour)}, true, []strand{strandPropose}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			set := protocol.DefaultSettings()
			set.Work.Propose = tt.propose
			if got := tt.idle.strands(&set, now); !slices.Equal(got, tt.want) {
				t.Errorf("it does %v, want %v", got, tt.want)
			}
		})
	}
}
