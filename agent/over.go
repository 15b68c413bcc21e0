package agent

import (
	"fmt"
	"slices"

	"github.com/go-json-experiment/json"

	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

// whyOver returns why an offer of a task, or a question about one, no longer asks
// anything of its reader; nothing where it still does, where that is not known, and
// for every other message. The notice stays where it is: only its agent moves it.
//
// task.json is written after the log, so it may be missing, or show the task as it
// was before the notice. A view counts only if its last step came after the notice,
// by number and by time, because a log that is begun anew counts from 1.
func (b *Box) whyOver(l Delivery) string {
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
		return whyOfferOver(v, b.id, l.Seq)
	case protocol.CodeApprovalAsked, protocol.CodeReminder, protocol.CodeSpecify:
		return whyQuestionOver(v, b.id, data.Ask)
	}
	return ""
}

// whyOfferOver returns why an offer is over. It is not while its reader has the
// task: after a restart the offer may be all that leads back to the task.
func whyOfferOver(v *task.View, reader protocol.AgentID, notice protocol.Seq) string {
	rejected := func(s task.Step) bool { return s.Seq > notice && s.Event == task.Reject && s.By == reader }
	switch {
	case slices.Contains(v.Offered, reader), v.Holder == reader && !task.Ended(v.State):
		return ""
	case task.Ended(v.State):
		return endedText(v)
	case v.Holder != "":
		return fmt.Sprintf("%s has task %s", v.Holder, v.ID)
	case slices.ContainsFunc(v.History, rejected):
		return fmt.Sprintf("you rejected task %s", v.ID)
	}
	return fmt.Sprintf("task %s is no longer offered to you", v.ID)
}

func whyQuestionOver(v *task.View, reader protocol.AgentID, ask protocol.Seq) string {
	answers := protocol.TaskAnswer(v.ID, ask)
	switch {
	case v.Question != nil && v.Question.Ask == ask && slices.Contains(v.Question.Given, reader):
		return fmt.Sprintf("you have answered question %d of task %s", ask, v.ID)
	case v.Question != nil && v.Question.Ask == ask:
		return ""
	case v.State == task.Cancelled:
		return endedText(v)
	case slices.Contains(v.Answers, answers):
		return fmt.Sprintf("question %d of task %s was answered, see %s", ask, v.ID, answers)
	case task.Ended(v.State):
		return endedText(v)
	}
	return fmt.Sprintf("task %s does not wait for an answer to question %d any more", v.ID, ask)
}

func endedText(v *task.View) string {
	if v.State == task.Failed {
		return fmt.Sprintf("task %s has failed", v.ID)
	}
	return fmt.Sprintf("task %s is %s", v.ID, v.State)
}
