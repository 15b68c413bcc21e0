package router

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

// says has somebody send hive a message without an event, in reply to a message or to none.
func (h *crew) says(who protocol.AgentID, act, to, more string) {
	h.Helper()
	reply := ""
	if to != "" {
		reply = fmt.Sprintf(`, "in_reply_to": %q`, to)
	}
	if more == "" {
		more = `, "body": "so be it"`
	}
	h.post(who, fmt.Sprintf(`{"to": "hive", "act": %q%s%s}`, act, reply, more))
	h.collect()
}

// TestAgreeToAnOffer checks that an agent that agrees to an offer has the task and is told
// the epoch, and that one that refuses has rejected it.
func TestAgreeToAnOffer(t *testing.T) {
	scenario(t, "anna berta", func(h *crew) {
		id := h.create("human", `{"title": "tidy the docs", "to": ["anna", "berta"]}`)
		h.says("berta", "refuse", h.told("berta", protocol.CodeTaskOffer)[0].ID, `, "body": "no time"`)
		h.is(id, task.Offered)
		h.says("anna", "agree", h.told("anna", protocol.CodeTaskOffer)[0].ID, `, "body": "I will"`)
		if v := h.is(id, task.Pending); v.Holder != "anna" {
			t.Errorf("%q has the task", v.Holder)
		}
		h.wantHistory(id, "create offer reject accept")
		if ok := h.told("anna", protocol.CodeOK); len(ok) != 1 || ok[0].Data.Epoch != 1 {
			t.Errorf("anna was told %+v", ok)
		}
		h.says("berta", "agree", h.told("berta", protocol.CodeTaskOffer)[0].ID, "")
		h.wantTold("berta", protocol.CodeRaceLost, 1)
	})
}

// TestWordsAboutTasks checks that a message about a task that names no event is answered
// once an hour with what to send, and that a reply to that is not answered, so that an
// agent that answers everything does not talk with hive for ever.
func TestWordsAboutTasks(t *testing.T) {
	scenario(t, "anna", func(h *crew) {
		id := h.create("human", `{"title": "tidy the docs", "to": ["anna"]}`)
		h.says("anna", "done", h.told("anna", protocol.CodeTaskOffer)[0].ID, "")
		h.is(id, task.Offered)
		h.wantTold("anna", protocol.CodeNoCommand, 1, `{"to": "hive", "event": "accept", "task": "`+string(id)+`"}`, `"event": "reject"`)
		hint := h.told("anna", protocol.CodeNoCommand)[0].ID
		h.says("anna", "done", hint, `, "body": "thank you"`)
		h.says("anna", "inform", "", `, "task": "`+string(id)+`", "body": "it is done"`)
		h.wantTold("anna", protocol.CodeNoCommand, 1)
		h.begin("anna", id)
		h.does("anna", "pause_for_approval", id, `{"question": "May I?"}`)
		h.pass(time.Hour)
		h.says("anna", "done", hint, "")
		h.wantTold("anna", protocol.CodeNoCommand, 1)
		h.says("anna", "inform", "", `, "conversation": "task-`+string(id)+`", "body": "it is done"`)
		if list := h.told("anna", protocol.CodeNoCommand); len(list) != 2 {
			t.Errorf("anna was told %d times", len(list))
		}
		h.says("anna", "inform", "", `, "body": "good morning"`)
		before := len(h.durable())
		h.down()
		h.up()
		h.says("anna", "inform", "", `, "task": "`+string(id)+`", "body": "after a start"`)
		if list := h.told("anna", protocol.CodeNoCommand); len(list) != 2 || len(h.durable()) == before {
			t.Errorf("after a start anna was told %d times", len(list))
		}
	})
}

// TestWordsToAQuestion checks that a person who replies to a question without a command is
// shown the commands, and an approving agent the messages.
func TestWordsToAQuestion(t *testing.T) {
	scenario(t, "anna boss", func(h *crew) {
		id := asking(h, `, "approvers": ["human", "boss"]`)
		ask := h.view(id).Question.Ask.String()
		for who, want := range map[protocol.AgentID]string{
			"human": "run `hived approve " + string(id) + " --ask " + ask + "`",
			"boss":  `{"to": "hive", "event": "approval_granted", "task": "` + string(id) + `", "data": {"ask": ` + ask,
		} {
			h.says(who, "agree", h.told(who, protocol.CodeApprovalAsked)[0].ID, `, "body": "yes"`)
			h.wantTold(who, protocol.CodeNoCommand, 1, want)
		}
		h.is(id, task.Paused)
	})
}

// TestNoticesAreForTheirReaders checks that no notice to an agent has a command line, and
// that notices to people have them.
func TestNoticesAreForTheirReaders(t *testing.T) {
	scenario(t, "anna berta", func(h *crew) {
		for _, creator := range []protocol.AgentID{"berta", "human"} {
			id := h.create(creator, `{"title": "tidy the docs", "to": ["anna"], "approvers": ["berta", "human"]}`)
			h.does("anna", "claim", id, "")
			h.pass(25 * time.Second)
			h.does("anna", "start", id, "")
			h.does("anna", "pause_for_approval", id, `{"question": "May I?"}`)
			h.pass(31 * time.Minute)
			h.is(id, task.Failed)
			resume := map[protocol.AgentID]string{"berta": `send ` + "`" + `{"to": "hive", "event": "resume", "task": "` + string(id) + `"}`, "human": "run `hived task resume " + string(id)}
			if list := h.told(creator, protocol.CodeTaskFailed); len(list) != 1 || !strings.Contains(list[0].Body, resume[creator]) {
				t.Errorf("%s was told %v, without %s", creator, list, resume[creator])
			}
		}
		h.wantTold("anna", protocol.CodeLeaseEnding, 2, `"event": "start"`)
		for _, e := range all[*protocol.MessageEvent](h) {
			if e.From == protocol.Hive && !slices.Contains(e.Delivered, protocol.Human) && strings.Contains(e.Raw, "`hived ") {
				t.Errorf("%v was told: %s", e.Delivered, e.Raw)
			}
		}
	})
}
