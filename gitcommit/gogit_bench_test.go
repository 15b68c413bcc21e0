package gitcommit

import (
	"bufio"
	"bytes"
	"crypto/sha1"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/format/idxfile"
	gogitindex "github.com/go-git/go-git/v5/plumbing/format/index"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/protocol"
)

// These compare hived's writers and readers with those of go-git (ADR 6):
// go test ./gitcommit -run '^$' -bench AgainstGoGit -benchmem

// BenchmarkPackIndexAgainstGoGit writes the index of a pack of 200,000 objects.
func BenchmarkPackIndexAgainstGoGit(b *testing.B) {
	const objects = 200_000
	var entries []packEntry
	for i := range objects {
		entries = append(entries, packEntry{id: protocol.BlobOf(fmt.Appendf(nil, "%d", i)), offset: int64(12 + 300*i)})
	}
	pack := protocol.BlobOf(nil)
	var hived, goGit bytes.Buffer
	b.Run("hived", func(b *testing.B) {
		for b.Loop() {
			hived.Reset()
			testenv.Must(b, writeIdx(&hived, append([]packEntry(nil), entries...), pack))
		}
	})
	b.Run("go-git", func(b *testing.B) {
		for b.Loop() {
			goGit.Reset()
			testenv.Must(b, writeIdxByGoGit(&goGit, entries, pack))
		}
	})
	if hived.Len() > 0 && goGit.Len() > 0 && !bytes.Equal(hived.Bytes(), goGit.Bytes()) {
		b.Error("the two wrote different bytes")
	}
}

func writeIdxByGoGit(out io.Writer, entries []packEntry, pack protocol.Blob) error {
	var w idxfile.Writer
	if err := w.OnHeader(uint32(len(entries))); err != nil {
		return err
	}
	for _, e := range entries {
		w.Add(plumbing.Hash(e.id), uint64(e.offset), e.crc)
	}
	if err := w.OnFooter(plumbing.Hash(pack)); err != nil {
		return err
	}
	idx, err := w.Index()
	if err == nil {
		_, err = idxfile.NewEncoder(out).Encode(idx)
	}
	return err
}

// BenchmarkIndexAgainstGoGit writes a .git/index of 50,000 files, without a sync.
func BenchmarkIndexAgainstGoGit(b *testing.B) {
	const files = 50_000
	name := func(i int) string { return fmt.Sprintf("agents/agent-%02d/inbox/%08d.json", i/1000, i) }
	id := protocol.BlobOf(nil)
	h := newHive(b)
	var hived, goGit []byte
	b.Run("hived", func(b *testing.B) {
		var entries []indexEntry
		for i := range files {
			entries = append(entries, newIndexEntry(name(i), id, modeFile, fileStat{}))
		}
		for b.Loop() {
			f, err := os.Create(filepath.Join(h.dir, "hived-index"))
			testenv.Must(b, err)
			testenv.Must(b, writeIndexByHived(f, entries))
			testenv.Must(b, f.Close())
		}
		hived = []byte(h.read("hived-index"))
	})
	b.Run("go-git", func(b *testing.B) {
		idx := &gogitindex.Index{Version: 2}
		for i := range files {
			idx.Entries = append(idx.Entries, &gogitindex.Entry{Name: name(i), Hash: plumbing.Hash(id), Mode: filemode.Regular, CreatedAt: time.Time{}})
		}
		for b.Loop() {
			f, err := os.Create(filepath.Join(h.dir, "go-git-index"))
			testenv.Must(b, err)
			w := bufio.NewWriterSize(f, 64<<10)
			testenv.Must(b, gogitindex.NewEncoder(w).Encode(idx))
			testenv.Must(b, w.Flush())
			testenv.Must(b, f.Close())
		}
		goGit = []byte(h.read("go-git-index"))
	})
	if len(hived) > 0 && len(goGit) > 0 && !bytes.Equal(hived, goGit) {
		b.Error("the two wrote different bytes")
	}
}

func writeIndexByHived(f io.Writer, entries []indexEntry) error {
	w := &indexWriter{f: asFile{Writer: f}, sum: sha1.New(), version: 2}
	for _, e := range entries {
		if err := w.count(e); err != nil {
			return err
		}
	}
	w.begin()
	for _, e := range entries {
		if err := w.write(e); err != nil {
			return err
		}
	}
	return w.finish(nil)
}

// asFile is a file that is only written to.
type asFile struct {
	durable.File
	io.Writer
}

func (f asFile) Write(b []byte) (int, error) { return f.Writer.Write(b) }

// BenchmarkReadAgainstGoGit reads the trees of a hundred agents from a pack, one after the
// other, each reader with its own cache.
func BenchmarkReadAgainstGoGit(b *testing.B) {
	h := newHive(b)
	h.fill(20_000, h.commitOnly)
	root, err := h.repo.store.root(h.repo.head.Commit)
	testenv.Must(b, err)
	tree := newTreeAt(topsOf(root), h.repo.store.tree)
	var ids []protocol.Blob
	var walk func(d *dir)
	walk = func(d *dir) {
		testenv.Must(b, tree.read(d))
		ids = append(ids, d.id)
		for _, e := range d.entries {
			if e.sub != nil {
				walk(e.sub)
			}
		}
	}
	for _, e := range tree.root.entries {
		walk(e.sub)
	}
	b.Run("hived", func(b *testing.B) {
		for b.Loop() {
			s := newStore(h.disk)
			for _, id := range ids {
				if _, err := s.read(id, kindTree); err != nil {
					b.Fatal(err)
				}
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(ids)), "ns/object")
	})
	b.Run("go-git", func(b *testing.B) {
		for b.Loop() {
			r := newSecondReader(h.disk)
			for _, id := range ids {
				if _, err := r.read(id, kindTree); err != nil {
					b.Fatal(err)
				}
			}
			r.close()
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(ids)), "ns/object")
	})
}
