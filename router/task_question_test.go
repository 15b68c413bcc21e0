package router

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/hived/hived/protocol"
	"github.com/hived/hived/router/decide"
	"github.com/hived/hived/task"
)

// reply has somebody answer a notice by its id, with a command about a task.
func (h *crew) reply(who protocol.AgentID, to, event string, id protocol.TaskID) (message string) {
	h.Helper()
	message = fmt.Sprintf("reply-%d", h.sent)
	h.post(who, fmt.Sprintf(`{"to": "hive", "id": %q, "in_reply_to": %q, "event": %q, "task": %q}`, message, to, event, id))
	h.collect()
	return message
}

// TestAnswerToAnotherQuestion checks that an approval of an earlier question does not
// approve the present one, whoever gives it and however late it comes.
func TestAnswerToAnotherQuestion(t *testing.T) {
	scenario(t, "anna boss", func(h *crew) {
		id := h.create("human", `{"title": "mend it", "to": ["anna"], "approvers": ["human", "boss"]}`)
		h.begin("anna", id)
		h.does("anna", "pause_for_approval", id, `{"question": "May I READ?"}`)
		first := h.told("boss", protocol.CodeApprovalAsked)[0].ID
		own := h.told("human", protocol.CodeApprovalAsked)[0].ID
		was := h.view(id).Question.Ask
		h.reply("human", own, "approval_granted", id)
		h.is(id, task.InProgress)
		h.does("anna", "pause_for_approval", id, `{"question": "May I DROP?"}`)
		open := h.view(id).Question.Ask
		asks := func(n protocol.Seq) string { return `{"ask": ` + n.String() + `}` }
		h.stale("boss", h.reply("boss", first, "approval_granted", id), fmt.Sprintf(`question %s, "May I DROP?"`, open), fmt.Sprintf(`"data": {"ask": %s, `, open))
		h.is(id, task.Paused)
		for event, verb := range map[string]string{"approval_granted": "approve", "approval_denied": "deny"} {
			h.stale("human", h.say("human", event, id, asks(was)), "it answers question "+was.String(), fmt.Sprintf("hived %s %s --ask %s", verb, id, open))
			h.stale("human", h.say("human", event, id, `{}`), "it does not say which question it answers")
			h.stale("human", h.say("human", event, id, asks(open), own), "it answers question "+was.String())
			h.stale("human", h.say("human", event, id, asks(open+9)), "it answers question "+(open+9).String())
		}
		h.does("human", "approval_granted", id, asks(open))
		h.is(id, task.InProgress)
	})
}

// say has somebody send a command as it is, in reply to a message if one is named.
func (h *crew) say(who protocol.AgentID, event string, id protocol.TaskID, data string, to ...string) (message string) {
	h.Helper()
	message = fmt.Sprintf("say-%d", h.sent)
	reply := "null"
	if len(to) > 0 {
		reply = `"` + to[0] + `"`
	}
	h.post(who, fmt.Sprintf(`{"to": "hive", "id": %q, "in_reply_to": %s, "event": %q, "task": %q, "data": %s}`, message, reply, event, id, data))
	h.collect()
	return message
}

// stale fails unless a message is refused because it answers another question.
func (h *crew) stale(who protocol.AgentID, message string, texts ...string) {
	h.Helper()
	no := h.answer(who, message)
	if no == nil || no.Code != protocol.CodeStaleApproval {
		h.Fatalf("%s of %s: %+v", message, who, no)
	}
	for _, text := range texts {
		if !strings.Contains(no.Detail, text) {
			h.Errorf("%s was told without %q: %s", who, text, no.Detail)
		}
	}
}

// TestLateRetryOfTheOnlyApprover checks that an approval that is sent a second time under
// another id does not approve the next question.
func TestLateRetryOfTheOnlyApprover(t *testing.T) {
	scenario(t, "anna", func(h *crew) {
		id := asking(h, "")
		notice := h.told("human", protocol.CodeApprovalAsked)[0]
		h.reply("human", notice.ID, "approval_granted", id)
		h.is(id, task.InProgress)
		h.does("anna", "pause_for_approval", id, `{"question": "May I delete all of them?"}`)
		h.stale("human", h.reply("human", notice.ID, "approval_granted", id))
		h.is(id, task.Paused)
	})
}

// TestReminderIsAnswered checks that a reply to the reminder answers the question, also
// after a start, and so does a reply to a notice that was moved to .done/.
func TestReminderIsAnswered(t *testing.T) {
	scenario(t, "anna boss", func(h *crew) {
		id := asking(h, `, "approvals": 2, "approvers": ["human", "boss"]`)
		h.pass(16 * time.Minute)
		h.down()
		h.up()
		h.reply("human", h.told("human", protocol.CodeReminder)[0].ID, "approval_granted", id)
		if v := h.is(id, task.Paused); len(v.Question.Given) != 1 {
			t.Fatalf("the approval was not counted: %+v", v.Question)
		}
		asked := h.told("boss", protocol.CodeApprovalAsked)[0]
		list, err := h.disk.ReadDir(protocol.InboxDir("boss"))
		h.must(err)
		for _, f := range list {
			if strings.HasSuffix(f.Name, ".json") {
				h.must(h.disk.Rename(protocol.InboxDir("boss")+"/"+f.Name, protocol.DoneDir("boss")+"/"+f.Name))
			}
		}
		h.collect()
		h.reply("boss", asked.ID, "approval_granted", id)
		h.is(id, task.InProgress)
	})
}

// TestQuorumForOneQuestion checks that approvals of different questions make no quorum.
func TestQuorumForOneQuestion(t *testing.T) {
	scenario(t, "anna boss", func(h *crew) {
		id := asking(h, `, "approvals": 2, "approvers": ["human", "boss"]`)
		first := h.view(id).Question
		h.does("boss", "approval_granted", id, "")
		h.does("human", "approval_granted", id, "")
		h.does("anna", "pause_for_approval", id, `{"question": "May I delete all of them?"}`)
		h.does("human", "approval_granted", id, "")
		h.stale("boss", h.say("boss", "approval_granted", id, fmt.Sprintf(`{"ask": %s}`, first.Ask)))
		if v := h.is(id, task.Paused); len(v.Question.Given) != 1 || v.Asked != 2 {
			t.Errorf("%+v, asked %d times", v.Question, v.Asked)
		}
	})
}

// TestAnswersAreWhole checks that what approvers say reaches the holder, and any later
// one, to the last word.
func TestAnswersAreWhole(t *testing.T) {
	scenario(t, "anna boss", func(h *crew) {
		id := asking(h, `, "approvals": 2, "approvers": ["human", "boss"]`)
		ask := h.view(id).Question.Ask
		words := func(c string) string { return strings.Repeat(c, 5000) + "." }
		h.does("boss", "approval_granted", id, `{"comment": "`+words("b")+`"}`)
		h.does("human", "approval_granted", id, `{"comment": "`+words("h")+`"}`)
		h.wantTold("anna", protocol.CodeApproved, 1, words("h"))
		var q protocol.Question
		h.must(json.Unmarshal([]byte(h.file(id, "answers/"+ask.String()+".json")), &q))
		if q.Question != "May I delete 40 pages?" || q.Ask != ask || q.AskedBy != "anna" || len(q.Answers) != 2 ||
			q.Answers[0].By != "boss" || q.Answers[0].Comment != words("b") || q.Answers[1].Comment != words("h") || q.Answers[1].Event != task.ApprovalGranted {
			t.Errorf("the answers are %+v", q)
		}
		if v := h.view(id); !slices.Equal(v.Answers, []string{protocol.TaskAnswer(id, ask)}) || v.Question != nil {
			t.Errorf("task.json has %v", v.Answers)
		}
		h.does("anna", "pause_for_approval", id, `{"question": "And now?"}`)
		h.refused(protocol.CodeBadCommand, "human", "approval_denied", id, `{"comment": "`+strings.Repeat("x", decide.WordsMost+1)+`"}`)
		h.does("human", "approval_denied", id, `{"comment": "`+words("n")+`"}`)
		h.wantTold("anna", protocol.CodeDenied, 1, words("n"))
	})
}

// TestAnswersAreSwept checks that the newest of many answers stay, and none when the task
// is let go.
func TestAnswersAreSwept(t *testing.T) {
	scenario(t, "anna", func(h *crew) {
		id := asking(h, "")
		for range task.AnsweredMost + 2 {
			h.does("human", "approval_granted", id, "")
			h.does("anna", "pause_for_approval", id, `{"question": "May I?"}`)
		}
		count := func() int {
			list, _ := h.disk.ReadDir(protocol.TaskDir(id) + "/" + protocol.TaskAnswers)
			return len(list)
		}
		if n := count(); n != task.AnsweredMost || len(h.view(id).Answers) != n {
			t.Errorf("%d answers are kept, and task.json names %d", n, len(h.view(id).Answers))
		}
		h.down()
		h.must(h.disk.Remove(h.view(id).Answers[3]))
		h.up()
		if n := count(); n != task.AnsweredMost {
			t.Errorf("after a start there are %d answers", n)
		}
		h.does("human", "approval_denied", id, "")
		h.pass(h.settings.Tasks.Retention + time.Minute)
		if _, err := h.disk.Lstat(protocol.TaskDir(id)); err == nil {
			t.Errorf("the task is still there, with %d answers", count())
		}
	})
}

// TestLoginSaysWhy checks that whoever is asked to log in again reads why, in the notice,
// the reminder, the status, and the task itself.
func TestLoginSaysWhy(t *testing.T) {
	const why = "the token of the registry has expired"
	scenario(t, "anna", func(h *crew) {
		id := h.create("human", `{"title": "publish"}`)
		h.begin("anna", id)
		h.does("anna", "failure", id, `{"category": "auth", "reason": "`+why+`"}`)
		h.pass(16 * time.Minute)
		for _, code := range []protocol.Code{protocol.CodeApprovalAsked, protocol.CodeReminder} {
			h.wantTold("human", code, 1, "log in again", why)
			if q := h.told("human", code)[0].Data.Question; !strings.Contains(q, why) {
				t.Errorf("the data of %s asks %q", code, q)
			}
		}
		v := h.is(id, task.Paused)
		if v.Category != protocol.AuthFailure || !strings.Contains(v.Question.Question, why) || !strings.Contains(v.Reason, why) {
			t.Errorf("task.json says %q, because %q", v.Question.Question, v.Reason)
		}
		list := decide.NeedsYou(h.router.state, h.settings, time.Now())
		if len(list) != 1 || !strings.Contains(list[0].Text, why) {
			t.Errorf("the status says %v", list)
		}
	})
}

// TestAnswerThatComesTooLate checks that a question is over when its task has ended, goes
// on or has another question: nothing asks for an answer any more, and one that still
// comes is refused with what became of the question.
func TestAnswerThatComesTooLate(t *testing.T) {
	tests := []struct {
		name, asks string // how the holder asks
		event      string // how it is answered
		ends       func(h *crew, id protocol.TaskID)
		says       string
	}{
		{"approval, answered", `pause_for_approval {"question": "May I?"}`, "approval_granted", func(h *crew, id protocol.TaskID) { h.does("berta", "approval_granted", id, "") }, "was answered already: tasks/"},
		{"approval, cancelled", `pause_for_approval {"question": "May I?"}`, "approval_denied", func(h *crew, id protocol.TaskID) {
			h.does("carla", "cancel", id, `{"reason": "another plan"}`)
			h.does("anna", "cancelled", id, "")
		}, "the task was cancelled"},
		{"approval, timed out", `pause_for_approval {"question": "May I?"}`, "approval_granted", func(h *crew, _ protocol.TaskID) { h.pass(31 * time.Minute) }, "the task has failed: approval_timeout"},
		{"word, answered", `block_on_dependency {"reason": "Which?"}`, "answer", func(h *crew, id protocol.TaskID) { h.does("carla", "answer", id, `{"comment": "that"}`) }, "was answered already: tasks/"},
		{"word, given up", `block_on_dependency {"reason": "Which?"}`, "answer", func(h *crew, id protocol.TaskID) { h.does("carla", "fatal_error", id, `{"reason": "no need"}`) }, "the task has failed: no need"},
		{"word, goes on", `block_on_dependency {"reason": "Which?"}`, "answer", func(h *crew, id protocol.TaskID) { h.does("human", "dependency_resolved", id, "") }, "the task goes on without an answer"},
	}
	for _, x := range tests {
		t.Run(x.name, func(t *testing.T) {
			scenario(t, "anna berta carla", func(h *crew) {
				id := h.create("carla", `{"title": "delete", "to": ["anna"], "approvers": ["human", "berta"]}`)
				h.begin("anna", id)
				event, data, _ := strings.Cut(x.asks, " ")
				h.does("anna", event, id, data)
				ask := h.view(id).Question.Ask
				x.ends(h, id)
				for _, need := range decide.NeedsYou(h.router.state, h.settings, time.Now()) {
					if need.Code == protocol.CodeApprovalAsked || need.Code == protocol.CodeSpecify {
						t.Errorf("the status says %v", need)
					}
				}
				no := h.refused(protocol.CodeIllegalTransition, "human", x.event, id, fmt.Sprintf(`{"ask": %s, "comment": "that one"}`, ask))
				for _, want := range []string{"question " + ask.String(), x.says} {
					if !strings.Contains(no.Detail, want) {
						t.Errorf("the refusal does not say %q: %s", want, no.Detail)
					}
				}
				if strings.Contains(no.Detail, "diagram") {
					t.Errorf("the refusal does not answer the sender: %s", no.Detail)
				}
			})
		})
	}
}
