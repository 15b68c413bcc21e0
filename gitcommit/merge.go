package gitcommit

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
)

const (
	// mostDepth bounds the chain of differences of an object in hived's packs.
	mostDepth = 40
	// notYet is the depth of an object that is not in the new pack yet.
	notYet = 0xff
)

// merge makes one pack of many, oldest first. An object in several of them comes
// from the first. Every pack by hived holds the bases of its differences, before
// them: so a base is always written before what needs it, and no chain can lead
// back to itself.
type merge struct {
	disk    durable.FS
	packer  *packer
	sources []*source
	count   int     // different objects
	depth   []uint8 // chain length of each object written, by rank
	s       *packStream
	u       unpacker
	trees   *treeVersions
}

// source is a pack that is merged.
type source struct {
	pack
	idx *idx
	// ranks holds, by position in idx, the position among the names of all sources.
	ranks []uint32
	last  protocol.Seq // of its last commit, zero if that is not by hived
	tree  protocol.Blob
}

func newMerge(disk durable.FS, packs []pack) (*merge, error) {
	m := &merge{disk: disk, trees: newTreeVersions()}
	for _, p := range packs {
		src := &source{pack: p}
		var err error
		if src.idx, err = readIdx(disk, p.stem); err == nil {
			err = m.lastCommit(src)
		}
		if err != nil {
			return nil, &badPackError{p.stem, err}
		}
		m.sources = append(m.sources, src)
	}
	slices.SortFunc(m.sources, func(a, b *source) int {
		return cmp.Or(cmp.Compare(a.last, b.last), a.made.Compare(b.made), cmp.Compare(a.stem, b.stem))
	})
	m.rank()
	m.depth = bytes.Repeat([]byte{notYet}, m.count)
	return m, nil
}

// lastCommit reads the commit that hived writes last into a pack.
func (m *merge) lastCommit(src *source) error {
	if src.idx.len() == 0 {
		return nil
	}
	k, data, err := m.read(src, src.idx.last())
	if err != nil || k != kindCommit {
		return err
	}
	c, err := decodeCommit(protocol.Blob{}, data)
	if err == nil {
		src.last, src.tree = c.last, c.tree
	}
	return err
}

// rank numbers the distinct names of all sources in order.
func (m *merge) rank() {
	type name struct{ source, at int }
	at := make([]int, len(m.sources)) // how far each source is
	for _, src := range m.sources {
		src.ranks = make([]uint32, src.idx.len())
	}
	var some []name
	for first := range 256 {
		some = some[:0]
		for i, src := range m.sources {
			for ; at[i] < src.idx.len() && int(src.idx.name(at[i])[0]) == first; at[i]++ {
				some = append(some, name{i, at[i]})
			}
		}
		id := func(n name) []byte { return m.sources[n.source].idx.name(n.at) }
		slices.SortFunc(some, func(a, b name) int { return bytes.Compare(id(a), id(b)) })
		for i, n := range some {
			if i == 0 || !bytes.Equal(id(some[i-1]), id(n)) {
				m.count++
			}
			m.sources[n.source].ranks[n.at] = uint32(m.count - 1) //nolint:gosec // at most mostObjects
		}
	}
}

// read returns an object of a source.
func (m *merge) read(src *source, at int) (kind, []byte, error) {
	f, err := m.disk.Open(src.stem + ".pack")
	if err != nil {
		return 0, nil, err
	}
	defer f.Close() //nolint:errcheck // only read
	return m.readFrom(f, src, at)
}

func (m *merge) readFrom(f io.ReaderAt, src *source, at int) (kind, []byte, error) {
	where := func(id protocol.Blob) (int64, error) {
		base, ok := src.idx.search(id)
		if !ok {
			return 0, errForeign
		}
		return src.idx.entry(base).offset, nil
	}
	r := packReader{u: &m.u, pack: f, offsetOf: where, cached: m.trees.cache.get}
	k, data, err := r.read(src.idx.entry(at).offset)
	if err == nil && objectID(k, data) != protocol.Blob(src.idx.name(at)) {
		err = errBadPack
	}
	return k, data, err
}

func (m *merge) write(ctx context.Context, b *bufio.Writer) (*packStream, error) {
	var err error
	m.s, err = newPackStream(b, m.count)
	for _, src := range m.sources {
		if err != nil {
			return nil, err
		}
		if err = context.Cause(ctx); err != nil {
			return nil, err
		}
		if err = m.copySource(ctx, src); err != nil && ctx.Err() == nil && !failedWrite(err) {
			err = &badPackError{src.stem, err}
		}
	}
	return m.s, err
}

// failedWrite reports whether an error is one of writing the new pack.
func failedWrite(err error) bool {
	cause, ok := errors.AsType[*fs.PathError](err)
	return ok && cause.Op == "write"
}

// copySource writes the objects that the previous sources did not have.
func (m *merge) copySource(ctx context.Context, src *source) error {
	f, err := m.disk.Open(src.stem + ".pack")
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // only read
	spans, err := src.idx.spans(src.size - int64(len(protocol.Blob{})))
	if err != nil {
		return err
	}
	if err := checkPackHead(f, len(spans)); err != nil {
		return err
	}
	changed, err := m.versions(f, src)
	if err != nil {
		return err
	}
	in := bufio.NewReaderSize(io.NewSectionReader(f, packHeader, src.size-packHeader), 256<<10)
	for i, e := range spans {
		if i%1024 == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := m.copyEntry(f, in, src, e, changed[e.at]); err != nil {
			return fmt.Errorf("object %s: %w", e.id, err)
		}
	}
	return nil
}

// copyEntry copies one entry, or writes the difference that replaces it.
func (m *merge) copyEntry(f io.ReaderAt, in *bufio.Reader, src *source, e span, d *difference) error {
	rank, size := src.ranks[e.at], int(e.end-e.offset)
	if m.depth[rank] != notYet {
		_, err := in.Discard(size)
		return err
	}
	if d != nil {
		if _, err := in.Discard(size); err != nil {
			return err
		}
		m.depth[rank] = d.depth
		return m.packer.add(m.s, e.id, kindRefDelta, d.base, d.data)
	}
	head, err := in.Peek(min(size, mostHead))
	if err != nil {
		return err
	}
	p, _, _, err := readEntryHead(head, e.offset)
	if err != nil {
		return err
	}
	depth, err := m.depthOf(src, p)
	if err != nil {
		return err
	}
	if depth > mostDepth { // its base came from another pack, with a longer chain
		return m.writeWhole(f, in, src, e)
	}
	m.depth[rank] = depth
	return m.copyRaw(in, e)
}

// depthOf returns the length of the chain of differences that ends at an entry.
func (m *merge) depthOf(src *source, p packed) (uint8, error) {
	switch p.kind {
	case kindOffsetDelta:
		return 0, errForeign
	case kindRefDelta:
		base, ok := src.idx.search(p.base)
		if !ok || m.depth[src.ranks[base]] == notYet {
			return 0, errForeign
		}
		return m.depth[src.ranks[base]] + 1, nil
	case kindCommit, kindTree, kindBlob, kindTag:
	}
	return 0, nil
}

func (m *merge) writeWhole(f io.ReaderAt, in *bufio.Reader, src *source, e span) error {
	k, data, err := m.readFrom(f, src, e.at)
	if err != nil {
		return err
	}
	if _, err := in.Discard(int(e.end - e.offset)); err != nil {
		return err
	}
	m.depth[src.ranks[e.at]] = 0
	return m.packer.add(m.s, e.id, k, protocol.Blob{}, data)
}

// copyRaw copies an entry unchanged, and checks it against the CRC in its index.
func (m *merge) copyRaw(in *bufio.Reader, e span) error {
	m.s.begin(e.id)
	left := e.end - e.offset
	for left > 0 {
		b, err := in.Peek(int(min(left, int64(in.Size()))))
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return err
		}
		if _, err := m.s.Write(b); err != nil {
			return err
		}
		if _, err := in.Discard(len(b)); err != nil {
			return err
		}
		left -= int64(len(b))
	}
	if m.s.crc != e.crc {
		return errBadPack
	}
	return nil
}
