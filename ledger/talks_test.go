package ledger

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hived/hived/protocol"
)

// TestTalks checks that conversations are listed by their newest message, also
// where that reached nobody, and where an id was used again.
func TestTalks(t *testing.T) {
	s := New(protocol.DefaultSettings().Remember)
	tell(s, append(joined("alice", "bob"), // 1, 2
		message(1, "alice", "c", 0, "bob"), // 3
		message(2, "bob", "d", 1, "alice"), // 4
		message(3, "bob", "c", 2, "alice"), // 5
		message(4, "bob", "g", 0, "alice"), // 6
		message(4, "alice", "h", 0, "bob"), // 7: the id of 6
		message(5, "alice", "d", 3),        // 8: to nobody
		message(6, protocol.Hive, "f", 0, "bob"),
		&protocol.MessageEvent{ID: "k", From: "bob", Conversation: "c", Kept: &protocol.Kept{To: []protocol.AgentID{"alice"}, Reason: protocol.HopCap}}, // 10
	)...)
	var got []string
	for x := range s.Talks() {
		got = append(got, fmt.Sprint(x.Conversation, " ", x.Last, " ", x.From, " ", x.Hops, " ", x.To, " ", x.Kept))
		if want := start.Add(time.Duration(x.Last-1) * time.Second); !x.At.Equal(want) {
			t.Errorf("%s: its newest message was at %s, want %s", x.Conversation, x.At, want)
		}
	}
	if diff := cmp.Diff([]string{"c 10 bob 0 [alice bob] 1", "d 8 alice 3 [alice] 0", "g 6 bob 0 [alice] 0", "h 7 alice 0 [bob] 0"}, got); diff != "" {
		t.Errorf("conversations (-want +got):\n%s", diff)
	}
	for range s.Talks() {
		break
	}
}
