package matrix

import (
	"context"
	"os"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/hived/hived/audit"
	"github.com/hived/hived/protocol"
)

// jumped returns a row in which the clock jumps while no daemon runs: it moves all
// that was logged the other way.
func jumped(name, given string, by time.Duration) row {
	return row{
		name: name, given: given, on: still, answer: "ids go on from the largest that was given out, so name order in an inbox stays the order of acceptance; no message expires or is lost by it",
		run: func(h *hive) {
			h.talked()
			h.redate(-by)
			before := h.list(h.inbox("bob"))
			h.others()
			h.up()
			h.send("alice", "m.json", `{"id":"m","to":"bob","body":"x"}`)
			if e := h.message("alice", "m"); e.File <= before[len(before)-1] {
				h.t.Errorf("%s comes before %s", e.File, before[len(before)-1])
			}
			h.send("bob", "r.json", `{"id":"r","to":"alice","in_reply_to":"sibling-1","body":"x"}`)
			if e := h.message("bob", "r"); e.Hops != 1 {
				h.t.Errorf("the reply has %d hops", e.Hops)
			}
			h.send("alice", "again.json", `{"id":"sibling-1","to":"bob","body":"sound"}`)
			h.told("alice", protocol.CodeDuplicate)
			if n := len(h.arrived("bob", "alice")); n != 3 {
				h.t.Errorf("bob has %d messages", n)
			}
			if n := len(all(h, func(e *protocol.DropEvent) bool { return true })); n != 0 {
				h.t.Errorf("%d were dropped", n)
			}
		},
	}
}

var clocks = []row{
	jumped("clock-a-day-back", "the clock goes back by a day", -24*time.Hour),
	jumped("clock-ten-years-ahead", "the clock goes ahead by ten years", 10*365*24*time.Hour),
	{
		name: "directory-from-the-future", given: "an outbox and an inbox have times ten years ahead, and then times of now again", answer: "what comes is noticed: times are compared for equality, not for order",
		run: func(h *hive) {
			late := time.Now().AddDate(10, 0, 0)
			for range 3 {
				h.must(os.Chtimes(h.path(h.outbox(h.alice)), late, late))
				h.must(os.Chtimes(h.path(h.inbox(h.bob)), late, late))
				h.stillSends()
			}
			h.others()
		},
	},
	{
		name: "expires-in-ten-thousand-years", given: "`expires_at` is the last second of the year 9999, and one in another zone", answer: "delivered",
		run: func(h *hive) {
			h.send(h.alice, "m.json", `{"id":"m","to":"`+h.bob+`","body":"x","expires_at":"9999-12-31T23:59:59Z"}`)
			h.send(h.alice, "n.json", `{"id":"n","to":"`+h.bob+`","body":"x","expires_at":"9999-12-31T23:59:59-23:59"}`)
			h.others()
			h.message(h.alice, "m")
			h.message(h.alice, "n")
			if n := len(h.arrived(h.bob, h.alice)); n != 2 {
				h.t.Errorf("bob has %d messages", n)
			}
		},
	},
	{
		name: "handled-ten-years-ago", given: "the clock goes ahead by ten years, past `retention.age` of all that was archived", on: still, answer: "what history holds leaves the work tree as swept; what is unread stays",
		run: func(h *hive) {
			h.talked()
			h.redate(-10 * 365 * 24 * time.Hour)
			h.others()
			h.up()
			await(h, "sweep", func(e *protocol.HiveEvent) bool {
				return e.Action == protocol.Swept && strings.Contains(strings.Join(e.Paths, " "), "agents/alice/outbox/.sent/sibling-1.json")
			})
			if n := len(h.arrived("bob", "alice")); n != 2 {
				h.t.Errorf("bob has %d messages", n)
			}
		},
	},
}

// redate makes all that was logged older or younger, with its ids and delivered
// files, and rebuilds history from it.
func (h *hive) redate(by time.Duration) {
	h.t.Helper()
	var out []byte
	var sum protocol.Sum
	for _, line := range h.lines() {
		ev, _, err := protocol.DecodeLine([]byte(strings.TrimSuffix(line, "\n")))
		h.must(err)
		ev.TS = ev.TS.Add(by)
		if e, ok := ev.Body.(*protocol.MessageEvent); ok {
			h.redateMessage(ev, e, by)
		}
		out, sum, err = protocol.AppendLine(out, ev, sum)
		h.must(err)
	}
	h.write(protocol.PathLog, string(out))
	h.remove(".git")
	h.remove(".hived/snapshot")
	h.forget(0)
	done, err := audit.Repair(context.Background(), h.real, audit.RepairOptions{Settings: h.set, Version: "test"})
	h.must(err)
	for _, f := range done.Left {
		h.t.Errorf("after the jump: %s", f)
	}
}

func (h *hive) redateMessage(ev protocol.Event, e *protocol.MessageEvent, by time.Duration) {
	h.t.Helper()
	m, err := protocol.DecodeMessage([]byte(e.Raw))
	h.must(err)
	data, err := protocol.Deliver(m, e.Set, ev.Seq, ev.TS)
	h.must(err)
	id, err := ulid.Parse(strings.TrimSuffix(e.File, ".json"))
	h.must(err)
	h.must(id.SetTime(ulid.Timestamp(ulid.Time(id.Time()).Add(by))))
	was := e.File
	e.File, e.Blob, e.Size = id.String()+".json", protocol.BlobOf(data), len(data)
	for _, to := range e.Delivered {
		h.remove(h.inbox(string(to)) + "/" + was)
		h.write(h.inbox(string(to))+"/"+e.File, string(data))
	}
}
