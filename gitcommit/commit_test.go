package gitcommit

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCommitIsWhatGitExpects(t *testing.T) {
	needGit(t)
	h := newHive(t)
	h.commit(put("agents/alice/inbox/1.json", "{}"), put("registry.json", "{}\n"), put("board.md", ""))
	h.commit(put("agents/bob/inbox/1.json", "{}"), move("agents/alice/inbox/1.json", "agents/alice/inbox/.done/1.json"))
	h.commit(del("agents/bob/inbox/1.json"))
	h.sound()
	h.clean()
	want := "agents/alice/inbox/.done/1.json\nboard.md\nregistry.json"
	if got := h.git("ls-tree", "-r", "--name-only", "HEAD"); got != want {
		t.Errorf("tree holds\n%s\nwant\n%s", got, want)
	}
	message := h.git("log", "-1", "--format=%B")
	trailers, err := h.gitWith(message, "interpret-trailers", "--parse")
	if err != nil {
		t.Fatal(err)
	}
	if want := "Hive-Seq: 3-3\nHive-Sum: " + h.log[2].Sum; trailers != want {
		t.Errorf("trailers are\n%s\nwant\n%s", trailers, want)
	}
	reflog := h.git("reflog", "--format=%H %gs")
	if n := strings.Count(reflog, "\n") + 1; n != 3 || !strings.HasSuffix(reflog, "commit (initial): hive: event 1") {
		t.Errorf("reflog is\n%s", reflog)
	}
	h.open()
	if diff := cmp.Diff(h.repo.head.Seq, h.seq); diff != "" {
		t.Error(diff)
	}
}
