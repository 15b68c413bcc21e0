package agent

import (
	"fmt"
	"slices"

	"github.com/go-json-experiment/json"

	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

// over says why an offer of a task, or a question about one, asks nothing of its
// reader any more; nothing where it does, where it cannot be known, and for every
// other message. The notice stays where it is: only its agent moves it.
//
// task.json is written behind the log, so it may be missing, or show the task as
// it was before the notice. A view counts only if its last step came after it: by
// its number, and by its time, as a log that is begun anew counts from 1.
func (b *Box) over(l Delivery) string {
	m := l.Message
	if m == nil || m.From != string(protocol.Hive) || l.Seq == 0 {
		return ""
	}
	var data struct {
		Code protocol.Code   `json:"code"`
		Task protocol.TaskID `json:"task"`
		Ask  protocol.Seq    `json:"ask"`
	}
	if json.Unmarshal(m.Data, &data) != nil || data.Code != protocol.CodeTaskOffer && data.Ask == 0 {
		return ""
	}
	id, err := protocol.ParseTaskID(string(data.Task))
	if err != nil {
		return ""
	}
	v, err := readView(b.disk, id)
	if err != nil || len(v.History) == 0 {
		return ""
	}
	if last := v.History[len(v.History)-1]; last.Seq <= l.Seq || last.At.Before(l.Received) {
		return ""
	}
	switch data.Code { //nolint:exhaustive // the others ask for nothing that somebody else can settle
	case protocol.CodeTaskOffer:
		return overOffer(v, b.id, l.Seq)
	case protocol.CodeApprovalAsked, protocol.CodeReminder, protocol.CodeSpecify:
		return overQuestion(v, b.id, data.Ask)
	}
	return ""
}

// overOffer judges the offer of a notice. Who has taken the task is still at it:
// the offer may be all that leads back to the task after a restart.
func overOffer(v *task.View, reader protocol.AgentID, notice protocol.Seq) string {
	rejected := func(s task.Step) bool { return s.Seq > notice && s.Event == task.Reject && s.By == reader }
	switch {
	case slices.Contains(v.Offered, reader), v.Holder == reader && !task.Ended(v.State):
		return ""
	case task.Ended(v.State):
		return ended(v)
	case v.Holder != "":
		return fmt.Sprintf("%s has task %s", v.Holder, v.ID)
	case slices.ContainsFunc(v.History, rejected):
		return fmt.Sprintf("you rejected task %s", v.ID)
	}
	return fmt.Sprintf("task %s is no longer offered to you", v.ID)
}

func overQuestion(v *task.View, reader protocol.AgentID, ask protocol.Seq) string {
	answers := protocol.TaskAnswer(v.ID, ask)
	switch {
	case v.Question != nil && v.Question.Ask == ask && slices.Contains(v.Question.Given, reader):
		return fmt.Sprintf("you have answered question %d of task %s", ask, v.ID)
	case v.Question != nil && v.Question.Ask == ask:
		return ""
	case v.State == task.Cancelled:
		return ended(v)
	case slices.Contains(v.Answers, answers):
		return fmt.Sprintf("question %d of task %s was answered, see %s", ask, v.ID, answers)
	case task.Ended(v.State):
		return ended(v)
	}
	return fmt.Sprintf("task %s does not wait for an answer to question %d any more", v.ID, ask)
}

func ended(v *task.View) string {
	if v.State == task.Failed {
		return fmt.Sprintf("task %s has failed", v.ID)
	}
	return fmt.Sprintf("task %s is %s", v.ID, v.State)
}
