package decide

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/hived/hived/ledger"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

// The most that a command may ask for (spec §8.2).
const (
	CheckpointKept = 256 << 10 // bytes, from which on its holder is asked to send patches
	expectedMost   = time.Hour
	notBeforeMost  = 365 * 24 * time.Hour
	WordsMost      = 16 << 10 // bytes of a reason, a question, or an answer
)

// limitText returns a text of a report. If it is too long it is cut, and says where all
// of it is.
func (r *report) limitText(said string) string {
	if len(said) <= WordsMost {
		return said
	}
	rest := fmt.Sprintf("… (cut: all %d bytes are in event %s of the log)", len(said), r.of)
	return strings.ToValidUTF8(said[:WordsMost-len(rest)], "") + rest
}

func digits[N uint64 | int](n N) string { return strconv.FormatUint(uint64(n), 10) }

// transition records the event that a report leads to. It refuses an event that the
// table has no row for, or whose row does not allow the sender.
func (d *Decider) transition(r *report, e protocol.TaskEvent) error {
	if _, ok := task.Next(r.t.State, e.Event); !ok {
		return d.refuseIllegal(r)
	}
	if !slices.ContainsFunc(task.Who(r.t.State, e.Event), func(role task.Role) bool { return d.hasRole(role, r) }) {
		return &refusal{protocol.CodeNotAllowed, "only " + joinRoles(task.Who(r.t.State, e.Event)) + " may do that while it is " + string(r.t.State) + ". " + d.nextSteps(r.by, r.t)}
	}
	e.Of = r.of
	if e.By == "" {
		e.By = r.by
	}
	if e.Reason == "" {
		e.Reason = r.limitText(r.Reason)
	}
	if e.Event != task.Recovered { // the event of the report itself comes after it
		e.Checkpoint = d.checkpointToLog(r)
		e.Outcome, e.Charge = r.ended, r.charge
	}
	return d.recordTransition(r.now, r.t, e)
}

// recoverStalled records that a stalled task goes on, before its holder's report is
// taken.
func (d *Decider) recoverStalled(r *report) error {
	if r.t.State != task.Stalled {
		return nil
	}
	return d.transition(r, protocol.TaskEvent{Event: task.Recovered})
}

// transitionWorking records the event of a report that a holder may make while it
// works; if the task is stalled it recovers first.
func (d *Decider) transitionWorking(r *report, e protocol.TaskEvent) error {
	from := r.t.State
	if from == task.Stalled {
		from = task.InProgress
	}
	if _, ok := task.Next(from, e.Event); !ok {
		return d.refuseIllegal(r)
	}
	if err := d.recoverStalled(r); err != nil {
		return err
	}
	return d.transition(r, e)
}

// checkWorking refuses a report if the task is neither in progress nor stalled.
func (d *Decider) checkWorking(r *report) error {
	if s := r.t.State; s != task.InProgress && s != task.Stalled {
		return d.refuseIllegal(r)
	}
	return nil
}

// handleClaim gives a task to an agent that may have it; the best if none is named.
func (d *Decider) handleClaim(r *report) error {
	a := d.state.Agents[r.by]
	if a == nil || a.Status != ledger.Active {
		return &refusal{protocol.CodeNotEligible, string(r.by) + " is no active agent; " + d.howToManage(r.by, "let it take part", hiveLine("agent-release", string(r.by)), "agent-release", agentData(r.by))}
	}
	if r.t == nil {
		if err := d.checkRoom(r.by); err != nil {
			return err
		}
		if r.t = d.bestFor(a, r.putAt); r.t == nil {
			return d.refuseNoTask(r, a)
		}
	}
	t := r.t
	switch {
	case t.State != task.Unassigned && t.State != task.Offered:
		return d.refuseTaken(r)
	case !eligible(t, a):
		return &refusal{protocol.CodeNotEligible, "this task is for " + audienceText(t) + "; " + howToGetAnother(r.by)}
	case len(d.state.Tasks.Unmet(t)) > 0:
		return refuseUnmet(d.state.Tasks.Unmet(t))
	case t.NotBefore > r.putAt:
		return &refusal{protocol.CodeNotYet, "it may be taken from " + d.state.Tasks.Time(t.NotBefore).Format(time.RFC3339) + " on; take it then"}
	}
	if err := d.checkRoom(r.by); err != nil {
		return err
	}
	return d.takeTask(r, task.Claim)
}

// takeTask gives a task to the sender of a report, and starts it if the report says so:
// a program that takes a task begins at once, and need not send three commands to say so.
// These are the same events, in one decision.
func (d *Decider) takeTask(r *report, on task.Event) error {
	if r.silent && !r.Start {
		return &refusal{protocol.CodeBadCommand, "it says how long you will be silent, and does not start the task; to do both, " + r.howToSend(`--start --expect 20m`, `{"start": true, "expected_for": "20m"}`)}
	}
	if err := d.transition(r, protocol.TaskEvent{Event: on, Epoch: r.t.Epoch + 1}); err != nil || !r.Start {
		return err
	}
	r.Reason = "" // it is with the first event
	if err := d.handleStart(r); err != nil || r.Expected.IsZero() {
		return err
	}
	return d.transition(r, protocol.TaskEvent{Event: task.Progress, Expected: r.Expected})
}

// bestFor returns the best task that an agent was offered or that waits for one like
// it; if there is none, the best that is offered to others, or one that hived has not
// come to offer yet; else nil.
func (d *Decider) bestFor(a *ledger.Agent, at task.Moment) *task.Task {
	still := func(t *task.Task) bool { return d.plan.claimable(t, at) }
	best := d.plan.waits.best(a, still)
	if t := d.plan.resting.best(a, still); t != nil && (best == nil || task.Best(t, best) < 0) {
		best = t
	}
	for _, t := range d.plan.hand(a.ID).offers {
		if best == nil || task.Best(t, best) < 0 {
			best = t
		}
	}
	if best == nil {
		best = d.plan.asked.best(a, d.plan.isOffered)
	}
	if best == nil {
		best = d.plan.unqueued(a, at)
	}
	return best
}

// refuseTaken refuses a task that is taken already, or that has ended.
func (d *Decider) refuseTaken(r *report) error {
	switch t := r.t; {
	case task.Ended(t.State):
		return d.refuseIllegal(r)
	case t.Holder == r.by:
		return &refusal{protocol.CodeIllegalTransition, "you have it already, with epoch " + digits(t.Epoch) + ". " + d.nextSteps(r.by, t)}
	default:
		return &refusal{protocol.CodeRaceLost, string(t.Holder) + " was first; " + howToGetAnother(r.by)}
	}
}

func audienceText(t *task.Task) string {
	if len(t.To) == 0 {
		return "agents"
	}
	return listNames(t.To)
}

func refuseUnmet(list []protocol.TaskID) error {
	return &refusal{protocol.CodeNeedsUnmet, "it needs " + listNames(list) + " first; take it when that is completed"}
}

// checkRoom refuses a task to an agent that has as many in hand as it may, and says
// when it can have another.
func (d *Decider) checkRoom(id protocol.AgentID) error {
	a, has := d.state.Agents[id], d.plan.hand(id).tasks
	if a == nil || len(has) < a.SlotsNow() {
		return nil
	}
	if a.SlotsNow() == 0 {
		return &refusal{protocol.CodeNoRoom, "you take no tasks for now; to take one again, " + howToCommand(id, commandSlots)}
	}
	ids := make([]protocol.TaskID, 0, len(has))
	for _, t := range has {
		ids = append(ids, t.ID)
	}
	first := has[0]
	return &refusal{protocol.CodeNoRoom, fmt.Sprintf("you have %d of %d in hand: %s; there is room, and you are offered more, when one of them is completed, fails or waits for somebody. To give one back, %s",
		len(has), a.SlotsNow(), listNames(ids), howToTask(id, task.Release, first.ID, first.Epoch, "", ""))}
}

// handleAccept gives an offered task to the sender. The first in log order wins.
func (d *Decider) handleAccept(r *report) error {
	t := r.t
	if t.State != task.Offered && t.State != task.Unassigned {
		return d.refuseTaken(r)
	}
	if a := d.state.Agents[r.by]; a != nil && eligible(t, a) {
		if err := d.checkRoom(r.by); err != nil {
			return err
		}
	}
	switch {
	case t.State == task.Unassigned:
		return &refusal{protocol.CodeIllegalTransition, "it is offered to nobody now; to take it, " + howToClaim(r.by, t.ID)}
	case !slices.Contains(t.Offered, r.by):
		return &refusal{protocol.CodeNotOffered, "it was offered to " + listNames(t.Offered) + "; to take it if you may have it, " + howToClaim(r.by, t.ID)}
	}
	return d.takeTask(r, task.Accept)
}

func (d *Decider) handleReject(r *report) error {
	t := r.t
	if t.State != task.Offered {
		return d.refuseIllegal(r)
	}
	if !slices.Contains(t.Offered, r.by) {
		return &refusal{protocol.CodeNotOffered, "it was offered to " + listNames(t.Offered) + ", and not to you, so that there is nothing to reject"}
	}
	if err := d.transition(r, protocol.TaskEvent{Event: task.Reject}); err != nil {
		return err
	}
	if len(t.Offered) > 0 {
		return nil
	}
	return d.endOffer(r.now, t, task.OfferExhausted, "all rejected it")
}

func (d *Decider) handleStart(r *report) error {
	return d.transition(r, protocol.TaskEvent{Event: task.Start, Attempt: r.t.Attempt + 1})
}

func (d *Decider) handleRecovered(r *report) error {
	return d.transition(r, protocol.TaskEvent{Event: task.Recovered})
}

// handleProgress records what was reached. The same checkpoint again is no progress.
func (d *Decider) handleProgress(r *report) error {
	if err := d.checkWorking(r); err != nil {
		return err
	}
	return d.transitionWorking(r, protocol.TaskEvent{Event: task.Progress, Expected: r.Expected})
}

// readCheckpoint sets reached to the checkpoint that came with a report, if it is not
// the last one again.
func (d *Decider) readCheckpoint(r *report) error {
	if r.Checkpoint == nil && r.Patch == nil && r.Milestone == "" {
		return nil
	}
	last, err := d.lastCheckpoint(r)
	if err != nil {
		return err
	}
	c, err := task.NewCheckpoint(&r.TaskReport, last)
	if err != nil {
		return &refusal{protocol.CodeBadCommand, protocol.Visible(err.Error())}
	}
	if !r.t.Reached(c) {
		r.reached = c
	}
	return nil
}

// checkpointToLog returns the checkpoint of a report as its event has it: as a patch of
// the last one, if the report has only that and the log may hold patches, else whole
// (spec §8.3).
func (d *Decider) checkpointToLog(r *report) *protocol.Checkpoint {
	c := r.reached
	if c == nil || r.Checkpoint != nil || d.state.ViewsAreFiles() || c.Data.Kind() != '{' {
		return c
	}
	patch, data := r.Patch, c.Data
	if patch == nil { // a milestone alone
		patch = jsontext.Value(`{}`)
		var err error
		if data, err = task.MergePatch(data, patch); err != nil {
			return c
		}
	}
	patched, may := r.t.MayPatch(patch, data)
	if patch.Kind() != '{' || !may {
		return c
	}
	return &protocol.Checkpoint{Milestone: c.Milestone, Schema: c.Schema, SHA256: c.SHA256, Patch: patch, After: r.t.CheckpointAt, Patched: patched, Whole: data}
}

// tellLargeCheckpoint asks a holder that sent a large checkpoint to send patches or
// paths.
func (d *Decider) tellLargeCheckpoint(r *report) error {
	if r.reached == nil || len(r.reached.Data) <= CheckpointKept {
		return nil
	}
	return d.notice(r.now, notice{
		to: r.by, act: protocol.Inform, reply: r.id, conversation: protocol.TaskConversation(r.t.ID), code: protocol.CodeLargeCheckpoint,
		subject: "a large checkpoint of " + r.t.Title,
		body: fmt.Sprintf("The checkpoint has %d bytes. It is kept in %s/%s, and the log and git keep every one of them: send what changed as `patch`, or keep large state in a file of your own and send its path.",
			len(r.reached.Data), protocol.TaskDir(r.t.ID), protocol.TaskCheckpoint),
		data: map[string]any{"task": r.t.ID, "bytes": len(r.reached.Data)},
	})
}

// lastCheckpoint returns the last checkpoint, which a patch changes and a milestone
// alone keeps; nil if the report has a whole one or there is none.
func (d *Decider) lastCheckpoint(r *report) (*protocol.Checkpoint, error) {
	if r.Checkpoint != nil || r.t.CheckpointAt == 0 {
		return nil, nil
	}
	last, err := d.wholeCheckpoint(r.t)
	if err != nil {
		return nil, &refusal{protocol.CodeBadCommand, "the last checkpoint cannot be read, so that the patch has nothing to change; send the whole checkpoint"}
	}
	return last, nil
}

// wholeCheckpoint returns the last checkpoint of a task, with its patches applied.
func (d *Decider) wholeCheckpoint(t *task.Task) (*protocol.Checkpoint, error) {
	return d.restored.At(t.ID, t.CheckpointAt)
}

// events reads events again, in ascending order; those not in the log yet are taken
// from the decisions that Drain has not returned.
func (d *Decider) events(seqs ...protocol.Seq) (evs []protocol.Event, err error) {
	logged := len(seqs)
	if len(d.out) > 0 {
		logged, _ = slices.BinarySearch(seqs, d.out[0].Event.Seq)
	}
	if logged > 0 {
		if evs, err = d.recall(seqs[:logged]); err != nil {
			return nil, err
		}
	}
	for _, seq := range seqs[logged:] {
		evs = append(evs, d.out[seq-d.out[0].Event.Seq].Event)
	}
	return evs, nil
}

// event reads one event again.
func (d *Decider) event(seq protocol.Seq) (protocol.Event, error) {
	evs, err := d.events(seq)
	if err != nil {
		return protocol.Event{}, err
	}
	return evs[0], nil
}

// taskEvent reads the event of a task again.
func (d *Decider) taskEvent(seq protocol.Seq) (*protocol.TaskEvent, error) {
	ev, err := d.event(seq)
	if err != nil {
		return nil, err
	}
	e, is := ev.Body.(*protocol.TaskEvent)
	if !is {
		return nil, ledger.ErrNoEvent
	}
	return e, nil
}

// handleAsk pauses a task until people have approved.
func (d *Decider) handleAsk(r *report) error {
	if err := d.checkWorking(r); err != nil {
		return err
	}
	if r.Step != nil {
		return d.askAboutStep(r)
	}
	if r.Question == "" && r.Reason == "" {
		return &refusal{protocol.CodeBadCommand, "it does not say what is to be approved; to say it, " + r.howToSend(`"…"`, `{"question": "…"}`)}
	}
	return d.pause(r, protocol.TaskEvent{Question: r.Question, Reason: r.Reason, Choices: r.Choices, Until: d.approvalEnds(r)})
}

// approvalEnds returns until when an approval that is asked for now is waited for.
func (d *Decider) approvalEnds(r *report) time.Time {
	return r.now.Add(d.settings.Tasks.ApprovalTimeout).UTC()
}

// pause makes a task wait for approvals, unless too few can approve: e has the question,
// its choices, and how long it waits; with a zero Until it waits without limit.
func (d *Decider) pause(r *report, e protocol.TaskEvent) error {
	if err := checkChoices(e.Choices); err != nil {
		return err
	}
	if who, need := d.approvers(r.t), r.t.Terms().Needed; len(who) < int(need) {
		return &refusal{protocol.CodeBadCommand, fmt.Sprintf("it needs %d approvals, and beside you only %s could give one; to give it back, %s", need, cmp.Or(listNames(who), "nobody"), howToTask(r.by, task.Release, r.t.ID, r.t.Epoch, "", ""))}
	}
	e.Event, e.Question, e.Reason = task.PauseForApproval, r.limitText(e.Question), r.limitText(e.Reason)
	return d.transitionWorking(r, e)
}

// handleBlock makes a task wait for other tasks, or for an answer.
func (d *Decider) handleBlock(r *report) error {
	if err := d.checkWorking(r); err != nil {
		return err
	}
	if len(r.Needs) == 0 && r.Reason == "" {
		return &refusal{protocol.CodeBadCommand, "it does not say what is waited for; to ask for what you need to know, " + r.howToSend(`--reason "…"`, `{"reason": "…"}`) + "; to wait for tasks, " + r.howToSend("--needs ID", `{"needs": ["ID"]}`)}
	}
	if len(r.Needs) == 0 { // an answer of somebody who knows
		return d.transitionWorking(r, protocol.TaskEvent{Event: task.BlockOnDependency})
	}
	var needs []protocol.TaskID
	for _, name := range r.Needs {
		need := d.state.Tasks.Get(protocol.TaskID(name))
		switch {
		case need != nil && (need == r.t || d.waitsFor(need, r.t.ID)):
			return &refusal{protocol.CodeCycle, name + " waits for this task itself, so that neither would ever go on; leave it out"}
		}
		if err := d.checkNeed(r.by, protocol.TaskID(name)); err != nil {
			return err
		}
		if !slices.Contains(needs, protocol.TaskID(name)) {
			needs = append(needs, protocol.TaskID(name))
		}
	}
	if err := d.transitionWorking(r, protocol.TaskEvent{Event: task.BlockOnDependency, Needs: needs}); err != nil {
		return err
	}
	if len(d.state.Tasks.Unmet(r.t)) > 0 {
		return nil
	}
	return d.recordTransition(r.now, r.t, protocol.TaskEvent{Event: task.DependencyResolved, By: protocol.Hive, Reason: "all of it is done already"})
}

func refuseUnknownNeed(by protocol.AgentID, name string) error {
	return &refusal{protocol.CodeUnknownNeed, "there is no task " + protocol.Quote(protocol.Fit(name, 64)) + " to wait for; " + howToSeeTasks(by)}
}

// waitsFor reports whether a task waits for another, directly or through others.
func (d *Decider) waitsFor(from *task.Task, to protocol.TaskID) bool {
	seen := map[protocol.TaskID]bool{}
	var leads func(t *task.Task) bool
	leads = func(t *task.Task) bool {
		return slices.ContainsFunc(d.state.Tasks.Unmet(t), func(id protocol.TaskID) bool {
			if id == to {
				return true
			}
			if seen[id] {
				return false
			}
			seen[id] = true
			next := d.state.Tasks.Get(id)
			return next != nil && leads(next)
		})
	}
	return leads(from)
}

func (d *Decider) handleTransient(r *report) error {
	if err := d.transitionWorking(r, d.retryLater(r)); err != nil {
		return err
	}
	if int(r.t.Retries) <= d.settings.Tasks.MaxRetries {
		return nil
	}
	return d.exceedRetries(r)
}

// exceedRetries fails a task that was retried often enough.
func (d *Decider) exceedRetries(r *report) error {
	why := fmt.Sprintf("%d retries did not help", d.settings.Tasks.MaxRetries)
	if r.Reason != "" {
		why += ": " + r.limitText(r.Reason)
	}
	return d.recordTransition(r.now, r.t, protocol.TaskEvent{Event: task.MaxRetriesExceeded, By: protocol.Hive, Category: protocol.TransientFailure, Reason: why})
}

func (d *Decider) retryLater(r *report) protocol.TaskEvent {
	at := r.now.Add(d.settings.Tasks.Backoff.After(int(r.t.Retries))).UTC()
	if r.NotBefore.After(at) {
		at = r.NotBefore.UTC()
	}
	return protocol.TaskEvent{Event: task.TransientError, Category: protocol.TransientFailure, NotBefore: at}
}

// handleFatal fails a task for good: for its holder, or, if it is blocked, for those who
// may answer.
func (d *Decider) handleFatal(r *report) error {
	if r.by != r.t.Holder && r.t.State == task.Blocked && (d.manages(r) || r.by == d.creatorOf(r.t)) {
		return d.transition(r, protocol.TaskEvent{Event: task.FatalError})
	}
	if err := d.checkHolder(r); err != nil {
		return err
	}
	return d.transitionWorking(r, protocol.TaskEvent{Event: task.FatalError})
}

// manages reports whether the sender is the lead or a person.
func (d *Decider) manages(r *report) bool {
	return d.hasRole(task.ByLead, r) || d.hasRole(task.ByHuman, r)
}

// handleFail routes a failure by its category (spec §8.4).
func (d *Decider) handleFail(r *report) error {
	if err := d.checkWorking(r); err != nil {
		return err
	}
	category := r.Category
	switch category {
	case protocol.TransientFailure:
		return d.handleTransient(r)
	case protocol.AuthFailure:
		return d.pause(r, protocol.TaskEvent{Category: category, Question: "log in again, then approve", Reason: cmp.Or(r.Reason, "the login has expired"), Until: d.approvalEnds(r)})
	case protocol.AmbiguityFailure:
		if r.Question == "" && r.Reason == "" {
			return &refusal{protocol.CodeBadCommand, "it does not say what is ambiguous; to say it, " + r.howToSend(`--category ambiguity --reason "…"`, `{"category": "ambiguity", "reason": "…"}`)}
		}
		if r.Question == "" {
			r.Question, r.Reason = r.Reason, ""
		}
		return d.pause(r, protocol.TaskEvent{Category: category, Question: r.Question, Reason: r.Reason, Choices: r.Choices, Until: d.approvalEnds(r)})
	case protocol.LogicFailure:
		return d.repair(r)
	case protocol.SchemaFailure, protocol.UnknownFailure:
	default:
		category = protocol.UnknownFailure
	}
	return d.transitionWorking(r, protocol.TaskEvent{Event: task.BlockOnDependency, Category: category})
}

// repair makes a task wait for a new one that repairs what is wrong.
func (d *Decider) repair(r *report) error {
	if int(r.t.Terms().Depth) >= d.settings.Tasks.RepairDepth {
		return d.transitionWorking(r, protocol.TaskEvent{Event: task.FatalError, Category: protocol.LogicFailure, Reason: "it was to be repaired " + digits(int(r.t.Terms().Depth)) + " times, one inside the other: " + r.limitText(r.Reason)})
	}
	if err := d.recoverStalled(r); err != nil {
		return err
	}
	id, err := d.ids.next(r.now)
	if err != nil {
		return err
	}
	repair := protocol.TaskID(id.String())
	err = d.recordCreated(r, repair, protocol.TaskEvent{
		By: protocol.Hive, Repairs: r.t.ID, Depth: int(r.t.Terms().Depth) + 1, Generation: int(r.t.Terms().Generation),
		Spec: &protocol.TaskSpec{
			Title: protocol.Fit("Repair: "+r.t.Title, titleMost), To: r.t.To, Priority: int(r.t.Priority) + 1,
			Body: "Task " + string(r.t.ID) + " cannot go on: " + cmp.Or(r.Reason, "its holder reported a fault in the logic") + "\nFind the fault, mend it, and test it. When this task is completed, that one goes on. Its brief: " + protocol.TaskDir(r.t.ID) + "/" + protocol.TaskBrief,
		},
	})
	if err != nil {
		return err
	}
	return d.transition(r, protocol.TaskEvent{Event: task.BlockOnDependency, Category: protocol.LogicFailure, Needs: []protocol.TaskID{repair}})
}

// handleRelease gives a task back. If somebody asked to cancel it, that confirms the
// cancel, and it is not offered to others.
func (d *Decider) handleRelease(r *report) error {
	if r.t.Cancelling > 0 {
		return d.transitionWorking(r, protocol.TaskEvent{Event: task.CancelledEvent, Reason: cmp.Or(r.limitText(r.Reason), "its holder gave it back")})
	}
	return d.transitionWorking(r, protocol.TaskEvent{Event: task.Release, NotBefore: r.NotBefore.UTC()})
}

func (d *Decider) handleComplete(r *report) error {
	if err := d.checkWorking(r); err != nil {
		return err
	}
	if err := d.checkSteps(r); err != nil {
		return err
	}
	if err := d.checkGate(r); err != nil {
		return err
	}
	e := protocol.TaskEvent{Event: task.Complete}
	if r.Result != nil {
		e.Result = &protocol.TaskOutput{Value: r.Result}
	}
	return d.transitionWorking(r, e)
}

// checkGate refuses to complete a task unless the gate of its current brief ended with
// exit status 0 (spec §8.2).
func (d *Decider) checkGate(r *report) error {
	if !r.t.Gated {
		return nil
	}
	brief, err := d.taskEvent(r.t.BriefAt)
	if err != nil || brief.Spec == nil {
		return &refusal{protocol.CodeBadCommand, "its gate cannot be read from the log; to say so, " + howToTask(r.by, eventFailure, r.t.ID, r.t.Epoch, `--category unknown --reason "…"`, `{"category": "unknown", "reason": "…"}`)}
	}
	sum := protocol.GateSum(brief.Spec.Gate)
	pass := "the gate is `" + protocol.Visible(protocol.Fit(brief.Spec.Gate, 400)) + "`; when it ends with 0, " + r.howToSend("", `{"gate": {"exit": 0, "sha256": "`+sum+`"}}`)
	switch g := r.Gate; {
	case g == nil:
		return &refusal{protocol.CodeGateUnmet, "it does not say how the gate of the brief ended: " + pass}
	case g.SHA256 != sum:
		return &refusal{protocol.CodeGateUnmet, "the sha256 is of another gate than the brief's: " + pass}
	case g.Exit == nil:
		return &refusal{protocol.CodeBadCommand, "it does not say with which exit status the gate ended: " + pass}
	case *g.Exit != 0:
		return &refusal{protocol.CodeGateUnmet, fmt.Sprintf("the gate is not passed: it ended with exit status %d; mend that and run it again: %s", *g.Exit, pass)}
	}
	return nil
}

// handleCancelled ends a task that somebody asked to cancel. A holder that was not
// asked is told which commands it may mean instead.
func (d *Decider) handleCancelled(r *report) error {
	if _, row := task.Next(r.t.State, task.CancelledEvent); row && r.t.Cancelling == 0 {
		return &refusal{protocol.CodeIllegalTransition, "nobody asked to cancel it, and `cancelled` only confirms that; " + howToLeave(r.by, r.t)}
	}
	return d.transition(r, protocol.TaskEvent{Event: task.CancelledEvent})
}

// handleCancel asks a holder to stop, or ends a task that nobody has.
func (d *Decider) handleCancel(r *report) error {
	if r.by != d.creatorOf(r.t) && !d.manages(r) {
		return &refusal{protocol.CodeNotAllowed, d.onlyManagersText(r.t)}
	}
	return d.transition(r, protocol.TaskEvent{Event: task.Cancel})
}

func (d *Decider) handleResolve(r *report) error {
	if !d.manages(r) {
		return &refusal{protocol.CodeNotAllowed, "only the lead and human may; ask human"}
	}
	return d.transition(r, protocol.TaskEvent{Event: task.DependencyResolved})
}
