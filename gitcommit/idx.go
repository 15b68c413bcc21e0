package gitcommit

import (
	"bufio"
	"bytes"
	"crypto/sha1" //nolint:gosec // git checks its pack indexes by SHA-1
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"sort"

	"github.com/hived/hived/protocol"
)

const (
	idxMagic  = "\xfftOc\x00\x00\x00\x02"
	idxFanout = len(idxMagic) + 256*4
	idxLarge  = 1 << 31 // an offset with this bit is in the table of large ones
)

// writeIdx writes a pack index of version 2 as a stream. It sorts the entries.
func writeIdx(out io.Writer, entries []packEntry, pack protocol.Blob) error {
	slices.SortFunc(entries, func(a, b packEntry) int { return bytes.Compare(a.id[:], b.id[:]) })
	sum := sha1.New() //nolint:gosec // git checks its pack indexes by SHA-1
	w := bufio.NewWriterSize(io.MultiWriter(out, sum), 64<<10)
	put := func(b []byte) { _, _ = w.Write(b) } // the writer keeps the first error for Flush
	be := binary.BigEndian
	put([]byte(idxMagic))
	n := 0
	for i := range 256 {
		for n < len(entries) && int(entries[n].id[0]) <= i {
			n++
		}
		put(be.AppendUint32(w.AvailableBuffer(), uint32(n)))
	}
	for i := range entries {
		put(entries[i].id[:])
	}
	for i := range entries {
		put(be.AppendUint32(w.AvailableBuffer(), entries[i].crc))
	}
	var large []byte
	for i := range entries {
		off := uint64(entries[i].offset) //nolint:gosec // an offset is not negative
		if off >= idxLarge {
			large = be.AppendUint64(large, off)
			off = idxLarge | uint64(len(large)/8-1) //nolint:gosec // a count
		}
		put(be.AppendUint32(w.AvailableBuffer(), uint32(off))) //nolint:gosec // below 1<<32 here
	}
	put(large)
	put(pack[:])
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := out.Write(sum.Sum(nil))
	return err
}

// idx is a pack index in memory.
type idx struct {
	names   []byte // sorted, 20 bytes each
	crcs    []byte
	offsets []byte
	large   []byte
	pack    protocol.Blob // the pack's own checksum
}

var errBadIdx = errors.New("not a valid pack index of version 2")

func parseIdx(data []byte) (*idx, error) {
	if len(data) < idxFanout+2*sha1.Size || string(data[:len(idxMagic)]) != idxMagic {
		return nil, errBadIdx
	}
	body := data[:len(data)-sha1.Size]
	if sum := sha1.Sum(body); !bytes.Equal(sum[:], data[len(body):]) { //nolint:gosec // git checks its pack indexes by SHA-1
		return nil, errors.Join(errBadIdx, errors.New("its checksum is wrong"))
	}
	n := int(binary.BigEndian.Uint32(data[idxFanout-4:]))
	rest := body[idxFanout : len(body)-sha1.Size]
	if n > len(rest)/(sha1.Size+8) {
		return nil, errBadIdx
	}
	x := &idx{pack: protocol.Blob(body[len(body)-sha1.Size:])}
	x.names, rest = rest[:n*sha1.Size], rest[n*sha1.Size:]
	x.crcs, rest = rest[:n*4], rest[n*4:]
	x.offsets, x.large = rest[:n*4], rest[n*4:]
	for i := 1; i < n; i++ {
		if bytes.Compare(x.name(i-1), x.name(i)) >= 0 {
			return nil, errBadIdx
		}
	}
	return x, nil
}

func (x *idx) len() int          { return len(x.names) / sha1.Size }
func (x *idx) name(i int) []byte { return x.names[i*sha1.Size : (i+1)*sha1.Size] }

// entry returns the entry of the i-th name; its offset is -1 where that is invalid.
func (x *idx) entry(i int) packEntry {
	e := packEntry{id: protocol.Blob(x.name(i)), crc: binary.BigEndian.Uint32(x.crcs[4*i:]), offset: -1}
	off := binary.BigEndian.Uint32(x.offsets[4*i:])
	if off < idxLarge {
		e.offset = int64(off)
		return e
	}
	j := int(off &^ idxLarge)
	if j < len(x.large)/8 {
		if v := binary.BigEndian.Uint64(x.large[8*j:]); v < 1<<62 {
			e.offset = int64(v)
		}
	}
	return e
}

// search returns the position of an object among the names.
func (x *idx) search(id protocol.Blob) (int, bool) {
	i := sort.Search(x.len(), func(i int) bool { return bytes.Compare(x.name(i), id[:]) >= 0 })
	return i, i < x.len() && protocol.Blob(x.name(i)) == id
}

func (x *idx) has(id protocol.Blob) bool {
	_, ok := x.search(id)
	return ok
}

// last returns the position of the object that comes last in the pack.
func (x *idx) last() int {
	last, most := 0, int64(-1)
	for i := range x.len() {
		if off := x.entry(i).offset; off > most {
			last, most = i, off
		}
	}
	return last
}

// span is one entry of a pack and the offset of its end.
type span struct {
	packEntry
	at  int // position among the names
	end int64
}

// spans returns the entries in the order of the pack, whose trailer begins at
// end. It is errBadIdx where they do not fill the pack.
func (x *idx) spans(end int64) ([]span, error) {
	out := make([]span, x.len())
	for i := range out {
		out[i].packEntry, out[i].at = x.entry(i), i
	}
	slices.SortFunc(out, func(a, b span) int {
		switch {
		case a.offset < b.offset:
			return -1
		case a.offset > b.offset:
			return 1
		}
		return 0
	})
	next := int64(packHeader)
	for i := range out {
		if out[i].offset < next || i == 0 && out[i].offset != next {
			return nil, errBadIdx
		}
		next = out[i].offset + 1
		out[i].end = end
		if i+1 < len(out) {
			out[i].end = out[i+1].offset
		}
	}
	if next > end && len(out) > 0 {
		return nil, errBadIdx
	}
	return out, nil
}

// readHead reads the type and size before an object's bytes; n is how many
// bytes that takes, zero where they are invalid.
func readHead(b []byte) (k kind, size int64, n int) {
	if len(b) == 0 {
		return 0, 0, 0
	}
	k, size = kind(b[0]>>4&7), int64(b[0]&15)
	n = 1
	for shift := 4; b[n-1]&0x80 != 0; shift += 7 {
		if n == len(b) || shift > 55 {
			return 0, 0, 0
		}
		size |= int64(b[n]&0x7f) << shift
		n++
	}
	return k, size, n
}
