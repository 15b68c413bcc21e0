package router

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hived/hived/protocol"
	"github.com/hived/hived/router/decide"
	"github.com/hived/hived/task"
	"github.com/hived/hived/view"
)

// TestStatusSaysWhoWasHeardOf: of a held task the status says when its holder was
// last heard of and last reached something new, and until when it must again;
// task.json, which changes with events of the task alone, does not.
func TestStatusSaysWhoWasHeardOf(t *testing.T) {
	scenario(t, "anna", func(h *crew) {
		heard := func() protocol.HeldTask {
			h.Helper()
			h.pass(statusIdle)
			s, err := view.ReadStatus(h.disk)
			h.must(err)
			if len(s.Held) != 1 {
				h.Fatalf("the status says of held tasks %+v", s.Held)
			}
			return s.Held[0]
		}
		set := h.settings.Tasks
		id := h.create("human", `{"title": "mend it", "to": ["anna"]}`)
		h.does("anna", "claim", id, `{}`)
		if s := heard(); s.Task != id || s.Holder != "anna" || s.HearBy.Sub(h.view(id).Since) != set.Lease {
			t.Errorf("it is to start by %v: %+v", set.Lease, s)
		}
		h.does("anna", "start", id, `{}`)
		began := h.view(id).Since
		h.pass(time.Minute)
		h.does("anna", "progress", id, `{"milestone": "half"}`)
		reached := h.times(id, task.Progress)[0]
		h.pass(time.Minute)
		before := h.file(id, protocol.TaskView)
		h.beat("anna")
		h.pass(set.HeartbeatTimeout / decide.LivenessLooks)
		s := heard()
		if d := cmp.Diff(protocol.Signs{HeardAt: s.HeardAt, HearBy: s.HeardAt.Add(set.HeartbeatTimeout), ProgressedAt: reached, ProgressBy: reached.Add(set.ProgressTimeout)}, s.Signs); d != "" {
			t.Errorf("(-want +got)\n%s", d)
		}
		if !s.HeardAt.After(reached) || !reached.After(began) {
			t.Errorf("it was heard of at %v, began at %v and went on at %v", s.HeardAt, began, reached)
		}
		if after := h.file(id, protocol.TaskView); after != before || strings.Contains(after, "heard") {
			t.Errorf("task.json changed, or says it:\n%s", cmp.Diff(before, after))
		}
		h.does("anna", "complete", id, `{}`)
		h.pass(statusIdle)
		if s, err := view.ReadStatus(h.disk); err != nil || len(s.Held) != 0 {
			t.Errorf("of tasks that nobody has the status says %+v, %v", s.Held, err)
		}
	})
}
