package decide

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

// The answers to a question about a step (spec §8.9).
const (
	stepHappened = "happened" // the effect is there, so that the step is done
	stepAgain    = "again"    // its command, or its undo, runs again
	stepWait     = "wait"     // somebody still runs it: its end is waited for
	stepWithout  = "without"  // its output is gone, and an empty one does
)

// stepChoice is one answer to a question about a step, and what it says to a person.
type stepChoice struct{ name, means string }

var (
	choiceHappened = stepChoice{stepHappened, "it did what it was to do: the step is done, and is not run again"}
	choiceAgain    = stepChoice{stepAgain, "it did not, or may do it twice: it runs again"}
	choiceUndo     = stepChoice{stepAgain, "its undo runs again"}
	choiceWait     = stepChoice{stepWait, "it may still run: wait until it ends"}
	choiceWithout  = stepChoice{stepWithout, "go on with an empty output"}
	choiceUndone   = stepChoice{string(protocol.StepUndone), "what it did is undone"}
	choiceLeft     = stepChoice{string(protocol.StepLeft), "what it did stays"}
)

// stepChoices returns what a person can be asked about a step of a status in a task; the
// first few are offered where the question names none. None: there is nothing to ask.
func stepChoices(t *task.Task, s protocol.StepStatus) (offered, more []stepChoice) {
	switch unwinds := t.Terms().Unwinds != ""; {
	case unwinds && s == protocol.StepExecuting:
		return []stepChoice{choiceHappened, choiceUndone}, []stepChoice{choiceLeft, choiceWait}
	case unwinds && s == protocol.StepDone:
		return []stepChoice{choiceUndo, choiceUndone, choiceLeft}, []stepChoice{choiceWait}
	}
	switch s {
	case protocol.StepExecuting:
		return []stepChoice{choiceHappened, choiceAgain}, []stepChoice{choiceWait}
	case protocol.StepFailed:
		return []stepChoice{choiceAgain}, []stepChoice{choiceWait}
	case protocol.StepUndoing:
		return []stepChoice{choiceUndone, choiceUndo, choiceLeft}, []stepChoice{choiceWait}
	case protocol.StepDone:
		return []stepChoice{choiceAgain, choiceWithout}, nil
	case protocol.StepUndone, protocol.StepLeft:
	}
	return nil, nil
}

// askAboutStep pauses a task until a person has said what became of a step. From then on
// the intent stands no more, and the question has no time limit: nobody else can know.
func (d *Decider) askAboutStep(r *report) error {
	s := d.stepOf(r)
	if s == nil {
		return &refusal{protocol.CodeBadCommand, fmt.Sprintf("there is no step %d; the task has %d; name one by its n, as in its record", r.Step.N, len(d.state.Tasks.Steps(r.t)))}
	}
	last, err := d.stepRecord(s)
	if err != nil {
		return err
	}
	choices, err := choicesFor(r, last)
	if err != nil {
		return err
	}
	if err := d.recoverStalled(r); err != nil {
		return err
	}
	next := *last
	next.Ask = r.t.Questions.Next(d.state.Seq + 1)
	question := askText(r.by, last, choices)
	if r.Question != "" {
		question += " " + r.limitText(r.Question)
	}
	return d.pause(r, protocol.TaskEvent{Question: question, Choices: namesOf(choices), Step: &next})
}

// stepOf returns the step that a report names by its number; nil if there is none.
func (d *Decider) stepOf(r *report) *task.StepState {
	steps := d.state.Tasks.Steps(r.t)
	if r.Step.N < 1 || r.Step.N > len(steps) {
		return nil
	}
	return &steps[r.Step.N-1]
}

// choicesFor returns the choices of a question about a step: those that its command
// names, which must fit its status, or the usual ones. A step that was done meanwhile is
// asked about by mistake, unless the question says that its output is gone.
func choicesFor(r *report, last *protocol.StepRecord) (list []stepChoice, err error) {
	if r.Step.Command != "" && r.Step.Command != last.Command && last.Underway() {
		return nil, &detailed{&refusal{protocol.CodeStepRunning, "the step was begun again since; judge it anew"}, map[string]any{"record": last}}
	}
	offered, more := stepChoices(r.t, last.Status)
	all := append(slices.Clone(offered), more...)
	done := last.Status == protocol.StepDone && r.t.Terms().Unwinds == ""
	if len(all) == 0 {
		return nil, &refusal{protocol.CodeBadCommand, "step " + digits(last.N) + " is " + string(last.Status) + ", so that there is nothing to ask about it"}
	}
	if len(r.Choices) == 0 && !done {
		return offered, nil
	}
	for _, name := range r.Choices {
		i := slices.IndexFunc(all, func(c stepChoice) bool { return c.name == name })
		if i < 0 && !done {
			return nil, &refusal{protocol.CodeBadCommand, "the question offers " + protocol.Quote(protocol.Fit(name, choiceMost)) + "; about a step that is " + string(last.Status) + " it can offer " + strings.Join(namesOf(all), ", ")}
		}
		if i >= 0 {
			list = append(list, all[i])
		}
	}
	if len(list) < max(1, len(r.Choices)) { // whoever asks thinks that nobody knows
		return nil, &detailed{&refusal{protocol.CodeStepDone, "the step is done, so that nothing is to be asked; its record is in `data.record`; if its output is gone, ask with the choices again and without"}, map[string]any{"record": last}}
	}
	return list, nil
}

func namesOf(choices []stepChoice) (names []string) {
	for _, c := range choices {
		names = append(names, c.name)
	}
	return names
}

// commandShown is how much of a step's command a question shows, in characters.
const commandShown = 200

// askText returns what a person is asked about a step by the holder of its task.
func askText(holder protocol.AgentID, s *protocol.StepRecord, choices []stepChoice) string {
	what, by := "its command", "begun by "+string(s.By)+" at "+s.StartedAt.Format(time.RFC3339)
	if s.Status == protocol.StepUndoing {
		what = "its undo"
	}
	text := fmt.Sprintf("Step %d, %s, was %s", s.N, s.Name, by)
	switch s.Status {
	case protocol.StepDone:
		text += ", is done" + whyAsked(holder, s, choices)
	case protocol.StepFailed:
		text += ", has failed, and something that it began still runs."
	case protocol.StepExecuting, protocol.StepUndoing, protocol.StepUndone, protocol.StepLeft:
		text += ", and nobody knows what became of " + what + "."
	}
	run := strings.Join(s.Argv, " ")
	if s.Status == protocol.StepUndoing || s.Status == protocol.StepDone && !slices.Contains(choices, choiceWithout) && s.Undo != "" {
		run = s.Undo
	}
	if s.Signal != "" {
		text += " It was ended by a signal (" + s.Signal + ")."
	}
	var means []string
	for _, c := range choices {
		means = append(means, c.name+": "+c.means)
	}
	return text + " That was: " + protocol.Fit(protocol.Visible(run), commandShown) + "\n" + strings.Join(means, "; ") + "."
}

// whyAsked says why a person is asked about a step that is done.
func whyAsked(holder protocol.AgentID, s *protocol.StepRecord, choices []stepChoice) string {
	switch {
	case slices.Contains(choices, choiceWithout) || slices.Contains(choices, choiceAgain):
		return ", and its output is gone."
	case s.Error != "":
		return ", and its undo has failed: " + protocol.Fit(protocol.Visible(s.Error), commandShown) + "."
	}
	return ". Its undo does not run by itself: " + string(s.By) + " recorded it, and " + string(holder) + " has the task."
}

// answeredStep returns the record of the step that the open question of a task is about,
// as an answer leaves it; nil if it is about none, or if the answer does not say what became
// of the step. A denial does not: the question stays in the record, so that the intent
// stands no more, and whoever goes on with the chain judges the step again.
func (d *Decider) answeredStep(r *report, event task.Event) (*protocol.StepRecord, error) {
	ask, _ := r.t.Open()
	steps := d.state.Tasks.Steps(r.t)
	i := slices.IndexFunc(steps, func(s task.StepState) bool { return s.Ask == ask && ask > 0 })
	if i < 0 || event != task.ApprovalGranted {
		return nil, nil
	}
	next, err := d.stepRecord(&steps[i])
	if err != nil {
		return nil, err
	}
	next.Ask = 0
	next.How = protocol.JudgedPerson
	if r.Choice == stepWait {
		return next, nil // its intent stands again
	}
	next.Command, next.EndedAt = "", r.now.UTC()
	next.Exit, next.Signal, next.Error = nil, "", ""
	switch r.Choice {
	case stepHappened:
		next.Status, next.Output = protocol.StepDone, saidOutput(r)
	case stepWithout:
		next.Output = protocol.NewStepOutput(nil)
	case stepAgain:
		if next.EndedAt = (time.Time{}); next.Status != protocol.StepUndoing && r.t.Terms().Unwinds == "" {
			next.Status, next.Output = protocol.StepExecuting, nil
		}
	case string(protocol.StepUndone), string(protocol.StepLeft):
		next.Status = protocol.StepStatus(r.Choice)
	}
	return next, nil
}

// saidOutput returns the output of a step as a person gave it with the answer: a text as
// it is, anything else as JSON.
func saidOutput(r *report) *protocol.StepOutput {
	if len(r.Result) == 0 {
		return protocol.NewStepOutput(nil)
	}
	var text string
	if json.Unmarshal(r.Result, &text) == nil {
		return protocol.NewStepOutput([]byte(text))
	}
	return protocol.NewStepOutput(r.Result)
}

// asked reports whether the question about a step is still open.
func asked(t *task.Task, s *protocol.StepRecord) bool {
	ask, _ := t.Open()
	return s.Ask > 0 && s.Ask == ask
}
