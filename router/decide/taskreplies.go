package decide

import (
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

// withoutEvent handles a message to hive that names no event (spec §8). To agree or to
// refuse in reply to an offer is to accept or to reject it; any other message about a
// task does nothing, and its sender is told what would.
func (d *Decider) withoutEvent(now time.Time, of protocol.Seq, e *protocol.MessageEvent, m *protocol.Message) error {
	reply := d.noticeOf(e.From, m.InReplyTo)
	if reply.Code == protocol.CodeTaskOffer && (e.Act == protocol.Agree || e.Act == protocol.Refuse) {
		return d.taskCommand(now, of, e, answerToOffer(m, reply.Task))
	}
	about := protocol.TaskID(m.Task)
	if about == "" {
		about = reply.Task
	}
	if id, ok := strings.CutPrefix(string(m.Conversation), string(protocol.TaskConversation(""))); ok && about == "" && d.state.Tasks.Get(protocol.TaskID(id)) != nil {
		about = protocol.TaskID(id)
	}
	a := d.state.Agents[e.From]
	if about == "" || a == nil || reply.Code == protocol.CodeNoCommand || now.Sub(a.Hinted()).Abs() < NoticeEvery {
		return nil
	}
	x := &protocol.TaskRejectedEvent{Task: string(about), Event: string(e.Act), By: e.From, Of: of, Epoch: m.Epoch, Code: protocol.CodeNoCommand, Detail: "it names no event, so that nothing came of it"}
	t := d.state.Tasks.Get(about)
	n := notice{
		to: e.From, act: protocol.NotUnderstood, reply: e.ID, conversation: protocol.TaskConversation(about), code: protocol.CodeNoCommand,
		subject: "not a command: " + protocol.Fit(string(e.Act), 64), data: map[string]any{"of": of, "task": about},
	}
	if t != nil {
		x.State = t.State
		n.data["state"] = t.State
	}
	d.emit(now, x)
	n.body = "Your message about task " + string(about) + " was filed, and nothing came of it: it names no event. " + d.nextSteps(e.From, t) + " This is said once an hour."
	return d.notice(now, n)
}

// answerToOffer returns the command that a reply to an offer means.
func answerToOffer(m *protocol.Message, id protocol.TaskID) *protocol.Message {
	c := *m
	c.Task, c.Event, c.Data = string(id), string(task.Accept), nil
	if m.Act == protocol.Refuse {
		c.Event = string(task.Reject)
		var why string
		if m.Body.Kind() == '"' && json.Unmarshal(m.Body, &why) == nil && why != "" {
			data, err := json.Marshal(map[string]string{memberReason: why})
			if err == nil {
				c.Data = jsontext.Value(data)
			}
		}
	}
	return &c
}

// nextSteps returns what somebody can do with a task in its state, and how.
func (d *Decider) nextSteps(by protocol.AgentID, t *task.Task) string {
	if t == nil {
		return "There is no such task, or it ended long ago."
	}
	epoch := t.Epoch
	does := func(what string, event task.Event, epoch uint64, data string) string {
		return "To " + what + ", " + howToTask(by, event, t.ID, epoch, "", data) + "."
	}
	r := &report{by: by, t: t}
	ask, _ := t.Open()
	held := t.Holder == by && !t.Spent
	switch {
	case t.State == task.Offered && slices.Contains(t.Offered, by):
		return does("take it", task.Accept, 0, "") + " " + does("decline it", task.Reject, 0, "")
	case t.State == task.Paused && slices.Contains(d.votesMissing(t), by):
		return capitalized(howToApprove(by, t)) + "."
	case t.State == task.Blocked && ask > 0 && (d.manages(r) || by == d.creatorOf(t)):
		return "To answer, " + howToAnswer(by, t, task.Answer, ask) + "."
	case held && t.State == task.Pending:
		return does("start it", task.Start, epoch, "")
	case held && (t.State == task.InProgress || t.State == task.Stalled):
		return "To say what you reached, " + howTo(by, taskLine(task.Progress, "", `--milestone "…" `+string(t.ID)), taskMessage(task.Progress, t.ID, epoch, `{"milestone": "…", "checkpoint": "…"}`)) + ". " +
			does("complete it", task.Complete, epoch, `{"result": "…"}`) + " " + does("give it back", task.Release, epoch, "")
	case task.Ended(t.State) && t.State != task.Completed && (d.manages(r) || by == d.creatorOf(t)):
		return does("go on from its checkpoint with a new task", eventResume, 0, "")
	case (t.State == task.Unassigned || t.State == task.Offered) && d.hasRole(task.ByEligible, r):
		return does("take it", task.Claim, 0, "")
	}
	return "There is nothing for you to do with it now; " + howToSeeTask(by, t.ID) + "."
}
