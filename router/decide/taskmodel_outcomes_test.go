package decide

import (
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/hived/hived/protocol"
)

// The kinds of outcomes in the model, by what they count against.
var (
	freeKinds  = []string{"unusable", "rate-limited", "needs-login", "interrupted"}
	retryKinds = []string{"unvalidated", "incomplete", "failed", "timed-out", "crashed"}
)

// effort reports whether the command is the outcome of an execution of which the agent
// has reported itself.
func (v *ruling) effort() bool {
	t, e := v.t, v.c.Epoch
	return v.c.Event == "outcome" && e != nil && *e > 0 && *e == t.epoch && v.c.by == t.last &&
		slices.Contains([]string{"paused", "blocked", "retrying", "completed", "failed", "cancelled"}, t.state)
}

// outcome judges the outcome of an execution.
func (v *ruling) outcome() {
	t := v.t
	kind, _ := v.c.Data["kind"].(string)
	cancels := kind == "cancelled" && !t.cancelling.IsZero() && !t.ended()
	switch {
	case kind == "lease-lost" || kind == "race-lost" || kind == "":
		v.no(true, "bad-command")
		return
	case v.effort() && !cancels:
		v.steps = append(v.steps, "effort")
		return
	}
	switch kind {
	case "completed":
		v.no(slices.ContainsFunc(v.m.steps[v.m.origin(t)], (*modelStep).underway), "steps-left")
		v.does("complete")
	case "unvalidated":
		v.does("transient_error")
	case "incomplete", "failed":
		if v.c.Data["category"] == nil {
			v.does("transient_error")
			return
		}
		v.fails()
	case "needs-login":
		v.no(len(v.m.approvers(t)) < t.needed, "bad-command")
		v.does("pause_for_approval")
	case "cancelled":
		v.no(t.cancelling.IsZero(), "illegal-transition")
		v.does("cancelled")
	case "timed-out", "crashed":
		v.givesBack()
	default:
		v.waits(kind)
	}
}

// waits judges an outcome that is no fault of the task.
func (v *ruling) waits(kind string) {
	t := v.t
	wait := min(time.Minute<<t.row, 30*time.Minute)
	if named, is := v.c.Data["not_before"].(time.Time); is && named.Add(-v.m.shift).After(v.at) {
		wait = named.Add(-v.m.shift).Sub(v.at)
	}
	working := t.state == "in_progress" || t.state == "stalled"
	switch {
	case !t.cancelling.IsZero():
		v.givesBack()
	case working && t.free >= v.m.set.MaxFree:
		v.no(len(v.m.approvers(t)) < t.needed, "bad-command")
		v.does("pause_for_approval")
	case kind == "rate-limited" && wait <= time.Minute:
		v.does("transient_error")
	default:
		v.givesBack()
	}
}

// givesBack judges a release, which confirms a cancel that was asked for.
func (v *ruling) givesBack() {
	e := "release"
	if !v.t.cancelling.IsZero() { // it confirms that, in every state
		if e = "cancelled"; v.t.state == "stalled" { // it is a report, unlike the answer to a cancel
			v.steps = append(v.steps, "recovered")
		}
	}
	v.does(e)
}

// isFree reports whether an event counts as free.
func isFree(e *protocol.TaskEvent) bool {
	return e.Outcome != nil && slices.Contains(freeKinds, string(e.Outcome.Kind)) &&
		slices.Contains([]protocol.TaskAction{"release", "transient_error", "pause_for_approval"}, e.Event)
}

// count notes what an event counts against.
func (m *taskModel) count(t *oneTask, e *protocol.TaskEvent) {
	if e.Event == "approval_granted" && e.Choice == "go-on" {
		t.free, t.row = 0, 0
	}
	switch {
	case e.Event == "transient_error" && !isFree(e), e.Event == "release" && e.From == "stalled":
		t.retries++
	case e.Event == "release" && e.Outcome != nil && slices.Contains(retryKinds, string(e.Outcome.Kind)):
		t.retries++
	}
	if e.Outcome == nil || e.Event == "effort" {
		return
	}
	if t.row++; !isFree(e) {
		t.row = 0
	} else {
		t.free++
	}
	if e.Outcome.Kind == "crashed" {
		t.crashes++
	}
}

// fillOutcome adds the data of an outcome.
func (h *taskRun) fillOutcome(t *rapid.T, c *taskCommand) {
	kinds := slices.Concat(freeKinds, freeKinds, retryKinds, []string{"completed", "cancelled", "crashed", "lease-lost", "race-lost", ""})
	kind := rapid.SampledFrom(kinds).Draw(t, "kind")
	if c.Data["kind"] = kind; kind == "" {
		delete(c.Data, "kind")
	}
	if (kind == "incomplete" || kind == "failed") && rapid.Bool().Draw(t, "says why") {
		c.Data["category"] = rapid.SampledFrom([]string{"transient", "auth", "ambiguity", "schema", "logic", "other"}).Draw(t, "category")
	}
	if rapid.IntRange(0, 2).Draw(t, "names a time") == 0 {
		c.Data["not_before"] = h.now.Add(rapid.SampledFrom([]time.Duration{-time.Hour, 10 * time.Second, 10 * time.Minute}).Draw(t, "not before")).UTC()
	}
	if rapid.Bool().Draw(t, "by which program") {
		c.Data["adapter"], c.Data["exit"], c.Data["tokens_in"] = "claude", 1, 100
	}
}

// crashesOften has the holder of each task in progress crash.
func (h *taskRun) crashesOften(t *rapid.T) {
	kind := rapid.SampledFrom([]string{"crashed", "timed-out", "unusable"}).Draw(t, "kind")
	for _, x := range h.m.sorted() {
		if x.state == "in_progress" {
			c, epoch := h.next(x.holder, "outcome"), x.epoch
			c.Task, c.Epoch, c.Data["kind"] = string(x.id), &epoch, kind
			h.carry(t, c)
		}
	}
}
