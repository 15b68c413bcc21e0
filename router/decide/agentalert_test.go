package decide

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/ledger"
	"github.com/hived/hived/protocol"
)

// alerts sends an alert of an agent, and returns its event, or else the notice that refuses
// it, and the notice to the lead, or human.
func (b *bench) alerts(who protocol.AgentID, data string) (raised *protocol.AlertEvent, refused, told *protocol.MessageEvent) {
	for _, x := range b.send(who, `{"to":"hive","event":"alert","data":`+data+`}`) {
		switch e := x.Event.Body.(type) {
		case *protocol.AlertEvent:
			raised = e
		case *protocol.MessageEvent:
			switch {
			case e.From != protocol.Hive:
			case strings.HasPrefix(e.Subject, "refused"):
				refused = e
			case strings.Contains(e.Subject, "raises an alert"):
				told = e
			}
		}
	}
	return raised, refused, told
}

// TestAgentAlert checks that an agent's alert is told to the lead, or human, once for each
// cause in tasks.alert_every, whoever raises it and also over a snapshot; and that what is
// no alert is refused.
func TestAgentAlert(t *testing.T) {
	t.Parallel()
	b := newBench(t, "alice", "bob")
	raised, _, told := b.alerts("alice", `{"cause":"disk-full","text":"no room on /data"}`)
	if raised == nil || raised.Cause != "disk-full" || raised.Agent != "alice" || raised.Code != protocol.CodeAgentAlert || !raised.Told || raised.Of == 0 {
		t.Fatalf("raised %+v", raised)
	}
	if told == nil || told.To[0] != "human" || !strings.Contains(told.Raw, "alice says: no room on /data.") || !strings.Contains(told.Raw, `"cause":"disk-full"`) {
		t.Fatalf("told %+v", told)
	}
	if !strings.Contains(fmt.Sprint(b.needs()), "no room on /data") {
		t.Errorf("what needs a person: %v", b.needs())
	}
	first := b.now
	wantKnown := func(who protocol.AgentID) {
		t.Helper()
		raised, refused, told := b.alerts(who, `{"cause":"disk-full","text":"again"}`)
		if raised != nil || told != nil || refused == nil || !strings.Contains(refused.Raw, string(protocol.CodeAlreadyTold)) ||
			!strings.Contains(refused.Raw, first.Add(time.Hour).Format(time.RFC3339)) {
			t.Errorf("of %s again: %+v, %+v, %+v", who, raised, refused, told)
		}
	}
	b.now = b.now.Add(59 * time.Minute)
	wantKnown("alice")
	wantKnown("bob")
	text, err := stateBytes(b.d.state)
	testenv.Must(t, err)
	state, _, err := ledger.Decode(strings.NewReader(text), b.d.settings.Remember)
	testenv.Must(t, err)
	if got := state.CauseRaised("disk-full"); !got.Equal(first) {
		t.Errorf("after a snapshot it was raised at %v", got)
	}
	b.now = first.Add(time.Hour)
	if raised, refused, _ := b.alerts("bob", `{"cause":"disk-full","text":"still"}`); raised == nil {
		t.Errorf("after an hour it is refused: %+v", refused)
	}
	b.command(`{"to":"hive","event":"agent-lead","data":{"agent":"bob"}}`)
	if _, _, told := b.alerts("alice", `{"cause":"net","text":"gone"}`); told == nil || told.To[0] != "bob" {
		t.Errorf("with a lead: %+v", told)
	}
	if _, _, told := b.alerts("bob", `{"cause":"net-2","text":"gone"}`); told == nil || told.To[0] != "human" {
		t.Errorf("of the lead: %+v", told)
	}
}

func TestAgentAlertRefused(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ data, want string }{
		{`{"text":"x"}`, "its `cause` is"},
		{`{"cause":"Disk Full","text":"x"}`, "written like an agent's id"},
		{`{"cause":"` + strings.Repeat("x", 65) + `","text":"x"}`, "written like an agent's id"},
		{`{"cause":"disk"}`, "it has no `text`"},
		{`{"cause":"disk","text":" \n"}`, "it has no `text`"},
		{`{"cause":"disk","text":"` + strings.Repeat("é", 2001) + `"}`, "has 2001 characters, and may have 2000"},
		{`{"cause":"disk","text":"x","code":"y"}`, "does not fit"},
		{`{"cause":7,"text":"x"}`, "does not fit"},
	} {
		raised, refused, _ := newBench(t, "alice").alerts("alice", tt.data)
		if raised != nil || refused == nil || !strings.Contains(refused.Raw, tt.want) || !strings.Contains(refused.Raw, string(protocol.CodeBadCommand)) {
			t.Errorf("%.60s: %+v, refused %+v, want %q", tt.data, raised, refused, tt.want)
		}
	}
}

// TestAgentAlertsPerHour checks that an agent which makes up causes is stopped, that others
// are not, and that the causes which are remembered are bounded.
func TestAgentAlertsPerHour(t *testing.T) {
	t.Parallel()
	b := newBench(t, "alice", "bob")
	for i := range alertsPerHour {
		if raised, refused, told := b.alerts("alice", fmt.Sprintf(`{"cause":"c-%d","text":"x"}`, i)); raised == nil || told == nil {
			t.Fatalf("alert %d is refused: %+v", i+1, refused)
		}
	}
	if raised, refused, _ := b.alerts("alice", `{"cause":"one-more","text":"x"}`); raised != nil || refused == nil || !strings.Contains(refused.Raw, string(protocol.CodeTooMany)) {
		t.Errorf("one more: %+v, %+v", raised, refused)
	}
	if raised, refused, _ := b.alerts("bob", `{"cause":"one-more","text":"x"}`); raised == nil {
		t.Errorf("of another agent: %+v", refused)
	}
	b.now = b.now.Add(2 * time.Hour)
	if raised, refused, _ := b.alerts("alice", `{"cause":"later","text":"x"}`); raised == nil {
		t.Errorf("two hours later: %+v", refused)
	}
}

// TestAgentAlertOfATask checks that an alert can say about which task it is, and that one
// which names a task that there is not is raised all the same.
func TestAgentAlertOfATask(t *testing.T) {
	t.Parallel()
	b := newBench(t, "alice")
	id := b.create(`{"title":"x","to":["alice"]}`)
	for task, want := range map[string]string{string(id): protocol.TaskDir(id), "01HZZZZZZZZZZZZZZZZZZZZZZZ": ""} {
		var raised *protocol.AlertEvent
		for _, x := range b.send("alice", `{"to":"hive","event":"alert","task":"`+task+`","data":{"cause":"c-`+strings.ToLower(task)+`","text":"x"}}`) {
			if e, is := x.Event.Body.(*protocol.AlertEvent); is {
				raised = e
			}
		}
		if raised == nil || raised.Path != want {
			t.Errorf("of task %s: %+v, want the path %q", task, raised, want)
		}
	}
}
