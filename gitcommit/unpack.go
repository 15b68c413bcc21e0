package gitcommit

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/go-git/go-git/v5/plumbing/format/packfile"
	"github.com/klauspost/compress/zlib"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
)

// mostDeltas bounds a chain of differences: git makes none longer.
const mostDeltas = 4095

// packed is an entry of a pack, inflated.
type packed struct {
	kind   kind
	base   protocol.Blob // of a kindRefDelta
	baseAt int64         // of a difference: the offset of its base
	data   []byte        // the object, or the difference
}

// unpacker inflates one object after the other.
type unpacker struct {
	in *bufio.Reader
	zr io.ReadCloser
}

func (u *unpacker) reset(r io.Reader) error {
	if u.in == nil {
		u.in = bufio.NewReaderSize(r, 16<<10)
	} else {
		u.in.Reset(r)
	}
	if u.zr == nil {
		zr, err := zlib.NewReader(u.in)
		if err == nil {
			u.zr = zr
		}
		return err
	}
	return u.zr.(zlib.Resetter).Reset(u.in, nil)
}

// inflate decompresses an object of the size that it claims to have.
func (u *unpacker) inflate(r io.Reader, size int64) ([]byte, error) {
	if size > mostObject {
		return nil, durable.ErrTooLarge
	}
	if err := u.reset(r); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	out.Grow(int(min(size, 1<<20)) + bytes.MinRead) // a damaged size is not trusted
	if _, err := out.ReadFrom(io.LimitReader(u.zr, size+1)); err != nil {
		return nil, err
	}
	if int64(out.Len()) != size {
		return nil, errBadPack
	}
	return out.Bytes(), nil
}

const mostHead = 64 // bytes before the compressed ones

// entry reads the entry at an offset of a pack.
func (u *unpacker) entry(f io.ReaderAt, offset int64) (packed, error) {
	var p packed
	var head [mostHead]byte
	n, err := f.ReadAt(head[:], offset)
	if err != nil && !errors.Is(err, io.EOF) {
		return p, err
	}
	p, size, used, err := readEntryHead(head[:n], offset)
	if err != nil {
		return p, err
	}
	p.data, err = u.inflate(io.NewSectionReader(f, offset+int64(used), 1<<62), size)
	return p, err
}

// readEntryHead decodes the head before an entry's compressed bytes, and returns its
// length in used.
func readEntryHead(b []byte, offset int64) (p packed, size int64, used int, err error) {
	p.kind, size, used = readHead(b)
	if used == 0 {
		return p, 0, 0, errBadPack
	}
	switch p.kind {
	case kindCommit, kindTree, kindBlob, kindTag:
	case kindRefDelta:
		if len(b) < used+len(p.base) {
			return p, 0, 0, errBadPack
		}
		used += copy(p.base[:], b[used:])
	case kindOffsetDelta:
		distance, n := readDistance(b[used:])
		if n == 0 || distance <= 0 || distance > offset-packHeader {
			return p, 0, 0, errBadPack
		}
		p.baseAt, used = offset-distance, used+n
	default:
		return p, 0, 0, errBadPack
	}
	return p, size, used, nil
}

// readDistance decodes how many bytes before its difference a base begins.
func readDistance(b []byte) (distance int64, n int) {
	for n < len(b) && distance < 1<<54 {
		c := b[n]
		n++
		distance |= int64(c & 0x7f)
		if c&0x80 == 0 {
			return distance, n
		}
		distance = (distance + 1) << 7
	}
	return 0, 0
}

// packReader reads the objects of one pack.
type packReader struct {
	u    *unpacker
	pack io.ReaderAt
	// offsetOf finds the base of a difference in the pack's index.
	offsetOf func(protocol.Blob) (int64, error)
	// cached returns a base that is in memory.
	cached func(protocol.Blob) (kind, []byte, bool)
}

// read returns the object at an offset, with its differences applied.
func (p *packReader) read(offset int64) (kind, []byte, error) {
	var deltas [][]byte
	for {
		e, err := p.u.entry(p.pack, offset)
		if err == nil && e.kind == kindRefDelta {
			if k, data, ok := p.cached(e.base); ok {
				data, err = patched(data, append(deltas, e.data))
				return k, data, err
			}
			e.baseAt, err = p.offsetOf(e.base)
		}
		if err != nil {
			return 0, nil, err
		}
		if e.kind != kindOffsetDelta && e.kind != kindRefDelta {
			data, err := patched(e.data, deltas)
			return e.kind, data, err
		}
		if deltas = append(deltas, e.data); len(deltas) > mostDeltas {
			return 0, nil, errBadPack
		}
		offset = e.baseAt
	}
}

// patched applies differences to a base, the last one first.
func patched(data []byte, deltas [][]byte) (_ []byte, err error) {
	for _, d := range slices.Backward(deltas) {
		if deltaSize(d) > mostObject {
			return nil, durable.ErrTooLarge
		}
		if data, err = packfile.PatchDelta(data, d); err != nil {
			return nil, err
		}
	}
	return data, nil
}

// deltaSize returns the size of its object according to a difference.
func deltaSize(delta []byte) uint64 {
	_, n := binary.Uvarint(delta)
	size, _ := binary.Uvarint(delta[max(n, 0):])
	return size
}

var errNoObject = errors.New("object not found")

// readLoose reads a loose object.
func (u *unpacker) readLoose(f io.Reader) (kind, []byte, error) {
	if err := u.reset(f); err != nil {
		return 0, nil, err
	}
	text := bufio.NewReader(u.zr)
	name, size, err := looseHead(text)
	if err != nil {
		return 0, nil, err
	}
	if size > mostObject {
		return 0, nil, durable.ErrTooLarge
	}
	data, err := io.ReadAll(io.LimitReader(text, size+1))
	if err == nil && int64(len(data)) != size {
		err = errors.New("its size is not the one in its head")
	}
	for k := kindCommit; k <= kindTag; k++ {
		if k.String() == name {
			return k, data, err
		}
	}
	return 0, nil, errDamagedHead
}

var errDamagedHead = errors.New("its head is damaged")

// looseHead reads the head of a loose object: the name of its kind, and its size in
// bytes. It reads no more than the reader's buffer holds: a small file can inflate to
// any size.
func looseHead(text *bufio.Reader) (kind string, size int64, err error) {
	head, err := text.ReadSlice(0)
	if errors.Is(err, bufio.ErrBufferFull) {
		err = errDamagedHead
	}
	if err != nil {
		return "", 0, err
	}
	kind, digits, _ := strings.Cut(strings.TrimSuffix(string(head), "\x00"), " ")
	if size, err = strconv.ParseInt(digits, 10, 64); err != nil || size < 0 {
		return "", 0, errDamagedHead
	}
	return kind, size, nil
}
