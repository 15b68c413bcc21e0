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
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/durable/faultfs"
	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/protocol"
)

// wantGitAgrees compares what git reads from the index with what hived committed.
func (h *hive) wantGitAgrees() {
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

// Git reads from the index what hived committed, whatever was added and removed,
// and whatever form git itself gave it in between.
func TestIndexFollowsTheTree(t *testing.T) {
	h := gitHive(t)
	there := make(map[string]bool)
	random := rand.New(rand.NewPCG(1, 2))
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
		switch {
		case i%13 == 0:
			h.wantGitAgrees()
		case i%7 == 0:
			h.split()
		case i%17 == 0:
			h.git("status")
		}
		if i%25 == 0 {
			h.open()
		}
	}
	h.wantGitAgrees()
	h.wantSound()
	if len(h.alerts) != 0 {
		t.Errorf("alerts: %q", h.alerts)
	}
}

// A name that was a directory becomes a file, and the other way round.
func TestIndexFileAndDirectory(t *testing.T) {
	wholeOrSplit(t, func(t *testing.T, h *hive, form func()) {
		t.Helper()
		h.commit(put("tasks/t/x/1", "1"), put("tasks/t/x/2", "2"), put("tasks/t/x-y", "between"), put("tasks/t/y", "y"), put("tasks/z", "z"))
		h.syncIndex()
		form()
		h.commit(del("tasks/t/x/1"), del("tasks/t/x/2"), del("tasks/t/y"))
		h.remove("tasks/t/x")
		h.commit(put("tasks/t/x", "now a file"), put("tasks/t/y/1", "now below"))
		h.syncIndex()
		h.wantGitAgrees()
		form()
		h.commit(del("tasks/t/x"), del("tasks/t/y/1"))
		h.remove("tasks/t/y")
		h.commit(put("tasks/t/x/3", "3"), put("tasks/t/y", "y"))
		h.syncIndex()
		h.wantGitAgrees()
	})
}

// stage stages for a person what an index can hold: additions, an intent to add, a
// conflict, and entries that git is told to skip.
func (h *hive) stage() {
	h.t.Helper()
	for _, name := range []string{"both", "skipped", "assumed", "edited"} {
		h.write(name, "base\n")
	}
	h.git("add", "both", "skipped", "assumed", "edited")
	h.git("commit", "-qm", "a person's")
	var stages strings.Builder
	stages.WriteString("0 0000000000000000000000000000000000000000\tboth\n")
	for i, text := range []string{"base\n", "ours\n", "theirs\n"} {
		blob, err := h.gitWith(text, "hash-object", "-w", "--stdin")
		testenv.Must(h.t, err)
		fmt.Fprintf(&stages, "100644 %s %d\tboth\n", blob, i+1)
	}
	if out, err := h.gitWith(stages.String(), "update-index", "--index-info"); err != nil {
		h.t.Fatal(out)
	}
	for _, name := range []string{"staged", "intended", "edited", "skipped", "assumed"} {
		h.write(name, name+"\n")
	}
	h.git("add", "staged", "edited")
	h.git("add", "-N", "intended")
	h.git("update-index", "--skip-worktree", "skipped")
	h.git("update-index", "--assume-unchanged", "assumed")
}

// statOf returns the stat data of files in the index, as git reads it. The flags
// also show which of the two files of a split index an entry comes from.
func (h *hive) statOf(names ...string) string {
	h.t.Helper()
	out := h.git(append([]string{"ls-files", "--debug"}, names...)...)
	return regexp.MustCompile(`flags: \S+`).ReplaceAllString(out, "")
}

// What a person staged stays staged when hived makes one file of the index,
// whichever of the two files holds it.
func TestIndexKeepsWhatPeopleStaged(t *testing.T) {
	wholeOrSplit(t, func(t *testing.T, h *hive, form func()) {
		t.Helper()
		h.commit(put("board.md", "one\n"), put("agents/a/inbox/1.json", "{}"))
		h.syncIndex()
		form() // so that some of it stands in the overlay,
		h.stage()
		for i := range 3 {
			if i == 2 {
				form() // and then all in the shared index
			}
			status, flags, stat := h.git("status", "--porcelain"), h.git("ls-files", "-v"), h.statOf("staged", "edited", "assumed")
			for _, line := range []string{"UU both", "A  staged", " A intended", "M  edited"} {
				if !strings.Contains(status, line) {
					t.Fatalf("status is\n%s", status)
				}
			}
			if !strings.Contains(flags, "S skipped") || !strings.Contains(flags, "h assumed") {
				t.Fatalf("flags are\n%s", flags)
			}
			h.commit(put("agents/a/inbox/1.json", fmt.Sprintf("[%d]", i)))
			h.syncIndex()
			h.oneFile()
			want := []string{status, flags, stat}
			got := []string{h.git("status", "--porcelain"), h.git("ls-files", "-v"), h.statOf("staged", "edited", "assumed")}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("after write %d: %s", i+1, diff)
			}
		}
		if len(h.alerts) != 0 {
			t.Errorf("alerts: %q", h.alerts)
		}
	})
}

// Hived writes one file even if git's settings ask for a split index.
func TestIndexIsOneFileUnderAnySetting(t *testing.T) {
	h := gitHive(t)
	for _, setting := range []string{"true", "false"} {
		h.git("config", "core.splitIndex", setting)
		h.open()
		h.commit(put("board.md", setting))
		h.syncIndex()
		h.oneFile()
		if out := h.git("--no-optional-locks", "status", "--porcelain"); out != "" {
			t.Errorf("with core.splitIndex %s status is %q", setting, out)
		}
	}
}

// Shared indexes that are left over are removed when they are old or many, but not
// while an index refers to them.
func TestOldSharedIndexesAreRemoved(t *testing.T) {
	h := gitHive(t)
	long := time.Now().Add(-keepShared - time.Minute)
	age := func() {
		t.Helper()
		for _, name := range h.sharedFiles() {
			testenv.Must(t, os.Chtimes(name, long, long))
		}
	}
	want := func(n int, when string) {
		t.Helper()
		if found := h.sharedFiles(); len(found) != n {
			t.Errorf("%s: %d shared indexes are left, want %d: %q", when, len(found), n, found)
		}
	}
	h.commit(put("board.md", "one\n"))
	h.syncIndex()
	h.split()
	h.commit(put("board.md", "two\n"))
	h.syncIndex()
	want(1, "a git may be reading it")
	age()
	h.commit(put("board.md", "three\n"))
	h.syncIndex()
	want(0, "nobody used it for long")

	h.split()
	other := h.shared()
	h.write(".git/index.mine", h.read(".git/index")) // a person's, GIT_INDEX_FILE
	for i := range mostSharedKept + 3 {              // in no time
		h.commit(put("board.md", strconv.Itoa(i)))
		h.syncIndex()
		h.split()
	}
	h.commit(put("board.md", "four\n"))
	h.wantCleanStatus()
	want(mostSharedKept+1, "a busy time and one in use")
	age()
	h.commit(put("board.md", "five\n"))
	h.wantCleanStatus()
	want(1, "one in use")
	if found := h.sharedFiles(); len(found) != 1 || filepath.Base(found[0]) != filepath.Base(other) {
		t.Errorf("%q are left, not %s", found, other)
	}
	h.remove(".git/index.mine")
	h.commit(put("board.md", "six\n"))
	h.wantCleanStatus()
	want(0, "at the end")
}

func TestHeldLockKeepsTheSharedIndex(t *testing.T) {
	h := gitHive(t)
	h.commit(put("board.md", "one\n"))
	h.syncIndex()
	h.split()
	before, files := h.read(".git/index"), h.sharedFiles()
	h.write(".git/index.lock", "")
	now := time.Now()
	testenv.Must(t, os.Chtimes(filepath.Join(h.dir, ".git/index.lock"), now, now))
	h.commit(put("board.md", "two\n"))
	if _, err := h.repo.SyncIndex(t.Context()); !errors.Is(err, ErrLocked) {
		t.Errorf("want ErrLocked, got %v", err)
	}
	if h.read(".git/index") != before || !slices.Equal(h.sharedFiles(), files) {
		t.Error("something was written under a lock")
	}
	os.Remove(filepath.Join(h.dir, ".git/index.lock"))
	h.wantCleanStatus()
}

// A git that writes while hived works is not overwritten.
func TestIndexReplacedMeanwhile(t *testing.T) {
	wholeOrSplit(t, func(t *testing.T, h *hive, form func()) {
		t.Helper()
		h.commit(put("board.md", "one\n"))
		h.syncIndex()
		form()
		h.commit(put("board.md", "two\n"))
		v, err := h.repo.loadIndex(protocol.Blob{})
		testenv.Must(t, err)
		h.write("staged", "s\n")
		h.git("add", "staged")
		if err := h.repo.writeIndex(t.Context(), v, []patch{{name: "board.md"}}); !errors.Is(err, errRaced) {
			t.Errorf("want errRaced, got %v", err)
		}
		testenv.Must(t, v.close())
		h.syncIndex()
		h.wantOutput("A  staged", "status", "--porcelain")
	})
}

// A git that read the index before hived wrote it, and writes its own without
// reading it again, undoes nothing for long.
func TestStaleIndexOfAGitIsSetRight(t *testing.T) {
	wholeOrSplit(t, func(t *testing.T, h *hive, form func()) {
		t.Helper()
		h.commit(put("board.md", "one\n"), put("agents/a/inbox/1.json", "{}"))
		h.syncIndex()
		form()
		stale := h.read(".git/index")
		h.commit(put("board.md", "two\n"), del("agents/a/inbox/1.json"))
		h.syncIndex()
		h.write(".git/index", stale)
		h.commit(put("agents/a/inbox/2.json", "{}"))
		h.wantCleanStatus()
		h.wantGitAgrees()
	})
}

func TestIndexSmudgesWhatIsAsYoungAsItself(t *testing.T) {
	wholeOrSplit(t, func(t *testing.T, h *hive, form func()) {
		t.Helper()
		h.write("young", "first\n")
		h.write("old", "first\n")
		young := time.Now().Add(time.Hour).Truncate(time.Second)
		testenv.Must(t, os.Chtimes(filepath.Join(h.dir, "young"), young, young))
		h.git("add", "old", "young")
		form()
		h.commit(put("board.md", "one\n"))
		h.syncIndex()
		sizes := make(map[string]uint32)
		h.entries(func(e indexEntry) { sizes[string(e.name())] = e.size() })
		if sizes["young"] != 0 || sizes["old"] != 6 {
			t.Errorf("sizes are %v", sizes)
		}
		// So git reads a file that changed and kept its size and time.
		h.write("young", "other\n")
		testenv.Must(t, os.Chtimes(filepath.Join(h.dir, "young"), young, young))
		h.wantOutput("A  old\nAM young", "status", "--porcelain")
		h.commit(put("board.md", "two\n"))
		h.syncIndex()
	})
}

// model applies patches to a list of entries in the simplest way.
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

// splitAtRandom makes an index of some entries a split one: what its shared index
// has besides them is removed, what it has otherwise is replaced, and what it lacks
// is added.
func splitAtRandom(t *testing.T, r *Repo, random *rand.Rand, entries []indexEntry) {
	t.Helper()
	var shared []indexEntry
	var over overlay
	for _, e := range entries {
		pos := uint32(len(shared))
		switch random.IntN(4) {
		case 0:
			over.added = append(over.added, e)
			continue
		case 1:
			other := bytes.Clone(e)
			other[atID] ^= 1
			shared = append(shared, other)
			over.changed = append(over.changed, changedEntry{pos: pos, entry: e})
		case 2:
			shared = append(shared, e)
		case 3:
			shared = append(shared, e, newIndexEntry(string(e.name())+"\x01", protocol.Blob{1}, modeFile, fileStat{}))
			over.changed = append(over.changed, changedEntry{pos: pos + 1})
		}
	}
	writeSplit(t, r, shared, over)
}

// An index holds the patches applied to it, whichever form it had before.
func TestPatchesAgainstModel(t *testing.T) {
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
		v := &indexView{fresh: true}
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
			testenv.Must(t, r.writeIndex(t.Context(), v, patches))
			if random.IntN(3) == 0 {
				r.index = index{} // as after a restart
			}
			entries := wantEntries(t, r, want)
			if random.IntN(3) == 0 {
				splitAtRandom(t, r, random, entries)
				wantEntries(t, r, want)
			}
			var err error
			v, err = r.loadIndex(protocol.Blob{})
			testenv.Must(t, err)
		}
	}
}

// wantEntries fails the test if the index lacks one of these entries, by name and
// stage, and returns them.
func wantEntries(t *testing.T, r *Repo, want map[string]string) []indexEntry {
	t.Helper()
	v, err := r.openIndex()
	testenv.Must(t, err)
	var list []indexEntry
	got := make(map[string]string)
	err = v.all(func(e indexEntry) error {
		got[string(e.name())+"\x00"+strconv.Itoa(e.stage())] = string(e)
		list = append(list, bytes.Clone(e))
		return nil
	})
	testenv.Must(t, errors.Join(err, v.close()))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatal(diff)
	}
	if !slices.IsSortedFunc(list, inIndexOrder) {
		t.Fatal("the entries are out of order")
	}
	return list
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

// splitDisk returns a disk with a hive whose index is a split one, with entries that
// a person staged in both of its files, and the shared index long out of use.
func splitDisk(t *testing.T, m *faultfs.Mem) (shared string) {
	t.Helper()
	testenv.Must(t, Init(m))
	r, err := Open(m, Options{})
	testenv.Must(t, err)
	entry := func(name string) indexEntry { return newIndexEntry(name, protocol.Blob{1}, modeFile, fileStat{}) }
	writeSplit(t, r, []indexEntry{entry("gone"), entry("staged-before"), entry("staged-twice")}, overlay{
		changed: []changedEntry{{pos: 0}, {pos: 2, entry: newIndexEntry("staged-twice", protocol.Blob{2}, modeFile, fileStat{})}},
		added:   []indexEntry{entry("staged-late")},
	})
	l, err := r.splitLinkOf(indexFile)
	testenv.Must(t, err)
	testenv.Must(t, m.SyncAll())
	return sharedIndex + l.shared.String()
}

// joinSplit commits the events of a story that history lacks, and updates the index
// after each, at a time when no shared index is young any more.
func joinSplit(ctx context.Context, m *faultfs.Mem, events []Event, alert func(code, text string)) error {
	late := func() time.Time { return time.Now().Add(2 * keepShared) }
	r, err := Open(m, Options{Alert: alert, Now: late})
	if err != nil {
		return err
	}
	head, err := r.Head()
	if err != nil {
		return err
	}
	for _, e := range events[head.Seq:] {
		b := Batch{First: e.Seq, Last: e.Seq, Sum: e.Sum, At: time.Unix(int64(e.Seq), 0), Changes: e.Changes}
		if _, err := r.Commit(ctx, b); err != nil {
			return err
		}
		if _, err := r.SyncIndex(ctx); err != nil {
			return err
		}
	}
	_, err = r.SyncIndex(ctx)
	return err
}

// A crash anywhere while hived makes one file of a split index leaves one of the
// two forms intact: the shared index is removed only when the new file is durable.
// So what a person staged is kept.
func TestCrashKeepsSharedIndexes(t *testing.T) {
	events := story()[:2]
	begin := newDisk(t)
	shared := splitDisk(t, begin)
	m := begin.Copy()
	before := m.Ops()
	testenv.Must(t, joinSplit(t.Context(), m, events[:1], nil))
	ops := m.Ops() - before
	if _, err := m.Lstat(shared); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("the shared index is still there: %v", err)
	}
	want := map[string]byte{"staged-before": 1, "staged-late": 1, "staged-twice": 2}
	for _, how := range []faultfs.Loss{faultfs.Drop, faultfs.Keep, faultfs.Torn(1), faultfs.Torn(2)} {
		t.Run(how.String(), func(t *testing.T) {
			for n := 1; n <= ops; n++ {
				m := begin.Copy()
				m.CrashAt(n, how)
				if err := joinSplit(t.Context(), m, events[:1], nil); err != nil && !errors.Is(err, faultfs.ErrCrashed) {
					t.Fatalf("crash at %d: %v", n, err)
				}
				m = m.Reboot()
				var alerts []string
				if err := joinSplit(t.Context(), m, events, func(code, text string) { alerts = append(alerts, code+": "+text) }); err != nil {
					t.Fatalf("after a crash at %d: %v", n, err)
				}
				if len(alerts) != 0 {
					t.Errorf("after a crash at %d: %q", n, alerts)
				}
				got := make(map[string]byte)
				r := &Repo{disk: m}
				v, err := r.openIndex()
				if err != nil {
					t.Fatalf("after a crash at %d: %v", n, err)
				}
				err = v.all(func(e indexEntry) error {
					if !protocol.Owned(string(e.name())) {
						id := e.id()
						got[string(e.name())] = id[0]
					}
					return nil
				})
				testenv.Must(t, errors.Join(err, v.close()))
				if diff := cmp.Diff(want, got); diff != "" || v.link != nil {
					t.Fatalf("after a crash at %d: %s", n, diff)
				}
				for _, name := range []string{tmpIndex, indexFile + lockExt, shared} {
					if _, err := m.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
						t.Errorf("after a crash at %d %s is left (%v)", n, name, err)
					}
				}
			}
		})
	}
}

// The file that replaces a split index is durable before the shared one is removed.
func TestTakenOverIndexIsDurableFirst(t *testing.T) {
	m := newDisk(t)
	shared := splitDisk(t, m)
	var order []string
	m.FailAt(1, durable.ErrNoSpace, 1, func(op faultfs.Op, name string) bool {
		if strings.Contains(name, "index") && op != faultfs.OpWrite || name == gitDir {
			order = append(order, string(op)+" "+name)
		}
		return false
	})
	testenv.Must(t, joinSplit(t.Context(), m, story()[:1], nil))
	i := slices.Index(order, "sync "+tmpIndex)
	if i < 0 {
		t.Fatalf("the index is not synced: %q", order)
	}
	var got []string
	for _, op := range order[i:] {
		if !strings.HasPrefix(op, "remove "+tmpIndex) {
			got = append(got, op)
		}
	}
	want := []string{"sync " + tmpIndex, "link " + indexFile + lockExt, "rename " + indexFile, "syncdir " + gitDir, "remove " + shared}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// A conversion that stopped half-way is begun again.
func TestRemakingTheIndexIsInterrupted(t *testing.T) {
	wholeOrSplit(t, func(t *testing.T, h *hive, form func()) {
		t.Helper()
		h.commit(put("board.md", "one\n"))
		h.syncIndex()
		form()
		h.write(".git/index", "garbage")
		h.commit(put("board.md", "two\n"))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := h.repo.SyncIndex(ctx); !errors.Is(err, context.Canceled) {
			t.Fatalf("want the context's error, got %v", err)
		}
		h.wantCleanStatus()
		h.wantGitAgrees()
	})
}

// A split index is checked together with the shared one that it changes, and both
// are compared with the last commit.
func TestCheckIndex(t *testing.T) {
	h := gitHive(t)
	for i := range 3 {
		h.commit(put(fmt.Sprintf("agents/a/inbox/%d.json", i), "x"))
		h.syncIndex()
	}
	h.split()
	check := func(what string, differ int, want error) {
		t.Helper()
		if n, err := CheckIndex(h.disk); n != differ || !errors.Is(err, want) {
			t.Errorf("%s: %d paths, %v; want %d, %v", what, n, err, differ, want)
		}
	}
	check("as it was written", 0, nil)
	shared := gitDir + "/" + filepath.Base(h.shared())
	h.commit(put("agents/a/inbox/9.json", "x"), del("agents/a/inbox/0.json"))
	check("behind a commit", 2, nil)
	for _, name := range []string{indexFile, shared} {
		data, _, err := durable.ReadFile(h.disk, name, mostIndex)
		testenv.Must(t, err)
		bad := slices.Clone(data)
		bad[len(bad)/2] ^= 1
		for _, other := range [][]byte{bad, data[:len(data)-1], {}} {
			testenv.Must(t, durable.Publish(h.disk, name, other, 0o644, false))
			check(name+" damaged", 0, ErrIndex)
		}
		testenv.Must(t, durable.Publish(h.disk, name, data, 0o644, false))
	}
	check("as it was", 2, nil)
	testenv.Must(t, h.disk.Remove(shared))
	check("without the shared one", 0, ErrIndex)
	testenv.Must(t, h.disk.Remove(indexFile))
	check("without one", 0, fs.ErrNotExist)
}

// onOpen is a disk that calls a function before it opens a file.
type onOpen struct {
	durable.FS
	ask func(name string) error
}

func (d *onOpen) Open(name string) (durable.File, error) {
	if err := d.ask(name); err != nil {
		return nil, err
	}
	return d.FS.Open(name)
}

// It is no damage when hived makes one file of a split index while another program
// reads it.
func TestCheckIndexWhileItBecomesOneFile(t *testing.T) {
	h := gitHive(t)
	h.commit(put("board.md", "one\n"))
	h.syncIndex()
	h.split()
	shared, done := h.shared(), false
	disk := &onOpen{FS: h.disk, ask: func(name string) error {
		if strings.HasPrefix(name, sharedIndex) && !done {
			done = true
			h.commit(put("board.md", "two\n"))
			h.syncIndex()
			h.remove(shared)
		}
		return nil
	}}
	if n, err := CheckIndex(disk); n != 0 || err != nil || !done {
		t.Errorf("%d paths, %v; replaced: %v", n, err, done)
	}
}

// An index that cannot be read may refer to any shared index.
func TestUnreadableFileKeepsSharedIndexes(t *testing.T) {
	h := gitHive(t)
	h.commit(put("board.md", "one\n"))
	h.syncIndex()
	h.split()
	h.write(".git/index.mine", "nobody knows")
	denied := true
	h.repo.disk = &onOpen{FS: h.disk, ask: func(name string) error {
		if denied && name == ".git/index.mine" {
			return fs.ErrPermission
		}
		return nil
	}}
	h.repo.opt.Now = func() time.Time { return time.Now().Add(2 * keepShared) }
	for _, want := range []int{1, 0} {
		h.commit(put("board.md", strconv.Itoa(want)))
		h.syncIndex()
		if found := h.sharedFiles(); len(found) != want {
			t.Errorf("denied %v: %q are left", denied, found)
		}
		denied = false
	}
}
