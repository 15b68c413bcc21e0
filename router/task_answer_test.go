package router

import (
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

// TestBlockedIsAnswered checks that the lead and the creator of a task are asked what its
// holder needs to know, and that the whole answer reaches the holder.
func TestBlockedIsAnswered(t *testing.T) {
	for name, report := range map[string][2]string{
		"schema":  {"failure", `{"category": "schema", "reason": "Which of the two columns?"}`},
		"unknown": {"failure", `{"category": "moon", "reason": "Which of the two columns?"}`},
		"block":   {"block_on_dependency", `{"reason": "Which of the two columns?"}`},
	} {
		for _, who := range []protocol.AgentID{"berta", "boss", "human"} {
			t.Run(name+" "+string(who), func(t *testing.T) {
				scenario(t, "anna berta boss", func(h *crew) {
					h.post("human", `{"to": "hive", "event": "agent-lead", "data": {"agent": "boss"}}`)
					h.collect()
					id := h.create("berta", `{"title": "sum it up", "to": ["anna"]}`)
					h.begin("anna", id)
					h.does("anna", report[0], id, report[1])
					v := h.is(id, task.Blocked)
					words := "The second one; " + strings.Repeat("and so on ", 400) + "end."
					for _, asked := range []protocol.AgentID{"berta", "boss"} {
						h.wantTold(asked, protocol.CodeSpecify, 1, "Which of the two columns?", `"event": "answer", "task": "`+string(id)+`", "data": {"ask": `+v.Question.Ask.String())
					}
					h.refused(protocol.CodeNotAllowed, "anna", "answer", id, `{"comment": "the first", "ask": `+v.Question.Ask.String()+`}`)
					h.refused(protocol.CodeStaleApproval, who, "answer", id, `{"comment": "the first", "ask": 1}`)
					h.refused(protocol.CodeBadCommand, who, "answer", id, `{"ask": `+v.Question.Ask.String()+`}`)
					h.does(who, "answer", id, `{"comment": "`+words+`"}`)
					h.is(id, task.InProgress)
					h.wantTold("anna", protocol.CodeGoOn, 1, words, "epoch 1")
					var q protocol.Question
					h.must(json.Unmarshal([]byte(h.file(id, "answers/"+v.Question.Ask.String()+".json")), &q))
					if len(q.Answers) != 1 || q.Answers[0].Comment != words || q.Question != "Which of the two columns?" {
						t.Errorf("%+v", q)
					}
					h.does("anna", "complete", id, "")
				})
			})
		}
	}
}

// TestBlockedOnTasksAsksNothing checks that a task that waits for another asks nobody, and
// cannot be answered.
func TestBlockedOnTasksAsksNothing(t *testing.T) {
	scenario(t, "anna berta", func(h *crew) {
		other := h.create("human", `{"title": "first", "to": ["berta"]}`)
		id := h.create("human", `{"title": "second", "to": ["anna"]}`)
		h.begin("anna", id)
		h.does("anna", "block_on_dependency", id, `{"needs": ["`+string(other)+`"]}`)
		h.refused(protocol.CodeBadCommand, "human", "answer", id, `{"comment": "go on"}`)
	})
}

// TestGivenUp checks that the creator of a blocked task, the lead and people can end it.
func TestGivenUp(t *testing.T) {
	for _, who := range []protocol.AgentID{"berta", "boss", "human"} {
		t.Run(string(who), func(t *testing.T) {
			scenario(t, "anna berta boss", func(h *crew) {
				h.post("human", `{"to": "hive", "event": "agent-lead", "data": {"agent": "boss"}}`)
				h.collect()
				id := h.create("berta", `{"title": "sum it up", "to": ["anna"]}`)
				h.begin("anna", id)
				h.does("anna", "block_on_dependency", id, `{"reason": "Which?"}`)
				h.does(who, "fatal_error", id, `{"reason": "neither"}`)
				if v := h.is(id, task.Failed); v.Reason != "neither" {
					t.Errorf("the task failed because %q", v.Reason)
				}
				h.wantTold("anna", protocol.CodeTaskFailed, 1, "neither")
			})
		})
	}
}

// TestAmended checks that an amended brief keeps what was not changed, that the holder is
// told and goes on under its epoch, and that a task that resumes it has the new brief.
func TestAmended(t *testing.T) {
	scenario(t, "anna berta carla", func(h *crew) {
		first := h.create("berta", `{"title": "a need", "to": ["anna"]}`)
		h.begin("anna", first)
		h.does("anna", "complete", first, "")
		id := h.create("berta", `{"title": "sum it up", "body": "all of it", "to": ["anna"], "needs": ["`+string(first)+`"], "gate": "make", "data": {"n": 1}, "priority": 3}`)
		var was task.Brief
		h.must(json.Unmarshal([]byte(h.file(id, protocol.TaskBrief)), &was))
		h.does("berta", "amend", id, `{"body": "half of it"}`)
		h.begin("anna", id)
		h.does("human", "amend", id, `{"title": "sum up", "data": {"n": 2}, "reason": "it was too much"}`)
		h.wantTold("anna", protocol.CodeAmended, 1, "it was too much", "Version 3")
		var is task.Brief
		h.must(json.Unmarshal([]byte(h.file(id, protocol.TaskBrief)), &is))
		if is.Version != 3 || is.AmendedBy != "human" || is.Title != "sum up" || is.Body != "half of it" || is.Gate != "make" || is.Creator != "berta" || !is.CreatedAt.Equal(was.CreatedAt) ||
			is.Priority != 3 || fmt.Sprint(is.To, is.Needs) != fmt.Sprint(was.To, was.Needs) || !strings.Contains(string(is.Data), "2") {
			t.Errorf("the brief is %+v, and was %+v", is, was)
		}
		if v := h.is(id, task.InProgress); v.Epoch != 1 || v.Title != "sum up" || v.Version != 3 {
			t.Errorf("task.json: %+v", v)
		}
		for _, x := range []struct {
			who        protocol.AgentID
			data, text string
			code       protocol.Code
		}{
			{"carla", `{"body": "x"}`, "only berta", protocol.CodeNotAllowed},
			{"anna", `{"body": "x"}`, "only berta", protocol.CodeNotAllowed},
			{"berta", `{}`, "it changes nothing", protocol.CodeBadCommand},
			{"berta", `{"to": ["carla"]}`, "amend changes title, body, gate", protocol.CodeBadCommand},
			{"berta", `{"title": ""}`, "title of 1 to", protocol.CodeBadCommand},
			{"berta", `{"approvers": ["nobody"]}`, "no agent", protocol.CodeUnknownAgent},
			{"berta", `{"body": 7}`, "does not fit", protocol.CodeBadCommand},
		} {
			if no := h.refused(x.code, x.who, "amend", id, x.data); !strings.Contains(no.Detail, x.text) {
				t.Errorf("%s: %s", x.data, no.Detail)
			}
		}
		h.does("anna", "pause_for_approval", id, `{"question": "May I?"}`)
		h.refused(protocol.CodeBadCommand, "berta", "amend", id, `{"approvers": ["carla"]}`)
		h.does("berta", "amend", id, `{"body": "a third of it"}`)
		h.is(id, task.Paused)
		h.down()
		h.up()
		h.does("human", "approval_denied", id, "")
		h.refused(protocol.CodeIllegalTransition, "berta", "amend", id, `{"body": "x"}`)
		h.does("berta", "resume", id, "")
		again := h.created()
		var next task.Brief
		h.must(json.Unmarshal([]byte(h.file(again[len(again)-1], protocol.TaskBrief)), &next))
		if next.Body != "a third of it" || next.Version != 0 {
			t.Errorf("the brief of the task that resumes it is %+v", next)
		}
	})
}
