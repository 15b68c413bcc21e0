package protocol

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hived/hived/internal/testenv"
)

func TestMisspelt(t *testing.T) {
	for _, tt := range []struct {
		members string
		want    []Misspelt
	}{
		{`"in_replyto": "a-1"`, []Misspelt{{"in_replyto", "in_reply_to", `"a-1"`}}},
		{`"actt": "query"`, []Misspelt{{"actt", "act", `"query"`}}},
		{`"actt": "qurey"`, []Misspelt{{"actt", "act", ""}}},
		{`"reply_to": "a-1"`, []Misspelt{{"reply_to", "in_reply_to", `"a-1"`}}},
		{`"inReplyTo": null, "expires-at": "2026-11-21T09:00:00Z"`, []Misspelt{{"expires-at", "expires_at", `"2026-11-21T09:00:00Z"`}, {"inReplyTo", "in_reply_to", "null"}}},
		{`"ID": "a"`, []Misspelt{{"ID", "id", `"a"`}}},
		{`"Act": "query", "atc": "query"`, []Misspelt{{"Act", "act", `"query"`}, {"atc", "act", `"query"`}}},
		{`"convresation": "c", "requires_repply": true, "need_human": true`, []Misspelt{{"convresation", "conversation", `"c"`}, {"need_human", "needs_human", "true"}, {"requires_repply", "requires_reply", "true"}}},
		{`"epoc": 1, "evnt": "claim", "dta": {"a":1}, "tsk": "x"`, []Misspelt{{"dta", "data", `{"a":1}`}, {"epoc", "epoch", "1"}, {"evnt", "event", `"claim"`}, {"tsk", "task", `"x"`}}},

		// The field that could be meant is there already, so this is another.
		{`"act": "query", "acts": ["query"]`, nil},
		{`"bodys": "x"`, nil},
		// Not misspelt: other words.
		{`"date": "x", "ack": true, "ask": 1, "object": "x", "topic": "x", "mood": "calm", "idea": 1, "ids": [1], "cat": 1, "updated_at": "x", "form": "x", "hop": 1, "": 1, "a": 1, "token": 1`, nil},
	} {
		m, err := DecodeMessage([]byte(`{"to": "bob", "body": "x", ` + tt.members + `}`))
		testenv.Must(t, err)
		if diff := cmp.Diff(tt.want, m.Misspelt()); diff != "" {
			t.Errorf("%s: -want +got:\n%s", tt.members, diff)
		}
	}
}

// TestMisspeltLooksAtSoMany checks that the work a message can cause is bounded.
func TestMisspeltLooksAtSoMany(t *testing.T) {
	var b strings.Builder
	for i := range misspeltLook {
		fmt.Fprintf(&b, `,"x%d":1`, i)
	}
	m, err := DecodeMessage([]byte(`{"to":"bob","body":"x"` + b.String() + `,"actt":"query"}`))
	testenv.Must(t, err)
	if got := m.Misspelt(); got != nil {
		t.Errorf("got %v", got)
	}
}
