package gitcommit

import (
	"bytes"
	"crypto/sha1" //nolint:gosec // git checks its index by SHA-1
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/hived/hived/protocol"
)

const (
	indexWindow = 256 << 10 // bytes of an index that are in memory while it is read
	mostEntry   = 64 << 10  // bytes of one entry
)

// indexReader reads one index file of version 2, 3 or 4 from the front to the
// end, with a small window of it in memory.
type indexReader struct {
	f        io.ReaderAt
	end      int64 // where the checksum begins
	filled   int64 // how far the file was read
	buf      []byte
	pos      int // in buf
	sum      hash.Hash
	version  uint32
	left     int    // entries not read yet
	lastName []byte // name of the last entry
	out      []byte // space for one entry
}

// newIndexReader reads the header of an index of size bytes.
func newIndexReader(f io.ReaderAt, size int64) (*indexReader, error) {
	return readHeader(&indexReader{f: f, end: size - sha1.Size})
}

// newSummingReader is newIndexReader that hashes what it reads, to verify the
// checksum.
func newSummingReader(f io.ReaderAt, size int64) (*indexReader, error) {
	return readHeader(&indexReader{f: f, end: size - sha1.Size, sum: sha1.New()}) //nolint:gosec // git checks its index by SHA-1
}

func readHeader(x *indexReader) (*indexReader, error) {
	if x.end < indexHeader || x.end > mostIndex-sha1.Size {
		return nil, errBadIndex
	}
	x.buf = make([]byte, 0, min(x.end, indexWindow))
	if err := x.fill(indexHeader); err != nil {
		return nil, err
	}
	count := binary.BigEndian.Uint32(x.buf[8:])
	x.version = binary.BigEndian.Uint32(x.buf[4:])
	if string(x.buf[:4]) != "DIRC" || x.version < 2 || x.version > 4 || int64(count) > x.end/fixedBytes {
		return nil, errBadIndex
	}
	x.left, x.pos = int(count), indexHeader
	return x, nil
}

// fill makes the window hold at least want bytes, or all that are left.
func (x *indexReader) fill(want int) error {
	if len(x.buf)-x.pos >= want || x.filled == x.end {
		return nil
	}
	kept := copy(x.buf[:cap(x.buf)], x.buf[x.pos:])
	n := int(min(x.end-x.filled, int64(cap(x.buf)-kept)))
	x.buf, x.pos = x.buf[:kept+n], 0
	if got, err := x.f.ReadAt(x.buf[kept:], x.filled); got < n {
		x.buf = x.buf[:kept]
		if err == nil || errors.Is(err, io.EOF) {
			err = errBadIndex
		}
		return err
	}
	if x.sum != nil {
		x.sum.Write(x.buf[kept:])
	}
	x.filled += int64(n)
	return nil
}

// offset returns how much of the file was consumed.
func (x *indexReader) offset() int64 { return x.filled - int64(len(x.buf)-x.pos) }

// next returns the next entry, which is valid until the next call, and nil after
// the last.
func (x *indexReader) next() (indexEntry, error) {
	if x.left == 0 {
		return nil, nil
	}
	if err := x.fill(mostEntry); err != nil {
		return nil, err
	}
	e, n, err := readEntry(x.version, x.buf[x.pos:], x.lastName, x.out)
	if err != nil {
		return nil, err
	}
	if x.version == 4 {
		x.out = e
	}
	x.lastName = append(x.lastName[:0], e.name()...)
	x.left--
	x.pos += n
	return e, nil
}

// scanIndex reads an index file from the front to the end, and verifies its
// checksum.
func scanIndex(f io.ReaderAt, size int64) (scannedIndex, error) {
	s := scannedIndex{sorted: true}
	x, err := newSummingReader(f, size)
	if err != nil {
		return s, err
	}
	var last indexEntry
	for {
		e, err := x.next()
		if err != nil {
			return s, err
		}
		if e == nil {
			break
		}
		if len(e.name()) == 0 || s.count > 0 && inIndexOrder(last, e) >= 0 {
			s.sorted = false
		}
		last = append(last[:0], e...)
		s.count++
	}
	if s.indexExtensions, err = x.extensions(); err != nil {
		return s, err
	}
	s.sum, err = x.checksum()
	return s, err
}

// scannedIndex describes an index file.
type scannedIndex struct {
	count  int
	sorted bool // false for a split .git/index, whose entries have no names where they replace others
	sum    protocol.Blob
	indexExtensions
}

// indexExtensions holds the extensions of an index that matter to hived.
type indexExtensions struct {
	kept []byte // those that stay valid when entries change, unchanged
	link []byte // what makes it a split index; nil where it is whole
}

// extensions reads what follows the entries, and verifies the checksum. Extensions
// that a change of entries would make wrong are hints, which git makes again; a
// mandatory one that hived does not know is refused.
func (x *indexReader) extensions() (indexExtensions, error) {
	var ext indexExtensions
	for {
		head, err := x.readBytes(8)
		if err != nil {
			return ext, err
		}
		if head == nil {
			return ext, x.verifyChecksum()
		}
		size := int64(binary.BigEndian.Uint32(head[4:]))
		name := string(head[:4])
		var data []byte
		switch {
		case size > x.end-x.offset():
			err = errBadIndex
		case name == "REUC", name == "link": // how a person resolved conflicts, where the shared index is
			data, err = x.readBytes(size)
		case name[0] < 'A' || name[0] > 'Z':
			err = fmt.Errorf("%w: hived does not know its extension %s", errBadIndex, protocol.Quote(name))
		default:
			err = x.skip(size)
		}
		if err != nil {
			return ext, err
		}
		switch name {
		case "REUC":
			ext.kept = append(append(ext.kept, head...), data...)
		case "link":
			ext.link = data
		}
	}
}

// mostExtensions bounds an extension that is held in memory, in bytes.
const mostExtensions = 64 << 20

// readBytes returns the next n bytes before the checksum, and nil where none are
// left.
func (x *indexReader) readBytes(n int64) ([]byte, error) {
	switch left := x.end - x.offset(); {
	case left == 0 && n > 0:
		return nil, nil
	case left < n, n > mostExtensions:
		return nil, errBadIndex
	}
	out := make([]byte, 0, n)
	err := x.eachPart(n, func(part []byte) { out = append(out, part...) })
	return out, err
}

func (x *indexReader) skip(n int64) error { return x.eachPart(n, func([]byte) {}) }

func (x *indexReader) eachPart(n int64, use func([]byte)) error {
	for n > 0 {
		if err := x.fill(1); err != nil {
			return err
		}
		part := x.buf[x.pos:min(int64(len(x.buf)), int64(x.pos)+n)]
		use(part)
		x.pos += len(part)
		n -= int64(len(part))
	}
	return nil
}

// verifyChecksum compares the hash of what was read with the checksum, which is
// zero under index.skipHash.
func (x *indexReader) verifyChecksum() error {
	sum, err := x.checksum()
	if err != nil || x.sum == nil || sum.IsZero() || bytes.Equal(x.sum.Sum(nil), sum[:]) {
		return err
	}
	return fmt.Errorf("%w: its checksum is wrong", errBadIndex)
}

func (x *indexReader) checksum() (sum protocol.Blob, err error) {
	if n, err := x.f.ReadAt(sum[:], x.end); n < len(sum) {
		return sum, errors.Join(errBadIndex, err)
	}
	return sum, nil
}
