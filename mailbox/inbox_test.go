package mailbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/hived/hived/internal/durable/faultfs"
	"github.com/hived/hived/protocol"
)

// scanInbox scans the inbox, in which the given names should be unread.
func (h *hive) scanInbox(unread ...string) InboxScan {
	h.Helper()
	s, err := h.Inbox(alice, h.now, slices.Values(unread), false)
	h.ok(err)
	return s
}

func (h *hive) deliver(files ...string) {
	h.Helper()
	for _, f := range files {
		h.ok(h.Deliver(alice, f, []byte(message)))
	}
}

func TestInboxHandled(t *testing.T) {
	h := memHive(t)
	h.deliver("1.json", "2.json", "3.json")
	h.equal("nothing yet", h.scanInbox("1.json", "2.json", "3.json"), InboxScan{})
	h.ok(h.disk.Rename(inDir+"2.json", doneDir+"2.json"))
	h.equal("done", h.scanInbox("1.json", "2.json", "3.json"), InboxScan{Handled: []Handled{{"2.json", protocol.HowDone}}})

	h.ok(h.disk.Remove(inDir + "1.json"))
	h.equal("first scan", h.scanInbox("1.json", "3.json"), InboxScan{Missing: 1, Again: h.now.Add(settle)})
	h.wait(settle - time.Millisecond)
	h.equal("too early", h.scanInbox("1.json", "3.json").Handled, []Handled(nil))
	h.wait(time.Millisecond)
	want := InboxScan{Missing: 1, Handled: []Handled{{"1.json", protocol.HowDeleted}}}
	h.equal("second scan", h.scanInbox("1.json", "3.json"), want)
	h.equal("until it is no longer unread", h.scanInbox("1.json", "3.json"), want)
	h.equal("taken", h.scanInbox("3.json"), InboxScan{})
}

func TestInboxDeletedAndBack(t *testing.T) {
	h := memHive(t)
	h.deliver("1.json")
	h.scanInbox("1.json")
	h.ok(h.disk.Rename(inDir+"1.json", "agents/alice/1.json"))
	h.scanInbox("1.json")
	h.wait(time.Second)
	h.ok(h.disk.Rename("agents/alice/1.json", inDir+"1.json"))
	h.equal("back", h.scanInbox("1.json"), InboxScan{})
	h.wait(time.Hour)
	h.ok(h.disk.Rename(inDir+"1.json", "agents/alice/1.json"))
	h.equal("gone a second time", h.scanInbox("1.json").Handled, []Handled(nil))
	h.ok(h.disk.Rename("agents/alice/1.json", doneDir+"1.json"))
	h.equal("done after all", h.scanInbox("1.json").Handled, []Handled{{"1.json", protocol.HowDone}})
}

func TestInboxVanished(t *testing.T) {
	for _, tt := range []struct {
		name string
		do   func(h *hive)
	}{
		{"deleted", func(h *hive) { h.ok(h.Remove("agents/alice/inbox")) }},
		{"made again", func(h *hive) {
			h.ok(h.Remove("agents/alice/inbox"))
			h.ok(h.disk.MkdirAll("agents/alice/inbox/.done", 0o755))
		}},
		{"renamed and made again", func(h *hive) {
			h.ok(h.disk.Rename("agents/alice/inbox", "agents/alice/old"))
			h.ok(h.disk.MkdirAll("agents/alice/inbox/.done", 0o755))
		}},
		{"another agent's in its place", func(h *hive) {
			h.join("bob")
			h.ok(h.disk.Rename("agents/alice/inbox", "agents/alice/old"))
			h.ok(h.disk.Rename("agents/bob/inbox", "agents/alice/inbox"))
		}},
		{"with the inodes of the old ones", func(h *hive) {
			h.ok(h.disk.Remove(inDir + marker))
			h.ok(h.disk.Remove(inDir + "1.json"))
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := memHive(t)
			h.deliver("1.json")
			h.scanInbox("1.json")
			h.wait(time.Minute)
			tt.do(h)
			h.equal("vanished", h.scanInbox("1.json"), InboxScan{Vanished: true})
			_, err := h.Ensure(alice)
			h.ok(err)
			h.equal("until it is refilled", h.scanInbox("1.json"), InboxScan{Vanished: true})
			h.equal("inbox until then", h.names("agents/alice/inbox"), []string{".done"})
			h.ok(h.Redeliver(alice, "1.json", []byte(message)))
			h.equal("refilled", h.scanInbox("1.json"), InboxScan{})
			h.equal("inbox", h.names("agents/alice/inbox"), []string{".done", marker, "1.json"})
			h.wait(time.Minute)
			h.equal("later", h.scanInbox("1.json"), InboxScan{})
		})
	}
}

// TestInboxReplacedBetweenPasses checks that a deletion that was seen once does not
// count in another directory.
func TestInboxReplacedBetweenPasses(t *testing.T) {
	h := memHive(t)
	h.deliver("1.json")
	h.scanInbox("1.json")
	h.ok(h.disk.Remove(inDir + "1.json"))
	h.scanInbox("1.json")
	h.wait(settle)
	h.ok(h.disk.Rename("agents/alice/inbox", "agents/alice/old"))
	h.ok(h.disk.MkdirAll("agents/alice/inbox/.done", 0o755))
	h.equal("vanished", h.scanInbox("1.json"), InboxScan{Vanished: true})
	h.equal("until it is ensured", h.scanInbox("1.json"), InboxScan{Vanished: true})
	_, err := h.Ensure(alice)
	h.ok(err)
	h.equal("until it is refilled", h.scanInbox("1.json"), InboxScan{Vanished: true})
}

func TestInboxUnexpected(t *testing.T) {
	h := memHive(t)
	h.deliver("1.json")
	h.write(inDir+"planted.json", message)
	h.write(inDir+"notes.txt", message)
	h.equal("at first", h.scanInbox("1.json"), InboxScan{Again: h.now.Add(settle)})
	h.wait(settle)
	h.equal("after settle", h.scanInbox("1.json"), InboxScan{Unexpected: []string{"planted.json"}})
	h.wait(settle)
	h.equal("once", h.scanInbox("1.json"), InboxScan{})
	h.Forget(alice)
	h.scanInbox("1.json")
	h.wait(settle)
	h.equal("again after Forget", h.scanInbox("1.json").Unexpected, []string{"planted.json"})
	h.ok(h.disk.Remove(inDir + "planted.json"))
	h.scanInbox("1.json")
	h.write(inDir+"planted.json", message)
	h.scanInbox("1.json")
	h.wait(settle)
	h.equal("another one", h.scanInbox("1.json").Unexpected, []string{"planted.json"})
}

func TestIdleInboxCostsOneStat(t *testing.T) {
	h := memHive(t)
	h.deliver("1.json")
	asked := 0
	unread := func(yield func(string) bool) { asked++; yield("1.json") }
	for range 4 {
		_, err := h.Inbox(alice, h.now, unread, false)
		h.ok(err)
		h.wait(time.Second)
	}
	h.equal("asked", asked, 3) // and not only once, because of the tick
	h.disk.lists, h.disk.stats = 0, 0
	_, err := h.Inbox(alice, h.now, unread, false)
	h.ok(err)
	h.equal("calls", []int{h.disk.lists, h.disk.stats}, []int{0, 1})
	_, err = h.Inbox(alice, h.now, unread, true)
	h.ok(err)
	h.equal("forced", asked, 4)
}

func TestRacyInbox(t *testing.T) {
	mem := faultfs.New()
	h := newHive(t, mem)
	frozen := h.now
	mem.SetClock(func() time.Time { return frozen })
	h.deliver("1.json", "2.json")
	h.scanInbox("1.json", "2.json")
	h.ok(h.disk.Rename(inDir+"1.json", doneDir+"1.json"))
	h.wait(10 * time.Millisecond)
	h.equal("in the same tick", len(h.scanInbox("1.json", "2.json").Handled), 1)
}

func TestAltered(t *testing.T) {
	mem := faultfs.New()
	h := newHive(t, mem)
	names := []string{"1.json", "2.json", "3.json", "4.json", "5.json", "6.json"}
	h.deliver(names...)
	var files []Delivered
	for _, n := range names {
		files = append(files, Delivered{File: n, Blob: protocol.BlobOf([]byte(message)), Size: len(message)})
	}
	check := func() []string {
		h.Helper()
		altered, again, err := h.Altered(alice, h.now, files)
		h.ok(err)
		if !again.IsZero() {
			h.equal("judged", again, h.now.Add(settle))
			h.wait(settle)
			altered, again, err = h.Altered(alice, h.now, files)
			h.ok(err)
			h.equal("nothing waits any more", again.IsZero(), true)
		}
		return altered
	}
	h.equal("at first", check(), []string(nil))
	h.wait(tick)
	check() // from now on all are known
	h.disk.opens = 0
	h.equal("soon after", check(), []string(nil))
	h.equal("opened", h.disk.opens, 0)

	h.write(inDir+"2.json", other)
	h.write(inDir+"3.json", "X"+message[1:])
	h.write(inDir+"4.json", message) // touched
	h.ok(h.disk.Remove(inDir + "5.json"))
	h.ok(h.disk.Remove(inDir + "6.json"))
	h.ok(mem.Symlink(inDir+"6.json", "1.json"))
	h.equal("altered", check(), []string{"2.json", "3.json", "6.json"})
	h.disk.opens = 0
	check()
	h.equal("opened again", h.disk.opens, 2) // the intact one is known now

	h.Boxes = New(h.disk, options)
	h.equal("after a start", check(), []string{"2.json", "3.json", "6.json"})
}

// TestAlteredInTheTickOfItsDelivery checks that a change that leaves inode, size
// and mtime as they were is found.
func TestAlteredInTheTickOfItsDelivery(t *testing.T) {
	for _, checks := range []int{0, 1} {
		mem := faultfs.New()
		h := newHive(t, mem)
		frozen := h.now
		mem.SetClock(func() time.Time { return frozen })
		h.deliver("1.json")
		files := []Delivered{{File: "1.json", Blob: protocol.BlobOf([]byte(message)), Size: len(message)}}
		check := func(want ...string) {
			h.Helper()
			altered, _, err := h.Altered(alice, h.now, files)
			h.ok(err)
			h.equal(fmt.Sprintf("altered, after %d checks", checks), altered, want)
		}
		for range checks {
			check()
		}
		h.write(inDir+"1.json", "X"+message[1:])
		h.wait(tick)
		check()
		h.wait(settle)
		check("1.json")
	}
}

// TestAlteredRests checks that a file that is emptied and rewritten is judged only
// when it has been left alone, and not at all if it is right again by then.
func TestAlteredRests(t *testing.T) {
	h := memHive(t)
	h.deliver("1.json")
	files := []Delivered{{File: "1.json", Blob: protocol.BlobOf([]byte(message)), Size: len(message)}}
	check := func(want ...string) {
		h.Helper()
		altered, _, err := h.Altered(alice, h.now, files)
		h.ok(err)
		h.equal("altered", altered, want)
	}
	for _, text := range []string{"", other[:3], other} {
		h.write(inDir+"1.json", text)
		check()
		h.wait(settle - time.Millisecond)
		check()
	}
	h.wait(time.Millisecond)
	check("1.json")
	check("1.json")
	h.write(inDir+"1.json", message)
	check()
	h.write(inDir+"1.json", "")
	check()
	h.wait(settle)
	h.write(inDir+"1.json", message)
	check()
	h.equal("remembered", len(h.box(alice).inbox.wrong), 0)
}

func TestRightIsForgottenWithItsMessage(t *testing.T) {
	h := memHive(t)
	h.deliver("1.json", "2.json")
	h.ok(h.disk.Rename(inDir+"1.json", doneDir+"1.json"))
	h.scanInbox("1.json", "2.json")
	h.equal("remembered", len(h.box(alice).inbox.right), 1)
}

// TestInboxLosesItsMarker checks that an inbox gets a new marker, but not at the
// first scan: a program that is deleting the inbox may have deleted the marker
// first.
func TestInboxLosesItsMarker(t *testing.T) {
	for _, deleted := range []bool{false, true} {
		h := memHive(t)
		h.deliver("1.json")
		h.scanInbox("1.json")
		h.wait(time.Minute)
		h.ok(h.disk.Remove(inDir + marker))
		h.equal("first scan", h.scanInbox("1.json"), InboxScan{Again: h.now.Add(settle)})
		h.equal("inbox", h.names("agents/alice/inbox"), []string{".done", "1.json"})
		h.wait(time.Minute)
		h.equal("moved", h.Moved(alice, h.now).Inbox, true)
		if deleted {
			h.ok(h.disk.Remove(inDir + "1.json"))
			h.equal("vanished", h.scanInbox("1.json"), InboxScan{Vanished: true})
			continue
		}
		h.equal("second scan", h.scanInbox("1.json"), InboxScan{})
		h.equal("inbox then", h.names("agents/alice/inbox"), []string{".done", marker, "1.json"})
	}
}

// TestInboxMarkerIsTaken checks that whatever has the name of the marker counts as
// the marker, and stays.
func TestInboxMarkerIsTaken(t *testing.T) {
	h := diskHive(t)
	h.ok(h.disk.Remove(inDir + marker))
	h.ok(os.Symlink("nowhere", h.path(inDir+marker)))
	h.deliver("1.json")
	h.equal("scan", h.scanInbox("1.json"), InboxScan{})
	h.ok(h.disk.Remove(inDir + "1.json"))
	h.equal("deleted, first scan", h.scanInbox("1.json"), InboxScan{Missing: 1, Again: h.now.Add(settle)})
}

// TestInboxReplacedByOneWithAMarker checks that the marker in a new inbox does not
// count, even if it cannot be removed.
func TestInboxReplacedByOneWithAMarker(t *testing.T) {
	h := memHive(t)
	h.deliver("1.json")
	h.scanInbox("1.json")
	h.ok(h.disk.Rename("agents/alice/inbox", "agents/alice/old"))
	h.ok(h.disk.MkdirAll(inDir+marker+"/mine", 0o755))
	for range 2 {
		h.equal("vanished", h.scanInbox("1.json"), InboxScan{Vanished: true})
		_, err := h.Ensure(alice)
		h.ok(err)
		h.wait(time.Minute)
	}
	h.ok(h.Redeliver(alice, "1.json", []byte(message)))
	h.equal("refilled", h.scanInbox("1.json"), InboxScan{})
}

// TestInboxCannotBeMarked checks that the error is returned until the marker can be
// made.
func TestInboxCannotBeMarked(t *testing.T) {
	mem := faultfs.New()
	h := newHive(t, mem)
	h.ok(h.disk.Remove(inDir + marker))
	_, err := h.Ensure(alice)
	h.ok(err)
	mem.FailAt(1, fs.ErrPermission, 2, func(op faultfs.Op, name string) bool {
		return op == faultfs.OpCreate && name == inDir+marker
	})
	for range 2 {
		h.wait(time.Minute)
		if _, err := h.Inbox(alice, h.now, slices.Values([]string(nil)), false); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("got %v, want ErrPermission", err)
		}
	}
	h.wait(time.Minute)
	h.equal("scan", h.scanInbox(), InboxScan{})
	h.equal("inbox", h.names("agents/alice/inbox"), []string{".done", marker})
}

// TestInboxMadeAgainOnDisk checks it on a real disk: on ext4 the new directories
// have the inodes of the old ones.
func TestInboxMadeAgainOnDisk(t *testing.T) {
	h := diskHive(t)
	h.deliver("1.json")
	h.scanInbox("1.json")
	h.ok(os.RemoveAll(h.path("agents/alice/inbox")))
	h.ok(os.MkdirAll(h.path("agents/alice/inbox/.done"), 0o755))
	h.wait(time.Minute)
	h.equal("vanished", h.scanInbox("1.json"), InboxScan{Vanished: true})
}

func TestInboxMadeAgainAndEnsured(t *testing.T) {
	for _, restart := range []bool{false, true} {
		h := memHive(t)
		h.deliver("1.json", "2.json")
		h.scanInbox("1.json", "2.json")
		h.ok(h.disk.Remove(inDir + marker))
		h.ok(h.disk.Remove(inDir + "1.json"))
		if restart {
			h.Boxes = New(h.disk, options)
		}
		_, err := h.Ensure(alice) // before any scan
		h.ok(err)
		for range 2 { // until all is there
			h.equal("vanished", h.scanInbox("1.json", "2.json"), InboxScan{Vanished: true})
			h.wait(time.Minute)
		}
		h.ok(h.Redeliver(alice, "1.json", []byte(message)))
		h.equal("refilled", h.scanInbox("1.json", "2.json"), InboxScan{})
		h.ok(h.disk.Remove(inDir + "1.json"))
		h.equal("deleted, first scan", h.scanInbox("1.json", "2.json"), InboxScan{Missing: 1, Again: h.now.Add(settle)})
	}
}
