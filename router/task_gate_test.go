package router

import (
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

// TestGate: what has a gate is completed with the word that this gate, as the brief
// has it now, ended with 0, and with nothing less.
func TestGate(t *testing.T) {
	const gate = "go test ./..."
	sum := protocol.GateSum(gate)
	tests := []struct{ data, remedy string }{
		{``, `"gate": {"exit": 0, "sha256": "` + sum + `"}`},
		{`{"result": 1}`, "the gate is `" + gate + "`"},
		{`{"gate": {"exit": 1, "sha256": "` + sum + `"}}`, "it ended with exit status 1"},
		{`{"gate": {"exit": 0, "sha256": "` + protocol.GateSum("true") + `"}}`, "is of another gate"},
		{`{"gate": {"exit": 0}}`, "is of another gate"},
		{`{"gate": {"sha256": "` + sum + `"}}`, ""},
	}
	scenario(t, "anna", func(h *crew) {
		id := h.create("human", `{"title": "mend the build", "gate": "`+gate+`"}`)
		h.begin("anna", id)
		for _, x := range tests[:len(tests)-1] {
			no := h.refused(protocol.CodeGateUnmet, "anna", "complete", id, x.data)
			if !strings.Contains(no.Detail, x.remedy) {
				t.Errorf("%s was refused: %s", x.data, no.Detail)
			}
		}
		h.refused(protocol.CodeBadCommand, "anna", "complete", id, tests[len(tests)-1].data) // no exit is no exit 0
		h.does("anna", "complete", id, `{"gate": {"exit": 0, "sha256": "`+sum+`"}}`)
		h.is(id, task.Completed)

		free := h.create("human", `{"title": "without"}`)
		h.begin("anna", free)
		h.does("anna", "complete", free, `{"gate": {"exit": 1, "sha256": "x"}}`)
		h.wantIgnored("anna", "complete", "gate")
	})
}

// TestGateAuthor: the brief says who wrote the gate, whoever resumes the task.
func TestGateAuthor(t *testing.T) {
	scenario(t, "anna berta", func(h *crew) {
		id := h.create("berta", `{"title": "mend the build", "gate": "make"}`)
		for i := range 3 {
			var b task.Brief
			h.must(json.Unmarshal([]byte(h.file(id, protocol.TaskBrief)), &b))
			if want := protocol.GateSum("make"); b.GateBy != "berta" || b.GateSHA256 != want {
				t.Errorf("brief %d: its gate is %s by %s", i, b.GateSHA256, b.GateBy)
			}
			h.does("human", "cancel", id, "")
			h.does("human", "resume", id, "")
			id = h.heirs()[id].Task
		}
		// Who amends the gate has written it; who amends anything else has not.
		for i, x := range []struct{ data, by string }{{`{"body": "soon"}`, "berta"}, {`{"gate": "make all"}`, "human"}} {
			h.does("human", "amend", id, x.data)
			var b task.Brief
			h.must(json.Unmarshal([]byte(h.file(id, protocol.TaskBrief)), &b))
			if want := protocol.GateSum(b.Gate); string(b.GateBy) != x.by || b.GateSHA256 != want {
				t.Errorf("amended %d: its gate is %s by %s", i, b.GateSHA256, b.GateBy)
			}
		}
		h.begin("anna", id)
		h.refused(protocol.CodeGateUnmet, "anna", "complete", id, `{"gate": {"exit": 0, "sha256": "`+protocol.GateSum("make")+`"}}`)
		h.does("anna", "complete", id, `{"gate": {"exit": 0, "sha256": "`+protocol.GateSum("make all")+`"}}`)
		if text := h.file(h.create("berta", fmt.Sprintf(`{"title": %q}`, "free")), protocol.TaskBrief); strings.Contains(text, "gate") {
			t.Errorf("a brief without a gate has one: %s", text)
		}
	})
}
