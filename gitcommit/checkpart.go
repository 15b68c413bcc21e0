package gitcommit

import (
	"encoding/binary"
	"fmt"
	"io"
	"slices"

	"github.com/hived/hived/protocol"
)

// partCheck checks one part of a pack after the other. It keeps the objects that
// were read last, because others are stored as differences from them.
type partCheck struct {
	u     unpacker
	copy  []byte // buffer between the decompressor and the hash
	bytes region
	idx   *idxFile
	in    io.ReaderAt // the index
	spans []span
	cache *objectCache            // by offset; nil before the first difference
	bases map[protocol.Blob]int64 // offsets of the objects of this part; nil until needed
}

func newPartCheck() *partCheck { return &partCheck{copy: make([]byte, 32<<10)} }

func (w *partCheck) run(p *packPart) {
	w.idx, w.in, w.spans = p.idx, p.in, p.spans
	w.cache, w.bases = nil, nil
	defer p.release()
	w.bytes = region{f: p.pack, data: w.bytes.data[:0]}
	for _, s := range p.spans {
		w.bytes.load(s)
		if err := w.check(s); err != nil {
			p.report(Problem{Code: protocol.CodeGitObjectDamaged, Object: s.id, Path: p.stem + ".pack", Text: fmt.Sprintf("object %s in %s.pack: %v", s.id, p.stem, err)})
		}
	}
}

// mostKept is the largest object, in bytes, that is inflated in memory where it
// could be read as a stream.
const mostKept = 1 << 20

func (w *partCheck) check(s span) error {
	var head [mostHead]byte
	n, err := io.ReadFull(io.NewSectionReader(&w.bytes, s.offset, s.end-s.offset), head[:])
	if n == 0 {
		return err
	}
	e, size, used, err := readEntryHead(head[:n], s.offset)
	if err != nil {
		return err
	}
	if e.kind == kindOffsetDelta || e.kind == kindRefDelta {
		if w.cache == nil {
			w.cache = newObjectCache(cacheBytes)
		}
	} else if w.cache == nil || size > mostKept {
		body := s.offset + int64(used)
		return w.stream(io.NewSectionReader(&w.bytes, body, s.end-body), e.kind, size, s.id)
	}
	k, data, err := w.read(s.offset)
	if err != nil {
		return err
	}
	return rightHash(objectID(k, data), s.id)
}

// stream checks an object that is stored whole.
func (w *partCheck) stream(r io.Reader, k kind, size int64, id protocol.Blob) error {
	if err := w.u.reset(r); err != nil {
		return err
	}
	h := newObjectHash(k, size)
	got, err := io.CopyBuffer(h, io.LimitReader(w.u.zr, size+1), w.copy)
	switch {
	case err != nil:
		return err
	case got != size:
		return errBadPack
	}
	return rightHash(protocol.Blob(h.Sum(nil)), id)
}

// read returns the object at an offset, with its differences applied. It keeps
// every object on the way, so that the next chain is short.
func (w *partCheck) read(offset int64) (k kind, data []byte, err error) {
	type step struct {
		offset int64
		delta  []byte
	}
	var way []step
	for {
		var ok bool
		if k, data, ok = w.cache.get(keyOf(offset)); ok {
			break
		}
		e, err := w.u.entry(&w.bytes, offset)
		if err == nil && e.kind == kindRefDelta {
			e.baseAt, err = w.offsetOf(e.base)
		}
		if err != nil {
			return 0, nil, err
		}
		if e.kind != kindOffsetDelta && e.kind != kindRefDelta {
			k, data = e.kind, e.data
			w.cache.add(keyOf(offset), k, data)
			break
		}
		if way = append(way, step{offset, e.data}); len(way) > mostDeltas {
			return 0, nil, errBadPack
		}
		offset = e.baseAt
	}
	for _, s := range slices.Backward(way) {
		if data, err = patched(data, [][]byte{s.delta}); err != nil {
			return 0, nil, err
		}
		w.cache.add(keyOf(s.offset), k, data)
	}
	return k, data, nil
}

// offsetOf returns the offset of the base of a difference, which is mostly near.
func (w *partCheck) offsetOf(id protocol.Blob) (int64, error) {
	if w.bases == nil {
		w.bases = make(map[protocol.Blob]int64, len(w.spans))
		for _, s := range w.spans {
			w.bases[s.id] = s.offset
		}
	}
	if offset, ok := w.bases[id]; ok {
		return offset, nil
	}
	return w.idx.offsetOf(w.in, id)
}

// keyOf returns the cache key of an offset.
func keyOf(offset int64) (key protocol.Blob) {
	binary.BigEndian.PutUint64(key[:], uint64(offset)) //nolint:gosec // an offset is not negative
	return key
}

func rightHash(got, want protocol.Blob) error {
	if got != want {
		return fmt.Errorf("its bytes have the hash %s", got)
	}
	return nil
}

// region reads a file through one piece of it in memory.
type region struct {
	f    io.ReaderAt
	data []byte
	off  int64
}

const regionSize = 1 << 20 // bytes

// load moves the piece to an entry that is not in it, unless the entry is larger.
func (r *region) load(s span) {
	if s.end <= r.off+int64(len(r.data)) || s.end-s.offset > regionSize {
		return
	}
	if r.data == nil {
		r.data = make([]byte, regionSize)
	}
	n, _ := r.f.ReadAt(r.data[:regionSize], s.offset) // ReadAt meets an error again
	r.data, r.off = r.data[:n], s.offset
}

// ReadAt implements [io.ReaderAt].
func (r *region) ReadAt(b []byte, off int64) (int, error) {
	n := 0
	if at := off - r.off; at >= 0 && at < int64(len(r.data)) {
		if n = copy(b, r.data[at:]); n == len(b) {
			return n, nil
		}
	}
	more, err := r.f.ReadAt(b[n:], off+int64(n))
	return n + more, err
}
