package router

import (
	"strings"
	"testing"
	"time"

	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

// TestTakenAndStarted checks that a task which is taken with start is in progress at once,
// that its holder may be silent as long as it said, and that the events are those of three
// commands.
func TestTakenAndStarted(t *testing.T) {
	for event, taken := range map[string]string{
		"claim":  "create offer claim start progress",
		"accept": "create offer accept start progress",
	} {
		t.Run(event, func(t *testing.T) {
			scenario(t, "anna", func(h *crew) {
				id := h.create("human", `{"title": "copy the pages", "to": ["anna"]}`)
				h.does("anna", event, id, `{"start": true, "expected_for": "50m", "reason": "I have time"}`)
				v := h.is(id, task.InProgress)
				if v.Epoch != 1 || v.Attempt != 1 || v.Holder != "anna" || !v.Expected.Equal(v.Since.Add(50*time.Minute)) {
					t.Errorf("the task is %+v", v)
				}
				var events []string
				for _, s := range v.History {
					events = append(events, string(s.Event))
				}
				if got := strings.Join(events, " "); got != taken {
					t.Errorf("what happened is %s, want %s", got, taken)
				}
				h.pass(49 * time.Minute)
				h.is(id, task.InProgress)
				h.pass(20 * time.Minute)
				if v := h.view(id); v.State == task.InProgress {
					t.Errorf("after 69 minutes of silence it is %s", v.State)
				}
			})
		})
	}
}

// TestSilentWithoutStart checks that who takes a task and only says how long it will be
// silent is refused: nothing is done yet about which it could be silent.
func TestSilentWithoutStart(t *testing.T) {
	scenario(t, "anna", func(h *crew) {
		id := h.create("human", `{"title": "copy the pages", "to": ["anna"]}`)
		h.refused(protocol.CodeBadCommand, "anna", "claim", id, `{"expected_for": "20m"}`)
		h.refused(protocol.CodeBadCommand, "anna", "accept", id, `{"start": true, "expected_for": "3h"}`)
		h.is(id, task.Offered)
	})
}
