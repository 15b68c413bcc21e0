package gitcommit

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha1" //nolint:gosec // git checks its pack indexes by SHA-1
	"encoding/binary"
	"errors"
	"io"
	"slices"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
)

// check reads a whole index and verifies its checksum and the order of its names.
// It returns the checksum of the pack.
func (x *idxFile) check(f durable.File) (pack protocol.Blob, err error) {
	info, err := f.Stat()
	if err != nil {
		return pack, err
	}
	h := sha1.New() //nolint:gosec // git checks its pack indexes by SHA-1
	body := info.Size - sha1.Size
	r := io.TeeReader(bufio.NewReaderSize(io.NewSectionReader(f, 0, body), 64<<10), h)
	if _, err := io.CopyN(io.Discard, r, int64(idxFanout)); err != nil {
		return pack, err
	}
	ordered := true
	var last, name protocol.Blob
	for i := range x.len() {
		if _, err := io.ReadFull(r, name[:]); err != nil {
			return pack, err
		}
		lo, hi := x.bucket(name[0])
		ordered = ordered && lo <= i && i < hi && (i == 0 || bytes.Compare(last[:], name[:]) < 0)
		last = name
	}
	if _, err := io.Copy(io.Discard, r); err != nil {
		return pack, err
	}
	var sum protocol.Blob
	if _, err := f.ReadAt(sum[:], body); err != nil {
		return pack, err
	}
	switch {
	case protocol.Blob(h.Sum(nil)) != sum:
		return pack, errors.Join(errBadIdx, errors.New("its checksum is wrong"))
	case !ordered:
		return pack, errBadIdx
	}
	_, err = f.ReadAt(pack[:], body-sha1.Size)
	return pack, err
}

// window returns the entries that begin between two offsets of the pack, by
// offset; the pack's entries end at end.
func (x *idxFile) window(f io.ReaderAt, from, to, end int64) ([]span, error) {
	n := int64(x.len())
	table := func(at, width int64) *bufio.Reader {
		return bufio.NewReaderSize(io.NewSectionReader(f, int64(idxFanout)+at, n*width), 64<<10)
	}
	names, offsets := table(0, sha1.Size), table(n*(sha1.Size+4), 4)
	var out []span
	next := end // where the first entry behind the window begins
	for at := range x.len() {
		var s span
		var b [4]byte
		if _, err := io.ReadFull(names, s.id[:]); err != nil {
			return nil, err
		}
		_, err := io.ReadFull(offsets, b[:])
		if s.offset = int64(binary.BigEndian.Uint32(b[:])); err == nil && s.offset >= idxLarge {
			s.offset, err = x.offsetAt(f, at)
		}
		switch {
		case err != nil:
			return nil, err
		case s.offset >= to:
			next = min(next, s.offset)
		case s.offset >= from:
			s.at = at
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(a, b span) int { return cmp.Compare(a.offset, b.offset) })
	for i := range out {
		if out[i].end = next; i+1 < len(out) {
			out[i].end = out[i+1].offset
		}
		if out[i].end <= out[i].offset {
			return nil, errBadIdx
		}
	}
	return out, nil
}
