package task

import (
	"slices"

	"github.com/hived/hived/protocol"
)

// A task that ends without being completed, and whose steps can be undone, is unwound by
// another task of its chain (spec §8.11).

// ToUndo reports whether a task that unwinds has this step to undo: it has an undo, and
// was done, or nobody knows whether it was.
func (s *StepState) ToUndo() bool {
	return s.Undo && (s.Status == protocol.StepDone || s.Status == protocol.StepExecuting || s.Status == protocol.StepUndoing)
}

// LastToUndo returns the last step of the chain that a task belongs to which is still to
// be undone; nil if there is none.
func (b *Book) LastToUndo(t *Task) *StepState {
	steps := b.Steps(t)
	for i := range slices.Backward(steps) {
		if steps[i].ToUndo() {
			return &steps[i]
		}
	}
	return nil
}

// Newest returns the task of a chain that was created last.
func (b *Book) Newest(t *Task) *Task {
	for _, id := range slices.Backward(b.line.chains[t.Origin()]) {
		if o := b.tasks[id]; o != nil {
			return o
		}
	}
	return t
}

// ToUnwind reports whether a task that has ended must be unwound: it was not completed,
// has steps to undo, and no task of its chain came after it.
func (b *Book) ToUnwind(t *Task) bool {
	return (t.State == Failed || t.State == Cancelled) && t.Terms().Unwinds == "" && b.Newest(t).ID == t.ID && b.LastToUndo(t) != nil
}

// Unwinding returns the task that undoes the steps of the chain that a task belongs to,
// until that is settled; nil if there is none. It is settled when the task is completed,
// when a person said of each step that is left that it stays, and when the task was
// cancelled before anybody started it: then those who did so want to go on instead.
func (b *Book) Unwinding(t *Task) *Task {
	u := b.Newest(t)
	terms := u.Terms()
	switch {
	case terms.Unwinds == "" || u.State == Completed:
		return nil
	case !Ended(u.State):
		return u
	case b.LastToUndo(u) == nil, u.State == Cancelled && u.Attempt == 0 && terms.Resumes == "":
		return nil
	}
	return u
}
