package decide

import (
	"cmp"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

// howTo says how somebody does something, in words that he can use as they are: to
// a person a command, to an agent the message to send (spec §8.6).
func howTo(to protocol.AgentID, command, message string) string {
	if to == protocol.Human {
		return "run `" + command + "`"
	}
	return "send `" + message + "`"
}

// taskMessage is the message by which an agent reports what happened to a task; an
// id that is empty, an epoch of zero and data that is empty are left out.
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

// howToLeave says how the holder of a task that is not to be cancelled lets go of it.
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

// commandNames are the commands by which people send the events that are called
// otherwise.
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

// howToSend shows how a report is made with other data: args for the command of a
// person, data for the message of an agent.
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

// commandLine is the command of a person for a report.
func (r *report) commandLine(id protocol.TaskID) string {
	return "hived " + cmp.Or(commandNames[r.event], "task "+r.event) + " " + string(id)
}

// AgainMost is the longest data of a report that is shown when it is to be sent
// again, in bytes.
const AgainMost = 300

// howToResend shows how a report is sent as it was, but under another epoch.
func (r *report) howToResend(epoch uint64) string {
	data, rest := r.m.Data.Clone(), ""
	if len(data) > AgainMost || len(data) > 0 && data.Compact() != nil {
		data, rest = nil, ", with its data"
	}
	return howTo(r.by, r.commandLine(r.t.ID)+" --epoch "+digits(epoch), taskMessage(task.Event(r.event), r.t.ID, epoch, protocol.Visible(string(data)))) + rest
}

// howToClaim says how somebody takes a task.
func howToClaim(by protocol.AgentID, id protocol.TaskID) string {
	return howTo(by, "hived task claim "+string(id), taskMessage(task.Claim, id, 0, ""))
}

// howToGetAnother says how somebody gets a task, whichever is best for him.
func howToGetAnother(by protocol.AgentID) string {
	return "to get another, " + howTo(by, "hived task claim", taskMessage(task.Claim, "", 0, ""))
}

// howToCreate says how somebody creates a task, with an example.
func howToCreate(by protocol.AgentID, args, more string) string {
	return howTo(by, strings.TrimRight(`hived task create "tidy the docs" `+args, " "), taskMessage("create", "", 0, `{"title": "tidy the docs"`+more+`}`))
}

// howToResume says how somebody goes on from a task that has ended.
func howToResume(by protocol.AgentID, id protocol.TaskID) string {
	return howTo(by, "hived task resume "+string(id), taskMessage(eventResume, id, 0, ""))
}

// howToResumeFamily says how somebody goes on from a task and from all that failed
// with it.
func howToResumeFamily(by protocol.AgentID, id protocol.TaskID) string {
	return howTo(by, "hived task resume --family "+string(id), taskMessage(eventResume, id, 0, `{"family": true}`))
}

// howToSeeTasks says where somebody sees which tasks there are.
func howToSeeTasks(by protocol.AgentID) string {
	if by == protocol.Human {
		return "to see those that there are, run `hived task list`"
	}
	return "the directories in tasks/ are those that there are"
}

// howToSeeTask says where somebody sees how a task stands.
func howToSeeTask(by protocol.AgentID, id protocol.TaskID) string {
	if by == protocol.Human {
		return "to see how it stands, run `hived task show " + string(id) + "`"
	}
	return protocol.TaskDir(id) + "/" + protocol.TaskView + " says how it stands"
}

// endedText says how somebody goes on with a task that has ended, or who can.
func (d *Decider) endedText(by protocol.AgentID, t *task.Task) string {
	if d.mayResume(&report{by: by, t: t}, t) != nil {
		return "it has ended; to have a new one go on from it, ask " + string(cmp.Or(t.Creator, protocol.Human))
	}
	return "it has ended; to go on from its checkpoint with a new one, " + howToResume(by, t.ID)
}

// onlyManagersText says who may decide about a task.
func onlyManagersText(t *task.Task) string {
	if t.Creator == protocol.Human || t.Creator == "" {
		return "only human and the lead may; ask human"
	}
	return "only " + string(t.Creator) + ", who created it, human and the lead may; ask " + string(t.Creator)
}

// onlyCreatorText says who may change a task.
func onlyCreatorText(t *task.Task) string {
	if t.Creator == protocol.Human {
		return "only human, who created it, may; ask human"
	}
	return "only " + string(t.Creator) + ", who created it, and human may; ask " + string(t.Creator)
}

// endSentence closes a sentence.
func endSentence(sentence string) string { return sentence + fullStop(sentence) }

// joinRoles lists roles.
func joinRoles(roles []task.Role) string {
	list := make([]string, len(roles))
	for i, role := range roles {
		list[i] = string(role)
	}
	return strings.Join(list, " or ")
}

// nextStepsOf is ways for a report that makes no sense, where its task is known.
func (d *Decider) nextStepsOf(r *report) string {
	t := d.state.Tasks.Get(protocol.TaskID(r.m.Task))
	if t == nil {
		return ""
	}
	return " " + d.nextSteps(r.by, t)
}

// howToManage says how somebody has the roster or the hive managed: a person by a
// command, the lead by a message to hive, and any other by a word to human.
func (d *Decider) howToManage(by protocol.AgentID, what, command, event, data string) string {
	if by != protocol.Human && by != d.state.Lead {
		return "ask human to " + what
	}
	return "to " + what + ", " + howTo(by, command, hiveMessage(event, data))
}

// hiveMessage is the message by which the lead has the hive managed.
func hiveMessage(event, data string) string {
	m := `{"to": "hive", "event": "` + event + `"`
	if data != "" {
		m += `, "data": ` + data
	}
	return m + "}"
}

// agentData is the data of a command about an agent.
func agentData(id protocol.AgentID) string { return objectOf("agent", string(id)) }

// objectOf is an object with one text.
func objectOf(name, text string) string {
	v, err := json.Marshal(map[string]string{name: text}, jsontext.SpaceAfterColon(true))
	if err != nil {
		panic(err) // texts always encode
	}
	return string(v)
}

// howToCommand shows how a command about the hive is given.
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

// howToSetLead says how a lead is set.
func (d *Decider) howToSetLead(by protocol.AgentID) string {
	return d.howToManage(by, "set one", "hived agent lead ID", "agent-lead", `{"agent": "ID"}`)
}

// remedy says what somebody can do about an alert; nothing where it is not settled
// by a command.
func (d *Decider) remedy(by protocol.AgentID, code protocol.Code, about protocol.AgentID) string {
	if code != protocol.CodeMassDeletion {
		return ""
	}
	inbox := "hived inbox --agent " + string(about)
	return "; if it deleted them, " + howTo(by, inbox+" --believe", hiveMessage("inbox-believe", agentData(about))) +
		"; if not, " + howTo(by, inbox+" --put-back", hiveMessage("inbox-put-back", agentData(about)))
}
