package task

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hived/hived/proof/docpage"
	"github.com/hived/hived/protocol"
)

var update = flag.Bool("update", false, "rewrite docs/tasks.md")

// pairs returns a line for each state and event that the table has.
func pairs() []string {
	var list []string
	for _, r := range Rules() {
		for _, from := range r.From {
			to, _ := Next(from, r.On)
			who := make([]string, 0, len(r.Who))
			for _, w := range r.Who {
				who = append(who, string(w))
			}
			list = append(list, fmt.Sprintf("%s | %s | %s | %s", from, r.On, to, strings.Join(who, ", ")))
		}
	}
	slices.Sort(list)
	return list
}

// TestTable has the table of spec §8.1, row by row: a change to one needs the same
// change here.
func TestTable(t *testing.T) {
	want := strings.Split(strings.TrimSpace(`
blocked | amend | blocked | creator, human
blocked | answer | in_progress | creator, lead, human
blocked | cancel | blocked | creator, lead, human
blocked | cancelled | cancelled | holder, hive
blocked | dependency_failed | failed | hive
blocked | dependency_resolved | in_progress | hive, lead, human
blocked | effort | blocked | last holder
blocked | fatal_error | failed | holder, creator, lead, human
blocked | step_ended | blocked | who began the step
cancelled | effort | cancelled | last holder
cancelled | step_ended | cancelled | who began the step
cancelled | unwind | cancelled | hive, creator, human
completed | effort | completed | last holder
completed | step_ended | completed | who began the step
completed | unwind | completed | hive, creator, human
failed | effort | failed | last holder
failed | step_ended | failed | who began the step
failed | unwind | failed | hive, creator, human
in_progress | amend | in_progress | creator, human
in_progress | block_on_dependency | blocked | holder, hive
in_progress | cancel | in_progress | creator, lead, human
in_progress | cancelled | cancelled | holder, hive
in_progress | complete | completed | holder
in_progress | fatal_error | failed | holder
in_progress | heartbeat_lost | stalled | hive
in_progress | pause_for_approval | paused | holder, hive
in_progress | progress | in_progress | holder
in_progress | progress_stalled | stalled | hive
in_progress | release | unassigned | holder
in_progress | step_ended | in_progress | who began the step
in_progress | step_started | in_progress | holder
in_progress | transient_error | retrying | holder, hive
offered | accept | pending | offeree
offered | amend | offered | creator, human
offered | cancel | cancelled | creator, lead, human
offered | claim | pending | eligible agent
offered | offer_exhausted | unassigned | hive
offered | offer_expired | unassigned | hive
offered | offer_withdrawn | offered | hive
offered | reject | offered | offeree
offered | step_ended | offered | who began the step
paused | amend | paused | creator, human
paused | approval_denied | failed | approver
paused | approval_granted | in_progress | approver
paused | approval_vote | paused | approver
paused | cancel | paused | creator, lead, human
paused | cancelled | cancelled | holder, hive
paused | effort | paused | last holder
paused | remind | paused | hive
paused | step_ended | paused | who began the step
paused | timeout | failed | hive
pending | amend | pending | creator, human
pending | cancel | cancelled | creator, lead, human
pending | lease_expired | unassigned | hive
pending | release | unassigned | holder
pending | remind | pending | hive
pending | start | in_progress | holder
pending | step_ended | pending | who began the step
retrying | amend | retrying | creator, human
retrying | cancel | retrying | creator, lead, human
retrying | cancelled | cancelled | holder, hive
retrying | effort | retrying | last holder
retrying | fatal_error | failed | holder
retrying | max_retries_exceeded | failed | hive
retrying | release | unassigned | holder
retrying | retry | in_progress | hive
retrying | step_ended | retrying | who began the step
stalled | amend | stalled | creator, human
stalled | cancel | stalled | creator, lead, human
stalled | cancelled | cancelled | holder, hive
stalled | max_retries_exceeded | failed | hive
stalled | recovered | in_progress | holder
stalled | release | unassigned | hive
stalled | step_ended | stalled | who began the step
unassigned | amend | unassigned | creator, human
unassigned | cancel | cancelled | creator, lead, human
unassigned | claim | pending | eligible agent
unassigned | dependency_failed | failed | hive
unassigned | max_retries_exceeded | failed | hive
unassigned | offer | offered | hive
unassigned | poison | failed | hive
unassigned | step_ended | unassigned | who began the step
`), "\n")
	if diff := cmp.Diff(want, pairs()); diff != "" {
		t.Error(diff)
	}
	if got := len(slices.Compact(pairs())); got != len(want) {
		t.Error("a row is there twice")
	}
}

// TestRulesAreWhole checks that each row has one target and says who may take it,
// and that [Who] agrees.
func TestRulesAreWhole(t *testing.T) {
	for _, r := range Rules() {
		if len(r.From) == 0 || len(r.Who) == 0 || r.Same == (r.To != "") {
			t.Errorf("%+v", r)
		}
		for _, from := range r.From {
			if got := Who(from, r.On); !slices.Equal(got, r.Who) {
				t.Errorf("%s of a task that is %s, by %v", r.On, from, got)
			}
		}
	}
	if Who(Completed, Start) != nil || Who("", Create) != nil {
		t.Error("Who allows a pair that is no row")
	}
	list := Rules()
	list[0].On = "x"
	if Rules()[0].On == "x" {
		t.Error("a caller can change the table")
	}
}

// TestEveryStateCanEnd checks that nothing leaves a terminal state, that each state
// can be reached, and that from each other state a task can be completed, fail and
// be cancelled.
func TestEveryStateCanEnd(t *testing.T) {
	reached := func(from State) map[State]bool {
		seen := map[State]bool{}
		for todo := []State{from}; len(todo) > 0; {
			s := todo[0]
			todo = todo[1:]
			for _, on := range Events() {
				if to, ok := Next(s, on); ok && !seen[to] {
					seen[to] = true
					todo = append(todo, to)
				}
			}
		}
		return seen
	}
	begun := reached(Unassigned)
	for _, s := range States() {
		if s != Unassigned && !begun[s] {
			t.Errorf("no task becomes %s", s)
		}
		to := reached(s)
		switch {
		case Ended(s) && (len(to) > 1 || len(to) == 1 && !to[s]): // what is reported late leaves it as it is
			t.Errorf("%s leads to %v", s, to)
		case !Ended(s) && (!to[Completed] || !to[Failed] || !to[Cancelled]):
			t.Errorf("%s leads to %v only", s, to)
		}
	}
}

// TestTableIsDocumented checks that docs/tasks.md has the table and the diagram
// that are made from the rows.
func TestTableIsDocumented(t *testing.T) {
	var table strings.Builder
	table.WriteString("\n| from | event | to | who may | |\n|---|---|---|---|---|\n")
	for _, r := range Rules() {
		to := "`" + string(r.To) + "`"
		if r.Same {
			to = "the same"
		}
		who := make([]string, 0, len(r.Who))
		for _, w := range r.Who {
			who = append(who, string(w))
		}
		from := make([]string, 0, len(r.From))
		for _, s := range r.From {
			from = append(from, "`"+string(s)+"`")
		}
		fmt.Fprintf(&table, "| %s | `%s` | %s | %s | %s |\n", strings.Join(from, ", "), r.On, to, strings.Join(who, ", "), r.Note)
	}
	hold := func(name, text string) {
		docpage.Hold(t, "../docs/tasks.md", "<!-- "+name+": go test ./task -run Documented -update -->\n", "<!-- end of "+name+" -->", text, *update)
	}
	hold("table", table.String()+"\n")
	hold("diagram", "\n```mermaid\n"+Diagram()+"```\n\n")
}

// TestOutcomesAreDocumented checks that the table of outcomes has a row for each kind,
// whose event a holder may report while the task is in progress, and that docs/workers.md
// has the table.
func TestOutcomesAreDocumented(t *testing.T) {
	var table strings.Builder
	table.WriteString("\n| kind | known by | hived then | counts as | |\n|---|---|---|---|---|\n")
	var kinds []protocol.OutcomeKind
	for _, r := range OutcomeRules() {
		kinds = append(kinds, r.Kind)
		if who := Who(InProgress, r.Do); r.Do != "" && r.Do != Failure && !slices.Contains(who, ByHolder) {
			t.Errorf("%s leads to %s, which %v may report", r.Kind, r.Do, who)
		}
		do := "refuses it"
		if r.Do != "" {
			do = "`" + string(r.Do) + "`"
		}
		fmt.Fprintf(&table, "| `%s` | %s | %s | %s | %s |\n", r.Kind, r.Seen, do, r.Charge, r.Note)
	}
	if diff := cmp.Diff(protocol.OutcomeKinds(), kinds); diff != "" {
		t.Errorf("the kinds of the table (-protocol +table):\n%s", diff)
	}
	docpage.Hold(t, "../docs/workers.md", "<!-- outcomes: go test ./task -run Documented -update -->\n", "<!-- end of outcomes -->", table.String()+"\n", *update)
}

// TestDiagram checks that the diagram has an arrow for each pair, the beginning and
// the ends.
func TestDiagram(t *testing.T) {
	lines := strings.Split(strings.TrimSuffix(Diagram(), "\n"), "\n")
	if lines[0] != "stateDiagram-v2" || lines[1] != "    [*] --> unassigned: create" {
		t.Errorf("the diagram begins with %q", lines[:2])
	}
	var want, got []string
	for _, p := range pairs() {
		part := strings.Split(p, " | ")
		if part[1] == string(StepEnded) {
			continue // every state has it, and it changes none
		}
		want = append(want, fmt.Sprintf("    %s --> %s: %s", part[0], part[2], part[1]))
	}
	want = append(want, "    completed --> [*]", "    failed --> [*]", "    cancelled --> [*]")
	got = append(got, lines[2:]...)
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
