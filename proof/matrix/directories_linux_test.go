package matrix

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/hived/hived/protocol"
)

// away moves something out of the hive.
func (h *hive) away(p string) {
	h.t.Helper()
	h.must(os.Rename(h.path(p), filepath.Join(h.t.TempDir(), "away")))
}

var directories = []row{
	{
		name: "outbox-is-a-link", given: "`agents/A/outbox` is a symbolic link to a directory elsewhere, with messages in it", answer: "refused with an alert; nothing there is read or moved",
		run: func(h *hive) {
			id, elsewhere := h.row+"-c", h.t.TempDir()
			h.must(os.WriteFile(filepath.Join(elsewhere, "m.json"), []byte(`{"to":"`+h.bob+`","body":"password"}`), 0o644))
			// It gets its name with the link in it: hived makes an outbox in one that
			// has none.
			made := filepath.Join(h.t.TempDir(), id)
			h.must(os.Mkdir(made, 0o755))
			h.must(os.Symlink(elsewhere, filepath.Join(made, "outbox")))
			h.must(os.Rename(made, h.path("agents/"+id)))
			h.others()
			h.alert(protocol.CodeBadAgentDir, id)
			h.stillSends()
			if _, err := os.Lstat(filepath.Join(elsewhere, "m.json")); err != nil {
				h.t.Error(err)
			}
			h.withheld()
			h.remove("agents/" + id + "/outbox")
			h.eventually("the outbox made", func() bool { return h.exists(h.sent(id)) })
		},
	},
	{
		name: "outbox-becomes-a-link", given: "the outbox of a working agent is replaced by a link", answer: "nothing behind the link is read; an alert says so; when it is a directory again, it goes on",
		run: func(h *hive) {
			elsewhere := h.t.TempDir()
			h.must(os.WriteFile(filepath.Join(elsewhere, "m.json"), []byte(`{"to":"`+h.bob+`","body":"password"}`), 0o644))
			h.away(h.outbox(h.alice))
			h.must(os.Symlink(elsewhere, h.path(h.outbox(h.alice))))
			h.others()
			await(h, "alert", func(e *protocol.AlertEvent) bool { return string(e.Agent) == h.alice })
			h.withheld()
			h.remove(h.outbox(h.alice))
			h.eventually("the outbox made", func() bool { return h.exists(h.sent(h.alice)) })
			h.stillSends()
		},
	},
	{
		name: "outbox-replaced", given: "an outbox is renamed, and another made in its place, over and over, with a message in each", answer: "watched again each time; no message is missed",
		run: func(h *hive) {
			for i := range 4 {
				h.away(h.outbox(h.alice))
				h.eventually("an outbox", func() bool { return os.MkdirAll(h.path(h.outbox(h.alice)), 0o755) == nil })
				h.stillSends()
				if i == 0 {
					h.others()
				}
			}
		},
	},
	{
		name: "outbox-deleted", given: "an outbox is deleted", answer: "made again within `rescan`",
		run: func(h *hive) {
			h.remove(h.outbox(h.alice))
			h.others()
			h.eventually("the outbox made", func() bool { return h.exists(h.sent(h.alice)) })
			h.stillSends()
		},
	},
	{
		name: "sent-deleted", given: "`outbox/.sent` is deleted", answer: "made again with the next message; what stood there is logged as swept",
		run: func(h *hive) {
			h.stillSends()
			h.remove(h.sent(h.alice))
			h.others()
			h.stillSends()
			h.eventually("the archive", func() bool { return h.exists(h.sent(h.alice) + "/sibling-2.json") })
			await(h, "swept", func(e *protocol.HiveEvent) bool {
				return e.Action == protocol.Swept && strings.Contains(strings.Join(e.Paths, " "), h.sent(h.alice)+"/sibling-1.json")
			})
		},
	},
	{
		name: "sent-is-a-file", given: "a file stands in the place of `outbox/.sent`", answer: "messages are accepted and delivered; the originals are archived when it is out of the way",
		run: func(h *hive) {
			h.inTheWay(h.sent(h.alice))
			h.others()
			h.stillSends()
			h.remove(h.sent(h.alice))
			h.eventually("the original archived", func() bool {
				return h.exists(h.sent(h.alice)) && len(h.list(h.sent(h.alice))) == 1 && len(h.list(h.outbox(h.alice))) == 0
			})
			if n := len(h.arrived(h.bob, h.alice)); n != 1 {
				h.t.Errorf("bob has %d messages", n)
			}
		},
	},
	{
		name: "agent-deleted", given: "the whole directory of a working agent is deleted", answer: "made again, with the messages it had not handled",
		run: func(h *hive) {
			h.stillSends()
			h.away("agents/" + h.bob)
			h.others()
			h.eventually("bob's message", func() bool { return h.exists(h.inbox(h.bob)) && len(h.arrived(h.bob, h.alice)) == 1 })
			h.stillSends()
		},
	},
	{
		name: "agent-becomes-a-link", given: "the directory of a working agent is replaced by a link", answer: "nothing is written behind the link; what was sent to it arrives when it is a directory again",
		run: func(h *hive) {
			elsewhere := h.t.TempDir()
			h.away("agents/" + h.bob)
			h.must(os.Symlink(elsewhere, h.path("agents/"+h.bob)))
			h.send(h.alice, "m.json", `{"id":"m","to":"`+h.bob+`","body":"x"}`)
			h.message(h.alice, "m")
			h.others()
			if list, err := os.ReadDir(elsewhere); err != nil || len(list) > 0 {
				h.t.Errorf("behind the link there is %v, %v", list, err)
			}
			h.must(os.Remove(h.path("agents/" + h.bob)))
			h.eventually("bob's message", func() bool { return h.exists(h.inbox(h.bob)) && len(h.arrived(h.bob, h.alice)) == 1 })
		},
	},
	{
		name: "agents-renamed-away", given: "the whole of `agents/` is moved away and comes back", answer: "an alert; when it is back, everything goes on with nothing lost", on: own,
		run: func(h *hive) {
			h.stillSends()
			h.move("agents", "agents.away")
			h.eventually("an alert", func() bool {
				return len(all(h, func(e *protocol.AlertEvent) bool { return strings.HasPrefix(e.Path, "agents") })) > 0 || h.exists("agents")
			})
			h.back("agents.away", "agents")
			h.others()
			h.stillSends()
		},
	},
}

// inTheWay puts a file in the place of a directory, which hived makes again at once
// if nothing is there.
func (h *hive) inTheWay(dir string) {
	h.t.Helper()
	file := dir + "-in-the-way"
	h.write(file, "x")
	h.eventually("a file in the way", func() bool {
		err := os.RemoveAll(h.path(dir))
		return err == nil && os.Link(h.path(file), h.path(dir)) == nil
	})
	h.must(os.Remove(h.path(file)))
}
