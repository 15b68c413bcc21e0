package decide

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/ledger"
	"github.com/hived/hived/protocol"
)

// toldMisspelt returns the bodies of the notices about misspelt fields, each with its
// reader.
func toldMisspelt(t *testing.T, list []Decision) (out []string) {
	t.Helper()
	for _, x := range list {
		e, ok := x.Event.Body.(*protocol.MessageEvent)
		if !ok || e.From != protocol.Hive || !strings.Contains(e.Raw, `"code":"misspelt"`) {
			continue
		}
		m, err := protocol.DecodeMessage([]byte(e.Raw))
		testenv.Must(t, err)
		out = append(out, string(e.To[0])+": "+string(m.Body))
	}
	return out
}

// TestMisspeltFieldsAreTold checks that a sender is told once of each misspelt field, and
// that its message is delivered as it is.
func TestMisspeltFieldsAreTold(t *testing.T) {
	b := newBench(t, "alice", "bob")
	got := b.send("alice", `{"id":"m1","to":"bob","body":"x","in_replyto":"a-1","actt":"query","mood":"calm"}`)
	e := got[0].Event.Body.(*protocol.MessageEvent)
	if len(e.Delivered) != 1 || e.Delivered[0] != "bob" || !strings.Contains(string(got[0].Changes[0].Data), `"in_replyto": "a-1"`) {
		t.Errorf("delivered to %v as\n%s", e.Delivered, got[0].Changes[0].Data)
	}
	want := `alice: "Message m1 was taken as it is. In it \"actt\" is no field that hived knows; if you mean \"act\", it did nothing; ` +
		`\"in_replyto\" is no field that hived knows; if you mean \"in_reply_to\", it did nothing: ` +
		`write \"act\": \"query\", \"in_reply_to\": \"a-1\" next time. A field of your own you may keep: this is said once."`
	if told := toldMisspelt(t, got); len(told) != 1 || told[0] != want {
		t.Errorf("told %q, want %q", told, want)
	}

	// Each agent is told of each field once, and an answer to the notice causes nothing.
	for _, tt := range []struct {
		from protocol.AgentID
		text string
		want int
	}{
		{"alice", `{"to":"bob","body":"x","in_replyto":"a-1"}`, 0},
		{"alice", `{"to":"hive","body":"thanks","in_replyto":"x","act":"agree"}`, 0},
		{"bob", `{"to":"alice","body":"x","in_replyto":"a-1"}`, 1},
		{"alice", `{"to":"bob","body":"x","in_replyto":"a-1","need_human":true}`, 1},
		{"alice", `{"to":"bob","body":"x","mood":"calm","date":"today"}`, 0},
		{"human", `{"to":"hive","event":"agent-add","dat":{"agent":"carol"}}`, 1},
	} {
		if told := toldMisspelt(t, b.send(tt.from, tt.text)); len(told) != tt.want {
			t.Errorf("%s: %s: told %q", tt.from, tt.text, told)
		}
	}
}

// TestMisspeltFieldsAreToldLast checks that an answer that somebody waits for comes
// before the notice about fields.
func TestMisspeltFieldsAreToldLast(t *testing.T) {
	b := newBench(t, "alice")
	got := b.send("human", `{"to":"hive","event":"agent-hold","act":"request","data":{"agent":"alice"},"expiresat":"x"}`)
	last := got[len(got)-1].Event.Body.(*protocol.MessageEvent)
	if told := toldMisspelt(t, got); len(told) != 1 || !strings.Contains(last.Raw, "misspelt") || got[len(got)-1].Event.More {
		t.Errorf("told %q, last %s", told, last.Raw)
	}
}

// TestMisspeltFieldsAreBounded checks that an agent that makes up field names is told of
// only so many, and takes no more memory.
func TestMisspeltFieldsAreBounded(t *testing.T) {
	b := newBench(t, "alice", "bob")
	told := 0
	for c := 'a'; c <= 'z'; c++ {
		got := toldMisspelt(t, b.send("alice", fmt.Sprintf(`{"to":"bob","body":"x","subject%c":"x","in_reply_to%c":"x"}`, c, c)))
		told += len(got)
	}
	if told != ledger.MisspeltMost/2 || len(b.d.state.Agents["alice"].Misspelt()) != ledger.MisspeltMost {
		t.Errorf("told %d times, of %q", told, b.d.state.Agents["alice"].Misspelt())
	}
}
