package router

import (
	"bytes"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hived/hived/protocol"
)

// TestAlerts: what stays true is said once, until it is over; what was posted is
// recorded by the loop, and of what finds no room the daemon's own log tells.
func TestAlerts(t *testing.T) {
	t.Parallel()
	var recorded []string
	var text bytes.Buffer
	x := newAlerts(slog.New(slog.NewTextHandler(&text, nil)), func(_ time.Time, a *protocol.AlertEvent) error {
		if a.Text == "refused" {
			return errors.New("no number is left")
		}
		recorded = append(recorded, string(a.Agent)+" "+a.Path)
		return nil
	})
	check := func(what string, want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, recorded); diff != "" {
			t.Errorf("%s:\n%s", what, diff)
		}
		recorded = nil
	}
	gone := func(id protocol.AgentID, path string) *protocol.AlertEvent {
		return &protocol.AlertEvent{Code: protocol.CodeInboxGone, Agent: id, Path: path}
	}
	for range 3 {
		x.once(at(0), gone("a", "p"))
		x.once(at(0), gone("b", "p"))
		x.once(at(0), gone("b", "q"))
	}
	check("what stays true", "a p", "b p", "b q")
	x.ended(protocol.CodeInboxGone, "b", "p")
	x.ended(protocol.CodeUnreadable, "a", "p")
	x.once(at(0), gone("a", "p"))
	x.once(at(0), gone("b", "p"))
	check("what is true again", "b p")
	x.raise(at(0), gone("a", "p"))
	check("what is raised in any case", "a p")

	for i := range cap(x.posted) {
		x.post(gone("a", strconv.Itoa(i)))
	}
	check("before the loop drains")
	x.post(&protocol.AlertEvent{Code: protocol.CodeStray, Text: "one too many"})
	if !strings.Contains(text.String(), "one too many") {
		t.Errorf("the log tells nothing of what found no room: %s", &text)
	}
	x.drain(at(0))
	if len(recorded) != cap(x.posted) || recorded[1] != "a 1" {
		t.Errorf("drained %d: %v", len(recorded), recorded)
	}
	x.raise(at(0), &protocol.AlertEvent{Code: protocol.CodeStray, Text: "refused"})
	if !strings.Contains(text.String(), "no number is left") {
		t.Errorf("the log tells nothing of an error: %s", &text)
	}
}

// TestAlertsAreBounded: what is remembered of what stays true does not grow without
// end.
func TestAlertsAreBounded(t *testing.T) {
	t.Parallel()
	x := newAlerts(slog.New(slog.DiscardHandler), func(time.Time, *protocol.AlertEvent) error { return nil })
	for i := range alertsMost + 5 {
		x.once(at(0), &protocol.AlertEvent{Path: strconv.Itoa(i)})
	}
	if n := len(x.raised); n != 5 {
		t.Errorf("%d are remembered", n)
	}
}
