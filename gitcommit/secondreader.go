package gitcommit

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/cache"
	"github.com/go-git/go-git/v5/plumbing/format/idxfile"
	"github.com/go-git/go-git/v5/plumbing/format/objfile"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
)

// secondReader reads the repository with the code of go-git: pack indexes, packs, the
// differences in them, and loose objects. It shares with [store] only the disk, below
// whose root it stays. It is for one goroutine and must be closed. The indexes of all
// packs are in memory, 24 bytes an object.
type secondReader struct {
	disk  durable.FS
	packs []*packfile.Packfile
	known map[string]bool // the names of packs, without their endings
	bases cache.Object    // bases of differences
}

const mostBases = 2 << 20 // bytes

func newSecondReader(disk durable.FS) *secondReader {
	return &secondReader{disk: disk, known: make(map[string]bool), bases: cache.NewObjectLRU(mostBases)}
}

func (r *secondReader) close() {
	for _, p := range r.packs {
		_ = p.Close() // only read
	}
}

// packFile is a pack as go-git wants a file: read only.
type packFile struct {
	*io.SectionReader
	f    durable.File
	name string
}

func (p packFile) Name() string              { return p.name }
func (p packFile) Close() error              { return p.f.Close() }
func (p packFile) Write([]byte) (int, error) { return 0, fs.ErrPermission }
func (p packFile) Truncate(int64) error      { return fs.ErrPermission }
func (p packFile) Lock() error               { return fs.ErrPermission }
func (p packFile) Unlock() error             { return fs.ErrPermission }

// idxInput is a pack index as go-git wants it: go-git compares the number of entries
// with the size before it allocates memory for them.
type idxInput struct {
	io.Reader
	size int64
}

type sizeOnly struct {
	fs.FileInfo
	size int64
}

func (s sizeOnly) Size() int64 { return s.size }

func (x idxInput) Stat() (fs.FileInfo, error) { return sizeOnly{size: x.size}, nil }

// openPacks opens the packs that are not open yet, and reports whether there were any.
// They stay open, so that a running hive may merge them meanwhile.
func (r *secondReader) openPacks() (fresh bool, err error) {
	list, err := r.disk.ReadDir(packDir)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	for _, e := range list {
		stem, ok := strings.CutSuffix(e.Name, ".idx")
		if !ok || r.known[stem] {
			continue
		}
		p, err := r.open(packDir + "/" + stem)
		if errors.Is(err, fs.ErrNotExist) {
			continue // merged into another one meanwhile, or left half made by a crash
		}
		if err != nil {
			return fresh, fmt.Errorf("%s: %w", packDir+"/"+stem, err)
		}
		r.known[stem], fresh = true, true
		r.packs = append(r.packs, p)
	}
	return fresh, nil
}

func (r *secondReader) open(stem string) (*packfile.Packfile, error) {
	f, err := r.disk.Open(stem + ".pack")
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	var idx *idxfile.MemoryIndex
	if err == nil {
		idx, err = r.index(stem + ".idx")
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	in := packFile{io.NewSectionReader(f, 0, info.Size), f, stem + ".pack"}
	return packfile.NewPackfileWithCache(idx, nil, in, r.bases, 0), nil
}

func (r *secondReader) index(name string) (*idxfile.MemoryIndex, error) {
	f, err := r.disk.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // only read
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	idx := idxfile.NewMemoryIndex()
	in := idxInput{bufio.NewReaderSize(f, 64<<10), info.Size}
	err = idxfile.NewDecoder(in).Decode(idx)
	idx.CRC32 = nil // nothing needs it, and it takes every seventh byte
	return idx, err
}

// read returns an object of a kind, its bytes verified by their hash.
func (r *secondReader) read(id protocol.Blob, want kind) (data []byte, err error) {
	defer func() {
		// Damage that go-git does not expect must not end this program.
		if x := recover(); x != nil {
			err = fmt.Errorf("go-git panicked: %v", x)
		}
	}()
	t, data, err := r.find(plumbing.Hash(id))
	switch {
	case err != nil:
		return nil, err
	case kind(t) != want: //nolint:gosec // a type is a small number
		return nil, fmt.Errorf("it is a %s", t)
	case plumbing.ComputeHash(t, data) != plumbing.Hash(id):
		return nil, errors.New("its bytes have another hash")
	}
	return data, nil
}

// find searches for an object in all packs, then among the loose ones, then in packs
// that were added meanwhile.
func (r *secondReader) find(h plumbing.Hash) (plumbing.ObjectType, []byte, error) {
	tried := 0
	for {
		for ; tried < len(r.packs); tried++ {
			if ok, err := r.packs[tried].Contains(h); err != nil || !ok {
				continue
			}
			o, err := r.packs[tried].Get(h)
			if err != nil {
				return 0, nil, err
			}
			in, err := o.Reader()
			if err != nil {
				return 0, nil, err
			}
			data, err := io.ReadAll(in)
			return o.Type(), data, errors.Join(err, in.Close())
		}
		t, data, err := r.loose(protocol.Blob(h))
		if !errors.Is(err, fs.ErrNotExist) {
			return t, data, err
		}
		fresh, err := r.openPacks()
		if err == nil && !fresh {
			err = plumbing.ErrObjectNotFound
		}
		if err != nil {
			return 0, nil, err
		}
	}
}

func (r *secondReader) loose(id protocol.Blob) (plumbing.ObjectType, []byte, error) {
	f, err := r.disk.Open(looseFile(id))
	if err != nil {
		return 0, nil, err
	}
	defer f.Close() //nolint:errcheck // only read
	in, err := objfile.NewReader(f)
	if err != nil {
		return 0, nil, err
	}
	t, size, err := in.Header()
	if err == nil && (size < 0 || size > mostObject) {
		err = durable.ErrTooLarge
	}
	var data []byte
	if err == nil {
		data, err = io.ReadAll(io.LimitReader(in, size+1))
	}
	if err == nil && int64(len(data)) != size {
		err = errors.New("its size is not the one in its head")
	}
	return t, data, errors.Join(err, in.Close())
}

// branch returns the commit that a branch names, loose or packed, zero where it has none.
func (r *secondReader) branch(name string) (protocol.Blob, error) {
	ref := plumbing.NewBranchReferenceName(name)
	data, err := readSmall(r.disk, gitDir+"/"+ref.String(), mostSmall)
	if err == nil {
		return hashOf(ref, strings.TrimSpace(string(data)))
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return protocol.Blob{}, err
	}
	data, err = readSmall(r.disk, packedRefs, mostPackRef)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return protocol.Blob{}, err
	}
	for line := range strings.Lines(string(data)) {
		if f := strings.Fields(line); len(f) == 2 && f[1] == ref.String() {
			return hashOf(ref, f[0])
		}
	}
	return protocol.Blob{}, nil
}

func hashOf(name plumbing.ReferenceName, value string) (protocol.Blob, error) {
	ref := plumbing.NewReferenceFromStrings(name.String(), value)
	if ref.Type() != plumbing.HashReference || !plumbing.IsHash(value) {
		return protocol.Blob{}, errBadRef
	}
	return protocol.Blob(ref.Hash()), nil
}
