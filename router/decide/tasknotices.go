package decide

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

// tellTransition tells everybody concerned what happened to a task, so that they can
// act on it (spec §8.6). was is the task before the event.
func (d *Decider) tellTransition(now time.Time, was, t *task.Task, e *protocol.TaskEvent) error {
	var list []notice
	add := func(to protocol.AgentID, code protocol.Code, act protocol.Act, body string, more map[string]any) {
		if to != "" && to != e.By && d.state.Agents[to] != nil && !slices.ContainsFunc(list, func(n notice) bool { return n.to == to }) {
			list = append(list, d.taskNotice(t, to, code, act, body, more))
		}
	}
	d.tellHolder(was, t, e, add)
	d.tellFormerHolder(was, t, e, add)
	d.tellOthers(was, t, e, add)
	for _, n := range list {
		if n.to == protocol.Human && n.to == d.creatorOf(t) && task.Ended(t.State) {
			n.halfInbox, n.mustAnswer = e.Event != task.Timeout, e.Event == task.Timeout
		}
		if err := d.notice(now, n); err != nil {
			return err
		}
	}
	return nil
}

type adder func(to protocol.AgentID, code protocol.Code, act protocol.Act, body string, more map[string]any)

// mustAnswer reports whether a notice of a code must be answered, or says that a wait
// ended because nobody answered.
func mustAnswer(code protocol.Code) bool {
	return code == protocol.CodeApprovalAsked || code == protocol.CodeReminder || code == protocol.CodeSpecify || code == protocol.CodeApprovalTimeout
}

func (d *Decider) taskNotice(t *task.Task, to protocol.AgentID, code protocol.Code, act protocol.Act, body string, more map[string]any) notice {
	data := map[string]any{"task": t.ID, "state": t.State}
	if code != protocol.CodeTaskOffer { // an offer has no epoch before somebody takes it
		data["epoch"] = t.Epoch
	}
	maps.Copy(data, more)
	return notice{
		to: to, act: act, conversation: protocol.TaskConversation(t.ID), code: code,
		subject: string(code) + ": " + t.Title, body: body, data: data, mustAnswer: mustAnswer(code),
	}
}

// tellHolder tells the holder what it must know to go on with the task.
func (d *Decider) tellHolder(was, t *task.Task, e *protocol.TaskEvent, add adder) {
	id, epoch := string(t.ID), digits(was.Epoch)
	switch e.Event {
	case task.Remind:
		if t.State == task.Pending {
			add(t.Holder, protocol.CodeLeaseEnding, protocol.Request, "You took task "+id+" and have not started it; if you do not, it is offered to others. "+d.nextSteps(t.Holder, t), nil)
		}
	case task.HeartbeatLost, task.ProgressStalled:
		add(was.Holder, protocol.CodeStalled, protocol.Request, fmt.Sprintf("Task %s counts as stalled: %s. Report `progress` with something new, or whatever became of it, with epoch %s within %s, or it is offered to others. If you will be silent, say `expected_for`. %s",
			id, e.Reason, epoch, d.settings.Tasks.StallGrace.String(), d.nextSteps(was.Holder, t)), nil)
	case task.Cancel:
		if t.State == task.Cancelled {
			add(was.Holder, protocol.CodeCancelled, protocol.Inform, "Task "+id+" was cancelled by "+string(e.By)+withReason(e.Reason)+".", nil)
			return
		}
		add(t.Holder, protocol.CodeCancelRequested, protocol.Cancel, fmt.Sprintf("%s asks you to stop working on task %s%s. Clean up and report `cancelled` with epoch %s within %s. If it is done already, report `complete`: that counts. To confirm, %s.",
			e.By, id, withReason(e.Reason), epoch, d.settings.Tasks.CancelGrace.String(), howToTask(t.Holder, task.CancelledEvent, t.ID, t.Epoch, "", "")), nil)
	case task.ApprovalGranted:
		add(t.Holder, protocol.CodeApproved, protocol.Agree, "Task "+id+" was approved by "+string(e.By)+choiceIn(e)+withReason(answerOf(e))+". Go on, with epoch "+epoch+".", answersOf(e))
	case task.Answer:
		more := answersOf(e)
		more["attempt"] = t.Attempt
		add(t.Holder, protocol.CodeGoOn, protocol.Request, string(e.By)+" answers for task "+id+": "+answerOf(e)+"\nGo on, with epoch "+epoch+".", more)
	case task.Amend:
		body := fmt.Sprintf("%s amended task %s: %s. Version %d of its brief is in %s/%s; read it before you go on. Your epoch stays.", e.By, id, e.Reason, t.Version, protocol.TaskDir(t.ID), protocol.TaskBrief)
		add(t.Holder, protocol.CodeAmended, protocol.Inform, body, map[string]any{"version": t.Version})
	case task.DependencyResolved, task.Retry:
		what := "What task " + id + " waited for is done"
		if e.By != protocol.Hive && e.Event == task.DependencyResolved {
			what = string(e.By) + " lets task " + id + " go on" + withReason(e.Reason)
		}
		if e.Event == task.Retry {
			what = "The pause after the last failure of task " + id + " is over: this is execution " + digits(t.Attempt)
		}
		add(t.Holder, protocol.CodeGoOn, protocol.Request, what+". Go on, with epoch "+epoch+".", map[string]any{"attempt": t.Attempt})
	}
}

// tellFormerHolder tells the agent that had the task that it lost it, or that the task
// has ended, and why.
func (d *Decider) tellFormerHolder(was, t *task.Task, e *protocol.TaskEvent, add adder) {
	id := string(t.ID)
	over := "Epoch " + digits(was.Epoch) + " is over: stop working on it. What you report for it counts no more."
	switch e.Event {
	case task.LeaseExpired:
		add(was.Holder, protocol.CodeLeaseExpired, protocol.Inform, "You did not start task "+id+" in time. "+over, nil)
	case task.Release:
		if e.By == protocol.Hive {
			add(was.Holder, protocol.CodeReleased, protocol.Inform, "Task "+id+" was taken from you: "+e.Reason+". "+over, nil)
		}
	case task.CancelledEvent:
		add(was.Holder, protocol.CodeCancelled, protocol.Inform, "Task "+id+" was cancelled: "+e.Reason+". "+over, nil)
	case task.ApprovalDenied:
		add(was.Holder, protocol.CodeDenied, protocol.Refuse, "Task "+id+" was denied by "+string(e.By)+withReason(answerOf(e))+". It has failed.", answersOf(e))
	case task.Timeout:
		add(was.Holder, protocol.CodeApprovalTimeout, protocol.Failure, "Nobody approved of task "+id+" in time. It has failed. "+d.nextSteps(was.Holder, t), nil)
	case task.DependencyFailed:
		add(was.Holder, protocol.CodeParentFailed, protocol.Failure, "Task "+id+" has failed: "+e.Reason+".", nil)
	case task.MaxRetriesExceeded, task.FatalError:
		add(was.Holder, protocol.CodeTaskFailed, protocol.Failure, "Task "+id+" has failed: "+cmp.Or(e.Reason, string(e.Event))+".", nil)
	}
}

// answerOf returns the whole comment of the answer that settled a question.
func answerOf(e *protocol.TaskEvent) string {
	if e.Answered == nil {
		return e.Reason
	}
	return e.Answered.Answers[len(e.Answered.Answers)-1].Comment
}

// answersOf returns, for the data of a notice, which question was settled and the file
// with all answers to it.
func answersOf(e *protocol.TaskEvent) map[string]any {
	if e.Answered == nil {
		return nil
	}
	more := map[string]any{"ask": e.Answered.Ask, "answers": protocol.TaskAnswer(e.Task, e.Answered.Ask)}
	if e.Choice != "" {
		more["choice"] = e.Choice
	}
	if n := len(e.Answered.Answers); n > 0 && e.Answered.Answers[n-1].Result != nil {
		more["result"] = e.Answered.Answers[n-1].Result
	}
	return more
}

func withReason(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + reason
}

// tellOthers tells those who may take the task, approve of it or specify it, and its
// creator.
func (d *Decider) tellOthers(was, t *task.Task, e *protocol.TaskEvent, add adder) {
	id := string(t.ID)
	switch e.Event {
	case task.Offer:
		d.tellOffered(t, e, add)
	case task.Accept, task.Claim:
		for _, to := range was.Offered {
			add(to, protocol.CodeRaceLost, protocol.Inform, string(e.By)+" was first to take task "+id+"; there is nothing for you to do.", nil)
		}
	case task.Cancel:
		for _, to := range was.Offered {
			add(to, protocol.CodeCancelled, protocol.Inform, "Task "+id+", which you were offered, was cancelled.", nil)
		}
	case task.LeaseExpired, task.Release:
		if e.By == protocol.Hive {
			d.tellTakenAway(was, t, e, add)
		}
	case task.MaxRetriesExceeded, task.Poison:
		if was.State == task.Unassigned {
			for _, to := range []protocol.AgentID{d.creatorOf(t), protocol.Human} {
				add(to, protocol.CodeTaskFailed, protocol.Failure, "Task "+id+", "+t.Title+", has failed: "+e.Reason+". Look at its brief before you go on from its checkpoint: to make a task that does, "+howToResume(to, t.ID)+".", map[string]any{"reason": e.Reason})
			}
		}
	case task.OfferExhausted:
		if e.Until.IsZero() {
			break // others are asked
		}
		add(d.creatorOf(t), protocol.CodeNobodyTakes, protocol.Inform, "All whom task "+id+" was offered to have rejected it, or cannot take it now; its history says why. It is offered again at "+e.Until.Format(time.RFC3339)+".", nil)
	case task.PauseForApproval:
		d.tellApprovers(t, protocol.CodeApprovalAsked, string(was.Holder)+" asks", add)
	case task.Remind:
		if t.State == task.Paused {
			d.tellApprovers(t, protocol.CodeReminder, string(was.Holder)+" still waits for an answer", add)
		}
	case task.BlockOnDependency:
		d.tellLead(t, e, add)
	}
	d.tellCreator(t, e, add)
}

// tellOffered asks the agents that are offered a task to take it, and tells them what
// was reached before.
func (d *Decider) tellOffered(t *task.Task, e *protocol.TaskEvent, add adder) {
	body := fmt.Sprintf("Task %s: %s. Its brief is %s/%s. Accept or reject it within %s; the first to accept has it.",
		t.ID, t.Title, protocol.TaskDir(t.ID), protocol.TaskBrief, d.settings.Tasks.Lease.String())
	if t.CheckpointAt > 0 {
		body += " Somebody worked on it: go on from " + protocol.TaskDir(t.ID) + "/" + protocol.TaskCheckpoint + "."
	}
	if q := t.Questions; q != nil && len(q.Answered) > 0 {
		body += " What was answered stands in " + protocol.TaskAnswer(t.ID, q.Answered[len(q.Answered)-1].Ask)
		if len(q.Answered) > 1 {
			body += ", and in " + digits(len(q.Answered)-1) + " more files beside it"
		}
		body += "."
	}
	if t.Left != nil {
		body += " " + string(t.Left.By) + " gave it back: " + t.Left.Reason + "\n"
	}
	for _, to := range e.Agents {
		add(to, protocol.CodeTaskOffer, protocol.Propose, body+" "+d.nextSteps(to, t), map[string]any{"title": t.Title, "priority": t.Priority})
	}
}

// tellTakenAway tells the creator and human that a task was taken from its holder: the
// holder may be gone, or its time too short.
func (d *Decider) tellTakenAway(was, t *task.Task, e *protocol.TaskEvent, add adder) {
	for _, to := range []protocol.AgentID{d.creatorOf(t), protocol.Human} {
		add(to, protocol.CodeTakenAway, protocol.Inform, fmt.Sprintf("Task %s, %s, was taken from %s: %s. It goes to whoever takes it next, from its last checkpoint; nothing is asked of you.",
			t.ID, t.Title, was.Holder, e.Reason), map[string]any{"holder": was.Holder, "reason": e.Reason})
	}
}

// tellApprovers asks those who may approve and have not yet, and says how each can.
func (d *Decider) tellApprovers(t *task.Task, code protocol.Code, what string, add adder) {
	ask, question := t.Open()
	waits := "It waits for you, without a time limit"
	if !t.Endless() {
		waits = "It waits for you until " + d.state.Tasks.Time(t.Until).Format(time.RFC3339)
	}
	for _, to := range d.votesMissing(t) {
		more := map[string]any{"ask": ask, "question": question, "needed": max(1, t.Terms().Needed)}
		if !t.Endless() {
			more["until"] = d.state.Tasks.Time(t.Until)
		}
		if offered := t.Questions.Offered(); len(offered) > 0 {
			more["choices"] = offered
		}
		add(to, code, protocol.Request, fmt.Sprintf("%s: %s\nThat is question %s of task %s, %s. %s. %s.",
			what, question, ask, t.ID, t.Title, waits, capitalized(howToApprove(to, t))), more)
	}
}

// tellLead asks those who may know how a blocked task can go on: the lead, or a person,
// and its creator.
func (d *Decider) tellLead(t *task.Task, e *protocol.TaskEvent, add adder) {
	ask, question := t.Open()
	if ask == 0 {
		return // it waits for other tasks
	}
	id := string(t.ID)
	what := string(t.Holder) + " cannot go on with task " + id
	switch e.Category {
	case protocol.SchemaFailure:
		what = string(t.Holder) + " cannot do task " + id + " as it is specified"
	case protocol.UnknownFailure:
		what = string(t.Holder) + " failed at task " + id + " in a way that no rule knows"
	case protocol.TransientFailure, protocol.AuthFailure, protocol.AmbiguityFailure, protocol.LogicFailure:
	}
	for _, to := range []protocol.AgentID{d.lead(t.Holder), d.creatorOf(t)} {
		if to == t.Holder {
			continue
		}
		body := what + ": " + cmp.Or(question, "it says no more") + "\nTo answer, " + howToAnswer(to, t, task.Answer, ask) +
			"; to give it up, " + howToTask(to, task.FatalError, t.ID, 0, "", `{"reason": "…"}`) + "."
		if to == d.creatorOf(t) || to == protocol.Human {
			body += " To change its brief first, " + howToTask(to, task.Amend, t.ID, 0, "", `{"body": "…"}`) + "."
		}
		add(to, protocol.CodeSpecify, protocol.Request, body, map[string]any{"ask": ask, "question": question})
	}
}

// tellCreator tells the creator how the task ended.
func (d *Decider) tellCreator(t *task.Task, e *protocol.TaskEvent, add adder) {
	if e.From == e.To {
		return
	}
	id, creator := string(t.ID), d.creatorOf(t)
	switch t.State {
	case task.Completed:
		body := "Task " + id + " was completed by " + string(e.By) + "."
		if e.Result != nil {
			body += " Its result is " + protocol.TaskDir(t.ID) + "/" + protocol.TaskResult + "."
		}
		add(creator, protocol.CodeTaskCompleted, protocol.Done, body, nil)
	case task.Failed:
		code, why := protocol.CodeTaskFailed, task.Said(e)
		if e.Event == task.DependencyFailed {
			code = protocol.CodeParentFailed
		}
		add(creator, code, protocol.Failure, "Task "+id+" has failed: "+cmp.Or(why, string(e.Event))+". "+d.nextSteps(creator, t), map[string]any{"reason": why})
	case task.Cancelled:
		add(creator, protocol.CodeCancelled, protocol.Inform, "Task "+id+" was cancelled by "+string(e.By)+withReason(e.Reason)+".", nil)
	}
}
