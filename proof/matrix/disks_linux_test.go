package matrix

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/durable/faultfs"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/view"
)

// upon returns a filter for operations of these kinds on names that begin with
// prefix.
func upon(prefix string, ops ...faultfs.Op) faultfs.Filter {
	return func(op faultfs.Op, name string) bool {
		return (len(ops) == 0 || slices.Contains(ops, op)) && strings.HasPrefix(name, prefix)
	}
}

// full returns a row in which the disk has no room for a while.
func full(name, given string, err error, only faultfs.Filter) row {
	return row{
		name: name, given: given, on: memory, answer: "the half-written line is cut, intake pauses, the status says so; with room again it goes on by itself, and nothing is lost",
		run: func(h *hive) {
			h.up()
			h.stillSends()
			h.mem.FailAt(1, err, -1, only)
			h.paused = true
			h.others()
			h.send("alice", "m.json", `{"id":"m","to":"bob","body":"x"}`)
			h.eventually("a status that says so", func() bool {
				s, err := view.ReadStatus(h.disk)
				return err == nil && strings.Contains(s.Intake, "the disk is full")
			})
			h.mem.Heal()
			h.paused = false
			h.message("alice", "m")
			if n := len(h.arrived("bob", "alice")); n != 2 {
				h.t.Errorf("bob has %d messages", n)
			}
		},
	}
}

// fatal returns a row in which the disk cannot be trusted any more.
func fatal(name, given string, err error, says string, only faultfs.Filter) row {
	return row{
		name: name, given: given, on: memory, answer: "the daemon ends with an error and writes nothing more; the next start finds everything, and loses and doubles nothing",
		run: func(h *hive) {
			h.up()
			h.stillSends()
			h.mem.FailAt(1, err, -1, only)
			h.paused = true
			h.others()
			h.send("alice", "m.json", `{"id":"m","to":"bob","body":"x"}`)
			h.endsItself(says)
			h.paused = false
			h.mem.Heal()
			h.mem = h.mem.Reboot()
			h.disk = h.mem
			h.up()
			h.message("alice", "m")
			if n := len(h.arrived("bob", "alice")); n != 2 {
				h.t.Errorf("bob has %d messages", n)
			}
		},
	}
}

// refusing returns a row in which the disk refuses something that can wait.
func refusing(name, given, answer string, err error, only faultfs.Filter) row {
	return row{name: name, given: given, answer: answer, on: memory, run: func(h *hive) {
		h.up()
		h.mem.FailAt(1, err, -1, only)
		h.send("alice", "m.json", `{"id":"m","to":["bob","human"],"body":"x"}`)
		h.message("alice", "m")
		h.others()
		h.eventually("human's message", func() bool { return len(h.arrived("human", "alice")) == 1 })
		h.mem.Heal()
		h.eventually("bob's message", func() bool { return len(h.arrived("bob", "alice")) == 1 })
		h.eventually("the original archived", func() bool { return len(h.list(h.outbox("alice"))) == 0 })
	}}
}

// powerCut returns a row in which the power fails while messages are carried.
func powerCut(name, given string, at int, how faultfs.Loss) row {
	return row{name: name, given: given, on: memory, answer: "the next start places again what was accepted and takes in the rest: each message arrives once", run: func(h *hive) {
		for i := range 5 {
			h.send("alice", fmt.Sprintf("%d.json", i), fmt.Sprintf(`{"id":"m%d","to":"bob","body":"x"}`, i))
		}
		h.others()
		h.must(h.mem.SyncAll()) // the row is not about what its writers did
		h.mem.CrashAt(at, how)
		if _, err := h.open(h.config()); err == nil {
			h.up()
			h.endsItself("crashed")
		}
		h.mem = h.mem.Reboot()
		h.disk = h.mem
		h.forget(0)
		h.up()
		h.eventually("all five", func() bool { return len(h.arrived("bob", "alice")) == 5 })
		await(h, "recovery", func(e *protocol.HiveEvent) bool { return e.Action == protocol.Started })
	}}
}

var disks = []row{
	full("no-space-for-the-log", "the disk has no room for a line of the log", durable.ErrNoSpace, upon(protocol.PathLog, faultfs.OpWrite)),
	full("quota-exceeded", "the quota of hived's user is used up", syscall.EDQUOT, upon(protocol.PathLog, faultfs.OpWrite)),
	{
		name: "half-a-line-fits", given: "half of a line of the log fits on the disk", on: memory, answer: "the half is cut; the line is written when there is room",
		run: func(h *hive) {
			h.up()
			h.stillSends()
			h.mem.ShortWrite(1, durable.ErrNoSpace, upon(protocol.PathLog))
			h.send("alice", "m.json", `{"id":"m","to":"bob","body":"x"}`)
			h.message("alice", "m")
			h.others()
		},
	},
	refusing("no-space-for-an-inbox", "the disk has no room for a file in one recipient's inbox", "retried: the others get theirs, that one when there is room", durable.ErrNoSpace, upon("agents/bob/inbox/")),
	refusing("no-inodes", "the disk has no inode left for one recipient's file", "retried: the others get theirs, that one when there are inodes", durable.ErrNoSpace, upon("agents/bob/inbox/", faultfs.OpCreate)),
	refusing("no-space-for-git", "the disk has no room in `.git`", "delivery goes on; history catches up when there is room", durable.ErrNoSpace, upon(".git/")),
	refusing("git-fails", "every write in `.git` fails with EIO", "delivery goes on; history catches up when it works again", syscall.EIO, upon(".git/")),
	refusing("archive-fails", "originals cannot be renamed to `outbox/.sent`", "delivered; known by inode and sum while they stay, never accepted twice, and archived when it works again", syscall.EIO, upon("agents/alice/outbox/.sent/", faultfs.OpRename)),
	refusing("inbox-rename-fails", "the rename into one recipient's inbox fails", "retried: the others get theirs, that one when it works again", syscall.EIO, upon("agents/bob/inbox/", faultfs.OpRename)),
	refusing("inbox-without-permission", "files cannot be made in one recipient's inbox", "retried: the others get theirs, that one when it may be written", fs.ErrPermission, upon("agents/bob/inbox/", faultfs.OpCreate)),
	{
		name: "inbox-worked-through-meanwhile", given: "an inbox takes no new file, and its agent handles what is in it meanwhile", on: memory, answer: "what could not be delivered yet does not count as deleted by the agent; it arrives when the inbox can be written again",
		run: func(h *hive) {
			h.up()
			h.stillSends()
			h.mem.FailAt(1, fs.ErrPermission, -1, upon("agents/bob/inbox/", faultfs.OpCreate))
			h.send("alice", "m.json", `{"id":"m","to":"bob","body":"x"}`)
			h.message("alice", "m")
			first := h.list(h.inbox("bob"))[0]
			h.must(h.mem.Rename(h.inbox("bob")+"/"+first, h.inbox("bob")+"/.done/"+first))
			await(h, "handled", func(e *protocol.HandledEvent) bool { return e.File == first })
			h.others()
			for range 4 { // scans of bob's inbox, further apart than settle
				h.must(h.mem.Mkdir(h.inbox("bob")+"/.x", 0o755))
				h.must(h.mem.Remove(h.inbox("bob") + "/.x"))
				h.scans(5)
			}
			h.mem.Heal()
			h.eventually("bob's message", func() bool { return len(h.arrived("bob", "alice")) == 1 })
		},
	},
	fatal("log-write-fails", "a write to the log fails with EIO", syscall.EIO, "append to the log", upon(protocol.PathLog, faultfs.OpWrite)),
	fatal("log-sync-fails", "a sync of the log fails with EIO", syscall.EIO, "sync failed", upon(protocol.PathLog, faultfs.OpSync)),
	fatal("log-sync-finds-no-space", "a sync of the log fails because there is no room, as on a file system that allocates late", durable.ErrNoSpace, "sync failed", upon(protocol.PathLog, faultfs.OpSync)),
	fatal("read-only", "the file system becomes read-only", durable.ErrReadOnly, "read-only", upon(protocol.PathLog)),
	{
		name: "whole-sync-fails", given: "the sync of the whole file system fails with EIO", on: memory, answer: "the daemon ends with an error: what is on the disk is unknown; the next start places everything since the last sync point again",
		run: func(h *hive) {
			h.up()
			h.stillSends()
			h.others()
			h.mem.FailAt(1, syscall.EIO, -1, upon("", faultfs.OpSyncAll))
			if err := h.stop(); err == nil || !strings.Contains(err.Error(), "sync failed") {
				h.t.Errorf("the daemon ended with %v", err)
			}
			h.mem.Heal()
			h.mem = h.mem.Reboot()
			h.disk = h.mem
			h.up()
			h.stillSends()
		},
	},
	powerCut("power-cut-loses-all", "the power fails in the middle, and all that was not synced is lost", 60, faultfs.Drop),
	powerCut("power-cut-tears", "the power fails in the middle, and what was not synced is torn", 75, faultfs.Torn(3)),
	{
		name: "power-cut-anywhere", given: "the power fails at every operation of a hive's life, and again in each recovery", answer: "each message arrives once, and everything agrees", in: "router.TestWholeHiveCrashesAgain",
	},
	{
		name: "failure-anywhere", given: "every operation of a hive's life fails, one after the other", answer: "each message arrives once, and everything agrees", in: "router.TestWholeHiveFails",
	},
	{
		name: "real-disk-full", given: "a file system of 4 MiB fills up", needs: mounts, on: still, answer: "intake pauses; with room again it goes on by itself, and nothing is lost",
		run: func(h *hive) {
			h.mount("size=4m")
			h.up()
			h.stillSends()
			h.write("agents/bob/outbox/.b", `{"id":"b","to":"alice","body":"`+strings.Repeat("x", 20000)+`"}`)
			h.fill("filler")
			h.paused = true
			h.move("agents/bob/outbox/.b", "agents/bob/outbox/b.json")
			h.eventually("a pause", func() bool { return strings.Contains(h.said.String(), "intake pauses") })
			h.remove("filler")
			h.paused = false
			h.message("bob", "b")
			h.others()
			h.stillSends()
		},
	},
	{
		name: "real-read-only-mount", given: "the file system is mounted read-only when the daemon starts", needs: mounts, on: still, answer: "the start is refused, and says so; mounted writable again it starts, and nothing is lost",
		run: func(h *hive) {
			h.mount("")
			h.talked()
			h.others()
			h.eventually("no file to be open for writing", func() bool { // a program that another row starts holds them until it runs
				err := syscall.Mount("none", h.dir, "tmpfs", syscall.MS_REMOUNT|syscall.MS_RDONLY, "")
				if !errors.Is(err, syscall.EBUSY) {
					h.must(err)
				}
				return err == nil
			})
			h.refused("read-only")
			h.must(syscall.Mount("none", h.dir, "tmpfs", syscall.MS_REMOUNT, ""))
			h.up()
			h.stillSends()
		},
	},
}

// fill uses up all room with a file.
func (h *hive) fill(p string) {
	h.t.Helper()
	f, err := os.Create(h.path(p))
	h.must(err)
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	if !errors.Is(err, syscall.ENOSPC) {
		h.t.Fatal(err)
	}
	_ = f.Close()
}

// scans waits until the daemon has scanned everything n times: each time a broken
// file was left alone for settle.
func (h *hive) scans(n int) {
	h.t.Helper()
	for range n {
		h.passed++
		name := fmt.Sprintf("pass-%d.json", h.passed)
		h.send("alice", name, "{")
		h.quarantined("alice", "bad-"+name, protocol.CodeMalformed)
	}
}
