package decide

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/hived/hived/protocol"
)

// modelStep is a step in the model.
type modelStep struct {
	n          int
	name       string
	status     string
	command    string // of its last intent
	by         protocol.AgentID
	epoch      uint64
	undo       bool
	idempotent bool
	tries      int
	rounds     int
	ask        protocol.Seq // the question about it, also one that is over
}

func (s *modelStep) underway() bool { return s.status == "executing" || s.status == "undoing" }

// stepOf returns the step of a name in the chain of a task; nil if there is none.
func (m *taskModel) stepOf(t *oneTask, name string) *modelStep {
	for _, s := range m.steps[m.origin(t)] {
		if s.name == name {
			return s
		}
	}
	return nil
}

// beginsStep judges a step_started of the holder.
func (v *ruling) beginsStep() {
	t := v.t
	v.no(!t.cancelling.IsZero(), "cancel-requested")
	v.no(v.c.Data["again"] == "person", "bad-command")
	said, _ := v.c.Data["step"].(map[string]any)
	name, _ := said["name"].(string)
	if v.no(name == "", "bad-command") {
		v.does("step_started")
		return
	}
	unwind, again := v.c.Data["unwind"] == true, v.c.Data["again"]
	v.no(unwind != (t.unwinds != ""), "bad-command")
	if s := v.m.stepOf(t, name); s == nil {
		v.no(unwind, "bad-command")
	} else {
		if last := v.m.lastToUndo(t); t.unwinds != "" {
			v.no(last != nil && last.n > s.n, "steps-left")
		}
		if unwind {
			v.no(s.status != "done" && s.status != "undoing" || !s.undo, "bad-command")
		} else {
			v.no(s.status == "done" || s.status == "left", "step-done")
		}
		v.no(s.underway() && s.command != "" && again != "verified" && (again != "idempotent" || !s.idempotent), "step-running")
	}
	v.does("step_started")
}

// endsStep judges a step_ended.
func (v *ruling) endsStep() {
	said, _ := v.c.Data["step"].(map[string]any)
	list := v.m.steps[v.m.origin(v.t)]
	n, _ := said["n"].(int)
	if v.no(n < 1 || n > len(list) || said["command"] == "", "bad-command") {
		return
	}
	s := list[n-1]
	v.no(v.c.Data["unwind"] == true && (said["how"] != "verified" || v.t.unwinds == ""), "bad-command")
	if said["how"] == "verified" {
		v.no(!v.holder(), "not-allowed") // or what it adds itself
	} else {
		v.no(v.c.by != s.by, "not-allowed")
	}
	switch {
	case said["command"] != s.command:
		v.no(true, "fenced")
	case !s.underway():
		v.no(true, "step-done")
	case s.ask > 0 && (said["how"] != "verified" || v.t.state == "paused" && v.t.ask == s.ask):
		v.no(true, "fenced")
	}
	v.steps = append(v.steps, "step_ended")
}

// stepAnswers are the answers that a question about a step of a status can offer; the
// first few are the usual ones, but of a done one, which must be named.
var stepAnswers = map[string][]string{
	"executing": {"happened", "again", "wait"}, "failed": {"again", "wait"}, "undoing": {"undone", "again", "left", "wait"}, "done": {"again", "without"},
}

// asksAboutStep judges a question about a step.
func (v *ruling) asksAboutStep() {
	said, _ := v.c.Data["step"].(map[string]any)
	list := v.m.steps[v.m.origin(v.t)]
	n, _ := said["n"].(int)
	if v.no(n < 1 || n > len(list), "bad-command") {
		return
	}
	choices, _ := v.c.Data["choices"].([]string)
	s := list[n-1]
	may := answersAbout(v.t, s)
	wrong := slices.ContainsFunc(choices, func(c string) bool { return !slices.Contains(may, c) })
	if s.status == "done" && v.t.unwinds == "" {
		v.no(wrong || len(choices) == 0, "step-done")
		return
	}
	v.no(wrong || len(may) == 0, "bad-command")
}

// answersAbout returns the answers that a question about a step can offer.
func answersAbout(t *oneTask, s *modelStep) []string {
	switch {
	case t.unwinds != "" && s.status == "executing":
		return []string{"happened", "undone", "left", "wait"}
	case t.unwinds != "" && s.status == "done":
		return []string{"again", "undone", "left", "wait"}
	}
	return stepAnswers[s.status]
}

// fillQuestion makes some questions be about a step.
func (h *taskRun) fillQuestion(t *rapid.T, c *taskCommand) {
	x := h.m.ever(protocol.TaskID(c.Task))
	if x == nil {
		return
	}
	list := h.m.steps[h.m.origin(x)]
	if len(list) == 0 || rapid.Bool().Draw(t, "about no step") {
		return
	}
	n := rapid.IntRange(0, len(list)).Draw(t, "about step")
	c.Data["step"] = map[string]any{"n": n}
	delete(c.Data, "choices")
	if n == 0 || rapid.Bool().Draw(t, "with the usual answers") {
		return
	}
	if may := append(slices.Clone(answersAbout(x, list[n-1])), "other"); rapid.IntRange(0, 7).Draw(t, "with others") > 0 && len(may) > 1 {
		c.Data["choices"] = may[:len(may)-1]
	} else {
		c.Data["choices"] = []string{"other"}
	}
}

// answerStep applies to a step of the model what a question, or the answer to it, says.
func (m *taskModel) answerStep(t *oneTask, s *modelStep, e *protocol.TaskEvent) {
	s.ask = e.Step.Ask
	switch {
	case e.Event == "pause_for_approval", e.Choice == "wait":
		return
	case e.Event == "approval_granted":
		if t.unwinds != "" && s.status == "done" && e.Choice == "again" {
			break
		}
		s.status = map[string]string{"happened": "done", "without": "done", "undone": "undone", "left": "left", "again": map[bool]string{true: "undoing", false: "executing"}[s.status == "undoing"]}[e.Choice]
	}
	s.command = ""
}

// takeStep applies the record that an event has.
func (m *taskModel) takeStep(t *oneTask, e *protocol.TaskEvent, at time.Time) error {
	r, origin := e.Step, m.origin(t)
	s := m.stepOf(t, r.Name)
	if e.Event == "step_started" && s == nil {
		s = &modelStep{n: len(m.steps[origin]) + 1, name: r.Name, rounds: 1}
		m.steps[origin] = append(m.steps[origin], s)
	}
	own := r.Epoch == t.epoch && !t.spent
	switch {
	case e.Event != "step_started" && e.Event != "step_ended":
		m.answerStep(t, s, e)
	case e.Event == "step_started":
		s.ask = 0
		if s.tries++; s.status == "undone" {
			s.rounds++
		}
		if s.status == "done" || s.status == "undoing" {
			s.status = "undoing"
		} else {
			s.status, s.undo, s.idempotent = "executing", r.Undo != "", r.Idempotent
		}
		s.command, s.by, s.epoch = string(r.Command), e.By, e.Epoch
		t.stepUntil = e.Expected
		if !t.stepUntil.IsZero() {
			t.stepUntil = t.stepUntil.Add(-m.shift)
		}
	default:
		s.ask = 0
		undo := s.status == "undoing" || r.Status == "undone"
		switch {
		case r.How == "verified" || r.Signal == "" && *r.Exit == 0:
			s.status = map[bool]string{false: "done", true: "undone"}[undo]
		case r.Signal != "" || *r.Exit > 128:
		case undo:
			s.status = "done"
		default:
			s.status = "failed"
		}
	}
	if got, want := fmt.Sprintln(r.N, r.Status, r.Round, r.Try, r.Command, r.By, r.Epoch, r.Ask), fmt.Sprintln(s.n, s.status, s.rounds, s.tries, s.command, s.by, s.epoch, s.ask); got != want {
		return fmt.Errorf("the record of step %s is %s; the model has %s", r.Name, got, want)
	}
	if !strings.HasPrefix(r.Key, string(origin)+":"+r.Name) {
		return fmt.Errorf("the key of step %s is %s", r.Name, r.Key)
	}
	if own && e.Event == "step_ended" && !s.underway() {
		t.stepUntil = time.Time{}
		if r.How == "verified" || *r.Exit == 0 {
			t.moved, t.advanced = at, slices.Contains([]string{"pending", "in_progress", "paused", "blocked", "retrying", "stalled"}, t.state)
		}
	}
	return nil
}

// forgetSteps removes the steps of a chain of which no task is left.
func (m *taskModel) forgetSteps(origin protocol.TaskID) {
	for _, t := range m.tasks {
		if m.origin(t) == origin {
			return
		}
	}
	delete(m.steps, origin)
}

// fillStep adds the data of a command about a step.
func (h *taskRun) fillStep(t *rapid.T, c *taskCommand) {
	x := h.m.ever(protocol.TaskID(c.Task))
	if x == nil {
		return
	}
	if c.Event == "step_started" {
		said := map[string]any{"name": rapid.SampledFrom([]string{"a", "a", "b", "c", ""}).Draw(t, "step"), "idempotent": rapid.Bool().Draw(t, "idempotent")}
		if rapid.Bool().Draw(t, "can be undone") {
			said["undo"] = "true"
		}
		c.Data["step"] = said
		if again := rapid.SampledFrom([]string{"", "", "verified", "idempotent", "person"}).Draw(t, "again"); again != "" {
			c.Data["again"] = again
		}
		if rapid.IntRange(0, 3).Draw(t, "unwind") == 0 != (x.unwinds != "") {
			c.Data["unwind"] = true
			if last := h.m.lastToUndo(x); last != nil && rapid.IntRange(0, 3).Draw(t, "the last") > 0 {
				said["name"] = last.name
			}
		}
		if rapid.IntRange(0, 2).Draw(t, "long") == 0 {
			c.Data["expected_until"] = h.now.Add(10 * time.Minute).UTC()
		}
		return
	}
	list := h.m.steps[h.m.origin(x)]
	said := map[string]any{"n": rapid.IntRange(0, len(list)).Draw(t, "step"), "command": "m0"}
	if n, _ := said["n"].(int); n > 0 && rapid.IntRange(0, 7).Draw(t, "its intent") > 0 {
		said["command"] = list[n-1].command
		if rapid.IntRange(0, 7).Draw(t, "by who began it") > 0 {
			c.by = list[n-1].by
		}
	}
	switch rapid.IntRange(0, 5).Draw(t, "end") {
	case 0:
		said["how"] = "verified"
		if rapid.Bool().Draw(t, "nothing to undo") {
			c.Data["unwind"] = true
		}
	case 1:
		said["signal"] = "KILL"
	case 2:
		said["exit"] = 137
	case 3:
		said["exit"] = 1
	default:
		said["exit"] = 0
	}
	c.Data["step"] = said
}

// worksInSteps has the holder of each task in progress begin a step, or ask about one, and
// whoever began one that is under way report its end, whatever the task is by now.
func (h *taskRun) worksInSteps(t *rapid.T) {
	for _, x := range h.m.sorted() {
		epoch := x.epoch
		if x.state == "in_progress" && rapid.Bool().Draw(t, "begins") {
			c := h.next(x.holder, rapid.SampledFrom([]string{"step_started", "step_started", "step_started", "pause_for_approval"}).Draw(t, "event"))
			c.Task, c.Epoch = string(x.id), &epoch
			h.carry(t, h.fill(t, c))
		}
		for _, s := range h.m.steps[h.m.origin(x)] {
			if !s.underway() || rapid.IntRange(0, 2).Draw(t, "ends") > 0 {
				continue
			}
			c := h.next(s.by, "step_ended")
			c.Task, c.Epoch = string(x.id), &epoch
			c.Data["step"] = map[string]any{"n": s.n, "command": s.command, "exit": rapid.SampledFrom([]int{0, 0, 0, 1, 137}).Draw(t, "exit")}
			h.carry(t, c)
		}
	}
}
