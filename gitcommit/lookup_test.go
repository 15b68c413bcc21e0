package gitcommit

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/klauspost/compress/zlib"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/protocol"
)

// countedReads counts how often it is read.
type countedReads struct {
	io.ReaderAt
	n int
}

func (c *countedReads) ReadAt(p []byte, off int64) (int, error) {
	c.n++
	return c.ReaderAt.ReadAt(p, off)
}

func TestFindInIndex(t *testing.T) {
	evenly := func(n int) (ids []protocol.Blob) {
		for i := range n {
			ids = append(ids, protocol.BlobOf([]byte(strconv.Itoa(i))))
		}
		return ids
	}
	var crowded, skewed []protocol.Blob
	for i := range uint64(5000) {
		var id protocol.Blob
		id[0] = 7
		binary.BigEndian.PutUint64(id[12:], i*i)
		crowded = append(crowded, id) // nothing of them differs in what is interpolated
		binary.BigEndian.PutUint64(id[1:], i*i*i)
		skewed = append(skewed, id)
	}
	tests := []struct {
		name  string
		ids   []protocol.Blob
		reads int // at most, for one
	}{
		{"none", nil, 1},
		{"one", evenly(1), 1},
		{"a commit", evenly(1000), 1},
		{"many", evenly(200_000), 2},
		{"crowded", crowded, 10},
		{"skewed", skewed, 10},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var entries []packEntry
			want := make(map[protocol.Blob]int64)
			for i, id := range tt.ids {
				want[id] = 12 + int64(i)<<20 // some are large offsets
				entries = append(entries, packEntry{id: id, offset: want[id]})
			}
			var file bytes.Buffer
			testenv.Must(t, writeIdx(&file, entries, protocol.Blob{}))
			in := &countedReads{ReaderAt: bytes.NewReader(file.Bytes())}
			x, err := readFan(in, int64(file.Len()))
			testenv.Must(t, err)
			for _, id := range tt.ids {
				in.n = 0
				at, ok, err := x.find(in, id)
				if err != nil || !ok || in.n > tt.reads {
					t.Fatalf("%s: found %t in %d reads, %v", id, ok, in.n, err)
				}
				if off, err := x.offsetAt(in, at); err != nil || off != want[id] {
					t.Fatalf("%s stands at %d, want %d, %v", id, off, want[id], err)
				}
				id[19] ^= 1
				if _, there := want[id]; there {
					continue
				}
				if _, ok, err := x.find(in, id); ok || err != nil {
					t.Fatalf("%s: found what is not there, %v", id, err)
				}
			}
		})
	}
}

// readAll reads every object that git lists and compares it with git's.
func (h *hive) readAll(s *store) {
	h.t.Helper()
	list := h.git("cat-file", "--batch-all-objects", "--batch-check=%(objectname) %(objecttype)")
	kinds := map[string]kind{"commit": kindCommit, "tree": kindTree, "blob": kindBlob}
	for line := range strings.SplitSeq(list, "\n") {
		name, typ, _ := strings.Cut(line, " ")
		var id protocol.Blob
		testenv.Must(h.t, id.UnmarshalText([]byte(name)))
		if _, err := s.read(id, kinds[typ]); err != nil {
			h.t.Error(err)
		}
	}
}

// Objects are read in every form in which git stores them, also when the form
// changes between two reads.
func TestStoreReadsWhatGitWrote(t *testing.T) {
	h := gitHive(t)
	text := strings.Repeat("a line of the plan that hardly changes\n", 100)
	for i := range 30 {
		h.commit(put("board.md", fmt.Sprintf("%s%d\n", text, i)), put(fmt.Sprintf("agents/a/inbox/%d.json", i), strconv.Itoa(i)))
	}
	s := newStore(h.disk)
	h.readAll(s)
	for _, repack := range [][]string{
		{"repack", "-adfq", "--depth=20"},
		{"-c", "repack.useDeltaBaseOffset=false", "repack", "-adfq", "--depth=20"},
	} {
		h.git(repack...)
		s.last = newObjectCache(cacheBytes) // what it knows of the packs is old, and nothing else is at hand
		h.readAll(s)
		if !strings.Contains(h.git("verify-pack", "-v", ".git/objects/pack/"+h.onlyPack()), "chain length = 2") {
			t.Fatal("git made no chain of differences")
		}
	}
	pack, err := os.ReadFile(filepath.Join(h.dir, ".git/objects/pack", strings.TrimSuffix(h.onlyPack(), "idx")+"pack"))
	testenv.Must(t, err)
	testenv.Must(t, os.RemoveAll(filepath.Join(h.dir, ".git/objects/pack")))
	testenv.Must(t, os.Mkdir(filepath.Join(h.dir, ".git/objects/pack"), 0o755))
	if out, err := h.gitWith(string(pack), "unpack-objects", "-q"); err != nil {
		t.Fatal(out)
	}
	s.last = newObjectCache(cacheBytes)
	h.readAll(s)
}

func TestStoreTellsWhatIsWrong(t *testing.T) {
	h := newHive(t)
	id := h.commit(put("board.md", strings.Repeat("x", 100))).Commit
	s := newStore(h.disk)
	if _, err := s.read(id, kindTree); err == nil || !strings.Contains(err.Error(), "it is a commit") {
		t.Errorf("a commit read as a tree: %v", err)
	}
	if _, err := s.read(protocol.Blob{1}, kindTree); !errors.Is(err, ErrDamaged) || !errors.Is(err, errNoObject) {
		t.Errorf("an object that is not there: %v", err)
	}
	h.corrupt("objects/pack/*.idx")
	if _, err := newStore(h.disk).read(id, kindCommit); !errors.Is(err, ErrDamaged) {
		t.Errorf("a damaged index: %v", err)
	}
}

// outdated is a disk on which packs are merged as soon as they are listed.
type outdated struct {
	durable.FS
	merge func()
}

func (d *outdated) ReadDir(name string) ([]durable.Entry, error) {
	list, err := d.FS.ReadDir(name)
	d.merge()
	return list, err
}

func TestStoreReadsWhilePacksAreMerged(t *testing.T) {
	h := newHive(t)
	id := h.commit(put("board.md", "x")).Commit
	merges := 5
	s := newStore(&outdated{h.disk, func() {
		if merges--; merges >= 0 {
			h.commit(put("board.md", strconv.Itoa(merges)))
			h.merge(h.packList())
		}
	}})
	if _, err := s.read(id, kindCommit); err != nil || merges >= 0 {
		t.Errorf("with %d merges to come: %v", merges, err)
	}
}

func TestCommitTellsThatPacksAreGone(t *testing.T) {
	h := newHive(t)
	h.commit(put("board.md", "x"))
	testenv.Must(t, os.RemoveAll(filepath.Join(h.dir, packDir)))
	if _, err := h.repo.Commit(t.Context(), h.batch(put("board.md", "y"))); !errors.Is(err, ErrDamaged) {
		t.Errorf("without packs: %v", err)
	}
}

func TestObjectCacheIsBounded(t *testing.T) {
	c := newObjectCache(10_000)
	for i := range 100 {
		c.add(protocol.Blob{byte(i)}, kindBlob, make([]byte, 1000))
		c.get(protocol.Blob{0})
	}
	if c.bytes > 10_000 || len(c.byID) != c.order.Len() {
		t.Errorf("%d bytes in %d objects are kept", c.bytes, len(c.byID))
	}
	if _, _, ok := c.get(protocol.Blob{0}); !ok {
		t.Error("what is of use was forgotten")
	}
	if _, _, ok := c.get(protocol.Blob{1}); ok {
		t.Error("the oldest is still there")
	}
	if c.add(protocol.Blob{200}, kindBlob, make([]byte, 5001)); len(c.byID) < 5 {
		t.Error("one large object pushed out the others")
	}
}

// TestLooseHeadEnds: a loose object without an end of its head is damaged, however much
// it inflates to.
func TestLooseHeadEnds(t *testing.T) {
	t.Parallel()
	var x bytes.Buffer
	w := zlib.NewWriter(&x)
	if _, err := w.Write(bytes.Repeat([]byte("blob "), 1<<20)); err != nil {
		t.Fatal(err)
	}
	testenv.Must(t, w.Close())
	if _, _, err := (&unpacker{}).readLoose(&x); !errors.Is(err, errDamagedHead) {
		t.Errorf("read with %v", err)
	}
}

func FuzzUnpack(f *testing.F) {
	f.Add([]byte{0x61, 0x10, 0x78, 0x9c})
	f.Add(append([]byte{0x71}, make([]byte, 30)...))
	var x bytes.Buffer
	testenv.Must(f, writeIdx(&x, []packEntry{{id: protocol.Blob{1}, offset: 12}, {id: protocol.Blob{2}, offset: 1 << 40}}, protocol.Blob{3}))
	f.Add(x.Bytes())
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, _, used, err := readEntryHead(data, 1000); err == nil && used > len(data) {
			t.Error("read too far")
		}
		in := bytes.NewReader(data)
		if x, err := readFan(in, int64(len(data))); err == nil {
			if at, ok, err := x.find(in, protocol.Blob{1}); err == nil && ok && at >= x.len() {
				t.Errorf("found at %d of %d", at, x.len())
			}
		}
		u := &unpacker{}
		r := packReader{u: u, pack: in, offsetOf: func(protocol.Blob) (int64, error) { return packHeader, nil }, cached: newObjectCache(0).get}
		if _, data, err := r.read(packHeader); err != nil && data != nil {
			t.Error("a value with an error")
		}
		if _, data, err := u.readLoose(bytes.NewReader(data)); err != nil && data != nil {
			t.Error("a value with an error")
		}
	})
}
