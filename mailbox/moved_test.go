package mailbox

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/hived/hived/internal/wait"
)

// scanAll scans everything until nothing is left to scan.
func (h *hive) scanAll() {
	h.Helper()
	for range 3 { // a listing is trusted after two scans a tick apart
		h.scan()
		_, err := h.Inbox(alice, h.now, slices.Values([]string{"1.json"}), false)
		h.ok(err)
		_, err = h.OwnFiles(alice, h.now)
		h.ok(err)
		h.wait(time.Second)
	}
	h.equal("moved when all is scanned", h.Moved(alice, h.now), Moved{})
}

// tick waits until the clock of the disk has gone on: what is changed from now on
// has a later time than what was changed before.
func (h *hive) tick() {
	h.Helper()
	written := func() time.Time {
		h.ok(os.WriteFile(filepath.Join(h.root, "clock"), nil, 0o600))
		info, err := os.Stat(filepath.Join(h.root, "clock"))
		h.ok(err)
		return info.ModTime()
	}
	before := written()
	wait.Until(h, "the clock of the disk to go on", func() bool { return written().After(before) })
}

func TestMoved(t *testing.T) {
	for _, tt := range []struct {
		name string
		do   func(h *hive)
		want Moved
	}{
		{"nothing", func(*hive) {}, Moved{}},
		{"sent", func(h *hive) { h.write(outDir+"x.json", message) }, Moved{Outbox: true}},
		{"handled", func(h *hive) { h.ok(h.disk.Rename(inDir+"1.json", doneDir+"1.json")) }, Moved{Inbox: true}},
		{"own file", func(h *hive) { h.write(home+"memory.md", "x") }, Moved{Own: true}},
		{"outbox gone", func(h *hive) { h.ok(h.Remove("agents/alice/outbox")) }, Moved{Outbox: true, Own: true, Place: true}},
		{"inbox gone", func(h *hive) { h.ok(h.Remove("agents/alice/inbox")) }, Moved{Inbox: true, Own: true, Place: true}},
		{"agent gone", func(h *hive) { h.ok(h.Remove("agents/alice")) }, Moved{Outbox: true, Inbox: true, Own: true, Place: true}},
		{"outbox replaced", func(h *hive) {
			h.ok(h.disk.Rename("agents/alice/outbox", "agents/alice/old"))
			h.ok(h.disk.Mkdir("agents/alice/outbox", 0o755))
		}, Moved{Outbox: true, Own: true, Place: true}},
		{"outbox is a link", func(h *hive) {
			h.ok(h.disk.Rename("agents/alice/outbox", "agents/alice/old"))
			h.ok(os.Symlink("old", h.path("agents/alice/outbox")))
		}, Moved{Outbox: true, Own: true, Place: true}},
		{"agent is a link", func(h *hive) {
			h.ok(h.disk.Rename("agents/alice", "agents/old"))
			h.ok(os.Symlink("old", h.path("agents/alice")))
		}, Moved{Outbox: true, Inbox: true, Own: true, Place: true}},
		{"a file that does not parse", func(h *hive) {
			h.write(outDir+"x.json", "{")
			h.wait(time.Second)
			h.none()
			h.wait(time.Second / 2)
			h.none()
		}, Moved{Outbox: true}},
		{"a stray that is due", func(h *hive) {
			h.write(outDir+"x.txt", "")
			h.none()
			h.wait(time.Second)
			h.none()
			h.wait(strays)
		}, Moved{Outbox: true}},
		{"a message that is missing", func(h *hive) {
			h.ok(h.Remove(inDir + "1.json"))
			for range 2 {
				_, err := h.Inbox(alice, h.now, slices.Values([]string{"1.json"}), false)
				h.ok(err)
				h.wait(time.Second)
			}
		}, Moved{Inbox: true}},
		{"an own file that is missing", func(h *hive) {
			h.ok(h.Remove(home + "identity.md"))
			for range 2 {
				_, err := h.OwnFiles(alice, h.now)
				h.ok(err)
				h.wait(time.Second)
			}
		}, Moved{Own: true}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := diskHive(t)
			h.deliver("1.json")
			h.write(home+"identity.md", "alice")
			h.scanAll()
			h.tick()
			tt.do(h)
			h.equal("moved", h.Moved(alice, h.now), tt.want)
			h.equal("moved, asked again", h.Moved(alice, h.now), tt.want)
		})
	}
}

// TestMovedInTheTickOfALook checks that a directory that changes in the tick of a
// scan counts as moved, though its time is the same.
func TestMovedInTheTickOfALook(t *testing.T) {
	h := memHive(t)
	h.scan()
	h.equal("outbox", h.Moved(alice, h.now).Outbox, true)
}

func TestQuietAgentCostsThreeStats(t *testing.T) {
	h := memHive(t)
	h.deliver("1.json")
	h.write(home+"memory.md", "x")
	h.scanAll()
	stats, lists, opens := h.disk.stats, h.disk.lists, h.disk.opens
	h.Moved(alice, h.now)
	h.equal("stats", h.disk.stats-stats, 3)
	h.equal("listings", h.disk.lists-lists, 0)
	h.equal("files opened", h.disk.opens-opens, 0)
}

// TestBroken checks that a listing reports a missing directory that hived needs.
func TestBroken(t *testing.T) {
	h := memHive(t)
	h.equal("broken at first", h.scanInbox().Broken, false)
	h.ok(h.Remove(inDir + ".done"))
	h.equal("broken without .done", h.scanInbox().Broken, true)
	h = memHive(t)
	h.equal("broken at first", h.scan().Broken, false)
	h.ok(h.Remove(outDir + ".sent"))
	h.equal("broken without .sent", h.scan().Broken, true)
}

func TestMissing(t *testing.T) {
	h := memHive(t)
	h.write(doneDir+"1.json", "x")
	h.write(doneDir+"2.json", "x")
	names := []string{"1.json", "2.json"}
	believed := true
	believe := func() bool { return believed }
	missing := func() []string {
		t.Helper()
		list, err := h.MissingDone(alice, h.now, slices.Values(names), believe)
		h.ok(err)
		return list
	}
	h.equal("nothing", len(missing()), 0)
	for range 2 {
		h.wait(time.Second)
		missing()
	}
	lists := h.disk.lists
	missing()
	h.equal("listings of an idle directory", h.disk.lists-lists, 0)
	h.ok(h.Remove(doneDir + "1.json"))
	h.equal("one scan", len(missing()), 0)
	h.wait(settle)
	h.equal("two scans", missing(), []string{"1.json"})
	h.equal("returned again", missing(), []string{"1.json"})
	believed = false
	h.equal("when it is not believed", len(missing()), 0)
	believed = true
	h.equal("one scan that counts", len(missing()), 0)
	h.wait(settle)
	h.equal("two of them", missing(), []string{"1.json"})
	names = names[1:]
	h.equal("when it is not asked for any more", len(missing()), 0)

	h.write(sentDir+"3.json", "x")
	sent, err := h.MissingSent(alice, h.now, slices.Values([]string{"3.json", "4.json"}), believe)
	h.ok(err)
	h.equal("one scan of .sent", len(sent), 0)
	h.wait(settle)
	sent, err = h.MissingSent(alice, h.now, slices.Values([]string{"3.json", "4.json"}), believe)
	h.ok(err)
	h.equal("two scans of .sent", sent, []string{"4.json"})
	h.write(sentDir+"4.json", "x")
	sent, err = h.MissingSent(alice, h.now, slices.Values([]string{"3.json", "4.json"}), believe)
	h.ok(err)
	h.equal("it came back", len(sent), 0)
}

func TestPostpone(t *testing.T) {
	h := memHive(t)
	h.write(home+"memory.md", "x")
	h.write("board.md", "x")
	for id, scan := range map[string]func() (Own, error){
		home + "memory.md": func() (Own, error) { return h.OwnFiles(alice, h.now) },
		"board.md":         func() (Own, error) { return h.Board(h.now) },
	} {
		changed := func() int {
			t.Helper()
			own, err := scan()
			h.ok(err)
			return len(own.Changed)
		}
		h.equal("new", changed(), 1)
		h.wait(time.Minute)
		changed() // it may have changed in the tick of the scan
		h.wait(time.Minute)
		h.equal("seen", changed(), 0)
		owner := alice
		if id == "board.md" {
			owner = ""
		}
		h.Postpone(owner, id)
		h.equal("postponed", changed(), 1)
		h.equal("seen again", changed(), 0)
	}
}
