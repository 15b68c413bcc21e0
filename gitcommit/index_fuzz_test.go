package gitcommit

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/protocol"
)

func TestBitmap(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	sets := [][]uint32{nil, {0}, {63}, {64}, {0, 1, 63, 64, 65, 1000}, {1 << 20}}
	for range 100 {
		var set []uint32
		for i := range uint32(2000) {
			if random.IntN(1+int(i%300)) == 0 {
				set = append(set, i)
			}
		}
		sets = append(sets, set)
	}
	for _, set := range sets {
		data := append(appendBitmap([]byte("before"), set), "after"...)
		got, rest, err := readBitmap(data[6:], 1<<20+1)
		if err != nil || string(rest) != "after" {
			t.Fatalf("rest %q, %v", rest, err)
		}
		if diff := cmp.Diff(set, got, cmpopts.EquateEmpty()); diff != "" {
			t.Fatal(diff)
		}
		if n := len(set); n > 0 {
			if _, _, err := readBitmap(data[6:], int(set[n-1])); err == nil {
				t.Error("a position beyond the limit is taken")
			}
		}
	}
}

// Git writes a repeated bit where hived writes words.
func TestBitmapWithRepeatedBits(t *testing.T) {
	words := []uint64{1<<1 | 1<<33, 1 << 5, 2<<1 | 1} // 64 times 0, one word, 128 times 1
	data := make([]byte, 8, 64)
	binary.BigEndian.PutUint32(data[4:], uint32(len(words)))
	for _, w := range words {
		data = binary.BigEndian.AppendUint64(data, w)
	}
	data = append(data, 0, 0, 0, 2)
	got, rest, err := readBitmap(data, 256)
	if err != nil || len(rest) != 0 {
		t.Fatal(rest, err)
	}
	want := []uint32{69}
	for i := range uint32(128) {
		want = append(want, 128+i)
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
	if _, _, err := readBitmap(data, 255); err == nil {
		t.Error("a run beyond the limit is taken")
	}
}

func FuzzBitmap(f *testing.F) {
	f.Add(appendBitmap(nil, []uint32{1, 5, 64, 1000}), 2000)
	f.Add([]byte{0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0}, 200)
	f.Fuzz(func(t *testing.T, data []byte, limit int) {
		limit = max(limit, 0) % (1 << 20)
		set, _, err := readBitmap(data, limit)
		if err != nil {
			return
		}
		if len(set) > limit || !slices.IsSorted(set) {
			t.Fatalf("%d positions below %d", len(set), limit)
		}
		again, rest, err := readBitmap(appendBitmap(nil, set), limit)
		if err != nil || len(rest) != 0 || !slices.Equal(again, set) {
			t.Errorf("%v becomes %v, %v", set, again, err)
		}
	})
}

// FuzzIndex reads a shared index and a split one upon it, or one alone where the
// first refers to nothing. What can be read is written and read again.
func FuzzIndex(f *testing.F) {
	entry := func(name string) indexEntry { return newIndexEntry(name, protocol.Blob{1}, modeFile, fileStat{2}) }
	whole := indexBody(2, nil, entry("a"), entry("b/c"), entry("d"))
	over := &overlay{changed: []changedEntry{{pos: 0}, {pos: 2, entry: entry("d").renamed(nil, nil)}}, added: []indexEntry{entry("x")}}
	v4 := append(indexBody(4, nil, entry("a")[:fixedBytes:fixedBytes]), 0, 'a', 0)
	padded := bytes.Clone(whole) // with something behind the name of b/c, and younger than the index
	start := indexHeader + len(entry("a"))
	padded[start+fixedBytes+len("b/c")+2] = 14
	for _, at := range []int{atMTime, atSize} {
		padded[start+at] = 0xff
	}
	for _, base := range [][]byte{whole, v4, padded} {
		f.Add(base, []byte{})
		f.Add(base, indexBody(2, over.appendLink([]byte("REUC\x00\x00\x00\x00"), protocol.Blob(withChecksum(whole)[len(whole):])), over.changed[1].entry, over.added[0]))
	}
	f.Fuzz(func(t *testing.T, shared, split []byte) {
		r := memRepo(t)
		write := func(name string, body []byte) {
			testenv.Must(t, writeTmp(r.disk, name, withChecksum(body), durable.Unsynced))
		}
		if len(split) == 0 {
			write(indexFile, shared)
		} else {
			sum := protocol.Blob(withChecksum(shared)[len(shared):])
			if at := bytes.Index(split, []byte("link")); at >= 0 && at+8 <= len(split) {
				copy(split[at+8:], sum[:]) // so that changes of the shared one are met
			}
			write(indexFile, split)
			write(sharedIndex+sum.String(), shared)
		}
		before, ok := readAll(t, r)
		if !ok {
			return
		}
		v, err := r.openIndex()
		testenv.Must(t, err)
		p := patch{name: "new", entry: entry("new")}
		if err := r.writeIndex(t.Context(), v, []patch{p, {name: "old"}}); err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}
		testenv.Must(t, v.close())
		r.index = index{}
		after, ok := readAll(t, r)
		if !ok || r.index.link != nil {
			t.Fatal("what was written cannot be read, or is split")
		}
		for name, was := range before {
			if name != "new" && name != "old" && len(name) > 0 && !bytes.HasPrefix([]byte(name), []byte("new/")) && after[name] != was {
				t.Errorf("%q is not what it was", name)
			}
		}
	})
}

// readAll returns the entries of an index by name, without their sizes, which may
// be cleared, and without the bytes that pad them, which git does not read.
func readAll(t *testing.T, r *Repo) (map[string]string, bool) {
	t.Helper()
	v, err := r.openIndex()
	if err != nil {
		return nil, false
	}
	out := make(map[string]string)
	err = v.all(func(e indexEntry) error {
		e = unsized(e)
		if e.stage() > 0 {
			return nil
		}
		out[string(e.name())] = string(e[:e.nameAt()+len(e.name())])
		return nil
	})
	if closeErr := v.close(); closeErr != nil {
		t.Fatal(closeErr)
	}
	return out, err == nil
}
