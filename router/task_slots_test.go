package router

import (
	"strings"
	"testing"

	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

// TestOwnSlots checks that an agent which takes no tasks for now loses its offers, is
// offered nothing and cannot claim, that it gets what waits when it takes tasks again, and
// that a person who sets its place in the roster ends what it said.
func TestOwnSlots(t *testing.T) {
	scenario(t, "anna", func(h *crew) {
		sets := func(who protocol.AgentID, data string) {
			h.Helper()
			h.post(who, `{"to": "hive", "event": "agent-slots", "data": `+data+`}`)
			h.collect()
		}
		id := h.create("human", `{"title": "one", "to": ["anna"]}`)
		h.is(id, task.Offered)
		sets("anna", `{"slots": 0}`)
		h.is(id, task.Unassigned)
		no := h.refused(protocol.CodeNoRoom, "anna", "claim", id, "")
		if !strings.Contains(no.Detail, `"event": "agent-slots"`) {
			t.Errorf("anna was refused: %s", no.Detail)
		}

		sets("anna", `{"slots": 2}`)
		h.is(id, task.Offered)
		h.begin("anna", id)
		more := h.create("human", `{"title": "two", "to": ["anna"]}`)
		h.does("anna", "accept", more, "")
		h.is(h.create("human", `{"title": "three", "to": ["anna"]}`), task.Unassigned)

		sets("anna", `{"slots": 0}`) // what it has in hand stays
		h.is(id, task.InProgress)
		h.down()
		h.up()
		h.does("anna", "complete", id, "")
		h.does("anna", "start", more, "")
		h.does("anna", "complete", more, "")
		third := h.created()[2]
		h.is(third, task.Unassigned)
		h.slots("anna", 1)
		h.is(third, task.Offered)

		sets("anna", `{}`)
		sets("anna", `{"slots": -1}`)
		sets("anna", `{"slots": 1001}`)
		h.wantTold("anna", protocol.CodeBadCommand, 3, "0 to 1000")
		sets("anna", `{"agent": "human", "slots": 1}`)
		h.wantTold("anna", protocol.CodeNotAllowed, 1, "ask human")
		sets("human", `{"agent": "anna", "slots": 0}`)
		h.is(third, task.Unassigned)
	})
}
