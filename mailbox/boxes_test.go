package mailbox

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/durable/faultfs"
	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/protocol"
)

func TestMain(m *testing.M) {
	testenv.Cheap()
	goleak.VerifyTestMain(m)
}

const (
	alice   protocol.AgentID = "alice"
	outDir                   = "agents/alice/outbox/"
	inDir                    = "agents/alice/inbox/"
	message                  = `{"to":"bob","body":"hello"}`
	settle                   = 2 * time.Second
	strays                   = time.Minute
)

var options = Options{Settle: settle, StraysAfter: strays, MaxMessageBytes: 1 << 20, OwnMaxBytes: 1 << 10}

// counting is an FS that counts its calls.
type counting struct {
	durable.FS
	mu                  sync.Mutex // files are read in several lanes
	lists, stats, opens int
}

func (c *counting) count(n *int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	*n++
}

func (c *counting) ReadDir(name string) ([]durable.Entry, error) {
	c.count(&c.lists)
	return c.FS.ReadDir(name)
}

func (c *counting) Lstat(name string) (durable.Info, error) {
	c.count(&c.stats)
	return c.FS.Lstat(name)
}

func (c *counting) Open(name string) (durable.File, error) {
	c.count(&c.opens)
	return c.FS.Open(name)
}

// hive is a hive with the agent alice, and a clock that only the test moves.
type hive struct {
	*testing.T
	*Boxes
	disk *counting
	root string // of a real disk
	now  time.Time
}

func newHive(t *testing.T, disk durable.FS) *hive {
	t.Helper()
	testenv.Must(t, disk.MkdirAll("agents", 0o755))
	c := &counting{FS: disk}
	h := &hive{T: t, Boxes: New(c, options), disk: c, now: start()}
	h.join(alice)
	h.Boxes = New(c, options) // one that has scanned nothing yet
	return h
}

// join makes an agent whose inbox was scanned once: it has its marker.
func (h *hive) join(id protocol.AgentID) {
	h.Helper()
	_, err := h.Ensure(id)
	h.ok(err)
	_, err = h.Inbox(id, h.now, slices.Values([]string(nil)), false)
	h.ok(err)
}

func memHive(t *testing.T) *hive {
	t.Helper()
	return newHive(t, faultfs.New())
}

func diskHive(t *testing.T) *hive {
	t.Helper()
	root := t.TempDir()
	disk, err := durable.Open(root)
	testenv.Must(t, err)
	t.Cleanup(func() { _ = disk.Close() })
	h := newHive(t, disk)
	h.root = root
	return h
}

func (h *hive) path(name string) string { return filepath.Join(h.root, filepath.FromSlash(name)) }

// ok stops the test at an error.
func (h *hive) ok(err error) {
	h.Helper()
	testenv.Must(h, err)
}

// write makes a file, or writes over one, as a shell does.
func (h *hive) write(name, text string) {
	h.Helper()
	f, err := h.disk.Create(name, 0o644)
	if errors.Is(err, fs.ErrExist) {
		f, err = h.disk.Append(name)
	}
	h.ok(err)
	h.ok(f.Truncate(0))
	h.add(f, text)
	h.ok(f.Close())
}

func (h *hive) add(f durable.File, text string) {
	h.Helper()
	_, err := f.Write([]byte(text))
	h.ok(err)
}

// replace makes a file under another name and renames it.
func (h *hive) replace(name, text string) {
	h.Helper()
	h.write(name+".new", text)
	h.ok(h.disk.Rename(name+".new", name))
}

func (h *hive) read(name string) string {
	h.Helper()
	data, _, err := durable.ReadFile(h.disk.FS, name, -1)
	if err != nil {
		return "(" + err.Error() + ")"
	}
	return string(data)
}

// names lists a directory, temporary names and all.
func (h *hive) names(dir string) []string {
	h.Helper()
	entries, err := h.disk.FS.ReadDir(dir)
	h.ok(err)
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, e.Name)
	}
	return names
}

func (h *hive) scan() Scan {
	h.Helper()
	s, err := h.Arrivals(alice, h.now, 100)
	h.ok(err)
	return s
}

// one expects exactly one arrival.
func (h *hive) one() protocol.Arrival {
	h.Helper()
	s := h.scan()
	if len(s.Arrivals) != 1 {
		h.Fatalf("got %d arrivals, want 1: %+v", len(s.Arrivals), s)
	}
	return s.Arrivals[0]
}

func (h *hive) none() Scan {
	h.Helper()
	s := h.scan()
	if len(s.Arrivals) != 0 {
		h.Fatalf("got arrivals, want none: %+v", s.Arrivals)
	}
	return s
}

func (h *hive) wait(d time.Duration) { h.now = h.now.Add(d) }

func (h *hive) equal(what string, got, want any) {
	h.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		h.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func TestAgents(t *testing.T) {
	h := diskHive(t)
	h.ok(os.Mkdir(h.path("agents/lead"), 0o755))
	h.ok(os.Mkdir(h.path("agents/a b"), 0o755))
	h.ok(os.Symlink("alice", h.path("agents/bob")))
	h.write("agents/notes", "x")
	h.write("agents/.DS_Store", "x")
	list, changed, err := h.Agents(h.now)
	h.ok(err)
	var got []string
	for _, d := range list {
		got = append(got, d.Name+"="+string(d.ID)+" "+strings.SplitN(d.Why, ":", 2)[0])
	}
	h.equal("list", got, []string{
		"a b= not a valid id", "alice=alice ", "bob= it is a symbolic link",
		"lead= the name is reserved", "notes= it is not a directory",
	})
	h.equal("changed", changed, true)

	for range 2 {
		h.wait(time.Second)
		_, changed, err = h.Agents(h.now)
		h.ok(err)
		h.equal("changed without a change", changed, false)
	}
	lists := h.disk.lists
	_, _, err = h.Agents(h.now)
	h.ok(err)
	h.equal("listings of an idle directory", h.disk.lists-lists, 0)

	h.ok(os.Mkdir(h.path("agents/carol"), 0o755))
	list, changed, err = h.Agents(h.now)
	h.ok(err)
	h.equal("changed", changed, true)
	h.equal("agents", len(list), 6)
}

func TestAgentsForgetsThoseThatAreGone(t *testing.T) {
	h := memHive(t)
	h.scan()
	h.equal("boxes", len(h.boxes), 1)
	h.ok(h.Remove("agents/alice"))
	_, _, err := h.Agents(h.now)
	h.ok(err)
	h.equal("boxes", len(h.boxes), 0)
}

func TestEnsure(t *testing.T) {
	h := diskHive(t)
	scan := func() {
		h.Helper()
		s, err := h.Inbox("bob", h.now, slices.Values([]string(nil)), false)
		if s.Vanished { // as when the new directory has another inode
			_, err = h.Inbox("bob", h.now, slices.Values([]string(nil)), false)
		}
		h.ok(err)
		h.equal("inbox", h.names("agents/bob/inbox"), []string{".done", marker})
	}
	made, err := h.Ensure("bob")
	h.ok(err)
	h.equal("made", made, []string{"", "inbox", "inbox/.done", "outbox", "outbox/.sent"})
	made, err = h.Ensure("bob")
	h.ok(err)
	h.equal("made again", len(made), 0)
	scan()
	h.ok(os.RemoveAll(h.path("agents/bob/inbox")))
	made, err = h.Ensure("bob")
	h.ok(err)
	h.equal("made when it was gone", made, []string{"inbox", "inbox/.done"})
	h.equal("before a scan", h.names("agents/bob/inbox"), []string{".done"})
	scan()
	h.ok(os.RemoveAll(h.path("agents/bob/inbox")))
	h.ok(os.MkdirAll(h.path("agents/bob/inbox/.done"), 0o755))
	made, err = h.Ensure("bob")
	h.ok(err)
	h.equal("made by another program", made, []string{"inbox"})
	scan()
}

// TestEnsureOutlivesAPowerCut checks that a file survives when an agent synced it
// and its outbox: Ensure made the directories durable.
func TestEnsureOutlivesAPowerCut(t *testing.T) {
	disk := faultfs.New()
	h := newHive(t, disk)
	h.ok(disk.SyncDir("."))
	_, err := h.Ensure("bob")
	h.ok(err)
	h.ok(durable.Publish(disk, "agents/bob/outbox/1.json", []byte("x"), 0o644, true))
	disk.CrashAt(0, faultfs.Drop)
	_, err = disk.Reboot().Lstat("agents/bob/outbox/1.json")
	h.ok(err)
}

// TestEnsureWithoutAgents checks Ensure when agents/ itself is gone.
func TestEnsureWithoutAgents(t *testing.T) {
	h := diskHive(t)
	h.ok(os.RemoveAll(h.path(protocol.PathAgents)))
	made, err := h.Ensure("bob")
	h.ok(err)
	h.equal("made", made, []string{"", "inbox", "inbox/.done", "outbox", "outbox/.sent"})
}

// TestEnsureMkdir checks that the function that makes directories for Ensure is
// called for one at a time, from the top.
func TestEnsureMkdir(t *testing.T) {
	h := diskHive(t)
	var asked []string
	b := New(h.disk, Options{Mkdir: func(id protocol.AgentID, dir string) error {
		asked = append(asked, string(id)+": "+dir)
		return h.disk.Mkdir(dir, 0o700)
	}})
	_, err := b.Ensure("bob")
	h.ok(err)
	h.equal("asked", asked, []string{"bob: agents/bob", "bob: agents/bob/inbox", "bob: agents/bob/inbox/.done", "bob: agents/bob/outbox", "bob: agents/bob/outbox/.sent"})
	info, err := h.disk.Lstat("agents/bob/outbox")
	h.ok(err)
	h.equal("mode", info.Mode.Perm(), fs.FileMode(0o700))
	_, err = b.Ensure("bob")
	h.ok(err)
	h.equal("asked again", len(asked), 5)
}

func TestEnsureRefusesWhatIsInTheWay(t *testing.T) {
	for _, place := range []string{"", "/inbox", "/inbox/.done", "/outbox", "/outbox/.sent"} {
		t.Run("link"+place, func(t *testing.T) {
			h := diskHive(t)
			elsewhere := t.TempDir()
			h.ok(os.RemoveAll(h.path("agents/alice" + place)))
			h.ok(os.Symlink(elsewhere, h.path("agents/alice"+place)))
			_, err := h.Ensure(alice)
			if !errors.Is(err, durable.ErrLink) {
				t.Errorf("got %v, want ErrLink", err)
			}
			entries, err := os.ReadDir(elsewhere)
			h.ok(err)
			h.equal("made behind the link", len(entries), 0)
		})
		t.Run("file"+place, func(t *testing.T) {
			h := memHive(t)
			h.ok(h.Remove("agents/alice" + place))
			h.write("agents/alice"+place, "mine")
			if _, err := h.Ensure(alice); err == nil {
				t.Error("a file in the place of a directory was no error")
			}
			h.equal("the file", h.read("agents/alice"+place), "mine")
		})
	}
}

func TestDirState(t *testing.T) {
	at := func(ms int) time.Time { return time.UnixMilli(int64(1_000_000_000_001 + ms)) }
	info := durable.Info{Ino: 7, ModTime: at(0)}
	coarse := durable.Info{Ino: 7, ModTime: time.Unix(1_000_000_000, 0)}
	for _, tt := range []struct {
		name  string
		info  durable.Info
		scans []int  // ms at which the directory is scanned
		want  []bool // whether it is listed then
	}{
		{"listed in the tick of the change", info, []int{0, 10}, []bool{true, true}},
		{"a look can come later than its time", info, []int{0, 50, 51}, []bool{true, true, true}},
		{"listed once more a tick after the next look", info, []int{0, 5, 25, 26}, []bool{true, true, true, false}},
		{"two looks at once are one", info, []int{0, 0, 20, 21}, []bool{true, true, true, true}},
		{"no matter what the disk's clock says", durable.Info{Ino: 7, ModTime: at(1 << 40)}, []int{0, 1, 21, 22}, []bool{true, true, true, false}},
		{"whole seconds", coarse, []int{0, 1000, 2200, 3100, 3101}, []bool{true, true, true, true, false}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var d dirState
			var got []bool
			for _, ms := range tt.scans {
				moved := d.moved(tt.info, at(ms))
				if moved {
					d.listed(at(ms))
				}
				got = append(got, moved)
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("listed %v, want %v", got, tt.want)
			}
		})
	}
}
