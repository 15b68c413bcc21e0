package router

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

// TestCheckpointWithAnyReport checks that the checkpoint in any report is saved by the same
// decision, and that the next holder goes on from it.
func TestCheckpointWithAnyReport(t *testing.T) {
	tests := []struct {
		event, data string     // of the report, to which the checkpoint is added
		state       task.State // after the report; empty: any
	}{
		{"progress", ``, task.InProgress},
		{"pause_for_approval", `"question": "May I delete it?", `, task.Paused},
		{"block_on_dependency", `"needs": ["$OTHER"], `, task.Blocked},
		{"transient_error", `"reason": "no network", `, task.Retrying},
		{"fatal_error", `"reason": "it cannot be done", `, task.Failed},
		{"failure", `"category": "transient", `, task.Retrying},
		{"failure", `"category": "auth", `, task.Paused},
		{"failure", `"category": "ambiguity", "reason": "which one?", `, task.Paused},
		{"failure", `"category": "schema", `, task.Blocked},
		{"failure", `"category": "logic", "reason": "it is wrong", `, task.Blocked},
		{"release", `"reason": "I lack the tools", `, ""},
		{"complete", `"result": 1, `, task.Completed},
		{"cancelled", ``, task.Cancelled},
	}
	for _, x := range tests {
		t.Run(x.event+x.data, func(t *testing.T) {
			scenario(t, "anna", func(h *crew) {
				other := h.create("human", `{"title": "another", "to": ["human"]}`)
				id := h.create("human", `{"title": "copy the pages", "to": ["anna"]}`)
				h.begin("anna", id)
				h.does("anna", "progress", id, `{"milestone": "begun", "checkpoint": {"page": 1, "of": 90}}`)
				if x.event == "cancelled" {
					h.does("human", "cancel", id, "")
				}
				h.pass(1)
				data := strings.ReplaceAll("{"+x.data, "$OTHER", string(other))
				h.does("anna", x.event, id, data+`"milestone": "page 40", "patch": {"page": 40}}`)

				if x.state != "" {
					h.is(id, x.state)
				}
				if v := h.view(id); v.Checkpoint == nil || v.Checkpoint.Milestone != "page 40" {
					t.Errorf("task.json has the checkpoint %+v", v.Checkpoint)
				}
				var c task.Reached
				h.must(json.Unmarshal([]byte(h.file(id, protocol.TaskCheckpoint)), &c))
				if got := string(c.Data); strings.Join(strings.Fields(got), "") != `{"of":90,"page":40}` || c.Milestone != "page 40" {
					t.Errorf("checkpoint.json holds %s %s", c.Milestone, got)
				}
				for _, e := range all[*protocol.TaskEvent](h) {
					if e.Checkpoint != nil && e.Checkpoint.Milestone == "page 40" && string(e.Event) == "recovered" {
						t.Errorf("the checkpoint came with %s", e.Event)
					}
				}
			})
		})
	}
}

// TestReasonBesideCheckpoint checks that the history has the reason of a report also if a
// checkpoint came with it.
func TestReasonBesideCheckpoint(t *testing.T) {
	scenario(t, "anna", func(h *crew) {
		id := h.create("human", `{"title": "copy the pages"}`)
		h.begin("anna", id)
		h.does("anna", "release", id, `{"reason": "I lack the tools", "milestone": "page 40", "checkpoint": {"page": 40}}`)
		i := slices.IndexFunc(h.view(id).History, func(s task.Step) bool { return s.Event == task.Release })
		if note := h.view(id).History[i].Note; note != "I lack the tools" {
			t.Errorf("the history says %q", note)
		}
	})
}

// TestIgnoredMembers checks that an answer, even if none was asked for, names the members
// that a report cannot use, and that a member that no report has is refused with the
// nearest name.
func TestIgnoredMembers(t *testing.T) {
	scenario(t, "anna", func(h *crew) {
		id := h.create("human", `{"title": "copy the pages"}`)
		h.does("anna", "claim", id, "")
		h.does("anna", "start", id, `{"checkpoint": {"page": 40}, "expected_until": "9999-01-01T00:00:00Z", "reason": "now"}`)
		h.wantIgnored("anna", "start", "checkpoint", "expected_until")
		h.does("anna", "progress", id, `{"milestone": "page 40"}`)
		h.does("anna", "failure", id, `{"category": "transient", "question": "why?", "result": 1}`)
		h.wantIgnored("anna", "failure", "question", "result")
		h.pass(2_000_000_000)
		h.does("anna", "failure", id, `{"category": "auth", "not_before": "9999-01-01T00:00:00Z"}`)
		h.wantIgnored("anna", "failure", "not_before")

		no := h.refused(protocol.CodeBadCommand, "anna", "release", id, `{"milestoen": "page 41"}`)
		if !strings.Contains(no.Detail, `"milestoen"; did you mean milestone?`) {
			t.Errorf("the refusal says: %s", no.Detail)
		}
		no = h.refused(protocol.CodeBadCommand, "human", "create", "", `{"tasks": [{"titel": "x"}]}`)
		if !strings.Contains(no.Detail, `"titel"; did you mean title?`) {
			t.Errorf("the refusal says: %s", no.Detail)
		}
	})
}

// wantIgnored fails unless the newest answer names what was ignored.
func (h *crew) wantIgnored(who protocol.AgentID, event string, want ...string) {
	h.Helper()
	list := all[*protocol.MessageEvent](h)
	for _, e := range slices.Backward(list) {
		if e.From != protocol.Hive || !slices.Contains(e.Delivered, who) {
			continue
		}
		var m struct {
			Body string
			Data struct {
				Code    protocol.Code
				Ignored []string
			}
		}
		h.must(json.Unmarshal([]byte(e.Raw), &m, json.MatchCaseInsensitiveNames(true)))
		if m.Data.Code != protocol.CodeOK {
			continue
		}
		if diff := cmp.Diff(want, m.Data.Ignored); diff != "" || !strings.Contains(m.Body, strings.Join(want, ", ")) {
			h.Errorf("the answer to %s says %q (-want +got):\n%s", event, m.Body, diff)
		}
		return
	}
	h.Errorf("%s got no answer to %s", who, event)
}

// TestOffersNameNoEpoch checks that offers name no epoch, because there is none yet, and
// that whoever takes the task is told it, even without asking.
func TestOffersNameNoEpoch(t *testing.T) {
	scenario(t, "anna", func(h *crew) {
		id := h.create("human", `{"title": "copy the pages", "to": ["anna"]}`)
		for _, e := range all[*protocol.MessageEvent](h) {
			if strings.Contains(e.Raw, `"task-offer"`) && strings.Contains(e.Raw, "epoch") {
				t.Errorf("the offer to anna is %s", e.Raw)
			}
		}
		for i, x := range []struct{ event, wants string }{{"accept", ``}, {"claim", `, "requires_reply": false`}, {"accept", `, "requires_reply": false`}, {"claim", ``}} {
			h.post("anna", `{"to": "hive", "event": "`+x.event+`", "task": "`+string(id)+`"`+x.wants+`}`)
			h.collect()
			list := h.told("anna", protocol.CodeOK)
			if len(list) != i+1 || list[i].Data.Task != id || list[i].Data.Epoch != uint64(i+1) {
				t.Fatalf("%s%s was answered with %+v", x.event, x.wants, list)
			}
			h.does("anna", "release", id, "")
			h.pass(31 * time.Second) // it is offered again
		}
	})
}

// TestWrongEpochOfTheHolder checks that a holder that sends a wrong epoch is told the right
// one, and not that the task was taken away.
func TestWrongEpochOfTheHolder(t *testing.T) {
	scenario(t, "anna berta", func(h *crew) {
		id := h.create("human", `{"title": "copy the pages"}`)
		h.does("anna", "claim", id, "")
		wrong := func(who protocol.AgentID, epoch, text string, code protocol.Code) {
			h.Helper()
			message := fmt.Sprint("wrong-", h.sent)
			no := h.refusedText(code, who, id, message, `{"to": "hive", "id": "`+message+`", "event": "start", "task": "`+string(id)+`"`+epoch+`}`)
			if !strings.Contains(no.Detail, text) {
				t.Errorf("the refusal of %s of %s says: %s", epoch, who, no.Detail)
			}
		}
		wrong("anna", ``, "you hold it under epoch 1", protocol.CodeMissingEpoch)
		wrong("anna", `, "epoch": 0`, "you hold it under epoch 1", protocol.CodeMissingEpoch)
		wrong("anna", `, "epoch": 2`, "you hold it under epoch 1", protocol.CodeFutureEpoch)
		wrong("berta", `, "epoch": 0`, "anna has this task", protocol.CodeNotHolder)
		wrong("berta", `, "epoch": 2`, "the task is at epoch 1", protocol.CodeFutureEpoch)
		h.does("anna", "release", id, "")
		wrong("anna", `, "epoch": 1`, "epoch 1 is over: you no longer have the task", protocol.CodeFenced)
		h.pass(time.Hour)
		h.does("anna", "claim", id, "")
		wrong("anna", `, "epoch": 1`, "epoch 1 is over: you hold it under epoch 2", protocol.CodeFenced)
	})
}
