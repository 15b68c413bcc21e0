package decide

import (
	"cmp"
	"fmt"
	"time"

	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

// creatorOf returns who created a task. Of one that hive made to undo what another did it
// is who created that other.
func (d *Decider) creatorOf(t *task.Task) protocol.AgentID {
	if was := t.Terms().Unwinds; was != "" && t.Creator == protocol.Hive {
		if unwound := d.findTask(was); unwound != nil {
			return unwound.Creator
		}
	}
	return t.Creator
}

// endUnwinding does what follows for the steps of a task from its end: one that was not
// completed is unwound, by hive and in the same decision, and one that was to unwind
// another, and failed, needs a person (spec §8.11).
func (d *Decider) endUnwinding(now time.Time, t *task.Task, e *protocol.TaskEvent) error {
	if d.state.Tasks.ToUnwind(t) {
		_, err := d.unwind(now, t, protocol.TaskEvent{By: protocol.Hive, Of: e.Of, Reason: "it " + endText(t)})
		return err
	}
	s := d.state.Tasks.LastToUndo(t)
	if t.Terms().Unwinds == "" || t.State != task.Failed || s == nil {
		return nil
	}
	return d.Alert(now, &protocol.AlertEvent{
		Code: protocol.CodeUnwindFailed, Path: protocol.TaskDir(t.ID),
		Text: fmt.Sprintf("task %s, %s, has failed, and what task %s did is not undone: step %d, %s, comes next. To let another go on with that, %s",
			t.ID, t.Title, t.Terms().Unwinds, s.N, s.Name, howToResume(protocol.Human, t.ID)),
	})
}

// unwind records that what a task did is to be undone, and creates the task that does so:
// for the same agents, before other work, in the same chain, whose steps it has.
func (d *Decider) unwind(now time.Time, t *task.Task, e protocol.TaskEvent) (*task.Task, error) {
	fresh, err := d.ids.next(now)
	if err != nil {
		return nil, err
	}
	id := protocol.TaskID(fresh.String())
	e.Event, e.UnwoundBy = task.Unwind, id
	if err := d.recordTransition(now, t, e); err != nil {
		return nil, err
	}
	terms := t.Terms()
	steps := protocol.StepsDir(t.Origin())
	return d.newTask(now, id, protocol.TaskEvent{
		By: e.By, Of: e.Of, Unwinds: t.ID, Origin: t.Origin(), Generation: int(terms.Generation),
		Spec: &protocol.TaskSpec{
			Title: protocol.Fit("Undo: "+t.Title, titleMost), To: t.To, Priority: int(t.Priority) + 1, Approvers: terms.Approvers, Approvals: int(terms.Needed),
			Body: "What task " + string(t.ID) + " did is to be undone: " + cmp.Or(protocol.Fit(e.Reason, reasonShown), "it "+endText(t)) + "\nUndo its steps, the last one first: `" + lineUnwind + "` does that. Then complete this task. Without that command, for each step in " + steps +
				" that has an `undo` and is `done`: report `step_started` with `unwind`, run its undo in its `cwd`, with its output as standard input, and report `step_ended`.",
		},
	}), nil
}

// handleUnwind undoes on demand what a task did that has ended.
func (d *Decider) handleUnwind(r *report) error {
	t, book := r.t, d.state.Tasks
	if !task.Ended(t.State) {
		return d.refuseIllegal(r)
	}
	newest := book.Newest(t)
	switch open := book.OpenInChain(t); {
	case r.by != d.creatorOf(t) && r.by != protocol.Human:
		return &refusal{protocol.CodeNotAllowed, d.onlyCreatorText(t)}
	case t.Terms().Unwinds != "":
		return &refusal{protocol.CodeBadCommand, "it undoes what " + string(t.Terms().Unwinds) + " did, and has nothing of its own to undo"}
	case book.Unwinding(t) != nil:
		return d.refuseUnwinding(r.by, book.Unwinding(t))
	case open != nil:
		return refuseOpenChain(r.by, open)
	case newest.ID != t.ID && newest.Terms().Unwinds != t.ID:
		last := cmp.Or(newest.Terms().Unwinds, newest.ID)
		return &refusal{protocol.CodeIllegalTransition, string(last) + " went on from it; to undo what both did, " + howToTask(r.by, task.Unwind, last, 0, "", "")}
	case book.LastToUndo(t) == nil:
		return &refusal{protocol.CodeBadCommand, "none of its steps can be undone: none that is done has an undo"}
	}
	fresh, err := d.unwind(r.now, t, protocol.TaskEvent{By: r.by, Of: r.of, Reason: r.limitText(r.Reason)})
	if err == nil {
		r.t, r.created = fresh, []protocol.TaskID{fresh.ID}
	}
	return err
}

// checkUnwinding refuses to resume a task before what it did is undone, or one that was
// to undo what has gone on since.
func (d *Decider) checkUnwinding(by protocol.AgentID, t *task.Task) error {
	u, newest := d.state.Tasks.Unwinding(t), d.state.Tasks.Newest(t)
	switch {
	case u != nil && u.ID != t.ID:
		return d.refuseUnwinding(by, u)
	case t.Terms().Unwinds == "" || newest.ID == t.ID && d.state.Tasks.LastToUndo(t) != nil:
		return nil
	case newest.ID != t.ID && newest.Terms().Unwinds == "":
		return &refusal{protocol.CodeIllegalTransition, string(newest.ID) + " went on from what it was to undo; to undo what that did too, " + howToTask(by, task.Unwind, newest.ID, 0, "", "")}
	}
	return &refusal{protocol.CodeIllegalTransition, "nothing is left for it to undo"}
}

// refuseUnwinding refuses a command because what the task did is undone first.
func (d *Decider) refuseUnwinding(by protocol.AgentID, u *task.Task) error {
	text := string(u.ID) + " undoes what it did, and is " + string(u.State)
	switch {
	case task.Ended(u.State):
		text += "; to let another go on with that first, " + howToResume(by, u.ID)
	case u.Attempt == 0:
		text += "; wait until it is completed, or, to keep what was done, " + howToTask(by, task.Cancel, u.ID, 0, "", "") + " before somebody starts it"
	default:
		text += "; wait until it is completed"
	}
	return &refusal{protocol.CodeUnwinding, text}
}

// checkDirection refuses to do a step in a task that unwinds, to undo one in any other,
// and to undo one before those that came after it.
func (d *Decider) checkDirection(r *report) error {
	unwinds := r.t.Terms().Unwinds
	switch {
	case unwinds == "" && r.Unwind:
		return r.badStep("it is to undo a step, and this task undoes nothing; to have what a task did undone, " + howToUnwind(r.by, r.t))
	case unwinds != "" && !r.Unwind:
		return r.badStep("this task undoes what " + string(unwinds) + " did, and does no steps: say `unwind`")
	case unwinds == "":
		return nil
	}
	known, last := d.state.Tasks.Step(r.t, r.Step.Name), d.state.Tasks.LastToUndo(r.t)
	if known != nil && last != nil && last.N > known.N {
		return &refusal{protocol.CodeStepsLeft, "step " + digits(last.N) + ", " + last.Name + ", came after it and is " + string(last.Status) + "; undo that first"}
	}
	return nil
}

// howToUnwind returns how somebody has undone what a task did that has ended.
func howToUnwind(by protocol.AgentID, t *task.Task) string {
	if !task.Ended(t.State) {
		return "end the task first: what it did is undone if it is not completed"
	}
	return howToTask(by, task.Unwind, t.ID, 0, "", "")
}

// howToUndo returns how a holder undoes a step.
func howToUndo(by protocol.AgentID, t *task.Task, s *task.StepState) string {
	return "to undo it, " + howTo(by, lineUnwind, taskMessage(task.StepStarted, t.ID, t.Epoch, `{"step": {"name": "`+s.Name+`"}, "unwind": true}`))
}
