package task

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/hived/hived/protocol"
)

// Adopt returns the event with which a new log takes over a task, from the task's
// files by their names below tasks/<id>/ (spec §1.6). The name answers/ alone says
// that something else is in its place. active reports whether an agent can go on with
// a task.
//
// The epoch never goes down: the task keeps it together with its holder, or the epoch
// is over, whoever had it. A file that somebody deleted may be missing, except for
// task.json and brief.json. If one of these is missing, or any file is damaged, the
// error says so, and the event takes over an ended task: one that had ended keeps its
// end, and any other has failed, so that tasks that need it do not wait for ever, and
// it can be resumed if its brief is whole.
func Adopt(id protocol.TaskID, files map[string][]byte, active func(protocol.AgentID) bool) (protocol.TaskEvent, error) {
	a := adoption{id: id, files: files}
	a.read()
	a.e = protocol.TaskEvent{Task: id, Event: Adopted, By: protocol.Hive, Adopted: &protocol.AdoptedTask{}}
	a.brief()
	if a.err != nil {
		a.e.To = Failed
		if Ended(a.view.State) {
			a.e.To, a.e.Adopted.Since = a.view.State, a.view.Since
		}
		a.e.Epoch, a.e.Attempt = a.newest(), a.view.Attempt
		a.e.Reason = "its files were damaged when the log was begun anew: " + a.err.Error()
		return a.e, a.err
	}
	a.stands()
	a.assigned(active)
	a.reached()
	a.asked()
	return a.e, nil
}

// epochMost is greater than any epoch that a task can reach.
const epochMost = 1 << 53

// adoption is what was read from a task's files, and the event made from it.
type adoption struct {
	id    protocol.TaskID
	files map[string][]byte
	view  View
	is    Brief
	last  *Reached
	out   *Outcome
	ended *LastOutcome
	said  []protocol.Question
	err   error // the first file that is damaged
	e     protocol.TaskEvent
}

// read parses all files. Damaged ones are left out and named in err.
func (a *adoption) read() {
	if whole := a.parseRequired(protocol.TaskView, &a.view) &&
		a.check(protocol.TaskView, a.view.ID == a.id && slices.Contains(States(), a.view.State), "it does not say where this task stands") &&
		a.check(protocol.TaskView, a.view.Epoch < epochMost && min(a.view.Attempt, a.view.Retries, a.view.Fruitless, a.view.Free, a.view.Crashes) >= 0, "its numbers cannot be"); !whole {
		a.view = View{}
	}
	if whole := a.parseRequired(protocol.TaskBrief, &a.is) &&
		a.check(protocol.TaskBrief, a.is.ID == a.id && a.is.Title != "", "it is not the brief of this task") &&
		a.check(protocol.TaskBrief, a.is.GateSHA256 == "" || a.is.GateSHA256 == protocol.GateSum(a.is.Gate), "its gate is not the one whose sum it has"); !whole {
		a.is = Brief{}
	}
	var last Reached
	if a.parse(protocol.TaskCheckpoint, &last) {
		sum, err := sumOfCheckpoint(&last.Checkpoint)
		if a.check(protocol.TaskCheckpoint, last.Task == a.id && last.Epoch < epochMost && err == nil && sum == last.SHA256, "its sum is not that of what it holds") {
			a.last = &last
		}
	}
	var out Outcome
	if a.parse(protocol.TaskResult, &out) && a.check(protocol.TaskResult, out.Task == a.id && out.Epoch < epochMost && len(out.Result) > 0, "it is not the result of this task") {
		a.out = &out
	}
	var ended LastOutcome
	if a.parse(protocol.TaskOutcome, &ended) {
		_, known := RuleOf(ended.Kind)
		if a.check(protocol.TaskOutcome, ended.Task == a.id && ended.Epoch < epochMost && known && ended.Fault() == "", "it is not the outcome of this task") {
			a.ended = &ended
		}
	}
	a.readAnswers()
}

func (a *adoption) readAnswers() {
	if _, there := a.files[protocol.TaskAnswers]; there {
		a.fault(protocol.TaskAnswers, "it is no directory")
	}
	for _, name := range slices.Sorted(maps.Keys(a.files)) {
		ask, is := strings.CutPrefix(name, protocol.TaskAnswers+"/")
		var q protocol.Question
		if is && a.parse(name, &q) && a.check(name, q.Ask.String()+".json" == ask && len(q.Answers) > 0, "it is not the answer to that question") {
			a.said = append(a.said, q)
		}
	}
	slices.SortFunc(a.said, func(x, y protocol.Question) int { return int(x.Ask) - int(y.Ask) }) //nolint:gosec // a log is shorter than 2^63
}

// parse reads one file; it returns false if there is none, or a damaged one.
func (a *adoption) parse(name string, into any) bool {
	data, there := a.files[name]
	if !there {
		return false
	}
	err := json.Unmarshal(data, into)
	return a.check(name, err == nil, "it is no whole JSON of its kind")
}

// parseRequired is parse for a file that every task has.
func (a *adoption) parseRequired(name string, into any) bool {
	if _, there := a.files[name]; !there {
		a.fault(name, "it is missing")
		return false
	}
	return a.parse(name, into)
}

// check records a fault of a file unless sound, and returns sound.
func (a *adoption) check(name string, sound bool, wrong string) bool {
	if !sound {
		a.fault(name, wrong)
	}
	return sound
}

// fault records the first damaged file.
func (a *adoption) fault(name, wrong string) {
	if a.err == nil {
		a.err = fmt.Errorf("%s: %s", path.Join(protocol.TaskDir(a.id), name), wrong)
	}
}

// newest returns the highest epoch in the files.
func (a *adoption) newest() uint64 {
	epoch := a.view.Epoch
	if a.last != nil {
		epoch = max(epoch, a.last.Epoch)
	}
	if a.out != nil {
		epoch = max(epoch, a.out.Epoch)
	}
	if a.ended != nil {
		epoch = max(epoch, a.ended.Epoch)
	}
	return epoch
}

// brief takes over the brief; if it is damaged, what task.json says about it.
func (a *adoption) brief() {
	b, v := &a.is, &a.view
	if b.ID != a.id {
		*b = Brief{Title: v.Title, To: v.To, Needs: v.Needs, Priority: v.Priority, Resumes: v.Resumes, Repairs: v.Repairs, Unwinds: v.Unwinds, Creator: v.Creator, CreatedAt: v.CreatedAt}
	}
	if b.Title == "" {
		b.Title = "(its brief is lost)"
	}
	if b.Creator == "" {
		b.Creator = protocol.Human
	}
	a.e.Spec = &protocol.TaskSpec{
		Title: b.Title, Body: b.Body, To: b.To, Priority: b.Priority, Gate: b.Gate, Approvals: b.Approvals, Approvers: b.Approvers, Data: b.Data,
	}
	a.e.Needs, a.e.GateBy, a.e.Resumes, a.e.Repairs, a.e.Depth = b.Needs, b.GateBy, b.Resumes, b.Repairs, v.Depth
	a.e.Unwinds, a.e.UnwoundBy, a.e.Generation = b.Unwinds, v.UnwoundBy, v.Generation
	a.e.Amends = &protocol.Amendment{Version: max(1, b.Version), Creator: b.Creator, CreatedAt: b.CreatedAt}
	a.e.Adopted.AmendedBy, a.e.Adopted.AmendedAt = b.AmendedBy, b.AmendedAt
}

// stands takes over the state of the task. A result that task.json does not know yet
// ends it.
func (a *adoption) stands() {
	v, e, x := &a.view, &a.e, a.e.Adopted
	e.To, e.Reason, e.Category, e.Epoch, e.Attempt = v.State, v.Reason, v.Category, v.Epoch, v.Attempt
	e.NotBefore, e.Until, e.Expected = v.NotBefore, v.Until, v.Expected
	x.Since, x.Retries, x.Fruitless, x.BlockedOn = v.Since, v.Retries, v.Fruitless, v.BlockedOn
	x.Free, x.Crashes = v.Free, v.Crashes
	for _, t := range v.Taken {
		x.Taken = append(x.Taken, t.By)
	}
	if a.out != nil && !Ended(v.State) {
		e.To, e.Reason, e.Category, x.Since = Completed, "", "", a.out.At
		e.NotBefore, e.Until, e.Expected = time.Time{}, time.Time{}, time.Time{}
	}
	if v.Checkpoint != nil && a.last == nil {
		x.Note = "its checkpoint was not there"
	}
	if v.Left != nil {
		x.LeftBy, x.LeftReason = v.Left.By, v.Left.Reason
	}
	x.Holder = v.Holder
	x.Cancelling = v.CancelRequested && !Ended(e.To)
}

// assigned decides who goes on with the task. A holder that is not active, or about
// which the files disagree, loses it.
func (a *adoption) assigned(active func(protocol.AgentID) bool) {
	v, e, x := &a.view, &a.e, a.e.Adopted
	newest := a.newest()
	switch {
	case Ended(e.To):
		e.Epoch = newest
	case newest > v.Epoch:
		a.free(newest+1, "task.json was older than its other files when the log was begun anew")
	case e.To == Offered:
		if e.Agents = own(slices.DeleteFunc(slices.Clone(v.Offered), func(id protocol.AgentID) bool { return !active(id) })); e.Agents == nil {
			e.To = Unassigned
		}
	case Held(e.To):
		if why := a.unheld(active); why != "" {
			a.free(newest+1, why+" when the log was begun anew")
		}
	}
	if e.To == Unassigned || e.To == Offered {
		x.Holder = ""
	}
	if e.Epoch != v.Epoch || v.Epoch > 0 && (len(v.Taken) == 0 || v.Taken[len(v.Taken)-1].Epoch != v.Epoch) {
		x.Taken = nil // not all of the takers and times are known
	}
}

// unheld returns why nobody can go on with the task as its holder; empty if somebody
// can.
func (a *adoption) unheld(active func(protocol.AgentID) bool) string {
	v := &a.view
	switch {
	case v.Holder == "" || v.Epoch == 0:
		return "task.json did not say who had it"
	case !active(v.Holder):
		return "its holder " + string(v.Holder) + " was no agent of the hive"
	case v.Question == nil && (v.State == Paused || v.State == Blocked && len(v.BlockedOn) == 0):
		return "task.json did not say what it waited for"
	}
	return ""
}

// free takes the task from its holder. A task that was asked to cancel is thereby
// cancelled.
func (a *adoption) free(epoch uint64, why string) {
	e, x := &a.e, a.e.Adopted
	e.To, e.Reason, e.Category, e.Epoch, x.Note = Unassigned, why, "", epoch, why
	if x.Cancelling {
		e.To, x.Cancelling = Cancelled, false
	}
	e.NotBefore, e.Until, e.Expected = time.Time{}, time.Time{}, time.Time{}
	x.Holder, x.BlockedOn = "", nil
	x.Since = time.Time{}
}

// reached takes over checkpoint and result.
func (a *adoption) reached() {
	if c := a.last; c != nil {
		a.e.Checkpoint = &c.Checkpoint
		a.e.Adopted.CheckpointFrom = &protocol.Origin{By: c.By, Epoch: c.Epoch, At: c.At}
	}
	if r := a.out; r != nil {
		a.e.Result = &protocol.TaskOutput{Value: r.Result}
		a.e.Adopted.ResultFrom = &protocol.Origin{By: r.By, Epoch: r.Epoch, At: r.At}
	}
	if o := a.ended; o != nil {
		a.e.Outcome, a.e.Adopted.OutcomeFrom = &o.Outcome, &o.OutcomeOrigin
	}
}

// asked takes over the questions of the task. Their numbers stay the same, because
// notices and answers on their way name them.
func (a *adoption) asked() {
	v, x := &a.view, a.e.Adopted
	x.Asked, x.LastAsk = v.Asked, v.LastAsk
	if q := v.Question; q != nil && (a.e.To == Paused || a.e.To == Blocked) {
		x.Open = &protocol.Question{Ask: q.Ask, Question: q.Question, Choices: q.Choices, AskedBy: v.Holder, AskedAt: v.Since}
	}
	for _, q := range a.said {
		x.LastAsk = max(x.LastAsk, q.Ask)
		if x.Open != nil && q.Ask == x.Open.Ask {
			*x.Open = q
			continue
		}
		x.Answered = append(x.Answered, q)
	}
	x.Answered = x.Answered[max(0, len(x.Answered)+1-AnsweredMost):] // and the open one
	if x.Open == nil {
		return
	}
	x.LastAsk = max(x.LastAsk, x.Open.Ask)
	given := v.Question.Given
	x.Open.Answers = slices.DeleteFunc(x.Open.Answers, func(p protocol.Answer) bool { return !slices.Contains(given, p.By) })
	for i, id := range given {
		choice := ""
		if i < len(v.Question.Chosen) {
			choice = v.Question.Chosen[i]
		}
		if !slices.ContainsFunc(x.Open.Answers, func(p protocol.Answer) bool { return p.By == id }) {
			x.Open.Answers = append(x.Open.Answers, protocol.Answer{By: id, At: v.Since, Event: ApprovalVote, Choice: choice})
		}
	}
}

// adopt begins a task in the state that its files show.
func (t *Task) adopt(ev protocol.Event, e *protocol.TaskEvent, at Moment) error {
	x := e.Adopted
	if t.State != "" || e.From != "" || x == nil || e.Amends == nil || !slices.Contains(States(), e.To) {
		return fmt.Errorf("%w: task %s is %s, and cannot be adopted as %s", ErrIllegal, e.Task, cmp.Or(t.State, "not there"), cmp.Or(e.To, "nothing"))
	}
	t.create(ev, e)
	if t.Creator = e.Amends.Creator; !e.Amends.CreatedAt.IsZero() {
		t.created = e.Amends.CreatedAt.UnixNano()
	}
	if e.Amends.Version > 1 {
		t.Version = short(e.Amends.Version)
	}
	t.Gated = e.Spec != nil && e.Spec.Gate != ""
	t.State, t.Epoch, t.Attempt, t.Changed = e.To, e.Epoch, e.Attempt, ev.Seq
	t.Reason, t.Category, t.Since, t.Progressed = e.Reason, e.Category, at, at
	if x.LeftBy != "" {
		t.Left = &Leaving{By: x.LeftBy, Seq: ev.Seq, Reason: x.LeftReason}
	}
	if !x.Since.IsZero() {
		t.Since = min(at, momentOf(x.Since, ev, at))
	}
	t.NotBefore, t.Expected = momentOf(e.NotBefore, ev, at), momentOf(e.Expected, ev, at)
	t.Holder, t.Offered, t.BlockedOn, t.takers = x.Holder, own(e.Agents), own(x.BlockedOn), own(x.Taken[max(0, len(x.Taken)-takersMost):])
	t.Spent = e.Epoch > 0 && !Held(e.To) && e.To != Completed
	t.Retries, t.Fruitless = short(x.Retries), short(x.Fruitless)
	if t.Until = momentOf(e.Until, ev, at); e.To == Unassigned {
		t.pause(t.Until)
	}
	if x.Cancelling {
		t.Cancelling = at
	}
	if c := e.Checkpoint; c != nil {
		t.Milestone, t.CheckpointAt, t.CheckpointSum = protocol.Cut(c.Milestone, titleMost), ev.Seq, sumOf(c.SHA256)
		t.Advanced = Held(e.To) && x.CheckpointFrom != nil && x.CheckpointFrom.Epoch == e.Epoch
	}
	if e.Result != nil {
		t.ResultAt = ev.Seq
	}
	efforts := Efforts{Free: short(x.Free), Crashes: short(x.Crashes)}
	if e.Outcome != nil {
		efforts.At = ev.Seq
	}
	t.setEfforts(efforts)
	t.adoptQuestions(ev.Seq, x)
	if e.To == Completed {
		t.needs = nil
	}
	t.history = t.history.with(stepOf(ev, e))
	return nil
}

// adoptQuestions takes over the task's questions; all answers are in one event.
func (t *Task) adoptQuestions(seq protocol.Seq, x *protocol.AdoptedTask) {
	if x.Asked == 0 && x.Open == nil && len(x.Answered) == 0 {
		return
	}
	q := &Questions{Count: short(x.Asked), Last: x.LastAsk}
	for _, a := range x.Answered {
		q.Answered = append(q.Answered, Answered{a.Ask, seq})
	}
	if t.Questions = q; x.Open == nil {
		return
	}
	q.Ask, q.Text, q.Choices = x.Open.Ask, x.Open.Question, own(x.Open.Choices)
	for _, a := range x.Open.Answers {
		q.Given = append(q.Given, a.By)
		if len(q.Choices) > 0 {
			q.Chosen = append(q.Chosen, a.Choice)
		}
	}
	if len(x.Open.Answers) > 0 {
		t.Questions = q.answered(q.Ask, seq)
	}
}
