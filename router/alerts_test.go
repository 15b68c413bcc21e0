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

// TestAlerts checks that trouble that lasts is reported once until it is over, that the
// loop records posted alerts, and that those without room go to the daemon's own log.
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
		t.Errorf("the daemon's log does not have the alerts without room: %s", &text)
	}
	x.drain(at(0))
	if len(recorded) != cap(x.posted) || recorded[1] != "a 1" {
		t.Errorf("drained %d: %v", len(recorded), recorded)
	}
	x.raise(at(0), &protocol.AlertEvent{Code: protocol.CodeStray, Text: "refused"})
	if !strings.Contains(text.String(), "no number is left") {
		t.Errorf("the daemon's log does not have the error: %s", &text)
	}
}

// TestAlertsAreBounded checks that only so many lasting troubles are remembered.
func TestAlertsAreBounded(t *testing.T) {
	t.Parallel()
	x := newAlerts(slog.New(slog.DiscardHandler), func(time.Time, *protocol.AlertEvent) error { return nil })
	for i := range alertsMost + 5 {
		x.once(at(0), &protocol.AlertEvent{Path: strconv.Itoa(i)})
	}
	if n := len(x.raised); n != 5 {
		t.Errorf("%d troubles are remembered", n)
	}
}
