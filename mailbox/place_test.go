package mailbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/durable/faultfs"
	"github.com/hived/hived/internal/testenv"
)

const doneDir = inDir + ".done/"

func TestDeliver(t *testing.T) {
	h := diskHive(t)
	h.ok(h.Deliver(alice, "1.json", []byte(message)))
	h.equal("delivered", h.read(inDir+"1.json"), message)
	h.equal("inbox", h.names("agents/alice/inbox"), []string{".done", marker, "1.json"})
	info, err := os.Stat(h.path(inDir + "1.json"))
	h.ok(err)
	h.equal("mode", info.Mode(), os.FileMode(0o644))

	h.ok(h.Deliver(alice, "1.json", []byte(message)))
	err = h.Deliver(alice, "1.json", []byte(other))
	if !errors.Is(err, ErrTaken) {
		t.Errorf("over other bytes: %v, want ErrTaken", err)
	}
	h.equal("what was there", h.read(inDir+"1.json"), message)
	h.equal("inbox", h.names("agents/alice/inbox"), []string{".done", marker, "1.json"})
}

func TestDeliverToAVanishedInbox(t *testing.T) {
	h := memHive(t)
	h.ok(h.Remove("agents/alice/inbox"))
	if err := h.Deliver(alice, "1.json", []byte(message)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want that the inbox does not exist", err)
	}
}

func TestDeliverNeverFollows(t *testing.T) {
	for name, place := range map[string]string{"inbox": "agents/alice/inbox", "file": inDir + "1.json"} {
		t.Run(name, func(t *testing.T) {
			h := diskHive(t)
			elsewhere := t.TempDir()
			h.ok(os.RemoveAll(h.path(place)))
			h.ok(os.Symlink(elsewhere, h.path(place)))
			if err := h.Deliver(alice, "1.json", []byte(message)); err == nil {
				t.Error("delivered through a link")
			}
			entries, err := os.ReadDir(elsewhere)
			h.ok(err)
			h.equal("behind the link", len(entries), 0)
		})
	}
}

// empty stands for a file with no bytes.
const empty = "empty"

func TestRedeliver(t *testing.T) {
	for _, tt := range []struct {
		name        string
		inbox, done string // before; empty: absent
		err         error
		want        string // inbox and .done afterwards
	}{
		{name: "lost", want: message + "|"},
		{name: "there", inbox: message, want: message + "|"},
		{name: "altered", inbox: other, err: ErrTaken, want: other + "|"},
		{name: "longer", inbox: message + " ", err: ErrTaken, want: message + " |"},
		{name: "cut by a power cut", inbox: message[:5], want: message + "|"},
		{name: "zeroed by a power cut", inbox: message[:5] + "\x00\x00", want: message + "|"},
		{name: "handled", done: message, want: "|" + message},
		{name: "handled, and written over", done: other, want: "|" + message},
		{name: "moved away while it was empty", done: empty, want: message + "|"},
		{name: "moved away while it was cut", done: message[:5], want: message + "|"},
		{name: "moved away while it was zeros", done: "\x00\x00\x00", want: message + "|"},
		{name: "moved away while it was torn, and made whole since", inbox: message, done: message[:5], want: message + "|"},
		{name: "torn here and there", inbox: message[:3], done: message[:5], want: message + "|"},
		{name: "taken out again", inbox: message, done: message, want: message + "|" + message},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := memHive(t)
			if tt.inbox != "" {
				h.write(inDir+"1.json", tt.inbox)
			}
			if tt.done != "" {
				h.write(doneDir+"1.json", strings.TrimPrefix(tt.done, empty))
			}
			before := h.disk.FS.(*faultfs.Mem).Ops()
			err := h.Redeliver(alice, "1.json", []byte(message))
			if !errors.Is(err, tt.err) {
				t.Errorf("got %v, want %v", err, tt.err)
			}
			if tt.err != nil && h.disk.FS.(*faultfs.Mem).Ops() != before {
				t.Error("it wrote though the name is taken: the agent may move the file meanwhile")
			}
			got := ""
			if contains(h.names("agents/alice/inbox"), "1.json") {
				got = h.read(inDir + "1.json")
			}
			got += "|"
			if contains(h.names("agents/alice/inbox/.done"), "1.json") {
				got += h.read(doneDir + "1.json")
			}
			h.equal("afterwards", got, tt.want)
		})
	}
}

func TestPut(t *testing.T) {
	h := diskHive(t)
	name := doneDir + "1.json"
	for _, was := range []string{"", message, other} {
		h.write(name, was)
		h.ok(h.Put(name, []byte(message)))
		h.equal("put over "+was, h.read(name), message)
	}
	h.ok(os.Remove(h.path(name)))
	h.ok(os.Symlink("/etc/passwd", h.path(name)))
	h.ok(h.Put(name, []byte(message)))
	h.equal("put over a link", h.read(name), message)
	h.ok(h.Put(doneDir+"2.json", nil))
	h.equal("put nothing", h.read(doneDir+"2.json"), "")

	h.ok(os.Mkdir(h.path(doneDir+"3.json"), 0o755))
	if err := h.Put(doneDir+"3.json", []byte(message)); !errors.Is(err, ErrTaken) {
		t.Errorf("over a directory: %v, want ErrTaken", err)
	}
	h.equal("no temporary file is left", h.names("agents/alice/inbox/.done"), []string{"1.json", "2.json", "3.json"})
	before, err := h.disk.FS.Lstat(name)
	h.ok(err)
	h.ok(h.Put(name, []byte(message)))
	after, err := h.disk.FS.Lstat(name)
	h.ok(err)
	h.equal("inode where the bytes were right", after.Ino, before.Ino)
}

func TestMove(t *testing.T) {
	from, to := inDir+"1.json", doneDir+"1.json"
	for _, tt := range []struct {
		name     string
		from, to string // before; empty: absent
		err      error
		left     bool // from is there afterwards
	}{
		{name: "to be moved", from: message},
		{name: "moved already", to: message},
		{name: "in both places", from: message, to: message},
		{name: "in both places, different", from: other, to: message, err: ErrTaken, left: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := memHive(t)
			if tt.from != "" {
				h.write(from, tt.from)
			}
			if tt.to != "" {
				h.write(to, tt.to)
			}
			if err := h.Move(from, to); !errors.Is(err, tt.err) {
				t.Errorf("got %v, want %v", err, tt.err)
			}
			h.equal("to", h.read(to), message)
			h.equal("from is there", contains(h.names("agents/alice/inbox"), "1.json"), tt.left)
		})
	}
	h := memHive(t)
	if err := h.Move(from, to); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("in neither place: %v", err)
	}
}

func TestRemove(t *testing.T) {
	h := diskHive(t)
	elsewhere := t.TempDir()
	h.write("precious", message)
	h.ok(os.MkdirAll(h.path(sentDir+"bad-d.json/deep/deeper"), 0o755))
	h.ok(os.Symlink(elsewhere, h.path(sentDir+"bad-d.json/link")))
	h.ok(os.Symlink(h.path("precious"), h.path(sentDir+"bad-d.json/deep/link")))
	h.write(sentDir+"a.json", message)
	for range 2 {
		h.ok(h.Remove(sentDir + "a.json"))
		h.ok(h.Remove(sentDir + "bad-d.json"))
	}
	h.equal("left", len(h.names("agents/alice/outbox/.sent")), 0)
	h.equal("behind a link", h.read("precious"), message)
}

// TestRemoveAll removes files of several directories, and checks the errors for
// those that cannot be removed.
func TestRemoveAll(t *testing.T) {
	h := diskHive(t)
	var names []string
	for i := range 30 {
		for _, dir := range []string{sentDir, inDir} {
			name := fmt.Sprintf("%s%02d.json", dir, i)
			h.write(name, message)
			names = append(names, name)
		}
	}
	names = append(names, "/elsewhere")
	for i, err := range h.RemoveAll(names) {
		if last := i == len(names)-1; last != (err != nil) {
			t.Errorf("%s: %v", names[i], err)
		}
	}
	h.equal("left in .sent", len(h.names("agents/alice/outbox/.sent")), 0)
	h.equal("left in the inbox", strings.Join(h.names("agents/alice/inbox"), " "), ".done .hived")
}

func TestSetAside(t *testing.T) {
	h := diskHive(t)
	h.write(inDir+"1.json", "intruder")
	if err := h.Deliver(alice, "1.json", []byte(message)); !errors.Is(err, ErrTaken) {
		t.Fatalf("got %v, want ErrTaken", err)
	}
	for range 2 {
		data, err := h.SetAside(alice, "1.json", "bad-1.json")
		h.ok(err)
		h.equal("its bytes", string(data), "intruder")
	}
	h.ok(h.Deliver(alice, "1.json", []byte(message)))
	h.equal("delivered", h.read(inDir+"1.json"), message)

	if _, err := h.SetAside(alice, "1.json", "bad-1.json"); !errors.Is(err, ErrTaken) {
		t.Errorf("over another file: %v, want ErrTaken", err)
	}
	h.ok(os.Symlink("/etc/passwd", h.path(inDir+"2.json")))
	h.ok(os.MkdirAll(h.path(inDir+"3.json/x"), 0o755))
	h.write(inDir+"4.json", strings.Repeat("x", 1<<20+1))
	for i := 2; i <= 4; i++ {
		data, err := h.SetAside(alice, fmt.Sprintf("%d.json", i), fmt.Sprintf("bad-%d.json", i))
		h.ok(err)
		if data != nil {
			t.Errorf("%d.json was read", i)
		}
	}
	h.equal("inbox", h.names("agents/alice/inbox"), []string{".done", marker, "1.json"})
}

func TestTemporaryNamesInTheWay(t *testing.T) {
	h := memHive(t)
	h.write(inDir+".hived-0.tmp", "left by a crash")
	h.ok(h.Deliver(alice, "1.json", []byte(message)))
	h.equal("inbox", h.names("agents/alice/inbox"), []string{".done", marker, "1.json"})
	h.ok(h.disk.MkdirAll(inDir+".hived-0.tmp/in/the/way", 0o755))
	h.ok(h.Deliver(alice, "2.json", []byte(message)))
	h.equal("inbox", h.names("agents/alice/inbox"), []string{".done", marker, ".hived-0.tmp", "1.json", "2.json"})
}

// TestDeliverCrash crashes at each operation, delivers again, and checks that one
// whole file is in one place.
func TestDeliverCrash(t *testing.T) {
	for _, loss := range []faultfs.Loss{faultfs.Keep, faultfs.Drop, faultfs.Torn(1), faultfs.Torn(2)} {
		for n := 1; ; n++ {
			mem := faultfs.New()
			h := newHive(t, mem)
			h.ok(mem.SyncAll())
			mem.CrashAt(n, loss)
			err := h.Deliver(alice, "1.json", []byte(message))
			h = rebooted(t, mem)
			h.ok(h.Redeliver(alice, "1.json", []byte(message)))
			h.equal(fmt.Sprintf("delivered after a crash at %d, %s", n, loss), h.read(inDir+"1.json"), message)
			h.equal("inbox", h.names("agents/alice/inbox"), []string{".done", marker, "1.json"})
			if err == nil {
				break
			}
		}
	}
}

func TestDeliverFaults(t *testing.T) {
	for n := 1; n <= 3; n++ {
		mem := faultfs.New()
		h := newHive(t, mem)
		mem.FailAt(n, durable.ErrNoSpace, 1)
		if err := h.Deliver(alice, "1.json", []byte(message)); !errors.Is(err, durable.ErrNoSpace) {
			t.Fatalf("operation %d: got %v, want ErrNoSpace", n, err)
		}
		if slices.Contains(h.names("agents/alice/inbox"), "1.json") {
			t.Errorf("operation %d: half a delivery can be seen", n)
		}
		h.ok(h.Deliver(alice, "1.json", []byte(message)))
		h.equal("inbox", h.names("agents/alice/inbox"), []string{".done", marker, "1.json"})
	}
}

// TestModesBelowTasks checks that what is written below tasks/ is as open as
// tasks/, and never more than that.
func TestModesBelowTasks(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ tasks, file, dir fs.FileMode }{
		{0o755, 0o644, 0o755},
		{0o777, 0o644, 0o755},
		{0o750, 0o640, 0o750},
		{0o700, 0o600, 0o700},
	} {
		disk := faultfs.New()
		b := New(disk, Options{})
		testenv.Must(t, disk.Mkdir("tasks", tt.tasks))
		for _, err := range b.PutAll([]File{{Name: "tasks/1/brief.json", Data: []byte("x")}, {Name: "registry.json", Data: []byte("x")}}) {
			testenv.Must(t, err)
		}
		for p, want := range map[string]fs.FileMode{"tasks/1": tt.dir, "tasks/1/brief.json": tt.file, "registry.json": 0o644} {
			if info, err := disk.Lstat(p); err != nil || info.Mode.Perm() != want {
				t.Errorf("below tasks/ with mode %04o: %s has mode %04o, want %04o, %v", tt.tasks, p, info.Mode.Perm(), want, err)
			}
		}
	}
}
