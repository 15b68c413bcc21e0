package matrix

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/hived/hived/protocol"
)

var messages = []row{
	{
		name: "from-forged", given: "`from` names somebody else", answer: "`from` is the owner of the outbox; what was claimed is logged",
		run: func(h *hive) {
			h.send(h.alice, "1.json", `{"id":"m","from":"carol","to":"`+h.bob+`","body":"x"}`)
			h.others()
			e := h.message(h.alice, "m")
			if e.ClaimedFrom != "carol" || len(h.arrived(h.bob, h.alice)) != 1 || len(h.arrived(h.bob, "carol")) != 0 {
				h.t.Errorf("the event has claimed_from %q", e.ClaimedFrom)
			}
		},
	},
	{
		name: "keys-look-alike", given: "`FROM`, `To`, and `from` with a Cyrillic letter stand beside the fields", answer: "they are other fields: kept as they were written, never taken for those",
		run: func(h *hive) {
			h.send(h.alice, "1.json", `{"id":"m","FROM":"carol","To":"dave","frоm":"dave","ID":"n","to":"`+h.bob+`","body":"x"}`)
			h.others()
			e := h.message(h.alice, "m")
			got := h.arrived(h.bob, h.alice)
			if len(got) != 1 || !strings.Contains(got[0], `"FROM": "carol"`) || !strings.Contains(got[0], `"frоm": "dave"`) || len(e.Delivered) != 1 || e.ClaimedFrom != "" {
				h.t.Errorf("bob has %q", got)
			}
		},
	},
	{
		name: "seq-forged", given: "a message brings `seq` and `received_at` of its own", answer: "they are overwritten with those of its event",
		run: func(h *hive) {
			h.send(h.alice, "1.json", `{"id":"m","seq":1,"received_at":"1999-01-01T00:00:00Z","to":"`+h.bob+`","body":"x"}`)
			h.others()
			h.message(h.alice, "m")
			if got := h.arrived(h.bob, h.alice); len(got) != 1 || strings.Contains(got[0], "1999-01-01") || strings.Contains(got[0], `"seq": 1,`) {
				h.t.Errorf("bob has %q", got)
			}
		},
	},
	{
		name: "text-that-acts", given: "subject and body hold ANSI escapes, a line break, `</script>`, U+2028 and a right-to-left mark", answer: "delivered exactly as it was sent; inert in the log, in git and on a terminal",
		run: func(h *hive) {
			subject := `\u001b[2J\u001b]0;x\u0007\r\n</script>` + "\u2028\u202e"
			h.send(h.alice, "1.json", `{"id":"m","to":"`+h.bob+`","subject":"`+subject+`","body":"$(reboot); --force`+"\u2029"+`"}`)
			h.others()
			h.message(h.alice, "m")
			if got := h.arrived(h.bob, h.alice); len(got) != 1 || !strings.Contains(got[0], `"subject": "`+subject+`"`) {
				h.t.Errorf("bob has %q", got)
			}
			for line := range strings.Lines(h.read(protocol.PathLog)) {
				if strings.Contains(line, "\u2028") || strings.Contains(line, "\x1b") {
					h.t.Errorf("a line of the log is not inert: %q", line)
				}
			}
		},
	},
	{
		name: "same-id-same-text", given: "the same message is sent a second time", answer: "a `duplicate`: delivered once, and the sender is told",
		run: func(h *hive) {
			text := `{"id":"m","to":"` + h.bob + `","body":"x"}`
			h.send(h.alice, "1.json", text)
			h.message(h.alice, "m")
			h.send(h.alice, "2.json", ` {"body":"x", "id":"m","to":"`+h.bob+`"} `)
			h.others()
			h.told(h.alice, protocol.CodeDuplicate)
			if n := len(h.arrived(h.bob, h.alice)); n != 1 {
				h.t.Errorf("bob has %d messages", n)
			}
		},
	},
	{
		name: "same-id-other-text", given: "an id is used again for something else", answer: "set aside as `id-conflict`; its author is told, the first is delivered",
		run: func(h *hive) {
			h.send(h.alice, "1.json", `{"id":"m","to":"`+h.bob+`","body":"x"}`)
			h.message(h.alice, "m")
			h.send(h.alice, "2.json", `{"id":"m","to":"`+h.bob+`","body":"y"}`)
			h.others()
			h.quarantined(h.alice, "", protocol.CodeIDConflict)
			h.told(h.alice, protocol.CodeIDConflict)
			if got := h.arrived(h.bob, h.alice); len(got) != 1 || !strings.Contains(got[0], `"body": "x"`) {
				h.t.Errorf("bob has %q", got)
			}
		},
	},
	{
		name: "same-id-other-sender", given: "two senders use the same id", answer: "two messages, both delivered",
		run: func(h *hive) {
			h.send(h.alice, "1.json", `{"id":"m","to":["`+h.bob+`","`+h.alice+`"],"body":"x"}`)
			h.send(h.bob, "1.json", `{"id":"m","to":["`+h.bob+`","`+h.alice+`"],"body":"y"}`)
			h.others()
			h.message(h.alice, "m")
			h.message(h.bob, "m")
			if a, b := len(h.arrived(h.bob, h.alice)), len(h.arrived(h.bob, h.bob)); a != 1 || b != 1 {
				h.t.Errorf("bob has %d from alice and %d of his own", a, b)
			}
		},
	},
	{
		name: "same-id-other-case", given: "ids that differ in the case of letters, and a ULID in small letters", answer: "they are different ids; no inbox file takes the place of another",
		run: func(h *hive) {
			ids := []string{"Mail", "mail", "01ARZ3NDEKTSV4RRFFQ69G5FAV", "01arz3ndektsv4rrffq69g5fav"}
			for i, id := range ids {
				h.send(h.alice, fmt.Sprintf("%d.json", i), `{"id":"`+id+`","to":"`+h.bob+`","body":"x"}`)
			}
			h.others()
			for _, id := range ids {
				h.message(h.alice, id)
			}
			if n := len(h.arrived(h.bob, h.alice)); n != len(ids) {
				h.t.Errorf("bob has %d messages", n)
			}
		},
	},
	{
		name: "recipient-unknown", given: "a recipient that does not exist, with a name close to one that does", answer: "dropped as `no-inbox`; the sender is told the nearest name, and no directory is made",
		run: func(h *hive) {
			nobody := h.bob[:len(h.bob)-1] + "bb"
			h.send(h.alice, "1.json", `{"id":"m","to":["`+nobody+`","`+h.bob+`"],"body":"x"}`)
			h.others()
			h.message(h.alice, "m")
			d := h.drop(h.alice, "m", protocol.NoInbox)
			if !strings.Contains(d.Detail, "did you mean "+h.bob) || h.exists("agents/"+nobody) || len(h.arrived(h.bob, h.alice)) != 1 {
				h.t.Errorf("the drop has the detail %q", d.Detail)
			}
			h.told(h.alice, protocol.Code(protocol.NoInbox))
		},
	},
	{
		name: "recipients-10000", given: "`to` names 10,000 unknown agents, and one that exists", answer: "the one gets it; one event and one notice for all of the others",
		run: func(h *hive) {
			to := make([]string, 10_000)
			for i := range to {
				to[i] = fmt.Sprintf(`"nobody-%d"`, i)
			}
			h.send(h.alice, "1.json", `{"id":"m","to":[`+strings.Join(to, ",")+`,"`+h.bob+`"],"body":"x"}`)
			h.others()
			e := h.message(h.alice, "m")
			if d := h.drop(h.alice, "m", protocol.NoInbox); len(d.To) != len(to) || !slices.Equal(e.Delivered, []protocol.AgentID{protocol.AgentID(h.bob)}) {
				h.t.Errorf("dropped for %d, delivered to %v", len(d.To), e.Delivered)
			}
			h.told(h.alice, protocol.Code(protocol.NoInbox))
			if n := len(h.list(h.inbox(h.alice))); n != 1 {
				h.t.Errorf("alice has %d notices", n)
			}
		},
	},
	{
		name: "recipient-repeated-and-self", given: "`to` names one agent twice, and the sender", answer: "each gets it once",
		run: func(h *hive) {
			h.send(h.alice, "1.json", `{"id":"m","to":["`+h.bob+`","`+h.alice+`","`+h.bob+`","`+h.alice+`"],"body":"x"}`)
			h.others()
			h.message(h.alice, "m")
			if a, b := len(h.arrived(h.alice, h.alice)), len(h.arrived(h.bob, h.alice)); a != 1 || b != 1 {
				h.t.Errorf("alice has %d, bob %d", a, b)
			}
		},
	},
	{
		name: "broadcast-to-nobody", given: "a broadcast where everybody else is archived", answer: "accepted, delivered to nobody", on: own,
		run: func(h *hive) {
			for _, id := range []string{"bob", "carol", "dave"} {
				h.command("agent-archive", id)
			}
			h.send("alice", "1.json", `{"id":"m","to":"broadcast","body":"x"}`)
			h.others()
			if e := h.message("alice", "m"); len(e.Delivered) != 0 {
				h.t.Errorf("delivered to %v", e.Delivered)
			}
			for _, id := range []string{"bob", "carol", "dave"} {
				h.command("agent-restore", id)
			}
		},
	},
	{
		name: "expired-before-it-was-sent", given: "`expires_at` lies in the past", answer: "dropped as `expired` for all; the sender is told",
		run: func(h *hive) {
			h.send(h.alice, "1.json", `{"id":"m","to":"`+h.bob+`","body":"x","expires_at":"2001-01-01T00:00:00Z"}`)
			h.others()
			h.message(h.alice, "m")
			h.drop(h.alice, "m", protocol.Expired)
			h.told(h.alice, protocol.Code(protocol.Expired))
			if n := len(h.arrived(h.bob, h.alice)); n != 0 {
				h.t.Errorf("bob has %d messages", n)
			}
		},
	},
	{
		name: "reply-to-the-unknown", given: "`in_reply_to` names a message that never existed", answer: "delivered, with at least one hop",
		run: func(h *hive) {
			h.send(h.alice, "1.json", `{"id":"m","to":"`+h.bob+`","in_reply_to":"never-was","body":"x"}`)
			h.others()
			if e := h.message(h.alice, "m"); e.Hops != 1 || len(h.arrived(h.bob, h.alice)) != 1 {
				h.t.Errorf("the message has %d hops", e.Hops)
			}
		},
	},
	{
		name: "reply-to-the-dropped", given: "a reply to a message that nobody got", answer: "delivered in that conversation, with one hop more",
		run: func(h *hive) {
			h.send(h.alice, "1.json", `{"id":"to-nobody","to":"nobody-there","conversation":"`+h.row+`","hops":3,"body":"x"}`)
			h.drop(h.alice, "to-nobody", protocol.NoInbox)
			h.send(h.alice, "2.json", `{"id":"n","to":"`+h.bob+`","in_reply_to":"to-nobody","body":"x"}`)
			h.others()
			if e := h.message(h.alice, "n"); e.Hops != 1 || string(e.Conversation) != h.row {
				h.t.Errorf("the message has %d hops in %s", e.Hops, e.Conversation)
			}
		},
	},
	{
		name: "hops-forged-high", given: "`hops` claims two thousand million", answer: "kept, as `hop-cap`: a claim can only make it more",
		run: func(h *hive) {
			h.send(h.alice, "1.json", `{"id":"m","to":"`+h.bob+`","hops":2147483647,"body":"x"}`)
			h.others()
			await(h, "that it is kept", func(e *protocol.MessageEvent) bool {
				return string(e.From) == h.alice && e.ID == "m" && e.Kept != nil && e.Kept.Reason == protocol.HopCap
			})
			h.told(h.alice, protocol.Code(protocol.HopCap))
		},
	},
	{
		name: "loop-of-two", given: "two agents answer each other for ever, one claiming no hops and one leaving them out", answer: "stopped at `hop_cap`; the sender is told once, and the notice does not loop",
		run: func(h *hive) { h.loop(h.alice, h.bob) },
	},
	{
		name: "loop-of-four", given: "four agents pass a message around for ever, in one conversation and without `in_reply_to`", answer: "stopped at `hop_cap`; the sender is told once",
		run: func(h *hive) {
			c, d := h.row+"-c", h.row+"-d"
			for _, id := range []string{c, d} {
				h.mkdir(h.outbox(id))
				h.joined(id)
			}
			h.loop(h.alice, h.bob, c, d)
		},
	},
	{
		name: "loop-over-conversations", given: "two agents answer each other for ever, each time in a new conversation", answer: "stopped at `routing.breaker.echoes`: what comes then waits in the outbox, as `echo-cap`, and goes on with `hived continue --agent`", on: own,
		set: func(s *protocol.Settings) { s.Routing.Breaker.Echoes = 3 },
		run: func(h *hive) {
			ids := []string{"alice", "bob"}
			say := func(i int) {
				h.send(ids[i%2], fmt.Sprintf("m%d.json", i), fmt.Sprintf(`{"id":"m%d","conversation":"c%d","to":"%s","body":"x"}`, i, i, ids[(i+1)%2]))
			}
			for i := range 7 {
				if say(i); i == 2 {
					h.others()
				}
				h.message(ids[i%2], fmt.Sprintf("m%d", i))
			}
			say(7)
			await(h, "the alert", func(e *protocol.AlertEvent) bool { return e.Code == protocol.CodeEchoCap && e.Agent == "bob" })
			h.told("bob", protocol.CodeEchoCap)
			if !h.exists("agents/bob/outbox/m7.json") {
				h.t.Error("what waits is not in the outbox")
			}
			h.send("human", "continue.json", `{"to":"hive","event":"continue","data":{"agent":"bob"}}`)
			h.message("bob", "m7")
		},
	},
	{
		name: "command-unknown", given: "an unknown command, from somebody who may give commands", answer: "answered with `unknown-command`",
		run: func(h *hive) {
			h.send("human", h.row+".json", `{"to":"hive","event":"self-destruct"}`)
			h.others()
			h.told("human", protocol.CodeUnknownCommand)
		},
	},
	{
		name: "command-of-nobody", given: "an agent that is not the lead commands another to be archived", answer: "answered with `not-allowed`; nothing is done",
		run: func(h *hive) {
			h.send(h.alice, "1.json", `{"id":"m","to":"hive","event":"agent-archive","data":{"agent":"`+h.bob+`"}}`)
			h.others()
			h.told(h.alice, protocol.CodeNotAllowed)
			if n := len(all(h, func(e *protocol.AgentEvent) bool { return string(e.Agent) == h.bob && e.Action == protocol.Archived })); n != 0 {
				h.t.Error("bob is archived")
			}
		},
	},
	{
		name: "command-without-its-data", given: "`agent-hold` without an agent, with a list as `data`, and of an unknown agent", answer: "answered with `bad-command` and `unknown-agent`",
		run: func(h *hive) {
			for i, data := range []string{`{}`, `[1]`, `{"agent":"nobody-there"}`} {
				h.send("human", fmt.Sprintf("%s-%d.json", h.row, i), `{"id":"`+h.row+strconv.Itoa(i)+`","to":"hive","event":"agent-hold","data":`+data+`}`)
			}
			h.others()
			h.told("human", protocol.CodeBadCommand)
			h.told("human", protocol.CodeUnknownAgent)
			if n := len(all(h, func(e *protocol.AgentEvent) bool { return e.Action == protocol.Held })); n != 0 {
				h.t.Error("an agent is held")
			}
		},
	},
	{
		name: "sender-held", given: "an agent sends while it is held", answer: "its file waits in the outbox, and is delivered when it is released", on: own,
		run: func(h *hive) {
			h.command("agent-hold", "alice")
			h.send("alice", "1.json", `{"id":"m","to":"bob","body":"x"}`)
			h.send("bob", "1.json", `{"id":"back","to":"alice","body":"x"}`)
			h.message("bob", "back")
			h.others()
			if !h.exists("agents/alice/outbox/1.json") {
				h.t.Error("the message was accepted")
			}
			h.command("agent-release", "alice")
			h.message("alice", "m")
		},
	},
	{
		name: "field-misspelt", given: "a message with `in_replyto` and `actt`", answer: "delivered as it is; its author is told once what may have been meant (`misspelt`)", on: own,
		run: func(h *hive) {
			h.send("alice", "1.json", `{"id":"m","to":"bob","body":"x","in_replyto":"y","actt":"done"}`)
			h.others()
			h.message("alice", "m")
			h.told("alice", protocol.CodeMisspelt)
		},
	},
	{
		name: "recipient-archived", given: "a message to an agent that was archived", answer: "put into its inbox; the sender is told `archived-recipient`", on: own,
		run: func(h *hive) {
			h.command("agent-archive", "bob")
			h.send("alice", "1.json", `{"id":"m","to":"bob","body":"x"}`)
			h.others()
			h.told("alice", protocol.CodeArchivedRecipient)
			if n := len(h.arrived("bob", "alice")); n != 1 {
				h.t.Errorf("bob has %d messages", n)
			}
		},
	},
}

// command has human send a command about an agent, and waits until it is done.
func (h *hive) command(event, id string) {
	h.t.Helper()
	done := map[string]protocol.AgentAction{"agent-hold": protocol.Held, "agent-release": protocol.Released, "agent-archive": protocol.Archived, "agent-restore": protocol.Restored}[event]
	h.send("human", event+"-"+id+".json", `{"to":"hive","event":"`+event+`","data":{"agent":"`+id+`"}}`)
	await(h, event+" "+id, func(e *protocol.AgentEvent) bool { return string(e.Agent) == id && e.Action == done })
}

// loop has agents answer each other until hived stops it.
func (h *hive) loop(ids ...string) {
	h.t.Helper()
	last := h.exchange(h.set.HopCap+8, func(i int) string {
		more := fmt.Sprintf(`"conversation":%q`, h.row)
		if i%2 == 1 {
			more += `,"hops":0`
		}
		if i > 0 && len(ids) == 2 {
			more += fmt.Sprintf(`,"in_reply_to":"%s-%d"`, h.row, i-1)
		}
		return more
	}, ids...)
	h.ends(protocol.Code(protocol.HopCap), last, h.set.HopCap+1)
}

// exchange has each agent write to the next as long as messages are delivered, and
// returns the number of the first that is not.
func (h *hive) exchange(most int, more func(i int) string, ids ...string) int {
	h.t.Helper()
	for i := range most {
		from, to := ids[i%len(ids)], ids[(i+1)%len(ids)]
		id := fmt.Sprintf("%s-%d", h.row, i)
		h.send(from, id+".json", fmt.Sprintf(`{"id":"%s",%s,"to":"%s","body":"x"}`, id, more(i), to))
		if i == 2 {
			h.others()
		}
		if e := h.message(from, id); len(e.Delivered) == 0 {
			return i
		}
	}
	h.t.Fatalf("%d messages, and no end", most)
	return 0
}

// ends checks that a thread ended with this message, that its sender was told once,
// and that the answer to that notice causes nothing.
func (h *hive) ends(code protocol.Code, last, want int) {
	h.t.Helper()
	id := fmt.Sprintf("%s-%d", h.row, last)
	d := await(h, "that "+id+" is kept", func(e *protocol.MessageEvent) bool {
		return string(e.ID) == id && e.Kept != nil && string(e.Kept.Reason) == string(code)
	})
	from := string(d.From)
	notice := h.told(from, code)
	h.send(from, "answer.json", `{"id":"answer","to":"hive","in_reply_to":"`+string(notice.ID)+`","body":"understood"}`)
	h.message(from, "answer")
	h.stillSends()
	if n := len(all(h, isNotice(from, code))); n != 1 || last != want {
		h.t.Errorf("the thread ended with message %d, want %d; its sender was told %d times", last, want, n)
	}
}
