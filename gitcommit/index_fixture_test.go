package gitcommit

import (
	"bytes"
	"crypto/sha1"
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/durable/faultfs"
	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/protocol"
)

// The following functions write split indexes, as git does and hived does not.

// appendBitmap writes a set of positions in ascending order.
func appendBitmap(out []byte, set []uint32) []byte {
	start := len(out)
	out = append(out, make([]byte, 8)...)
	marker := len(out)
	var run, literals uint64
	out = append(out, make([]byte, 8)...)
	words := uint32(0) // words of the set so far
	for i := 0; i < len(set); {
		word := set[i] / 64
		var set64 uint64
		for ; i < len(set) && set[i]/64 == word; i++ {
			set64 |= 1 << (set[i] % 64)
		}
		if word > words && literals > 0 {
			marker, run, literals = len(out), 0, 0
			out = append(out, make([]byte, 8)...)
		}
		run += uint64(word - words)
		literals++
		words = word + 1
		out = binary.BigEndian.AppendUint64(out, set64)
		binary.BigEndian.PutUint64(out[marker:], run<<1|literals<<33)
	}
	if len(set) > 0 {
		binary.BigEndian.PutUint32(out[start:], set[len(set)-1]+1)
	}
	binary.BigEndian.PutUint32(out[start+4:], uint32((len(out)-start-8)/8))
	return binary.BigEndian.AppendUint32(out, uint32((marker-start-8)/8))
}

// appendLink writes the extension for an overlay over a shared index.
func (o *overlay) appendLink(out []byte, shared protocol.Blob) []byte {
	var removed, replaced []uint32
	for _, c := range o.changed {
		if c.entry == nil {
			removed = append(removed, c.pos)
		} else {
			replaced = append(replaced, c.pos)
		}
	}
	start := len(out)
	out = append(out, "link\x00\x00\x00\x00"...)
	out = append(out, shared[:]...)
	out = appendBitmap(out, removed)
	out = appendBitmap(out, replaced)
	binary.BigEndian.PutUint32(out[start+4:], uint32(len(out)-start-8))
	return out
}

// withChecksum appends the checksum to an index.
func withChecksum(body []byte) []byte {
	sum := sha1.Sum(body)
	return append(bytes.Clone(body), sum[:]...)
}

func indexBody(version byte, ext []byte, entries ...indexEntry) []byte {
	out := []byte{'D', 'I', 'R', 'C', 0, 0, 0, version}
	out = binary.BigEndian.AppendUint32(out, uint32(len(entries)))
	for _, e := range entries {
		out = append(out, e...)
	}
	return append(out, ext...)
}

// writeSplit writes a split index: a shared one of some entries, and what is
// different from it.
func writeSplit(t *testing.T, r *Repo, shared []indexEntry, over overlay) {
	t.Helper()
	base := withChecksum(indexBody(2, nil, shared...))
	sum := protocol.Blob(base[len(base)-sha1.Size:])
	var entries []indexEntry
	for _, c := range over.changed {
		if c.entry != nil {
			entries = append(entries, c.entry.renamed(nil, nil))
		}
	}
	entries = append(entries, over.added...)
	for name, data := range map[string][]byte{
		sharedIndex + sum.String(): base,
		indexFile:                  withChecksum(indexBody(2, over.appendLink(nil, sum), entries...)),
	} {
		testenv.Must(t, writeTmp(r.disk, name, data, durable.Synced))
	}
	testenv.Must(t, r.disk.SyncDir(gitDir))
}

// memRepo returns a repository in memory.
func memRepo(tb testing.TB) *Repo {
	tb.Helper()
	m := faultfs.New()
	testenv.Must(tb, Init(m))
	r, err := Open(m, Options{})
	testenv.Must(tb, err)
	return r
}

// wholeOrSplit runs a test with an index in one file, and with one that git splits
// where the test calls split. At the end hived must have made it one file.
func wholeOrSplit(t *testing.T, test func(t *testing.T, h *hive, form func())) {
	t.Helper()
	needGit(t)
	for name, form := range map[string]func(h *hive){"whole": func(*hive) {}, "split": (*hive).split} {
		t.Run(name, func(t *testing.T) {
			h := newHive(t)
			test(t, h, func() { form(h) })
			h.oneFile()
		})
	}
}

// split makes git split the index.
func (h *hive) split() {
	h.t.Helper()
	h.git("update-index", "--split-index")
	h.shared()
}

// shared returns the path of the shared index, which must be there.
func (h *hive) shared() string {
	h.t.Helper()
	name := h.git("rev-parse", "--shared-index-path")
	if name == "" {
		h.t.Fatal("the index is not split")
	}
	return name
}

func (h *hive) oneFile() {
	h.t.Helper()
	if l, err := h.repo.splitLinkOf(indexFile); err != nil || l != nil {
		h.t.Errorf("the index is split: %+v, %v", l, err)
	}
}

// sharedFiles lists the shared indexes in .git.
func (h *hive) sharedFiles() []string {
	h.t.Helper()
	found, err := filepath.Glob(filepath.Join(h.dir, sharedIndex+"*"))
	testenv.Must(h.t, err)
	slices.Sort(found)
	return found
}

// unsized returns a copy of an entry with its size cleared.
func unsized(e indexEntry) indexEntry {
	e = slices.Clone(e)
	binary.BigEndian.PutUint32(e[atSize:], 0)
	return e
}

// remove deletes a file of the hive.
func (h *hive) remove(path string) {
	h.t.Helper()
	testenv.Must(h.t, os.Remove(filepath.Join(h.dir, path)))
}
