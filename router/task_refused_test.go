package router

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/hived/hived/protocol"
	"github.com/hived/hived/router/decide"
	"github.com/hived/hived/task"
)

// TestBadCommands checks that each bad command is answered with a code and what to do
// instead, is in the log, and changes nothing.
func TestBadCommands(t *testing.T) {
	const nobody = "01HZZZZZZZZZZZZZZZZZZZZZZZ"
	tests := []struct {
		name   string
		who    protocol.AgentID
		text   string // of the message, with the task's id for $ID
		code   protocol.Code
		remedy string // in the detail
	}{
		{"unknown task", "anna", `{"event": "complete", "task": "` + nobody + `", "epoch": 1}`, protocol.CodeUnknownTask, "directories in tasks/"},
		{"no id of a task", "anna", `{"event": "complete", "task": "the docs", "epoch": 1}`, protocol.CodeUnknownTask, "directories in tasks/"},
		{"no task", "anna", `{"event": "complete", "epoch": 1}`, protocol.CodeUnknownTask, `send ` + "`" + `{"to": "hive", "event": "complete", "task": "ID"}`},
		{"foreign task", "berta", `{"event": "complete", "task": "$ID", "epoch": 1}`, protocol.CodeNotHolder, "anna has this task, not you"},
		{"foreign task without an epoch", "berta", `{"event": "progress", "task": "$ID"}`, protocol.CodeNotHolder, "anna has this task"},
		{"a person is no holder", "human", `{"event": "complete", "task": "$ID", "epoch": 1}`, protocol.CodeNotHolder, "anna has this task"},
		{"unknown event", "anna", `{"event": "complet", "task": "$ID", "epoch": 1}`, protocol.CodeUnknownCommand, "did you mean complete"},
		{"an event of hived's", "berta", `{"event": "lease_expired", "task": "$ID", "epoch": 1}`, protocol.CodeUnknownCommand, "there is no such command"},
		{"missing epoch", "anna", `{"event": "complete", "task": "$ID"}`, protocol.CodeMissingEpoch, `"event": "complete", "task": "$ID", "epoch": 1}`},
		{"no epoch at all", "anna", `{"event": "complete", "task": "$ID", "epoch": 0}`, protocol.CodeMissingEpoch, "you hold it under epoch 1"},
		{"future epoch", "anna", `{"event": "complete", "task": "$ID", "epoch": 7}`, protocol.CodeFutureEpoch, "you hold it under epoch 1, not under 7"},
		{"wrong type", "anna", `{"event": "progress", "task": "$ID", "epoch": 1, "data": {"milestone": 7}}`, protocol.CodeBadCommand, "PROTOCOL.md shows"},
		{"data that is a list", "anna", `{"event": "progress", "task": "$ID", "epoch": 1, "data": [1]}`, protocol.CodeBadCommand, "PROTOCOL.md shows"},
		{"a time that is none", "anna", `{"event": "progress", "task": "$ID", "epoch": 1, "data": {"expected_until": "tomorrow"}}`, protocol.CodeBadCommand, "PROTOCOL.md shows"},
		{"unknown member", "anna", `{"event": "progress", "task": "$ID", "epoch": 1, "data": {"mile": "stone"}}`, protocol.CodeBadCommand, "PROTOCOL.md shows"},
		{"checkpoint and patch", "anna", `{"event": "progress", "task": "$ID", "epoch": 1, "data": {"checkpoint": 1, "patch": {}}}`, protocol.CodeBadCommand, "write one of them"},
		{"a time that cannot be", "anna", `{"event": "release", "task": "$ID", "epoch": 1, "data": {"not_before": "9999-12-31T23:59:59Z"}}`, protocol.CodeBadCommand, "at most"},
		{"nothing to approve", "anna", `{"event": "pause_for_approval", "task": "$ID", "epoch": 1}`, protocol.CodeBadCommand, `"event": "pause_for_approval", "task": "$ID", "epoch": 1, "data": {"question": "…"}}`},
		{"nothing ambiguous", "anna", `{"event": "failure", "task": "$ID", "epoch": 1, "data": {"category": "ambiguity"}}`, protocol.CodeBadCommand, `"epoch": 1, "data": {"category": "ambiguity", "reason": "…"}}`},
		{"a wait for nothing", "anna", `{"event": "block_on_dependency", "task": "$ID", "epoch": 1}`, protocol.CodeBadCommand, `"epoch": 1, "data": {"needs": ["ID"]}}`},
		{"a wait for itself", "anna", `{"event": "block_on_dependency", "task": "$ID", "epoch": 1, "data": {"needs": ["$ID"]}}`, protocol.CodeCycle, "waits for this task itself"},
		{"a wait for an unknown task", "anna", `{"event": "block_on_dependency", "task": "$ID", "epoch": 1, "data": {"needs": ["` + nobody + `"]}}`, protocol.CodeUnknownNeed, "directories in tasks/"},
		{"approval of what does not wait", "human", `{"event": "approval_granted", "task": "$ID"}`, protocol.CodeIllegalTransition, "run `hived task show $ID`"},
		{"approval by no approver", "berta", `{"event": "approval_granted", "task": "$ID"}`, protocol.CodeNotApprover, "only human"},
		{"resume of what goes on", "human", `{"event": "resume", "task": "$ID"}`, protocol.CodeIllegalTransition, "only a task that has ended"},
		{"claim of what is taken", "berta", `{"event": "claim", "task": "$ID"}`, protocol.CodeRaceLost, `send ` + "`" + `{"to": "hive", "event": "claim"}`},
		{"claim of what one has", "anna", `{"event": "claim", "task": "$ID"}`, protocol.CodeIllegalTransition, "you have it already, with epoch 1"},

		{"10,000 tasks", "human", `{"event": "create", "data": ` + many(10_000, `{"title": "%d"}`) + `}`, protocol.CodeTooMany, "1000 at most; send several"},
		{"1,001 tasks", "human", `{"event": "create", "data": ` + many(1001, `{"title": "%d"}`) + `}`, protocol.CodeTooMany, "it has 1001 tasks"},
		{"no tasks", "human", `{"event": "create", "data": {"tasks": []}}`, protocol.CodeBadCommand, "run `hived task create \"tidy the docs\""},
		{"nothing to do", "human", `{"event": "create"}`, protocol.CodeBadCommand, "run `hived task create \"tidy the docs\""},
		{"tasks that are none", "human", `{"event": "create", "data": {"tasks": "all"}}`, protocol.CodeBadCommand, "run `hived task create \"tidy the docs\""},
		{"unknown member of a task", "human", `{"event": "create", "data": {"title": "x", "due": "now"}}`, protocol.CodeBadCommand, "run `hived task create \"tidy the docs\""},
		{"no title", "human", `{"event": "create", "data": {"title": " "}}`, protocol.CodeBadCommand, "a title of 1 to 200 characters"},
		{"for an unknown agent", "human", `{"event": "create", "data": {"title": "x", "to": ["ana"]}}`, protocol.CodeUnknownAgent, "did you mean anna"},
		{"priority", "human", `{"event": "create", "data": {"title": "x", "priority": 5000}}`, protocol.CodeBadCommand, "allowed is -1000 to 1000"},
		{"too few approvers", "human", `{"event": "create", "data": {"title": "x", "approvals": 3}}`, protocol.CodeBadCommand, "name the others as approvers"},
		{"the need of itself", "human", `{"event": "create", "data": {"title": "x", "name": "x", "needs": ["x"]}}`, protocol.CodeCycle, "take one of these needs out"},
		{
			"a cycle of three", "human",
			`{"event": "create", "data": {"tasks": [{"title": "a", "name": "a", "needs": ["c"]}, {"title": "b", "name": "b", "needs": ["a"]}, {"title": "c", "name": "c", "needs": ["b"]}]}}`,
			protocol.CodeCycle, "directly or through others",
		},
		{"unknown need", "human", `{"event": "create", "data": {"title": "x", "needs": ["` + nobody + `"]}}`, protocol.CodeUnknownNeed, "run `hived task list`"},
		{"a need that is a name of nothing", "human", `{"event": "create", "data": {"title": "x", "needs": ["y"]}}`, protocol.CodeUnknownNeed, "run `hived task list`"},
		{"a name twice", "human", `{"event": "create", "data": {"tasks": [{"title": "a", "name": "a"}, {"title": "b", "name": "a"}]}}`, protocol.CodeBadCommand, "give each task its own"},
	}
	scenario(t, "anna berta", func(h *crew) {
		id := h.create("human", `{"title": "tidy the docs", "to": ["anna", "berta"]}`)
		h.begin("anna", id)
		for i, x := range tests {
			message := fmt.Sprint("bad-", i)
			text := strings.ReplaceAll(strings.Replace(x.text, "{", `{"to": "hive", "id": "`+message+`", `, 1), "$ID", string(id))
			no := h.refusedText(x.code, x.who, id, message, text)
			if !strings.Contains(no.Detail, strings.ReplaceAll(x.remedy, "$ID", string(id))) || strings.Contains(no.Detail, "\n") {
				t.Errorf("%s: %q does not say %q", x.name, no.Detail, x.remedy)
			}
			if no.By != x.who || no.Event == "" {
				t.Errorf("%s: the log says %+v", x.name, no)
			}
		}
		if n := len(h.created()); n != 1 {
			t.Errorf("there are %d tasks", n)
		}
		h.does("anna", "complete", id, "") // the refused commands did no harm
	})
}

// TestOneOfManyIsBad checks that a command creates all of its tasks or none, and that the
// refusal says which one is wrong.
func TestOneOfManyIsBad(t *testing.T) {
	scenario(t, "anna", func(h *crew) {
		no := h.refused(protocol.CodeUnknownAgent, "human", "create", "", `{"tasks": [{"title": "good"}, {"title": "bad", "to": ["nobody"]}]}`)
		if !strings.HasPrefix(no.Detail, `task 2, "bad": `) || len(h.created()) != 0 {
			t.Errorf("%d tasks were created, and the refusal says: %s", len(h.created()), no.Detail)
		}
	})
}

// TestLargeCheckpoint checks that a large checkpoint is accepted and kept in a file, and
// that its holder is asked to send less.
func TestLargeCheckpoint(t *testing.T) {
	scenario(t, "anna", func(h *crew) {
		id := h.create("human", `{"title": "collect"}`)
		h.begin("anna", id)
		checkpoint := func(size int) string {
			return `{"milestone": "` + strconv.Itoa(size) + `", "checkpoint": "` + strings.Repeat("x", size-2) + `"}`
		}
		h.does("anna", "progress", id, checkpoint(decide.CheckpointKept))
		h.wantTold("anna", protocol.CodeLargeCheckpoint, 0)
		h.does("anna", "progress", id, checkpoint(decide.CheckpointKept+1))
		h.wantTold("anna", protocol.CodeLargeCheckpoint, 1, "262145 bytes", "as `patch`")
		if c := h.file(id, protocol.TaskCheckpoint); !strings.Contains(c, strings.Repeat("x", decide.CheckpointKept-1)) {
			t.Errorf("checkpoint.json has %d bytes", len(c))
		}
		if v := h.file(id, protocol.TaskView); len(v) > 2000 || !strings.Contains(v, "checkpoint.json") {
			t.Errorf("task.json has %d bytes", len(v))
		}
	})
}

// TestEndedStaysEnded checks that no command changes a task that has ended, whoever sends
// it, and that each refusal is in the log.
func TestEndedStaysEnded(t *testing.T) {
	ends := map[task.State]func(h *crew, id protocol.TaskID){
		task.Completed: func(h *crew, id protocol.TaskID) { h.does("anna", "complete", id, "") },
		task.Failed:    func(h *crew, id protocol.TaskID) { h.does("anna", "fatal_error", id, "") },
		task.Cancelled: func(h *crew, id protocol.TaskID) {
			h.does("human", "cancel", id, "")
			h.does("anna", "cancelled", id, "")
		},
	}
	for state, end := range ends {
		t.Run(string(state), func(t *testing.T) {
			scenario(t, "anna", func(h *crew) {
				id := h.create("human", `{"title": "tidy the docs"}`)
				h.begin("anna", id)
				end(h, id)
				resume := map[protocol.AgentID]string{"anna": "ask human", "human": "run `hived task resume " + string(id) + "`"}
				for event, ofHolder := range taskCommands {
					if event == "create" || event == "resume" || event == "step_ended" || event == "unwind" || event == "outcome" { // a late end of a step counts, another task undoes it, and an effort changes nothing
						continue
					}
					who := protocol.AgentID("anna")
					if !ofHolder && event != "fatal_error" && event != "claim" && event != "accept" && event != "reject" {
						who = protocol.Human
					}
					no := h.refused(protocol.CodeIllegalTransition, who, event, id, `{"reason": "again", "question": "May I?"}`)
					if no.State != state || !strings.Contains(no.Detail, resume[who]) {
						t.Errorf("%s: %+v", event, no)
					}
				}
				h.is(id, state)
			})
		})
	}
}
