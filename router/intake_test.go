package router

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hived/hived/protocol"
)

// TestOutboxOfTheStopped checks that the messages of a stopped agent to agents wait in its
// outbox as they are, that later ones to people wait behind them, and that all go on in
// order, also across a restart.
func TestOutboxOfTheStopped(t *testing.T) {
	h := newHive(t, "alice", "bob")
	h.settings.Routing.Breaker.Echoes = 3
	h.settings.PairCap = 100
	for i := range 4 { // tokens for bob
		h.write(fmt.Sprintf("agents/alice/outbox/%d.json", i), `{"to":"bob","body":"x"}`)
	}
	h.once()
	for i := range 5 {
		h.write(fmt.Sprintf("agents/bob/outbox/1%d.json", i), fmt.Sprintf(`{"id":"b%d","to":"alice","body":"x"}`, i))
	}
	h.write("agents/bob/outbox/20.json", `{"id":"both","to":["alice","human"],"body":"x"}`)
	h.write("agents/bob/outbox/21.json", `{"id":"person","to":"human","body":"x"}`)
	h.write("agents/bob/outbox/22.json", `{"id":"report","to":"hive","body":"x"}`)
	h.once()
	h.once() // as after a restart
	left := slices.DeleteFunc(h.list("agents/bob/outbox"), func(n string) bool { return n == ".sent" })
	if diff := cmp.Diff([]string{"13.json", "14.json", "20.json", "21.json"}, left); diff != "" {
		t.Fatalf("in the outbox:\n%s\n%s", diff, h.story())
	}
	h.write("agents/human/outbox/1.json", `{"to":"hive","event":"continue","data":{"agent":"bob"}}`)
	h.once()
	if left := h.list("agents/bob/outbox"); len(left) > 1 {
		t.Errorf("still in the outbox: %v\n%s", left, h.story())
	}
	var order []string
	for _, ev := range h.log() {
		if e, ok := ev.Body.(*protocol.MessageEvent); ok && e.From == "bob" {
			order = append(order, string(e.ID))
		}
	}
	if diff := cmp.Diff([]string{"b0", "b1", "b2", "report", "b3", "b4", "both", "person"}, order); diff != "" {
		t.Error(diff)
	}
	h.quiet()
}

// TestKeptOnAHive checks that `hived continue` delivers what is kept, once, also if the
// daemon is down in between.
func TestKeptOnAHive(t *testing.T) {
	h := newHive(t, "alice", "bob")
	h.settings.HopCap = 1
	for i, from := range []string{"alice", "bob", "alice"} {
		to := map[string]string{"alice": "bob", "bob": "alice"}[from]
		h.write(fmt.Sprintf("agents/%s/outbox/%d.json", from, i), fmt.Sprintf(`{"id":"m%d","to":%q,"conversation":"c","body":"x"}`, i, to))
		h.once()
	}
	if got := h.list("agents/bob/inbox"); len(got) != 1 {
		t.Fatalf("bob has %v\n%s", got, h.story())
	}
	h.write("agents/human/outbox/1.json", `{"to":"hive","event":"continue","data":{"conversation":"c"}}`)
	h.once()
	h.once()
	got := h.list("agents/bob/inbox")
	if len(got) != 2 || !strings.Contains(h.read("agents/bob/inbox/"+got[1]), `"id": "m2"`) {
		t.Fatalf("bob has %v\n%s", got, h.story())
	}
	h.quiet()
}
