package view

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

// ofAlice is a command that alice sent in the outbox file that mine describes.
var ofAlice = Sent{By: "alice", ID: "m", File: "f.json", To: to("hive")}

// notice returns hived's notice about that command, in an inbox file of that name.
func notice(code protocol.Code, file string) protocol.Body {
	return &protocol.MessageEvent{
		ID: "n", From: protocol.Hive, InReplyTo: "m", Delivered: ids("alice"), File: file,
		Raw: fmt.Sprintf(`{"to":"alice","body":"do this","data":{"code":%q,"open":3,"held":2,"not_for_you":1}}`, code),
	}
}

func TestCommand(t *testing.T) {
	held := &protocol.AgentEvent{Agent: "bob", Action: protocol.Held, Of: 1}
	step := func(id protocol.TaskID, event task.Event) *protocol.TaskEvent {
		return &protocol.TaskEvent{Task: id, Event: event, Of: 1}
	}
	start, create, recovered, complete := step("A", task.Start), step("B", task.Create), step("A", task.Recovered), step("A", task.Complete)
	fenced := &protocol.TaskRejectedEvent{Task: "A", Of: 1, Code: protocol.CodeFenced, Detail: "too late"}
	none := &protocol.TaskRejectedEvent{Of: 1, Code: protocol.CodeNoTask}
	for name, tt := range map[string]struct {
		events []protocol.Body // numbered from 1; the first accepts the command
		want   Command
	}{
		"not answered": {nil, Command{State: Queued}},
		"another's":    {bodies(&protocol.AgentEvent{Agent: "bob", Action: protocol.Held, Of: 9}, &protocol.TaskEvent{Task: "A", Of: 9}), Command{State: Queued}},
		"said of another": {
			bodies(&protocol.MessageEvent{From: protocol.Hive, InReplyTo: "x", Delivered: ids("alice"), Raw: `{"to":"alice","data":{"code":"not-allowed"}}`}),
			Command{State: Queued},
		},
		"done to an agent":      {bodies(held), Command{State: Done, Seq: 2, Agent: held}},
		"done to the hive":      {bodies(&protocol.HiveEvent{Action: protocol.Continued, Of: 1}), Command{State: Done, Seq: 2}},
		"done and confirmed":    {bodies(held, notice("ok", "n.json")), Command{State: Done, Seq: 2, Agent: held, Answers: []string{"n.json"}}},
		"confirmed alone":       {bodies(notice("ok", "n.json")), Command{State: Queued, Answers: []string{"n.json"}}},
		"refused":               {bodies(notice("not-allowed", "n.json")), Command{State: Refused, Seq: 2, Code: "not-allowed", Detail: "do this", Answers: []string{"n.json"}}},
		"dropped":               {bodies(dropped(protocol.Expired, "hive")), Command{State: Refused, Seq: 2, Code: "expired", Detail: "do this"}},
		"done to a task":        {bodies(start), Command{State: Done, Seq: 2, Tasks: []TaskStep{{2, start}}}},
		"done to a task twice":  {bodies(recovered, create, complete), Command{State: Done, Seq: 4, Tasks: []TaskStep{{4, complete}, {3, create}}, Created: []*protocol.TaskEvent{create}}},
		"a task refused it":     {bodies(fenced, notice("fenced", "n.json")), Command{State: Refused, Seq: 2, Code: "fenced", Detail: "too late", Rejected: fenced, Answers: []string{"n.json"}}},
		"no task for it":        {bodies(none, notice("no-task", "n.json")), Command{State: Refused, Seq: 2, Code: "no-task", Rejected: none, Numbers: &protocol.TaskNumbers{Open: 3, Held: 2, NotForYou: 1}, Answers: []string{"n.json"}}},
		"done, and told of it":  {bodies(start, notice("cancel-requested", "n.json")), Command{State: Done, Seq: 2, Tasks: []TaskStep{{2, start}}}},
		"done, with a warning":  {bodies(create, notice("nobody-eligible", "n.json")), Command{State: Done, Seq: 2, Tasks: []TaskStep{{2, create}}, Created: []*protocol.TaskEvent{create}, Warning: "do this", Answers: []string{"n.json"}}},
		"said to somebody else": {bodies(&protocol.MessageEvent{From: protocol.Hive, InReplyTo: "m", Delivered: ids("human"), File: "n.json", Raw: `{"to":"human","body":"b","data":{"code":"not-allowed"}}`}), Command{State: Refused, Seq: 2, Code: "not-allowed", Detail: "b"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, f := NewCommand(ofAlice, "start")
			seen(f, append(bodies(accepted("hive")), tt.events...))
			tt.want.Event, tt.want.ID = "start", "m"
			if diff := cmp.Diff(&tt.want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("command (-want +got):\n%s", diff)
			}
		})
	}
}

// TestCommandByItsFile checks that a command that was not accepted is found by the
// name of its file.
func TestCommandByItsFile(t *testing.T) {
	for name, tt := range map[string]struct {
		event protocol.Body
		want  State
	}{
		"quarantined":   {&protocol.QuarantineEvent{Agent: "alice", Original: mine, Code: protocol.CodeTooLarge}, Refused},
		"another's":     {&protocol.QuarantineEvent{Agent: "bob", Original: mine, Code: protocol.CodeTooLarge}, Queued},
		"of no message": {&protocol.AgentEvent{Agent: "bob", Action: protocol.Held}, Queued},
	} {
		got, f := NewCommand(ofAlice, "start")
		if seen(f, bodies(tt.event)); got.State != tt.want {
			t.Errorf("%s: %s, want %s", name, got.State, tt.want)
		}
	}
}

// TestCommandWaitsForTheWholeDecision checks that a command is answered with the
// whole decision about it, and no earlier.
func TestCommandWaitsForTheWholeDecision(t *testing.T) {
	_, f := NewCommand(ofAlice, "start")
	for i, tt := range []struct {
		body protocol.Body
		more bool
		done bool
	}{
		{accepted("hive"), true, false},
		{&protocol.TaskEvent{Task: "A", Event: task.Recovered, Of: 1}, true, false},
		{&protocol.TaskEvent{Task: "A", Event: task.Complete, Of: 1}, false, true},
	} {
		if got := f.See(protocol.Event{Seq: protocol.Seq(i + 1), Body: tt.body, More: tt.more}); got != tt.done {
			t.Errorf("event %d: done is %v, want %v", i+1, got, tt.done)
		}
	}
}
