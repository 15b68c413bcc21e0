// Package classify says how an execution ended, from all that its worker saw: exactly one
// outcome for anything that can be seen.
//
// What the worker did to the process outranks what the agent says in its envelope, that
// what the adapter reads from the output, and that the exit status.
package classify

import (
	"cmp"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/hived/hived/protocol"
	"github.com/hived/hived/worker/adapter"
	"github.com/hived/hived/worker/envelope"
)

// Gate is how the gate of the task ended.
type Gate int

// The gates. A worker asks first without one: where the execution is completed, it runs
// the gate, if there is one, and asks again.
const (
	GateNone Gate = iota
	GatePassed
	GateFailed
)

// Seen is what a worker saw of an execution.
type Seen struct {
	// What the worker did, or found before it ran anything.
	LeaseLost bool   // the epoch went on
	Cancelled bool   // it ended the program because the task is cancelled
	NoPrompt  string // why no prompt could be made
	Unusable  string // why the program cannot be used: it is missing, or its version is wrong
	TimedOut  bool   // its timer ran out before it was told to stop
	Stopped   bool   // it was told to stop

	Envelope *envelope.Envelope // nil: there is none, or a bad one
	Reading  adapter.Reading
	Exit     int
	Signal   string // that ended the program; empty: it exited
	Gate     Gate
}

// Verdict is how an execution ended. It has only members that hived takes with its kind
// (spec §8.10).
type Verdict struct {
	Kind       protocol.OutcomeKind
	Category   protocol.Category
	Reason     string
	RetryAfter time.Duration
	Result     jsontext.Value
}

// Classify returns how an execution ended.
func Classify(s Seen) Verdict {
	v, certain := s.byWorker()
	if !certain {
		v = s.byAgent()
		if s.Stopped && (v.Kind != protocol.OutcomeCompleted || !s.finished()) {
			v = Verdict{Kind: protocol.OutcomeInterrupted, Reason: "its worker was told to stop"}
		}
	}
	if v.Kind == protocol.OutcomeCompleted && s.Gate == GateFailed {
		v = Verdict{Kind: protocol.OutcomeUnvalidated, Reason: "the gate does not pass"}
	}
	return v.fit()
}

// byWorker judges by what the worker did. The time-out counts before a stop, so that
// what runs too long is charged for it.
func (s *Seen) byWorker() (v Verdict, certain bool) {
	switch {
	case s.LeaseLost:
		return Verdict{Kind: protocol.OutcomeLeaseLost, Reason: "the task's epoch went on"}, true
	case s.Cancelled:
		return Verdict{Kind: protocol.OutcomeCancelled, Reason: "the task is cancelled"}, true
	case s.NoPrompt != "":
		return Verdict{Kind: protocol.OutcomeFailed, Category: protocol.SchemaFailure, Reason: s.NoPrompt}, true
	case s.Unusable != "":
		return Verdict{Kind: protocol.OutcomeUnusable, Reason: s.Unusable}, true
	case s.TimedOut:
		return Verdict{Kind: protocol.OutcomeTimedOut, Reason: "its time ran out"}, true
	}
	return v, false
}

// finished reports whether there is a sign, other than the exit status, that the agent
// came to its end: programs exit with 0 when they are told to stop, too.
func (s *Seen) finished() bool {
	return s.Envelope != nil || s.Exit == 0 && s.Signal == "" && s.Reading.Result != ""
}

// byAgent judges by what the agent and its program left.
func (s *Seen) byAgent() Verdict {
	if e := s.Envelope; e != nil {
		return Verdict{e.Outcome, e.Category, cmp.Or(e.Summary, "its envelope says so"), e.RetryAfter, e.Result}
	}
	if r := s.Reading; r.Kind != "" {
		return Verdict{Kind: r.Kind, Reason: r.Reason, RetryAfter: r.RetryAfter}
	}
	return s.byExit()
}

func (s *Seen) byExit() Verdict {
	status := "exit status " + strconv.Itoa(s.Exit)
	switch {
	case s.Signal != "":
		return Verdict{Kind: protocol.OutcomeCrashed, Reason: "signal " + protocol.Visible(s.Signal)}
	case s.Exit == 0 && s.Reading.NoResult:
		return Verdict{Kind: protocol.OutcomeIncomplete, Reason: "it left no result"}
	case s.Exit == 0:
		return Verdict{Kind: protocol.OutcomeCompleted, Reason: status}
	case s.Exit == 124:
		return Verdict{Kind: protocol.OutcomeTimedOut, Reason: status}
	case s.Exit == 126 || s.Exit == 127:
		return Verdict{Kind: protocol.OutcomeUnusable, Reason: status}
	case s.Exit < 0 || s.Exit > 128:
		return Verdict{Kind: protocol.OutcomeCrashed, Reason: status}
	}
	return Verdict{Kind: protocol.OutcomeFailed, Reason: status}
}

// fit leaves out what hived does not take with the kind, and would refuse.
func (v Verdict) fit() Verdict {
	switch v.Kind {
	case protocol.OutcomeCompleted:
		v.Category, v.RetryAfter = "", 0
	case protocol.OutcomeIncomplete, protocol.OutcomeFailed:
		v.Result = nil
	case protocol.OutcomeRateLimited, protocol.OutcomeUnusable:
		v.Category, v.Result = "", nil
	case protocol.OutcomeUnvalidated, protocol.OutcomeTimedOut, protocol.OutcomeCrashed, protocol.OutcomeNeedsLogin,
		protocol.OutcomeCancelled, protocol.OutcomeInterrupted, protocol.OutcomeLeaseLost:
		v.Category, v.RetryAfter, v.Result = "", 0, nil
	}
	return v
}
