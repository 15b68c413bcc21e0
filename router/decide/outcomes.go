package decide

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

// eventOutcome is the report of a worker how an execution ended, whose kind says what
// follows.
const eventOutcome = string(task.ReportOutcome)

// The members of the data of an outcome, beside those that other reports have.
var outcomeMembers = []string{
	"kind", "adapter", "exit", "signal", "duration_ms", "tokens_in", "tokens_out", "cost_micros", "prompt_sha256", "tail",
}

// takesOfOutcome reports whether an outcome takes a member that other reports have too.
// Of an effort only the outcome itself counts.
func (r *report) takesOfOutcome(member string) bool {
	rule, _ := task.RuleOf(r.Kind)
	if slices.Contains(outcomeMembers, member) || member == memberReason {
		return true
	}
	if r.isEffort() {
		return member == memberCategory
	}
	switch member {
	case memberCategory:
		return rule.Do == task.Failure
	case memberNotBefore:
		return rule.Do == task.Failure || rule.Charge == protocol.ChargeFree && rule.Do != task.PauseForApproval
	case memberResult:
		return rule.Do == task.Complete
	case memberGate:
		return r.t.Gated && (rule.Do == task.Complete || r.Kind == protocol.OutcomeUnvalidated)
	}
	return slices.Contains(checkpointMembers, member)
}

// isEffort reports whether a report is the outcome of an execution whose agent has said
// itself what follows: the task waits or has ended, and was with the sender last, under
// the epoch of the report.
func (r *report) isEffort() bool {
	if r.event != eventOutcome || r.t == nil || r.m.Epoch == 0 || r.m.Epoch != r.t.Epoch || r.by != r.t.Last() {
		return false
	}
	_, row := task.Next(r.t.State, task.Effort)
	return row
}

// handleOutcome does what the table of outcomes says follows from one (spec §8.10).
func (d *Decider) handleOutcome(r *report) error {
	rule, err := r.ruleOf()
	if err != nil {
		return err
	}
	said := r.Outcome
	r.ended = &said
	r.Reason = cmp.Or(r.Reason, outcomeText(&said))
	confirms := rule.Do == task.CancelledEvent && r.t.Cancelling > 0 && !task.Ended(r.t.State)
	if r.isEffort() && !confirms {
		return d.transition(r, protocol.TaskEvent{Event: task.Effort, Category: r.Category})
	}
	switch rule.Do {
	case task.Complete:
		return d.handleComplete(r)
	case task.CancelledEvent:
		return d.handleCancelled(r)
	case task.PauseForApproval:
		r.charge = rule.Charge
		return d.pause(r, protocol.TaskEvent{Category: protocol.AuthFailure, Question: "log in again, then approve", Reason: r.Reason})
	case task.Failure:
		if r.Category != "" {
			return d.handleFail(r)
		}
	case task.Release:
		if r.t.Cancelling > 0 {
			return d.handleRelease(r)
		}
	}
	if rule.Charge == protocol.ChargeFree {
		return d.waitFree(r)
	}
	if rule.Do == task.Release {
		return d.releaseCharged(r)
	}
	return d.handleTransient(r)
}

// ruleOf returns the row of the table for an outcome, or refuses the outcome.
func (r *report) ruleOf() (task.OutcomeRule, error) {
	rule, known := task.RuleOf(r.Kind)
	fault := r.Fault()
	switch {
	case r.Kind == "":
		fault = "it does not say how the execution ended; to say it, " + r.howToSend("--kind failed", `{"kind": "failed"}`)
	case r.Kind == "race-lost" || r.Kind == "queue-empty":
		fault = "who has no task in hand reports no outcome; " + string(r.Kind) + " stays with the worker"
	case !known:
		fault = "there is no kind " + protocol.Quote(protocol.Fit(string(r.Kind), 64)) + didYouMean(string(r.Kind), kindNames(), "they are "+strings.Join(kindNames(), ", "))
	case fault == "" && rule.Do == "":
		fault = heldText(r.t) + ", so that it is not lost; to give it back, " + howToTask(r.by, task.Release, r.t.ID, r.t.Epoch, "", "")
	}
	if fault != "" {
		return rule, &refusal{protocol.CodeBadCommand, fault}
	}
	return rule, nil
}

func kindNames() (list []string) {
	for _, kind := range protocol.OutcomeKinds() {
		list = append(list, string(kind))
	}
	return list
}

// outcomeText returns why a task is where it is, where the worker gives no reason.
func outcomeText(o *protocol.Outcome) string {
	text := "the execution ended as " + string(o.Kind)
	switch {
	case o.Signal != "":
		text += ", signal " + protocol.Visible(o.Signal)
	case o.Exit != nil:
		text += ", exit status " + digits(*o.Exit)
	}
	if o.Adapter != "" {
		text += ", of " + o.Adapter
	}
	return text
}

// waitFree makes a task wait for no fault of its own: with its holder for a minute at
// most, else for anybody. A wait that nobody named doubles with each one in a row; a
// worker that was told to stop has nothing to wait for. When there were max_free of them a
// person is asked, while the task is still in the hands of its holder.
func (d *Decider) waitFree(r *report) error {
	if r.t.Cancelling > 0 {
		return d.handleRelease(r)
	}
	r.charge = protocol.ChargeFree
	efforts := r.t.Efforts()
	if r.NotBefore.IsZero() && r.Kind != protocol.OutcomeInterrupted {
		r.NotBefore = r.now.Add(min(task.FreeWait<<min(efforts.Row, 8), task.FreeWaitMost)).UTC()
	}
	working := r.t.State == task.InProgress || r.t.State == task.Stalled
	switch {
	case working && int(efforts.Free) >= d.settings.Tasks.MaxFree:
		return d.pause(r, protocol.TaskEvent{
			Question: fmt.Sprintf("it had to wait %d times for no fault of its own, and asks whether to go on", efforts.Free+1), Reason: r.Reason, Choices: []string{task.GoOn},
		})
	case r.Kind == protocol.OutcomeRateLimited && r.NotBefore.Sub(r.now) <= task.FreeWait:
		return d.transitionWorking(r, d.retryLater(r))
	}
	return d.handleRelease(r)
}

// releaseCharged gives a task back whose execution came to no end of its own, after the
// backoff. One that ended so too often has failed.
func (d *Decider) releaseCharged(r *report) error {
	t := r.t
	r.charge, r.NotBefore = protocol.ChargeRetry, d.jittered(r.now, t, int(t.Retries))
	if err := d.handleRelease(r); err != nil {
		return err
	}
	if r.Kind == protocol.OutcomeCrashed {
		if err := d.countCrash(r); err != nil {
			return err
		}
	}
	if t.State != task.Unassigned || int(t.Retries) <= d.settings.Tasks.MaxRetries {
		return nil
	}
	return d.exceedRetries(r)
}

// countCrash alerts people to a crash, and fails the task if there were too many.
func (d *Decider) countCrash(r *report) error {
	t, most := r.t, d.settings.Tasks.PoisonAfter
	crashes := int(t.Efforts().Crashes)
	about := "task " + string(t.ID) + ", " + t.Title
	err := d.Alert(r.now, &protocol.AlertEvent{
		Code: protocol.CodeWorkerCrashed, Agent: r.by, Path: protocol.TaskDir(t.ID),
		Text: fmt.Sprintf("an execution of %s crashed with %s: %s; crash %d of %d, with which the task fails", about, r.by, protocol.Fit(r.Reason, reasonShown), crashes, most),
	})
	if err != nil || t.State != task.Unassigned || crashes < most {
		return err
	}
	why := fmt.Sprintf("%d executions crashed; the last: %s", crashes, protocol.Fit(r.Reason, reasonShown))
	if err := d.recordTransition(r.now, t, protocol.TaskEvent{Event: task.Poison, By: protocol.Hive, Reason: why}); err != nil {
		return err
	}
	return d.Alert(r.now, &protocol.AlertEvent{Code: protocol.CodeTaskPoison, Path: protocol.TaskDir(t.ID), Text: about + ", has failed: " + why})
}

// fencedOutcome returns the outcome in the data of a command that came too late: what
// the execution cost is known although nothing follows from it. It is nil if there is
// none.
func (r *report) fencedOutcome(code protocol.Code) *protocol.Outcome {
	var said protocol.TaskReport
	if code != protocol.CodeFenced || r.event != eventOutcome || json.Unmarshal(r.m.Data, &said, strictOptions) != nil {
		return nil
	}
	if _, known := task.RuleOf(said.Kind); !known || said.Fault() != "" {
		return nil
	}
	return &said.Outcome
}
