package gitcommit

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/protocol"
)

// Hived builds upon what a person does to the repository, and never overwrites it
// (spec §6).

func TestPersonsCommitIsBuiltUpon(t *testing.T) {
	h := gitHive(t)
	h.commit(put("board.md", "plan\n"))
	h.syncIndex()
	h.write("README.md", "by a person\n")
	h.git("add", "README.md")
	h.git("commit", "-qm", "a person's")
	h.commit(put("agents/a/inbox/1.json", "{}"))
	h.wantSound()
	h.wantCleanStatus()
	h.wantOutput("hive: event 2\na person's\nhive: event 1", "log", "--format=%s")
	h.wantOutput("by a person", "show", "HEAD:README.md")
}

func TestStagedWorkStays(t *testing.T) {
	h := gitHive(t)
	h.commit(put("board.md", "plan\n"))
	h.syncIndex()
	h.write("notes.txt", "staged\n")
	h.git("add", "notes.txt")
	h.commit(put("agents/a/inbox/1.json", "{}"))
	h.syncIndex()
	h.wantOutput("A  notes.txt", "status", "--porcelain")
	h.open() // compares all that hived owns, and nothing else
	h.syncIndex()
	h.wantOutput("A  notes.txt", "status", "--porcelain")
}

func TestPersonsEditOfOwnFileIsGivenBackOnce(t *testing.T) {
	h := gitHive(t)
	h.commit(put("board.md", "one\n"), put("agents/a/memory.md", "m\n"), put("agents/a/inbox/1.json", "{}"))
	h.syncIndex()
	h.write("board.md", "two\n")
	h.write("agents/a/inbox/1.json", "forged")
	h.git("add", "-f", "board.md", "agents")
	h.git("commit", "-qm", "a person's")

	b := h.batch(put("agents/b/inbox/1.json", "{}"))
	_, err := h.repo.Commit(t.Context(), b)
	var own *OwnFilesChanged
	if !errors.As(err, &own) || !slices.Equal(own.Paths, []string{"board.md"}) {
		t.Fatalf("want board.md given back, got %v", err)
	}
	file := h.batch(put("board.md", "two\n"))
	b.Last, b.Sum, b.Changes = file.Last, file.Sum, append(b.Changes, file.Changes...)
	res, err := h.repo.Commit(t.Context(), b)
	testenv.Must(t, err)
	if len(res.Own) != 0 || !slices.Equal(res.Overruled, []string{"agents/a/inbox/1.json"}) {
		t.Errorf("own %q, overruled %q", res.Own, res.Overruled)
	}
	if !h.alerted("git-overruled") {
		t.Error("no alert about what was overruled")
	}
	h.wantOutput("{}", "show", "HEAD:agents/a/inbox/1.json")
	h.write("agents/a/inbox/1.json", "{}")
	h.wantSound()
	h.wantCleanStatus()
	h.check()
}

func TestSameTipCommitsTheSecondTime(t *testing.T) {
	h := gitHive(t)
	h.commit(put("board.md", "one\n"))
	h.syncIndex()
	h.write("board.md", "two\n")
	h.git("commit", "-qam", "a person's")
	b := h.batch(put("registry.json", "{}"))
	if _, err := h.repo.Commit(t.Context(), b); err == nil {
		t.Fatal("want the batch given back")
	}
	res, err := h.repo.Commit(t.Context(), b)
	if err != nil || !slices.Equal(res.Own, []string{"board.md"}) {
		t.Errorf("want board.md told again, got %q, %v", res.Own, err)
	}
	h.wantOutput("one", "show", "HEAD:board.md")
}

func TestAmendedMessageKeepsTheState(t *testing.T) {
	h := gitHive(t)
	h.commit(put("board.md", "one\n"))
	h.commit(put("board.md", "two\n"))
	h.syncIndex()
	h.git("commit", "--amend", "-qm", "better words\n\n"+h.trailersOf("HEAD"))
	h.commit(put("board.md", "three\n"))
	h.wantSound()
	h.wantCleanStatus()
	h.wantOutput("hive: event 3\nbetter words\nhive: event 1", "log", "--format=%s")
	if diff := cmp.Diff([]protocol.Code{protocol.CodeGitAmended}, h.check()); diff != "" {
		t.Error(diff)
	}
}

// TestRest: what was freed is read again, and a person's copy of the newest commit
// is still recognized.
func TestRest(t *testing.T) {
	h := gitHive(t)
	h.commit(put("board.md", "one\n"), put("agents/a/inbox/1.json", "{}"), put("agents/b/inbox/1.json", "{}"))
	h.commit(put("board.md", "two\n"))
	h.syncIndex()
	h.repo.Rest()
	if n, top := h.repo.tree.root.inMemory(), len(h.repo.tree.root.entries); n != top {
		t.Errorf("%d entries are in memory, of the root there are %d", n, top)
	}
	if n := h.repo.store.last.bytes; n != 0 {
		t.Errorf("%d bytes of objects are in memory", n)
	}
	h.git("commit", "--amend", "-qm", "better words\n\n"+h.trailersOf("HEAD"))
	h.commit(put("agents/a/inbox/2.json", "{}"))
	h.wantSound()
	h.wantCleanStatus()
	h.wantOutput("hive: event 3\nbetter words\nhive: event 1", "log", "--format=%s")
	h.wantOutput("agents/a/inbox/1.json\nagents/a/inbox/2.json\nagents/b/inbox/1.json", "ls-tree", "-r", "--name-only", "HEAD", "agents")
}

// TestRecentExpires: the contents of packs are not kept in memory longer than a
// repack takes, also when nothing is committed any more.
func TestRecentExpires(t *testing.T) {
	h := newHive(t)
	h.commit(put("board.md", "one\n"))
	now := h.repo.recent.packs[0].added
	h.repo.recent.expire(now.Add(recentFor))
	if len(h.repo.recent.packs) != 1 {
		t.Error("a pack was forgotten too early")
	}
	h.repo.recent.expire(now.Add(recentFor + time.Minute))
	if len(h.repo.recent.packs) != 0 || h.repo.recent.bytes != 0 {
		t.Errorf("%d packs with %d bytes are remembered", len(h.repo.recent.packs), h.repo.recent.bytes)
	}
}

func (h *hive) trailersOf(rev string) string {
	h.t.Helper()
	out, err := h.gitWith(h.git("log", "-1", "--format=%B", rev), "interpret-trailers", "--parse")
	testenv.Must(h.t, err)
	return out
}

// commitFromHead commits the log from where history ends, as the committer does.
func (h *hive) commitFromHead() {
	h.t.Helper()
	head, err := h.repo.Head()
	testenv.Must(h.t, err)
	for _, e := range h.log[head.Seq:] {
		b := Batch{First: e.Seq, Last: e.Seq, Sum: e.Sum, Subject: "hive: again", Changes: e.Changes}
		if _, err := h.repo.Commit(h.t.Context(), b); err != nil {
			h.t.Fatal(err)
		}
	}
}

func TestAmendAndResetAreCommittedAgain(t *testing.T) {
	needGit(t)
	tests := map[string]func(h *hive){
		"amend without the trailers": func(h *hive) { h.git("commit", "--amend", "-qm", "mine") },
		"amend before a restart": func(h *hive) {
			h.git("commit", "--amend", "-q", "--no-edit")
			h.open()
		},
		"amend with an edit": func(h *hive) {
			h.write("agents/a/inbox/1.json", "other")
			h.git("commit", "--amend", "-qa", "--no-edit")
			h.write("agents/a/inbox/1.json", "{}")
		},
		"reset": func(h *hive) { h.git("reset", "-q", "--soft", "HEAD~2") },
		"reset before a restart": func(h *hive) {
			h.git("reset", "-q", "HEAD~1")
			h.open()
		},
	}
	for name, person := range tests {
		t.Run(name, func(t *testing.T) {
			h := newHive(t)
			h.commit(put("board.md", "one\n"))
			h.commit(put("board.md", "two\n"))
			h.commit(put("agents/a/inbox/1.json", "{}"))
			h.syncIndex()
			person(h)
			b := h.batch(put("registry.json", "{}"))
			_, err := h.repo.Commit(t.Context(), b)
			var step *OutOfStep
			if !errors.As(err, &step) || step.Want == 4 {
				t.Fatalf("want an earlier batch asked for, got %v", err)
			}
			h.commitFromHead()
			h.wantSound()
			h.wantCleanStatus()
			for _, code := range h.check() {
				if code != protocol.CodeGitAmended {
					t.Errorf("check says %s", code)
				}
			}
		})
	}
}

func TestHeadElsewhereIsLeftAlone(t *testing.T) {
	needGit(t)
	tests := map[string][]string{
		"other branch": {"checkout", "-qb", "mine"},
		"detached":     {"checkout", "-q", "--detach"},
	}
	for name, args := range tests {
		t.Run(name, func(t *testing.T) {
			h := newHive(t)
			h.commit(put("board.md", "one\n"))
			h.syncIndex()
			h.git(args...)
			before := h.git("rev-parse", "HEAD")
			index := h.read(".git/index")
			b := h.batch()
			b.Changes = []change{put("agents/a/inbox/1.json", "{}")}
			h.log[1].Changes = b.Changes
			if _, err := h.repo.Commit(t.Context(), b); err != nil {
				t.Fatal(err)
			}
			h.syncIndex()
			if h.git("rev-parse", "HEAD") != before || h.read(".git/index") != index {
				t.Error("HEAD or the index was touched")
			}
			h.wantOutput("hive: event 2", "log", "-1", "--format=%s", "main")
			if c := h.repo.State(); c.Own() || !strings.Contains(c.String(), "git switch main") {
				t.Errorf("state says %q", c)
			}
			h.git("checkout", "-q", "main")
			h.wantCleanStatus()
			h.wantSound()
			h.check()
		})
	}
}

func TestOperationInProgressWaits(t *testing.T) {
	needGit(t)
	conflict := func(h *hive) {
		h.git("checkout", "-qb", "side")
		h.write("x", "side\n")
		h.git("add", "x")
		h.git("commit", "-qm", "side")
		h.git("checkout", "-q", "main")
		h.write("x", "main\n")
		h.git("add", "x")
		h.git("commit", "-qm", "main")
	}
	tests := map[string]struct {
		begin, abort []string
		on           bool
	}{
		"rebase":      {[]string{"rebase", "-q", "side"}, []string{"rebase", "--abort"}, true},
		"apply":       {[]string{"rebase", "-q", "--apply", "side"}, []string{"rebase", "--abort"}, true},
		"merge":       {[]string{"merge", "-q", "side"}, []string{"merge", "--abort"}, true},
		"cherry-pick": {[]string{"cherry-pick", "side"}, []string{"cherry-pick", "--abort"}, true},
		"revert":      {[]string{"revert", "--no-edit", "HEAD~1", "side"}, []string{"revert", "--abort"}, true},
		"bisect":      {[]string{"bisect", "start"}, []string{"bisect", "reset"}, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			h := newHive(t)
			h.commit(put("board.md", "one\n"))
			h.syncIndex()
			conflict(h)
			if out, err := h.tryGit(tt.begin...); err == nil && tt.on {
				t.Fatalf("git %v met no conflict: %s", tt.begin, out)
			}
			if h.repo.State().Own() {
				t.Error("a missing file would count as handled")
			}
			b := h.batch(put("agents/a/inbox/1.json", "{}"))
			_, err := h.repo.Commit(t.Context(), b)
			if tt.on != errors.Is(err, ErrBusy) {
				t.Fatalf("commit gives %v", err)
			}
			h.git(tt.abort...)
			if c := h.repo.State(); c.Operation != "" {
				t.Errorf("after %v a %s is in progress", tt.abort, c.Operation)
			}
			if tt.on {
				if _, err := h.repo.Commit(t.Context(), b); err != nil {
					t.Fatal(err)
				}
			}
			h.wantSound()
			h.wantCleanStatus()
			h.check()
		})
	}
}

func TestPackedRefsAndGarbageCollection(t *testing.T) {
	h := gitHive(t)
	h.commit(put("board.md", "one\n"), put("agents/a/inbox/1.json", "{}"))
	h.git("pack-refs", "--all")
	if _, err := os.Lstat(filepath.Join(h.dir, ".git/refs/heads/main")); err == nil {
		t.Fatal("git kept the loose ref")
	}
	h.commit(put("board.md", "two\n"))
	h.git("gc", "-q", "--prune=now")
	h.commit(put("agents/a/inbox/2.json", "{}"))
	h.git("repack", "-adq")
	h.open()
	h.commit(put("agents/b/inbox/2.json", "{}"))
	h.wantSound()
	h.wantCleanStatus()
	h.wantIntact()
}

func TestNothingOfTheHiveIsRun(t *testing.T) {
	h := gitHive(t)
	h.commit(put("board.md", "one\n"))
	h.syncIndex()
	trap := filepath.Join(h.dir, "trap.sh")
	sprung := filepath.Join(h.dir, "sprung")
	testenv.Must(t, os.WriteFile(trap, []byte("#!/bin/sh\ntouch '"+sprung+"'\ncat\n"), 0o755))
	for _, hook := range []string{"pre-commit", "post-commit", "reference-transaction", "post-index-change"} {
		h.write(".git/hooks/"+hook, "#!/bin/sh\ntouch '"+sprung+"'\n")
		testenv.Must(t, os.Chmod(filepath.Join(h.dir, ".git/hooks", hook), 0o755))
	}
	config := h.read(".git/config")
	h.write(".git/config", config+"[core]\n\tfsmonitor = "+trap+"\n\thooksPath = .git/hooks\n[filter \"x\"]\n\tclean = "+trap+"\n\tsmudge = "+trap+"\n")
	h.write(".gitattributes", "* filter=x\n")
	h.open()
	h.commit(put("board.md", "two\n"), put("agents/a/inbox/1.json", "{}"))
	h.syncIndex()
	if _, err := os.Lstat(sprung); err == nil {
		t.Error("something planted in the hive was run")
	}
}
