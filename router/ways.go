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
