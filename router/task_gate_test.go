package router

import (
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

// TestGate checks that a task with a gate is completed only by a report that the gate that
// the brief has now ended with exit status 0.
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
				t.Errorf("the refusal of %s says: %s", x.data, no.Detail)
			}
		}
		h.refused(protocol.CodeBadCommand, "anna", "complete", id, tests[len(tests)-1].data) // a missing exit status is not 0
		h.does("anna", "complete", id, `{"gate": {"exit": 0, "sha256": "`+sum+`"}}`)
		h.is(id, task.Completed)

		free := h.create("human", `{"title": "without"}`)
		h.begin("anna", free)
		h.does("anna", "complete", free, `{"gate": {"exit": 1, "sha256": "x"}}`)
		h.wantIgnored("anna", "complete", "gate")
	})
}

// TestGateAuthor checks that the brief says who wrote the gate, whoever resumes the task.
func TestGateAuthor(t *testing.T) {
	scenario(t, "anna berta", func(h *crew) {
		id := h.create("berta", `{"title": "mend the build", "gate": "make"}`)
		for i := range 3 {
			var b task.Brief
			h.must(json.Unmarshal([]byte(h.file(id, protocol.TaskBrief)), &b))
			if want := protocol.GateSum("make"); b.GateBy != "berta" || b.GateSHA256 != want {
				t.Errorf("brief %d has the gate %s by %s", i, b.GateSHA256, b.GateBy)
			}
			h.does("human", "cancel", id, "")
			h.does("human", "resume", id, "")
			id = h.heirs()[id].Task
		}
		// Whoever amends the gate becomes its author; amending anything else changes no author.
		for i, x := range []struct{ data, by string }{{`{"body": "soon"}`, "berta"}, {`{"gate": "make all"}`, "human"}} {
			h.does("human", "amend", id, x.data)
			var b task.Brief
			h.must(json.Unmarshal([]byte(h.file(id, protocol.TaskBrief)), &b))
			if want := protocol.GateSum(b.Gate); string(b.GateBy) != x.by || b.GateSHA256 != want {
				t.Errorf("amended brief %d has the gate %s by %s", i, b.GateSHA256, b.GateBy)
			}
		}
		h.begin("anna", id)
		h.refused(protocol.CodeGateUnmet, "anna", "complete", id, `{"gate": {"exit": 0, "sha256": "`+protocol.GateSum("make")+`"}}`)
		h.does("anna", "complete", id, `{"gate": {"exit": 0, "sha256": "`+protocol.GateSum("make all")+`"}}`)
		if text := h.file(h.create("berta", fmt.Sprintf(`{"title": %q}`, "free")), protocol.TaskBrief); strings.Contains(text, "gate") {
			t.Errorf("the brief of a task without a gate has one: %s", text)
		}
	})
}
