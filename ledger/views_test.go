package ledger

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

var update = flag.Bool("update", false, "rewrite the stored views of the newest format")

// manyViews returns the state after events, in a log of the given format, that
// between them give views all the members that there are.
func manyViews(t *testing.T, format int) *State {
	t.Helper()
	const asks, waits, tries, offered, blocked, done = "01M7YW2XY9P0EW1X9MFVTQ8901", "01M7YW2XY9P0EW1X9MFVTQ8902", "01M7YW2XY9P0EW1X9MFVTQ8903", "01M7YW2XY9P0EW1X9MFVTQ8904", "01M7YW2XY9P0EW1X9MFVTQ8905", "01M7YW2XY9P0EW1X9MFVTQ8906"
	s := story(&protocol.HiveEvent{Action: protocol.Initialised, Format: format})
	tell(s, append(joined("human", "alice"),
		&protocol.AgentEvent{Agent: "bob", Action: protocol.Joined, Role: "maker", Caps: []string{"draw", "print"}, Slots: 2},
		&protocol.AgentEvent{Agent: "carol", Action: protocol.Joined, Older: jsontext.Value(`{"capabilities":["unit tests"],"cwd":"/srv/<shop>"}`)},
		&protocol.AgentEvent{Agent: "carol", Action: protocol.Held},
		&protocol.AgentEvent{Agent: "alice", Action: protocol.LeadSet})...)
	do := func(id protocol.TaskID, by protocol.AgentID, event protocol.TaskAction, e protocol.TaskEvent) {
		t.Helper()
		was := s.Tasks.Get(id)
		if was == nil {
			was = &task.Task{}
		}
		e.Task, e.By, e.Event, e.From = id, by, event, was.State
		e.To, _ = task.Next(e.From, event)
		e.Epoch, e.Attempt = was.Epoch, max(e.Attempt, was.Attempt)
		if event == task.Accept {
			e.Epoch++
		}
		tell(s, &e)
		if x := s.Tasks.Get(id); x == nil || x.Changed != s.Seq {
			t.Fatalf("event %s of task %s was not folded", event, id)
		}
	}
	create := func(id protocol.TaskID, e protocol.TaskEvent) { t.Helper(); do(id, protocol.Human, task.Create, e) }
	begin := func(id protocol.TaskID, by protocol.AgentID, attempt int) {
		t.Helper()
		do(id, protocol.Hive, task.Offer, protocol.TaskEvent{Agents: []protocol.AgentID{by, "carol"}})
		do(id, by, task.Accept, protocol.TaskEvent{Attempt: attempt})
		do(id, by, task.Start, protocol.TaskEvent{})
	}
	if format >= 3 {
		tell(s, &protocol.AgentEvent{Agent: "bob", Action: protocol.SlotsSet, Slots: 0})
	}
	at := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }

	var origin, unwinds protocol.TaskID
	generation := 0
	var crash, limit protocol.TaskEvent
	if format >= 3 {
		origin, unwinds, generation = done, done, 2
		crash = protocol.TaskEvent{Outcome: &protocol.Outcome{Kind: protocol.OutcomeCrashed}, Charge: protocol.ChargeRetry}
		limit = protocol.TaskEvent{Outcome: &protocol.Outcome{Kind: protocol.OutcomeRateLimited}, Charge: protocol.ChargeFree}
	}
	create(asks, protocol.TaskEvent{
		Origin: origin, Unwinds: unwinds, Generation: generation,
		Needs: []protocol.TaskID{done}, Resumes: done, Repairs: done, Depth: 1,
		Spec: &protocol.TaskSpec{
			Title: "Zeichne <das> große \"Bild\"", Body: "in the brief alone", To: []protocol.Address{"@maker", "alice"}, Priority: -3,
			Gate: "make check", Approvals: 2, Approvers: []protocol.Address{"human", "carol"}, Data: jsontext.Value(`{"in": "the brief alone"}`),
		},
	})
	begin(asks, "alice", 1)
	do(asks, "alice", task.Progress, protocol.TaskEvent{Checkpoint: &protocol.Checkpoint{Milestone: "outline", SHA256: "0102030405060708", Data: jsontext.Value(`{"n":1}`)}})
	do(asks, "alice", task.Release, protocol.TaskEvent{Reason: "no colours here", Fruitless: 1, Outcome: crash.Outcome, Charge: crash.Charge})
	begin(asks, "bob", 2)
	do(asks, "bob", task.TransientError, protocol.TaskEvent{Category: protocol.TransientFailure, Reason: "no paper", Outcome: limit.Outcome, Charge: limit.Charge})
	do(asks, protocol.Hive, task.Retry, protocol.TaskEvent{Attempt: 3})
	do(asks, "bob", task.PauseForApproval, protocol.TaskEvent{Question: "may I use red?"})
	first := s.Seq
	do(asks, protocol.Human, task.ApprovalGranted, protocol.TaskEvent{Answered: &protocol.Question{
		Ask: first, Question: "may I use red?", AskedBy: "bob", AskedAt: s.TS,
		Answers: []protocol.Answer{{By: protocol.Human, At: s.TS, Event: task.ApprovalGranted, Comment: "yes, a little"}},
	}})
	do(asks, protocol.Human, task.Amend, protocol.TaskEvent{
		Spec:   &protocol.TaskSpec{Title: "Zeichne <das> große \"Bild\"", To: []protocol.Address{"@maker"}, Priority: -3, Gate: "make check", Approvals: 2, Approvers: []protocol.Address{"human", "carol"}},
		Amends: &protocol.Amendment{Version: 2, Creator: protocol.Human, CreatedAt: start},
	})
	do(asks, protocol.Human, task.Cancel, protocol.TaskEvent{Reason: "perhaps not"})
	var choices []string
	choice := ""
	if format >= 3 {
		choices, choice = []string{"blue", "green"}, "green"
	}
	do(asks, "bob", task.PauseForApproval, protocol.TaskEvent{Question: "may I use blue?", Choices: choices, Until: at(3600)})
	do(asks, "carol", task.ApprovalVote, protocol.TaskEvent{Choice: choice})

	create(waits, protocol.TaskEvent{Spec: &protocol.TaskSpec{Title: "wait"}, NotBefore: at(600)})
	create(tries, protocol.TaskEvent{Spec: &protocol.TaskSpec{Title: "try"}})
	begin(tries, "alice", 1)
	do(tries, "alice", task.Progress, protocol.TaskEvent{Expected: at(900)})
	create(offered, protocol.TaskEvent{Spec: &protocol.TaskSpec{Title: "offer"}})
	do(offered, protocol.Hive, task.Offer, protocol.TaskEvent{Agents: []protocol.AgentID{"alice", "bob"}})
	create(blocked, protocol.TaskEvent{Spec: &protocol.TaskSpec{Title: "block"}})
	begin(blocked, "bob", 1)
	do(blocked, "bob", task.BlockOnDependency, protocol.TaskEvent{Needs: []protocol.TaskID{waits, tries}, Category: protocol.LogicFailure, Reason: "it does not compile"})
	create(done, protocol.TaskEvent{Spec: &protocol.TaskSpec{Title: "do"}})
	begin(done, "alice", 1)
	do(done, "alice", task.Complete, protocol.TaskEvent{Result: &protocol.TaskOutput{Value: jsontext.Value(`"in result.json alone"`)}})
	if format >= 3 {
		do(done, protocol.Human, task.Unwind, protocol.TaskEvent{UnwoundBy: asks})
	}
	return s
}

// TestViewsKeepTheirForm checks that the same events give views the bytes that they
// always had. Views are in no event: verify, repair and replay render those of old
// commits again, and compare them with what those commits have.
func TestViewsKeepTheirForm(t *testing.T) {
	for format := viewsSince; format <= protocol.LogFormat; format++ {
		keepTheirForm(t, format)
	}
}

func keepTheirForm(t *testing.T, format int) {
	t.Helper()
	s := manyViews(t, format)
	for p := range s.AllViews {
		got, _ := s.View(p)
		file := filepath.Join("testdata", fmt.Sprint("format", format), filepath.FromSlash(p))
		if *update && format == protocol.LogFormat {
			testenv.Must(t, os.MkdirAll(filepath.Dir(file), 0o755))
			testenv.Must(t, os.WriteFile(file, got, 0o644))
		}
		want, err := os.ReadFile(file)
		testenv.Must(t, err)
		if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(string(got), "\n")); diff != "" {
			t.Errorf(`%s is not what it was (-stored +now):
%s
The form of views belongs to the log's format (docs/adr/0026-views.md): hives have
commits with the old form, and verify would call each of them damaged. Take the
change back; or begin a new format (protocol.LogFormat), render the old form where
the log is of an older one, and run: go test ./ledger -run TestViewsKeepTheirForm -update
That writes the views of the newest format alone, which is right for a format that
was not released yet.`, file, diff)
		}
	}
}

// TestStoredViewsHaveEveryMember checks that the stored views have every member.
// Without it, a member that is new and left out where it is empty would change no
// stored view.
func TestStoredViewsHaveEveryMember(t *testing.T) {
	s := manyViews(t, protocol.LogFormat)
	var tasks, rosters []any
	for p := range s.AllViews {
		data, _ := s.View(p)
		var doc any
		testenv.Must(t, json.Unmarshal(data, &doc))
		if p == protocol.PathRegistry {
			rosters = append(rosters, doc)
		} else {
			tasks = append(tasks, doc)
		}
	}
	for _, m := range append(without(reflect.TypeFor[task.View](), tasks, protocol.TaskView), without(reflect.TypeFor[registry](), rosters, protocol.PathRegistry)...) {
		t.Errorf("no stored view has %s: add events to manyViews that lead to it; a new member of a view needs a new format as well (docs/adr/0026-views.md)", m)
	}
}

// without returns the members of a type that none of some JSON values has.
func without(of reflect.Type, values []any, name string) []string {
	if of.Kind() == reflect.Pointer {
		return without(of.Elem(), values, name)
	}
	if of.Kind() == reflect.Slice || of.Kind() == reflect.Map {
		var inner []any
		for _, v := range values {
			list, _ := v.([]any)
			members, _ := v.(map[string]any)
			inner = slices.AppendSeq(append(inner, list...), maps.Values(members))
		}
		return without(of.Elem(), inner, name)
	}
	if len(values) == 0 {
		return []string{name}
	}
	if of.Kind() != reflect.Struct || of == reflect.TypeFor[time.Time]() {
		return nil
	}
	var list []string
	for f := range of.Fields() {
		if !f.IsExported() {
			continue
		}
		member, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		var inner []any
		for _, v := range values {
			members, _ := v.(map[string]any)
			if m, ok := members[member]; ok {
				inner = append(inner, m)
			}
		}
		list = append(list, without(f.Type, inner, name+"."+member)...)
	}
	return list
}
