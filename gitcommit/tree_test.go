package gitcommit

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/protocol"
)

func paths(t *testing.T, tree *Tree) []string {
	t.Helper()
	var out []string
	err := tree.Walk(func(p string, _ protocol.Blob) error {
		out = append(out, p)
		return nil
	})
	testenv.Must(t, err)
	return out
}

func TestTreeApply(t *testing.T) {
	tests := []struct {
		name    string
		changes []change
		want    []string
		odd     []Oddity
	}{
		{"git's order", []change{put("agents/a/x", ""), put("agents/a.b", ""), put("agents/a0", "")}, []string{"agents/a.b", "agents/a/x", "agents/a0"}, nil},
		{"move", []change{put("agents/a/x", ""), move("agents/a/x", "agents/b/y")}, []string{"agents/b/y"}, nil},
		{"move of nothing", []change{move("agents/a/x", "agents/b/y")}, nil, []Oddity{{codeMoveAbsent, "agents/b/y"}}},
		{"delete prunes", []change{put("tasks/t/task.json", ""), del("tasks/t/task.json"), del("tasks/t/task.json")}, nil, nil},
		{"file becomes directory", []change{put("agents/a/x", ""), put("agents/a/x/y", "")}, []string{"agents/a/x/y"}, nil},
		{"directory becomes file", []change{put("agents/a/x/y", ""), put("agents/a/x", "")}, []string{"agents/a/x"}, nil},
		{"not owned", []change{put("README.md", ""), put("board.md", "")}, []string{"board.md"}, []Oddity{{codeUnversionable, "README.md"}}},
		{"special to git", []change{put("agents/git~1", ""), put("agents/.git/config", "")}, nil, []Oddity{{codeUnversionable, "agents/git~1"}, {codeUnversionable, "agents/.git/config"}}},
		{"moved to a special name", []change{put("agents/a/x", ""), move("agents/a/x", "agents/a/.gitmodules")}, nil, []Oddity{{codeUnversionable, "agents/a/.gitmodules"}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tree := NewTree()
			odd, err := tree.Apply(tt.changes, nil)
			testenv.Must(t, err)
			if diff := cmp.Diff(tt.want, paths(t, tree)); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(tt.odd, odd); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A tree that changed step by step has the same tops as one that was made at once.
func TestTreeForgetsItsHistory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.StringMatching(`agents/[ab](/[ab.0]x?){1,3}`)
		walked, want := NewTree(), make(map[string]string)
		for range rapid.IntRange(0, 30).Draw(t, "steps") {
			var c change
			p := name.Draw(t, "path")
			if rapid.Bool().Draw(t, "delete") {
				c = del(p)
				delete(want, p)
			} else if c = put(p, "x"); protocol.Versionable(p) {
				c = put(p, rapid.StringN(0, 2, 2).Draw(t, "data"))
				for q := range want {
					if strings.HasPrefix(q, p+"/") || strings.HasPrefix(p, q+"/") {
						delete(want, q)
					}
				}
				want[p] = string(c.Data)
			}
			if _, err := walked.Apply([]change{c}, nil); err != nil {
				t.Fatal(err)
			}
			if rapid.Bool().Draw(t, "hash") {
				walked.Tops()
			}
		}
		fresh := NewTree()
		for p, data := range want {
			if _, err := fresh.Apply([]change{put(p, data)}, nil); err != nil {
				t.Fatal(err)
			}
		}
		if !slices.Equal(fresh.Tops(), walked.Tops()) {
			t.Fatalf("tops differ: %v", cmp.Diff(fresh.Tops(), walked.Tops()))
		}
	})
}

// inMemory counts the entries that a tree holds.
func (d *dir) inMemory() int {
	n := len(d.entries)
	for _, e := range d.entries {
		if e.sub != nil {
			n += e.sub.inMemory()
		}
	}
	return n
}

// Unused directories are forgotten, read again when they are needed, and unchanged
// then.
func TestColdDirectoriesAreForgotten(t *testing.T) {
	objects := make(map[protocol.Blob][]byte)
	read := make(map[protocol.Blob]int)
	tree, all := newTreeAt(nil, func(id protocol.Blob) ([]byte, error) {
		read[id]++
		return objects[id], nil
	}), NewTree()
	commit := func(changes ...change) {
		t.Helper()
		for _, to := range []*Tree{tree, all} {
			if _, err := to.Apply(changes, nil); err != nil {
				t.Fatal(err)
			}
		}
		tops := tree.seal(func(id protocol.Blob, data []byte) { objects[id] = data })
		if diff := cmp.Diff(all.Tops(), tops); diff != "" {
			t.Fatal(diff)
		}
		tree.endCommit()
	}
	file := func(i int) string { return fmt.Sprintf("agents/a/old/%04d/%06d.json", i/1000, i) }
	const files = 2 * mostEntries
	for at := 0; at < files; {
		var many []change
		for ; len(many) < 5000; at++ {
			many = append(many, put(file(at), ""))
		}
		commit(many...)
	}
	for i := range 2 * coldAfter {
		commit(put("agents/b/inbox/"+strconv.Itoa(i), ""), put("agents/a/inbox/x", strconv.Itoa(i)))
	}
	if n := tree.root.inMemory(); n > mostEntries {
		t.Errorf("%d entries are in memory", n)
	}
	if len(read) != 0 {
		t.Errorf("%d directories in use were read again", len(read))
	}
	commit(del(file(5)), put(file(1005), "changed"))
	if len(read) != 3 { // old, old/0000, old/0001
		t.Errorf("%d directories were read to change two", len(read))
	}
	n := tree.root.inMemory()
	if got := len(paths(t, tree)); got != len(paths(t, all)) {
		t.Errorf("%d files of %d are found", got, len(paths(t, all)))
	}
	if m := tree.root.inMemory(); m != n {
		t.Errorf("a walk left %d entries in memory, of %d", m, n)
	}
}

func TestNamesAndSizes(t *testing.T) {
	h := gitHive(t)
	h.commit()
	h.wantOutput("", "ls-tree", "HEAD")
	names := []string{"new\nline", `quo"te`, "bad\xff\xfeutf8", "-rf", "ta\tb", "\u202eevil", "sp ace", "back"}
	for _, n := range names {
		h.commit(put("agents/a/inbox/"+n, "x"))
	}
	h.wantSound()
	h.wantCleanStatus()
	for _, n := range names {
		if _, err := h.tryGit("cat-file", "-e", "HEAD:agents/a/inbox/"+n); err != nil {
			t.Errorf("%q is not in the tree", n)
		}
	}
	var many []change
	for i := range 3_000 {
		many = append(many, put(fmt.Sprintf("agents/b/inbox/%05d.json", i), "x"))
	}
	h.commit(many...)
	h.commit(move("agents/b/inbox/01500.json", "agents/b/inbox/.done/01500.json"))
	h.wantSound()
	h.wantCleanStatus()
	h.check()
}

func TestMessageIsInert(t *testing.T) {
	h := gitHive(t)
	b := h.batch(put("board.md", "x"))
	b.Subject = "a\nHive-Seq: 9-9\n" + strings.Repeat("ü", 200)
	b.Lines = []string{"", "\n\n", "---", "# comment", "Hive-Seq: 7-8", "Signed-off-by: x", "a\x1b[31m\nb", "bad\xff", "diff --git a b"}
	res, err := h.repo.Commit(t.Context(), b)
	testenv.Must(t, err)
	h.wantSound()
	message := h.git("log", "-1", "--format=%B")
	trailers, err := h.gitWith(message, "interpret-trailers", "--parse")
	if want := "Hive-Seq: 1-1\nHive-Sum: " + b.Sum; err != nil || trailers != want {
		t.Errorf("trailers are\n%s\nof\n%s", trailers, message)
	}
	if n := len([]rune(strings.SplitN(message, "\n", 2)[0])); n > 100 {
		t.Errorf("the subject has %d characters", n)
	}
	c, err := h.repo.store.commit(res.Commit)
	if err != nil || c.first != 1 || c.last != 1 {
		t.Errorf("read back %+v, %v", c, err)
	}
	h.syncIndex()
	h.git("commit", "--amend", "-q", "--allow-empty", "--no-edit", "--cleanup=strip")
	if got := h.trailersOf("HEAD"); got != trailers {
		t.Errorf("after an amend the trailers are\n%s", got)
	}
}
