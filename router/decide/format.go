package decide

import (
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

// formatFor returns the lowest format of a log in which a file of an outbox can be
// decided. A decision is folded at once and its numbers are given with it, so that the
// log must be of that format before (spec §5.4). It may name a later format than the
// decision turns out to need, as for a command that is refused, and never an earlier
// one.
func (d *Decider) formatFor(a protocol.Arrival) int {
	m := a.Message
	if m == nil || m.Event == "" || d.state.Format == protocol.LogFormat {
		return protocol.BasicFormat
	}
	if m.Event == commandSlots || m.Event == commandAlert || m.Event == eventOutcome {
		return protocol.LogFormat
	}
	if m.Event == string(task.Create) && d.generationFor(a.Agent) > 0 {
		return protocol.LogFormat
	}
	if len(m.Data) == 0 {
		return protocol.BasicFormat
	}
	var has map[string]jsontext.Value
	if json.Unmarshal(m.Data, &has) != nil {
		return protocol.BasicFormat // it is refused
	}
	for name := range has {
		if slices.Contains(laterMembers, name) || m.Event == string(task.ApprovalGranted) && name == "result" {
			return protocol.LogFormat
		}
	}
	return protocol.BasicFormat
}

// stepsSince is the format from which on a log has steps, and the origins of tasks.
const stepsSince = 3

// laterMembers are the members of the data of commands that lead to events which
// [protocol.BasicFormat] does not have.
var laterMembers = []string{memberStep, memberChoices, memberChoice}
