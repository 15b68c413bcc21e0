package gitcommit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/durable/faultfs"
	"github.com/hived/hived/protocol"
)

func splitHive(t *testing.T) *hive {
	t.Helper()
	needGit(t)
	h := newHive(t)
	h.split = true
	h.open()
	return h
}

// agrees holds what git reads from the index against what hived committed.
func (h *hive) agrees() {
	h.t.Helper()
	var tree []string
	for line := range strings.Lines(h.git("ls-tree", "-r", "HEAD")) {
		tree = append(tree, strings.TrimSuffix(strings.Replace(strings.Replace(line, " blob", "", 1), "\t", " 0\t", 1), "\n"))
	}
	if diff := cmp.Diff(strings.Join(tree, "\n"), h.git("ls-files", "--stage")); diff != "" {
		h.t.Errorf("the index is not the tree:\n%s", diff)
	}
	for _, args := range [][]string{{"diff-index", "--cached", "HEAD"}, {"diff-files"}} {
		if out := h.git(args...); out != "" {
			h.t.Errorf("git %v says:\n%s", args, out)
		}
	}
}

// Git finds in the overlays what hived did, whatever came and went.
func TestSplitIndexFollowsTheTree(t *testing.T) {
	h := splitHive(t)
	there := make(map[string]bool)
	random := rand.New(rand.NewPCG(1, 2))
	bases := make(map[string]bool)
	for i := range 40 {
		var changes []change
		for range 1 + random.IntN(12) {
			path := fmt.Sprintf("agents/a%d/inbox/%d.json", random.IntN(4), random.IntN(60))
			if there[path] && random.IntN(3) > 0 {
				changes = append(changes, del(path))
				there[path] = false
				continue
			}
			changes = append(changes, put(path, fmt.Sprint(i, random.IntN(1000))))
			there[path] = true
		}
		h.commit(changes...)
		h.syncIndex()
		bases[h.repo.index.table.file] = true
		if i%13 == 0 {
			h.agrees()
		}
		if i%25 == 0 {
			h.open()
		}
		if i%17 == 0 {
			h.git("status") // may write an overlay of its own
		}
	}
	h.agrees()
	h.sound()
	if len(h.alerts) != 0 {
		t.Errorf("alerts: %q", h.alerts)
	}
	if len(bases) < 2 || len(bases) > 30 {
		t.Errorf("there were %d shared indexes", len(bases))
	}
}

// A name that was a directory becomes a file, and the other way round.
func TestSplitIndexFileAndDirectory(t *testing.T) {
	h := splitHive(t)
	h.commit(put("tasks/t/x/1", "1"), put("tasks/t/x/2", "2"), put("tasks/t/x-y", "between"), put("tasks/t/y", "y"), put("tasks/z", "z"))
	h.syncIndex()
	base := h.shared()
	h.commit(del("tasks/t/x/1"), del("tasks/t/x/2"), del("tasks/t/y"))
	os.Remove(filepath.Join(h.dir, "tasks/t/x"))
	h.commit(put("tasks/t/x", "now a file"), put("tasks/t/y/1", "now below"))
	h.syncIndex()
	h.agrees()
	h.commit(del("tasks/t/x"), del("tasks/t/y/1"))
	os.Remove(filepath.Join(h.dir, "tasks/t/y"))
	h.commit(put("tasks/t/x/3", "3"), put("tasks/t/y", "y"))
	h.syncIndex()
	h.agrees()
	if h.shared() != base {
		t.Error("a few changes took a new shared index")
	}
}

func TestSplitIndexKeepsWhatPeopleStaged(t *testing.T) {
	h := splitHive(t)
	h.write("both", "base\n")
	h.git("add", "both")
	h.git("commit", "-qm", "a person's")
	h.commit(put("board.md", "one\n"), put("agents/a/inbox/1.json", "{}"))
	h.syncIndex()
	blob := func(text string) string {
		out, err := h.gitWith(text, "hash-object", "-w", "--stdin")
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	var stages strings.Builder
	stages.WriteString("0 0000000000000000000000000000000000000000\tboth\n")
	for i, text := range []string{"base\n", "ours\n", "theirs\n"} {
		fmt.Fprintf(&stages, "100644 %s %d\tboth\n", blob(text), i+1)
	}
	if out, err := h.gitWith(stages.String(), "update-index", "--index-info"); err != nil {
		t.Fatal(out)
	}
	h.write("staged", "s\n")
	h.write("intended", "i\n")
	h.git("add", "staged")
	h.git("add", "-N", "intended")
	base := h.shared()
	want := h.git("status", "--porcelain")
	for _, line := range []string{"UU both", "A  staged", " A intended"} {
		if !strings.Contains(want, line) {
			t.Fatalf("status is\n%s", want)
		}
	}
	for i := range 12 { // over some overlays and shared indexes
		h.commit(put(fmt.Sprintf("agents/a/inbox/%d.json", i), "[]"))
		h.syncIndex()
		if i == 0 && h.shared() != base {
			t.Error("what a person staged took a new shared index")
		}
	}
	if h.shared() == base {
		t.Error("no new shared index came")
	}
	if got := h.git("status", "--porcelain"); got != want {
		t.Errorf("status is\n%s\nit was\n%s", got, want)
	}
	if !strings.Contains(h.git("ls-files", "--debug", "staged"), "size: 2\t") {
		t.Error("the stat data of what is staged is gone")
	}
}

// The shared index stays for as long as overlays are cheap.
func TestNewSharedIndexWhenItIsWorthIt(t *testing.T) {
	h := splitHive(t)
	var many []change
	for i := range 20 {
		many = append(many, put(fmt.Sprintf("agents/a/inbox/%02d", i), "x"))
	}
	h.commit(many...)
	h.syncIndex()
	entries := 0
	for i := range 100 {
		h.commit(put("agents/a/inbox/00", strconv.Itoa(i)), put(fmt.Sprintf("agents/b/inbox/%d", i), "x"))
		h.syncIndex()
		if h.repo.index.spent == 0 {
			break
		}
		entries += i + 2
	}
	if n := 20 * sharedWorth; entries < n || entries > 2*n {
		t.Errorf("a new shared index after overlays of %d entries", entries)
	}
	h.agrees()

	old, now := h.shared(), time.Now()
	h.repo.opt.Now = func() time.Time { return now }
	now = now.Add(renewShared + time.Minute)
	h.commit(put("agents/a/inbox/00", "again"))
	h.syncIndex()
	if h.shared() == old {
		t.Error("a shared index that git would remove soon was not renewed")
	}
	h.agrees()
}

func TestOldSharedIndexesAreRemoved(t *testing.T) {
	h := splitHive(t)
	count := func() int {
		found, err := filepath.Glob(filepath.Join(h.dir, sharedIndex+"*"))
		if err != nil {
			t.Fatal(err)
		}
		return len(found)
	}
	h.commit(put("board.md", "one\n"))
	h.syncIndex()
	h.git("update-index", "--no-split-index") // by a git that is told to
	h.commit(put("board.md", "two\n"))
	h.syncIndex()
	if got := count(); got != 2 {
		t.Fatalf("%d shared indexes, though a git may be reading the old one", got)
	}
	long := time.Now().Add(-keepShared - time.Minute)
	for _, e := range h.sharedFiles() {
		if err := os.Chtimes(e, long, long); err != nil {
			t.Fatal(err)
		}
	}
	h.commit(put("board.md", "three\n"))
	h.syncIndex()
	if got := count(); got != 1 {
		t.Errorf("%d shared indexes are left", got)
	}
	h.clean()
	for i := range mostSharedKept + 3 { // in no time
		h.git("update-index", "--no-split-index")
		h.commit(put("board.md", strconv.Itoa(i)))
		h.syncIndex()
	}
	if got := count(); got != mostSharedKept+1 {
		t.Errorf("%d shared indexes of a busy time are left, want %d and the one in use", got, mostSharedKept)
	}
	h.clean()
}

func (h *hive) sharedFiles() []string {
	h.t.Helper()
	found, err := filepath.Glob(filepath.Join(h.dir, sharedIndex+"*"))
	if err != nil {
		h.t.Fatal(err)
	}
	return found
}

func TestSmallOrUnsplitIndexIsOneFile(t *testing.T) {
	needGit(t)
	h := newHive(t)
	h.commit(put("board.md", "one\n"))
	h.syncIndex()
	if found := h.sharedFiles(); len(found) != 0 {
		t.Errorf("a small hive has %q", found)
	}
	h.git("config", "core.splitIndex", "false")
	h.split = true
	h.open()
	h.commit(put("board.md", "two\n"))
	h.clean()
	if found := h.sharedFiles(); len(found) != 0 {
		t.Errorf("against the setting there is %q", found)
	}
	h.git("config", "core.splitIndex", "true")
	h.open()
	h.commit(put("board.md", "three\n"))
	h.clean()
	h.shared()
	h.repo.splitFrom = 100 // it became small
	h.commit(put("board.md", "four\n"))
	h.clean()
	if got := h.git("ls-files"); got != "board.md" || len(h.repo.index.kept) != 0 || h.repo.index.link != nil {
		t.Errorf("the index holds %q", got)
	}
}

func TestHeldLockKeepsTheSharedIndex(t *testing.T) {
	h := splitHive(t)
	h.commit(put("board.md", "one\n"))
	h.syncIndex()
	before, files := h.read(".git/index"), h.sharedFiles()
	h.write(".git/index.lock", "")
	now := time.Now()
	if err := os.Chtimes(filepath.Join(h.dir, ".git/index.lock"), now, now); err != nil {
		t.Fatal(err)
	}
	h.commit(put("board.md", "two\n"))
	if _, err := h.repo.SyncIndex(t.Context()); !errors.Is(err, ErrLocked) {
		t.Errorf("want ErrLocked, got %v", err)
	}
	if h.read(".git/index") != before || !slices.Equal(h.sharedFiles(), files) {
		t.Error("something was written under a lock")
	}
	os.Remove(filepath.Join(h.dir, ".git/index.lock"))
	h.clean()
}

// A git that writes while hived works is not overwritten.
func TestIndexReplacedMeanwhile(t *testing.T) {
	splitOrNot(t, func(t *testing.T, h *hive) {
		t.Helper()
		needGit(t)
		h.commit(put("board.md", "one\n"))
		h.syncIndex()
		h.commit(put("board.md", "two\n"))
		v, err := h.repo.loadIndex(protocol.Blob{})
		if err != nil {
			t.Fatal(err)
		}
		h.write("staged", "s\n")
		h.git("add", "staged")
		if err := h.repo.writeIndex(t.Context(), v, []patch{{name: "board.md"}}); !errors.Is(err, errRaced) {
			t.Errorf("want errRaced, got %v", err)
		}
		if err := v.close(); err != nil {
			t.Fatal(err)
		}
		h.syncIndex()
		if got := h.git("status", "--porcelain"); got != "A  staged" {
			t.Errorf("status is %q", got)
		}
	})
}

// A git that read the index before hived wrote it, and writes its own without
// looking again, undoes nothing for long.
func TestStaleIndexOfAGitIsSetRight(t *testing.T) {
	splitOrNot(t, func(t *testing.T, h *hive) {
		t.Helper()
		needGit(t)
		h.commit(put("board.md", "one\n"), put("agents/a/inbox/1.json", "{}"))
		h.syncIndex()
		stale := h.read(".git/index")
		h.commit(put("board.md", "two\n"), del("agents/a/inbox/1.json"))
		h.syncIndex()
		h.write(".git/index", stale)
		h.commit(put("agents/a/inbox/2.json", "{}"))
		h.clean()
		h.agrees()
	})
}

func TestSplitIndexSmudgesWhatIsAsYoungAsItself(t *testing.T) {
	splitOrNot(t, func(t *testing.T, h *hive) {
		t.Helper()
		needGit(t)
		h.write("young", "first\n")
		h.write("old", "first\n")
		young := time.Now().Add(time.Hour).Truncate(time.Second)
		if err := os.Chtimes(filepath.Join(h.dir, "young"), young, young); err != nil {
			t.Fatal(err)
		}
		h.git("add", "old", "young")
		if h.split {
			h.git("update-index", "--split-index")
		}
		h.commit(put("board.md", "one\n"))
		h.syncIndex()
		sizes := make(map[string]uint32)
		h.entries(func(e indexEntry) { sizes[string(e.name())] = e.size() })
		if sizes["young"] != 0 || sizes["old"] != 6 {
			t.Errorf("sizes are %v", sizes)
		}
		// So git looks into a file that changed and kept its size and time.
		h.write("young", "other\n")
		if err := os.Chtimes(filepath.Join(h.dir, "young"), young, young); err != nil {
			t.Fatal(err)
		}
		if got := h.git("status", "--porcelain"); got != "A  old\nAM young" {
			t.Errorf("status is\n%s", got)
		}
		h.commit(put("board.md", "two\n"))
		h.syncIndex()
	})
}

// model applies patches to a list of entries in the plainest way.
func model(entries map[string]string, patches []patch) {
	for _, p := range patches {
		for key := range entries {
			name, _, _ := strings.Cut(key, "\x00")
			gone := name == p.name
			if p.entry != nil {
				gone = gone || strings.HasPrefix(name, p.name+"/") || strings.HasPrefix(p.name, name+"/")
			}
			if gone {
				delete(entries, key)
			}
		}
		if p.entry != nil {
			entries[p.name+"\x00"+"0"] = string(p.entry)
		}
	}
}

// Overlays hold what was put into them, over shared indexes of any shape.
func TestOverlayAgainstModel(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	name := func() string {
		parts := []string{"a", "b", "b-c", "c", "é", "z.z"}
		var out []string
		for range 1 + random.IntN(4) {
			out = append(out, parts[random.IntN(len(parts))])
		}
		return strings.Join(out, "/")
	}
	entry := func(name string) indexEntry {
		return newIndexEntry(name, protocol.Blob{byte(random.IntN(255) + 1)}, modeFile, fileStat{7: byte(random.IntN(9))})
	}
	for range 60 {
		r := memRepo(t)
		want := make(map[string]string)
		v := &indexView{index: index{table: &indexTable{}}, over: &overlay{}, fresh: true}
		v.pages = &indexPages{table: v.table}
		for range 12 {
			byName := make(map[string]patch)
			for range 1 + random.IntN(5) {
				p := patch{name: name()}
				if random.IntN(3) > 0 {
					p.entry = entry(p.name)
				}
				if p.entry == nil || !clashes(byName, p.name) {
					byName[p.name] = p
				}
			}
			var patches []patch
			for _, p := range byName {
				patches = append(patches, p)
			}
			slices.SortFunc(patches, func(a, b patch) int { return strings.Compare(a.name, b.name) })
			removalsFirst := slices.Clone(patches)
			slices.SortStableFunc(removalsFirst, func(a, b patch) int { return btoi(a.entry != nil) - btoi(b.entry != nil) })
			model(want, removalsFirst)
			if err := r.writeIndex(t.Context(), v, patches); err != nil {
				t.Fatal(err)
			}
			var err error
			if random.IntN(3) == 0 {
				r.index = index{} // as after a restart
			}
			if v, err = r.loadIndex(protocol.Blob{}); err != nil {
				t.Fatal(err)
			}
			got := make(map[string]string)
			if err := v.all(func(e indexEntry) error { got[string(e.name())+"\x00"+strconv.Itoa(e.stage())] = string(e); return nil }); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatal(diff)
			}
			for key := range want {
				path, _, _ := strings.Cut(key, "\x00")
				if e, ok, err := v.find(path); err != nil || !ok || !bytes.Equal(e[:atFlags], []byte(want[key])[:atFlags]) {
					t.Fatalf("%s is not found: %v", path, err)
				}
			}
		}
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

func clashes(all map[string]patch, name string) bool {
	for other, p := range all {
		if p.entry != nil && (strings.HasPrefix(other, name+"/") || strings.HasPrefix(name, other+"/")) {
			return true
		}
	}
	return false
}

// memRepo gives a repository in memory that always splits its index.
func memRepo(tb testing.TB) *Repo {
	tb.Helper()
	m := faultfs.New()
	if err := Init(m, false); err != nil {
		tb.Fatal(err)
	}
	r, err := Open(m, Options{})
	if err != nil {
		tb.Fatal(err)
	}
	r.splitFrom = 0
	return r
}

// After a crash the index may be an old or a broken one; a shared index that it
// refers to is there, whole.
func TestCrashKeepsSharedIndexes(t *testing.T) {
	events := story()[:2]
	play := func(m *faultfs.Mem, alerts *[]string) error {
		if err := Init(m, false); err != nil {
			return err
		}
		r, err := Open(m, Options{Alert: func(code, text string) { *alerts = append(*alerts, code+": "+text) }})
		if err != nil {
			return err
		}
		r.splitFrom = 0
		if _, err := r.SyncIndex(t.Context()); err != nil {
			return err
		}
		for _, e := range events[r.head.Seq:] {
			b := Batch{First: e.Seq, Last: e.Seq, Sum: e.Sum, At: time.Unix(int64(e.Seq), 0), Changes: e.Changes}
			if _, err := r.Commit(t.Context(), b); err != nil {
				return err
			}
			if _, err := r.SyncIndex(t.Context()); err != nil {
				return err
			}
		}
		return nil
	}
	m := newDisk(t)
	before := m.Ops()
	var alerts []string
	if err := play(m, &alerts); err != nil {
		t.Fatal(err)
	}
	ops := m.Ops() - before
	for _, how := range []faultfs.Loss{faultfs.Drop, faultfs.Torn(1)} {
		t.Run(how.String(), func(t *testing.T) {
			for n := 1; n <= ops; n++ {
				m := newDisk(t)
				m.CrashAt(n, how)
				var alerts []string
				if err := play(m, &alerts); err != nil && !errors.Is(err, faultfs.ErrCrashed) {
					t.Fatalf("crash at %d: %v", n, err)
				}
				m = m.Reboot()
				alerts = nil
				if err := play(m, &alerts); err != nil {
					t.Fatalf("after a crash at %d: %v", n, err)
				}
				for _, a := range alerts {
					if strings.Contains(a, "sharedindex") {
						t.Errorf("after a crash at %d: %s", n, a)
					}
				}
				if _, err := m.Lstat(tmpShared); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("after a crash at %d a temporary file is left (%v)", n, err)
				}
			}
		})
	}
}

// A crash must not leave an index that refers to what is not on the disk.
func TestSharedIndexIsDurableFirst(t *testing.T) {
	m := newDisk(t)
	if err := Init(m, false); err != nil {
		t.Fatal(err)
	}
	r, err := Open(m, Options{})
	if err != nil {
		t.Fatal(err)
	}
	r.splitFrom = 0
	e := story()[0]
	if _, err := r.Commit(t.Context(), Batch{First: e.Seq, Last: e.Seq, Sum: e.Sum, Changes: e.Changes}); err != nil {
		t.Fatal(err)
	}
	var order []string
	m.FailAt(1, durable.ErrNoSpace, 1, func(op faultfs.Op, name string) bool {
		if strings.Contains(string(op), "sync") || op == faultfs.OpRename {
			order = append(order, string(op)+" "+name)
		}
		return false
	})
	if _, err := r.SyncIndex(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := []string{"sync " + tmpShared, "rename " + r.index.table.file, "syncdir .git", "rename .git/index"}
	if diff := cmp.Diff(want, order); diff != "" {
		t.Error(diff)
	}
}

// What stopped half-way is begun again.
func TestRemakingTheIndexIsInterrupted(t *testing.T) {
	splitOrNot(t, func(t *testing.T, h *hive) {
		t.Helper()
		needGit(t)
		h.commit(put("board.md", "one\n"))
		h.syncIndex()
		h.write(".git/index", "garbage")
		h.commit(put("board.md", "two\n"))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := h.repo.SyncIndex(ctx); !errors.Is(err, context.Canceled) {
			t.Fatalf("want the context's error, got %v", err)
		}
		h.clean()
		h.agrees()
	})
}

// A split index is checked with the shared one that it changes, and what either holds
// is held against the last commit.
func TestCheckIndex(t *testing.T) {
	h := splitHive(t)
	for i := range 3 {
		h.commit(put(fmt.Sprintf("agents/a/inbox/%d.json", i), "x"))
		h.syncIndex()
	}
	check := func(what string, differ int, want error) {
		t.Helper()
		if n, err := CheckIndex(h.disk); n != differ || !errors.Is(err, want) {
			t.Errorf("%s: %d paths, %v; want %d, %v", what, n, err, differ, want)
		}
	}
	check("as it was written", 0, nil)
	shared := h.repo.index.table.file
	if !strings.HasPrefix(shared, sharedIndex) {
		t.Fatalf("the index is not split: %s", shared)
	}
	h.commit(put("agents/a/inbox/9.json", "x"), del("agents/a/inbox/0.json"))
	check("behind a commit", 2, nil)
	h.syncIndex()
	for _, name := range []string{indexFile, shared} {
		data, _, err := durable.ReadFile(h.disk, name, mostIndex)
		if err != nil {
			t.Fatal(err)
		}
		bad := slices.Clone(data)
		bad[len(bad)/2] ^= 1
		for _, other := range [][]byte{bad, data[:len(data)-1], {}} {
			if err := durable.Publish(h.disk, name, other, 0o644, false); err != nil {
				t.Fatal(err)
			}
			check(name+" damaged", 0, ErrIndex)
		}
		if err := durable.Publish(h.disk, name, data, 0o644, false); err != nil {
			t.Fatal(err)
		}
	}
	check("as it was", 0, nil)
	if err := h.disk.Remove(shared); err != nil {
		t.Fatal(err)
	}
	check("without the shared one", 0, ErrIndex)
	if err := h.disk.Remove(indexFile); err != nil {
		t.Fatal(err)
	}
	check("without one", 0, fs.ErrNotExist)
}
