package protocol

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"github.com/hived/hived/internal/testenv"
)

func TestDecodeMessage(t *testing.T) {
	raw := ` {
  "to": ["bob", "@builder"], "id": "m1", "in_reply_to": "m0", "conversation": "c", "from": "eve", "act": "query",
  "subject": "s\u00e9", "body": { "a" : [ 1.50 ] }, "hops": 3, "requires_reply": false, "needs_human": true,
  "created_at": "2026-11-21T10:00:00+01:00", "expires_at": "2026-11-22T00:00:00Z",
  "task": "t", "epoch": 4, "event": "e", "data": [null], "mood": "g\u006f\u006fd", "seq": 9 }
`
	utc := func(tm time.Time) time.Time { return tm.UTC() }
	got, err := DecodeMessage([]byte(raw))
	testenv.Must(t, err)
	got.CreatedAt, got.ExpiresAt = utc(got.CreatedAt), utc(got.ExpiresAt)
	want := &Message{
		ID: "m1", Conversation: "c", InReplyTo: "m0", From: "eve", To: []Address{"bob", "@builder"}, Act: Query,
		Subject: "sé", Body: jsontext.Value(`{"a":[1.50]}`), Hops: 3, NeedsHuman: true,
		CreatedAt: time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC), ExpiresAt: time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC),
		Task: "t", Epoch: 4, Event: "e", Data: jsontext.Value(`[null]`),
	}
	members := got.members
	got.members = nil
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(Message{})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if last := members[len(members)-2]; last.name != "mood" || string(last.value) != `"g\u006f\u006fd"` {
		t.Errorf("an unknown member became %s: %s", last.name, last.value)
	}
	got.members = members
	if !got.Has("requires_reply") || got.Has("mo") || !got.Has("mood") {
		t.Error("Has is wrong about the members of the message")
	}
}

func TestDecodeMessageNamesThePlace(t *testing.T) {
	tests := []struct {
		raw          string
		line, column int
		reason       string
	}{
		{"", 1, 1, "the file is empty"},
		{"\xef\xbb\xbf{}", 1, 1, "byte order mark"},
		{"[]", 1, 1, "a message is a JSON object, not an array"},
		{`"x"`, 1, 1, "not a string"},
		{`{"to":"bob","subject":"s"`, 1, 26, "ends too early"},
		{"{\n\"to\":\"bo", 2, 9, "ends too early"},
		{"{\"to\":\"bob\"\n  \"subject\":\"s\"}", 2, 3, "not JSON: invalid character '\"'"},
		{`{"to":"bob","subject":"s"} x`, 1, 28, "something follows"},
		{`{"to":"bob","subject":"s"} {}`, 1, 28, "something follows"},
		{`{"to":"bob","subject":"s"}` + "\n\n\x00", 3, 1, "something follows"},
		{`{"to":"bob","to":"bob"}`, 1, 13, "a name stands twice"},
		{`{"to":"bob","x":{"a":1,"a":1}}`, 1, 24, "a name stands twice"},
		{"{\"to\":\"bob\",\"subject\":\"\xff\"}", 1, 24, "not valid UTF-8"},
		{`{"to":"bob","subject":"\ud800"}`, 1, 24, "not JSON: invalid surrogate"},
		{"{\"to\": \"bob\",\n \"hops\": -1}", 2, 10, "`hops` is \"-1\""},
		{`{"to":[7],"subject":"s"}`, 1, 7, "`to` names a number"},
		{`{"to":"bob","act":"reqest"}`, 1, 19, "`act` is \"reqest\""},
		{`{"id":"` + strings.Repeat("x", 200) + `"}`, 1, 7, "`id` is \"xxx"},
		{`{"to":"bob"}`, 0, 0, "neither `subject` nor `body`"},
		{`{"subject":"s"}`, 0, 0, "no `to`"},
		{"{\"x\":\n" + strings.Repeat("[", 64), 2, 64, "nested deeper than 64"},
		{strings.Repeat(`{"a":`, 10_001), 1, 321, "nested deeper than 64"},
	}
	for _, tt := range tests {
		name := tt.raw[:min(len(tt.raw), 60)]
		_, err := DecodeMessage([]byte(tt.raw))
		var bad *Malformed
		if !errors.As(err, &bad) {
			t.Errorf("%q gave %v", name, err)
			continue
		}
		if bad.Line != tt.line || bad.Column != tt.column || !strings.Contains(bad.Reason, tt.reason) {
			t.Errorf("%q gave %d:%d %s; want %d:%d %s", name, bad.Line, bad.Column, bad.Reason, tt.line, tt.column, tt.reason)
		}
	}
}

func TestDecodeMessageSuggestsAnAct(t *testing.T) {
	_, err := DecodeMessage([]byte(`{"to":"bob","subject":"s","act":"Request"}`))
	if err == nil || !strings.Contains(err.Error(), "did you mean request?") {
		t.Errorf("%v", err)
	}
}

func TestContentHash(t *testing.T) {
	base := `{"to":"bob","subject":"s","body":{"a":1,"b":[1,2]},"id":"m"}`
	tests := []struct {
		name, raw string
		same      bool
	}{
		{"itself", base, true},
		{"other order", `{"id":"m","body":{"b":[1,2],"a":1},"subject":"s","to":"bob"}`, true},
		{"white space", "{ \"to\" : \"bob\",\n\"subject\":\"s\",\"body\":{\"a\": 1, \"b\": [1,\t2]},\"id\":\"m\"}\n", true},
		{"created_at", `{"to":"bob","subject":"s","body":{"a":1,"b":[1,2]},"id":"m","created_at":"2026-11-21T09:00:00Z"}`, true},
		{"order of a list", `{"to":"bob","subject":"s","body":{"a":1,"b":[2,1]},"id":"m"}`, false},
		{"other text", `{"to":"bob","subject":"S","body":{"a":1,"b":[1,2]},"id":"m"}`, false},
		{"one more field", `{"to":"bob","subject":"s","body":{"a":1,"b":[1,2]},"id":"m","x":null}`, false},
		{"created_at further down", `{"to":"bob","subject":"s","body":{"a":1,"b":[1,2],"created_at":1},"id":"m"}`, false},
	}
	want := ContentHash(decoded(t, base))
	for _, tt := range tests {
		if got := ContentHash(decoded(t, tt.raw)) == want; got != tt.same {
			t.Errorf("%s: same is %v, want %v", tt.name, got, tt.same)
		}
	}
}

func decoded(tb testing.TB, raw string) *Message {
	tb.Helper()
	m, err := DecodeMessage([]byte(raw))
	testenv.Must(tb, err)
	return m
}

// FuzzDecodeMessage checks that a message that decodes is delivered as bytes that
// decode to the same message, with only what hived set changed, and that a refusal
// returns nothing but a reason and a remedy.
func FuzzDecodeMessage(f *testing.F) {
	for _, raw := range []string{
		`{"to":"bob","subject":"s"}`,
		`{"to":["bob","@x"],"body":{"b":[1.0,-2e9],"a":null},"id":"m","in_reply_to":null,"hops":2,"from":"eve"}`,
		`{"to":"hive","event":"continue","data":{"conversation":"c"},"epoch":1,"task":"t","expires_at":"2026-11-21T09:00:00.5+01:00"}`,
		`{"to":"bob","subject":"\u2028<\/script>\ud83d\ude00","seq":"mine","m\u006fod":"\u0041","received_at":{}}`,
		"\n{ \"to\" : \"bob\" , \"needs_human\" : true, \"requires_reply\":false, \"act\":\"not-understood\", \"body\" : \"\" }\r\n",
		`{"to":"bob","subject":"s","to":"x"}`,
		`{"to":"bob" "subject":"s"}`,
		"{\"to\":\"bob\",\"subject\":\"\xff\"}",
		`{"to":"bob","body":[[[[]]]]}x`,
	} {
		f.Add([]byte(raw), "alice", "a\u2028b", 3)
	}
	for _, raw := range badTexts(f) {
		f.Add(raw, "alice", "c", 0)
	}
	f.Fuzz(func(t *testing.T, raw []byte, from, conversation string, hops int) {
		m, err := DecodeMessage(raw)
		if err != nil {
			var bad *Malformed
			if m != nil || !errors.As(err, &bad) || bad.Reason == "" || bad.Remedy == "" {
				t.Fatalf("refused with %v, %v", m, err)
			}
			return
		}
		set := jsontext.Value(`{"from":` + string(quoted(from)) + `,"conversation":` + string(quoted(conversation)) + `,"hops":` + Seq(hops&0xffff).String() + `}`)
		checkDelivered(t, m, set)
		if ContentHash(m) != ContentHash(decoded(t, string(raw))) {
			t.Fatal("the same bytes gave another hash")
		}
	})
}

// badTexts returns the texts that are not messages, by the names of the rows of the
// matrix in which they are sent.
func badTexts(tb testing.TB) map[string][]byte {
	tb.Helper()
	list, err := filepath.Glob("testdata/bad/*.json")
	if err != nil || len(list) == 0 {
		tb.Fatalf("read the bad texts: %v", err)
	}
	texts := map[string][]byte{}
	for _, name := range list {
		texts[name], err = os.ReadFile(name)
		testenv.Must(tb, err)
	}
	return texts
}

// TestBadTextsAreRefused checks that each bad text is refused, and so is each
// beginning of a message.
func TestBadTextsAreRefused(t *testing.T) {
	texts := badTexts(t)
	whole := `{"id":"m","to":["bob"],"subject":"\u00e9","body":{"a":[1,-2e3,true,null]},"hops":0}`
	for i := range whole {
		texts[fmt.Sprintf("%d bytes", i)] = []byte(whole[:i])
	}
	for name, raw := range texts {
		if m, err := DecodeMessage(raw); m != nil || !errors.Is(err, ErrMalformed) {
			t.Errorf("%s gave %v, %v", name, m, err)
		}
	}
}

func checkDelivered(t *testing.T, m *Message, set jsontext.Value) {
	t.Helper()
	received := time.Unix(1_795_251_600, 5)
	data, err := Deliver(m, set, 7, received)
	testenv.Must(t, err)
	again, err := Deliver(m, logged(t, set), 7, received)
	if err != nil || !bytes.Equal(data, again) {
		t.Fatalf("from the log it is\n%s\n%v, and was\n%s", again, err, data)
	}
	back, err := DecodeMessage(data)
	if err != nil {
		if want := (&Malformed{}); errors.As(err, &want) && strings.Contains(want.Reason, "`conversation` has ") {
			return // the fuzzer's conversation id is longer or shorter than it may be
		}
		t.Fatalf("%v\n%s", err, data)
	}
	over, err := objectMembers(set)
	testenv.Must(t, err)
	said := map[string]string{}
	for _, x := range append(append(m.members, over...), member{"seq", jsontext.Value("7")}, member{"received_at", quoted(Stamp(received))}) {
		said[x.name] = string(x.value)
	}
	got := map[string]string{}
	for _, x := range back.members {
		got[x.name] = string(x.value)
	}
	if diff := cmp.Diff(said, got); diff != "" {
		t.Fatalf("delivered (-said +got):\n%s", diff)
	}
	want := *m
	want.From, want.Conversation, want.Hops, want.members = back.From, back.Conversation, back.Hops, back.members
	if diff := cmp.Diff(&want, back, cmp.AllowUnexported(Message{}, member{})); diff != "" {
		t.Fatalf("fields (-sent +delivered):\n%s", diff)
	}
}

// logged returns what was set, as it reads after a line of the log.
func logged(t *testing.T, set jsontext.Value) jsontext.Value {
	t.Helper()
	line, _, err := AppendLine(nil, Event{Seq: 1, Body: &MessageEvent{Set: set}}, Sum{})
	testenv.Must(t, err)
	ev, _, err := DecodeLine(bytes.TrimSuffix(line, []byte("\n")))
	testenv.Must(t, err)
	return ev.Body.(*MessageEvent).Set
}
