package router

import (
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

// TestChoices checks that only a choice which a question offers answers it, that the
// refusal of any other shows how to give each, and that the holder is told which one was
// given, and with what result.
func TestChoices(t *testing.T) {
	scenario(t, "anna", func(h *crew) {
		id := h.create("human", `{"title": "mend it", "to": ["anna"]}`)
		h.begin("anna", id)
		h.does("anna", "pause_for_approval", id, `{"question": "Is it done?", "choices": ["happened", "do it again"]}`)
		ask := h.view(id).Question.Ask
		asked := h.told("human", protocol.CodeApprovalAsked)[0]
		ways := []string{
			fmt.Sprintf("hived approve %s --ask %s --choice happened", id, ask),
			fmt.Sprintf("hived approve %s --ask %s --choice 'do it again'", id, ask),
		}
		for _, way := range ways {
			if !strings.Contains(asked.Body, way) {
				t.Errorf("the notice has no %q: %s", way, asked.Body)
			}
		}
		for _, choice := range []string{"", `, "choice": ""`, `, "choice": "later"`, `, "choice": "Happened"`} {
			no := h.answer("human", h.say("human", "approval_granted", id, `{"ask": `+ask.String()+choice+`}`))
			if no == nil || no.Code != protocol.CodeChoose {
				t.Fatalf("an approval with %q: %+v", choice, no)
			}
			for _, way := range ways {
				if !strings.Contains(no.Detail, way) {
					t.Errorf("the refusal of %q has no %q: %s", choice, way, no.Detail)
				}
			}
		}
		h.is(id, task.Paused)
		h.stale("human", h.say("human", "approval_granted", id, `{"ask": 1, "choice": "happened"}`))
		h.does("human", "approval_granted", id, fmt.Sprintf(`{"ask": %s, "choice": "happened", "result": {"sum": 3}}`, ask))
		h.is(id, task.InProgress)
		if told := h.told("anna", protocol.CodeApproved)[0]; !strings.Contains(told.Body, `with the choice "happened"`) {
			t.Errorf("the holder was told without the choice: %s", told.Body)
		}
		var q protocol.Question
		h.must(json.Unmarshal([]byte(h.file(id, "answers/"+ask.String()+".json")), &q))
		a := q.Answers[0]
		h.must(a.Result.Compact())
		if got := fmt.Sprint(q.Choices, len(q.Answers), " ", a.Choice, " ", a.Result); got != `[happened do it again] 1 happened {"sum":3}` {
			t.Errorf("the file of the answers has %s", got)
		}
		h.does("anna", "pause_for_approval", id, `{"question": "May I?"}`)
		ask = h.view(id).Question.Ask
		h.refused(protocol.CodeBadCommand, "human", "approval_granted", id, fmt.Sprintf(`{"ask": %s, "choice": "happened"}`, ask))
		h.does("human", "approval_denied", id, fmt.Sprintf(`{"ask": %s}`, ask))
	})
}

// TestChoicesCountForThemselves checks that of several approvers enough must give the
// same choice, and that each can give another one, which replaces his own.
func TestChoicesCountForThemselves(t *testing.T) {
	scenario(t, "anna berta carl", func(h *crew) {
		id := h.create("human", `{"title": "mend it", "to": ["anna"], "approvals": 2, "approvers": ["berta", "carl"]}`)
		h.begin("anna", id)
		h.does("anna", "pause_for_approval", id, `{"question": "Which?", "choices": ["left", "right"]}`)
		ask := h.view(id).Question.Ask
		with := func(choice string) string { return fmt.Sprintf(`{"ask": %s, "choice": %q}`, ask, choice) }
		h.does("berta", "approval_granted", id, with("left"))
		h.refused(protocol.CodeVotedTwice, "berta", "approval_granted", id, with("left"))
		h.does("carl", "approval_granted", id, with("right"))
		h.is(id, task.Paused)
		if q := h.view(id).Question; fmt.Sprint(q.Given, q.Chosen, q.Choices) != "[berta carl] [left right] [left right]" {
			t.Errorf("task.json shows %+v", q)
		}
		h.does("berta", "approval_granted", id, with("right"))
		h.is(id, task.InProgress)
	})
}

// TestChoicesThatNobodyCouldTellApart checks which choices are refused.
func TestChoicesThatNobodyCouldTellApart(t *testing.T) {
	scenario(t, "anna", func(h *crew) {
		id := h.create("human", `{"title": "mend it", "to": ["anna"]}`)
		h.begin("anna", id)
		for choices, want := range map[string]string{
			`["a","b","c","d","e","f","g","h","i"]`: "it offers 9 choices",
			`["a", "b", "a"]`:                       `choice 3, "a", is there twice`,
			`["a", ""]`:                             "choice 2 is empty",
			`["a\nb"]`:                              "is not one line",
			`["a\u0007b"]`:                          "is not one line",
			`["` + strings.Repeat("x", 65) + `"]`:   "has 65 characters",
		} {
			no := h.refused(protocol.CodeBadCommand, "anna", "pause_for_approval", id, `{"question": "Which?", "choices": `+choices+`}`)
			if !strings.Contains(no.Detail, want) {
				t.Errorf("%s was refused without %q: %s", choices, want, no.Detail)
			}
		}
		h.is(id, task.InProgress)
	})
}
