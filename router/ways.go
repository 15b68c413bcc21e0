package router

import (
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
// epoch of zero and data that is empty are left out.
func toSend(event task.Event, id protocol.TaskID, epoch uint64, data string) string {
	m := `{"to": "hive", "event": "` + string(event) + `", "task": "` + string(id) + `"`
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
