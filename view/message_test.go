package view

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/hived/hived/protocol"
)

// mine is the outbox file of a message from alice.
var mine = &protocol.Original{Name: "f.json"}

func accepted(delivered ...protocol.AgentID) protocol.Body {
	return &protocol.MessageEvent{ID: "m", From: "alice", Delivered: delivered, Original: mine}
}

func dropped(reason protocol.Reason, to ...protocol.Address) protocol.Body {
	return &protocol.DropEvent{Of: 1, ID: "m", From: "alice", To: to, Reason: reason, Detail: "do this"}
}

func handled(by protocol.AgentID) protocol.Body {
	return &protocol.HandledEvent{Of: 1, Agent: by, How: protocol.HowDone}
}

func answered(by protocol.AgentID, to ...protocol.AgentID) protocol.Body {
	return &protocol.MessageEvent{ID: "r", From: by, InReplyTo: "m", Act: protocol.Agree, Delivered: to, Raw: `{"to":"alice","subject":"yes","body":"why not"}`}
}

// seen passes the events, numbered from 1, to a folder, and returns the number of
// the first that it was done with, 0 if none.
func seen(f Folder, events []protocol.Body) (done int) {
	for i, body := range events {
		if f.See(protocol.Event{Seq: protocol.Seq(i + 1), TS: at(i), Body: body}) && done == 0 {
			done = i + 1
		}
	}
	return done
}

// at returns the time of the event with this index.
func at(i int) time.Time {
	return time.Date(2026, 11, 21, 9, 0, i, 0, time.UTC)
}

func TestMessage(t *testing.T) {
	other := &protocol.Original{Name: "g.json"}
	held := &protocol.MessageEvent{
		ID: "m", From: "alice", Conversation: "c", Original: mine, Delivered: ids("bob"),
		Kept: &protocol.Kept{To: ids("carol"), Reason: protocol.HopCap},
	}
	nobody := Drop{To: to("zed"), Reason: protocol.NoInbox, Detail: "do this"}
	kept := Drop{To: to("carol"), Reason: protocol.HopCap, Kept: true, Thread: "c"}
	reply := &Reply{ID: "r", From: "bob", Act: protocol.Agree, Subject: "yes", Body: "why not"}
	for _, tt := range []struct {
		name   string
		to     []protocol.Address
		until  State
		events []protocol.Body // numbered from 1
		done   int             // the number of the event that ends waiting; 0: none
		want   Message
	}{
		{"accepted", to("bob"), Accepted, bodies(accepted("bob")), 1, Message{State: Accepted, Seq: 1, Delivered: ids("bob")}},
		{"not waited for", to("bob"), Queued, bodies(accepted("bob")), 1, Message{State: Accepted, Seq: 1, Delivered: ids("bob")}},
		{"of another file with the same id", to("bob"), Accepted, bodies(&protocol.MessageEvent{ID: "m", From: "alice", Original: other, Delivered: ids("bob")}), 0, Message{State: Queued}},
		{"of another sender with the same name", to("bob"), Accepted, bodies(&protocol.MessageEvent{ID: "m", From: "carol", Original: mine, Delivered: ids("bob")}), 0, Message{State: Queued}},
		{"one of two dropped", to("bob", "zed"), Accepted, bodies(accepted("bob"), dropped(protocol.NoInbox, "zed")), 2, Message{State: Refused, Seq: 1, Delivered: ids("bob"), Dropped: []Drop{nobody}, Code: "no-inbox", Detail: "do this"}},
		{"all dropped", to("zed"), Replied, bodies(accepted(), dropped(protocol.NoInbox, "zed")), 2, Message{State: Refused, Seq: 1, Dropped: []Drop{nobody}, Code: "no-inbox", Detail: "do this"}},
		{
			"two reasons", to("zed", "bob"), Accepted, bodies(accepted(), dropped(protocol.NoInbox, "zed"), dropped(protocol.InboxFull, "bob")), 3,
			Message{State: Refused, Seq: 1, Dropped: []Drop{nobody, {To: to("bob"), Reason: protocol.InboxFull, Detail: "do this"}}, Code: "inbox-full", Detail: "do this"},
		},
		{"a group that nobody is in", to("@tester"), Accepted, bodies(accepted(), dropped(protocol.NoInbox, "@tester")), 2, Message{State: Refused, Seq: 1, Dropped: []Drop{{To: to("@tester"), Reason: protocol.NoInbox, Detail: "do this"}}, Code: "no-inbox", Detail: "do this"}},
		{"a group", to("@tester"), Accepted, bodies(accepted("bob", "carol")), 1, Message{State: Accepted, Seq: 1, Delivered: ids("bob", "carol")}},
		{"the lead", to("lead"), Accepted, bodies(accepted("bob")), 1, Message{State: Accepted, Seq: 1, Delivered: ids("bob")}},
		{"to the coordinator", to("hive"), Handled, bodies(accepted("hive")), 1, Message{State: Handled, Seq: 1, Delivered: ids("hive")}},
		{"quarantined", to("bob"), Handled, bodies(&protocol.QuarantineEvent{Agent: "alice", Original: mine, Code: protocol.CodeIDConflict, Detail: "use another"}), 1, Message{State: Refused, Code: "id-conflict", Detail: "use another"}},
		{"duplicate", to("bob"), Accepted, bodies(&protocol.DuplicateEvent{Agent: "alice", Original: mine, Of: 7}), 1, Message{State: Refused, Seq: 7, Code: "duplicate"}},
		{"kept for one of two", to("bob", "carol"), Accepted, bodies(held), 1, Message{State: Refused, Seq: 1, Delivered: ids("bob"), Dropped: []Drop{kept}, Code: "hop-cap"}},
		{
			"kept for one and dropped for one", to("bob", "carol", "zed"), Accepted, bodies(held, dropped(protocol.NoInbox, "zed")), 2,
			Message{State: Refused, Seq: 1, Delivered: ids("bob"), Dropped: []Drop{kept, nobody}, Code: "no-inbox", Detail: "do this"},
		},
		{
			"delivered after it was kept, and handled then", to("bob", "carol"), Handled,
			bodies(held, &protocol.DeliveredEvent{Of: 1, To: ids("carol")}, &protocol.HandledEvent{Of: 2, Agent: "carol", How: protocol.HowDone}), 1,
			Message{State: Refused, Seq: 1, Delivered: ids("bob"), Handled: ids("carol"), Dropped: []Drop{kept}, Code: "hop-cap"},
		},
		{"handled by one of two", to("bob", "carol"), Handled, bodies(accepted("bob", "carol"), handled("bob")), 0, Message{State: Accepted, Seq: 1, Delivered: ids("bob", "carol"), Handled: ids("bob")}},
		{"handled by both", to("bob", "carol"), Handled, bodies(accepted("bob", "carol"), handled("bob"), handled("carol")), 3, Message{State: Handled, Seq: 1, Delivered: ids("bob", "carol"), Handled: ids("bob", "carol")}},
		{"another message handled", to("bob"), Handled, bodies(accepted("bob"), &protocol.HandledEvent{Of: 9, Agent: "bob", How: protocol.HowDone}), 0, Message{State: Accepted, Seq: 1, Delivered: ids("bob")}},
		{"deleted", to("bob"), Handled, bodies(accepted("bob"), &protocol.HandledEvent{Of: 1, Agent: "bob", How: protocol.HowDeleted}), 2, Message{State: Handled, Seq: 1, Delivered: ids("bob"), Handled: ids("bob")}},
		{"reopened", to("bob"), Handled, bodies(accepted("bob"), &protocol.HandledEvent{Of: 1, Agent: "bob", How: protocol.HowReopened}), 0, Message{State: Accepted, Seq: 1, Delivered: ids("bob")}},
		{"answered", to("bob"), Replied, bodies(accepted("bob"), handled("bob"), answered("bob", "alice")), 3, Message{State: Replied, Seq: 1, Delivered: ids("bob"), Handled: ids("bob"), Reply: reply}},
		{"answered to somebody else", to("bob"), Replied, bodies(accepted("bob"), answered("bob", "carol")), 0, Message{State: Accepted, Seq: 1, Delivered: ids("bob")}},
		{"a notice of hive is no answer", to("bob"), Replied, bodies(accepted("bob"), answered(protocol.Hive, "alice")), 0, Message{State: Accepted, Seq: 1, Delivered: ids("bob")}},
		{
			"hive answers what it was asked", to("hive"), Replied, bodies(accepted("hive"), answered(protocol.Hive, "alice")), 2,
			Message{State: Replied, Seq: 1, Delivered: ids("hive"), Reply: &Reply{ID: "r", From: "hive", Act: protocol.Agree, Subject: "yes", Body: "why not"}},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, f := NewMessage(Sent{By: "alice", ID: "m", File: "f.json", To: tt.to}, tt.until)
			if done := seen(f, tt.events); done != tt.done {
				t.Errorf("done after event %d, want %d", done, tt.done)
			}
			tt.want.ID, tt.want.File = "m", "f.json"
			if diff := cmp.Diff(&tt.want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("message (-want +got):\n%s", diff)
			}
		})
	}
}

func ids(list ...protocol.AgentID) []protocol.AgentID { return list }

func to(list ...protocol.Address) []protocol.Address { return list }

func bodies(list ...protocol.Body) []protocol.Body { return list }
