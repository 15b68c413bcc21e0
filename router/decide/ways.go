package decide

import (
	"cmp"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

// way says how somebody does something, in words that he can use as they are: to
// a person a command, to an agent the message to send (spec §8.6).
func way(to protocol.AgentID, command, message string) string {
	if to == protocol.Human {
		return "run `" + command + "`"
	}
	return "send `" + message + "`"
}

// toSend is the message by which an agent reports what happened to a task; an
// id that is empty, an epoch of zero and data that is empty are left out.
func toSend(event task.Event, id protocol.TaskID, epoch uint64, data string) string {
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

// leaving says how the holder of a task that is not to be cancelled lets go of it.
func leaving(by protocol.AgentID, t *task.Task) string {
	const why = `{"reason": "…"}`
	id := string(t.ID)
	release := "to give it back to others, " + way(by, "hived task release "+id+` --reason "…"`, toSend(task.Release, t.ID, t.Epoch, why))
	giveUp := "to give it up for good, " + way(by, "hived task give-up "+id+` --reason "…"`, toSend(task.FatalError, t.ID, t.Epoch, why))
	switch t.State {
	case task.Paused:
		return "wait for the answer to its question, or for somebody to cancel it"
	case task.Blocked:
		return giveUp
	case task.Retrying:
		return release + "; " + giveUp
	}
	return release + "; if it cannot be done, " + way(by, "hived task fail "+id+` --category unknown --reason "…"`, toSend(eventFailure, t.ID, t.Epoch, `{"category": "unknown", "reason": "…"}`))
}

// verbs are the commands by which people send the events that are called
// otherwise.
var verbs = map[string]string{
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

// send shows how a report is made with other data: args for the command of a
// person, data for the message of an agent.
func (r *report) send(args, data string) string {
	id := protocol.TaskID("ID")
	epoch := uint64(0)
	if r.t != nil {
		id = r.t.ID
		if r.needsEpoch && r.by == r.t.Holder {
			epoch = r.t.Epoch
		}
	}
	return way(r.by, r.typed(id)+strings.TrimRight(" "+args, " "), toSend(task.Event(r.event), id, epoch, data))
}

// typed is the command of a person for a report.
func (r *report) typed(id protocol.TaskID) string {
	return "hived " + cmp.Or(verbs[r.event], "task "+r.event) + " " + string(id)
}

// AgainMost is the longest data of a report that is shown when it is to be sent
// again, in bytes.
const AgainMost = 300

// again shows how a report is sent as it was, but under another epoch.
func (r *report) again(epoch uint64) string {
	data, rest := r.m.Data.Clone(), ""
	if len(data) > AgainMost || len(data) > 0 && data.Compact() != nil {
		data, rest = nil, ", with its data"
	}
	return way(r.by, r.typed(r.t.ID)+" --epoch "+digits(epoch), toSend(task.Event(r.event), r.t.ID, epoch, protocol.Visible(string(data)))) + rest
}

// claiming says how somebody takes a task.
func claiming(by protocol.AgentID, id protocol.TaskID) string {
	return way(by, "hived task claim "+string(id), toSend(task.Claim, id, 0, ""))
}

// another says how somebody gets a task, whichever is best for him.
func another(by protocol.AgentID) string {
	return "to get another, " + way(by, "hived task claim", toSend(task.Claim, "", 0, ""))
}

// creating says how somebody creates a task, with an example.
func creating(by protocol.AgentID, args, more string) string {
	return way(by, strings.TrimRight(`hived task create "tidy the docs" `+args, " "), toSend("create", "", 0, `{"title": "tidy the docs"`+more+`}`))
}

// resuming says how somebody goes on from a task that has ended.
func resuming(by protocol.AgentID, id protocol.TaskID) string {
	return way(by, "hived task resume "+string(id), toSend(eventResume, id, 0, ""))
}

// resumingFamily says how somebody goes on from a task and from all that failed
// with it.
func resumingFamily(by protocol.AgentID, id protocol.TaskID) string {
	return way(by, "hived task resume --family "+string(id), toSend(eventResume, id, 0, `{"family": true}`))
}

// seeTasks says where somebody sees which tasks there are.
func seeTasks(by protocol.AgentID) string {
	if by == protocol.Human {
		return "to see those that there are, run `hived task list`"
	}
	return "the directories in tasks/ are those that there are"
}

// seeTask says where somebody sees how a task stands.
func seeTask(by protocol.AgentID, id protocol.TaskID) string {
	if by == protocol.Human {
		return "to see how it stands, run `hived task show " + string(id) + "`"
	}
	return protocol.TaskDir(id) + "/" + protocol.TaskView + " says how it stands"
}

// resumable says how somebody goes on with a task that has ended, or who can.
func (d *Decider) resumable(by protocol.AgentID, t *task.Task) string {
	if d.mayResume(&report{by: by, t: t}, t) != nil {
		return "it has ended; to have a new one go on from it, ask " + string(cmp.Or(t.Creator, protocol.Human))
	}
	return "it has ended; to go on from its checkpoint with a new one, " + resuming(by, t.ID)
}

// onlyManagers says who may decide about a task.
func onlyManagers(t *task.Task) string {
	if t.Creator == protocol.Human || t.Creator == "" {
		return "only human and the lead may; ask human"
	}
	return "only " + string(t.Creator) + ", who created it, human and the lead may; ask " + string(t.Creator)
}

// onlyCreator says who may change a task.
func onlyCreator(t *task.Task) string {
	if t.Creator == protocol.Human {
		return "only human, who created it, may; ask human"
	}
	return "only " + string(t.Creator) + ", who created it, and human may; ask " + string(t.Creator)
}

// ended closes a sentence.
func ended(sentence string) string { return sentence + closing(sentence) }

// either lists roles.
func either(roles []task.Role) string {
	list := make([]string, len(roles))
	for i, role := range roles {
		list[i] = string(role)
	}
	return strings.Join(list, " or ")
}

// waysOf is ways for a report that makes no sense, where its task is known.
func (d *Decider) waysOf(r *report) string {
	t := d.state.Tasks.Get(protocol.TaskID(r.m.Task))
	if t == nil {
		return ""
	}
	return " " + d.ways(r.by, t)
}

// managing says how somebody has the roster or the hive managed: a person by a
// command, the lead by a message to hive, and any other by a word to human.
func (d *Decider) managing(by protocol.AgentID, what, command, event, data string) string {
	if by != protocol.Human && by != d.state.Lead {
		return "ask human to " + what
	}
	return "to " + what + ", " + way(by, command, ordered(event, data))
}

// ordered is the message by which the lead has the hive managed.
func ordered(event, data string) string {
	m := `{"to": "hive", "event": "` + event + `"`
	if data != "" {
		m += `, "data": ` + data
	}
	return m + "}"
}

// onAgent is the data of a command about an agent.
func onAgent(id protocol.AgentID) string { return object("agent", string(id)) }

// object is an object with one text.
func object(name, text string) string {
	v, err := json.Marshal(map[string]string{name: text}, jsontext.SpaceAfterColon(true))
	if err != nil {
		panic(err) // texts always encode
	}
	return string(v)
}

// orders shows how a command about the hive is given.
func orders(by protocol.AgentID, event string) string {
	switch verb := strings.Replace(event, "-", " ", 1); {
	case event == commandContinue:
		return way(by, "hived continue CONVERSATION", ordered(event, `{"conversation": "CONVERSATION"}`))
	case event == commandGitPause, event == commandGitResume:
		return way(by, "hived "+verb, ordered(event, ""))
	case inboxActions[event] == protocol.InboxUndeleted:
		return way(by, "hived inbox --agent ID --undelete 24h", ordered(event, `{"agent": "ID", "messages": [42]}`))
	case inboxActions[event] != "":
		return way(by, "hived inbox --agent ID --"+strings.TrimPrefix(event, "inbox-"), ordered(event, `{"agent": "ID"}`))
	default:
		return way(by, "hived "+verb+" ID", ordered(event, `{"agent": "ID"}`))
	}
}

// setLead says how a lead is set.
func (d *Decider) setLead(by protocol.AgentID) string {
	return d.managing(by, "set one", "hived agent lead ID", "agent-lead", `{"agent": "ID"}`)
}

// remedy says what somebody can do about an alert; nothing where it is not settled
// by a command.
func (d *Decider) remedy(by protocol.AgentID, code protocol.Code, about protocol.AgentID) string {
	if code != protocol.CodeMassDeletion {
		return ""
	}
	inbox := "hived inbox --agent " + string(about)
	return "; if it deleted them, " + way(by, inbox+" --believe", ordered("inbox-believe", onAgent(about))) +
		"; if not, " + way(by, inbox+" --put-back", ordered("inbox-put-back", onAgent(about)))
}
