package main

import (
	"strings"
	"testing"

	"github.com/hived/hived/protocol"
	"github.com/hived/hived/view"
)

// What became of a message is put into words, with what to do about it.
func TestMessageInWords(t *testing.T) {
	zed := view.Drop{To: to("zed"), Reason: protocol.NoInbox, Detail: "do this"}
	bob := view.Drop{To: to("bob"), Reason: protocol.InboxFull, Detail: "do that"}
	kept := view.Drop{To: to("carol"), Reason: protocol.HopCap, Kept: true, Thread: "c"}
	goesOn := "conversation c is stopped; it is kept, and `hived continue c` has it delivered"
	reply := &view.Reply{From: "bob", Act: protocol.Agree, Subject: "yes", Body: "why not"}
	for _, tt := range []struct {
		name   string
		until  view.State
		m      view.Message
		shown  string
		err    string
		detail string
	}{
		{"accepted", view.Accepted, view.Message{State: view.Accepted, Seq: 1, Delivered: []protocol.AgentID{"bob"}}, "accepted as 1, delivered to bob\n", "", ""},
		{"handled", view.Handled, view.Message{State: view.Handled, Seq: 1, Delivered: []protocol.AgentID{"bob"}, Handled: []protocol.AgentID{"bob"}}, "handled by bob\n", "", ""},
		{"replied", view.Replied, view.Message{State: view.Replied, Seq: 1, Reply: reply}, "bob agree: yes\n\nwhy not\n", "", ""},
		{"replied, and nobody waited for that", view.Accepted, view.Message{State: view.Accepted, Seq: 1, Reply: reply}, "accepted as 1, delivered to \n", "", ""},
		{"queued", view.Accepted, view.Message{State: view.Queued}, "", "", ""},
		{"one of two dropped", view.Accepted, view.Message{State: view.Refused, Seq: 1, Delivered: []protocol.AgentID{"bob"}, Dropped: []view.Drop{zed}, Code: "no-inbox", Detail: "do this"}, "", "m (delivered to bob): not delivered to zed: no-inbox: do this", "do this"},
		{"two reasons", view.Accepted, view.Message{State: view.Refused, Seq: 1, Dropped: []view.Drop{zed, bob}, Code: "inbox-full", Detail: "do that"}, "", "m: not delivered to zed: no-inbox: do this; not delivered to bob: inbox-full: do that", "do that"},
		{"quarantined", view.Accepted, view.Message{State: view.Refused, Code: "id-conflict", Detail: "use another"}, "", "m: id-conflict: use another", "use another"},
		{
			"duplicate", view.Accepted,
			view.Message{State: view.Refused, Seq: 7, Code: "duplicate"},
			"",
			"m: duplicate: it was accepted before, as seq 7, and nothing was delivered again; send a new message with a new id, or with none",
			"it was accepted before, as seq 7, and nothing was delivered again; send a new message with a new id, or with none",
		},
		{"kept", view.Accepted, view.Message{State: view.Refused, Seq: 1, Dropped: []view.Drop{kept}, Code: "hop-cap"}, "", "m: not delivered to carol: hop-cap: " + goesOn, goesOn},
		{
			"kept and dropped", view.Accepted,
			view.Message{State: view.Refused, Seq: 1, Dropped: []view.Drop{kept, zed}, Code: "no-inbox", Detail: "do this"},
			"",
			"m: not delivered to carol: hop-cap: " + goesOn + "; not delivered to zed: no-inbox: do this", "do this",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.m.ID = "m"
			explain(&tt.m)
			err := notDelivered(&tt.m)
			if (err != nil) != (tt.err != "") || err != nil && (err.Error() != tt.err || exitStatus(err) != protocol.ExitRefused) {
				t.Errorf("error %v, want %q", err, tt.err)
			}
			if tt.m.Detail != tt.detail {
				t.Errorf("detail %q, want %q", tt.m.Detail, tt.detail)
			}
			var b strings.Builder
			if (&printer{w: &b}).message(&tt.m, tt.until); b.String() != tt.shown {
				t.Errorf("it shows %q, want %q", b.String(), tt.shown)
			}
		})
	}
}
