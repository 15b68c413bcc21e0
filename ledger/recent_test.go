package ledger

import (
	"fmt"
	"testing"
	"time"

	"github.com/hived/hived/protocol"
)

// TestTroublesOfTheLastHour checks that alerts are counted over the last hour, and
// bounded, whatever the clock does and however many agents have trouble.
func TestTroublesOfTheLastHour(t *testing.T) {
	begin := time.Date(2026, 11, 21, 9, 2, 0, 0, time.UTC)
	s := New(protocol.DefaultSettings().Remember)
	alert := func(at time.Duration, id protocol.AgentID) {
		s.Apply(protocol.Event{Seq: s.Seq + 1, TS: begin.Add(at), Body: &protocol.AlertEvent{Code: protocol.CodeInboxGone, Agent: id, Text: "gone"}})
	}
	count := func(at time.Duration) (n int) {
		for _, x := range s.Troubles(begin.Add(at)) {
			n += x.Count(begin.Add(at))
		}
		return n
	}
	for i := range 24 { // one every ten minutes, four hours long
		alert(time.Duration(i)*10*time.Minute, "bob")
	}
	if n := count(230 * time.Minute); n < 6 || n > 7 {
		t.Errorf("%d alerts within the hour, want 6", n)
	}
	if n := count(289 * time.Minute); n != 1 {
		t.Errorf("%d alerts in an hour with one", n)
	}
	if n := count(290 * time.Minute); n != 0 {
		t.Errorf("%d alerts an hour after the last", n)
	}
	alert(-48*time.Hour, "bob") // the clock was set back
	if n := count(-48 * time.Hour); n != 1 {
		t.Errorf("%d alerts after the clock was set back", n)
	}
	for i := range 500 {
		alert(-47*time.Hour, protocol.AgentID(fmt.Sprintf("a%d", i)))
	}
	if list := s.Troubles(begin.Add(-47 * time.Hour)); len(list) > sortsMost+1 || count(-47*time.Hour) != 500 {
		t.Errorf("%d sorts and %d alerts, want at most %d and 500", len(list), count(-47*time.Hour), sortsMost+1)
	}
	if s.TroubleTold(protocol.KindAlert, protocol.CodeInboxGone, "a499").IsZero() != true {
		t.Error("got the time of a notice, and none was sent")
	}
}
