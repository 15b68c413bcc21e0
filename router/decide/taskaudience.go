package decide

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

// firstNonAgent returns the first address that takes messages but can neither have a
// task nor approve: `broadcast` or `hive`.
func firstNonAgent(list []protocol.Address) (name string, found bool) {
	i := slices.IndexFunc(list, func(to protocol.Address) bool {
		return slices.Contains([]protocol.AgentID{protocol.Broadcast, protocol.Hive}, protocol.AgentID(strings.ToLower(string(to))))
	})
	if i < 0 {
		return "", false
	}
	return string(list[i]), true
}

// checkAudience refuses the i-th of the tasks that a report creates or amends if it is
// for, or to be approved by, an address that is no agent. The refusal shows the whole
// command as it would be accepted.
func checkAudience(r *report, specs []protocol.TaskSpec, i int) error {
	s := specs[i]
	if name, found := firstNonAgent(s.To); found {
		s.To = nil
		return &refusal{protocol.CodeBadCommand, nonAgentText(r.by, "to", "--to", name) + "; without it any agent may have the task: " + howToRecreate(r.by, specs, i, s)}
	}
	name, found := firstNonAgent(s.Approvers)
	if !found {
		return nil
	}
	text := nonAgentText(r.by, "approvers", "--approver", name)
	if r.event == string(task.Amend) {
		return &refusal{protocol.CodeBadCommand, text + "; to have human approve, " + howToReamend(r)}
	}
	s.Approvers = nil
	return &refusal{protocol.CodeBadCommand, text + "; without it human approves: " + howToRecreate(r.by, specs, i, s)}
}

func nonAgentText(by protocol.AgentID, member, flag, name string) string {
	such := `["human"] or ["@writer"]`
	if by == protocol.Human {
		such = flag + " human or " + flag + " @writer"
	}
	return fmt.Sprintf("`%s` has %s, and it takes only agents and roles, such as %s", member, protocol.Quote(name), such)
}

// howToRecreate returns how the tasks of a command are created with s in place of the
// i-th. If it is too long to be shown it says what is left out.
func howToRecreate(by protocol.AgentID, specs []protocol.TaskSpec, i int, s protocol.TaskSpec) string {
	var all any = s
	if len(specs) > 1 {
		list := slices.Clone(specs)
		list[i] = s
		all = map[string]any{"tasks": list}
	}
	switch data, err := json.Marshal(all, spacedOptions); {
	case by == protocol.Human && len(specs) > 1:
		return "take it out and " + howTo(by, taskLine(task.Create, "", "--file FILE"), "")
	case by == protocol.Human:
		return howTo(by, taskLine(task.Create, "", protocol.Quote(s.Title)), "") + " with the rest of what it had"
	case err == nil && len(data) <= AgainMost:
		return howTo(by, "", taskMessage("create", "", 0, protocol.Visible(string(data))))
	case len(specs) > 1:
		return "take it out and send the command again"
	}
	return howTo(by, "", taskMessage("create", "", 0, objectOf("title", protocol.Fit(s.Title, titleMost)))) + " with the rest of its data"
}

// howToReamend returns how a task is amended with `human` as approver.
func howToReamend(r *report) string {
	const args, human = "--approver human", `["human"]`
	var data map[string]jsontext.Value
	err := json.Unmarshal(r.m.Data, &data)
	if err == nil {
		data["approvers"] = jsontext.Value(human)
		if whole, err := json.Marshal(data, spacedOptions); err == nil && len(whole) <= AgainMost {
			return r.howToSend(args, protocol.Visible(string(whole)))
		}
	}
	return r.howToSend(args, `{"approvers": `+human+`}`) + " with the rest of its data"
}

// spacedOptions are for JSON that somebody is to read and to send.
var spacedOptions = json.JoinOptions(json.Deterministic(true), jsontext.SpaceAfterColon(true), jsontext.SpaceAfterComma(true))
