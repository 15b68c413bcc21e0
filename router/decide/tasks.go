package decide

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

// report is a command about a task (spec §8.2), while it is decided.
type report struct {
	now          time.Time
	needsEpoch   bool        // its command must carry the epoch
	putAt        task.Moment // when it was put into the outbox: what was due before then comes first
	of           protocol.Seq
	by           protocol.AgentID
	id           protocol.MessageID
	event        string
	m            *protocol.Message
	t            *task.Task        // nil for create, and for claim if none is named
	created      []protocol.TaskID // by create or resume, in the order of the command
	generation   int               // of what it creates
	unassignable []*task.Task      // those of created that are for agents not on the roster

	reached *protocol.Checkpoint // the new checkpoint that came with it; nil if none
	ignored []string             // members of the data that the command does not take
	ended   *protocol.Outcome    // of the execution that it ends; nil if it is no outcome
	charge  protocol.Charge      // what its event counts against, where that is not what it always does
	silent  bool                 // it says how long its sender will be silent
	protocol.TaskReport
}

// handler has the function of a command, what the command requires, and the members of
// the data that it takes besides the reason; a report of a holder at work can carry a
// checkpoint too (spec §8.2).
type handler struct {
	do             func(d *Decider, r *report) error
	needsEpoch     bool // only the holder sends it, with the epoch
	taskOptional   bool // it may name no task
	checkpoint     bool // it takes a checkpoint
	alwaysAnswered bool // it is answered even if its sender asks for no reply: the answer has the epoch
	takes          []string
}

// The members of the data of a report (spec §8.2).
const (
	memberReason    = "reason"
	memberQuestion  = "question"
	memberNotBefore = "not_before"
	memberExpected  = "expected_until"
	memberFor       = "expected_for"
	memberGate      = "gate"
	memberStart     = "start"
	memberStep      = "step"
	memberChoices   = "choices"
	memberChoice    = "choice"
	memberSend      = "send"
	memberUnwind    = "unwind"
	memberCategory  = "category"
	memberResult    = "result"
)

// checkpointMembers are the members that make a checkpoint.
var checkpointMembers = []string{"milestone", "checkpoint", "patch", "schema"}

// takesMember reports whether a report's command takes a member of its data.
func (h handler) takesMember(r *report, member string) bool {
	switch {
	case r.event == eventOutcome:
		return r.takesOfOutcome(member)
	case slices.Contains(checkpointMembers, member):
		return h.checkpoint && r.by == r.t.Holder
	case r.event == eventFailure && (member == memberQuestion || member == memberChoices):
		return r.Category == protocol.AmbiguityFailure
	case r.event == eventFailure && member == memberNotBefore:
		return r.Category == protocol.TransientFailure
	case member == memberGate:
		return r.event == string(task.Complete) && r.t.Gated
	case r.event == string(task.Release) && r.t.Cancelling > 0: // it is not offered again
		return member == memberReason
	}
	return member == memberReason || slices.Contains(h.takes, member)
}

// eventFailure is the report of a failure, whose category says what follows.
const eventFailure = "failure"

// eventResume creates a new task from one that has ended.
const eventResume = "resume"

// taskCommands returns the commands about tasks, by their `event`.
func taskCommands() map[string]handler {
	return map[string]handler{
		"create":    {do: (*Decider).handleCreate, taskOptional: true},
		eventResume: {do: (*Decider).handleResume, takes: []string{"family"}},

		string(task.Claim):  {do: (*Decider).handleClaim, taskOptional: true, alwaysAnswered: true, takes: []string{memberStart, memberExpected, memberFor}},
		string(task.Accept): {do: (*Decider).handleAccept, alwaysAnswered: true, takes: []string{memberStart, memberExpected, memberFor}},
		string(task.Reject): {do: (*Decider).handleReject},

		string(task.Start):             {do: (*Decider).handleStart, needsEpoch: true},
		string(task.Progress):          {do: (*Decider).handleProgress, needsEpoch: true, checkpoint: true, takes: []string{memberExpected, memberFor}},
		string(task.PauseForApproval):  {do: (*Decider).handleAsk, needsEpoch: true, checkpoint: true, takes: []string{memberQuestion, memberChoices, memberStep}},
		string(task.BlockOnDependency): {do: (*Decider).handleBlock, needsEpoch: true, checkpoint: true, takes: []string{"needs"}},
		string(task.TransientError):    {do: (*Decider).handleTransient, needsEpoch: true, checkpoint: true, takes: []string{memberNotBefore}},
		eventFailure:                   {do: (*Decider).handleFail, needsEpoch: true, checkpoint: true, takes: []string{memberCategory, memberQuestion, memberChoices, memberNotBefore}},
		string(task.Release):           {do: (*Decider).handleRelease, needsEpoch: true, checkpoint: true, takes: []string{memberNotBefore}},
		string(task.Complete):          {do: (*Decider).handleComplete, needsEpoch: true, checkpoint: true, takes: []string{memberResult, memberGate}},
		string(task.Recovered):         {do: (*Decider).handleRecovered, needsEpoch: true},
		string(task.CancelledEvent):    {do: (*Decider).handleCancelled, needsEpoch: true, checkpoint: true},
		string(task.FatalError):        {do: (*Decider).handleFatal, checkpoint: true},
		eventOutcome:                   {do: (*Decider).handleOutcome, needsEpoch: true, checkpoint: true, takes: outcomeMembers},

		string(task.StepStarted): {do: (*Decider).handleStepStarted, needsEpoch: true, takes: []string{memberStep, "again", memberUnwind, memberExpected, memberFor}},
		string(task.StepEnded):   {do: (*Decider).handleStepEnded, takes: []string{memberStep, memberSend, memberUnwind}},
		string(task.Unwind):      {do: (*Decider).handleUnwind},

		string(task.ApprovalGranted): {do: (*Decider).handleApprove, takes: []string{"ask", memberChoice, "comment", memberResult}},
		string(task.ApprovalDenied):  {do: (*Decider).handleDeny, takes: []string{"ask", "comment"}},

		string(task.Answer): {do: (*Decider).handleAnswer, takes: []string{"ask", "comment"}},
		string(task.Amend):  {do: (*Decider).handleAmend},

		string(task.Cancel):             {do: (*Decider).handleCancel},
		string(task.DependencyResolved): {do: (*Decider).handleResolve},
	}
}

var taskHandlers = taskCommands()

// aboutTask reports whether a command is about a task.
func aboutTask(m *protocol.Message) bool {
	_, known := taskHandlers[m.Event]
	return known || m.Task != ""
}

// taskCommand decides a command about a task. A refused command changes nothing; it is
// logged, and its sender is told why.
func (d *Decider) taskCommand(now time.Time, of protocol.Seq, e *protocol.MessageEvent, m *protocol.Message) error {
	r := &report{now: now, putAt: d.putAt(now, e.Original), of: of, by: e.From, id: e.ID, event: m.Event, m: m}
	result := d.runCommand(r)
	refused, err := refusalIn(result)
	if err != nil {
		return err
	}
	answer := notice{
		to: e.From, act: protocol.Failure, reply: e.ID, conversation: e.Conversation,
		subject: "refused: " + protocol.Quote(m.Event), data: map[string]any{"of": of, "event": protocol.Fit(m.Event, 64)},
	}
	if m.Task != "" {
		answer.data["task"] = m.Task
	}
	if refused == nil {
		if err := d.tellLargeCheckpoint(r); err != nil {
			return err
		}
		asked := m.RequiresReply || !m.Has("requires_reply") && e.Act.WantsReply()
		if !asked && len(r.ignored) == 0 && !taskHandlers[r.event].alwaysAnswered {
			return d.tellNobodyEligible(r, e)
		}
		answer.act, answer.subject, answer.code = protocol.Done, "done: "+m.Event, protocol.CodeOK
		answer.body = m.Event + " was carried out."
		if len(r.ignored) > 0 {
			answer.body += " It takes no " + strings.Join(r.ignored, ", ") + " here: ignored. PROTOCOL.md shows what each command takes."
			answer.data["ignored"] = r.ignored
		}
		if t := r.t; t != nil {
			answer.data["task"], answer.data["state"], answer.data["epoch"], answer.data["attempt"] = t.ID, t.State, t.Epoch, t.Attempt
		}
		if len(r.created) > 1 {
			answer.data["tasks"] = r.created
			delete(answer.data, "task") // there are several, none before the others
		}
		if err := d.notice(now, answer); err != nil {
			return err
		}
		return d.tellNobodyEligible(r, e)
	}
	x := &protocol.TaskRejectedEvent{Task: m.Task, Event: protocol.Fit(m.Event, 64), By: e.From, Of: of, Epoch: m.Epoch, Code: refused.code, Detail: refused.text}
	x.Outcome = r.fencedOutcome(refused.code)
	if r.t != nil {
		x.State = r.t.State
		answer.data["state"], answer.data["epoch"] = r.t.State, r.t.Epoch
	}
	maps.Copy(answer.data, detailsIn(result))
	heard := d.tellsRefusal(now, e.From, m, refused.code)
	d.recordRejection(now, x)
	if !heard {
		return nil
	}
	return d.refuse(now, e, m, answer, refused)
}

// recordRejection records that a command was refused. If the clocks of its task stood
// still they go on (spec §3.10).
func (d *Decider) recordRejection(now time.Time, x *protocol.TaskRejectedEvent) {
	id := protocol.TaskID(x.Task)
	stood := d.state.Tasks.Stopped(id)
	d.emit(now, x)
	if t := d.state.Tasks.Get(id); t != nil && stood {
		d.replan(t, d.state.Tasks.Moment(now))
	}
}

// runCommand checks what all commands have in common, then carries the command out: the
// command and the task must exist, the data must fit, and the epoch must be the
// holder's.
func (d *Decider) runCommand(r *report) error {
	h, known := taskHandlers[r.event]
	if !known {
		names := slices.Collect(maps.Keys(taskHandlers))
		if r.m.Task == "" {
			names = slices.AppendSeq(names, maps.Keys(agentActions))
			names = slices.AppendSeq(names, maps.Keys(inboxActions))
			names = append(names, commandContinue, commandSlots, commandGitPause, commandGitResume)
		}
		return &refusal{protocol.CodeUnknownCommand, "there is no such command" + endSentence(didYouMean(r.event, names, "PROTOCOL.md lists them")) + d.nextStepsOf(r)}
	}
	r.needsEpoch = h.needsEpoch
	if r.m.Task != "" {
		if r.t = d.findTask(protocol.TaskID(r.m.Task)); r.t == nil {
			return &refusal{protocol.CodeUnknownTask, "there is no task " + protocol.Quote(protocol.Fit(r.m.Task, 64)) + ", or it ended long ago; " + howToSeeTasks(r.by)}
		}
	}
	if r.t != nil && d.state.Tasks.Get(r.t.ID) == nil && r.event != eventResume {
		return d.refuseIllegal(r)
	}
	if r.t == nil && !h.taskOptional {
		return &refusal{protocol.CodeUnknownTask, "it does not say which task; to say it, " + r.howToSend("", "")}
	}
	if h.needsEpoch { // a report that comes too late is told so, whatever else is wrong
		if err := d.checkHolder(r); err != nil {
			return err
		}
	}
	if r.event != string(task.Create) && r.event != string(task.Amend) {
		if err := r.decode(h, d.state.Tasks.Time(r.putAt)); err != nil {
			return err
		}
		if err := d.readCheckpoint(r); err != nil {
			return err
		}
	}
	if err := d.applyMomentsBefore(r); err != nil {
		return err
	}
	return h.do(d, r)
}

// putAt returns when a file that is found now was put into the outbox (spec §8.3).
func (d *Decider) putAt(now time.Time, o *protocol.Original) task.Moment {
	if o == nil {
		return d.state.Tasks.Moment(now)
	}
	return d.state.Tasks.Put(protocol.StampTime(o.CTime), now)
}

// applyMomentsBefore does what was due for a task before a command about it was put into
// the outbox. A wait for approval does not end yet: an approval put there in time may
// still be read, and then counts. What was put there later is refused, as it would be
// after the wait ended.
func (d *Decider) applyMomentsBefore(r *report) error {
	switch t := r.t; {
	case t == nil:
	case t.State == task.Paused && r.isEffort():
	case t.State == task.Paused && !t.Endless() && t.Until <= r.putAt:
		return d.refuseTooLate(r, d.state.Tasks.Time(t.Until))
	case t.State == task.Retrying && t.NotBefore <= r.putAt:
		return d.retry(r.now, t)
	}
	return nil
}

func (d *Decider) refuseTooLate(r *report, end time.Time) error {
	return &refusal{protocol.CodeIllegalTransition, "its time to be approved was over at " + end.Format(time.RFC3339) + ", before this was put there, so that it fails; " + d.endedText(r.by, r.t)}
}

// decode decodes the data of a report. Members that the command does not take are
// ignored and listed in ignored; unknown ones are refused. put is when the report was
// put into the outbox.
func (r *report) decode(h handler, put time.Time) error {
	if len(r.m.Data) == 0 {
		return nil
	}
	if err := json.Unmarshal(r.m.Data, &r.TaskReport, strictOptions); err != nil {
		return &refusal{protocol.CodeBadCommand, "its data does not fit: " + endSentence(dataFault(err, reportMembers)) + " PROTOCOL.md shows what each command takes"}
	}
	var has map[string]jsontext.Value
	if err := json.Unmarshal(r.m.Data, &has); err != nil {
		return &refusal{protocol.CodeBadCommand, "its data does not fit: " + dataFault(err, reportMembers)}
	}
	for _, name := range slices.Sorted(maps.Keys(has)) {
		if !h.takesMember(r, name) {
			r.ignore(name)
		}
	}
	r.Reason = strings.TrimSpace(r.Reason)
	r.silent = r.For != "" || !r.Expected.IsZero()
	if r.For != "" && has[memberExpected] != nil {
		return &refusal{protocol.CodeBadCommand, "it has both expected_until and expected_for; say one of them"}
	}
	if err := r.setExpected(put); err != nil {
		return err
	}
	return r.checkAhead(memberNotBefore, &r.NotBefore, notBeforeMost)
}

// setExpected sets the time until which the holder will be silent: the time that it
// names, or, for holders without a good clock, a duration that begins when the report
// was put into the outbox.
func (r *report) setExpected(put time.Time) error {
	if r.For == "" {
		return r.checkAhead(memberExpected, &r.Expected, expectedMost)
	}
	length, err := time.ParseDuration(r.For)
	if err != nil || length <= 0 {
		return &refusal{protocol.CodeBadCommand, "expected_for is " + protocol.Quote(protocol.Fit(r.For, 64)) + `, and no length of time; write for example "20m"`}
	}
	r.Expected = put.Add(length)
	return r.checkAhead(memberFor, &r.Expected, expectedMost)
}

// ignore clears a member of the data, and records that it was ignored.
func (r *report) ignore(name string) {
	r.ignored = append(r.ignored, name)
	switch name {
	case memberExpected:
		r.Expected = time.Time{}
	case memberFor:
		r.For = ""
	case memberNotBefore:
		r.NotBefore = time.Time{}
	case memberQuestion:
		r.Question = ""
	case memberChoices:
		r.Choices = nil
	case "milestone":
		r.Milestone = ""
	case "checkpoint":
		r.Checkpoint = nil
	case "patch":
		r.Patch = nil
	case "schema":
		r.Schema = ""
	}
}

// checkAhead refuses a time that is too far ahead. A time that is over is cleared.
func (r *report) checkAhead(name string, at *time.Time, most time.Duration) error {
	*at = at.UTC()
	if !at.After(r.now) {
		*at = time.Time{}
	}
	if at.Sub(r.now) > most {
		return &refusal{protocol.CodeBadCommand, name + " lies more than " + most.String() + " ahead; say at most that, and say it again then"}
	}
	return nil
}

// checkHolder refuses a report unless its sender has the task, under the epoch of the
// report (spec §8.3). Epochs begin at 1, so 0 means that the report has none.
func (d *Decider) checkHolder(r *report) error {
	t, epoch := r.t, r.m.Epoch
	own := r.by == t.Holder && !t.Spent
	switch {
	case r.isEffort(): // who had it last, as that said itself how it ended
		return nil
	case epoch == 0 && r.by != t.Holder:
		return refuseNotHolder(r.by, t)
	case epoch == 0:
		return &refusal{protocol.CodeMissingEpoch, "it carries no epoch, and " + heldText(t) + "; to send it under that, " + r.howToResend(t.Epoch)}
	case epoch > t.Epoch && own:
		return &refusal{protocol.CodeFutureEpoch, heldText(t) + ", not under " + digits(epoch) + "; to send it under that, " + r.howToResend(t.Epoch)}
	case epoch > t.Epoch:
		return &refusal{protocol.CodeFutureEpoch, "the task is at epoch " + digits(t.Epoch) + "; write the epoch that you got with the task"}
	case t.Fenced(epoch):
		text := "you no longer have the task, and what you report for it counts no more; stop working on it"
		if own {
			text = heldText(t) + "; if you still work under the earlier one, stop"
		}
		return &refusal{protocol.CodeFenced, "epoch " + digits(epoch) + " is over: " + text}
	case !own:
		return refuseNotHolder(r.by, t)
	}
	return nil
}

// heldText tells the holder of a task its epoch.
func heldText(t *task.Task) string {
	if task.Ended(t.State) {
		return "you held it under epoch " + digits(t.Epoch)
	}
	return "you hold it under epoch " + digits(t.Epoch)
}

func refuseNotHolder(by protocol.AgentID, t *task.Task) error {
	if task.Ended(t.State) {
		return &refusal{protocol.CodeNotHolder, "the task is " + string(t.State) + ", and not with you; " + howToGetAnother(by)}
	}
	if t.Holder == "" {
		return &refusal{protocol.CodeNotHolder, "nobody has this task; to take it first, " + howToClaim(by, t.ID)}
	}
	return &refusal{protocol.CodeNotHolder, string(t.Holder) + " has this task, not you; " + howToGetAnother(by)}
}

// refuseIllegal refuses an event that the table has no row for.
func (d *Decider) refuseIllegal(r *report) error {
	text := "a task that is " + string(r.t.State) + " knows no " + r.event
	if task.Ended(r.t.State) {
		text += "; " + d.endedText(r.by, r.t)
	} else {
		text += ". " + d.nextSteps(r.by, r.t)
	}
	return &refusal{protocol.CodeIllegalTransition, text}
}

// hasRole reports whether the sender of a report has a role for its task.
func (d *Decider) hasRole(role task.Role, r *report) bool {
	switch role {
	case task.ByHolder:
		return r.by == r.t.Holder && !r.t.Spent
	case task.ByOfferee:
		return slices.Contains(r.t.Offered, r.by)
	case task.ByEligible:
		a := d.state.Agents[r.by]
		return a != nil && eligible(r.t, a)
	case task.ByApprover:
		return slices.Contains(d.approvers(r.t), r.by)
	case task.ByCreator:
		return r.by == d.creatorOf(r.t)
	case task.ByLead:
		return r.by == d.state.Lead
	case task.ByHuman:
		return r.by == protocol.Human
	case task.ByLast:
		return r.by == r.t.Last() && r.m.Epoch == r.t.Epoch
	case task.ByBeginner: // of the step, which is checked with it
	case task.ByHive:
	}
	return false
}

// recordTransition records the event of a transition that the table has, brings the
// plan up to date, sends the notices, and goes on with the tasks that wait for this
// one. It fails where the table has no such transition.
func (d *Decider) recordTransition(now time.Time, t *task.Task, e protocol.TaskEvent) error {
	to, ok := task.Next(t.State, e.Event)
	if !ok {
		return errors.New("decide: " + string(e.Event) + " of a task that is " + string(t.State))
	}
	e.Task, e.From, e.To = t.ID, t.State, to
	if e.Epoch == 0 {
		e.Epoch = t.Epoch
	}
	if e.Attempt == 0 {
		e.Attempt = t.Attempt
	}
	if e.Event == task.Release || e.Event == task.LeaseExpired {
		d.setPause(now, t, &e)
	}
	was := *t
	d.emit(now, &e)
	if e.Event == task.Claim || e.Event == task.Accept {
		d.plan.taken[t] = d.state.Tasks.Moment(now)
	}
	d.plan.update(t, holdingOf(&was))
	d.replan(t, d.state.Tasks.Moment(now))
	if err := d.tellTransition(now, &was, t, &e); err != nil {
		return err
	}
	if was.State == task.Blocked && t.State != task.Blocked {
		if err := d.endRepairs(now, &was, t); err != nil {
			return err
		}
	}
	switch {
	case task.Ended(t.State) && !task.Ended(was.State):
		d.plan.remove(t)
		if err := d.endUnwinding(now, t, &e); err != nil {
			return err
		}
		return d.continueChildren(now, t)
	case t.State == task.Unassigned && int(t.Fruitless) >= d.settings.Tasks.MaxExecutions:
		return d.recordTransition(now, t, protocol.TaskEvent{
			Event: task.MaxRetriesExceeded, By: protocol.Hive,
			Reason: digits(int(t.Fruitless)) + " executions in a row reached nothing new; the last ended because: " + cmp.Or(protocol.Fit(e.Reason, reasonShown), string(was.Holder)+" gave it back"),
		})
	}
	return nil
}

// reasonShown is how much of the reason of another task, or of an execution, is
// repeated in a reason that follows from it, in characters: task.json and the log have
// all of it where it was given.
const reasonShown = 200

// endRepairs cancels the repair that a task waited for, now that it has ended or goes
// on without it, unless others wait for the same.
func (d *Decider) endRepairs(now time.Time, was, t *task.Task) error {
	for _, id := range was.BlockedOn {
		repair := d.state.Tasks.Get(id)
		if repair == nil || repair.Terms().Repairs != t.ID || task.Ended(repair.State) || repair.Cancelling > 0 || len(d.state.Tasks.Children(id)) > 0 {
			continue
		}
		why := "task " + string(t.ID) + " goes on without it"
		if task.Ended(t.State) {
			why = "task " + string(t.ID) + ", which it repairs, " + endText(t)
		}
		if err := d.recordTransition(now, repair, protocol.TaskEvent{Event: task.Cancel, By: protocol.Hive, Reason: why}); err != nil {
			return err
		}
	}
	return nil
}

// setPause sets how long a task waits after an execution that ended without completing
// it. Executions in a row that reached nothing new are counted, and from the second on
// the next waits. Who gave the task back is not asked again at once: if nobody else has
// room, there is a pause.
func (d *Decider) setPause(now time.Time, t *task.Task, e *protocol.TaskEvent) {
	free := e.Charge == protocol.ChargeFree
	if reached := t.Advanced || e.Checkpoint != nil && !t.Reached(e.Checkpoint); !reached {
		if e.Fruitless = int(t.Fruitless); !free {
			e.Fruitless++
		}
	}
	if e.By == protocol.Hive {
		return
	}
	if e.Fruitless > 1 && !free {
		if wait := d.jittered(now, t, e.Fruitless-2); wait.After(e.NotBefore) {
			e.NotBefore = wait
		}
	}
	if len(d.plan.candidates(t, 1, append(slices.Clone(t.Declined), t.Holder)...)) == 0 {
		e.Until = d.nextRound(now, t)
	}
}

// replan puts a task into the queue it belongs to, and schedules it.
func (d *Decider) replan(t *task.Task, at task.Moment) {
	switch {
	case d.plan.waiting(t, at):
		d.plan.ready = append(d.plan.ready, t)
	case d.plan.claimable(t, at):
		d.plan.resting.add(t)
		d.plan.pause(t, at)
	case d.plan.isOffered(t):
		d.plan.asked.add(t)
	}
	d.plan.schedule(t, d.due(t))
}

// planAll builds the plan from the state.
func (d *Decider) planAll() {
	for id := range d.state.Agents {
		d.plan.updateAgent(id)
	}
	at := d.state.Tasks.Moment(d.state.TS)
	for t := range d.state.Tasks.All() {
		d.plan.enter(t)
		d.plan.update(t, holding{})
		d.replan(t, at)
	}
	for _, h := range d.plan.free {
		h.lastPause = d.plan.lastPause
	}
}

// logViews logs new versions of the views that changed, in a log where views have
// events of their own.
func (d *Decider) logViews(now time.Time) {
	for _, t := range d.plan.stale {
		if t.Changed <= t.Viewed || d.state.Tasks.Get(t.ID) != t {
			continue
		}
		doc, err := task.Document(t)
		if err != nil {
			panic(err) // texts and numbers always encode
		}
		d.logFile(now, protocol.TaskDir(t.ID)+"/"+protocol.TaskView, doc)
	}
	if d.roster {
		d.logFile(now, protocol.PathRegistry, d.state.Registry())
	}
}

func (d *Decider) logFile(now time.Time, p string, data []byte) {
	c := protocol.NewContent(data)
	d.emit(now, &protocol.FileEvent{Path: p, By: protocol.Hive, Content: &c})
}

// continueChildren continues the tasks that waited for one that has ended (spec §8.5):
// those that may be taken now are ready to be offered. Of the others at most
// TasksAtOnce are continued at once, and the rest later, as due tasks.
func (d *Decider) continueChildren(now time.Time, parent *task.Task) error {
	at := d.state.Tasks.Moment(now)
	for _, id := range d.state.Tasks.Children(parent.ID) {
		t := d.state.Tasks.Get(id)
		if task.Ended(t.State) {
			continue // just now, with another task that it waited for
		}
		if d.plan.waiting(t, at) {
			d.plan.waits.add(t)
			d.plan.ready = append(d.plan.ready, t)
			continue
		}
		if d.carried++; d.carried > TasksAtOnce {
			d.plan.schedule(t, max(d.due(t), at))
			continue
		}
		if err := d.continueWaiting(now, t); err != nil {
			return err
		}
	}
	return nil
}

// continueWaiting continues a task if what it waited for has ended.
func (d *Decider) continueWaiting(now time.Time, t *task.Task) error {
	parent := d.state.Tasks.Lost(t)
	switch {
	case parent != nil:
		why := "it needs " + string(parent.ID) + ", which was " + string(parent.State)
		if parent.Reason != "" {
			why += ": " + protocol.Fit(parent.Reason, reasonShown)
		}
		return d.recordTransition(now, t, protocol.TaskEvent{Event: task.DependencyFailed, By: protocol.Hive, Reason: protocol.Fit(why, reasonShown)})
	case len(d.state.Tasks.Unmet(t)) > 0:
	case t.State == task.Unassigned:
		d.plan.ready = append(d.plan.ready, t)
	case len(t.BlockedOn) > 0:
		return d.recordTransition(now, t, protocol.TaskEvent{Event: task.DependencyResolved, By: protocol.Hive, Reason: "what it waited for is done"})
	}
	return nil
}
