package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hived/hived/agent"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

// events of one message from alice that stands in the outbox as f.json.
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

func TestFate(t *testing.T) {
	other := &protocol.Original{Name: "g.json"}
	for _, tt := range []struct {
		name   string
		to     []protocol.Address
		until  stage
		events []protocol.Body // numbered from 1
		over   int             // the number of the event that ends waiting; 0: none
		state  string
		says   string // of the refusal
	}{
		{"accepted", to("bob"), stageAccepted, bodies(accepted("bob")), 1, "accepted", ""},
		{"of another file with the same id", to("bob"), stageAccepted, bodies(&protocol.MessageEvent{ID: "m", From: "alice", Original: other, Delivered: []protocol.AgentID{"bob"}}), 0, "queued", ""},
		{"of another sender with the same name", to("bob"), stageAccepted, bodies(&protocol.MessageEvent{ID: "m", From: "carol", Original: mine, Delivered: []protocol.AgentID{"bob"}}), 0, "queued", ""},
		{"one of two dropped", to("bob", "zed"), stageAccepted, bodies(accepted("bob"), dropped(protocol.NoInbox, "zed")), 2, "refused", "m (delivered to bob): not delivered to zed: no-inbox: do this"},
		{"all dropped", to("zed"), stageReply, bodies(accepted(), dropped(protocol.NoInbox, "zed")), 2, "refused", "not delivered to zed: no-inbox: do this"},
		{"two reasons", to("zed", "bob"), stageAccepted, bodies(accepted(), dropped(protocol.NoInbox, "zed"), dropped(protocol.InboxFull, "bob")), 3, "refused", "zed: no-inbox: do this; not delivered to bob: inbox-full: do this"},
		{"a group that nobody is in", to("@tester"), stageAccepted, bodies(accepted(), dropped(protocol.NoInbox, "@tester")), 2, "refused", "@tester"},
		{"a group", to("@tester"), stageAccepted, bodies(accepted("bob", "carol")), 1, "accepted", ""},
		{"the lead", to("lead"), stageAccepted, bodies(accepted("bob")), 1, "accepted", ""},
		{"to the coordinator", to("hive"), stageHandled, bodies(accepted("hive")), 1, "handled", ""},
		{"quarantined", to("bob"), stageHandled, bodies(&protocol.QuarantineEvent{Agent: "alice", Original: mine, Code: protocol.CodeIDConflict, Detail: "use another"}), 1, "refused", "m: id-conflict: use another"},
		{"duplicate", to("bob"), stageAccepted, bodies(&protocol.DuplicateEvent{Agent: "alice", Original: mine, Of: 7}), 1, "refused", "m: duplicate: it was accepted before, as seq 7"},
		{"handled by one of two", to("bob", "carol"), stageHandled, bodies(accepted("bob", "carol"), handled("bob")), 0, "accepted", ""},
		{"handled by both", to("bob", "carol"), stageHandled, bodies(accepted("bob", "carol"), handled("bob"), handled("carol")), 3, "handled", ""},
		{"another message handled", to("bob"), stageHandled, bodies(accepted("bob"), &protocol.HandledEvent{Of: 9, Agent: "bob", How: protocol.HowDone}), 0, "accepted", ""},
		{"answered", to("bob"), stageReply, bodies(accepted("bob"), handled("bob"), answered("bob", "alice")), 3, "replied", ""},
		{"answered to somebody else", to("bob"), stageReply, bodies(accepted("bob"), answered("bob", "carol")), 0, "accepted", ""},
		{"a notice of hive is no answer", to("bob"), stageReply, bodies(accepted("bob"), answered(protocol.Hive, "alice")), 0, "accepted", ""},
		{"hive answers what it was asked", to("hive"), stageReply, bodies(accepted("hive"), answered(protocol.Hive, "alice")), 2, "replied", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFate("alice", agent.Sent{ID: "m", File: "f.json"}, tt.to, tt.until)
			over := 0
			for i, body := range tt.events {
				if f.see(protocol.Event{Seq: protocol.Seq(i + 1), Body: body}) && over == 0 {
					over = i + 1
				}
			}
			if over != tt.over || f.State != tt.state {
				t.Errorf("over after event %d with state %s, want %d and %s", over, f.State, tt.over, tt.state)
			}
			err := f.refusal()
			if (err != nil) != (tt.says != "") || err != nil && (!strings.Contains(err.Error(), tt.says) || exitStatus(err) != exitRefused) {
				t.Errorf("refusal %v, want %q", err, tt.says)
			}
		})
	}
}

func to(list ...protocol.Address) []protocol.Address { return list }

func bodies(list ...protocol.Body) []protocol.Body { return list }

func TestOrder(t *testing.T) {
	taken := &protocol.MessageEvent{ID: "m", From: "human", Original: mine, Delivered: []protocol.AgentID{protocol.Hive}}
	notice := func(code string) protocol.Body {
		return &protocol.MessageEvent{ID: "n", From: protocol.Hive, InReplyTo: "m", Raw: fmt.Sprintf(`{"to":"human","body":"do this","data":{"code":%q}}`, code)}
	}
	for _, tt := range []struct {
		name   string
		events []protocol.Body
		want   string // state and code
	}{
		{"not seen", bodies(&protocol.AgentEvent{Agent: "bob", Action: protocol.Held, Of: 1}), "queued "},
		{"done to an agent", bodies(taken, &protocol.AgentEvent{Agent: "bob", Action: protocol.Held, Of: 1}), "done "},
		{"done to the hive", bodies(taken, &protocol.HiveEvent{Action: protocol.Continued, Of: 1}), "done "},
		{"another's", bodies(taken, &protocol.AgentEvent{Agent: "bob", Action: protocol.Held, Of: 9}), "queued "},
		{"refused", bodies(taken, notice("not-allowed")), "refused not-allowed"},
		{"confirmed", bodies(taken, notice("ok")), "queued "},
		{"dropped", bodies(taken, dropped(protocol.Expired, "hive")), "refused expired"},
		{"quarantined", bodies(&protocol.QuarantineEvent{Agent: "human", Original: mine, Code: protocol.CodeTooLarge}), "refused too-large"},
		{"done to a task", bodies(taken, &protocol.TaskEvent{Task: "A", Event: task.Start, Of: 1}), "done "},
		{"done to a task by another", bodies(taken, &protocol.TaskEvent{Task: "A", Event: task.Start, Of: 9}), "queued "},
		{"a task refused it", bodies(taken, &protocol.TaskRejectedEvent{Task: "A", Of: 1, Code: protocol.CodeFenced}, notice("fenced")), "refused fenced"},
		{"done, and said in a notice", bodies(taken, &protocol.TaskEvent{Task: "A", Event: task.Cancel, Of: 1}, notice("cancel-requested")), "done "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := &order{ID: "m", State: "queued", file: "f.json", by: protocol.Human}
			for i, body := range tt.events {
				o.see(protocol.Event{Seq: protocol.Seq(i + 1), Body: body})
			}
			if got := o.State + " " + o.Code; got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
}
