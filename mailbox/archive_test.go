package mailbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"testing"
	"time"

	"github.com/hived/hived/internal/durable/faultfs"
	"github.com/hived/hived/protocol"
)

const (
	sentDir = outDir + ".sent/"
	other   = `{"to":"bob","body":"other"}`
)

// TestArchive checks what can happen to a file between reading and moving it.
func TestArchive(t *testing.T) {
	for _, tt := range []struct {
		name    string
		between func(h *hive)
		outbox  []string // besides .sent, afterwards
		next    string   // the next arrival; empty: none
	}{
		{"nothing", func(*hive) {}, nil, ""},
		{"replaced", func(h *hive) { h.replace(outDir+"x.json", other) }, []string{"x.json"}, other},
		{"replaced by the same words", func(h *hive) { h.replace(outDir+"x.json", message) }, []string{"x.json"}, message},
		{"replaced by half a file", func(h *hive) { h.replace(outDir+"x.json", "{") }, []string{"x.json"}, ""},
		{"gone", func(h *hive) { h.ok(h.disk.Remove(outDir + "x.json")) }, nil, ""},
		{"renamed", func(h *hive) { h.ok(h.disk.Rename(outDir+"x.json", outDir+"y.json")) }, []string{"y.json"}, message},
		{"written over with another message", func(h *hive) { h.write(outDir+"x.json", other) }, []string{"x.json"}, other},
		{"cut and being written", func(h *hive) { h.write(outDir+"x.json", `{"to":`) }, []string{"x.json"}, ""},
		{"a line break more", func(h *hive) { h.write(outDir+"x.json", message+"\n") }, nil, ""},
		{"the same in other words", func(h *hive) { h.write(outDir+"x.json", `{"body": "hello", "to": "bob"}`) }, nil, ""},
		{"a second object behind it", func(h *hive) { h.write(outDir+"x.json", message+other) }, []string{"x.json"}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := memHive(t)
			h.write(outDir+"x.json", message)
			a := h.one()
			h.wait(time.Second)
			tt.between(h)
			h.ok(h.Archive(a, "x.json"))
			h.equal("archived", h.read(sentDir+"x.json"), message)
			h.equal("outbox", h.names("agents/alice/outbox"), append([]string{".sent"}, tt.outbox...))
			if tt.next != "" {
				h.equal("next", string(h.one().Raw), tt.next)
			} else {
				h.none()
			}
			h.ok(h.Archive(a, "x.json"))
			h.equal("archived again", h.read(sentDir+"x.json"), message)
			h.equal("outbox again", h.names("agents/alice/outbox"), append([]string{".sent"}, tt.outbox...))
		})
	}
}

func TestArchiveKeepsBothOfTwoNewerFiles(t *testing.T) {
	h := memHive(t)
	h.write(outDir+"x.json", message)
	a := h.one()
	// The first replacement is moved to .sent in the place of the original, and
	// before it is put back a second one comes.
	h.replace(outDir+"x.json", other)
	h.ok(h.disk.Rename(outDir+"x.json", sentDir+"x.json"))
	h.write(outDir+"x.json", `{"to":"bob","body":"third"}`)
	h.write(outDir+"x-2.json", `{"to":"bob","body":"fourth"}`)
	h.ok(h.Archive(a, "x.json"))
	h.equal("archived", h.read(sentDir+"x.json"), message)
	var got []string
	for _, a := range h.scan().Arrivals {
		got = append(got, a.Name+" "+string(a.Message.Body))
	}
	h.equal("outbox", got, []string{`x-2.json "fourth"`, `x-3.json "other"`, `x.json "third"`})
}

func TestArchiveRedoneWithACopyInPlace(t *testing.T) {
	h := memHive(t)
	h.write(outDir+"x.json", message)
	for _, there := range []string{message, "", "\x00\x00"} { // what a power cut leaves
		h.write(sentDir+"x.json", there)
		h.write(outDir+"x.json", message)
		h.Forget(alice)
		a := h.one()
		h.ok(h.Archive(a, "x.json"))
		h.equal("archived over "+fmt.Sprintf("%q", there), h.read(sentDir+"x.json"), message)
		h.equal("outbox", h.names("agents/alice/outbox"), []string{".sent"})
	}
}

func TestArchiveFromTheLog(t *testing.T) {
	h := memHive(t)
	h.write(outDir+"x.json", message)
	a := h.one()
	h.ok(h.Archive(a, "x.json"))
	h.write(sentDir+"x.json", "") // by a power cut
	h.ok(h.Archive(protocol.Arrival{Agent: a.Agent, Name: a.Original.Name, Original: a.Original, Raw: a.Raw}, "x.json"))
	h.equal("archived", h.read(sentDir+"x.json"), message)
}

func TestArchiveThatFailsIsHandedOutAgain(t *testing.T) {
	mem := faultfs.New()
	h := newHive(t, mem)
	h.write(outDir+"x.json", message)
	for range 2 {
		h.one()
		h.wait(time.Second)
	}
	a := h.one()
	h.wait(time.Second)
	h.none()
	boom := errors.New("boom")
	mem.FailAt(1, boom, 1)
	if err := h.Archive(a, "x.json"); !errors.Is(err, boom) {
		t.Fatalf("got %v, want boom", err)
	}
	h.ok(h.Archive(h.one(), "x.json"))
}

func TestArchiveWithoutSent(t *testing.T) {
	for _, content := range []string{message, ""} {
		h := memHive(t)
		if content == "" {
			h.ok(h.disk.Mkdir(outDir+"x.json", 0o755))
		} else {
			h.write(outDir+"x.json", content)
		}
		h.ok(h.Remove("agents/alice/outbox/.sent"))
		if err := h.Archive(h.one(), "x.json"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("got %v, want that .sent does not exist", err)
		}
		_, err := h.Ensure(alice)
		h.ok(err)
		h.ok(h.Archive(h.one(), "x.json"))
		h.equal("outbox", h.names("agents/alice/outbox"), []string{".sent"})
	}
}

func TestRecheckOfAnOldFile(t *testing.T) { // finds a change without reading it
	h := diskHive(t)
	h.now = time.Now().Add(time.Hour)
	h.write(outDir+"x.json", message)
	f, err := h.disk.Append(outDir + "x.json")
	h.ok(err)
	h.ok(h.Archive(h.one(), "x.json"))
	h.add(f, "\n")
	h.ok(f.Close())
	h.wait(settle)
	h.disk.opens = 0
	h.equal("changed", h.Recheck(h.now), []string{sentDir + "x.json"})
	h.equal("opened", h.disk.opens, 0)
}

func TestArchiveUnread(t *testing.T) {
	h := memHive(t)
	h.ok(h.disk.FS.(*faultfs.Mem).Symlink(outDir+"x.json", "/etc/passwd"))
	a := h.one()
	h.replace(outDir+"x.json", message)
	h.ok(h.Archive(a, "bad-x.json"))
	h.equal("the replacement", string(h.one().Raw), message)
}

// TestRecheck checks that bytes changed through an open descriptor after acceptance
// are found.
func TestRecheck(t *testing.T) {
	h := diskHive(t)
	now := time.Now()
	h.now = now
	agent := map[string]*os.File{}
	for _, n := range []string{"quiet", "longer", "same-size", "swept", "later"} {
		f, err := os.Create(h.path(outDir + n + ".json"))
		h.ok(err)
		_, err = f.WriteString(message)
		h.ok(err)
		agent[n] = f
		t.Cleanup(func() { _ = f.Close() })
	}
	s := h.scan()
	h.equal("arrivals", len(s.Arrivals), 5)
	for _, a := range s.Arrivals {
		h.ok(h.Archive(a, a.Name))
	}
	_, err := agent["longer"].WriteString("\n")
	h.ok(err)
	info, err := os.Stat(h.path(sentDir + "same-size.json"))
	h.ok(err)
	_, err = agent["same-size"].WriteAt([]byte("X"), 9)
	h.ok(err)
	// As if changed in the tick in which the file was read.
	h.ok(os.Chtimes(h.path(sentDir+"same-size.json"), info.ModTime(), info.ModTime()))
	h.ok(os.Remove(h.path(sentDir + "swept.json")))

	h.wait(settle - time.Millisecond)
	h.equal("early", len(h.Recheck(h.now)), 0)
	h.wait(time.Millisecond)
	got := h.Recheck(h.now)
	h.equal("changed", got, []string{sentDir + "longer.json", sentDir + "same-size.json"})
	for _, name := range got {
		h.ok(h.Put(name, []byte(message)))
		h.equal("set right", h.read(name), message)
	}
	h.equal("once", len(h.Recheck(h.now.Add(time.Hour))), 0)
}

// TestArchiveCrash crashes at each operation, archives again, and checks that the
// file is in one place.
func TestArchiveCrash(t *testing.T) {
	for _, loss := range []faultfs.Loss{faultfs.Keep, faultfs.Drop, faultfs.Torn(1), faultfs.Torn(2)} {
		for n := 1; ; n++ {
			mem := faultfs.New()
			h := newHive(t, mem)
			h.write(outDir+"x.json", message)
			h.ok(mem.SyncAll())
			a := h.one()
			mem.CrashAt(n, loss)
			err := h.Archive(a, "x.json")
			h = rebooted(t, mem)
			if s := h.scan(); len(s.Arrivals) > 0 {
				same := s.Arrivals[0].Original
				same.CTime = a.Original.CTime // the move changes it
				h.equal("the same file", same, a.Original)
				a = s.Arrivals[0]
			}
			h.ok(h.Archive(a, "x.json"))
			h.equal(fmt.Sprintf("outbox after a crash at %d, %s", n, loss), h.names("agents/alice/outbox"), []string{".sent"})
			h.equal("archive", h.names("agents/alice/outbox/.sent"), []string{"x.json"})
			h.equal("archived", h.read(sentDir+"x.json"), message)
			if err == nil {
				break
			}
		}
	}
}

// TestArchiveCrashWithAReplacement kills the process between moving a replacement
// and reading it, and checks that the replacement stays in the outbox. For an
// arrival made from the log, which is not in the outbox any more, what has its name
// now stays there too, message or not.
func TestArchiveCrashWithAReplacement(t *testing.T) {
	for _, fromLog := range []bool{false, true} {
		for n := 1; ; n++ {
			mem := faultfs.New()
			h := newHive(t, mem)
			h.write(outDir+"x.json", message)
			a, newer := h.one(), other
			if fromLog {
				a, newer = protocol.Arrival{Agent: a.Agent, Name: a.Name, Original: a.Original, Raw: a.Raw}, "{"
			}
			h.replace(outDir+"x.json", newer)
			mem.CrashAt(n, faultfs.Keep)
			err := h.Archive(a, "x.json")
			h = rebooted(t, mem)
			h.ok(h.Archive(a, "x.json"))
			h.equal(fmt.Sprintf("archived after a crash at %d", n), h.read(sentDir+"x.json"), message)
			if h.equal("the newer file", h.read(outDir+"x.json"), newer); !fromLog {
				h.equal("the replacement", string(h.one().Raw), other)
			}
			if err == nil {
				break
			}
		}
	}
}

func rebooted(t *testing.T, mem *faultfs.Mem) *hive {
	t.Helper()
	return newHive(t, mem.Reboot())
}
