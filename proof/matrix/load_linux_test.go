package matrix

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/hived/hived/protocol"
	"github.com/hived/hived/view"
)

var load = []row{
	{
		name: "flood", given: "1,200 files in one outbox, and one in the outbox of an agent that comes later in the order of names", on: still,
		answer: "the other's message is among the first 700 events; all are delivered",
		set:    func(s *protocol.Settings) { s.InboxCap = 10000 },
		run: func(h *hive) {
			for i := range 1200 {
				h.write(fmt.Sprintf("agents/alice/outbox/%04d.json", i), fmt.Sprintf(`{"id":"m%d","to":"bob","body":"x"}`, i))
			}
			h.others()
			h.up()
			h.message("carol", h.row+"-other-2")
			h.message("alice", "m1199")
			list := h.after(0)
			at := slices.IndexFunc(list, func(ev protocol.Event) bool {
				e, ok := ev.Body.(*protocol.MessageEvent)
				return ok && string(e.ID) == h.row+"-other-2"
			})
			if n := len(h.list(h.inbox("bob"))); at > 700 || n != 1200 {
				h.t.Errorf("the other's message is event %d, bob has %d", at, n)
			}
		},
	},
	{
		name: "flood-of-broken-files", given: "300 broken files in one outbox", on: still, answer: "all set aside; others are served meanwhile",
		set: func(s *protocol.Settings) { s.InboxCap = 10000 },
		run: func(h *hive) {
			for i := range 300 {
				h.write(fmt.Sprintf("agents/alice/outbox/%04d.json", i), `{"to":`)
			}
			h.others()
			h.up()
			h.eventually("all set aside", func() bool {
				return len(all(h, func(e *protocol.QuarantineEvent) bool { return e.Agent == "alice" })) == 300
			})
		},
	},
	{
		name: "shape-amplified", given: "four messages of nearly 1 MiB each that are nothing but empty objects, or nothing but names", on: still, answer: "delivered byte for byte; the program stays under 400 MiB",
		run: func(h *hive) {
			for i := range 4 {
				body := "[" + strings.TrimSuffix(strings.Repeat("{},", 340_000), ",") + "]"
				if i%2 == 1 {
					var b strings.Builder
					for j := range 60_000 {
						fmt.Fprintf(&b, `"%d":[],`, j)
					}
					body = "{" + strings.TrimSuffix(b.String(), ",") + "}"
				}
				h.write(fmt.Sprintf("agents/alice/outbox/%d.json", i), fmt.Sprintf(`{"id":"m%d","to":"bob","body":%s}`, i, body))
			}
			p := h.program("", "up", h.dir)
			h.start(p)
			h.others()
			h.message("alice", "m3")
			h.eventually("all of them", func() bool { return len(h.arrived("bob", "alice")) == 4 })
			if kib := peak(h, p.Process.Pid); kib > 400<<10 {
				h.t.Errorf("the program took %d KiB", kib)
			}
		},
	},
	{
		name: "inbox-full", given: "an inbox holds `inbox_cap` unread messages, and one more comes, for two recipients", on: own, answer: "dropped as `inbox-full` for that recipient alone; the sender is told once",
		set: func(s *protocol.Settings) { s.InboxCap = 8 },
		run: func(h *hive) {
			for i := range 8 {
				h.send("alice", fmt.Sprintf("%d.json", i), fmt.Sprintf(`{"id":"m%d","to":"bob","body":"x"}`, i))
			}
			h.message("alice", "m7")
			h.send("alice", "last.json", `{"id":"last","to":["bob","human"],"body":"x"}`)
			h.drop("alice", "last", protocol.InboxFull)
			h.told("alice", protocol.Code(protocol.InboxFull))
			h.others()
			if b, human := len(h.arrived("bob", "alice")), len(h.arrived("human", "alice")); b != 8 || human != 1 {
				h.t.Errorf("bob has %d messages, human %d", b, human)
			}
			h.set.InboxCap = 1000
		},
	},
	{
		name: "full-inbox-of-the-sender", given: "the notice about a full inbox finds the sender's own inbox full", on: own, answer: "the notice is dropped and logged, and causes no other",
		set: func(s *protocol.Settings) { s.InboxCap = 8 },
		run: func(h *hive) {
			for i := range 8 {
				h.send("alice", fmt.Sprintf("%d.json", i), fmt.Sprintf(`{"id":"m%d","to":["bob","alice"],"body":"x"}`, i))
			}
			h.message("alice", "m7")
			h.send("alice", "last.json", `{"id":"last","to":"bob","body":"x"}`)
			h.drop("alice", "last", protocol.InboxFull)
			await(h, "drop of the notice", func(e *protocol.DropEvent) bool { return e.From == protocol.Hive && e.Reason == protocol.InboxFull })
			h.others()
			if n := len(all(h, func(e *protocol.DropEvent) bool { return e.From == protocol.Hive })); n != 1 {
				h.t.Errorf("%d notices were dropped", n)
			}
			h.set.InboxCap = 1000
		},
	},
	{
		name: "agents-all-at-once", given: "150 agents appear at once, each with a message", on: own, answer: "all join, and every message is delivered",
		run: func(h *hive) {
			for i := range 150 {
				h.write(fmt.Sprintf("agents/new-%03d/outbox/m.json", i), fmt.Sprintf(`{"id":"m%d","to":"bob","body":"x"}`, i))
			}
			h.others()
			h.eventually("their messages", func() bool { return len(h.list(h.inbox("bob"))) == 150 })
		},
	},
	{
		name: "many-segments", given: "the log is sealed after every few events", on: own, answer: "nothing is lost at any border",
		set: func(s *protocol.Settings) { s.Log.SegmentBytes = 4096 },
		run: func(h *hive) {
			for range 12 {
				h.stillSends()
			}
			h.others()
			if n := len(all(h, func(e *protocol.HiveEvent) bool { return e.Action == protocol.Sealed })); n < 2 {
				h.t.Errorf("%d segments were sealed", n)
			}
		},
	},
}

var watching = []row{
	{
		name: "no-watcher", given: "the user may have no more inotify instances", needs: userNS, on: still, answer: "everything arrives within `rescan`; `hived status` says that it polls, and which limit to raise",
		run: func(h *hive) {
			p := h.program("echo 0 > /proc/sys/user/max_inotify_instances", "up", h.dir)
			p.SysProcAttr = userNamespace()
			h.start(p)
			h.others()
			h.stillSends()
			h.degraded("max_user_instances")
		},
	},
	{
		name: "watches-exhausted", given: "the user may have five inotify watches", needs: userNS, on: still, answer: "outboxes are watched first, the others polled; nothing is missed; `hived status` says so, and which limit to raise",
		run: func(h *hive) {
			p := h.program("echo 5 > /proc/sys/user/max_inotify_watches", "up", h.dir)
			p.SysProcAttr = userNamespace()
			h.start(p)
			h.others()
			h.stillSends()
			h.degraded("max_user_watches")
			p2 := h.inbox("bob") + "/" + h.list(h.inbox("bob"))[0]
			h.move(p2, strings.Replace(p2, "/inbox/", "/inbox/.done/", 1))
			await(h, "handled", func(e *protocol.HandledEvent) bool { return e.Agent == "bob" })
		},
	},
	{
		name: "no-hints-at-all", given: "no hint comes at all", on: memory, answer: "messages, what was handled and new versions are all found by the rescan",
		run: func(h *hive) {
			h.up()
			h.others()
			h.stillSends()
			p := h.inbox("bob") + "/" + h.list(h.inbox("bob"))[0]
			h.must(h.mem.Rename(p, strings.Replace(p, "/inbox/", "/inbox/.done/", 1)))
			await(h, "handled", func(e *protocol.HandledEvent) bool { return e.Agent == "bob" })
			h.put("agents/alice/memory.md", "x")
			await(h, "version", func(e *protocol.FileEvent) bool { return e.Path == "agents/alice/memory.md" })
		},
	},
	{
		name: "queue-of-hints-overflows", given: "more happens than the kernel's queue of events holds", answer: "one scan of everything instead", in: "mailbox.TestWatchOverflow",
	},
	{
		name: "watched-directory-silently-replaced", given: "an agent's directory, or all of `agents/`, is renamed and made again under the watcher", answer: "the new one is watched", in: "mailbox.TestWatchFollowsAnAgentThatIsReplaced",
	},
	{
		name: "network-file-system", given: "a file system whose events nobody can rely on, and an hour until the next rescan", answer: "a conversation goes on at the pace of scans of what moved", in: "router.TestFileSystemWithoutEvents",
	},
}

// degraded checks that the daemon's status reports that it polls, and what to do.
func (h *hive) degraded(says string) {
	h.t.Helper()
	h.eventually("a status that says "+says, func() bool {
		s, err := view.ReadStatus(h.disk)
		return err == nil && strings.Contains(s.Watching, says) && slices.ContainsFunc(s.Problems, func(p string) bool { return strings.Contains(p, says) })
	})
}

// peak returns the most memory that a process took, in KiB.
func peak(h *hive, pid int) (kib int) {
	h.t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	h.must(err)
	_, rest, _ := strings.Cut(string(data), "VmHWM:")
	_, err = fmt.Sscan(rest, &kib)
	h.must(err)
	return kib
}
