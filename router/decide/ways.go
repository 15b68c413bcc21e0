package decide

import (
	"cmp"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

// howTo returns how somebody does something, in words that can be used as they are: for
// a person the command to run, for an agent the message to send (spec §8.6).
func howTo(to protocol.AgentID, command, message string) string {
	if to == protocol.Human {
		return "run `" + command + "`"
	}
	return "send `" + message + "`"
}

// taskMessage returns the message with which an agent sends an event of a task. An
// empty id, a zero epoch and empty data are left out.
func taskMessage(event task.Event, id protocol.TaskID, epoch uint64, data string) string {
	m := `{"to": "hive", "event": "` + string(event) + `"`
	if id != "" {
		m += `, "task": "` + string(id) + `"`
	}
	if epoch > 0 {
		m += `, "epoch": ` + digits(epoch)
	}
	if data != "" {
		m += `, "data": ` + data
	}
	return m + "}"
}

// howToTask returns how somebody sends an event of a task: args are for a person's
// command, epoch and data for an agent's message.
func howToTask(to protocol.AgentID, event task.Event, id protocol.TaskID, epoch uint64, args, data string) string {
	return howTo(to, taskLine(event, id, args), taskMessage(event, id, epoch, data))
}

// howToLeave returns how the holder of a task that nobody asked to cancel gives it up.
func howToLeave(by protocol.AgentID, t *task.Task) string {
	const args, why = `--reason "…"`, `{"reason": "…"}`
	release := "to give it back to others, " + howToTask(by, task.Release, t.ID, t.Epoch, args, why)
	giveUp := "to give it up for good, " + howToTask(by, task.FatalError, t.ID, t.Epoch, args, why)
	switch t.State {
	case task.Paused:
		return "wait for the answer to its question, or for somebody to cancel it"
	case task.Blocked:
		return giveUp
	case task.Retrying:
		return release + "; " + giveUp
	}
	return release + "; if it cannot be done, " + howToTask(by, eventFailure, t.ID, t.Epoch, `--category unknown --reason "…"`, `{"category": "unknown", "reason": "…"}`)
}

// howToSend returns how a report is sent with other data: args are for a person's
// command, data for an agent's message.
func (r *report) howToSend(args, data string) string {
	id := protocol.TaskID("ID")
	epoch := uint64(0)
	if r.t != nil {
		id = r.t.ID
		if r.needsEpoch && r.by == r.t.Holder {
			epoch = r.t.Epoch
		}
	}
	return howToTask(r.by, task.Event(r.event), id, epoch, args, data)
}

// AgainMost is how long data may be that is repeated in an answer for its sender to
// send again, in bytes.
const AgainMost = 300

// howToResend returns how a report is sent again unchanged under another epoch.
func (r *report) howToResend(epoch uint64) string {
	data, rest := r.m.Data.Clone(), ""
	if len(data) > AgainMost || len(data) > 0 && data.Compact() != nil {
		data, rest = nil, ", with its data"
	}
	return howToTask(r.by, task.Event(r.event), r.t.ID, epoch, "--epoch "+digits(epoch), protocol.Visible(string(data))) + rest
}

// howToClaim returns how somebody takes a task.
func howToClaim(by protocol.AgentID, id protocol.TaskID) string {
	return howToTask(by, task.Claim, id, 0, "", "")
}

// howToGetAnother returns how somebody claims the best task for them.
func howToGetAnother(by protocol.AgentID) string {
	return "to get another, " + howToTask(by, task.Claim, "", 0, "", "")
}

// howToCreate returns an example of how somebody creates a task.
func howToCreate(by protocol.AgentID, args, more string) string {
	return howToTask(by, task.Create, "", 0, `"tidy the docs" `+args, `{"title": "tidy the docs"`+more+`}`)
}

// howToResume returns how somebody goes on from a task that has ended.
func howToResume(by protocol.AgentID, id protocol.TaskID) string {
	return howToTask(by, eventResume, id, 0, "", "")
}

// howToResumeFamily returns how somebody goes on from a task and all that failed with
// it.
func howToResumeFamily(by protocol.AgentID, id protocol.TaskID) string {
	return howTo(by, taskLine(eventResume, "", "--family "+string(id)), taskMessage(eventResume, id, 0, `{"family": true}`))
}

// howToSeeTasks returns where somebody sees which tasks there are.
func howToSeeTasks(by protocol.AgentID) string {
	if by == protocol.Human {
		return "to see those that there are, run `" + lineTasks + "`"
	}
	return "the directories in tasks/ are those that there are"
}

// howToSeeTask returns where somebody sees the state of a task.
func howToSeeTask(by protocol.AgentID, id protocol.TaskID) string {
	if by == protocol.Human {
		return "to see how it stands, run `" + lineShow(id) + "`"
	}
	return protocol.TaskDir(id) + "/" + protocol.TaskView + " says how it stands"
}

// endedText returns how somebody goes on from a task that has ended, or whom to ask.
func (d *Decider) endedText(by protocol.AgentID, t *task.Task) string {
	if d.mayResume(&report{by: by, t: t}, t) != nil {
		return "it has ended; to have a new one go on from it, ask " + string(cmp.Or(d.creatorOf(t), protocol.Human))
	}
	if d.state.Tasks.Unwinding(t) != nil || d.state.Tasks.ToUnwind(t) {
		return "it has ended, and what its steps did is undone; to go on from its checkpoint with a new one when that is done, " + howToResume(by, t.ID)
	}
	return "it has ended; to go on from its checkpoint with a new one, " + howToResume(by, t.ID)
}

// onlyManagersText returns who may decide about a task.
func (d *Decider) onlyManagersText(t *task.Task) string {
	creator := d.creatorOf(t)
	if creator == protocol.Human || creator == "" {
		return "only human and the lead may; ask human"
	}
	return "only " + string(creator) + ", who created it, human and the lead may; ask " + string(creator)
}

// onlyCreatorText returns who may amend a task, or have what it did undone.
func (d *Decider) onlyCreatorText(t *task.Task) string {
	creator := d.creatorOf(t)
	if creator == protocol.Human {
		return "only human, who created it, may; ask human"
	}
	return "only " + string(creator) + ", who created it, and human may; ask " + string(creator)
}

// endSentence returns a sentence with a full stop, if it has no end yet.
func endSentence(sentence string) string { return sentence + fullStop(sentence) }

// joinRoles returns roles joined by "or".
func joinRoles(roles []task.Role) string {
	list := make([]string, len(roles))
	for i, role := range roles {
		list[i] = string(role)
	}
	return strings.Join(list, " or ")
}

// nextStepsOf returns nextSteps for an unknown command, if its task is known.
func (d *Decider) nextStepsOf(r *report) string {
	t := d.state.Tasks.Get(protocol.TaskID(r.m.Task))
	if t == nil {
		return ""
	}
	return " " + d.nextSteps(r.by, t)
}

// howToManage returns how somebody gets the roster or the hive changed: a person by a
// command, the lead by a message to hive, anybody else by asking human.
func (d *Decider) howToManage(by protocol.AgentID, what, command, event, data string) string {
	if by != protocol.Human && by != d.state.Lead {
		return "ask human to " + what
	}
	return "to " + what + ", " + howTo(by, command, hiveMessage(event, data))
}

// hiveMessage returns the message with which the lead manages the hive.
func hiveMessage(event, data string) string {
	m := `{"to": "hive", "event": "` + event + `"`
	if data != "" {
		m += `, "data": ` + data
	}
	return m + "}"
}

// agentData returns the data of a command about an agent.
func agentData(id protocol.AgentID) string { return objectOf("agent", string(id)) }

// objectOf returns a JSON object with one string member.
func objectOf(name, text string) string {
	v, err := json.Marshal(map[string]string{name: text}, jsontext.SpaceAfterColon(true))
	if err != nil {
		panic(err) // texts always encode
	}
	return string(v)
}

// howToCommand returns an example of a command about the hive.
func howToCommand(by protocol.AgentID, event string) string {
	switch {
	case event == commandContinue:
		return howTo(by, lineContinue("CONVERSATION"), hiveMessage(event, `{"conversation": "CONVERSATION"}`))
	case event == commandSlots:
		return howTo(by, hiveLine(event, "1"), hiveMessage(event, `{"slots": 1}`))
	case event == commandAlert:
		return howTo(by, hiveLine(event, `disk-full "no room on /data since noon"`), hiveMessage(event, `{"cause": "disk-full", "text": "no room on /data since noon"}`))
	case event == commandGitPause, event == commandGitResume:
		return howTo(by, hiveLine(event, ""), hiveMessage(event, ""))
	case inboxActions[event] == protocol.InboxUndeleted:
		return howTo(by, lineInbox("ID")+" --undelete 24h", hiveMessage(event, `{"agent": "ID", "messages": [42]}`))
	case inboxActions[event] != "":
		return howTo(by, lineInbox("ID")+" --"+strings.TrimPrefix(event, "inbox-"), hiveMessage(event, `{"agent": "ID"}`))
	default:
		return howTo(by, hiveLine(event, "ID"), hiveMessage(event, `{"agent": "ID"}`))
	}
}

// howToSetLead returns how a lead is set.
func (d *Decider) howToSetLead(by protocol.AgentID) string {
	return d.howToManage(by, "set one", hiveLine("agent-lead", "ID"), "agent-lead", `{"agent": "ID"}`)
}

// remedy returns what somebody can do about an alert; empty if no command settles it.
func (d *Decider) remedy(by protocol.AgentID, code protocol.Code, about protocol.AgentID) string {
	if code != protocol.CodeMassDeletion {
		return ""
	}
	inbox := lineInbox(about)
	return "; if it deleted them, " + howTo(by, inbox+" --believe", hiveMessage("inbox-believe", agentData(about))) +
		"; if not, " + howTo(by, inbox+" --put-back", hiveMessage("inbox-put-back", agentData(about)))
}
