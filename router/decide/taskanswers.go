package decide

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json"

	"github.com/hived/hived/ledger"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

// answerShown is how much of an answer is repeated as the reason of its event, in
// characters; the event has all of it too.
const answerShown = 200

// approvers returns who may approve of a task: those that its brief names, else human,
// and, if more than one approval is needed, also the lead and the agents with
// [task.ApproverRole]; never the agent that asks (spec §8.5).
func (d *Decider) approvers(t *task.Task) []protocol.AgentID {
	return slices.DeleteFunc(d.approversOf(t.Terms().Approvers, int(t.Terms().Needed)), func(id protocol.AgentID) bool {
		return id == t.Holder && id != protocol.Human
	})
}

func (d *Decider) approversOf(named []protocol.Address, needed int) []protocol.AgentID {
	r := &recipients{}
	if len(named) == 0 {
		r.add(protocol.Human)
		if needed > 1 {
			if d.state.Lead != "" {
				r.add(d.state.Lead)
			}
			_ = d.expandRole(task.ApproverRole, r)
		}
	}
	for _, to := range named {
		if role, ok := to.Role(); ok {
			_ = d.expandRole(role, r)
		} else if id := protocol.AgentID(to); d.state.Agents[id] != nil {
			r.add(id)
		}
	}
	return r.to
}

// handleApprove takes one approval of what a task asks. The last one needed lets the
// task go on.
func (d *Decider) handleApprove(r *report) error {
	if err := d.mayApprove(r); err != nil {
		return err
	}
	if err := checkChoice(r); err != nil {
		return err
	}
	if given, gave := r.t.Questions.ChoiceOf(r.by); gave && given == r.Choice {
		return &refusal{protocol.CodeVotedTwice, "you have approved of it already; " + digits(int(r.t.Terms().Needed)-r.t.Questions.With(r.by, r.Choice)) + " more must"}
	}
	event := task.ApprovalGranted
	if r.t.Questions.With(r.by, r.Choice) < int(r.t.Terms().Needed) {
		event = task.ApprovalVote
	}
	return d.answer(r, event, r.Comment)
}

func (d *Decider) handleDeny(r *report) error {
	if err := d.mayApprove(r); err != nil {
		return err
	}
	return d.answer(r, task.ApprovalDenied, cmp.Or(r.Comment, string(r.by)+" denied it"))
}

func (d *Decider) mayApprove(r *report) error {
	who := d.approvers(r.t)
	switch {
	case !slices.Contains(who, r.by):
		return &refusal{protocol.CodeNotApprover, "only " + cmp.Or(listNames(who), "agents that are not there") + " may approve of it; leave it to others"}
	case r.t.State != task.Paused:
		return d.refuseAnswer(r)
	}
	return d.checkAsk(r)
}

// refuseAnswer refuses an answer to a question that is over, and says what became of
// the question.
func (d *Decider) refuseAnswer(r *report) error {
	t, ask := r.t, r.Ask
	if asked := d.noticeOf(r.by, r.m.InReplyTo); ask == 0 && asked.Task == t.ID {
		ask = asked.Ask
	}
	what, why := "its question", "the task goes on without an answer"
	if ask > 0 {
		what = "question " + ask.String()
	}
	answered := t.Questions != nil && slices.ContainsFunc(t.Questions.Answered, func(a task.Answered) bool { return a.Ask == ask })
	switch {
	case answered:
		return &refusal{protocol.CodeIllegalTransition, what + " was answered already: " + protocol.TaskAnswer(t.ID, ask)}
	case t.Questions == nil:
		return d.refuseIllegal(r)
	case task.Ended(t.State):
		why = "the task " + endText(t) + "; " + d.endedText(r.by, t)
	case task.Held(t.State) && t.State != task.InProgress:
		why = "the task is " + string(t.State)
	case !task.Held(t.State):
		why = "the task was taken from who asked"
	}
	return &refusal{protocol.CodeIllegalTransition, what + " is over, and nothing is asked of you: " + why}
}

// endText returns how a task has ended.
func endText(t *task.Task) string {
	if t.State == task.Failed {
		return "has failed" + withReason(t.Reason)
	}
	return "was " + string(t.State) + withReason(t.Reason)
}

// handleAnswer lets a task go on that is blocked until somebody answers.
func (d *Decider) handleAnswer(r *report) error {
	ask, _ := r.t.Open()
	switch {
	case r.by != d.creatorOf(r.t) && !d.manages(r):
		return &refusal{protocol.CodeNotAllowed, d.onlyManagersText(r.t)}
	case r.t.State != task.Blocked:
		return d.refuseAnswer(r)
	case ask == 0:
		return &refusal{protocol.CodeBadCommand, "it asks nothing: it waits for " + listNames(r.t.BlockedOn)}
	case r.Comment == "":
		return &refusal{protocol.CodeBadCommand, "it says nothing; to say it, " + howToAnswer(r.by, r.t, task.Answer, ask)}
	}
	if err := d.checkAsk(r); err != nil {
		return err
	}
	return d.answer(r, task.Answer, r.Comment)
}

// checkAsk refuses an answer that does not name the question which is open now, by its
// number or as a reply to a notice of it: an answer to one question must not pass for
// an answer to the next (spec §8.5).
func (d *Decider) checkAsk(r *report) error {
	open, text := r.t.Open()
	asked := d.noticeOf(r.by, r.m.InReplyTo)
	means := r.Ask
	if asked.Task == r.t.ID && asked.Ask > 0 && (means == 0 || means == open) {
		means = asked.Ask
	}
	if means == open && open > 0 {
		return nil
	}
	what := "it does not say which question it answers"
	if means > 0 {
		what = "it answers question " + means.String()
	}
	what += fmt.Sprintf(", and what is asked now is question %s, %s; ", open, protocol.Quote(protocol.Fit(text, 200)))
	way := howToAnswer(r.by, r.t, task.Event(r.event), open)
	return &refusal{protocol.CodeStaleApproval, what + "if that is what you mean, " + way}
}

// howToAnswer returns how somebody answers the question with a number.
func howToAnswer(by protocol.AgentID, t *task.Task, event task.Event, ask protocol.Seq) string {
	args := "--ask " + ask.String()
	if event == task.Answer {
		args += ` "…"`
	}
	return howToTask(by, event, t.ID, 0, args, `{"ask": `+ask.String()+`, "comment": "…"}`)
}

// answer records an answer with its whole comment. The reason is what the task shows
// of it.
func (d *Decider) answer(r *report, event task.Event, reason string) error {
	if n := len(r.Comment); n > WordsMost {
		return &refusal{protocol.CodeBadCommand, fmt.Sprintf("its comment has %d bytes; write at most %d, or put it into a file and send its path", n, WordsMost)}
	}
	q, err := d.openQuestion(r)
	if err != nil {
		return err
	}
	oldest := r.t.Questions.Oldest()
	if len(q.Choices) > 0 && event != task.ApprovalDenied { // it replaces the choice that he gave before
		q.Answers = slices.DeleteFunc(q.Answers, func(a protocol.Answer) bool { return a.By == r.by })
	}
	q.Answers = append(q.Answers, protocol.Answer{By: r.by, At: r.now.UTC(), Event: event, Choice: r.Choice, Comment: r.Comment, Result: r.Result})
	step, err := d.answeredStep(r, event)
	if err != nil {
		return err
	}
	e := protocol.TaskEvent{Event: event, Reason: protocol.Fit(reason, answerShown), Choice: r.Choice, Answered: q, Step: step}
	if err := d.transition(r, e); err != nil {
		return err
	}
	if oldest > 0 {
		d.emit(r.now, &protocol.HiveEvent{Action: protocol.Swept, Paths: []string{protocol.TaskAnswer(r.t.ID, oldest)}})
	}
	return nil
}

// openQuestion returns the open question with the answers given to it so far.
func (d *Decider) openQuestion(r *report) (*protocol.Question, error) {
	t := r.t
	ask, text := t.Open()
	q := &protocol.Question{Ask: ask, Question: text, Choices: t.Questions.Offered(), AskedBy: t.Holder, AskedAt: d.state.Tasks.Time(t.Since)}
	if t.Questions == nil || t.Questions.Voted == 0 {
		return q, nil
	}
	e, err := d.taskEvent(t.Questions.Voted)
	switch {
	case err == nil && e.Answered != nil:
		q.Answers = slices.Clone(e.Answered.Answers)
	case err == nil && e.Adopted != nil && e.Adopted.Open != nil:
		q.Answers = slices.Clone(e.Adopted.Open.Answers)
	default:
		return nil, &refusal{protocol.CodeBadCommand, "the answers before it cannot be read from the log; answer again"}
	}
	return q, nil
}

// noticeData is the part of a notice's data that is about tasks and refusals.
type noticeData struct {
	Code protocol.Code   `json:"code"`
	Task protocol.TaskID `json:"task"`
	Ask  protocol.Seq    `json:"ask"`
	Row  int             `json:"refused"` // how many refusals in a row, each for a reply to the one before
}

// noticeOf returns the data of a notice that is still in somebody's inbox or in
// .done/; zero for any other message.
func (d *Decider) noticeOf(to protocol.AgentID, id protocol.MessageID) (n noticeData) {
	a := d.state.Agents[to]
	if a == nil || id == "" {
		return n
	}
	for _, box := range []*ledger.Box{&a.Inbox, &a.Done} {
		for _, l := range box.All() {
			if l.ID != id {
				continue
			}
			ev, err := d.event(l.Of)
			e, is := ev.Body.(*protocol.MessageEvent)
			if err != nil || !is || e.From != protocol.Hive {
				continue
			}
			if m, err := protocol.DecodeMessage([]byte(e.Raw)); err == nil && json.Unmarshal(m.Data, &n) == nil {
				return n
			}
		}
	}
	return noticeData{}
}
