package router

import (
	"strings"
	"testing"
	"time"

	"github.com/hived/hived/eventlog"
	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

// TestZombieIsFenced checks that a holder that was given up, and comes back and reports its
// task completed when another agent has it, is fenced.
func TestZombieIsFenced(t *testing.T) {
	scenario(t, "anna berta", func(h *crew) {
		id := h.create("human", `{"title": "tidy the docs"}`)
		h.begin("anna", id)
		h.pass(3 * time.Minute) // anna shows no sign of life
		h.pass(time.Minute)
		h.begin("berta", id)
		h.does("berta", "progress", id, `{"milestone": "half"}`)
		inbox := h.router.state.Agents["berta"].Delivered

		no := h.refused(protocol.CodeFenced, "anna", "complete", id, `{"result": "what a zombie made"}`)

		if v := h.is(id, task.InProgress); v.Holder != "berta" || v.Epoch != 2 {
			t.Errorf("%s has the task, epoch %d", v.Holder, v.Epoch)
		}
		if h.file(id, protocol.TaskResult) != "" {
			t.Error("the result of the old holder was accepted")
		}
		if now := h.router.state.Agents["berta"].Delivered; now != inbox {
			t.Errorf("berta was told of the fenced report: she has %d messages, not %d", now, inbox)
		}
		ev, err := eventlog.ReadEvent(h.disk, no.Of)
		testenv.Must(t, err)
		if m, ok := ev.Body.(*protocol.MessageEvent); !ok || !strings.Contains(m.Raw, "what a zombie made") || no.Epoch != 1 {
			t.Errorf("the log has %v of the report, with epoch %d", ev.Body, no.Epoch)
		}
		h.does("berta", "complete", id, `{"result": "what berta made"}`)
		if r := h.file(id, protocol.TaskResult); !strings.Contains(r, "what berta made") {
			t.Errorf("the result is %s", r)
		}
	})
}

// TestHolderKilled checks that another agent goes on from the checkpoint of a holder that
// is gone.
func TestHolderKilled(t *testing.T) {
	scenario(t, "anna berta", func(h *crew) {
		id := h.create("human", `{"title": "copy the pages"}`)
		h.begin("anna", id)
		h.passAlive(time.Minute, "anna")
		h.does("anna", "progress", id, `{"milestone": "page 40", "checkpoint": {"page": 40}}`)
		h.pass(2*time.Minute + time.Second)
		h.is(id, task.Stalled)
		h.wantTold("anna", protocol.CodeStalled, 1, "not heard of")

		h.pass(30 * time.Second)
		if v := h.is(id, task.Unassigned); v.Checkpoint == nil || v.Checkpoint.Milestone != "page 40" || v.Holder != "" {
			t.Errorf("what is left of anna's work is %+v, holder %q", v.Checkpoint, v.Holder)
		}
		h.wantTold("anna", protocol.CodeReleased, 1, "Epoch 1 is over")

		h.pass(2 * time.Second)
		h.is(id, task.Offered)
		offers := h.told("berta", protocol.CodeTaskOffer)
		if last := offers[len(offers)-1].Body; !strings.Contains(last, "go on from tasks/"+string(id)+"/checkpoint.json") {
			t.Errorf("berta was offered: %s", last)
		}
		h.does("berta", "accept", id, "")
		h.does("berta", "start", id, "")
		if c := h.file(id, protocol.TaskCheckpoint); !strings.Contains(c, `"page": 40`) {
			t.Errorf("berta goes on from %s", c)
		}
		h.does("berta", "progress", id, `{"milestone": "page 80", "patch": {"page": 80}}`)
		h.does("berta", "complete", id, "")
		if v := h.is(id, task.Completed); v.Attempt != 2 || v.Epoch != 2 || v.Retries != 1 {
			t.Errorf("attempt %d, epoch %d, retries %d", v.Attempt, v.Epoch, v.Retries)
		}
		h.wantTold("human", protocol.CodeTaskCompleted, 1, "berta")
	})
}

// TestAliveWithoutProgress checks that a holder that is alive and reaches nothing new is
// stalled, and that reporting the same again is nothing new.
func TestAliveWithoutProgress(t *testing.T) {
	scenario(t, "anna", func(h *crew) {
		id := h.create("human", `{"title": "think"}`)
		h.begin("anna", id)
		h.passAlive(time.Minute, "anna")
		h.does("anna", "progress", id, `{"milestone": "a plan", "checkpoint": {"a": 1, "b": 2}}`)
		h.passAlive(4*time.Minute, "anna")
		h.does("anna", "progress", id, `{"milestone": "a plan", "checkpoint": {"b": 2, "a": 1}}`)
		h.passAlive(50*time.Second, "anna")
		h.is(id, task.InProgress)
		h.passAlive(20*time.Second, "anna")
		if v := h.is(id, task.Stalled); !strings.Contains(v.Reason, "alive and reached nothing new") {
			t.Errorf("the task is stalled because %s", v.Reason)
		}
		if n := len(h.times(id, task.HeartbeatLost)); n != 0 {
			t.Errorf("the heartbeat was lost %d times", n)
		}
		h.does("anna", "progress", id, `{"milestone": "a better plan"}`)
		h.is(id, task.InProgress)
		h.passAlive(4*time.Minute+50*time.Second, "anna")
		h.is(id, task.InProgress)
		h.wantHistory(id, "create offer claim start progress progress progress_stalled recovered progress")
	})
}

// TestDeclaredSilence checks that a holder that says that it will be silent may be, for an
// hour at most.
func TestDeclaredSilence(t *testing.T) {
	scenario(t, "anna", func(h *crew) {
		id := h.create("human", `{"title": "train the model"}`)
		h.begin("anna", id)
		in := func(d time.Duration) string {
			return `{"milestone": "it runs", "expected_until": "` + time.Now().Add(d).Format(time.RFC3339) + `"}`
		}
		no := h.refused(protocol.CodeBadCommand, "anna", "progress", id, in(61*time.Minute))
		if !strings.Contains(no.Detail, "1h0m0s ahead") {
			t.Errorf("the refusal says: %s", no.Detail)
		}
		h.does("anna", "progress", id, in(50*time.Minute))
		h.pass(51 * time.Minute)
		h.is(id, task.InProgress)
		h.pass(time.Minute + time.Second)
		h.is(id, task.Stalled)
		h.does("anna", "complete", id, "")
		h.is(id, task.Completed)
	})
}

// TestDeclaredSilenceAsALength checks that a holder may say for how long it will be silent,
// counted from when the report was put there, with the same limit.
func TestDeclaredSilenceAsALength(t *testing.T) {
	scenario(t, "anna", func(h *crew) {
		id := h.create("human", `{"title": "train the model"}`)
		h.begin("anna", id)
		for data, want := range map[string]string{
			`{"expected_for": "61m"}`:  "expected_for lies more than 1h0m0s ahead",
			`{"expected_for": "-20m"}`: `write for example "20m"`,
			`{"expected_for": "soon"}`: `write for example "20m"`,
			`{"expected_for": "50"}`:   `write for example "20m"`,
			`{"expected_for": "5m", "expected_until": "2000-01-01T00:05:00Z"}`:      "say one of them",
			`{"expected_for": "5m", "expected_until": "1999-01-01T00:05:00Z"}`:      "say one of them",
			`{"expected_for": 20, "milestone": "minutes are not said by a number"}`: "does not fit",
		} {
			if no := h.refused(protocol.CodeBadCommand, "anna", "progress", id, data); !strings.Contains(no.Detail, want) {
				t.Errorf("the refusal of %s says: %s", data, no.Detail)
			}
		}
		h.posts("anna", "progress", id, `{"milestone": "it runs", "expected_for": "50m"}`)
		h.pass(time.Minute)
		h.collect()
		if v := h.is(id, task.InProgress); time.Until(v.Expected).Round(time.Second) != 49*time.Minute {
			t.Errorf("the next report is expected in %s", time.Until(v.Expected))
		}
		h.pass(50 * time.Minute)
		h.is(id, task.InProgress)
		h.pass(time.Minute + time.Second)
		h.is(id, task.Stalled)
		h.does("anna", "complete", id, `{"expected_for": "1m"}`)
		h.wantIgnored("anna", "complete", "expected_for")
		h.is(id, task.Completed)
	})
}

// TestAliveFile checks that touching the alive file is a sign of life, whatever its time
// is, and that a file that is there and not touched is none.
func TestAliveFile(t *testing.T) {
	scenario(t, "anna berta", func(h *crew) {
		h.beat("berta")
		kept, dead := h.create("human", `{"title": "with signs"}`), h.create("human", `{"title": "without"}`)
		h.begin("anna", kept)
		h.begin("berta", dead)
		h.passAlive(110*time.Second, "anna")
		h.is(dead, task.InProgress)
		h.passAlive(15*time.Second, "anna")
		h.is(kept, task.InProgress)
		if v := h.is(dead, task.Stalled); !strings.Contains(v.Reason, "berta was not heard of for 2m0s") {
			t.Errorf("the task is stalled because %s", v.Reason)
		}
		h.beat("berta")
		h.pass(30 * time.Second)
		h.is(dead, task.InProgress)
		h.wantHistory(dead, "create offer claim start heartbeat_lost recovered")
		for _, e := range all[*protocol.FileEvent](h) {
			if strings.HasSuffix(e.Path, "/alive") {
				t.Errorf("%s was versioned", e.Path)
			}
		}
	})
}

// TestReportsAreSignsOfLife checks that a holder that reports needs no alive file.
func TestReportsAreSignsOfLife(t *testing.T) {
	scenario(t, "anna", func(h *crew) {
		id := h.create("human", `{"title": "count"}`)
		h.begin("anna", id)
		for _, step := range []string{"one", "two", "three", "four"} {
			h.pass(100 * time.Second)
			h.does("anna", "progress", id, `{"milestone": "`+step+`"}`)
		}
		h.wantHistory(id, "create offer claim start progress progress progress progress")
	})
}

// TestOldSignsSayNothing checks that an alive file that was touched before the daemon
// started is no sign of life.
func TestOldSignsSayNothing(t *testing.T) {
	scenario(t, "anna", func(h *crew) {
		id := h.create("human", `{"title": "think"}`)
		h.begin("anna", id)
		h.pass(2*time.Minute + time.Second)
		h.is(id, task.Stalled)
		h.beat("anna")
		h.down()
		h.pass(time.Minute)
		h.up()
		h.pass(29 * time.Second)
		h.is(id, task.Stalled)
		h.pass(2 * time.Second)
		h.wantHistory(id, "create offer claim start heartbeat_lost release")
	})
}
