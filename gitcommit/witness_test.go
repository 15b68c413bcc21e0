package gitcommit

import (
	"crypto/sha1"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/durable/faultfs"
	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/protocol"
)

// seen holds which of the two readers found a fault.
type seen struct{ hived, goGit bool }

// askReaders runs one reader and then the other, the second one also where the first
// found a fault. Where files of git's are damaged, the second must find what was there
// before.
func (h *hive) askReaders(before *expected) (out seen) {
	h.t.Helper()
	fault := func(said *bool) func(Problem) {
		return func(p Problem) {
			h.t.Logf("%s: %s", p.Code, p.Text)
			*said = *said || !p.Info
		}
	}
	now, err := check(h.t.Context(), h.disk, h.history(), fault(&out.hived))
	testenv.Must(h.t, err)
	if before == nil {
		before = now
	}
	testenv.Must(h.t, runWitness(h.t.Context(), h.disk, before, fault(&out.goGit)))
	return out
}

// unpack makes all objects loose.
func (h *hive) unpack() {
	h.t.Helper()
	packs, err := filepath.Glob(filepath.Join(h.dir, ".git/objects/pack/*.pack"))
	testenv.Must(h.t, err)
	for _, p := range packs {
		data, err := os.ReadFile(p)
		testenv.Must(h.t, err)
		for _, f := range []string{p, strings.TrimSuffix(p, "pack") + "idx"} {
			testenv.Must(h.t, os.Remove(f))
		}
		if out, err := h.gitWith(string(data), "unpack-objects", "-q"); err != nil {
			h.t.Fatal(out)
		}
	}
}

// busyHive returns a hive with some history, with texts and directories that are worth
// differences.
func busyHive(t *testing.T) *hive {
	t.Helper()
	h := newHive(t)
	text := strings.Repeat("a line of the plan that hardly changes\n", 60)
	for i := range 12 {
		h.commit(put("board.md", fmt.Sprint(text, i)), put(inboxFile(i), fmt.Sprint(text, "to a", i)), put("tasks/t/task.json", strconv.Itoa(i)))
	}
	h.syncIndex()
	return h
}

// The witness finds no fault in a repository without damage, whatever git or a person
// did to it.
func TestWitnessIsSilent(t *testing.T) {
	needGit(t)
	tests := map[string]func(h *hive){
		"as hived writes it":             func(*hive) {},
		"packs merged":                   func(h *hive) { h.merge(h.packList()) },
		"packs merged and more":          func(h *hive) { h.merge(h.packList()); h.commit(put("board.md", "x")) },
		"repacked, bases by offset":      func(h *hive) { h.git("repack", "-adfq", "--depth=50") },
		"repacked, bases by id":          func(h *hive) { h.git("-c", "repack.useDeltaBaseOffset=false", "repack", "-adfq") },
		"loose objects":                  func(h *hive) { h.unpack() },
		"loose and packed":               func(h *hive) { h.unpack(); h.commit(put("board.md", "x")) },
		"packed refs":                    func(h *hive) { h.git("pack-refs", "--all") },
		"packed refs and a newer branch": func(h *hive) { h.git("pack-refs", "--all"); h.commit(put("board.md", "x")) },
		"packed refs with a tag":         func(h *hive) { h.git("tag", "-am", "x", "v1"); h.git("pack-refs", "--all") },
		"detached HEAD":                  func(h *hive) { h.git("checkout", "-q", "--detach"); h.commit(put("board.md", "x")) },
		"a person's commit":              func(h *hive) { h.git("commit", "-qm", "mine", "--allow-empty") },
		"an amended commit": func(h *hive) {
			h.git("commit", "-q", "--amend", "--allow-empty", "-m", "mine\n\n"+h.git("log", "-1", "--format=%B"))
		},
		"a person's files, one to be run": func(h *hive) {
			h.write("run.sh", "x")
			h.git("add", "--chmod=+x", "run.sh")
			h.git("commit", "-qm", "mine")
		},
		"commits taken away":           func(h *hive) { h.git("update-ref", "refs/heads/main", "HEAD~2") },
		"the log goes on":              func(h *hive) { h.batch(put("board.md", "later")) },
		"half of a pack, from a crash": func(h *hive) { h.write(".git/objects/pack/pack-"+strings.Repeat("0", 40)+".idx", "x") },
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			h := busyHive(t)
			change(h)
			h.check()
		})
	}
}

func TestWitnessIsSilentOnAdoptedHistory(t *testing.T) {
	needGit(t)
	h := emptyHive(t)
	h.git("init", "-qb", "team/hive")
	h.write("README.md", "a person's\n")
	h.git("add", ".")
	h.git("commit", "-qm", "a person's")
	testenv.Must(t, Adopt(h.disk))
	h.open()
	h.check() // no commit of hived's yet
	h.commit(put("board.md", "plan"))
	h.git("pack-refs", "--all")
	h.check()
}

// One of the readers finds each damage; the row says which.
func TestWitnessSeesDamage(t *testing.T) {
	needGit(t)
	trailers := func(h *hive) string {
		return fmt.Sprintf("x\n\nHive-Seq: %d-%d\nHive-Sum: %s\n", h.seq, h.seq, h.log[len(h.log)-1].Sum)
	}
	// forged commits a tree in hived's name, made from the newest by a script for git's index.
	forged := func(index string) func(h *hive) {
		return func(h *hive) {
			h.batch()
			h.git("read-tree", "HEAD")
			if out, err := h.gitWith(index, "update-index", "--index-info"); err != nil {
				h.t.Fatal(out)
			}
			h.forge(h.git("write-tree"), trailers(h))
		}
	}
	none := strings.Repeat("0", 40)
	other := protocol.BlobOf([]byte("0")).String()
	tests := map[string]struct {
		damage func(h *hive)
		forged bool // the files are whole, what they say is wrong
		want   seen
	}{
		"a byte of a tree in a pack":      {func(h *hive) { h.corruptPacked("HEAD:agents") }, false, seen{true, true}},
		"a byte of a commit in a pack":    {func(h *hive) { h.corruptPacked("HEAD~3") }, false, seen{true, true}},
		"a byte of a message in a pack":   {func(h *hive) { h.corruptPacked("HEAD:" + inboxFile(3)) }, false, seen{hived: true}},
		"a byte of the sum of a pack":     {func(h *hive) { h.corruptAt(packDir+"/"+h.packName()+".pack", -1) }, false, seen{hived: true}},
		"a byte in a pack's index":        {func(h *hive) { h.corrupt("objects/pack/*.idx") }, false, seen{true, true}},
		"a byte in a loose object":        {func(h *hive) { h.unpack(); h.corruptObject("HEAD^{tree}") }, false, seen{true, true}},
		"a byte in a loose message":       {func(h *hive) { h.unpack(); h.corruptObject("HEAD:board.md") }, false, seen{hived: true}},
		"a pack is gone":                  {func(h *hive) { h.removeAll("objects/pack/*.pack") }, false, seen{true, true}},
		"an index of a pack is gone":      {func(h *hive) { h.removeAll("objects/pack/*.idx") }, false, seen{true, true}},
		"a branch that names nothing":     {func(h *hive) { h.write(".git/refs/heads/main", "nothing\n") }, false, seen{true, true}},
		"packed refs that name nothing":   {func(h *hive) { h.packedRefs(strings.Repeat("g", 40)) }, false, seen{true, true}},
		"a branch without its commit":     {func(h *hive) { h.write(".git/refs/heads/main", strings.Repeat("1", 40)+"\n") }, true, seen{true, true}},
		"packed refs without the commit":  {func(h *hive) { h.packedRefs(strings.Repeat("1", 40)) }, true, seen{true, true}},
		"a tree lacks a file":             {forged("0 " + none + "\tboard.md\n"), true, seen{true, true}},
		"a tree lacks a file far below":   {forged("0 " + none + "\t" + inboxFile(3) + "\n"), true, seen{true, true}},
		"a tree has another blob":         {forged("100644 " + other + "\ttasks/t/task.json\n"), true, seen{true, true}},
		"a tree has one more":             {forged("100644 " + other + "\tagents/b/note.md\n"), true, seen{true, true}},
		"a file below is to be run":       {forged("100755 " + other + "\ttasks/t/task.json\n"), true, seen{true, true}},
		"a file in the root is to be run": {func(h *hive) { forged("100755 " + h.git("rev-parse", "HEAD:board.md") + "\tboard.md\n")(h) }, true, seen{goGit: true}},
		"a file in the root is a link":    {func(h *hive) { forged("120000 " + h.git("rev-parse", "HEAD:board.md") + "\tboard.md\n")(h) }, true, seen{goGit: true}},
		"a commit is missing": {func(h *hive) {
			h.batch()
			h.batch()
			h.forge(h.git("rev-parse", "HEAD^{tree}"), trailers(h))
		}, true, seen{true, true}},
		"a commit has another sum": {func(h *hive) {
			h.batch()
			h.forge(h.git("rev-parse", "HEAD^{tree}"), fmt.Sprintf("x\n\nHive-Seq: %d-%d\nHive-Sum: %032x\n", h.seq, h.seq, 1))
		}, true, seen{true, true}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			h := busyHive(t)
			h.merge(h.packList())
			var before *expected
			if !tt.forged {
				before = h.expected()
			}
			tt.damage(h)
			if got := h.askReaders(before); got != tt.want {
				t.Errorf("seen by %+v, want %+v", got, tt.want)
			}
			if !slices.ContainsFunc(h.problems(), func(p Problem) bool { return !p.Info }) {
				t.Error("check finds no fault")
			}
		})
	}
}

// expected returns what the witness expects when there is no fault.
func (h *hive) expected() *expected {
	h.t.Helper()
	out, err := check(h.t.Context(), h.disk, h.history(), func(p Problem) { h.t.Errorf("%s: %s", p.Code, p.Text) })
	testenv.Must(h.t, err)
	return out
}

func (h *hive) corruptObject(rev string) {
	h.t.Helper()
	id := h.git("rev-parse", rev)
	h.corrupt("objects/" + id[:2] + "/" + id[2:])
}

func (h *hive) packName() string { return strings.TrimSuffix(h.onlyPack(), ".idx") }

// corruptPacked changes a byte of an object in the only pack.
func (h *hive) corruptPacked(rev string) {
	h.t.Helper()
	id, stem := protocol.Blob{}, packDir+"/"+h.packName()
	testenv.Must(h.t, id.UnmarshalText([]byte(h.git("rev-parse", rev))))
	idx, in, err := openIdx(h.disk, stem)
	testenv.Must(h.t, err)
	defer in.Close()
	at, err := idx.offsetOf(in, id)
	testenv.Must(h.t, err)
	h.corruptAt(stem+".pack", int(at)+sha1.Size+8) // behind its head, and the id of a base
}

// corruptAt changes a byte of a file, at an offset from its end where that is negative.
func (h *hive) corruptAt(name string, at int) {
	h.t.Helper()
	full := filepath.Join(h.dir, name)
	data, err := os.ReadFile(full)
	testenv.Must(h.t, err)
	if at < 0 {
		at += len(data)
	}
	data[at] ^= 0x40
	testenv.Must(h.t, os.Chmod(full, 0o644))
	testenv.Must(h.t, os.WriteFile(full, data, 0o644))
}

func (h *hive) removeAll(glob string) {
	h.t.Helper()
	found, err := filepath.Glob(filepath.Join(h.dir, ".git", glob))
	if err != nil || len(found) == 0 {
		h.t.Fatalf("no %s: %v", glob, err)
	}
	for _, f := range found {
		testenv.Must(h.t, os.Remove(f))
	}
}

// packedRefs moves the branch to packed-refs alone, at a commit.
func (h *hive) packedRefs(id string) {
	h.t.Helper()
	h.git("pack-refs", "--all")
	h.write(".git/packed-refs", id+" refs/heads/main\n")
}

// What hived's own reader would take for a repository that is merely behind, or without
// fault, is a fault to the witness: so these tests need no git, and only count faults.
// They catch the mutants tree-ids-of-its-own, newest-commit-unread and stale-branch.
func TestWitnessOnADiskInMemory(t *testing.T) {
	events := story()
	m := newDisk(t)
	faults := func() {
		t.Helper()
		report := func(p Problem) {
			if !p.Info {
				t.Errorf("%s: %s", p.Code, p.Text)
			}
		}
		testenv.Must(t, Check(t.Context(), m, storyOf(events), report))
	}
	if _, err := commitStory(t.Context(), m, events[:2], 0); err != nil {
		t.Fatal(err)
	}
	faults()
	old, err := readBranch(m, defaultBranch)
	testenv.Must(t, err)
	if _, err := commitStory(t.Context(), m, events, 1); err != nil {
		t.Fatal(err)
	}
	testenv.Must(t, durable.Publish(m, packedRefs, []byte(old.String()+" "+branchRefs+defaultBranch+"\n"), 0o644, false))
	faults() // the file of the branch is the newer one
}

func storyOf(events []Event) func(func(Event, error) bool) {
	return func(yield func(Event, error) bool) {
		for _, e := range events {
			if !yield(e, nil) {
				return
			}
		}
	}
}

// Bytes of packs and their indexes are changed one after the other: the witness always
// returns, and finds the same trees or reports a fault.
func TestWitnessSurvivesDamage(t *testing.T) {
	events := story()
	m := newDisk(t)
	if _, err := commitStory(t.Context(), m, events, 1); err != nil {
		t.Fatal(err)
	}
	before, err := check(t.Context(), m, storyOf(events), func(p Problem) { t.Errorf("%s: %s", p.Code, p.Text) })
	testenv.Must(t, err)
	names, err := packNames(m)
	testenv.Must(t, err)
	for stem, exts := range names {
		for _, ext := range exts {
			data, _, err := durable.ReadFile(m, stem+ext, 1<<20)
			testenv.Must(t, err)
			for at := 0; at < len(data); at += 1 + len(data)/200 {
				flipped := slices.Clone(data)
				flipped[at] ^= 0x41
				m := m.Copy()
				replace(t, m, stem+ext, flipped)
				if err := runWitness(t.Context(), m, before, func(Problem) {}); err != nil {
					t.Fatalf("byte %d of %s%s: %v", at, stem, ext, err)
				}
			}
		}
	}
}

func replace(t *testing.T, m *faultfs.Mem, name string, data []byte) {
	t.Helper()
	testenv.Must(t, m.Remove(name))
	testenv.Must(t, durable.Publish(m, name, data, 0o444, false))
}

// BenchmarkWitness reads a hive of 10,000 messages the second time.
func BenchmarkWitness(b *testing.B) {
	h := newHive(b)
	var changes []change
	for i := range 10_000 {
		changes = append(changes, put(fmt.Sprintf("agents/%d/inbox/%d.json", i%50, i), "{}"))
	}
	h.commit(changes...)
	h.commit(put("board.md", "x"))
	was, err := check(b.Context(), h.disk, h.history(), func(p Problem) { b.Errorf("%s: %s", p.Code, p.Text) })
	testenv.Must(b, err)
	for b.Loop() {
		testenv.Must(b, runWitness(b.Context(), h.disk, was, func(p Problem) { b.Error(p.Text) }))
	}
}
