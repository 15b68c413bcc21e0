package classify_test

import (
	"testing"
	"testing/fstest"

	"github.com/hived/hived/protocol"
	"github.com/hived/hived/worker/adapter"
	"github.com/hived/hived/worker/classify"
	"github.com/hived/hived/worker/envelope"
)

func TestExit(t *testing.T) {
	for exit := range 256 {
		want := protocol.OutcomeFailed
		switch {
		case exit == 0:
			want = protocol.OutcomeCompleted
		case exit == 124:
			want = protocol.OutcomeTimedOut
		case exit == 126 || exit == 127:
			want = protocol.OutcomeUnusable
		case exit > 128:
			want = protocol.OutcomeCrashed
		}
		if got := classify.Classify(classify.Seen{Exit: exit}); got.Kind != want || got.Reason == "" {
			t.Errorf("exit %d: %+v, want %s", exit, got, want)
		}
	}
}

// TestRank checks that each sign outranks all that follow it, whatever the exit status.
func TestRank(t *testing.T) {
	steps := []struct {
		want protocol.OutcomeKind
		set  func(*classify.Seen)
	}{
		{protocol.OutcomeNeedsLogin, func(s *classify.Seen) { s.Reading.Kind = protocol.OutcomeNeedsLogin }},
		{protocol.OutcomeCompleted, func(s *classify.Seen) { s.Envelope = &envelope.Envelope{Outcome: protocol.OutcomeCompleted} }},
		{protocol.OutcomeUnvalidated, func(s *classify.Seen) { s.Gate = classify.GateFailed }},
		{protocol.OutcomeTimedOut, func(s *classify.Seen) { s.TimedOut = true }},
		{protocol.OutcomeTimedOut, func(s *classify.Seen) { s.Stopped = true }},
		{protocol.OutcomeUnusable, func(s *classify.Seen) { s.Unusable = "no such program" }},
		{protocol.OutcomeFailed, func(s *classify.Seen) { s.NoPrompt = "it is too long" }},
		{protocol.OutcomeCancelled, func(s *classify.Seen) { s.Cancelled = true }},
		{protocol.OutcomeLeaseLost, func(s *classify.Seen) { s.LeaseLost = true }},
	}
	for exit := range 256 {
		for _, signal := range []string{"", "KILL", "SEGV"} {
			s := classify.Seen{Exit: exit, Signal: signal}
			for i, step := range steps {
				if step.set(&s); classify.Classify(s).Kind != step.want {
					t.Fatalf("exit %d, signal %q, step %d: %+v, want %s", exit, signal, i, classify.Classify(s), step.want)
				}
			}
		}
	}
}

func TestStopped(t *testing.T) {
	done := &envelope.Envelope{Outcome: protocol.OutcomeCompleted}
	for want, list := range map[protocol.OutcomeKind][]classify.Seen{
		protocol.OutcomeInterrupted: {{}, {Exit: 143}, {Signal: "TERM"}, {Exit: 1, Reading: adapter.Reading{Result: "x"}}},
		protocol.OutcomeCompleted:   {{Envelope: done}, {Reading: adapter.Reading{Result: "x"}}},
	} {
		for _, s := range list {
			s.Stopped = true
			if got := classify.Classify(s); got.Kind != want {
				t.Errorf("%+v: %+v, want %s", s, got, want)
			}
		}
	}
}

func TestQuirks(t *testing.T) {
	for _, c := range []struct {
		name string
		ran  adapter.Ran
		want protocol.OutcomeKind
	}{
		{"claude", adapter.Ran{Output: []byte(`{"subtype":"success","is_error":true,"result":"x"}`)}, protocol.OutcomeFailed},
		{"claude", adapter.Ran{Output: []byte(`{"is_error":false,"result":"x","permission_denials":[{}]}`)}, protocol.OutcomeCompleted},
		{"codex", adapter.Ran{Output: []byte(`{"type":"turn.failed","error":{"message":"x"}}`)}, protocol.OutcomeFailed},
		{"gemini", adapter.Ran{Exit: 41}, protocol.OutcomeNeedsLogin},
		{"gemini", adapter.Ran{Exit: 53}, protocol.OutcomeIncomplete},
		{"gemini", adapter.Ran{Exit: 144}, protocol.OutcomeFailed},
		{"opencode", adapter.Ran{}, protocol.OutcomeIncomplete},
		{"aider", adapter.Ran{Output: []byte("litellm.APIError: x")}, protocol.OutcomeFailed},
	} {
		a, err := adapter.Find(fstest.MapFS{}, c.name)
		if err != nil {
			t.Fatal(err)
		}
		s := classify.Seen{Reading: a.Read(c.ran), Exit: c.ran.Exit}
		if got := classify.Classify(s); got.Kind != c.want {
			t.Errorf("%s: %+v, want %s", c.name, got, c.want)
		}
	}
}
