package router

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

// outcome returns outcome.json of a task.
func (h *crew) outcome(id protocol.TaskID) (o task.LastOutcome) {
	h.Helper()
	if text := h.file(id, protocol.TaskOutcome); text != "" {
		h.must(json.Unmarshal([]byte(text), &o))
	}
	return o
}

// lastEvent returns the last event of a task.
func (h *crew) lastEvent(id protocol.TaskID) (last *protocol.TaskEvent) {
	for _, e := range all[*protocol.TaskEvent](h) {
		if e.Task == id {
			last = e
		}
	}
	return last
}

// TestOutcomes checks what follows from each kind of outcome: where the task is then, what
// that counts against, and what outcome.json has.
func TestOutcomes(t *testing.T) {
	for name, x := range map[string]struct {
		data, history string
		state         task.State
		charge        protocol.Charge
		retries, free int
		wait          time.Duration // until not_before, at least
	}{
		"completed":               {`{"kind": "completed", "exit": 0, "result": {"ok": true}}`, "complete", task.Completed, "", 0, 0, 0},
		"unvalidated":             {`{"kind": "unvalidated", "tail": "2 tests fail"}`, "transient_error", task.Retrying, "", 1, 0, time.Second},
		"incomplete":              {`{"kind": "incomplete", "exit": 0}`, "transient_error", task.Retrying, "", 1, 0, time.Second},
		"failed":                  {`{"kind": "failed", "exit": 1}`, "transient_error", task.Retrying, "", 1, 0, time.Second},
		"failed, by its category": {`{"kind": "failed", "exit": 1, "category": "schema", "reason": "which colour?"}`, "block_on_dependency", task.Blocked, "", 0, 0, 0},
		"incomplete, ambiguous":   {`{"kind": "incomplete", "category": "ambiguity", "reason": "which colour?"}`, "pause_for_approval", task.Paused, "", 0, 0, 0},
		"timed-out":               {`{"kind": "timed-out", "exit": 124, "duration_ms": 1800000}`, "release", task.Unassigned, protocol.ChargeRetry, 1, 0, time.Second},
		"crashed":                 {`{"kind": "crashed", "signal": "SEGV"}`, "release", task.Unassigned, protocol.ChargeRetry, 1, 0, time.Second},
		"unusable":                {`{"kind": "unusable", "exit": 127}`, "release", task.Unassigned, protocol.ChargeFree, 0, 1, time.Minute},
		"rate-limited":            {`{"kind": "rate-limited", "exit": 1}`, "transient_error", task.Retrying, protocol.ChargeFree, 0, 1, time.Minute},
		"needs-login":             {`{"kind": "needs-login", "exit": 41}`, "pause_for_approval", task.Paused, protocol.ChargeFree, 0, 1, 0},
		"interrupted":             {`{"kind": "interrupted", "signal": "TERM", "checkpoint": {"n": 7}}`, "release offer", task.Offered, protocol.ChargeFree, 0, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			scenario(t, "anna berta", func(h *crew) {
				id := h.create("human", `{"title": "tidy the docs"}`)
				h.begin("anna", id)
				before := h.happenedTo(id)
				h.does("anna", "outcome", id, strings.Replace(x.data, "{", `{"adapter": "claude", "tokens_in": 900, "cost_micros": 12, `, 1))
				v := h.is(id, x.state)
				h.wantHistory(id, before+" "+x.history)
				if v.Retries != x.retries || v.Free != x.free {
					t.Errorf("it has %d retries and is %d times free: %s", v.Retries, v.Free, h.file(id, protocol.TaskView))
				}
				var e *protocol.TaskEvent
				for _, ev := range all[*protocol.TaskEvent](h) {
					if ev.Outcome != nil {
						e = ev
					}
				}
				if e == nil || e.Charge != x.charge || e.Outcome.TokensIn != 900 {
					t.Fatalf("the event is %+v", e)
				}
				if x.wait > 0 && !v.NotBefore.After(v.Since.Add(x.wait-time.Second)) {
					t.Errorf("it waits until %s, since %s", v.NotBefore, v.Since)
				}
				if o := h.outcome(id); o.Kind != e.Outcome.Kind || o.By != "anna" || o.Epoch != 1 || o.Event != e.Event || o.Adapter != "claude" || o.CostMicros != 12 || o.Task != id {
					t.Errorf("outcome.json has %s", h.file(id, protocol.TaskOutcome))
				}
				if name == "interrupted" && !strings.Contains(h.file(id, protocol.TaskCheckpoint), `"n": 7`) {
					t.Errorf("its checkpoint is %s", h.file(id, protocol.TaskCheckpoint))
				}
			})
		})
	}
}

// TestTimeOutsEnd checks that a task whose executions are out of time ends after
// max_retries, and that the backoff is between them.
func TestTimeOutsEnd(t *testing.T) {
	scenario(t, "anna berta", func(h *crew) {
		id := h.create("human", `{"title": "tidy the docs", "to": ["anna", "berta"]}`)
		for n := range 4 {
			who := []protocol.AgentID{"anna", "berta"}[n%2]
			h.begin(who, id)
			h.does(who, "outcome", id, fmt.Sprintf(`{"kind": "timed-out", "reason": "time %d"}`, n+1))
			if v := h.view(id); n < 3 && (v.State != task.Unassigned || !v.NotBefore.After(v.Since)) {
				t.Fatalf("after time-out %d it is %s", n+1, h.file(id, protocol.TaskView))
			}
			h.pass(10 * time.Minute)
		}
		v := h.is(id, task.Failed)
		if v.Retries != 4 || !strings.Contains(v.Reason, "3 retries did not help: time 4") {
			t.Errorf("it is %s", h.file(id, protocol.TaskView))
		}
		if e := h.lastEvent(id); e.Event != task.MaxRetriesExceeded {
			t.Errorf("it ended by %s", e.Event)
		}
	})
}

// TestFreeWaits checks that a wait that nobody named doubles up to half an hour, that one
// that is named counts as named, that after max_free of them a person is asked, and that
// the count begins anew when he lets it go on.
func TestFreeWaits(t *testing.T) {
	scenario(t, "anna", func(h *crew) {
		id := h.create("human", `{"title": "tidy the docs"}`)
		for n := range 20 {
			h.begin("anna", id)
			h.does("anna", "outcome", id, `{"kind": "unusable", "exit": 127}`)
			v := h.view(id)
			want := min(time.Minute<<min(n, 8), 30*time.Minute)
			if wait := v.NotBefore.Sub(v.Since); wait < want || wait > want+time.Second {
				t.Errorf("wait %d is %s, want %s", n+1, wait, want)
			}
			h.pass(time.Hour)
		}
		if v := h.view(id); v.Free != 20 || v.Fruitless != 0 || v.Retries != 0 {
			t.Errorf("after these it is %s", h.file(id, protocol.TaskView))
		}
		h.begin("anna", id)
		h.does("anna", "outcome", id, `{"kind": "rate-limited"}`)
		h.pass(100 * time.Hour)
		v := h.is(id, task.Paused)
		if q := v.Question; q == nil || len(q.Choices) != 1 || q.Choices[0] != "go-on" || !v.Until.IsZero() || !strings.Contains(q.Question, "21 times") {
			t.Errorf("it asks %+v", v.Question)
		}
		h.refused(protocol.CodeChoose, "human", "approval_granted", id, fmt.Sprintf(`{"ask": %s}`, v.Question.Ask))
		h.does("human", "approval_granted", id, fmt.Sprintf(`{"ask": %s, "choice": "go-on"}`, v.Question.Ask))
		if v := h.is(id, task.InProgress); v.Free != 0 {
			t.Errorf("after go-on it is %d times free", v.Free)
		}
		at := h.view(id).Since.Add(9 * time.Minute).UTC().Format(time.RFC3339)
		h.does("anna", "outcome", id, `{"kind": "rate-limited", "not_before": "`+at+`"}`)
		if v := h.is(id, task.Unassigned); v.NotBefore.Format(time.RFC3339) != at || v.Free != 1 {
			t.Errorf("a limit of nine minutes leaves it as %s", h.file(id, protocol.TaskView))
		}
	})
}

// TestCrashesPoison checks that each crash raises an alert, and that a task with
// poison_after of them fails.
func TestCrashesPoison(t *testing.T) {
	scenario(t, "anna berta", func(h *crew) {
		id := h.create("human", `{"title": "tidy the docs", "to": ["anna", "berta"]}`)
		for n := range 3 {
			who := []protocol.AgentID{"anna", "berta"}[n%2]
			h.begin(who, id)
			h.does(who, "outcome", id, `{"kind": "crashed", "signal": "SEGV"}`)
			if v := h.view(id); v.Crashes != n+1 {
				t.Errorf("after crash %d it has %d", n+1, v.Crashes)
			}
			h.pass(2 * time.Hour)
		}
		v := h.is(id, task.Failed)
		if e := h.lastEvent(id); e.Event != task.Poison || e.By != protocol.Hive || !strings.Contains(v.Reason, "3 executions crashed") {
			t.Errorf("it ended by %s: %s", e.Event, v.Reason)
		}
		h.wantTold("human", protocol.CodeWorkerCrashed, 3, "signal SEGV")
		h.wantTold("human", protocol.CodeTaskPoison, 1, "has failed")
	})
}

// TestEfforts checks that an outcome of which the agent had reported itself is logged, and
// changes nothing but outcome.json: also when the task waits or has ended.
func TestEfforts(t *testing.T) {
	for event, data := range map[string]string{
		"complete":            `{"result": 7}`,
		"fatal_error":         `{"reason": "no power"}`,
		"pause_for_approval":  `{"question": "on?"}`,
		"block_on_dependency": `{"reason": "which?"}`,
		"transient_error":     `{"reason": "busy", "not_before": "2030-01-01T00:00:00Z"}`,
	} {
		t.Run(event, func(t *testing.T) {
			scenario(t, "anna berta", func(h *crew) {
				id := h.create("human", `{"title": "tidy the docs"}`)
				h.begin("anna", id)
				if event == "transient_error" {
					data = `{"reason": "busy", "not_before": "` + h.view(id).Since.Add(time.Hour).UTC().Format(time.RFC3339) + `"}`
				}
				h.does("anna", event, id, data)
				view, history := h.file(id, protocol.TaskView), h.happenedTo(id)
				for range 2 {
					h.does("anna", "outcome", id, `{"kind": "crashed", "signal": "KILL", "tokens_out": 30}`)
				}
				h.wantHistory(id, history+" effort effort")
				if now := h.file(id, protocol.TaskView); now != view {
					t.Errorf("task.json changed from\n%s\nto\n%s", view, now)
				}
				if o := h.outcome(id); o.Kind != protocol.OutcomeCrashed || o.Event != task.Effort || o.TokensOut != 30 {
					t.Errorf("outcome.json has %s", h.file(id, protocol.TaskOutcome))
				}
				h.refused(protocol.CodeNotHolder, "berta", "outcome", id, `{"kind": "crashed"}`)
				h.wantTold("human", protocol.CodeWorkerCrashed, 0)
			})
		})
	}
}

// TestFencedOutcomes checks that an outcome under an epoch that is over is refused, whatever
// its kind, and that the refusal keeps what the execution cost.
func TestFencedOutcomes(t *testing.T) {
	scenario(t, "anna berta", func(h *crew) {
		id := h.create("human", `{"title": "tidy the docs"}`)
		h.begin("anna", id)
		h.does("anna", "release", id, "")
		h.begin("berta", id)
		view := h.file(id, protocol.TaskView)
		for _, kind := range []string{"lease-lost", "completed", "crashed"} {
			no := h.refused(protocol.CodeFenced, "anna", "outcome", id, `{"kind": "`+kind+`", "tokens_in": 77}`)
			if no.Outcome == nil || no.Outcome.TokensIn != 77 || string(no.Outcome.Kind) != kind {
				t.Errorf("the refusal has %+v", no.Outcome)
			}
		}
		if now := h.file(id, protocol.TaskView); now != view || h.file(id, protocol.TaskOutcome) != "" {
			t.Errorf("task.json is now %s", now)
		}
	})
}

// TestOutcomeOfACancelledTask checks that a task that somebody asked to cancel is cancelled,
// and not offered to others, whatever its execution came to in between.
func TestOutcomeOfACancelledTask(t *testing.T) {
	for _, kind := range []string{"cancelled", "timed-out", "crashed", "unusable", "rate-limited", "interrupted"} {
		t.Run(kind, func(t *testing.T) {
			scenario(t, "anna", func(h *crew) {
				id := h.create("human", `{"title": "tidy the docs"}`)
				h.begin("anna", id)
				if kind == "cancelled" {
					h.refused(protocol.CodeIllegalTransition, "anna", "outcome", id, `{"kind": "cancelled"}`)
				}
				h.does("human", "cancel", id, "")
				h.does("anna", "outcome", id, `{"kind": "`+kind+`"}`)
				v := h.is(id, task.Cancelled)
				if v.Retries != 0 || v.Free != 0 {
					t.Errorf("it was charged: %s", h.file(id, protocol.TaskView))
				}
			})
		})
	}
}

// TestLoginIsWaitedFor checks that a task whose agent must log in waits without a time limit,
// and goes on when somebody has approved.
func TestLoginIsWaitedFor(t *testing.T) {
	scenario(t, "anna", func(h *crew) {
		id := h.create("human", `{"title": "tidy the docs"}`)
		h.begin("anna", id)
		h.does("anna", "outcome", id, `{"kind": "needs-login", "reason": "please run /login"}`)
		h.pass(100 * time.Hour)
		v := h.is(id, task.Paused)
		if v.Category != protocol.AuthFailure || !v.Until.IsZero() || v.Question == nil || !strings.Contains(v.Question.Question, "log in") {
			t.Errorf("it waits as %s", h.file(id, protocol.TaskView))
		}
		h.does("human", "approval_granted", id, fmt.Sprintf(`{"ask": %s}`, v.Question.Ask))
		h.is(id, task.InProgress)
	})
}

// TestBadOutcomes checks that an outcome that cannot be is refused, and that the refusal says
// what to send.
func TestBadOutcomes(t *testing.T) {
	scenario(t, "anna", func(h *crew) {
		id := h.create("human", `{"title": "tidy the docs", "gate": "make test"}`)
		h.begin("anna", id)
		for data, text := range map[string]string{
			``:                                          `"kind": "failed"`,
			`{"kind": "timed_out"}`:                     "did you mean timed-out?",
			`{"kind": "sung"}`:                          "there are cancelled, completed",
			`{"kind": "race-lost"}`:                     "who has no task in hand",
			`{"kind": "queue-empty"}`:                   "who has no task in hand",
			`{"kind": "lease-lost"}`:                    "so that it is not lost",
			`{"kind": "failed", "exit": 256}`:           "its exit is 0 to 255",
			`{"kind": "failed", "tokens_in": -1}`:       "are not negative",
			`{"kind": "failed", "adapter": "../x"}`:     "begin with a letter or digit",
			`{"kind": "failed", "prompt_sha256": "00"}`: "no SHA-256",
			`{"kind": "failed", "tail": "` + strings.Repeat("x", 20_001) + `"}`: "20001 characters",
			`{"kind": "failed", "sum": 1}`:                                      "sum",
		} {
			no := h.refused(protocol.CodeBadCommand, "anna", "outcome", id, data)
			if !strings.Contains(no.Detail, text) || no.Outcome != nil {
				t.Errorf("%.60s was refused with %s", data, no.Detail)
			}
		}
		h.refused(protocol.CodeGateUnmet, "anna", "outcome", id, `{"kind": "completed"}`)
		h.is(id, task.InProgress)
	})
}
