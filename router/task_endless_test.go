package router

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hived/hived/protocol"
)

// TestWhoAnswersEverything checks that an agent that answers every message of hive does not
// talk with it for ever, whatever it answers.
func TestWhoAnswersEverything(t *testing.T) {
	const most = 6 // messages of hive, the offer among them
	for name, answer := range map[string]string{
		"prose":                  `"act": "inform", "body": "thank you", "in_reply_to": "OF"`,
		"agree":                  `"act": "agree", "in_reply_to": "OF"`,
		"unknown event":          `"event": "agreed", "task": "ID", "in_reply_to": "OF"`,
		"unknown event anew":     `"event": "agreed", "task": "ID"`,
		"acknowledgement":        `"event": "ack", "in_reply_to": "OF"`,
		"acknowledgement anew":   `"event": "ack"`,
		"wrong epoch":            `"event": "progress", "task": "ID", "epoch": 7, "data": {"milestone": "x"}, "in_reply_to": "OF"`,
		"another's task":         `"event": "complete", "task": "ID", "in_reply_to": "OF"`,
		"command of people":      `"event": "agent-hold", "data": {"agent": "anna"}, "in_reply_to": "OF"`,
		"act that there is not":  `"act": "ack", "task": "ID", "in_reply_to": "OF"`,
		"reply asked for always": `"act": "query", "task": "ID", "requires_reply": true, "in_reply_to": "OF"`,
	} {
		t.Run(name, func(t *testing.T) {
			scenario(t, "anna", func(h *crew) {
				id := h.create("human", `{"title": "tidy the docs", "to": ["anna"]}`)
				said := 0
				for range 4 * most {
					list := h.toldAll("anna")
					if said == len(list) {
						break
					}
					for _, of := range list[said:] {
						said++
						h.post("anna", `{"to": "hive", `+strings.NewReplacer("OF", of, "ID", string(id)).Replace(answer)+`}`)
					}
					h.collect()
				}
				if n := len(h.toldAll("anna")); n > most || said != n {
					t.Errorf("hive sent anna %d messages, and she answered %d times", n, said)
				}
			})
		})
	}
}

// toldAll returns all that somebody got from hive.
func (h *crew) toldAll(who protocol.AgentID) (ids []string) {
	for _, e := range all[*protocol.MessageEvent](h) {
		if e.From == protocol.Hive && slices.Contains(e.Delivered, who) {
			ids = append(ids, string(e.ID))
		}
	}
	return ids
}

// TestRefusalsAlwaysCome checks that a refused command is answered each time, and an
// unknown one once an hour, also after a start.
func TestRefusalsAlwaysCome(t *testing.T) {
	scenario(t, "anna", func(h *crew) {
		id := h.create("human", `{"title": "tidy the docs", "to": ["anna"]}`)
		h.begin("anna", id)
		for i := range 10 {
			h.post("anna", fmt.Sprintf(`{"to": "hive", "event": "complete", "task": %q, "epoch": %d}`, id, i+2))
			h.post("anna", fmt.Sprintf(`{"to": "hive", "event": "finish", "task": %q, "epoch": 1}`, id))
			h.collect()
		}
		h.wantTold("anna", protocol.CodeFutureEpoch, 10)
		h.wantTold("anna", protocol.CodeUnknownCommand, 1)
		h.down()
		h.up()
		finish := func(n int) {
			h.Helper()
			h.post("anna", fmt.Sprintf(`{"to": "hive", "event": "finish", "task": %q, "epoch": 1}`, id))
			h.collect()
			h.wantTold("anna", protocol.CodeUnknownCommand, n)
		}
		finish(1)
		h.pass(time.Hour)
		finish(2)
	})
}
