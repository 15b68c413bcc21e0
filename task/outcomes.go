package task

import (
	"fmt"
	"slices"
	"time"

	"github.com/hived/hived/protocol"
)

// OutcomeRule is one row of the table of outcomes: what hived does with a task whose
// execution ended so, and what that counts against (spec §8.10).
type OutcomeRule struct {
	Kind   protocol.OutcomeKind
	Do     Event // the event that follows; Failure: by its category, else TransientError; empty: it is refused
	Charge protocol.Charge
	Seen   string // how the worker knows it
	Note   string
}

// OutcomeRules returns the table, a row for each kind.
func OutcomeRules() []OutcomeRule { return slices.Clone(outcomeRules) }

var outcomeRules = []OutcomeRule{
	{protocol.OutcomeCompleted, Complete, "", "exit 0 and nothing else said, and the gate passes", ""},
	{protocol.OutcomeUnvalidated, TransientError, protocol.ChargeRetry, "the gate does not pass", "what the gate wrote is for the next prompt"},
	{protocol.OutcomeIncomplete, Failure, protocol.ChargeRetry, "exit 0, and it says so or left no output", "by its category, which is charged nothing; without one `transient_error`"},
	{protocol.OutcomeFailed, Failure, protocol.ChargeRetry, "exit 1 to 123, 125, 128", "the same"},
	{protocol.OutcomeTimedOut, Release, protocol.ChargeRetry, "the worker's timer, or exit 124", "`not_before` by the backoff"},
	{protocol.OutcomeCrashed, Release, protocol.ChargeRetry, "a signal, or exit 129 to 255", "the same; alert `worker-crashed`; after `poison_after` of them `poison`, alert `task-poison`"},
	{protocol.OutcomeUnusable, Release, protocol.ChargeFree, "exit 126 or 127, no such program, a wrong version", ""},
	{protocol.OutcomeRateLimited, TransientError, protocol.ChargeFree, "its words", "`release` where the wait is longer than a minute; `not_before` as asked"},
	{protocol.OutcomeNeedsLogin, PauseForApproval, protocol.ChargeFree, "its words", "category `auth`; it waits without end"},
	{protocol.OutcomeCancelled, CancelledEvent, "", "the worker ended it after `cancel`", ""},
	{protocol.OutcomeInterrupted, Release, protocol.ChargeFree, "the worker was told to stop", "with its checkpoint, and at once"},
	{protocol.OutcomeLeaseLost, "", "", "the epoch went on", "`fenced`; the refusal keeps what it cost"},
}

// RuleOf returns the row of a kind, if there is such a kind.
func RuleOf(kind protocol.OutcomeKind) (OutcomeRule, bool) {
	i := slices.IndexFunc(outcomeRules, func(r OutcomeRule) bool { return r.Kind == kind })
	if i < 0 {
		return OutcomeRule{}, false
	}
	return outcomeRules[i], true
}

// The waits of executions that are free, where nobody named one.
const (
	FreeWait     = time.Minute // twice as long for each more in a row,
	FreeWaitMost = 30 * time.Minute
)

// GoOn is the choice of the question whether a task goes on that had too many free
// executions; with it their number begins anew.
const GoOn = "go-on"

// Efforts are the counts of the executions of a task that ended with an outcome. They
// are never changed: the next outcome makes new ones, so that a copy of the task from
// before keeps its own.
type Efforts struct {
	Free    int32        // executions that were charged as free
	Row     int32        // the last of them, one after the other
	Crashes int32        // executions that crashed
	At      protocol.Seq // the event with the last outcome
}

// Efforts returns the counts of the outcomes of a task; the zero value if it has none.
func (t *Task) Efforts() Efforts {
	if t.efforts == nil {
		return Efforts{}
	}
	return *t.efforts
}

func (t *Task) setEfforts(x Efforts) {
	if t.efforts = nil; x != (Efforts{}) {
		t.efforts = &x
	}
}

// counts returns the counts, in the order of a snapshot.
func (x *Efforts) counts() []*int32 { return []*int32{&x.Free, &x.Row, &x.Crashes} }

// chargeOf returns what an event counts against.
func chargeOf(e *protocol.TaskEvent) protocol.Charge {
	if e.Charge == "" && (e.Event == TransientError || e.Event == Release && e.From == Stalled) {
		return protocol.ChargeRetry
	}
	return e.Charge
}

// charge counts what an event counts against, and the outcome that it has.
func (t *Task) charge(ev protocol.Event, e *protocol.TaskEvent) {
	charge := chargeOf(e)
	if charge == protocol.ChargeRetry {
		t.Retries++
	}
	x := t.Efforts()
	if e.Event == ApprovalGranted && e.Choice == GoOn {
		x.Free, x.Row = 0, 0
	}
	if e.Outcome != nil {
		x.At = ev.Seq
		if e.Outcome.Kind == protocol.OutcomeCrashed {
			x.Crashes++
		}
		if x.Row++; charge != protocol.ChargeFree {
			x.Row = 0
		}
	}
	if charge == protocol.ChargeFree {
		x.Free++
	}
	t.setEfforts(x)
}

// applyEffort folds the outcome of an execution of which the agent had reported itself.
// Of the task it changes nothing that task.json shows.
func (b *Book) applyEffort(ev protocol.Event, e *protocol.TaskEvent) error {
	t := b.tasks[e.Task]
	if t == nil || e.Outcome == nil || e.Epoch != t.Epoch || e.From != t.State || e.To != t.State {
		return fmt.Errorf("%w: %s of task %s", ErrIllegal, e.Event, e.Task)
	}
	if _, ok := Next(t.State, e.Event); !ok {
		return fmt.Errorf("%w: task %s is %s, and knows no %s", ErrIllegal, e.Task, t.State, e.Event)
	}
	delete(b.stopped, t.ID)
	x := t.Efforts()
	x.At = ev.Seq
	t.setEfforts(x)
	b.Stats.Transitions[e.Event]++
	return nil
}

// LastOutcome is tasks/<id>/outcome.json: how the last execution ended, as its worker reported
// it, and what followed.
type LastOutcome struct {
	Task protocol.TaskID `json:"task"`
	Seq  protocol.Seq    `json:"seq"`
	protocol.OutcomeOrigin
	protocol.Outcome
}

// outcomeIn returns what an event says of the execution that ended with it.
func outcomeIn(ev protocol.Event, e *protocol.TaskEvent) LastOutcome {
	from := protocol.OutcomeOrigin{
		Origin: protocol.Origin{By: e.By, Epoch: e.Epoch, At: ev.TS.UTC()},
		Event:  e.Event, Category: e.Category, Reason: e.Reason,
	}
	if x := e.Adopted; x != nil && x.OutcomeFrom != nil {
		from = *x.OutcomeFrom
	}
	return LastOutcome{e.Task, ev.Seq, from, *e.Outcome}
}
