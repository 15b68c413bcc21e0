package audit

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hived/hived/hive"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/router"
)

func TestMain(m *testing.M) {
	testenv.Cheap()
	m.Run()
}

// testHive is a small real hive whose daemon does not run.
type testHive struct {
	t    testing.TB
	dir  string
	disk *durable.Disk
	set  protocol.Settings
}

// fast returns settings under which a daemon that runs once has nothing to wait
// for.
func fast() protocol.Settings {
	s := protocol.DefaultSettings()
	s.Settle, s.Rescan, s.Git.CommitDelay = time.Millisecond, 10*time.Millisecond, time.Millisecond
	return s
}

// newHive returns a hive in which alice and bob talked: messages were delivered,
// answered, handled, quarantined, dropped and sent twice, over several commits.
func newHive(t *testing.T) *testHive {
	t.Helper()
	h := emptyHive(t, fast())
	h.talk()
	return h
}

func emptyHive(tb testing.TB, set protocol.Settings) *testHive {
	tb.Helper()
	h := &testHive{t: tb, dir: filepath.Join(tb.TempDir(), "hive"), set: set}
	testenv.Must(tb, os.Mkdir(h.dir, 0o755))
	disk, err := durable.Open(h.dir)
	testenv.Must(tb, err)
	tb.Cleanup(func() { _ = disk.Close() })
	h.disk = disk
	testenv.Must(tb, hive.Init(disk, hive.Options{Settings: set, Template: hive.Template(), Version: "test", Now: time.Now().UTC()}))
	return h
}

// copied returns a copy of a hive without a daemon, in another directory.
func (h *testHive) copied(t *testing.T) *testHive {
	t.Helper()
	c := &testHive{t: t, dir: filepath.Join(t.TempDir(), "hive"), set: h.set}
	c.must(filepath.WalkDir(h.dir, func(p string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		to := filepath.Join(c.dir, strings.TrimPrefix(p, h.dir))
		if e.IsDir() {
			return os.Mkdir(to, 0o755)
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		data, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		return errors.Join(os.WriteFile(to, data, info.Mode().Perm()), os.Chtimes(to, time.Time{}, info.ModTime()))
	}))
	disk, err := durable.Open(c.dir)
	c.must(err)
	t.Cleanup(func() { _ = disk.Close() })
	c.disk = disk
	return c
}

// talk lets the daemon run a few times over a few messages.
func (h *testHive) talk() {
	h.t.Helper()
	h.write("agents/alice/identity.md", "I am alice.\n")
	h.write("agents/alice/outbox/1.json", `{"to":"bob","id":"a-1","subject":"hello","body":"one"}`)
	h.write("agents/bob/outbox/1.json", `{"to":["alice","nobody"],"subject":"partly"}`)
	h.write("agents/bob/outbox/2.json", `{"to":"broadcast","body":{"x":[1,2,3]}}`)
	h.write("agents/bob/outbox/bad.json", `{"to":`)
	h.once()
	h.write("agents/alice/outbox/again.json", `{"to":"bob","id":"a-1","subject":"hello","body":"one"}`)
	h.write("agents/alice/outbox/2.json", `{"to":"bob","id":"a-2","body":"two"}`)
	h.write("agents/alice/outbox/3.json", `{"to":"human","body":"three"}`)
	h.once()
	inbox := h.list("agents/bob/inbox")
	h.move("agents/bob/inbox/"+inbox[0], "agents/bob/inbox/.done/"+inbox[0])
	h.write("agents/bob/notes.md", "alice said hello\n")
	h.once()
}

// once runs the daemon until nothing is left to do.
func (h *testHive) once() {
	h.t.Helper()
	r, err := router.New(h.disk, router.Config{Settings: h.set, Once: true, Version: "test"})
	testenv.Must(h.t, err)
	testenv.Must(h.t, r.Run(h.t.Context()))
}

func (h *testHive) path(p string) string { return filepath.Join(h.dir, filepath.FromSlash(p)) }

func (h *testHive) must(err error) {
	h.t.Helper()
	testenv.Must(h.t, err)
}

func (h *testHive) write(p, text string) {
	h.t.Helper()
	h.must(os.MkdirAll(filepath.Dir(h.path(p)), 0o755))
	h.must(os.WriteFile(h.path(p), []byte(text), 0o644))
}

func (h *testHive) read(p string) string {
	h.t.Helper()
	data, err := os.ReadFile(h.path(p))
	h.must(err)
	return string(data)
}

func (h *testHive) move(from, to string) {
	h.t.Helper()
	h.must(os.Rename(h.path(from), h.path(to)))
}

func (h *testHive) remove(p string) {
	h.t.Helper()
	h.must(os.RemoveAll(h.path(p)))
}

// list returns the messages in a directory, in name order.
func (h *testHive) list(p string) []string {
	h.t.Helper()
	entries, err := os.ReadDir(h.path(p))
	h.must(err)
	var names []string
	for _, e := range entries {
		if protocol.IsMessageName(e.Name()) {
			names = append(names, e.Name())
		}
	}
	return names
}

// dirs returns the names in a directory, in order.
func (h *testHive) dirs(p string) (names []string) {
	h.t.Helper()
	entries, err := os.ReadDir(h.path(p))
	h.must(err)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// unread returns the path of the last message in an inbox.
func (h *testHive) unread(id protocol.AgentID) string {
	h.t.Helper()
	names := h.list(protocol.InboxDir(id))
	if len(names) == 0 {
		h.t.Fatalf("nothing is unread by %s", id)
	}
	return protocol.InboxDir(id) + "/" + names[len(names)-1]
}

// flip changes one byte of a file.
func (h *testHive) flip(p string, at int) {
	h.t.Helper()
	data := []byte(h.read(p))
	data[at] ^= 1
	h.must(os.Chmod(h.path(p), 0o644))
	h.must(os.WriteFile(h.path(p), data, 0o644))
}

func (h *testHive) verify() Report {
	h.t.Helper()
	r, err := Verify(h.t.Context(), h.disk, Options{Settings: h.set})
	h.must(err)
	return r
}

func (h *testHive) repair(adopt bool) Repaired {
	h.t.Helper()
	r, err := Repair(context.WithoutCancel(h.t.Context()), h.disk, RepairOptions{Settings: h.set, Version: "test", Adopt: adopt})
	h.must(err)
	return r
}

// git runs the git program on the hive, as a person would.
func (h *testHive) git(args ...string) string {
	h.t.Helper()
	return h.gitAs("p", "p@x", args...)
}

func (h *testHive) gitAs(name, mail string, args ...string) string {
	h.t.Helper()
	bin, err := exec.LookPath("git")
	if err != nil {
		h.t.Skip("there is no git program")
	}
	c := exec.CommandContext(h.t.Context(), bin, args...)
	c.Dir = h.dir
	c.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "HOME="+h.dir, "GIT_AUTHOR_NAME="+name, "GIT_AUTHOR_EMAIL="+mail, "GIT_COMMITTER_NAME="+name, "GIT_COMMITTER_EMAIL="+mail)
	out, err := c.CombinedOutput()
	if err != nil {
		h.t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// lines formats findings for a failing test.
func lines[T fmt.Stringer](list []T) string {
	var b strings.Builder
	for i, x := range list {
		if i == 12 {
			b.WriteString("\n\t…")
			break
		}
		b.WriteString("\n\t" + x.String())
	}
	return b.String()
}

// shell runs a line of shell in the hive.
func (h *testHive) shell(line string) {
	h.t.Helper()
	c := exec.CommandContext(h.t.Context(), "sh", "-c", line)
	c.Dir = h.dir
	if out, err := c.CombinedOutput(); err != nil {
		h.t.Fatalf("%s: %v\n%s", line, err, out)
	}
}
