package protocol

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"github.com/hived/hived/internal/testenv"
)

// TestDeliver checks the bytes that a recipient gets. They are part of the
// contract: scripts read them line by line, and git and replay depend on them for
// ever (spec §2).
func TestDeliver(t *testing.T) {
	m := decoded(t, `{"zeta":[1,{"b":2,"a":1}],"body":{"b" : 1.0, "a":"\u0041"},"to":["bob"],"from":"eve","alpha":"\u2028","seq":"mine","hops":1}`)
	set := jsontext.Value(`{"id":"m1","conversation":"c","from":"alice","act":"inform","subject":"","hops":2,"requires_reply":false,"needs_human":false,"created_at":"2026-11-21T08:00:00.000000000Z","in_reply_to":null}`)
	got, err := Deliver(m, set, 42, time.Date(2026, 11, 21, 10, 0, 0, 5, time.FixedZone("", 3600)))
	testenv.Must(t, err)
	want := `{
  "id": "m1",
  "conversation": "c",
  "in_reply_to": null,
  "from": "alice",
  "to": ["bob"],
  "act": "inform",
  "subject": "",
  "body": {"b":1.0,"a":"\u0041"},
  "hops": 2,
  "requires_reply": false,
  "needs_human": false,
  "created_at": "2026-11-21T08:00:00.000000000Z",
  "seq": 42,
  "received_at": "2026-11-21T09:00:00.000000005Z",
  "zeta": [1,{"b":2,"a":1}],
  "alpha": "\u2028"
}
`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestDeliverIsTheSameFromTheLog checks that a delivery has the same bytes before
// and after the log, though what hived sets, taken from other messages, may hold
// characters that the log escapes.
func TestDeliverIsTheSameFromTheLog(t *testing.T) {
	m := decoded(t, `{"to":"bob","subject":"s"}`)
	for _, text := range []string{"plain", "\u2028", "\u2029</script>&", "é\x7f\u0085\\\"\t", "\U0001F600"} {
		set := jsontext.Value(`{"conversation":` + string(quoted(text)) + `}`)
		before, err := Deliver(m, set, 1, time.Unix(0, 0))
		testenv.Must(t, err)
		after, err := Deliver(m, logged(t, set), 1, time.Unix(0, 0))
		if err != nil || !bytes.Equal(before, after) {
			t.Errorf("%q: %s\n%v\n%s", text, before, err, after)
		}
	}
}

func TestDeliverRefusesABadSet(t *testing.T) {
	m := decoded(t, `{"to":"bob","subject":"s"}`)
	for _, set := range []string{``, `[1]`, `7`, `{"a":}`, `{"a":1`} {
		if got, err := Deliver(m, jsontext.Value(set), 1, time.Unix(0, 0)); err == nil {
			t.Errorf("set %q became %s", set, got)
		}
	}
}

func TestText(t *testing.T) {
	for name, tt := range map[string]struct{ body, want string }{
		"none":         {"", ""},
		"a string":     {`"say \"hi\"\nbob"`, "say \"hi\"\nbob"},
		"an object":    {`{"a":[1,2]}`, "{\n  \"a\": [\n    1,\n    2\n  ]\n}"},
		"a number":     {"1.50", "1.50"},
		"null":         {"null", "null"},
		"not JSON yet": {`{"a":`, `{"a":`},
	} {
		m := &Message{Body: jsontext.Value(tt.body)}
		if got := m.Text(); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
		if string(m.Body) != tt.body {
			t.Errorf("%s: the body was changed to %s", name, m.Body)
		}
	}
}

func TestActs(t *testing.T) {
	var names []string
	for _, a := range Acts() {
		names = append(names, string(a))
		if want := a == Request || a == Query || a == Propose; a.WantsReply() != want {
			t.Errorf("WantsReply of %s is %v", a, !want)
		}
	}
	if got := strings.Join(names, " "); got != "request inform propose query agree refuse done failure cancel not-understood" {
		t.Errorf("the acts are %s", got)
	}
}

func TestAddressRole(t *testing.T) {
	for _, tt := range []struct {
		a    Address
		role string
		ok   bool
	}{{"@builder", "builder", true}, {"builder", "builder", false}, {"@", "", true}} {
		if role, ok := tt.a.Role(); role != tt.role || ok != tt.ok {
			t.Errorf("%s: %q, %v", tt.a, role, ok)
		}
	}
}

func TestStampSorts(t *testing.T) {
	base := time.Date(2026, 11, 21, 23, 30, 0, 0, time.FixedZone("", -3600))
	a, b := Stamp(base), Stamp(base.Add(time.Nanosecond))
	if a != "2026-11-22T00:30:00.000000000Z" || a >= b {
		t.Errorf("%s, %s", a, b)
	}
}
