package mailbox

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/durable/faultfs"
	"github.com/hived/hived/protocol"
)

const secret = "what nobody may read"

// TestFiles checks what becomes of what agents put into their outbox.
func TestFiles(t *testing.T) {
	long := strings.Repeat("n", 250) + ".json"
	for _, tt := range []struct {
		name  string
		put   func(h *hive)
		file  string        // empty: x.json
		after time.Duration // when it is decided, and no earlier
		code  protocol.Code // empty: a message
		read  bool          // whether the quarantined bytes were read
	}{
		{name: "a message", put: text(message)},
		{name: "1 empty", put: text(""), after: settle, code: protocol.CodeMalformed, read: true},
		{name: "2 cut", put: text(message[:9]), after: settle, code: protocol.CodeMalformed, read: true},
		{name: "7 link out", put: func(h *hive) { h.ok(os.Symlink("../../../secret", h.path(outDir+"x.json"))) }, code: protocol.CodeNotAFile},
		{name: "7 absolute link", put: func(h *hive) { h.ok(os.Symlink(h.path("secret"), h.path(outDir+"x.json"))) }, code: protocol.CodeNotAFile},
		{name: "7 link inside", put: func(h *hive) { h.write(outDir+"y", message); h.ok(os.Symlink("y", h.path(outDir+"x.json"))) }, code: protocol.CodeNotAFile},
		{name: "7 dangling link", put: func(h *hive) { h.ok(os.Symlink("nowhere", h.path(outDir+"x.json"))) }, code: protocol.CodeNotAFile},
		{name: "8 hard link to a secret", put: func(h *hive) { h.ok(os.Link(h.path("secret"), h.path(outDir+"x.json"))) }, after: settle, code: protocol.CodeHardLink},
		{name: "9 FIFO", put: fifo, code: protocol.CodeNotAFile},
		{name: "10 device", put: device, code: protocol.CodeNotAFile},
		{name: "11 socket", put: socket, code: protocol.CodeNotAFile},
		{name: "11 directory", put: func(h *hive) { h.ok(os.MkdirAll(h.path(outDir+"x.json/y"), 0o755)) }, code: protocol.CodeNotAFile},
		{name: "14 file of another user", put: foreign, code: protocol.CodeUnreadable},
		{name: "15 sparse 1 TB", put: sparse(1 << 40), code: protocol.CodeTooLarge},
		{name: "15 one byte too long", put: sparse(1<<20 + 1), code: protocol.CodeTooLarge},
		{name: "15a long broken name", put: func(h *hive) { h.write(outDir+long, "{") }, file: long, after: settle, code: protocol.CodeMalformed, read: true},
		{name: "15a long name", put: func(h *hive) { h.write(outDir+long, message) }, file: long},
		{name: "18 newline", put: named("a\nb.json"), file: "a\nb.json"},
		{name: "18 escape", put: named("\x1b[31m.json"), file: "\x1b[31m.json"},
		{name: "18 bad UTF-8", put: named("\xff\xfe.json"), file: "\xff\xfe.json"},
		{name: "18 option", put: named("-rf.json"), file: "-rf.json"},
		{name: "18 right to left", put: named("\u202egpj.json"), file: "\u202egpj.json"},
		{name: "19 git~1", put: named("git~1.json"), file: "git~1.json"},
		{name: "19 CON", put: named("CON.json"), file: "CON.json"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := diskHive(t)
			h.write("secret", secret)
			tt.put(h)
			if tt.file == "" {
				tt.file = "x.json"
			}
			if tt.after > 0 {
				s := h.none()
				h.equal("again", s.Again, h.now.Add(tt.after))
				h.wait(tt.after - time.Millisecond)
				h.none()
				h.wait(time.Millisecond)
			}
			a := h.one()
			h.equal("name", a.Name, tt.file)
			h.equal("safe name", a.Original.Name, protocol.SafeName(tt.file))
			if tt.code == "" {
				h.equal("fault", a.Fault, (*protocol.Fault)(nil))
				h.equal("raw", string(a.Raw), message)
				h.equal("recipient", a.Message.To[0], protocol.Address("bob"))
			} else {
				if a.Fault == nil {
					t.Fatalf("no fault: %+v", a)
				}
				h.equal("code", a.Fault.Code, tt.code)
				h.equal("message", a.Message, (*protocol.Message)(nil))
				h.equal("read", a.Raw != nil, tt.read)
				if strings.ContainsAny(a.Fault.Detail, "\n\x1b") || !strings.Contains(a.Fault.Detail, "; ") {
					t.Errorf("detail %q is not one line with a remedy", a.Fault.Detail)
				}
			}
			as := protocol.SentName("bad-" + tt.file)
			h.ok(h.Archive(a, as))
			h.equal("left in the outbox", contains(h.names("agents/alice/outbox"), tt.file), false)
			h.equal("archived", contains(h.names("agents/alice/outbox/.sent"), as), true)
			h.equal("the secret", h.read("secret"), secret)
			h.wait(time.Minute)
			h.none()
			h.equal("changed since", len(h.Recheck(h.now)), 0)
		})
	}
}

func text(s string) func(*hive) { return func(h *hive) { h.write(outDir+"x.json", s) } }

func named(name string) func(*hive) { return func(h *hive) { h.write(outDir+name, message) } }

func sparse(size int64) func(*hive) {
	return func(h *hive) {
		h.write(outDir+"x.json", message)
		if err := os.Truncate(h.path(outDir+"x.json"), size); err != nil {
			h.Skip(err)
		}
	}
}

func socket(h *hive) {
	h.Chdir(h.path(outDir)) // the path of a socket is short
	l, err := new(net.ListenConfig).Listen(h.Context(), "unix", "x.json")
	if err != nil {
		h.Skip(err)
	}
	h.Cleanup(func() { _ = l.Close() })
}

func foreign(h *hive) {
	h.write(outDir+"x.json", message)
	if err := os.Chown(h.path(outDir+"x.json"), 12345, -1); err != nil {
		h.Skip("only root gives files away:", err)
	}
}

func contains(names []string, name string) bool {
	return slices.Contains(names, name)
}

func TestCutAtEachByte(t *testing.T) {
	h := memHive(t)
	for i := range message {
		h.write(fmt.Sprintf("%s%03d.json", outDir, i), message[:i])
	}
	h.none()
	h.wait(settle)
	s := h.scan()
	h.equal("quarantined", len(s.Arrivals), len(message))
	for i, a := range s.Arrivals {
		if a.Fault == nil || a.Fault.Code != protocol.CodeMalformed || a.Fault.Line != 1 {
			t.Errorf("cut at byte %d: %+v", i, a.Fault)
		}
	}
}

func TestSlowWriter(t *testing.T) {
	h := memHive(t)
	f, err := h.disk.Create(outDir+"x.json", 0o644)
	h.ok(err)
	for i := range message {
		h.none()
		h.wait(settle + 3*time.Second) // well past settle, but the file is open
		h.none()
		h.add(f, message[i:i+1])
		h.wait(time.Millisecond)
	}
	a := h.one()
	h.equal("raw", string(a.Raw), message)
	h.ok(h.Archive(a, "x.json"))
	h.none()
	h.ok(f.Close())
}

func TestSlowWriterThatCloses(t *testing.T) { // settle starts again with each change
	h := memHive(t)
	for i := range message {
		h.write(outDir+"x.json", message[:i])
		h.none()
		h.wait(settle - time.Millisecond)
		h.none()
	}
	h.write(outDir+"x.json", message)
	h.equal("raw", string(h.one().Raw), message)
}

func TestWriterNeverEnds(t *testing.T) {
	h := memHive(t)
	f, err := h.disk.Create(outDir+"x.json", 0o644)
	h.ok(err)
	h.add(f, "{")
	s := h.none()
	for !s.Again.IsZero() && s.Again.Sub(h.now) > 0 && h.now.Sub(start()) < maxSettle-settle {
		h.now = s.Again
		s = h.none()
	}
	h.now = start().Add(maxSettle - time.Nanosecond)
	s = h.none()
	h.equal("again", s.Again, start().Add(maxSettle))
	h.now = s.Again
	a := h.one()
	h.equal("code", a.Fault.Code, protocol.CodeMalformed)
	h.ok(f.Close())
}

// start returns the time at which the clock of a test's hive begins.
func start() time.Time {
	return time.Date(2026, 11, 21, 9, 0, 0, 1, time.UTC)
}

func TestOpenWriterOnDisk(t *testing.T) { // with a real lease
	h := diskHive(t)
	f, err := os.Create(h.path(outDir + "x.json"))
	h.ok(err)
	_, err = f.WriteString(message[:10])
	h.ok(err)
	h.none()
	h.wait(5 * time.Second)
	r, err := h.disk.FS.Open(outDir + "x.json")
	h.ok(err)
	_, known := durable.BeingWritten(r)
	h.ok(r.Close())
	if !known {
		t.Skip("the platform does not show whether a file is open")
	}
	h.none()
	_, err = f.WriteString(message[10:])
	h.ok(err)
	h.ok(f.Close())
	h.equal("raw", string(h.one().Raw), message)
}

func TestFileOfTheFuture(t *testing.T) {
	h := diskHive(t)
	h.write(outDir+"x.json", "{")
	future := time.Now().AddDate(10, 0, 0)
	h.ok(os.Chtimes(h.path(outDir+"x.json"), future, future))
	h.none()
	h.wait(settle)
	h.equal("code", h.one().Fault.Code, protocol.CodeMalformed)
}

func TestPublishingByLink(t *testing.T) { // two names for a moment
	h := memHive(t)
	h.write("agents/alice/draft", message)
	h.ok(h.disk.Link("agents/alice/draft", outDir+"x.json"))
	h.none()
	h.wait(settle / 2)
	h.none()
	h.ok(h.disk.Remove("agents/alice/draft"))
	h.equal("raw", string(h.one().Raw), message)
}

func TestHardLinkThatGrows(t *testing.T) { // a link to a busy file settles too
	h := memHive(t)
	h.write("busy", message)
	h.ok(h.disk.Link("busy", outDir+"x.json"))
	h.none()
	h.wait(settle)
	h.write("busy", message+" ")
	a := h.one()
	h.equal("code", a.Fault.Code, protocol.CodeHardLink)
	if a.Raw != nil {
		t.Error("a hard link was read")
	}
}

func TestOutboxIsALink(t *testing.T) {
	h := diskHive(t)
	elsewhere := t.TempDir()
	h.ok(os.RemoveAll(h.path("agents/alice/outbox")))
	h.ok(os.Symlink(elsewhere, h.path("agents/alice/outbox")))
	h.ok(os.WriteFile(filepath.Join(elsewhere, "x.json"), []byte(message), 0o600))
	_, err := h.Arrivals(alice, h.now, 10)
	if !errors.Is(err, durable.ErrLink) {
		t.Errorf("got %v, want ErrLink", err)
	}
}

func TestOutboxMadeAgain(t *testing.T) {
	h := memHive(t)
	h.none()
	h.wait(time.Second)
	h.none()
	h.ok(h.disk.Rename("agents/alice/outbox", "agents/alice/old"))
	if _, err := h.Arrivals(alice, h.now, 10); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want that it does not exist", err)
	}
	h.ok(h.disk.MkdirAll("agents/alice/outbox", 0o755))
	h.write(outDir+"x.json", message)
	h.equal("name", h.one().Name, "x.json")
}

func TestStrays(t *testing.T) {
	h := memHive(t)
	names := []string{".gitmodules", ".x.swp", "a.json.txt", "b.JSON", "c", "d.json~", "e.tmp"}
	for _, n := range names {
		h.write(outDir+n, message)
	}
	h.ok(h.disk.Mkdir(outDir+"f", 0o755))
	h.equal("strays at first", len(h.none().Strays), 0)
	h.wait(strays - time.Millisecond)
	h.equal("strays early", len(h.none().Strays), 0)
	h.ok(h.disk.Remove(outDir + "e.tmp"))
	h.write(outDir+"e.tmp", message) // a writer reuses its temporary name
	h.wait(time.Millisecond)
	var got []string
	for _, s := range h.none().Strays {
		h.equal("code of "+s.Name, s.Code, protocol.CodeStray)
		got = append(got, s.Name)
	}
	h.equal("strays", got, []string{".gitmodules", ".x.swp", "a.json.txt", "b.JSON", "c", "d.json~", "f"})
	h.wait(strays)
	s := h.none()
	h.equal("strays later", len(s.Strays), 1)
	h.equal("the other file", s.Strays[0].Name, "e.tmp")
	h.wait(strays)
	h.equal("strays mentioned twice", len(h.none().Strays), 0)
}

// denied is a disk on which some files cannot be opened.
type denied struct {
	durable.FS
	err map[string]error
}

func (d denied) Open(name string) (durable.File, error) {
	if err := d.err[name]; err != nil {
		return nil, durable.PathError("open", name, err)
	}
	return d.FS.Open(name)
}

func TestUnreadable(t *testing.T) {
	d := denied{faultfs.New(), map[string]error{outDir + "a.json": syscall.EACCES, outDir + "b.json": syscall.EIO}}
	h := newHive(t, d)
	for _, n := range []string{"a.json", "b.json", "c.json"} {
		h.write(outDir+n, message)
	}
	s := h.scan()
	h.equal("arrivals", len(s.Arrivals), 1)
	h.equal("the other flows", s.Arrivals[0].Name, "c.json")
	h.ok(h.Archive(s.Arrivals[0], "c.json"))
	h.equal("again", s.Again, h.now.Add(settle))
	h.wait(settle)
	s = h.none()
	h.equal("mentioned", len(s.Strays), 2)
	h.equal("code", s.Strays[0].Code, protocol.CodeUnreadable)
	h.wait(settle)
	h.equal("mentioned twice", len(h.none().Strays), 0)
	delete(d.err, outDir+"a.json")
	h.equal("readable now", h.one().Name, "a.json")
}

func TestTooManyOpenFiles(t *testing.T) {
	d := denied{faultfs.New(), map[string]error{outDir + "b.json": syscall.EMFILE}}
	h := newHive(t, d)
	for _, n := range []string{"a.json", "b.json", "c.json"} {
		h.write(outDir+n, message)
	}
	s := h.scan()
	h.equal("before it", len(s.Arrivals), 1)
	h.equal("more", s.More, true)
	if _, err := h.Arrivals(alice, h.now, 10); !errors.Is(err, syscall.EMFILE) {
		t.Errorf("got %v, want EMFILE", err)
	}
	clear(d.err)
	s = h.scan()
	h.equal("after it", len(s.Arrivals), 2)
}

func TestOneFloodIsListedOnce(t *testing.T) {
	const files, slice = 100_000, 500
	h := memHive(t)
	for i := range files {
		h.write(fmt.Sprintf("%s%06d.json", outDir, i), message)
	}
	h.disk.lists, h.disk.stats, h.disk.opens = 0, 0, 0
	calls, got, last := 0, 0, ""
	for more := true; more; calls++ {
		s, err := h.Arrivals(alice, h.now, slice)
		h.ok(err)
		if len(s.Arrivals) > slice {
			t.Fatalf("%d arrivals in one call", len(s.Arrivals))
		}
		for _, a := range s.Arrivals {
			if a.Name <= last {
				t.Fatalf("%s after %s", a.Name, last)
			}
			last = a.Name
			got++
		}
		more = s.More
	}
	h.equal("arrivals", got, files)
	h.equal("calls", calls, files/slice)
	h.equal("listings", h.disk.lists, 1)
	h.equal("opened", h.disk.opens, files)
}

func TestFloodOfBrokenFiles(t *testing.T) { // a call stays short
	h := memHive(t)
	for i := range 1000 {
		h.write(fmt.Sprintf("%s%06d.json", outDir, i), "{")
	}
	h.disk.opens = 0
	s, err := h.Arrivals(alice, h.now, 10)
	h.ok(err)
	h.equal("more", s.More, true)
	h.equal("opened in one call", h.disk.opens, 10*looksPerArrival)
}

func TestBigMessagesComeInSlices(t *testing.T) {
	h := memHive(t)
	big := `{"to":"bob","body":"` + strings.Repeat("x", 1<<20-100) + `"}`
	for i := range 20 {
		h.write(fmt.Sprintf("%s%02d.json", outDir, i), big)
	}
	s := h.scan()
	h.equal("more", s.More, true)
	if n := len(s.Arrivals); n < 8 || n > 10 {
		t.Errorf("%d messages of 1 MiB in one call", n)
	}
}

func TestIdleOutboxCostsOneStat(t *testing.T) {
	h := memHive(t)
	for range 3 {
		h.none()
		h.wait(time.Second)
	}
	h.disk.lists, h.disk.stats, h.disk.opens = 0, 0, 0
	h.none()
	h.equal("calls", []int{h.disk.lists, h.disk.stats, h.disk.opens}, []int{0, 1, 0})
}

func TestRacyOutbox(t *testing.T) { // a second change within one tick of the disk's clock
	mem := faultfs.New()
	h := newHive(t, mem)
	frozen := h.now
	mem.SetClock(func() time.Time { return frozen })
	h.write(outDir+"a.json", message)
	h.equal("first", h.one().Name, "a.json")
	h.write(outDir+"b.json", message)
	h.wait(10 * time.Millisecond)
	h.equal("second", len(h.scan().Arrivals), 2)
	h.write(outDir+"c.json", message)
	h.wait(10 * time.Millisecond)
	h.equal("third", len(h.scan().Arrivals), 3)
}

// TestRacyOutboxSeenLate checks that a change in the tick of a scan is found, even
// if the scan, in a long step of the loop, comes after the time that it is given.
func TestRacyOutboxSeenLate(t *testing.T) {
	mem := faultfs.New()
	h := newHive(t, mem)
	frozen := h.now.Add(45 * time.Millisecond)
	mem.SetClock(func() time.Time { return frozen })
	h.write(outDir+"a.json", message)
	h.one()
	h.wait(50 * time.Millisecond)
	h.one()
	h.write(outDir+"b.json", message)
	h.equal("moved", h.Moved(alice, h.now).Outbox, true)
	h.equal("both", len(h.scan().Arrivals), 2)
}

// TestHeardDuringARound checks that a hint that comes while the files of a listing
// are read leads to another listing, and that a hint leads to one whatever the
// directory's time is.
func TestHeardDuringARound(t *testing.T) {
	h := memHive(t)
	for range 4 {
		h.none()
		h.wait(time.Second)
	}
	for _, name := range []string{"a.json", "b.json"} {
		h.write(outDir+name, message)
	}
	s, err := h.Arrivals(alice, h.now, 1)
	h.ok(err)
	h.equal("left", []bool{s.More, h.Unread(alice)}, []bool{true, true})
	h.Heard(alice)
	s, err = h.Arrivals(alice, h.now, 1)
	h.ok(err)
	h.equal("left", []bool{s.More, h.Unread(alice)}, []bool{false, true})
	for range 4 {
		h.scan()
		h.wait(time.Second)
	}
	h.equal("left", h.Unread(alice), false)
	lists := h.disk.lists
	h.none()
	h.equal("listings", h.disk.lists-lists, 0)
	h.Heard(alice)
	h.equal("arrivals", len(h.scan().Arrivals), 2)
}

func TestUnsettledIsLookedAtAgainWithoutListing(t *testing.T) {
	h := memHive(t)
	h.write(outDir+"x.json", "{")
	h.none()
	for range 2 {
		h.wait(100 * time.Millisecond)
		h.none()
	}
	lists, opens := h.disk.lists, h.disk.opens
	h.wait(100 * time.Millisecond)
	h.none()
	h.equal("listings", h.disk.lists, lists)
	h.equal("opened", h.disk.opens, opens)
	h.write(outDir+"x.json", message)
	h.one()
	h.equal("listings", h.disk.lists, lists)
}

func TestSentTaken(t *testing.T) {
	h := memHive(t)
	for _, n := range []string{"a.json", "b.json", "c\n.json", "c%0A.json"} {
		h.write(outDir+n, message)
	}
	for _, n := range []string{"w.json", "x.json", "y\n.json", strings.Repeat("z", 250) + ".json"} {
		h.write(outDir+n, "{")
	}
	h.write(sentDir+"b.json", message)
	h.write(sentDir+"bad-x.json", message)
	got := map[string]bool{}
	for range 2 {
		for _, a := range h.scan().Arrivals {
			got[a.Name[:1]+a.Name[len(a.Name)-6:]] = a.SentTaken
			if a.Fault != nil {
				got[a.Name[:1]+a.Name[len(a.Name)-6:]] = a.BadTaken
			}
		}
		h.wait(settle)
	}
	h.equal("taken", got, map[string]bool{
		"aa.json": false, "bb.json": true, "c\n.json": true, "cA.json": false,
		"ww.json": false, "xx.json": true, "y\n.json": true, "zz.json": true,
	})
}

func TestForgetHandsOutAgain(t *testing.T) {
	h := memHive(t)
	h.write(outDir+"x.json", message)
	for range 3 {
		h.one()
		h.wait(time.Second)
	}
	h.none()
	h.Forget(alice)
	h.one()
}
