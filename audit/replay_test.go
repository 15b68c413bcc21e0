package audit

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/protocol"
)

// treeOf reads the files below a directory that hived owns.
func treeOf(tb testing.TB, dir string) map[string]string {
	tb.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(p)
		rel, _ := filepath.Rel(dir, p)
		out[filepath.ToSlash(rel)] = string(data)
		return err
	})
	testenv.Must(tb, err)
	return out
}

// gitTree reads what hived owns in a commit.
func (h *testHive) gitTree(commit string) map[string]string {
	h.t.Helper()
	out := map[string]string{}
	for line := range strings.SplitSeq(strings.TrimSuffix(h.git("ls-tree", "-r", "-z", commit), "\x00"), "\x00") {
		head, name, _ := strings.Cut(line, "\t")
		if protocol.Owned(name) {
			out[name] = h.git("cat-file", "blob", strings.Fields(head)[2])
		}
	}
	return out
}

// TestReplayEqualsGit checks that every commit's owned tree is what a replay to its
// sequence number makes, byte for byte (spec §5, §6), over a log of several
// segments.
func TestReplayEqualsGit(t *testing.T) {
	set := fast()
	set.Log.SegmentBytes = 4 << 10
	set.Retention.Files = 2
	h := emptyHive(t, set)
	h.talk()
	if sealed, err := h.disk.ReadDir("log"); err != nil || len(sealed) == 0 {
		t.Fatalf("no segment was sealed: %v", err)
	}
	commits := 0
	for line := range strings.SplitSeq(strings.TrimSpace(h.git("log", "--format=%H %(trailers:key=Hive-Seq,valueonly,separator=%x2C)")), "\n") {
		commit, seqs, ok := strings.Cut(line, " ")
		if _, last, isRange := strings.Cut(seqs, "-"); isRange {
			seqs = last
		}
		seq, err := strconv.ParseUint(strings.TrimSpace(seqs), 10, 64)
		if !ok || err != nil {
			continue // hive.yaml's
		}
		commits++
		into := filepath.Join(t.TempDir(), "into")
		res, err := Replay(t.Context(), h.disk, into, Until{Seq: protocol.Seq(seq)})
		testenv.Must(t, err)
		want := h.gitTree(commit)
		if diff := cmp.Diff(want, treeOf(t, into)); diff != "" {
			t.Errorf("at %d (-git +replay):\n%s", seq, diff)
		}
		if res.Seq != protocol.Seq(seq) || res.Files != len(want) {
			t.Errorf("result %+v, want seq %d and %d files", res, seq, len(want))
		}
	}
	if commits < 5 {
		t.Errorf("only %d commits were compared", commits)
	}
}

func TestReplayChangesNothingInTheHive(t *testing.T) {
	h := newHive(t)
	before := treeOf(t, h.dir)
	if _, err := Replay(t.Context(), h.disk, filepath.Join(t.TempDir(), "x"), Until{}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, treeOf(t, h.dir)); diff != "" {
		t.Error(diff)
	}
}

func TestReplayUntilTime(t *testing.T) {
	h := newHive(t)
	whole, err := Replay(t.Context(), h.disk, filepath.Join(t.TempDir(), "x"), Until{})
	testenv.Must(t, err)
	res, err := Replay(t.Context(), h.disk, filepath.Join(t.TempDir(), "y"), Until{At: whole.At.Add(-time.Nanosecond)})
	if err != nil || res.Seq == 0 || res.Seq >= whole.Seq || !res.At.Before(whole.At) {
		t.Errorf("until just before %v: %+v, %v", whole.At, res, err)
	}
}

func TestReplayRefuses(t *testing.T) {
	h := newHive(t)
	r := h.verify()
	taken := t.TempDir()
	testenv.Must(t, os.WriteFile(filepath.Join(taken, "x"), nil, 0o600))
	link := filepath.Join(t.TempDir(), "link")
	testenv.Must(t, os.Symlink(h.path("agents"), link))
	for _, c := range []struct {
		name, into string
		until      Until
		want       error
		says       string
	}{
		{name: "not empty", into: taken, want: ErrNotEmpty},
		{name: "the hive", into: h.dir, want: ErrInside},
		{name: "in the hive", into: h.path("agents/alice/copy"), want: ErrInside},
		{name: "in the hive by a link", into: link + "/new", want: ErrInside},
		{name: "beyond the end", until: Until{Seq: r.Seq + 1}, want: ErrNoSuchEvent, says: "the last one is " + r.Seq.String()},
		{name: "before the beginning", until: Until{At: time.Unix(1, 0)}, want: ErrNoSuchEvent},
	} {
		t.Run(c.name, func(t *testing.T) {
			into := c.into
			if into == "" {
				into = filepath.Join(t.TempDir(), "new")
			}
			_, err := Replay(t.Context(), h.disk, into, c.until)
			if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("error %v, want %v", err, c.want)
			}
			if _, err := os.Lstat(into); c.into == "" && err == nil {
				t.Error("the directory was made in spite of the error")
			}
		})
	}
}
