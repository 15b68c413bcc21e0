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

// howToLeave returns how the holder of a task that nobody asked to cancel gives it up.
func howToLeave(by protocol.AgentID, t *task.Task) string {
	const why = `{"reason": "…"}`
	id := string(t.ID)
	release := "to give it back to others, " + howTo(by, "hived task release "+id+` --reason "…"`, taskMessage(task.Release, t.ID, t.Epoch, why))
	giveUp := "to give it up for good, " + howTo(by, "hived task give-up "+id+` --reason "…"`, taskMessage(task.FatalError, t.ID, t.Epoch, why))
	switch t.State {
	case task.Paused:
		return "wait for the answer to its question, or for somebody to cancel it"
	case task.Blocked:
		return giveUp
	case task.Retrying:
		return release + "; " + giveUp
	}
	return release + "; if it cannot be done, " + howTo(by, "hived task fail "+id+` --category unknown --reason "…"`, taskMessage(eventFailure, t.ID, t.Epoch, `{"category": "unknown", "reason": "…"}`))
}

// commandNames are the commands for the events that the command line names otherwise.
var commandNames = map[string]string{
	string(task.PauseForApproval):   "task ask",
	string(task.BlockOnDependency):  "task block",
	string(task.TransientError):     "task fail",
	eventFailure:                    "task fail",
	string(task.Recovered):          "task progress",
	string(task.FatalError):         "task give-up",
	string(task.ApprovalGranted):    "approve",
	string(task.ApprovalDenied):     "deny",
	string(task.DependencyResolved): "task answer",
	commandContinue:                 "continue",
	commandGitPause:                 "git pause",
	commandGitResume:                "git resume",
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
	return howTo(r.by, r.commandLine(id)+strings.TrimRight(" "+args, " "), taskMessage(task.Event(r.event), id, epoch, data))
}

// commandLine returns a person's command for a report.
func (r *report) commandLine(id protocol.TaskID) string {
	return "hived " + cmp.Or(commandNames[r.event], "task "+r.event) + " " + string(id)
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
	return howTo(r.by, r.commandLine(r.t.ID)+" --epoch "+digits(epoch), taskMessage(task.Event(r.event), r.t.ID, epoch, protocol.Visible(string(data)))) + rest
}

// howToClaim returns how somebody takes a task.
func howToClaim(by protocol.AgentID, id protocol.TaskID) string {
	return howTo(by, "hived task claim "+string(id), taskMessage(task.Claim, id, 0, ""))
}

// howToGetAnother returns how somebody claims the best task for them.
func howToGetAnother(by protocol.AgentID) string {
	return "to get another, " + howTo(by, "hived task claim", taskMessage(task.Claim, "", 0, ""))
}

// howToCreate returns an example of how somebody creates a task.
func howToCreate(by protocol.AgentID, args, more string) string {
	return howTo(by, strings.TrimRight(`hived task create "tidy the docs" `+args, " "), taskMessage("create", "", 0, `{"title": "tidy the docs"`+more+`}`))
}

// howToResume returns how somebody goes on from a task that has ended.
func howToResume(by protocol.AgentID, id protocol.TaskID) string {
	return howTo(by, "hived task resume "+string(id), taskMessage(eventResume, id, 0, ""))
}

// howToResumeFamily returns how somebody goes on from a task and all that failed with
// it.
func howToResumeFamily(by protocol.AgentID, id protocol.TaskID) string {
	return howTo(by, "hived task resume --family "+string(id), taskMessage(eventResume, id, 0, `{"family": true}`))
}

// howToSeeTasks returns where somebody sees which tasks there are.
func howToSeeTasks(by protocol.AgentID) string {
	if by == protocol.Human {
		return "to see those that there are, run `hived task list`"
	}
	return "the directories in tasks/ are those that there are"
}

// howToSeeTask returns where somebody sees the state of a task.
func howToSeeTask(by protocol.AgentID, id protocol.TaskID) string {
	if by == protocol.Human {
		return "to see how it stands, run `hived task show " + string(id) + "`"
	}
	return protocol.TaskDir(id) + "/" + protocol.TaskView + " says how it stands"
}

// endedText returns how somebody goes on from a task that has ended, or whom to ask.
func (d *Decider) endedText(by protocol.AgentID, t *task.Task) string {
	if d.mayResume(&report{by: by, t: t}, t) != nil {
		return "it has ended; to have a new one go on from it, ask " + string(cmp.Or(t.Creator, protocol.Human))
	}
	return "it has ended; to go on from its checkpoint with a new one, " + howToResume(by, t.ID)
}

// onlyManagersText returns who may decide about a task.
func onlyManagersText(t *task.Task) string {
	if t.Creator == protocol.Human || t.Creator == "" {
		return "only human and the lead may; ask human"
	}
	return "only " + string(t.Creator) + ", who created it, human and the lead may; ask " + string(t.Creator)
}

// onlyCreatorText returns who may amend a task.
func onlyCreatorText(t *task.Task) string {
	if t.Creator == protocol.Human {
		return "only human, who created it, may; ask human"
	}
	return "only " + string(t.Creator) + ", who created it, and human may; ask " + string(t.Creator)
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
	switch verb := strings.Replace(event, "-", " ", 1); {
	case event == commandContinue:
		return howTo(by, "hived continue CONVERSATION", hiveMessage(event, `{"conversation": "CONVERSATION"}`))
	case event == commandGitPause, event == commandGitResume:
		return howTo(by, "hived "+verb, hiveMessage(event, ""))
	case inboxActions[event] == protocol.InboxUndeleted:
		return howTo(by, "hived inbox --agent ID --undelete 24h", hiveMessage(event, `{"agent": "ID", "messages": [42]}`))
	case inboxActions[event] != "":
		return howTo(by, "hived inbox --agent ID --"+strings.TrimPrefix(event, "inbox-"), hiveMessage(event, `{"agent": "ID"}`))
	default:
		return howTo(by, "hived "+verb+" ID", hiveMessage(event, `{"agent": "ID"}`))
	}
}

// howToSetLead returns how a lead is set.
func (d *Decider) howToSetLead(by protocol.AgentID) string {
	return d.howToManage(by, "set one", "hived agent lead ID", "agent-lead", `{"agent": "ID"}`)
}

// remedy returns what somebody can do about an alert; empty if no command settles it.
func (d *Decider) remedy(by protocol.AgentID, code protocol.Code, about protocol.AgentID) string {
	if code != protocol.CodeMassDeletion {
		return ""
	}
	inbox := "hived inbox --agent " + string(about)
	return "; if it deleted them, " + howTo(by, inbox+" --believe", hiveMessage("inbox-believe", agentData(about))) +
		"; if not, " + howTo(by, inbox+" --put-back", hiveMessage("inbox-put-back", agentData(about)))
}
