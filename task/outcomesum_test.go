package task

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hived/hived/protocol"
)

// TestOutcomeSums checks what outcomes are summed up to, by each of what groups them: those
// of efforts and of fenced executions among them, and no one of an adopted task.
func TestOutcomeSums(t *testing.T) {
	claude := protocol.Outcome{Kind: protocol.OutcomeCompleted, Adapter: "claude", DurationMS: 1000, TokensIn: 10, TokensOut: 1, CostMicros: 5}
	crash := protocol.Outcome{Kind: protocol.OutcomeCrashed, Adapter: "codex", DurationMS: 500}
	day := time.Date(2026, 11, 24, 23, 59, 0, 0, time.UTC)
	events := []protocol.Event{
		{TS: day, Body: &protocol.TaskEvent{Event: Complete, By: "anna", Outcome: &claude}},
		{TS: day, Body: &protocol.TaskEvent{Event: Effort, By: "bob", Outcome: &claude}},
		{TS: day.Add(time.Hour), Body: &protocol.TaskEvent{Event: Release, By: "bob", Outcome: &crash}},
		{TS: day.Add(time.Hour), Body: &protocol.TaskRejectedEvent{By: "anna", Outcome: &claude}},
		{TS: day, Body: &protocol.TaskEvent{Event: Adopted, By: "hive", Outcome: &claude}},
		{TS: day, Body: &protocol.TaskEvent{Event: Complete, By: "anna"}},
		{TS: day, Body: &protocol.HiveEvent{}},
	}
	sum := func(of string, o protocol.Outcome, n int64) OutcomeSum {
		return OutcomeSum{of, o.Kind, int(n), n * o.DurationMS, n * o.TokensIn, n * o.TokensOut, n * o.CostMicros}
	}
	for by, want := range map[OutcomeGroup][]OutcomeSum{
		"":        {sum("", claude, 3), sum("", crash, 1)},
		"adapter": {sum("claude", claude, 3), sum("codex", crash, 1)},
		"agent":   {sum("anna", claude, 2), sum("bob", claude, 1), sum("bob", crash, 1)},
		"day":     {sum("2026-11-24", claude, 2), sum("2026-11-25", claude, 1), sum("2026-11-25", crash, 1)},
	} {
		s := NewOutcomeSums(by)
		for _, ev := range events {
			s.Add(ev)
		}
		if d := cmp.Diff(want, s.List()); d != "" {
			t.Errorf("by %q (-want +got):\n%s", by, d)
		}
	}
}
