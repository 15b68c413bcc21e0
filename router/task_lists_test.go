package router

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

// TestOneTextIsAList checks that where a command takes a list of texts, one text alone is
// a list of one, as in the `to` of a message.
func TestOneTextIsAList(t *testing.T) {
	scenario(t, "anna berta", func(h *crew) {
		first := h.create("human", `{"title": "first", "to": "anna"}`)
		h.does("human", "create", "", `{"tasks": [{"title": "plan", "name": "plan", "to": "@writer"}, {"title": "do", "needs": "plan", "approvers": "berta"}]}`)
		plan := h.created()[1]
		h.does("human", "amend", first, `{"approvers": "berta"}`)
		h.does("human", "agent-add", "", `{"agent": "anna", "capabilities": "go"}`)
		h.begin("anna", first)
		h.does("anna", "block_on_dependency", first, `{"needs": "`+string(plan)+`"}`)
		h.is(first, task.Blocked)

		type brief struct {
			To, Approvers []protocol.Address
			Needs         []protocol.TaskID
		}
		var got []brief
		for _, e := range all[*protocol.TaskEvent](h) {
			if e.Spec != nil {
				got = append(got, brief{e.Spec.To, e.Spec.Approvers, e.Needs})
			}
		}
		want := []brief{
			{To: []protocol.Address{"anna"}},
			{To: []protocol.Address{"@writer"}},
			{Approvers: []protocol.Address{"berta"}, Needs: []protocol.TaskID{plan}},
			{To: []protocol.Address{"anna"}, Approvers: []protocol.Address{"berta"}},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("the briefs (-want +got):\n%s", diff)
		}
		if list := all[*protocol.AgentEvent](h); !cmp.Equal(list[len(list)-1].Caps, []string{"go"}) {
			t.Errorf("anna became %+v", list[len(list)-1])
		}
		no := h.refused(protocol.CodeBadCommand, "human", "create", "", `{"title": "x", "to": 7}`)
		if !strings.Contains(no.Detail, "data.to is a number, and an array is wanted") {
			t.Error(no.Detail)
		}
	})
}
