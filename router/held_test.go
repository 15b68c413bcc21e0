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

// TestStatusSaysWhoWasHeardOf checks that the status says when the holder of a task last
// showed life and last reached something new, and until when it must again, and that
// task.json, which changes only with events of the task, does not.
func TestStatusSaysWhoWasHeardOf(t *testing.T) {
	scenario(t, "anna", func(h *crew) {
		heard := func() protocol.HeldTask {
			h.Helper()
			h.pass(statusIdle)
			s, err := view.ReadStatus(h.disk)
			h.must(err)
			if len(s.Held) != 1 {
				h.Fatalf("the status lists these tasks with holders: %+v", s.Held)
			}
			return s.Held[0]
		}
		set := h.settings.Tasks
		id := h.create("human", `{"title": "mend it", "to": ["anna"]}`)
		h.does("anna", "claim", id, `{}`)
		if s := heard(); s.Task != id || s.Holder != "anna" || s.HearBy.Sub(h.view(id).Since) != set.Lease {
			t.Errorf("want a start within %v: %+v", set.Lease, s)
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
			t.Errorf("signs of the holder (-want +got):\n%s", d)
		}
		if !s.HeardAt.After(reached) || !reached.After(began) {
			t.Errorf("last sign of life at %v, began at %v, progress at %v", s.HeardAt, began, reached)
		}
		if after := h.file(id, protocol.TaskView); after != before || strings.Contains(after, "heard") {
			t.Errorf("task.json changed, or has the signs of life:\n%s", cmp.Diff(before, after))
		}
		h.does("anna", "complete", id, `{}`)
		h.pass(statusIdle)
		if s, err := view.ReadStatus(h.disk); err != nil || len(s.Held) != 0 {
			t.Errorf("the status lists ended tasks: %+v, %v", s.Held, err)
		}
	})
}
