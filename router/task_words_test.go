package router

import (
	"slices"
	"strings"
	"testing"

	"github.com/hived/hived/protocol"
	"github.com/hived/hived/router/decide"
	"github.com/hived/hived/task"
)

// words returns a text of so many bytes, whose beginning and end have its name.
func words(name string, size int) string {
	return name + " begins " + strings.Repeat("x", size-2*len(name)-len(" begins   ends")) + " " + name + " ends"
}

// TestWordsArriveWhole checks that what a holder and people write about a task arrives
// whole in task.json, in notices, and in the offer to the next holder.
func TestWordsArriveWhole(t *testing.T) {
	const size = 12_000
	left, ask, no, yes, stuck, how := words("left", size), words("ask", size), words("no", size), words("yes", size), words("stuck", size), words("how", size)
	scenario(t, "anna boss carl", func(h *crew) {
		whole := func(what, in, want string) {
			h.Helper()
			if !strings.Contains(in, want) {
				h.Errorf("%s does not have all of %.20q: it has %d bytes", what, want, len(in))
			}
		}
		notes := func(v task.View) string {
			var list []string
			for _, s := range v.History {
				list = append(list, s.Note)
			}
			return strings.Join(list, "\n")
		}
		last := func(who protocol.AgentID, code protocol.Code) string {
			h.Helper()
			list := h.told(who, code)
			if len(list) == 0 {
				h.Fatalf("%s was not told %s", who, code)
			}
			return list[len(list)-1].Body
		}
		id := h.create("boss", `{"title": "mend it", "to": ["anna", "carl"]}`)
		h.begin("anna", id)
		h.does("anna", "pause_for_approval", id, `{"question": "`+ask+`"}`)
		whole("the question in task.json", h.view(id).Question.Question, ask)
		whole("the notice of the question", last("human", protocol.CodeApprovalAsked), ask)
		h.does("human", "approval_granted", id, `{"ask": `+h.view(id).Question.Ask.String()+`, "comment": "`+yes+`"}`)
		whole("the reason in task.json", h.view(id).Reason, yes)
		whole("the notice of the answer", last("anna", protocol.CodeApproved), yes)
		h.does("anna", "failure", id, `{"category": "schema", "reason": "`+stuck+`"}`)
		whole("the reason in task.json", h.view(id).Reason, stuck)
		whole("the notice of a blocked task", last("boss", protocol.CodeSpecify), stuck)
		h.does("boss", "answer", id, `{"ask": `+h.view(id).Question.Ask.String()+`, "comment": "`+how+`"}`)
		whole("the notice of the answer", last("anna", protocol.CodeGoOn), how)
		h.does("anna", "release", id, `{"reason": "`+left+`"}`)
		v := h.view(id)
		for _, said := range []string{ask, yes, stuck, how, left} {
			whole("the history in task.json", notes(v), said)
		}
		whole("the offer to the next", last("carl", protocol.CodeTaskOffer), left)
		whole("the offer to the next", last("carl", protocol.CodeTaskOffer), v.Answers[1])
		for range 2 * len(v.History) { // whatever happens to it since
			h.does("boss", "amend", id, `{"body": "anew"}`)
		}
		if v = h.view(id); slices.ContainsFunc(v.History, func(s task.Step) bool { return s.Event == task.Release }) || v.Left == nil {
			h.Fatalf("the reason of the last holder is still in the history, or is lost: %+v", v)
		}
		whole("task.json", v.Left.Reason, left)
		h.begin("carl", id)
		h.does("carl", "pause_for_approval", id, `{"question": "May I?"}`)
		h.does("human", "approval_denied", id, `{"ask": `+h.view(id).Question.Ask.String()+`, "comment": "`+no+`"}`)
		whole("the reason in task.json", h.view(id).Reason, no)
		whole("the notice to its holder", last("carl", protocol.CodeDenied), no)
		whole("the notice to its creator", last("boss", protocol.CodeTaskFailed), no)
	})
}

// TestWordsBeyondTheLimit checks that of a longer text the beginning is shown, with where
// the whole text is.
func TestWordsBeyondTheLimit(t *testing.T) {
	scenario(t, "anna", func(h *crew) {
		id := h.create("human", `{"title": "mend it", "to": ["anna"]}`)
		h.begin("anna", id)
		h.does("anna", "failure", id, `{"category": "schema", "reason": "`+words("much", 40_000)+`"}`)
		v := h.view(id)
		if n := len(v.Reason); n > decide.WordsMost || n < decide.WordsMost-200 || !strings.HasPrefix(v.Reason, "much begins") || !strings.Contains(v.Reason, "40000 bytes are in event ") || v.Question.Question != v.Reason {
			h.Errorf("its reason has %d bytes and ends with %q", n, v.Reason[max(0, n-100):])
		}
	})
}
