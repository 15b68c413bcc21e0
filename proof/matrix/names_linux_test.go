package matrix

import (
	"os"
	"strings"

	"github.com/hived/hived/protocol"
)

var names = []row{
	{
		name: "file-names-that-act", given: "outbox files named with a line break, an escape, broken UTF-8, a right-to-left mark, `-rf`, `$(x)`, a backslash and U+2028",
		answer: "all delivered; archived under names that are inert in a log, on a terminal and in git",
		run: func(h *hive) {
			for _, name := range []string{"new\nline.json", "\x1b[31mred.json", "\xff\xfe.json", "\u202egpj.json", "-rf.json", "$(x);`y`.json", "a\\b:c.json", "\u2028.json"} {
				h.write(h.outbox(h.alice)+"/"+name, `{"to":"`+h.bob+`","body":"x"}`)
			}
			h.others()
			h.eventually("all of them", func() bool { return len(h.arrived(h.bob, h.alice)) == 8 && len(h.list(h.sent(h.alice))) == 8 })
			for _, name := range h.list(h.sent(h.alice)) {
				if protocol.SafeName(name) != name {
					h.t.Errorf("archived as %q", name)
				}
			}
		},
	},
	{
		name: "file-names-special-to-git", given: "outbox files named `git~1.json`, `CON.json`, `HEAD.json`, `aux.json` and `index.lock.json`",
		answer: "messages like any other; in history under their names",
		run: func(h *hive) {
			list := []string{"git~1.json", "CON.json", "HEAD.json", "aux.json", "index.lock.json"}
			for _, name := range list {
				h.send(h.alice, name, `{"to":"`+h.bob+`","body":"x"}`)
			}
			h.others()
			h.eventually("all of them", func() bool {
				return len(h.arrived(h.bob, h.alice)) == len(list) && len(h.list(h.sent(h.alice))) == len(list)
			})
			for _, name := range list {
				if !h.exists(h.sent(h.alice) + "/" + name) {
					h.t.Errorf("%s is not archived", name)
				}
			}
		},
	},
	{
		name: "name-of-255-bytes", given: "a sound and a broken message whose names have 255 bytes each", answer: "delivered, and set aside, both under a shortened name",
		run: func(h *hive) {
			h.write(h.outbox(h.alice)+"/"+strings.Repeat("s", 250)+".json", `{"id":"m","to":"`+h.bob+`","body":"x"}`)
			name := strings.Repeat("b", 250) + ".json"
			h.write(h.outbox(h.alice)+"/"+name, `{"to":`)
			h.others()
			h.message(h.alice, "m")
			q := h.quarantined(h.alice, "", protocol.CodeMalformed)
			if base := q.Path[strings.LastIndexByte(q.Path, '/')+1:]; len(base) > protocol.NameMax || !h.exists(q.Path) {
				h.t.Errorf("set aside as %s", q.Path)
			}
		},
	},
	{
		name: "file-names-that-collide", given: "a name is used again after its message was archived, and names that differ in case alone", answer: "all delivered; nothing in the archive is overwritten",
		run: func(h *hive) {
			for i, name := range []string{"m.json", "M.json", "m.json", "m.json"} {
				id := "m" + string(rune('0'+i))
				h.send(h.alice, name, `{"id":"`+id+`","to":"`+h.bob+`","body":"x"}`)
				h.message(h.alice, id)
			}
			h.others()
			if n, kept := len(h.arrived(h.bob, h.alice)), len(h.list(h.sent(h.alice))); n != 4 || kept != 4 {
				h.t.Errorf("bob has %d messages, %d are archived", n, kept)
			}
		},
	},
	{
		name: "agents-that-collide", given: "agents whose ids differ in case alone", answer: "two agents, each with its own messages",
		run: func(h *hive) {
			upper := strings.ToUpper(h.bob)
			h.mkdir(h.outbox(upper))
			h.joined(upper)
			h.send(h.alice, "m.json", `{"id":"m","to":"`+upper+`","body":"x"}`)
			h.others()
			h.message(h.alice, "m")
			if a, b := len(h.arrived(upper, h.alice)), len(h.arrived(h.bob, h.alice)); a != 1 || b != 0 {
				h.t.Errorf("%s has %d, %s has %d", upper, a, h.bob, b)
			}
		},
	},
	{
		name: "agent-id-of-64-letters", given: "an agent whose id has 64 letters, and one with 65", answer: "the first is an agent; the second gets the alert `bad-agent-directory`",
		run: func(h *hive) {
			long := strings.Repeat("l", 64)
			h.mkdir(h.outbox(long))
			h.mkdir(h.outbox(long + "l"))
			h.joined(long)
			h.alert(protocol.CodeBadAgentDir, long+"l")
			h.send(long, "m.json", `{"id":"m","to":"`+h.bob+`","body":"x"}`)
			h.others()
			h.message(long, "m")
		},
	},
	{
		name: "agent-ids-that-are-reserved", given: "directories `agents/hive`, `agents/Lead`, `agents/BROADCAST` and `agents/god`", answer: "not agents: one alert `bad-agent-directory` each; they are left alone",
		run: func(h *hive) {
			for _, id := range []string{"hive", "Lead", "BROADCAST", "god"} {
				h.write("agents/"+id+"/outbox/m.json", `{"to":"`+h.bob+`","body":"x"}`)
			}
			h.others()
			for _, id := range []string{"hive", "Lead", "BROADCAST", "god"} {
				h.alert(protocol.CodeBadAgentDir, "agents/"+id)
				if !h.exists("agents/"+id+"/outbox/m.json") || h.exists("agents/"+id+"/inbox") {
					h.t.Errorf("something was done in agents/%s", id)
				}
				h.remove("agents/" + id)
			}
		},
	},
	{
		name: "agent-names-that-are-none", given: "in `agents/` stand a file, a link to a directory, and directories whose names hold a blank, a line break and an escape", answer: "not agents: one alert `bad-agent-directory` each, inert",
		run: func(h *hive) {
			h.write("agents/a-file-of-"+h.row, "x")
			h.must(os.Symlink(h.t.TempDir(), h.path("agents/a-link-of-"+h.row)))
			for _, name := range []string{"a blank", "a\nbreak", "an\x1b[2Jescape"} {
				h.mkdir("agents/" + name)
			}
			h.others()
			for _, name := range []string{"a-file-of-" + h.row, "a-link-of-" + h.row, "a blank", "a%0Abreak", "an%1B[2Jescape"} {
				h.alert(protocol.CodeBadAgentDir, "agents/"+name)
			}
		},
	},
}
