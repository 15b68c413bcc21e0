package gitcommit

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
)

const (
	cacheBytes  = 8 << 20
	mostObject  = 512 << 20 // bytes of an object that is held in memory
	gitDir      = ".git"
	objectsDir  = gitDir + "/objects"
	packDir     = objectsDir + "/pack"
	mostSmall   = 1 << 20 // bytes of HEAD, a ref, a config
	mostPackRef = 256 << 20
	// mostRelists bounds how often packs are listed for one object.
	mostRelists = 100
)

// store reads objects from the repository, one at a time. Memory holds the names
// of the packs, 1 KiB of each index and the objects read last, and does not grow
// with the number of objects. git may repack at any moment, so the packs are listed
// again where an object is not found.
type store struct {
	fs    durable.FS
	packs []*knownPack // the most recently used first; nil when not listed
	last  *objectCache
	u     unpacker
	// vanished is set when a pack was gone in the search for the last object.
	vanished bool
}

// knownPack is a pack that existed when packs were listed.
type knownPack struct {
	stem string
	idx  *idxFile // nil until it is needed
}

func newStore(disk durable.FS) *store { return &store{fs: disk, last: newObjectCache(cacheBytes)} }

// dropCache forgets the objects read last.
func (s *store) dropCache() { s.last = newObjectCache(cacheBytes) }

// relist makes the next search list the packs again.
func (s *store) relist() { s.packs = nil }

// read returns an object, its bytes verified by their hash. The caller must not
// change them.
func (s *store) read(id protocol.Blob, want kind) ([]byte, error) {
	data, err := s.readOnce(id, want)
	// Packs may be merged during the search, again and again.
	for n := 0; err != nil && (n == 0 || s.vanished && n < mostRelists); n++ {
		s.relist()
		data, err = s.readOnce(id, want)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s %s from git: %w: %w; `hived repair` rebuilds the repository from the log", want, id, ErrDamaged, err)
	}
	return data, nil
}

func (s *store) readOnce(id protocol.Blob, want kind) ([]byte, error) {
	k, data, ok := s.last.get(id)
	if !ok {
		var err error
		if k, data, err = s.find(id); err != nil {
			return nil, err
		}
		s.last.add(id, k, data)
	}
	if k != want {
		return nil, fmt.Errorf("it is a %s", k)
	}
	return data, nil
}

// find reads an object from the first place that has it undamaged.
func (s *store) find(id protocol.Blob) (kind, []byte, error) {
	if s.packs == nil {
		names, err := packNames(s.fs)
		if err != nil {
			return 0, nil, err
		}
		s.packs = make([]*knownPack, 0, len(names))
		for stem, exts := range names {
			if slices.Contains(exts, ".idx") {
				s.packs = append(s.packs, &knownPack{stem: stem})
			}
		}
	}
	var wrong error
	s.vanished = false
	for i, p := range s.packs {
		k, data, err := s.inPack(p, id)
		switch {
		case err == nil:
			copy(s.packs[1:], s.packs[:i])
			s.packs[0] = p
			return k, data, nil
		case errors.Is(err, fs.ErrNotExist):
			s.vanished = true
		case !errors.Is(err, errNoObject):
			wrong = errors.Join(wrong, err)
		}
	}
	k, data, err := s.loose(id)
	if wrong != nil && errors.Is(err, errNoObject) {
		err = wrong
	}
	return k, data, err
}

// inPack reads an object from one pack; errNoObject where the pack lacks it.
func (s *store) inPack(p *knownPack, id protocol.Blob) (k kind, data []byte, err error) {
	if lo, hi := p.bucket(id[0]); lo == hi {
		return 0, nil, errNoObject
	}
	idx, in, err := p.open(s.fs)
	if err != nil {
		return 0, nil, fmt.Errorf("%s.idx: %w", p.stem, err)
	}
	defer in.Close() //nolint:errcheck // only read
	offset, err := idx.offsetOf(in, id)
	if err != nil {
		return 0, nil, fmt.Errorf("%s.idx: %w", p.stem, err)
	}
	k, data, err = s.unpack(p, in, offset)
	if err == nil && objectID(k, data) != id {
		err = errors.New("its bytes have another hash")
	}
	if err != nil {
		return 0, nil, fmt.Errorf("%s.pack: %w", p.stem, err)
	}
	return k, data, nil
}

func (s *store) unpack(p *knownPack, in durable.File, offset int64) (kind, []byte, error) {
	f, err := s.fs.Open(p.stem + ".pack")
	if err != nil {
		return 0, nil, err
	}
	defer f.Close() //nolint:errcheck // only read
	where := func(id protocol.Blob) (int64, error) { return p.idx.offsetOf(in, id) }
	r := packReader{u: &s.u, pack: f, offsetOf: where, cached: s.last.get}
	return r.read(offset)
}

// bucket returns the range of the names that begin with a byte. It is not empty
// where the index was not read yet.
func (p *knownPack) bucket(b byte) (lo, hi int) {
	if p.idx == nil {
		return 0, 1
	}
	return p.idx.bucket(b)
}

// open opens the index for searching.
func (p *knownPack) open(disk durable.FS) (*idxFile, durable.File, error) {
	if p.idx != nil {
		f, err := disk.Open(p.stem + ".idx")
		return p.idx, f, err
	}
	idx, f, err := openIdx(disk, p.stem)
	p.idx = idx
	return idx, f, err
}

func (s *store) loose(id protocol.Blob) (kind, []byte, error) {
	f, err := s.fs.Open(looseFile(id))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil, errNoObject
	}
	if err != nil {
		return 0, nil, err
	}
	defer f.Close() //nolint:errcheck // only read
	k, data, err := s.u.readLoose(f)
	if err == nil && objectID(k, data) != id {
		err = errors.New("its bytes have another hash")
	}
	return k, data, err
}

func looseFile(id protocol.Blob) string {
	name := id.String()
	return objectsDir + "/" + name[:2] + "/" + name[2:]
}

func (s *store) tree(id protocol.Blob) ([]byte, error) { return s.read(id, kindTree) }

func (s *store) commit(id protocol.Blob) (*commit, error) {
	data, err := s.read(id, kindCommit)
	if err != nil {
		return nil, err
	}
	return decodeCommit(id, data)
}

// root returns the entries of a commit's root tree; none for the zero commit.
func (s *store) root(id protocol.Blob) ([]entry, error) {
	if id.IsZero() {
		return nil, nil
	}
	c, err := s.commit(id)
	if err != nil {
		return nil, err
	}
	data, err := s.tree(c.tree)
	if err != nil {
		return nil, err
	}
	return decodeTree(data)
}

// readSmall reads a whole file of at most most bytes.
func readSmall(disk durable.FS, name string, most int64) ([]byte, error) {
	data, _, err := durable.ReadFile(disk, name, most)
	return data, err
}
