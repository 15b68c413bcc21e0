package classify_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/hived/hived/protocol"
	"github.com/hived/hived/worker/adapter"
	"github.com/hived/hived/worker/classify"
	"github.com/hived/hived/worker/envelope"
)

// deed is what a worker did to an execution, by the rank that docs/workers.md gives it.
type deed struct {
	name string
	does func(*classify.Seen)
	is   protocol.OutcomeKind // whatever the program left; empty: that counts
}

func deeds() []deed {
	return []deed{
		{"nothing", func(*classify.Seen) {}, ""},
		{"lost the lease", func(s *classify.Seen) { s.LeaseLost = true }, protocol.OutcomeLeaseLost},
		{"cancelled", func(s *classify.Seen) { s.Cancelled = true }, protocol.OutcomeCancelled},
		{"no prompt", func(s *classify.Seen) { s.NoPrompt = "too long" }, protocol.OutcomeFailed},
		{"no program", func(s *classify.Seen) { s.Unusable = "no such program" }, protocol.OutcomeUnusable},
		{"time over", func(s *classify.Seen) { s.TimedOut = true }, protocol.OutcomeTimedOut},
		{"told to stop", func(s *classify.Seen) { s.Stopped = true }, ""},
		{"time over, then told to stop", func(s *classify.Seen) { s.TimedOut, s.Stopped = true, true }, protocol.OutcomeTimedOut},
		{"cancelled, time over", func(s *classify.Seen) { s.Cancelled, s.TimedOut = true, true }, protocol.OutcomeCancelled},
		{"all of it", func(s *classify.Seen) {
			s.LeaseLost, s.Cancelled, s.TimedOut, s.Stopped = true, true, true, true
		}, protocol.OutcomeLeaseLost},
	}
}

// byStatus is the column "known by" of the table in docs/workers.md, as far as it speaks of
// exit statuses and signals.
func byStatus(exit int, signal string) protocol.OutcomeKind {
	switch {
	case signal != "", exit >= 129:
		return protocol.OutcomeCrashed
	case exit == 126, exit == 127:
		return protocol.OutcomeUnusable
	case exit == 124:
		return protocol.OutcomeTimedOut
	case exit == 0:
		return protocol.OutcomeCompleted
	}
	return protocol.OutcomeFailed
}

// envelopes are what an agent can say; nil: nothing, or what is no envelope.
func envelopes() []*envelope.Envelope {
	list := []*envelope.Envelope{nil}
	for _, kind := range envelope.Kinds() {
		for _, category := range []protocol.Category{"", protocol.AmbiguityFailure, protocol.SchemaFailure} {
			list = append(list, &envelope.Envelope{Outcome: kind, Category: category, Summary: "so", Result: jsontext.Value(`{"a":1}`), RetryAfter: 9 * time.Minute})
		}
	}
	return list
}

// readings are what an adapter can read from the output.
func readings() []adapter.Reading {
	return []adapter.Reading{
		{},
		{Result: "done"},
		{NoResult: true},
		{Kind: protocol.OutcomeRateLimited, Reason: "429", RetryAfter: time.Minute},
		{Kind: protocol.OutcomeNeedsLogin, Reason: "401"},
		{Kind: protocol.OutcomeFailed, Reason: "is_error"},
		{Kind: protocol.OutcomeIncomplete, Reason: "turns"},
		{Kind: protocol.OutcomeInterrupted, Reason: "143"},
	}
}

// statuses calls do with each way in which a program can end.
func statuses(do func(exit int, signal string)) {
	for exit := range 256 {
		do(exit, "")
	}
	for n := 1; n <= 31; n++ {
		do(-1, fmt.Sprintf("SIG-%d", n))
	}
}

// expected returns the kind of an execution by the words of docs/workers.md: what the
// worker did, then the envelope, then what the adapter reads, then the exit status. A
// program that was told to stop completed only if it says so, or left its result.
func expected(d deed, e *envelope.Envelope, r adapter.Reading, exit int, signal string, gate classify.Gate) protocol.OutcomeKind {
	if d.is != "" {
		return d.is
	}
	kind := byStatus(exit, signal)
	if kind == protocol.OutcomeCompleted && r.NoResult {
		kind = protocol.OutcomeIncomplete
	}
	if r.Kind != "" {
		kind = r.Kind
	}
	if e != nil {
		kind = e.Outcome
	}
	if d.name == "told to stop" {
		says := e != nil && e.Outcome == protocol.OutcomeCompleted
		left := e == nil && kind == protocol.OutcomeCompleted && r.Result != ""
		if !says && !left {
			return protocol.OutcomeInterrupted
		}
	}
	if kind == protocol.OutcomeCompleted && gate == classify.GateFailed {
		return protocol.OutcomeUnvalidated
	}
	return kind
}

// TestAllOfIt checks each way in which a program can end, with each envelope and each
// reading, whatever the worker did: there is one outcome, it is that of the documents, and
// it has no member that does not go with it.
func TestAllOfIt(t *testing.T) {
	t.Parallel()
	for _, d := range deeds() {
		for _, e := range envelopes() {
			for _, r := range readings() {
				for _, gate := range []classify.Gate{classify.GateNone, classify.GatePassed, classify.GateFailed} {
					statuses(func(exit int, signal string) {
						s := classify.Seen{Envelope: e, Reading: r, Exit: exit, Signal: signal, Gate: gate}
						d.does(&s)
						v := classify.Classify(s)
						if want := expected(d, e, r, exit, signal, gate); v.Kind != want || v.Reason == "" {
							t.Fatalf("%s, envelope %+v, reading %+v, exit %d %s, gate %d: %+v, want %s", d.name, e, r, exit, signal, gate, v, want)
						}
						wantFits(t, v)
					})
				}
			}
		}
	}
}

// wantFits checks that a verdict has only what goes with its kind (spec §8.10).
func wantFits(t *testing.T, v classify.Verdict) {
	t.Helper()
	fails := v.Kind == protocol.OutcomeIncomplete || v.Kind == protocol.OutcomeFailed
	waits := fails || v.Kind == protocol.OutcomeRateLimited || v.Kind == protocol.OutcomeUnusable
	if v.Category != "" && !fails || v.RetryAfter != 0 && !waits || v.Result != nil && v.Kind != protocol.OutcomeCompleted {
		t.Fatalf("%+v has more than goes with its kind", v)
	}
}
