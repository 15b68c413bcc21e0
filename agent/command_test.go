package agent

import (
	"errors"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

// commands returns the commands about tasks in spec §8.2, each with who gives it.
func commands(t *testing.T) map[protocol.TaskAction]string {
	t.Helper()
	text, err := os.ReadFile("../docs/spec.md")
	testenv.Must(t, err)
	_, rest, _ := strings.Cut(string(text), "**8.2 Commands about tasks**")
	section, _, found := strings.Cut(rest, "**8.3 ")
	if !found {
		t.Fatal("the specification has no clause 8.2")
	}
	list := map[protocol.TaskAction]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| (`[^|]*`) \\| ([^|]*) \\|").FindAllStringSubmatch(section, -1) {
		for name := range strings.SplitSeq(row[1], ", ") {
			list[protocol.TaskAction(strings.Trim(name, "`"))] = row[2]
		}
	}
	delete(list, "event") // the table's header
	return list
}

// TestNeedsEpoch checks that the commands that need an epoch are those that, by the
// specification, the holder gives.
func TestNeedsEpoch(t *testing.T) {
	t.Parallel()
	list := commands(t)
	if len(list) < 20 {
		t.Fatalf("the table of the specification was read as %v", list)
	}
	for event, from := range list {
		want := from == "holder" || strings.HasPrefix(from, "holder, ")
		if got := NeedsEpoch(event); got != want {
			t.Errorf("NeedsEpoch(%s) = %t; the specification says it comes from: %s", event, got, from)
		}
	}
	for _, event := range []protocol.TaskAction{task.Offer, task.Retry, task.HeartbeatLost, task.Adopted, "", "nonsense"} {
		if NeedsEpoch(event) {
			t.Errorf("%q needs an epoch", event)
		}
	}
}

// TestDraftIsAMessage checks that each command is one valid message to hive, and
// expires if it would be wrong when it came late.
func TestDraftIsAMessage(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	late := map[protocol.TaskAction]bool{
		"create": true, "claim": true, "accept": true, "start": true, "approval_granted": true, "approval_denied": true, "answer": true, "amend": true, "step_started": true,
	}
	for event := range commands(t) {
		d, err := Command{Event: event, Task: one, Epoch: 3, Within: time.Minute}.Draft(now)
		if err != nil {
			t.Errorf("%s: %v", event, err)
			continue
		}
		d.ID = "m"
		text, err := json.Marshal(d)
		testenv.Must(t, err)
		m, err := protocol.DecodeMessage(text)
		if err != nil {
			t.Errorf("%s: %v in %s", event, err, text)
			continue
		}
		if len(m.To) != 1 || m.To[0] != "hive" || m.Act != protocol.Request || m.Event != string(event) || m.Task != string(one) || m.Epoch != 3 || m.Has("data") || m.Has("requires_reply") {
			t.Errorf("%s is %s", event, text)
		}
		if !late[event] != m.ExpiresAt.IsZero() || late[event] && !m.ExpiresAt.Equal(now.Add(time.Minute)) {
			t.Errorf("%s expires at %s", event, m.ExpiresAt)
		}
	}
}

// TestDraftData checks that the data of a command is what the caller gave and
// nothing else.
func TestDraftData(t *testing.T) {
	t.Parallel()
	none, two := "", 2
	for name, tt := range map[string]struct {
		on   protocol.TaskAction
		data Payload
		want string // the data, or an error if it begins with a word
	}{
		"nothing":         {task.Start, nil, ""},
		"an empty report": {task.Complete, Report{}, ""},
		"a report":        {task.Progress, Report{Milestone: "half", Checkpoint: []byte(`{"n":1}`)}, `{"milestone":"half","checkpoint":{"n":1}}`},
		"an answer":       {task.Answer, Report{Ask: 7, Comment: "so"}, `{"ask":7,"comment":"so"}`},
		"a failure":       {task.Failure, Report{Category: protocol.LogicFailure, Reason: "r"}, `{"reason":"r","category":"logic"}`},
		"a resume":        {task.Resume, Report{Family: true}, `{"family":true}`},
		"a task":          {task.Create, NewTask{Title: "t", To: []protocol.Address{"bob"}}, `{"title":"t","to":["bob"]}`},
		"tasks":           {task.Create, NewTasks{[]protocol.TaskSpec{{Name: "a", Title: "t"}}}, `{"tasks":[{"name":"a","title":"t"}]}`},
		"a change":        {task.Amend, BriefChange{Gate: &none, Approvals: &two}, `{"gate":"","approvals":2}`},
		"no change":       {task.Amend, BriefChange{}, ""},
		"of another":      {task.Create, Report{Reason: "r"}, `malformed: the command "create" takes no agent.Report`},
		"of another one":  {task.Start, NewTask{Title: "t"}, `malformed: the command "start" takes no agent.NewTask`},
		"of an amend":     {task.Progress, BriefChange{Title: "t"}, `malformed: the command "progress" takes no agent.BriefChange`},
		"no JSON":         {task.Complete, Report{Result: []byte("{")}, "write the command complete: "},
	} {
		d, err := Command{Event: tt.on, Task: one, Data: tt.data}.Draft(time.Time{})
		got := string(d.Data)
		if err != nil {
			if got = err.Error(); errors.Is(err, protocol.ErrMalformed) {
				got = "malformed: " + got
			}
		}
		if got != tt.want && (err == nil || !strings.HasPrefix(got, tt.want)) {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
		if !d.ExpiresAt.IsZero() {
			t.Errorf("%s: it expires, though it need not", name)
		}
	}
}
