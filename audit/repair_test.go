package audit

import (
	"errors"
	"maps"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hived/hived/eventlog"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
)

// owned returns the files below the hive that hived owns, without the open segment
// and git.
func (h *testHive) owned() map[string]string {
	h.t.Helper()
	out := treeOf(h.t, h.dir)
	maps.DeleteFunc(out, func(p, _ string) bool { return !protocol.Owned(p) })
	return out
}

// TestRepairKeepsWhatItReplaces checks that repair keeps what it replaces, and
// leaves alone what belongs to agents.
func TestRepairKeepsWhatItReplaces(t *testing.T) {
	t.Parallel()
	h := newHive(t)
	want := h.owned()
	p := h.unread("bob")
	h.write(p, "altered")
	h.remove("registry.json")
	h.write("agents/alice/identity.md", "I am somebody else.\n")
	r := h.repair(false)
	if len(r.Left) > 0 || len(r.Done) != 2 {
		t.Errorf("did%s\nleft%s", lines(r.Done), lines(r.Left))
	}
	want["agents/alice/identity.md"] = "I am somebody else.\n"
	if diff := cmp.Diff(want, h.owned()); diff != "" {
		t.Errorf("the files (-want +got):\n%s", diff)
	}
	kept := ".hived/aside-1-" + p[strings.LastIndexByte(p, '/')+1:]
	if got := h.read(kept); got != "altered" {
		t.Errorf("%s holds %q", kept, got)
	}
}

// TestRepairBringsBackWhatWasTorn checks that a message that a power cut had
// emptied before its agent moved it to .done is unread again: it was never read.
func TestRepairBringsBackWhatWasTorn(t *testing.T) {
	t.Parallel()
	h := newHive(t)
	want := h.owned()
	p := h.unread("bob")
	done := strings.Replace(p, "/inbox/", "/inbox/.done/", 1)
	h.remove(p)
	h.write(done, "")
	r := h.repair(false)
	if len(r.Left) > 0 || len(r.Done) != 1 || r.Done[0].Where != p {
		t.Errorf("did%s\nleft%s", lines(r.Done), lines(r.Left))
	}
	if diff := cmp.Diff(want, h.owned()); diff != "" {
		t.Errorf("the files (-want +got):\n%s", diff)
	}
}

// putMeanwhile is a disk on which an agent puts a file when another is moved aside.
type putMeanwhile struct {
	durable.FS
	put func()
}

func (d *putMeanwhile) RenameNew(from, to string) error {
	err := d.FS.RenameNew(from, to)
	if put := d.put; put != nil && strings.HasPrefix(to, ".hived/aside-") {
		d.put = nil
		put()
	}
	return err
}

// TestRepairKeepsWhatIsPutMeanwhile checks that a file that an agent puts in the
// place of a message during its repair is kept.
func TestRepairKeepsWhatIsPutMeanwhile(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(h *testHive, p string){
		"altered": func(h *testHive, p string) { h.write(p, "altered") },
		"torn": func(h *testHive, p string) {
			h.remove(p)
			h.write(strings.Replace(p, "/inbox/", "/inbox/.done/", 1), "")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHive(t)
			want := h.owned()
			p := h.unread("bob")
			spoil(h, p)
			disk := &putMeanwhile{FS: h.disk, put: func() { h.write(p, "put meanwhile") }}
			r, err := Repair(t.Context(), disk, RepairOptions{Settings: h.set, Version: "test"})
			h.must(err)
			if len(r.Left) > 0 || len(r.Done) != 1 || r.Done[0].Where != p {
				t.Errorf("did%s\nleft%s", lines(r.Done), lines(r.Left))
			}
			if diff := cmp.Diff(want, h.owned()); diff != "" {
				t.Errorf("the files (-want +got):\n%s", diff)
			}
			kept := ".hived/aside-2-" + p[strings.LastIndexByte(p, '/')+1:]
			if got := h.read(kept); got != "put meanwhile" || !strings.HasSuffix(r.Done[0].Text, ", what was put there meanwhile is "+kept) {
				t.Errorf("%s holds %q; repair reported %s", kept, got, r.Done[0].Text)
			}
		})
	}
}

// TestRepairIsLogged checks that what was mended is in the log, and in git.
func TestRepairIsLogged(t *testing.T) {
	t.Parallel()
	h := newHive(t)
	h.remove("registry.json")
	h.repair(false)
	var last protocol.Event
	for rec, err := range eventlog.Read(h.disk, eventlog.Position{}) {
		h.must(err)
		last = rec.Event
	}
	e, ok := last.Body.(*protocol.HiveEvent)
	if !ok || e.Action != protocol.Repaired || !strings.Contains(e.Note, "registry.json") {
		t.Errorf("the last event is %s", protocol.Summary(last))
	}
	if r := h.verify(); r.GitSeq != last.Seq || !r.OK() {
		t.Errorf("git holds events through %d, want %d:%s", r.GitSeq, last.Seq, lines(r.Findings))
	}
}

// TestRepairBuildsHistoryAgain checks that a rebuilt history holds the same at the
// same events, with the people's settings, and that the broken one is kept.
func TestRepairBuildsHistoryAgain(t *testing.T) {
	t.Parallel()
	h := newHive(t)
	before := h.gitTree("HEAD")
	h.write(".git/refs/heads/main", "nothing\n")
	if r := h.repair(false); len(r.Left) > 0 {
		t.Fatalf("left:%s", lines(r.Left))
	}
	if diff := cmp.Diff(before, h.gitTree("HEAD")); diff != "" {
		t.Errorf("the tree (-before +after):\n%s", diff)
	}
	if got := h.git("show", "HEAD:hive.yaml"); got != h.read("hive.yaml") {
		t.Error("hive.yaml is not in history")
	}
	if got := h.read(".hived/git-broken-1/refs/heads/main"); got != "nothing\n" {
		t.Errorf("the broken repository holds %q", got)
	}
	if out := h.git("status", "--porcelain"); out != "" {
		t.Errorf("git status says\n%s", out)
	}
}

// TestRepairAdoptsFiles checks that a hive without its log goes on from its files
// when a person says so: what is unread stays unread, ids stay taken, and new
// commits go on top of the old history. So it does without its registry.
func TestRepairAdoptsFiles(t *testing.T) {
	t.Parallel()
	for _, lost := range [][]string{{"log.jsonl"}, {"log.jsonl", "registry.json"}} {
		t.Run(strings.Join(lost, " and "), func(t *testing.T) {
			t.Parallel()
			testRepairAdoptsFiles(t, lost)
		})
	}
}

func testRepairAdoptsFiles(t *testing.T, lost []string) {
	t.Helper()
	set := fast()
	set.Log.SegmentBytes = 4 << 10
	h := emptyHive(t, set)
	h.talk()
	unread, commits := h.list("agents/bob/inbox"), strings.Count(h.git("log", "--oneline"), "\n")
	for _, name := range lost {
		h.remove(name)
	}
	if r := h.repair(false); len(r.Done) > 0 || len(r.Left) != 1 || r.Left[0].Code != protocol.CodeLogMissing {
		t.Fatalf("without --adopt it did%s\nand left%s", lines(r.Done), lines(r.Left))
	}
	if r := h.repair(true); len(r.Left) > 0 {
		t.Fatalf("left:%s", lines(r.Left))
	}
	if diff := cmp.Diff(unread, h.list("agents/bob/inbox")); diff != "" {
		t.Errorf("unread by bob (-before +after):\n%s", diff)
	}
	if n := strings.Count(h.git("log", "--oneline"), "\n"); n <= commits {
		t.Errorf("history has %d commits, it had %d", n, commits)
	}
	if _, err := h.disk.Lstat("log/foreign-1.jsonl"); err != nil {
		t.Error(err)
	}
	h.write("agents/alice/outbox/again.json", `{"to":"bob","id":"a-2","body":"two"}`)
	h.once()
	if diff := cmp.Diff(unread, h.list("agents/bob/inbox")); diff != "" {
		t.Errorf("a message was delivered twice (-want +got):\n%s", diff)
	}
	if r := h.verify(); !r.OK() {
		t.Errorf("findings:%s", lines(r.Findings))
	}
}

func TestRepairRefuses(t *testing.T) {
	t.Parallel()
	h := newHive(t)
	lock, err := durable.TakeLock(h.disk, protocol.LockFile, nil)
	h.must(err)
	if _, err := Repair(t.Context(), h.disk, RepairOptions{Settings: h.set}); !errors.Is(err, durable.ErrLocked) {
		t.Errorf("beside a daemon: %v", err)
	}
	h.must(lock.Release())
	disk, err := durable.Open(t.TempDir())
	h.must(err)
	defer disk.Close()
	if _, err := Repair(t.Context(), disk, RepairOptions{Settings: h.set}); !errors.Is(err, ErrNotAHive) {
		t.Errorf("in an empty directory: %v", err)
	}
	if entries, err := os.ReadDir(disk.Path(".")); err != nil || len(entries) > 0 {
		t.Errorf("repair left %d files there, %v", len(entries), err)
	}
}
