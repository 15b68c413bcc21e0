package main

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hived/hived/protocol"
)

// thread is a small story: a request, its answer, a message that nobody gets.
func thread() []*life {
	at := time.Date(2026, 11, 21, 9, 0, 0, 0, time.Local)
	t := &trace{bySeq: map[protocol.Seq]*life{}}
	want := target{conversations: map[protocol.ConversationID]bool{"c": true}}
	for i, body := range bodies(
		&protocol.MessageEvent{ID: "m1", From: "alice", To: to("bob"), Act: protocol.Request, Subject: "a;b\x1b", Delivered: []protocol.AgentID{"bob"}, Conversation: "c"},
		&protocol.MessageEvent{ID: "x", From: "zed", To: to("bob"), Act: protocol.Inform, Delivered: []protocol.AgentID{"bob"}, Conversation: "other"},
		&protocol.HandledEvent{Of: 1, Agent: "bob", How: protocol.HowDone},
		&protocol.MessageEvent{ID: "m2", From: "bob", To: to("alice", "nobody"), Act: protocol.Done, InReplyTo: "m1", Delivered: []protocol.AgentID{"alice"}, Conversation: "c", Hops: 1},
		&protocol.DropEvent{Of: 4, ID: "m2", From: "bob", To: to("nobody"), Reason: protocol.NoInbox, Detail: "there is no agent", Conversation: "c"},
		&protocol.DuplicateEvent{Of: 1, Agent: "alice", ID: "m1"},
	) {
		t.see(protocol.Event{Seq: protocol.Seq(i + 1), TS: at.Add(time.Duration(i) * time.Second), Body: body}, want)
	}
	t.grow(want)
	return t.roots
}

func TestTraceTree(t *testing.T) {
	var b strings.Builder
	a := &app{}
	p := &printer{w: &b}
	for _, l := range thread() {
		a.tree(p, l, "", "")
	}
	want := `alice → bob: request "a;b\x1b"
├ 2026-11-21 09:00:00.000       1  accepted as m1, 0 hops
├ 2026-11-21 09:00:00.000       1  delivered to bob
├ 2026-11-21 09:00:02.000       3  handled by bob
├ 2026-11-21 09:00:05.000       6  sent again, and not delivered again
└─ bob → alice, nobody: done
   ├ 2026-11-21 09:00:03.000       4  accepted as m2, 1 hops
   ├ 2026-11-21 09:00:03.000       4  delivered to alice, unread
   └ 2026-11-21 09:00:04.000       5  not delivered to nobody: no-inbox: there is no agent
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("tree (-want +got):\n%s", diff)
	}
}

func TestTraceMermaid(t *testing.T) {
	var b strings.Builder
	(&printer{w: &b}).mermaid(thread())
	want := `sequenceDiagram
    participant p1 as alice
    participant p2 as bob
    p1->>p2: request a#59;b#92;x1b
    Note over p2: done a#59;b#92;x1b
    p2->>p1: done
    Note over p2: not delivered to nobody, no-inbox
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("diagram (-want +got):\n%s", diff)
	}
}

func FuzzMermaidTextIsInert(f *testing.F) {
	f.Add("end\n    p1->>p2: x; #59; %%")
	f.Fuzz(func(t *testing.T, s string) {
		got := mermaidText(s)
		for part := range strings.SplitSeq(got, "#") {
			if _, rest, ok := strings.Cut(part, ";"); ok {
				part = rest
			}
			if strings.ContainsAny(part, "\n\r:;%<>\"'(){}[]") {
				t.Errorf("%q became %q", s, got)
			}
		}
	})
}
