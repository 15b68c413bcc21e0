package task

import (
	"slices"

	"github.com/hived/hived/protocol"
)

// Questions are what a task asked people (spec §8.5). They are never changed: an event
// makes new ones, so that a copy of the task from before keeps its own.
type Questions struct {
	Count    int32              // of all questions of the task
	Last     protocol.Seq       // the number of the last one, open or not
	Ask      protocol.Seq       // the number of the open one; zero: none is open
	Text     string             // of the open one
	Choices  []string           // that the open one offers; none: it is approved of or denied
	Voted    protocol.Seq       // the event that brought the last answer to the open one; zero: there is none
	Given    []protocol.AgentID // who approved of the open one
	Chosen   []string           // what each of them chose, if it has choices
	Reminded Moment             // of the open one, if it has no time limit: when people were reminded of it last
	Answered []Answered         // those that were answered, the oldest first
}

// Answered is a question that was answered: its number, and the event that brought
// the last answer.
type Answered struct{ Ask, At protocol.Seq }

// AnsweredMost is how many answered questions of a task are remembered, and have a
// file of their own.
const AnsweredMost = 64

// Open returns the number and the text of the open question of a task; zero if there
// is none.
func (t *Task) Open() (ask protocol.Seq, text string) {
	if t.Questions == nil {
		return 0, ""
	}
	return t.Questions.Ask, t.Questions.Text
}

// Endless reports whether a task waits for an approval without a time limit.
func (t *Task) Endless() bool { return t.State == Paused && t.Until == 0 }

// Asked returns the text of the question that an event asks.
func Asked(e *protocol.TaskEvent) string {
	if e.Question != "" && e.Reason != "" {
		return e.Question + ": " + e.Reason
	}
	return e.Question + e.Reason
}

// Chosen returns the choice that an event brings, and what was said with it.
func Chosen(e *protocol.TaskEvent) string {
	if said := Said(e); said != "" {
		return e.Choice + ": " + said
	}
	return e.Choice
}

// ask opens a question. Its number is that of the event that asks it, or greater: an
// adopted task has questions with numbers of another log, and no question may have the
// number of an earlier one.
func (q *Questions) ask(seq protocol.Seq, e *protocol.TaskEvent) *Questions {
	next := &Questions{Count: 1, Ask: q.Next(seq), Text: Asked(e), Choices: own(e.Choices)}
	if q != nil {
		next.Count, next.Answered = q.Count+1, q.Answered
	}
	next.Last = next.Ask
	return next
}

// Next returns the number of a question that the event seq asks.
func (q *Questions) Next(seq protocol.Seq) protocol.Seq {
	if q == nil {
		return seq
	}
	return max(seq, q.Last+1)
}

// reminded records that people were reminded of the open question.
func (q *Questions) reminded(at Moment) *Questions {
	next := *q
	next.Reminded = at
	return &next
}

// Votes returns who approved of the open question.
func (q *Questions) Votes() []protocol.AgentID {
	if q == nil {
		return nil
	}
	return q.Given
}

// Offered returns the choices of the open question; none if it is only approved of or
// denied.
func (q *Questions) Offered() []string {
	if q == nil {
		return nil
	}
	return q.Choices
}

// ChoiceOf returns what somebody chose for the open question, and whether he approved of
// it at all.
func (q *Questions) ChoiceOf(by protocol.AgentID) (choice string, gave bool) {
	i := slices.Index(q.Votes(), by)
	if i < 0 || i >= len(q.Chosen) {
		return "", i >= 0
	}
	return q.Chosen[i], true
}

// With returns how many approve of the open question with a choice once somebody
// does. Each choice counts for itself, and whoever chose another before gives that up.
func (q *Questions) With(by protocol.AgentID, choice string) int {
	n := 1
	for _, id := range q.Votes() {
		if c, _ := q.ChoiceOf(id); id != by && c == choice {
			n++
		}
	}
	return n
}

// approved records an approval of the open question. If it has choices, it replaces the
// one that the same agent gave before.
func (q *Questions) approved(by protocol.AgentID, choice string) *Questions {
	next := Questions{}
	if q != nil {
		next = *q
	}
	if i := slices.Index(next.Given, by); i >= 0 && i < len(next.Chosen) {
		next.Chosen = slices.Clone(next.Chosen)
		next.Chosen[i] = choice
		return &next
	}
	next.Given = append(slices.Clone(next.Given), by)
	if len(next.Choices) > 0 {
		next.Chosen = append(slices.Clone(next.Chosen), choice)
	}
	return &next
}

// closed returns the questions with none open.
func (q *Questions) closed() *Questions {
	if q == nil || q.Ask == 0 && q.Given == nil {
		return q
	}
	return &Questions{Count: q.Count, Last: q.Last, Answered: q.Answered}
}

// answered records that an event answers a question. The oldest of too many is
// forgotten.
func (q *Questions) answered(ask, at protocol.Seq) *Questions {
	if q == nil {
		q = &Questions{}
	}
	next := *q
	next.Answered = slices.DeleteFunc(slices.Clone(q.Answered), func(a Answered) bool { return a.Ask == ask })
	next.Answered = append(next.Answered, Answered{ask, at})
	next.Answered = next.Answered[max(0, len(next.Answered)-AnsweredMost):]
	if ask == q.Ask {
		next.Voted = at
	}
	return &next
}

// Oldest returns the number of the question that will be forgotten when the open one
// is answered; zero if there is room.
func (q *Questions) Oldest() protocol.Seq {
	if q == nil || q.Voted > 0 || len(q.Answered) < AnsweredMost {
		return 0
	}
	return q.Answered[0].Ask
}

// encode writes the questions of a task for a snapshot.
func (q *Questions) encode(w *writer) {
	w.flag(q != nil)
	if q == nil {
		return
	}
	w.int(int(q.Count))
	w.uvarint(uint64(q.Last))
	w.uvarint(uint64(q.Ask))
	w.text(q.Text)
	w.uvarint(uint64(q.Voted))
	w.varint(int64(q.Reminded))
	writeList(w, q.Choices)
	writeList(w, q.Chosen)
	w.uvarint(uint64(len(q.Answered)))
	for _, a := range q.Answered {
		w.uvarint(uint64(a.Ask))
		w.uvarint(uint64(a.At))
	}
}

func decodeQuestions(r *reader) *Questions {
	if r.uvarint() != 1 {
		return nil
	}
	q := &Questions{Count: int32(r.varint()), Last: protocol.Seq(r.uvarint()), Ask: protocol.Seq(r.uvarint()), Text: r.text(), Voted: protocol.Seq(r.uvarint()), Reminded: Moment(r.varint())} //nolint:gosec // refused where it is not the same
	q.Choices, q.Chosen = readList[string](r), readList[string](r)
	for n := r.uvarint(); n > 0 && !r.short; n-- {
		q.Answered = append(q.Answered, Answered{protocol.Seq(r.uvarint()), protocol.Seq(r.uvarint())})
	}
	return q
}

// OpenQuestion is what task.json says about the open question of a task.
type OpenQuestion struct {
	Ask       protocol.Seq       `json:"ask"`
	Question  string             `json:"question"`
	Choices   []string           `json:"choices,omitzero"` // the answers that it offers
	Approvers []protocol.Address `json:"approvers"`        // who may answer
	Needed    int                `json:"needed"`           // so many must approve
	Given     []protocol.AgentID `json:"given"`            // who has
	Chosen    []string           `json:"chosen,omitzero"`  // what each of them chose, in that order
}

// openQuestion returns the open question for the view; nil if there is none.
func (t *Task) openQuestion() *OpenQuestion {
	ask, text := t.Open()
	if ask == 0 {
		return nil
	}
	needed := max(1, int(t.Terms().Needed))
	if t.State == Blocked {
		needed = 1
	}
	q := t.Questions
	return &OpenQuestion{
		Ask: ask, Question: text, Choices: q.Choices, Approvers: t.answerers(), Needed: needed,
		Given: append([]protocol.AgentID{}, q.Given...), Chosen: q.Chosen,
	}
}

// ApproverRole is the role or capability of those who may approve if a task needs
// several approvals and names nobody.
const ApproverRole = "approver"

// answerers returns the addresses of those who may answer a task's question.
func (t *Task) answerers() []protocol.Address {
	switch terms := t.Terms(); {
	case t.State == Blocked:
		list := []protocol.Address{protocol.Address(t.Creator), protocol.Address(protocol.Lead), protocol.Address(protocol.Human)}
		if t.Creator == protocol.Human || t.Creator == protocol.Hive {
			list = list[1:]
		}
		return list
	case len(terms.Approvers) > 0:
		return terms.Approvers
	case terms.Needed > 1:
		return []protocol.Address{protocol.Address(protocol.Human), protocol.Address(protocol.Lead), "@" + ApproverRole}
	}
	return []protocol.Address{protocol.Address(protocol.Human)}
}
