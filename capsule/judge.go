package capsule

import (
	"github.com/hived/hived/protocol"
)

// lockState is what is known of the lock of a step.
type lockState int

const (
	lockUntried lockState = iota // nobody has tried to take it yet
	lockMissing                  // its file is not there
	lockHeld                     // somebody else has it, or a process with the step's key lives
	lockOwn                      // the caller has it
)

// evidence is what a verify command said about the effect of a step.
type evidence int

const (
	evidenceNone    evidence = iota // no verify command
	evidenceUnknown                 // it was not run yet
	evidenceThere                   // it exited with 0: the effect is there
	evidenceMissing                 // it exited with 1: the effect is not there
	evidenceUnclear                 // it ended in any other way
)

// situation is all that decides what is to be done with a step.
type situation struct {
	record     *protocol.StepRecord // nil: there is none
	intent     protocol.MessageID   // of the caller, that has not run yet; empty: none
	late       bool                 // somebody else has the task since, or nobody
	asked      bool                 // the question about the step is open
	lock       lockState
	evidence   evidence
	idempotent bool // it may run again whatever became of it
	gone       bool // it had an output, which is not there
	foreign    bool // another agent's: its undo is not run by this one
	tries      int  // how often it, or its undo, may run yet
}

// verdict is what is to be done with a step.
type verdict int

const (
	answer    verdict = iota + 1 // it was done: return its output
	intend                       // report an intent
	execute                      // the caller's intent stands, under the lock: run it
	takeLock                     // take the lock, or see that it is held, and judge again
	verify                       // run the verify command and judge again
	endDone                      // report that the effect is there
	endUndone                    // report that it is not, so that there is nothing to undo
	waitLock                     // wait for the lock for a while, then ask a person
	waitEnd                      // wait for the lock without limit, as a person said
	ask                          // ask a person
	asking                       // a person is asked already
	giveUp                       // it has failed as often as it may
	passOver                     // there is nothing to undo
	lost                         // its record cannot be read
	lateEpoch                    // the epoch went on: nothing may be run
	wrongTask                    // it is being undone by another task
)

// judge decides what is to be done with a step. It is total: every situation has one
// verdict, and the first row that fits counts.
func judge(s situation) verdict {
	switch {
	case s.late:
		return lateEpoch
	case s.record == nil:
		return intend
	case s.asked:
		return asking
	}
	switch s.record.Status {
	case protocol.StepDone, protocol.StepLeft:
		if s.gone && s.record.Status == protocol.StepDone {
			return ask
		}
		return answer
	case protocol.StepUndone:
		return intend
	case protocol.StepUndoing:
		return wrongTask
	case protocol.StepExecuting, protocol.StepFailed:
	}
	switch s.lock {
	case lockUntried:
		return takeLock
	case lockMissing:
		if s.record.Command == "" { // a person said that it may run again; the intent makes the lock
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
	return judgeUnderLock(s)
}

// judgeUnderLock decides about a step that was begun, and whose lock the caller has: so
// nobody runs it now.
func judgeUnderLock(s situation) verdict {
	switch {
	case s.intent != "" && s.record.Stands(s.intent):
		return execute
	case s.record.Status == protocol.StepFailed && s.tries > 0:
		return intend
	case s.record.Status == protocol.StepFailed:
		return giveUp
	case s.record.Command == "": // a person said that it may run again
		return intend
	}
	again := s.idempotent
	switch s.evidence {
	case evidenceUnknown:
		return verify
	case evidenceThere:
		return endDone
	case evidenceMissing:
		again = true
	case evidenceNone, evidenceUnclear:
	}
	switch {
	case !again:
		return ask
	case s.tries == 0:
		return giveUp
	}
	return intend
}

// judgementOf returns how the caller knows that a step which was begun may run again.
func judgementOf(s situation) protocol.StepJudgement {
	switch {
	case s.record == nil || s.record.Status != protocol.StepExecuting || s.record.Command == "":
		return ""
	case s.evidence == evidenceMissing:
		return protocol.JudgedVerified
	}
	return protocol.JudgedIdempotent
}
