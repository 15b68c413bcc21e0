package gitcommit

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/testenv"
)

func emptyHive(t *testing.T) *hive {
	t.Helper()
	h := &hive{t: t, dir: t.TempDir()}
	disk, err := durable.Open(h.dir)
	testenv.Must(t, err)
	t.Cleanup(func() { disk.Close() })
	h.disk = disk
	return h
}

func TestInitRefusesWhatIsNotItsOwn(t *testing.T) {
	needGit(t)
	tests := map[string]struct {
		make func(h *hive)
		init func(durable.FS) error
		want error
	}{
		"a person's": {func(h *hive) { h.git("init", "-q") }, Init, ErrForeign},
		"a gitlink":  {func(h *hive) { h.write(".git", "gitdir: ../x\n") }, Adopt, ErrUnsupported},
		"a link":     {func(h *hive) { os.Symlink("/tmp", filepath.Join(h.dir, ".git")) }, Adopt, ErrUnsupported},
		"bare":       {func(h *hive) { h.git("init", "-q"); h.git("config", "core.bare", "true") }, Adopt, ErrUnsupported},
		"sha256":     {func(h *hive) { h.git("init", "-q", "--object-format=sha256") }, Adopt, ErrUnsupported},
		"detached": {func(h *hive) {
			h.git("init", "-q")
			h.git("commit", "-q", "--allow-empty", "-mx")
			h.git("checkout", "-q", "--detach")
		}, Adopt, ErrUnsupported},
		"borrowed objects":     {func(h *hive) { h.git("init", "-q"); h.write(".git/objects/info/alternates", "/x\n") }, Adopt, ErrUnsupported},
		"another format's":     {func(h *hive) { h.git("init", "-q"); h.git("config", "hived.format", "9") }, Adopt, ErrUnsupported},
		"adopted without HEAD": {func(h *hive) { h.git("init", "-q"); os.Remove(filepath.Join(h.dir, ".git/HEAD")) }, Adopt, os.ErrNotExist},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			h := emptyHive(t)
			tt.make(h)
			config, _ := os.ReadFile(filepath.Join(h.dir, ".git/config"))
			if err := tt.init(h.disk); !errors.Is(err, tt.want) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
			after, _ := os.ReadFile(filepath.Join(h.dir, ".git/config"))
			if string(after) != string(config) {
				t.Error("the config was changed")
			}
		})
	}
}

func TestInitTwiceAndInsideAnother(t *testing.T) {
	needGit(t)
	h := emptyHive(t)
	outer := h.dir
	h.git("init", "-q")
	h.dir = filepath.Join(outer, "hive")
	testenv.Must(t, os.Mkdir(h.dir, 0o755))
	disk, err := durable.Open(h.dir)
	testenv.Must(t, err)
	defer disk.Close()
	h.disk = disk
	for range 2 {
		testenv.Must(t, Init(disk))
	}
	h.open()
	h.commit(put("board.md", "x"))
	h.wantSound()
	h.wantOutput("0", "config", "--get", "gc.auto")
	h.dir = outer
	if out, err := h.tryGit("log"); err == nil {
		t.Errorf("the outer repository has %q", out)
	}
}

func TestAdoptBuildsUpon(t *testing.T) {
	needGit(t)
	h := emptyHive(t)
	h.git("init", "-q", "-b", "work/mine")
	h.git("config", "user.name", "Somebody")
	h.write(".git/info/exclude", "*.o")
	h.write("README.md", "theirs\n")
	h.write("agents/old/inbox/1.json", "{}")
	h.git("add", ".")
	h.git("commit", "-qm", "old\n\nHive-Seq: 1-99\nHive-Sum: "+strings.Repeat("a", 32))
	old := h.git("rev-parse", "HEAD")
	for range 2 {
		testenv.Must(t, Adopt(h.disk))
	}
	h.wantOutput("Somebody", "config", "user.name")
	if got := h.read(".git/info/exclude"); !strings.HasPrefix(got, "*.o\n") || !strings.Contains(got, "/agents/\n") {
		t.Errorf("exclude is %q", got)
	}
	h.open()
	if h.repo.head.Seq != 0 {
		t.Fatalf("head is at %v", h.repo.head)
	}
	h.commit(put("agents/old/inbox/1.json", "{}"), put("registry.json", "{}"))
	h.open()
	h.commit(put("agents/old/inbox/2.json", "{}"))
	h.wantOutput(old, "rev-parse", "work/mine~2")
	h.wantSound()
	h.wantCleanStatus()
	h.wantIntact()
}

func TestOpenTellsDamage(t *testing.T) {
	h := gitHive(t)
	h.commit(put("board.md", "x"))
	h.write(".git/HEAD", "")
	h.open()
	if c := h.repo.State(); c.Own() || !strings.Contains(c.String(), "hived repair") {
		t.Errorf("state says %q", c)
	}
	h.commit(put("board.md", "y")) // the branch is known without HEAD
	h.wantSyncIndexFails()
	h.write(".git/HEAD", "ref: refs/heads/main\n")
	h.wantSound()
	h.wantCleanStatus()
	h.write(".git/refs/heads/main", "")
	if _, err := Open(h.disk, h.opt); !errors.Is(err, ErrDamaged) {
		t.Errorf("got %v", err)
	}
	h.write(".git/config", "[core]\n")
	if _, err := Open(h.disk, h.opt); !errors.Is(err, ErrForeign) {
		t.Errorf("got %v", err)
	}
}

func (h *hive) wantSyncIndexFails() {
	h.t.Helper()
	if _, err := h.repo.SyncIndex(h.t.Context()); err == nil {
		h.t.Error("the index was written though HEAD is unreadable")
	}
}
