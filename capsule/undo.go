package capsule

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"

	"github.com/hived/hived/internal/process"
	"github.com/hived/hived/protocol"
)

// judgeUndo decides what is to be done with a step whose task is unwound. Like [judge] it
// is total, and the first row that fits counts.
func judgeUndo(s situation) verdict {
	switch {
	case s.late:
		return lateEpoch
	case s.record == nil:
		return lost
	case s.asked:
		return asking
	case s.record.Undo == "":
		return passOver
	}
	switch s.record.Status {
	case protocol.StepUndone, protocol.StepLeft, protocol.StepFailed:
		return passOver
	case protocol.StepDone, protocol.StepExecuting, protocol.StepUndoing:
	}
	switch s.lock {
	case lockUntried:
		return takeLock
	case lockMissing:
		if s.record.Status == protocol.StepDone && !s.foreign && !s.gone && s.tries > 0 { // nothing runs; the intent makes the lock
			return intend
		}
		return ask
	case lockHeld:
		if s.record.How == protocol.JudgedPerson && s.record.Command != "" {
			return waitEnd
		}
		return waitLock
	case lockOwn:
	}
	return judgeUndoUnderLock(s)
}

// judgeUndoUnderLock decides about a step to undo whose lock the caller has: so neither it
// nor its undo runs now.
func judgeUndoUnderLock(s situation) verdict {
	undoing := s.record.Status == protocol.StepUndoing
	again := intend
	if s.foreign || s.gone || s.tries == 0 {
		again = ask
	}
	switch {
	case undoing && s.intent != "" && s.record.Stands(s.intent):
		return execute
	case s.record.Status == protocol.StepDone:
		return again
	case s.record.Command == "": // a person said that it may run again
		if undoing {
			return again
		}
		return ask
	}
	switch s.evidence {
	case evidenceUnknown:
		return verify
	case evidenceThere:
		if undoing {
			return again
		}
		return endDone
	case evidenceMissing:
		return endUndone
	case evidenceNone, evidenceUnclear:
	}
	return ask
}

// undoJudgement returns how the caller knows that an undo which was begun may run again.
func undoJudgement(s situation) protocol.StepJudgement {
	if s.record.Status == protocol.StepUndoing && s.record.Command != "" {
		return protocol.JudgedVerified
	}
	return ""
}

// Unwind undoes the steps of the task that this one unwinds, the last one first, and
// writes what their undos print to out and err. Those that have no undo, have failed, or
// are undone, are passed over. The errors are those of [Capsule.Do].
func (c *Capsule) Unwind(ctx context.Context, out, err io.Writer) error {
	names, failed := c.records()
	for n := len(names); n > 0 && failed == nil; n-- {
		failed = c.undo(ctx, n, names[n-1], out, err)
	}
	return failed
}

func (c *Capsule) undo(ctx context.Context, n int, name string, out, err io.Writer) error {
	r := c.record(n, name)
	if r == nil {
		return lostRecord(n, name)
	}
	spec := Spec{Name: name, Argv: []string{"sh", "-c", r.Undo}, CWD: r.CWD, Verify: r.Verify, Retries: c.Retries}
	run := &stepRun{Capsule: c, spec: spec, out: out, err: err, undo: r}
	d := &doing{Capsule: c, spec: spec, n: n, tries: spec.Retries + 1, unwind: true, work: Work{Verify: run.verify, Left: run.left, Forget: run.forget}}
	d.work.Run = func(ctx context.Context, a Attempt) End {
		run.undo = d.last // with the output that the step has by now
		return run.command(ctx, a)
	}
	if r.Verify != "" && (!c.Users || r.By == c.Box.ID()) {
		d.evidence = evidenceUnknown
	}
	defer d.release()
	was := r.Status
	var failed error
	for d.done == nil && failed == nil {
		failed = d.step(ctx)
	}
	if failed == nil && d.done.Status == protocol.StepUndone && was != protocol.StepUndone {
		c.Note("step " + name + " is undone")
	}
	return failed
}

func lostRecord(n int, name string) error {
	return fmt.Errorf("the record of step %d, %s, cannot be read, so that nothing was undone; `hived repair` writes it again", n, name)
}

// undoes makes a command that of the undo of a step, with its output as standard input.
func (r *stepRun) undoes(c *process.Command) error {
	output, err := r.Output(r.undo)
	c.Dir, c.In = r.undo.CWD, bytes.NewReader(output)
	return err
}

// intendsUndo returns the report that the undo of the step begins.
func (d *doing) intendsUndo(s situation) protocol.TaskReport {
	return protocol.TaskReport{
		Again: undoJudgement(s), Unwind: true, For: quiet.String(),
		Step: &protocol.StepReport{Name: d.spec.Name, Boot: bootID(), PID: os.Getpid()},
	}
}

// doubt says what a person is asked about.
func (d *doing) doubt() string {
	switch {
	case !d.unwind:
		return "what became of step " + d.spec.Name + ", which may have been done in part"
	case d.last.Status == protocol.StepDone:
		return "about step " + d.spec.Name + ", which could not be undone"
	}
	return "what became of step " + d.spec.Name + ", which may have been undone in part"
}

// undoChoices returns the answers that a question about an undo offers.
func (d *doing) undoChoices() (list []string) {
	if d.state == lockHeld {
		list = append(list, "wait")
	}
	switch d.last.Status {
	case protocol.StepExecuting:
		return append(list, "happened", "undone")
	case protocol.StepDone, protocol.StepUndoing:
		if d.Users && d.last.By != d.Box.ID() {
			return append(list, "undone", "left")
		}
	case protocol.StepFailed, protocol.StepUndone, protocol.StepLeft:
	}
	return append(list, "again", "undone", "left")
}
