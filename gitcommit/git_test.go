package gitcommit

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/protocol"
)

// hive is a directory with a repository by hived, a log of its events, and a work
// tree that agrees.
type hive struct {
	t      testing.TB
	dir    string
	disk   *durable.Disk
	repo   *Repo
	opt    Options
	seq    protocol.Seq
	log    []Event
	alerts []string
	writes int
}

// needGit skips a test where there is no git, and hides the settings of the user
// from git.
func needGit(tb testing.TB) {
	tb.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		tb.Skip("git is not installed: " + err.Error())
	}
}

// gitHive returns a hive for tests that run git.
func gitHive(tb testing.TB) *hive {
	tb.Helper()
	needGit(tb)
	return newHive(tb)
}

func newHive(tb testing.TB) *hive {
	tb.Helper()
	h := &hive{t: tb, dir: tb.TempDir()}
	h.opt.Alert = func(code, text string) { h.alerts = append(h.alerts, code+": "+text) }
	disk, err := durable.Open(h.dir)
	testenv.Must(tb, err)
	tb.Cleanup(func() { disk.Close() })
	h.disk = disk
	testenv.Must(tb, Init(disk))
	h.open()
	return h
}

func (h *hive) open() {
	h.t.Helper()
	repo, err := Open(h.disk, h.opt)
	testenv.Must(h.t, err)
	h.repo = repo
}

// put returns a change that stores text.
func put(path, text string) protocol.Change {
	return protocol.Change{Op: protocol.Put, Path: path, Data: []byte(text)}
}

func del(path string) protocol.Change { return protocol.Change{Op: protocol.Delete, Path: path} }

func move(from, to string) protocol.Change {
	return protocol.Change{Op: protocol.Move, From: from, Path: to}
}

// batch makes one event of the changes, applies them to the work tree, and returns
// the batch that commits them.
func (h *hive) batch(changes ...protocol.Change) Batch {
	h.t.Helper()
	for _, c := range changes {
		h.toDisk(c)
	}
	h.seq++
	sum := fmt.Sprintf("%032x", uint64(h.seq)*7)
	h.log = append(h.log, Event{Seq: h.seq, Sum: sum, Changes: changes})
	return Batch{
		First: h.seq, Last: h.seq, Sum: sum, At: time.Unix(1_800_000_000+int64(h.seq), 0),
		Subject: "hive: event " + h.seq.String(), Lines: []string{h.seq.String() + " message alice -> bob"},
		Changes: changes,
	}
}

func (h *hive) toDisk(c protocol.Change) {
	h.t.Helper()
	if !protocol.Owned(c.Path) || strings.Contains(c.Path, ".git") {
		return
	}
	full := filepath.Join(h.dir, c.Path)
	var err error
	switch c.Op {
	case protocol.Put:
		h.write(c.Path, string(c.Data))
	case protocol.Move:
		if err = os.MkdirAll(filepath.Dir(full), 0o755); err == nil {
			err = os.Rename(filepath.Join(h.dir, c.From), full)
		}
	case protocol.Delete:
		err = os.Remove(full)
	case protocol.PutFile:
	}
	if err != nil && !os.IsNotExist(err) {
		h.t.Fatal(err)
	}
}

// write writes a file into the work tree, with a time of its own long ago: some
// builds of git compare seconds only.
func (h *hive) write(path, text string) {
	h.t.Helper()
	full := filepath.Join(h.dir, path)
	testenv.Must(h.t, os.MkdirAll(filepath.Dir(full), 0o755))
	testenv.Must(h.t, os.WriteFile(full, []byte(text), 0o644))
	h.writes++
	old := time.Now().Add(time.Duration(h.writes)*time.Second - 24*time.Hour)
	testenv.Must(h.t, os.Chtimes(full, old, old))
}

func (h *hive) read(path string) string {
	h.t.Helper()
	data, err := os.ReadFile(filepath.Join(h.dir, path))
	testenv.Must(h.t, err)
	return string(data)
}

// commit commits the changes as one event.
func (h *hive) commit(changes ...protocol.Change) Result {
	h.t.Helper()
	res, err := h.repo.Commit(h.t.Context(), h.batch(changes...))
	testenv.Must(h.t, err)
	return res
}

func (h *hive) syncIndex() {
	h.t.Helper()
	if _, err := h.repo.SyncIndex(h.t.Context()); err != nil {
		h.t.Fatal(err)
	}
}

// git runs git in the hive and returns its output, without the last line break.
func (h *hive) git(args ...string) string {
	h.t.Helper()
	out, err := h.tryGit(args...)
	if err != nil {
		h.t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

func (h *hive) tryGit(args ...string) (string, error) { return h.gitWith("", args...) }

func (h *hive) gitWith(stdin string, args ...string) (string, error) {
	h.t.Helper()
	return runGit(h.t.Context(), h.t, h.dir, stdin, args...)
}

func runGit(ctx context.Context, tb testing.TB, dir, stdin string, args ...string) (string, error) {
	tb.Helper()
	home := filepath.Join(dir, ".hived", "home")
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = dir
	cmd.Stdin = strings.NewReader(stdin)
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + home, "GIT_CONFIG_NOSYSTEM=1", "LC_ALL=C",
		"GIT_AUTHOR_NAME=P", "GIT_AUTHOR_EMAIL=p@example.org", "GIT_COMMITTER_NAME=P", "GIT_COMMITTER_EMAIL=p@example.org",
		"GIT_EDITOR=true",
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return strings.TrimRight(out.String(), "\n"), err
}

// wantOutput fails the test if git prints anything but a text.
func (h *hive) wantOutput(want string, args ...string) {
	h.t.Helper()
	if got := h.git(args...); got != want {
		h.t.Errorf("git %q says\n%s\nwant\n%s", args, got, want)
	}
}

// wantSound fails the test if git fsck finds a fault.
func (h *hive) wantSound() {
	h.t.Helper()
	if out := h.git("fsck", "--strict", "--no-dangling"); out != "" {
		h.t.Errorf("git fsck --strict says:\n%s", out)
	}
}

// wantCleanStatus updates the index and fails the test if git status prints anything.
func (h *hive) wantCleanStatus() {
	h.t.Helper()
	h.syncIndex()
	if out := h.git("status", "--porcelain"); out != "" {
		h.t.Errorf("git status says:\n%s", out)
	}
}

// alerted reports whether there was an alert of a code, and forgets all alerts.
func (h *hive) alerted(code string) bool {
	defer func() { h.alerts = nil }()
	for _, a := range h.alerts {
		if strings.HasPrefix(a, code+":") {
			return true
		}
	}
	return false
}
