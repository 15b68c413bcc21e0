package decide

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

// handleStepStarted records that the command of a step begins, or its undo (spec §8.9).
// Whoever sent it begins when the record has its message: so it is fenced by the order
// of the log before it runs anything.
func (d *Decider) handleStepStarted(r *report) error {
	if err := d.checkWorking(r); err != nil {
		return err
	}
	if r.t.Cancelling > 0 {
		return &refusal{protocol.CodeCancelRequested, "somebody asked to cancel the task, so that no more steps begin; to confirm it, " + howToTask(r.by, task.CancelledEvent, r.t.ID, r.t.Epoch, "", "")}
	}
	if err := r.checkStep(); err != nil {
		return err
	}
	if err := d.checkDirection(r); err != nil {
		return err
	}
	next, err := d.nextIntent(r)
	if err != nil {
		return err
	}
	return d.transitionWorking(r, protocol.TaskEvent{Event: task.StepStarted, Step: next, Expected: r.Expected})
}

// checkStep checks what the report of an intent says, and cuts its argv.
func (r *report) checkStep() error {
	s := r.Step
	switch {
	case s == nil:
		return r.badStep("it does not say which step begins")
	case protocol.BadStepName(s.Name) != "":
		return r.badStep(protocol.BadStepName(s.Name))
	case len(s.CWD) > protocol.StepTextMost:
		return r.badStep("its cwd is longer than 4 KiB")
	case r.Again != "" && r.Again != protocol.JudgedVerified && r.Again != protocol.JudgedIdempotent:
		return r.badStep("again is " + protocol.Quote(protocol.Fit(string(r.Again), 64)) + ", and is verified or idempotent where it is there")
	case len(s.Boot) > 64 || s.PID < 0:
		return r.badStep("its boot or pid cannot be")
	}
	if n := max(len(s.Verify), len(s.Undo)); n > protocol.StepTextMost {
		return r.badStep(fmt.Sprintf("its verify or undo has %d bytes, and may have %d; put it into a script and name that", n, protocol.StepTextMost))
	}
	s.Argv = cutArgv(s.Argv)
	return nil
}

func (r *report) badStep(text string) error {
	return &refusal{protocol.CodeBadCommand, text + "; PROTOCOL.md shows how a step begins"}
}

// cutArgv returns the first words of a command that have 4 KiB together, the last of
// them cut.
func cutArgv(argv []string) []string {
	room := protocol.StepTextMost
	for i, arg := range argv {
		if len(arg) > room {
			cut := slices.Clone(argv[:i+1])
			cut[i] = strings.ToValidUTF8(arg[:room], "") + "…"
			return cut
		}
		room -= len(arg)
	}
	return argv
}

// nextIntent returns the record of a step with a new intent, or refuses it: the step was
// done, or its command was begun and nobody says what became of it.
func (d *Decider) nextIntent(r *report) (*protocol.StepRecord, error) {
	steps, s := d.state.Tasks.Steps(r.t), r.Step
	known := d.state.Tasks.Step(r.t, s.Name)
	if known == nil {
		switch most := d.settings.Tasks.Steps; {
		case r.Unwind:
			return nil, r.badStep("there is no step " + protocol.Quote(s.Name) + " to undo")
		case len(steps) >= most:
			return nil, &refusal{protocol.CodeTooMany, fmt.Sprintf("the task has %d steps, and may have %d (tasks.steps); do more in one of them, or let a task of its own do the rest", len(steps), most)}
		}
		return d.intent(r, &protocol.StepRecord{N: len(steps) + 1, Name: s.Name, Round: 1}), nil
	}
	last, err := d.stepRecord(known)
	if err != nil {
		return nil, err
	}
	if err := checkIntent(r, last); err != nil {
		return nil, err
	}
	return d.intent(r, last), nil
}

// checkIntent refuses an intent that may not follow the record of its step.
func checkIntent(r *report, last *protocol.StepRecord) error {
	done := last.Status == protocol.StepDone || last.Status == protocol.StepLeft
	switch {
	case done && !r.Unwind:
		return &detailed{&refusal{protocol.CodeStepDone, "the step was done before; its record is in `data.record`, and its output with it"}, map[string]any{"record": last}}
	case r.Unwind && (last.Status != protocol.StepDone && last.Status != protocol.StepUndoing || last.Undo == ""):
		return &refusal{protocol.CodeBadCommand, "the step is " + string(last.Status) + ", or has no undo, so that there is nothing to undo"}
	case !last.Underway() || last.Command == "": // or a person said that it may begin again
		return nil
	case !asked(r.t, last) && (r.Again == protocol.JudgedVerified || r.Again == protocol.JudgedIdempotent && last.Idempotent):
		return nil
	}
	text := "its command was begun by " + string(last.By) + " under epoch " + digits(last.Epoch) + ", and nobody says what became of it; judge it first (`again`)"
	if asked(r.t, last) {
		text = "a person is asked what became of its command, with question " + last.Ask.String() + "; wait for the answer"
	}
	return &detailed{&refusal{protocol.CodeStepRunning, text}, map[string]any{"record": last}}
}

// intent returns the record of a step whose command, or undo, begins with a report.
func (d *Decider) intent(r *report, last *protocol.StepRecord) *protocol.StepRecord {
	s, origin := r.Step, r.t.Origin()
	next := &protocol.StepRecord{
		N: last.N, Name: last.Name, Round: last.Round, Try: last.Try + 1, Status: protocol.StepExecuting, Task: r.t.ID,
		Argv: s.Argv, CWD: s.CWD, Verify: s.Verify, Undo: s.Undo, Idempotent: s.Idempotent,
		By: r.by, Epoch: r.t.Epoch, Command: r.id, Boot: s.Boot, PID: s.PID, StartedAt: r.now.UTC(),
	}
	if last.Status == protocol.StepUndone {
		next.Round++
	}
	if next.Key = protocol.StepKey(origin, next.Name, next.Round); r.Unwind { // what the step was stays
		next.Status, next.Key = protocol.StepUndoing, protocol.UndoKey(origin, next.Name, next.Round)
		next.Argv, next.CWD, next.Verify, next.Undo, next.Idempotent, next.Output = last.Argv, last.CWD, last.Verify, last.Undo, last.Idempotent, last.Output
	}
	next.How = r.Again
	return next
}

// stepRecord reads the record of a step again.
func (d *Decider) stepRecord(s *task.StepState) (*protocol.StepRecord, error) {
	e, err := d.taskEvent(s.At)
	if err != nil || e.Step == nil {
		return nil, &refusal{protocol.CodeBadCommand, "the record of its step cannot be read from the log; tell a person, who can let hived verify it"}
	}
	record := *e.Step
	return &record, nil
}

// handleStepEnded records the end of the command of a step. An end whose intent still
// stands counts whatever became of the task meanwhile: the log then has the proof (spec
// §8.9). Who judges another's intent by its verify command says so with `how`, and must
// hold the task.
func (d *Decider) handleStepEnded(r *report) error {
	last, err := d.endingStep(r)
	if err != nil {
		return err
	}
	switch {
	case r.Step.How != "":
		if r.Step.How != protocol.JudgedVerified {
			return &refusal{protocol.CodeBadCommand, "how is " + protocol.Quote(protocol.Fit(string(r.Step.How), 64)) + "; who did not see the end of a command knows it by `verified` alone, or asks a person"}
		}
		if err := d.checkHolder(r); err != nil {
			return err
		}
	case r.by != last.By:
		return &refusal{protocol.CodeNotAllowed, "only " + string(last.By) + ", who began the step, may say how it ended"}
	}
	if last.Command == r.Step.Command && !last.Underway() {
		return &detailed{&refusal{protocol.CodeStepDone, "its end is in the log already: it is " + string(last.Status)}, map[string]any{"record": last}}
	}
	judged := r.Step.How != "" && last.Underway() && last.Command == r.Step.Command && !asked(r.t, last)
	if !last.Stands(r.Step.Command) && !judged { // who was denied an answer judges anew
		return &detailed{&refusal{protocol.CodeFenced, "the step was judged, or begun again, before this end of it came, so that it counts no more; nothing of it is to be done again"}, map[string]any{"record": last}}
	}
	if r.Unwind && (r.Step.How == "" || r.t.Terms().Unwinds == "") {
		return &refusal{protocol.CodeBadCommand, "unwind says of an end that the effect of the step is not there, which who undoes it knows by `verified` alone"}
	}
	next, err := ended(r, last)
	if err != nil {
		return err
	}
	var send []outgoing
	if next.Status == protocol.StepDone && last.Status == protocol.StepExecuting {
		var bad string
		if send, bad = d.outbox(r); bad != "" {
			next.Status, next.Error = protocol.StepFailed, lastCharacters("bad-outbox: "+bad, protocol.StepErrorMost)
		}
	}
	if err := d.recordTransition(r.now, r.t, protocol.TaskEvent{Event: task.StepEnded, By: r.by, Of: r.of, Step: next}); err != nil {
		return err
	}
	return d.sendAll(r, send)
}

// endingStep returns the record of the step that a report says has ended.
func (d *Decider) endingStep(r *report) (*protocol.StepRecord, error) {
	steps := d.state.Tasks.Steps(r.t)
	if s := r.Step; s == nil || s.N < 1 || s.Command == "" {
		return nil, &refusal{protocol.CodeBadCommand, "it does not say which step has ended, and which intent: it needs the step's n, and its command, as its record has them"}
	}
	if r.Step.N > len(steps) {
		return nil, &refusal{protocol.CodeBadCommand, fmt.Sprintf("there is no step %d; the task has %d", r.Step.N, len(steps))}
	}
	return d.stepRecord(&steps[r.Step.N-1])
}

// lastPlainExit is the largest exit status that a command chooses itself; those beyond
// it say that it was ended, so that nobody knows what it has done.
const lastPlainExit = 128

// ended returns the record of a step whose command, or undo, has ended.
func ended(r *report, last *protocol.StepRecord) (*protocol.StepRecord, error) {
	s, next := r.Step, *last
	undo := last.Status == protocol.StepUndoing || r.Unwind
	verified := s.How == protocol.JudgedVerified
	switch {
	case verified && (s.Exit != nil || s.Signal != ""):
		return nil, &refusal{protocol.CodeBadCommand, "it has how and an end of its command; who saw the end leaves how out"}
	case !verified && s.Exit == nil && s.Signal == "":
		return nil, &refusal{protocol.CodeBadCommand, "it does not say how the command ended: write exit, or signal"}
	case len(s.Signal) > 16 || s.Exit != nil && (*s.Exit < 0 || *s.Exit > 255):
		return nil, &refusal{protocol.CodeBadCommand, "its exit is 0 to 255, and its signal a name such as KILL"}
	}
	next.EndedAt, next.How, next.Exit, next.Signal, next.Ask = r.now.UTC(), s.How, s.Exit, s.Signal, 0
	next.Error = lastCharacters(s.Error, protocol.StepErrorMost)
	switch {
	case verified || s.Signal == "" && *s.Exit == 0:
		next.Status = protocol.StepDone
		if undo {
			next.Status = protocol.StepUndone
		}
	case s.Signal != "" || *s.Exit > lastPlainExit:
		return &next, nil // in doubt: the intent stands, for whoever judges it
	case undo:
		next.Status = protocol.StepDone // again, with the error of its undo
	default:
		next.Status = protocol.StepFailed
	}
	if undo {
		return &next, nil
	}
	if err := checkOutput(s.Output); err != nil {
		return nil, err
	}
	next.Output = s.Output
	return &next, nil
}

// checkOutput refuses an output whose bytes are not what it says, or that stands where
// nobody but its agent could see it.
func checkOutput(o *protocol.StepOutput) error {
	bad := func(text string) error {
		return &refusal{protocol.CodeBadCommand, "its output cannot be taken: " + text}
	}
	if o == nil {
		return nil
	}
	if o.Bytes > protocol.StepOutputMost && !o.Kept() && len(o.SHA256) == 64 {
		return nil // it was too long to be kept
	}
	data, err := o.Data()
	switch {
	case o.Path != "":
		return bad("an output that stands in a file is not taken yet; send its first 64 KiB")
	case err != nil:
		return bad(err.Error())
	case len(data) > protocol.StepOutputMost:
		return bad(fmt.Sprintf("it has %d bytes, and may have %d", len(data), protocol.StepOutputMost))
	}
	return nil
}

// lastCharacters returns the end of a text.
func lastCharacters(text string, most int) string {
	runes := []rune(text)
	return string(runes[max(0, len(runes)-most):])
}

// checkSteps refuses to complete a task while a step is under way, or, if it unwinds
// another, while one is to be undone.
func (d *Decider) checkSteps(r *report) error {
	if r.t.Terms().Unwinds != "" {
		if s := d.state.Tasks.LastToUndo(r.t); s != nil {
			return &refusal{protocol.CodeStepsLeft, "step " + digits(s.N) + ", " + s.Name + ", is " + string(s.Status) + ", and is not undone; " + howToUndo(r.by, r.t, s)}
		}
		return nil
	}
	for _, s := range d.state.Tasks.Steps(r.t) {
		if s.Status == protocol.StepExecuting || s.Status == protocol.StepUndoing {
			return &refusal{protocol.CodeStepsLeft, "step " + digits(s.N) + ", " + s.Name + ", is " + string(s.Status) + ": end it first, or begin it again, which judges it"}
		}
	}
	return nil
}
