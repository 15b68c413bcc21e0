package capsule

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hived/hived/agent"
	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/internal/wait"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

// mayUndo reports that the caller may run the undo, as far as flags and the record go.
func mayUndo(s situation) bool { return !s.foreign && !s.gone && s.tries > 0 }

// underLock reports that the caller has the lock of a step whose end, or whose undo's end,
// nobody saw.
func underLock(s situation, status protocol.StepStatus) bool {
	return is(s, status) && s.lock == lockOwn && s.record.Command != ""
}

// undoRows is the table of undos of spec §8.11, in its order: the first row that fits
// counts.
var undoRows = []row{
	{"the epoch went on", func(s situation) bool { return s.late }, lateEpoch},
	{"no record", func(s situation) bool { return s.record == nil }, lost},
	{"a question is open", func(s situation) bool { return s.asked }, asking},
	{"it has no undo", func(s situation) bool { return s.record.Undo == "" }, passOver},
	{"undone, left, or failed", func(s situation) bool {
		return is(s, protocol.StepUndone, protocol.StepLeft, protocol.StepFailed)
	}, passOver},
	{"the lock was not tried", func(s situation) bool { return s.lock == lockUntried }, takeLock},
	{"done, and the lock file is missing", func(s situation) bool {
		return is(s, protocol.StepDone) && s.lock == lockMissing && mayUndo(s)
	}, intend},
	{"the lock file is missing", func(s situation) bool { return s.lock == lockMissing }, ask},
	{"held, and a person said to wait", func(s situation) bool {
		return s.lock == lockHeld && s.record.How == protocol.JudgedPerson && s.record.Command != ""
	}, waitEnd},
	{"held", func(s situation) bool { return s.lock == lockHeld }, waitLock},
	{"the own intent stands", func(s situation) bool {
		return is(s, protocol.StepUndoing) && s.intent == own && s.record.Command == own
	}, execute},
	{"done", func(s situation) bool { return is(s, protocol.StepDone) && mayUndo(s) }, intend},
	{"done, and its undo may not run", func(s situation) bool { return is(s, protocol.StepDone) }, ask},
	{"a person said that its undo runs again", func(s situation) bool {
		return is(s, protocol.StepUndoing) && s.record.Command == "" && mayUndo(s)
	}, intend},
	{"nobody knows, and nothing stands", func(s situation) bool { return s.record.Command == "" }, ask},
	{"verify was not asked yet", func(s situation) bool { return s.evidence == evidenceUnknown }, verify},
	{"executing, verify says 0", func(s situation) bool {
		return underLock(s, protocol.StepExecuting) && s.evidence == evidenceThere
	}, endDone},
	{"undoing, verify says 0", func(s situation) bool {
		return underLock(s, protocol.StepUndoing) && s.evidence == evidenceThere && mayUndo(s)
	}, intend},
	{"verify says 1", func(s situation) bool { return s.evidence == evidenceMissing }, endUndone},
	{"nobody knows", func(situation) bool { return true }, ask},
}

// TestJudgeUndo checks the verdict of every situation of a step to undo against the table,
// that each row of it counts for one at least, and what must hold whatever the table says:
// an undo runs under the lock alone, with an intent of one's own that stands, and none is
// begun that may have been done but for a reason, or that somebody else recorded.
func TestJudgeUndo(t *testing.T) {
	fit := map[string]int{}
	check := func(s situation) {
		got := judgeUndo(s)
		for _, r := range undoRows {
			if !r.fits(s) {
				continue
			}
			if fit[r.name]++; got != r.then {
				t.Fatalf("%s foreign=%v: verdict %d, but %q says %d", describe(s), s.foreign, got, r.name, r.then)
			}
			break
		}
		switch got {
		case execute:
			if s.late || s.asked || s.lock != lockOwn || !s.record.Stands(own) || s.intent != own || !is(s, protocol.StepUndoing) {
				t.Fatalf("%s: would run", describe(s))
			}
		case intend:
			reason := is(s, protocol.StepDone) || is(s, protocol.StepUndoing) && (s.record.Command == "" || s.evidence == evidenceThere)
			if s.late || s.asked || !reason || !mayUndo(s) || s.lock != lockOwn && !is(s, protocol.StepDone) {
				t.Fatalf("%s: would begin", describe(s))
			}
			if again := undoJudgement(s); is(s, protocol.StepUndoing) && s.record.Command != "" && again == "" {
				t.Fatalf("%s: begins again and does not say why", describe(s))
			}
		case endDone, endUndone:
			if s.lock != lockOwn || s.record.Command == "" {
				t.Fatalf("%s: would end what it cannot know", describe(s))
			}
		case answer, giveUp, wrongTask:
			t.Fatalf("%s: judged as if it was to be done", describe(s))
		case takeLock, verify, waitLock, waitEnd, ask, asking, passOver, lost, lateEpoch:
		default:
			t.Fatalf("%s: no verdict", describe(s))
		}
	}
	situations(func(s situation) {
		for _, undo := range []string{"", "true"} {
			for _, s.foreign = range []bool{false, true} {
				if s.record != nil {
					s.record.Undo = undo
				}
				check(s)
			}
		}
	})
	for _, r := range undoRows {
		if fit[r.name] == 0 {
			t.Errorf("no situation is %q", r.name)
		}
	}
}

// shell does a step that is a shell command, with another that undoes it.
func shell(t *testing.T, c *Capsule, name, command, undo string) {
	t.Helper()
	testenv.Must(t, c.Command(t.Context(), Spec{Name: name, Argv: []string{"sh", "-c", command}, Undo: undo, CWD: t.TempDir()}, &strings.Builder{}, &strings.Builder{}))
}

// fails ends a task and has another agent take the one that unwinds it.
func (h *hiveOf) fails(c *Capsule) *Capsule {
	h.Helper()
	h.does("bob", task.FatalError, c.Epoch, agent.Report{Reason: "given up"})
	return h.unwinding(h.id, "eve")
}

// unwinding has an agent take the task that unwinds another.
func (h *hiveOf) unwinding(of protocol.TaskID, who protocol.AgentID) *Capsule {
	h.Helper()
	wait.Until(h.T, "the task that unwinds "+string(of), func() bool { // task.json follows the log
		v, err := agent.View(h.disk, of)
		testenv.Must(h, err)
		h.id = v.UnwoundBy
		return h.id != ""
	})
	u := h.begin(who)
	if u.Unwinds() != of {
		h.Fatalf("the task unwinds %q, want %q", u.Unwinds(), of)
	}
	return u
}

// unwinds undoes what there is, and returns what the undos printed, by lines.
func unwinds(t *testing.T, c *Capsule) ([]string, error) {
	t.Helper()
	var out strings.Builder
	err := c.Unwind(t.Context(), &out, &strings.Builder{})
	return strings.Fields(out.String()), err
}

// statuses returns the statuses of the steps of a capsule.
func statuses(t *testing.T, c *Capsule) (list []string) {
	t.Helper()
	names, err := c.records()
	testenv.Must(t, err)
	for i, name := range names {
		list = append(list, string(c.record(i+1, name).Status))
	}
	return list
}

// TestUnwind checks that the steps of a task that failed are undone in reverse, each once,
// with their output as input and a key of their own; that a step without an undo is passed
// over; and that whoever resumes the task afterwards does them again, with other keys.
func TestUnwind(t *testing.T) {
	h := newHive(t)
	c := h.begin("bob")
	undo := `echo "$HIVE_STEP $(cat) $HIVE_IDEMPOTENCY_KEY $(basename "$PWD")"`
	for _, name := range []string{"one", "two", "three"} {
		if name == "two" {
			shell(t, c, name, "echo of-two", "")
			continue
		}
		shell(t, c, name, "echo of-"+name, undo)
	}
	first := h.id
	u := h.fails(c)
	got, err := unwinds(t, u)
	testenv.Must(t, err)
	want := []string{"three", "of-three", string(first) + ":three:undo", filepath.Base(u.record(3, "three").CWD), "one", "of-one", string(first) + ":one:undo", filepath.Base(u.record(1, "one").CWD)}
	if !slices.Equal(got, want) {
		t.Errorf("the undos printed %q, want %q", got, want)
	}
	if got := statuses(t, u); !slices.Equal(got, []string{"undone", "done", "undone"}) {
		t.Errorf("the steps are %v", got)
	}
	if got, err := unwinds(t, u); err != nil || len(got) > 0 {
		t.Errorf("undone again they printed %q, %v", got, err)
	}
	h.does("eve", task.Complete, u.Epoch, agent.Report{})
	h.id = first
	h.id = h.does("human", task.Resume, 0, nil).Task
	c = h.begin("bob")
	shell(t, c, "one", "echo again", undo)
	if r := c.record(1, "one"); r.Round != 2 || r.Key != string(first)+":one:2" || r.Output.Text != "again\n" {
		t.Errorf("after that its record is %+v", r)
	}
	u = h.fails(c)
	if got, err := unwinds(t, u); err != nil || len(got) != 4 || got[2] != string(first)+":one:2:undo" {
		t.Errorf("in the second round the undo printed %q, %v", got, err)
	}
}

// TestUndoFails checks that an undo that fails runs again as often as it may, that a person
// is asked then, and what the answers lead to.
func TestUndoFails(t *testing.T) {
	for choice, want := range map[string]struct {
		status string
		runs   int
	}{"again": {"undone", 4}, "undone": {"undone", 3}, "left": {"left", 3}} {
		t.Run(choice, func(t *testing.T) {
			h := newHive(t)
			c := h.begin("bob")
			count := filepath.Join(t.TempDir(), "count")
			shell(t, c, "one", "true", "echo run >>"+count+"; test $(wc -l <"+count+") -gt 3")
			u := h.fails(c)
			u.Retries = 2
			if _, err := unwinds(t, u); !errors.Is(err, ErrAsked) {
				t.Fatalf("an undo that fails got %v", err)
			}
			v, err := agent.View(h.disk, h.id)
			testenv.Must(t, err)
			if got := strings.Join(v.Question.Choices, " "); got != "again undone left" || !v.Until.IsZero() {
				t.Errorf("the question offers %s, until %s", got, v.Until)
			}
			h.does("human", task.ApprovalGranted, 0, agent.Report{Ask: v.Question.Ask, Choice: choice})
			_, err = unwinds(t, u)
			testenv.Must(t, err)
			ran, err := os.ReadFile(count)
			testenv.Must(t, err)
			if got := statuses(t, u); got[0] != want.status || strings.Count(string(ran), "run") != want.runs {
				t.Errorf("after %s it is %v, after the runs %q", choice, got, ran)
			}
			h.does("eve", task.Complete, u.Epoch, agent.Report{})
		})
	}
}

// TestUndoOfADoubt checks that a step whose end nobody saw when its task ended is judged by
// its verify command, or by a person, before it is undone.
func TestUndoOfADoubt(t *testing.T) {
	for name, x := range map[string]struct {
		verify, choice string
		status         string
		undone         int
	}{
		"there":     {"exit 0", "", "undone", 1},
		"not there": {"exit 1", "", "undone", 0},
		"happened":  {"exit 2", "happened", "undone", 1},
		"undone":    {"", "undone", "undone", 0},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHive(t)
			c := h.begin("bob")
			count := filepath.Join(t.TempDir(), "count")
			slept := &doing{Capsule: c, spec: Spec{Name: "pay", Verify: x.verify, Undo: "echo run >>" + count}, n: 1, tries: 1}
			testenv.Must(t, slept.step(t.Context()))
			u := h.fails(c)
			_, err := unwinds(t, u)
			if x.choice != "" {
				if !errors.Is(err, ErrAsked) {
					t.Fatalf("a doubt got %v", err)
				}
				v, err := agent.View(h.disk, h.id)
				testenv.Must(t, err)
				h.does("human", task.ApprovalGranted, 0, agent.Report{Ask: v.Question.Ask, Choice: x.choice})
				_, err = unwinds(t, u)
				testenv.Must(t, err)
			} else {
				testenv.Must(t, err)
			}
			ran, _ := os.ReadFile(count) // it may not be there
			if got := statuses(t, u); got[0] != x.status || strings.Count(string(ran), "run") != x.undone {
				t.Errorf("it is %v, after the runs %q", got, ran)
			}
		})
	}
}

// TestDoubtOfAnUndo checks that an undo whose end nobody saw is judged by the verify
// command of its step, or by a person, and that whoever had begun it, and goes on later,
// runs nothing.
func TestDoubtOfAnUndo(t *testing.T) {
	for name, x := range map[string]struct {
		verify string
		undone int
		asked  bool
	}{"there": {"exit 0", 1, false}, "not there": {"exit 1", 0, false}, "unknown": {"", 0, true}} {
		t.Run(name, func(t *testing.T) {
			h := newHive(t)
			c := h.begin("bob")
			count := filepath.Join(t.TempDir(), "count")
			testenv.Must(t, c.Command(t.Context(), Spec{Name: "pay", Argv: []string{"true"}, Verify: x.verify, Undo: "echo run >>" + count}, &strings.Builder{}, &strings.Builder{}))
			u := h.fails(c)
			slept := &doing{Capsule: u, spec: Spec{Name: "pay"}, n: 1, tries: 1, unwind: true, work: Work{Run: func(context.Context, Attempt) End { t.Error("whoever slept ran it"); return End{} }}}
			for slept.intent == "" {
				testenv.Must(t, slept.step(t.Context()))
			}
			slept.release()
			h.does("eve", task.Release, u.Epoch, nil)
			next := h.begin("bob")
			if _, err := unwinds(t, next); errors.Is(err, ErrAsked) != x.asked || !x.asked && err != nil {
				t.Errorf("the successor got %v", err)
			}
			var err error
			for err == nil && slept.done == nil {
				err = slept.step(t.Context())
			}
			if !refusedAs(err, protocol.CodeFenced) {
				t.Errorf("whoever slept got %v", err)
			}
			ran, _ := os.ReadFile(count) // it may not be there
			if strings.Count(string(ran), "run") != x.undone {
				t.Errorf("the undo ran: %q", ran)
			}
		})
	}
}

// TestUndoOfAnotherUser checks that where agents have users a person is asked about the
// undo that another agent recorded, and nothing is run.
func TestUndoOfAnotherUser(t *testing.T) {
	h := newHive(t)
	c := h.begin("bob")
	count := filepath.Join(t.TempDir(), "count")
	shell(t, c, "one", "true", "echo run >>"+count)
	u := h.fails(c)
	u.Users = true
	if _, err := unwinds(t, u); !errors.Is(err, ErrAsked) {
		t.Fatalf("it got %v", err)
	}
	v, err := agent.View(h.disk, h.id)
	testenv.Must(t, err)
	if got := strings.Join(v.Question.Choices, " "); got != "undone left" {
		t.Errorf("the question offers %s", got)
	}
	if _, err := os.Stat(count); err == nil {
		t.Error("the undo ran")
	}
	h.does("human", task.ApprovalGranted, 0, agent.Report{Ask: v.Question.Ask, Choice: "undone"})
	_, err = unwinds(t, u)
	testenv.Must(t, err)
	h.does("eve", task.Complete, u.Epoch, agent.Report{})
}
