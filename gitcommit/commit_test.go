package gitcommit

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/protocol"
)

func TestCommitIsWhatGitExpects(t *testing.T) {
	h := gitHive(t)
	h.commit(put("agents/alice/inbox/1.json", "{}"), put("registry.json", "{}\n"), put("board.md", ""))
	h.commit(put("agents/bob/inbox/1.json", "{}"), move("agents/alice/inbox/1.json", "agents/alice/inbox/.done/1.json"))
	h.commit(del("agents/bob/inbox/1.json"))
	h.wantSound()
	h.wantCleanStatus()
	want := "agents/alice/inbox/.done/1.json\nboard.md\nregistry.json"
	h.wantOutput(want, "ls-tree", "-r", "--name-only", "HEAD")
	message := h.git("log", "-1", "--format=%B")
	trailers, err := h.gitWith(message, "interpret-trailers", "--parse")
	testenv.Must(t, err)
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

// A commit says how much of it is directories, each of which is written whole.
func TestCommitTellsItsCost(t *testing.T) {
	h := newHive(t)
	small := h.commit(put("agents/alice/inbox/1.json", "{}"), put("tasks/01J/task.json", "{}"))
	if n := small.Directories; n < 6*25 || n > 6*50 { // each holds one name, the uppermost two
		t.Errorf("six directories have %d bytes", n)
	}
	var many []protocol.Change
	for i := range 1000 {
		many = append(many, put(fmt.Sprintf("tasks/%04d/task.json", i), "{}"))
	}
	h.commit(many...)
	one := h.commit(put("tasks/0000/task.json", "[1, 2]"))
	if least := int64(1000 * (len("40000 0000") + 1 + 20)); one.Directories < least || one.Directories > 2*least {
		t.Errorf("%d bytes of directories, of which one has %d", one.Directories, least)
	}
}
