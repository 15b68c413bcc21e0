package router

import (
	"strings"
	"testing"

	"github.com/hived/hived/protocol"
	"github.com/hived/hived/router/decide"
	"github.com/hived/hived/task"
)

// TestAudienceIsAgents checks that whoever creates a task for `broadcast` or `hive`, or
// names one of them as approver, is shown what to write instead, and that this is accepted.
func TestAudienceIsAgents(t *testing.T) {
	long := strings.Repeat("x", decide.AgainMost)
	scenario(t, "anna", func(h *crew) {
		id := h.create("anna", `{"title": "tidy"}`)
		for _, x := range []struct {
			name  string
			who   protocol.AgentID
			event string
			data  string
			want  string // in the refusal
		}{
			{
				"a task of an agent", "anna", "create", `{"title": "tidy \"it\"", "to": "broadcast", "priority": 2}`,
				"`to` has \"broadcast\", and it takes only agents and roles, such as [\"human\"] or [\"@writer\"]; without it any agent may have the task: send `{\"to\": \"hive\", \"event\": \"create\", \"data\": {\"title\": \"tidy \\\"it\\\"\", \"priority\": 2}}`",
			},
			{
				"a task for hive", "anna", "create", `{"title": "tidy", "to": ["anna", "Hive"]}`,
				"`to` has \"Hive\", and it takes only agents and roles, such as [\"human\"] or [\"@writer\"]; without it any agent may have the task: send `{\"to\": \"hive\", \"event\": \"create\", \"data\": {\"title\": \"tidy\"}}`",
			},
			{
				"one of two tasks", "anna", "create", `{"tasks": [{"title": "a", "name": "a"}, {"title": "b", "to": ["broadcast"], "needs": ["a"]}]}`,
				"task 2, \"b\": `to` has \"broadcast\", and it takes only agents and roles, such as [\"human\"] or [\"@writer\"]; without it any agent may have the task: send `{\"to\": \"hive\", \"event\": \"create\", \"data\": {\"tasks\": [{\"name\": \"a\", \"title\": \"a\"}, {\"title\": \"b\", \"needs\": [\"a\"]}]}}`",
			},
			{
				"approvers", "anna", "create", `{"title": "tidy", "to": "anna", "approvers": ["broadcast"]}`,
				"`approvers` has \"broadcast\", and it takes only agents and roles, such as [\"human\"] or [\"@writer\"]; without it human approves: send `{\"to\": \"hive\", \"event\": \"create\", \"data\": {\"title\": \"tidy\", \"to\": [\"anna\"]}}`",
			},
			{
				"approvers from now on", "anna", "amend", `{"body": "all", "approvers": "broadcast"}`,
				"`approvers` has \"broadcast\", and it takes only agents and roles, such as [\"human\"] or [\"@writer\"]; to have human approve, send `{\"to\": \"hive\", \"event\": \"amend\", \"task\": \"" + string(id) + "\", \"data\": {\"approvers\": [\"human\"], \"body\": \"all\"}}`",
			},
			{
				"much to say", "anna", "create", `{"title": "tidy", "body": "` + long + `", "to": "broadcast"}`,
				"without it any agent may have the task: send `{\"to\": \"hive\", \"event\": \"create\", \"data\": {\"title\": \"tidy\"}}` with the rest of its data",
			},
			{
				"a person's task", "human", "create", `{"title": "tidy", "to": "broadcast"}`,
				"`to` has \"broadcast\", and it takes only agents and roles, such as --to human or --to @writer; without it any agent may have the task: run `hived task create \"tidy\"` with the rest of what it had",
			},
			{
				"a person's tasks", "human", "create", `{"tasks": [{"title": "a"}, {"title": "b", "to": ["broadcast"]}]}`,
				"without it any agent may have the task: take it out and run `hived task create --file FILE`",
			},
			{
				"a person's approvers", "human", "amend", `{"approvers": ["broadcast"]}`,
				"`approvers` has \"broadcast\", and it takes only agents and roles, such as --approver human or --approver @writer; to have human approve, run `hived task amend " + string(id) + " --approver human`",
			},
		} {
			about := protocol.TaskID("")
			if x.event == string(task.Amend) {
				about = id
			}
			no := h.refused(protocol.CodeBadCommand, x.who, x.event, about, x.data)
			if !strings.Contains(no.Detail, x.want) {
				t.Errorf("%s: the refusal is\n%s\nand does not say\n%s", x.name, no.Detail, x.want)
			}
			if _, shown, ok := strings.Cut(no.Detail, "send `"); ok {
				shown, _, _ = strings.Cut(shown, "`")
				h.post(x.who, `{"id": "again-`+strings.ReplaceAll(x.name, " ", "-")+`", `+strings.TrimPrefix(shown, "{"))
				h.collect()
				if no := h.answer(x.who, "again-"+strings.ReplaceAll(x.name, " ", "-")); no != nil {
					t.Errorf("%s: what was shown is refused: %s", x.name, no.Detail)
				}
			}
		}
		no := h.refused(protocol.CodeUnknownAgent, "anna", "create", "", `{"title": "tidy", "to": "broadcst"}`)
		if strings.Contains(no.Detail, "mean broadcast") {
			t.Errorf("the refusal suggests an address that no task can be for: %s", no.Detail)
		}
	})
}

// TestLeadApproves checks that `lead` means whoever is the lead, as approver too.
func TestLeadApproves(t *testing.T) {
	scenario(t, "anna", func(h *crew) {
		no := h.refused(protocol.CodeBadCommand, "human", "create", "", `{"title": "tidy", "approvers": "lead"}`)
		if !strings.Contains(no.Detail, "run `hived agent lead ID`") {
			t.Error(no.Detail)
		}
		h.does("human", "agent-lead", "", `{"agent": "anna"}`)
		id := h.create("human", `{"title": "tidy", "approvers": ["lead"]}`)
		if brief := h.file(id, protocol.TaskBrief); !strings.Contains(brief, `"anna"`) {
			t.Errorf("the brief is\n%s", brief)
		}
	})
}
