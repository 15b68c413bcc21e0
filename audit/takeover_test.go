package audit

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hived/hived/eventlog"
	"github.com/hived/hived/protocol"
)

// The split hive was made by a hived that split git's index, and by a person, in this
// order: 4,200 files are committed by the person; two messages, a request and its
// answer, are carried; the person stages a new file, a change and a removal; with two
// messages more in the log the daemon is killed in the middle of placing the first one,
// when git's next pack is not placed either; another message is sent, and git leaves a
// lock on its index behind.
const splitHive = "testdata/split"

// TestSplitHiveIsTakenOver checks that what was staged stays staged, that nothing
// else differs, and that each message is where it belongs, once.
func TestSplitHiveIsTakenOver(t *testing.T) {
	t.Parallel()
	h := goldenHive(t, splitHive)
	if shared, err := filepath.Glob(h.path(".git/sharedindex.*")); err != nil || len(shared) == 0 {
		t.Fatalf("git's index is not split: %v", err)
	}
	for _, p := range []string{".hived/snapshot", ".git/index.lock"} {
		if _, err := os.Lstat(h.path(p)); err != nil {
			t.Fatal(err)
		}
	}
	before := h.placed()
	const staged = "M  docs/1.txt\nD  docs/2.txt\nA  plan.txt\n?? docs/2.txt\n"
	for _, start := range []string{"first", "second"} {
		h.once()
		if got := h.git("status", "--porcelain"); got != staged {
			t.Errorf("after the %s start git status says\n%s", start, got)
		}
		if r := h.verify(); !r.OK() || len(r.Notes) > 0 || r.GitSeq != r.Seq {
			t.Errorf("after the %s start, git holds events through %d of %d:%s%s", start, r.GitSeq, r.Seq, lines(r.Findings), lines(r.Notes))
		}
		want := map[string]int{"alice m-2": 1, "alice m-5": 1, "bob m-1": 1, "bob m-3": 1, "bob m-4": 1, "human m-3": 1}
		if d := cmp.Diff(want, h.placed()); d != "" {
			t.Errorf("after the %s start, the messages in the mailboxes (-want +got):\n%s", start, d)
		}
	}
	if cmp.Equal(before, h.placed()) {
		t.Error("nothing was to be placed")
	}
	if got := h.git("show", ":docs/1.txt"); got != "page 1, corrected\n" {
		t.Errorf("what was staged is now %q", got)
	}
	accepted := map[protocol.MessageID]int{}
	for rec, err := range eventlog.Read(h.disk, eventlog.Position{}) {
		h.must(err)
		if e, ok := rec.Event.Body.(*protocol.MessageEvent); ok && e.From != protocol.Hive {
			accepted[e.ID]++
		}
	}
	if d := cmp.Diff(map[protocol.MessageID]int{"m-1": 1, "m-2": 1, "m-3": 1, "m-4": 1, "m-5": 1}, accepted); d != "" {
		t.Errorf("the accepted messages (-want +got):\n%s", d)
	}
}

// placed counts the files of each message of an agent in each mailbox, including
// those that were handled.
func (h *testHive) placed() map[string]int {
	h.t.Helper()
	found := map[string]int{}
	for _, pattern := range []string{"agents/*/inbox/*.json", "agents/*/inbox/.done/*.json"} {
		files, err := filepath.Glob(h.path(pattern))
		h.must(err)
		for _, file := range files {
			data, err := os.ReadFile(file)
			h.must(err)
			_, rest, _ := strings.Cut(string(data), `"id": "`)
			id, _, _ := strings.Cut(rest, `"`)
			rel, _ := filepath.Rel(h.dir, file)
			if !strings.HasPrefix(id, "m-") {
				continue // hive's notice about the lock
			}
			found[strings.Split(filepath.ToSlash(rel), "/")[1]+" "+id]++
		}
	}
	return found
}
