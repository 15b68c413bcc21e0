package demo

import (
	"context"
	"strings"
	"testing"

	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
	"github.com/hived/hived/view"
)

// TestDemoWaitsForATask checks that the second act does not wait for an event that
// cannot come any more.
func TestDemoWaitsForATask(t *testing.T) {
	tests := []struct {
		name   string
		gone   bool // the time is up
		events []protocol.TaskEvent
		want   string // the error; empty: none
	}{
		{"it comes", false, []protocol.TaskEvent{{Event: task.Start, To: task.InProgress}, {Event: task.Progress, By: "amber"}}, ""},
		{"it is what ends the task", false, []protocol.TaskEvent{{Event: task.Progress, By: "amber", To: task.Completed}}, ""},
		{"the task has failed", false, []protocol.TaskEvent{{Event: task.FatalError, To: task.Failed, Reason: "no jars"}}, "the task was failed before it came to progress: no jars"},
		{"time is up", true, nil, "wait for progress of the task: context canceled"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if tt.gone {
				cancel()
			}
			s := &stage{tasks: make(chan view.TaskStep, len(tt.events))}
			for _, e := range tt.events {
				s.tasks <- view.TaskStep{Event: &e}
			}
			e, err := s.await(ctx, task.Progress)
			switch {
			case tt.want == "" && (err != nil || e.Event.By != "amber"):
				t.Errorf("%+v, %v; want the progress of amber", e, err)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("%v; want %q", err, tt.want)
			}
		})
	}
}

// TestDemoCountsWhatIsKept checks that what a cap stops counts as kept, and not as
// delivered or dropped.
func TestDemoCountsWhatIsKept(t *testing.T) {
	var seen Seen
	seen.count(protocol.Event{Body: &protocol.MessageEvent{Kept: &protocol.Kept{Reason: protocol.HopCap}}})
	if seen.Kept != 1 || seen.Dropped != 0 {
		t.Errorf("%+v", seen)
	}
}
