package router

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/durable/faultfs"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

// whileDown stops the daemon, calls a function that posts some time later, and starts the
// daemon again after an hour.
func (h *crew) whileDown(after time.Duration, put func()) {
	h.Helper()
	h.down()
	h.pass(after)
	put()
	h.pass(time.Hour - after)
	h.up()
	h.pass(time.Second)
}

// TestApprovalWhileDown checks that what counts is when an approval was put into the
// outbox, not when it was read.
func TestApprovalWhileDown(t *testing.T) {
	tests := []struct {
		name    string
		after   time.Duration // since the question
		history string
	}{
		{"in time", 20 * time.Minute, "create offer claim start pause_for_approval approval_granted"},
		{"just in time", 30*time.Minute - time.Second, "create offer claim start pause_for_approval approval_granted"},
		{"too late", 30*time.Minute + time.Second, "create offer claim start pause_for_approval timeout"},
		{"much too late", 50 * time.Minute, "create offer claim start pause_for_approval timeout"},
	}
	for _, x := range tests {
		t.Run(x.name, func(t *testing.T) {
			scenario(t, "anna", func(h *crew) {
				id := asking(h, "")
				var message string
				h.whileDown(x.after, func() { message = h.posts("human", "approval_granted", id, "") })
				h.wantHistory(id, x.history)
				no := h.answer("human", message)
				if in := x.after < 30*time.Minute; in != (no == nil) {
					t.Errorf("the approval was answered by %+v", no)
				}
				if no != nil && no.Code != protocol.CodeIllegalTransition {
					t.Errorf("the approval was refused with %s", no.Code)
				}
			})
		})
	}
}

// TestLateApprovalEndsNothing checks that an approval that comes too late does not keep
// another from counting that came in time and is read after it.
func TestLateApprovalEndsNothing(t *testing.T) {
	scenario(t, "anna berta carla", func(h *crew) {
		id := asking(h, `, "approvers": ["berta", "carla"]`)
		var late, early string
		h.whileDown(40*time.Minute, func() {
			late = h.posts("berta", "approval_denied", id, "")
			h.disk.SetClock(func() time.Time { return time.Now().Add(-20 * time.Minute) })
			early = h.posts("carla", "approval_granted", id, "")
			h.disk.SetClock(time.Now)
		})
		if h.answer("berta", late) == nil || h.answer("carla", early) != nil {
			t.Error("the approval that came in time does not count")
		}
		h.is(id, task.InProgress)
	})
}

// TestApprovalInASlowBatch checks that an answer comes too late if it was put there after
// the time to answer, even if a batch that began before that reads it.
func TestApprovalInASlowBatch(t *testing.T) {
	scenario(t, "anna", func(h *crew) {
		id := asking(h, "")
		h.pass(30*time.Minute - 2*time.Second)
		var message string
		h.slowStep(3*time.Second, func() { message = h.posts("human", "approval_granted", id, "") })
		h.collect()
		h.pass(4 * time.Second)
		if h.answer("human", message) == nil {
			t.Error("an approval was granted a second too late")
		}
		h.is(id, task.Failed)
	})
}

// TestReminderWhileDown checks that approvers are reminded once of what they have not
// answered, also if hived was down when the reminder was due.
func TestReminderWhileDown(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]int{"answered": 0, "not answered": 1} {
		t.Run(name, func(t *testing.T) {
			scenarioWith(t, "anna", func(s *protocol.Settings) { s.Tasks.ApprovalTimeout = 100 * time.Minute }, func(h *crew) {
				id := asking(h, "")
				h.whileDown(55*time.Minute, func() {
					if want == 0 {
						h.posts("human", "approval_granted", id, "")
					}
				})
				h.wantTold("human", protocol.CodeReminder, want)
			})
		})
	}
}

// TestClaimWhileDown checks that a claim counts from when it was posted: before the time
// from which a task may be taken it is refused, and after that it is not.
func TestClaimWhileDown(t *testing.T) {
	for after, code := range map[time.Duration]protocol.Code{9 * time.Minute: protocol.CodeNotYet, 11 * time.Minute: ""} {
		t.Run(after.String(), func(t *testing.T) {
			scenario(t, "anna berta", func(h *crew) {
				id := h.create("human", `{"title": "wait"}`)
				h.begin("anna", id)
				h.does("anna", "release", id, `{"not_before": "`+time.Now().Add(10*time.Minute).Format(time.RFC3339)+`"}`)
				var message string
				h.whileDown(after, func() { message = h.posts("berta", "claim", id, "") })
				no := h.answer("berta", message)
				if code == "" && no != nil || code != "" && (no == nil || no.Code != code) {
					t.Errorf("the claim was answered by %+v, not with %q", no, code)
				}
			})
		})
	}
}

// TestReportAfterRetryWhileDown checks that a retry that was due before the holder reported
// again is decided before that report.
func TestReportAfterRetryWhileDown(t *testing.T) {
	scenario(t, "anna", func(h *crew) {
		id := h.create("human", `{"title": "fetch"}`)
		h.begin("anna", id)
		h.does("anna", "failure", id, `{"category": "transient", "reason": "busy"}`)
		h.whileDown(10*time.Minute, func() { h.posts("anna", "complete", id, "") })
		h.wantHistory(id, "create offer claim start transient_error retry complete")
	})
}

// stops has the daemon stand still at the next event for a while, as SIGSTOP does. What
// meanwhile does waits for it.
func (h *crew) stops(d time.Duration, meanwhile func()) {
	h.Helper()
	end := make(chan struct{})
	h.callOnEvents(func(protocol.Event) { <-end })
	h.post("human", `{"to": "human", "body": "a note"}`)
	h.hints <- nil
	h.collect()
	h.pass(d / 2)
	meanwhile()
	h.pass(d / 2)
	h.callOnEvents(nil)
	close(end)
	synctest.Wait()
	h.pass(time.Millisecond)
}

// TestPausedProcess checks that after the process stood still, what holders sent meanwhile
// comes before the timers, and holders that sent nothing have their full time again.
func TestPausedProcess(t *testing.T) {
	scenario(t, "anna berta carla", func(h *crew) {
		h.slots("anna", 2)
		h.create("human", `{"tasks": [{"title": "works", "to": ["anna"]}, {"title": "silent", "to": ["berta"]}, {"title": "offered", "to": ["carla"]}, {"title": "asks", "to": ["anna"]}]}`)
		works, silent, offered, asks := h.created()[0], h.created()[1], h.created()[2], h.created()[3]
		h.begin("anna", works)
		h.begin("anna", asks)
		h.does("anna", "pause_for_approval", asks, `{"question": "May I?"}`)
		h.begin("berta", silent)
		h.stops(50*time.Minute, func() {
			h.posts("anna", "progress", works, `{"checkpoint": {"n": 1}}`)
			h.posts("carla", "accept", offered, "")
			h.posts("human", "approval_granted", asks, "")
		})
		h.wantHistory(works, "create offer claim start progress")
		h.wantHistory(silent, "create offer claim start")
		h.wantHistory(offered, "create offer accept")
		h.wantHistory(asks, "create offer claim start pause_for_approval approval_granted")
		n := 0
		for _, e := range all[*protocol.HiveEvent](h) {
			if e.Action == protocol.ClockJumped && e.Jump == 0 {
				n++
			}
		}
		if n != 1 {
			t.Errorf("the log has the pause %d times", n)
		}
		h.pass(115 * time.Second)
		h.is(silent, task.InProgress)
		h.pass(10 * time.Second)
		h.is(silent, task.Stalled)
	})
}

// TestMailBeforeClocks checks that a message that a holder posted before its time was over
// counts, also if no hint of it came until then.
func TestMailBeforeClocks(t *testing.T) {
	scenario(t, "anna berta carla", func(h *crew) {
		h.create("human", `{"tasks": [{"title": "taken", "to": ["anna"]}, {"title": "works", "to": ["berta"]}, {"title": "offered", "to": ["carla"]}]}`)
		taken, works, offered := h.created()[0], h.created()[1], h.created()[2]
		h.does("anna", "claim", taken, "")
		h.begin("berta", works)
		h.pass(29 * time.Second)
		h.posts("anna", "start", taken, "")
		h.posts("carla", "accept", offered, "")
		h.pass(10 * time.Second)
		h.wantHistory(taken, "create offer claim remind start")
		h.wantHistory(offered, "create offer accept")
		h.pass(80 * time.Second)
		h.posts("berta", "progress", works, `{"checkpoint": {"n": 1}}`)
		h.pass(10 * time.Second)
		h.wantHistory(works, "create offer claim start progress")
	})
}

// TestMailAtAStart checks that the report of a holder while hived was down counts, though
// its time was long over.
func TestMailAtAStart(t *testing.T) {
	scenario(t, "anna berta", func(h *crew) {
		h.create("human", `{"tasks": [{"title": "works", "to": ["anna"]}, {"title": "taken", "to": ["berta"]}]}`)
		works, taken := h.created()[0], h.created()[1]
		h.begin("anna", works)
		h.does("berta", "claim", taken, "")
		h.whileDown(30*time.Minute, func() {
			h.posts("anna", "progress", works, `{"checkpoint": {"n": 1}}`)
			h.posts("berta", "start", taken, "")
		})
		h.wantHistory(works, "create offer claim start progress")
		h.wantHistory(taken, "create offer claim start")
	})
}

// TestMailIsTakenOnce checks that no message is accepted twice, even without ids, when the
// rest of a crowded outbox is read in the step in which a wait for its agent ends and
// causes another scan.
func TestMailIsTakenOnce(t *testing.T) {
	for name, full := range map[string]bool{"room": false, "full disk": true} {
		t.Run(name, func(t *testing.T) {
			scenario(t, "anna berta", func(h *crew) {
				const files = batchEvents + batchPerTurn
				asking(h, `, "approvers": ["berta"]`)
				h.pass(h.settings.Tasks.ApprovalTimeout - time.Second)
				for n := range files {
					h.post("berta", fmt.Sprintf(`{"to": "anna", "body": "note %d"}`, n))
				}
				// The daemon stands still in the first batch, until the wait is over.
				end := make(chan struct{})
				h.callOnEvents(func(protocol.Event) { <-end })
				h.collect()
				h.pass(2 * time.Second)
				h.callOnEvents(nil)
				if full {
					h.disk.FailAt(1, durable.ErrNoSpace, 3, func(op faultfs.Op, name string) bool {
						return op == faultfs.OpWrite && name == protocol.PathLog
					})
				}
				close(end)
				synctest.Wait()
				h.pass(time.Hour)
				taken, times := map[string]bool{}, 0
				for _, e := range all[*protocol.MessageEvent](h) {
					if e.From == "berta" {
						taken[e.Original.Name] = true
						times++
					}
				}
				if len(taken) != files || times != files {
					t.Errorf("of %d files %d were accepted, in %d events", files, len(taken), times)
				}
			})
		})
	}
}
