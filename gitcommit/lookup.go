package gitcommit

import (
	"bytes"
	"crypto/sha1" //nolint:gosec // git names its objects by SHA-1
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sort"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
)

// idxFile finds objects in a pack index on the disk: only the counts by first byte
// are in memory, 1 KiB, and an object costs one or two small reads. Its checksum
// is not verified; the reader of an object verifies the object's hash.
type idxFile struct {
	fan [256]uint32 // how many names begin with at most this byte
}

// readFan reads the head of an index with the counts by first byte.
func readFan(f io.ReaderAt, size int64) (*idxFile, error) {
	var head [idxFanout]byte
	if _, err := f.ReadAt(head[:], 0); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if string(head[:len(idxMagic)]) != idxMagic {
		return nil, errBadIdx
	}
	x := &idxFile{}
	for i := range x.fan {
		x.fan[i] = binary.BigEndian.Uint32(head[len(idxMagic)+4*i:])
		if i > 0 && x.fan[i] < x.fan[i-1] {
			return nil, errBadIdx
		}
	}
	if size < int64(idxFanout)+int64(x.len())*(sha1.Size+8)+2*sha1.Size {
		return nil, errBadIdx
	}
	return x, nil
}

// openIdx opens an index for searching; the caller closes the file.
func openIdx(disk durable.FS, stem string) (*idxFile, durable.File, error) {
	f, err := disk.Open(stem + ".idx")
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	var x *idxFile
	if err == nil {
		x, err = readFan(f, info.Size)
	}
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return x, f, nil
}

func (x *idxFile) len() int { return int(x.fan[255]) }

// bucket returns the range of positions of the names that begin with a byte.
func (x *idxFile) bucket(b byte) (lo, hi int) {
	if b > 0 {
		lo = int(x.fan[b-1])
	}
	return lo, int(x.fan[b])
}

const (
	namesAtOnce  = 200 // names in one read, 4 KB
	interpolated = 4   // steps of interpolation before bisection
)

// find returns the position of an object among the names. It interpolates, because
// names are hashes and evenly spread.
func (x *idxFile) find(f io.ReaderAt, id protocol.Blob) (at int, ok bool, err error) {
	lo, hi := x.bucket(id[0])
	want := binary.BigEndian.Uint64(id[1:9])
	least, most := uint64(0), ^uint64(0) // bounds of the names from lo to hi
	var buf [namesAtOnce * sha1.Size]byte
	for step := 0; lo < hi; step++ {
		from, n := lo, min(namesAtOnce, hi-lo)
		if hi-lo > n {
			part := 0.5
			if step < interpolated && most > least {
				part = float64(want-least) / float64(most-least)
			}
			from = min(max(lo+int(part*float64(hi-lo))-n/2, lo), hi-n)
		}
		names := buf[:n*sha1.Size]
		if _, err := f.ReadAt(names, int64(idxFanout)+int64(from)*sha1.Size); err != nil {
			return 0, false, err
		}
		i := sort.Search(n, func(i int) bool { return bytes.Compare(names[i*sha1.Size:(i+1)*sha1.Size], id[:]) >= 0 })
		switch {
		case i < n && protocol.Blob(names[i*sha1.Size:]) == id:
			return from + i, true, nil
		case i == 0:
			hi, most = from, max(want, binary.BigEndian.Uint64(names[1:]))
		case i == n:
			lo, least = from+n, min(want, binary.BigEndian.Uint64(names[(n-1)*sha1.Size+1:]))
		default:
			return 0, false, nil
		}
	}
	return 0, false, nil
}

// offsetAt returns the offset in the pack of the object at a position of the names.
func (x *idxFile) offsetAt(f io.ReaderAt, at int) (int64, error) {
	offsets := int64(idxFanout) + int64(x.len())*(sha1.Size+4)
	var b [8]byte
	if _, err := f.ReadAt(b[:4], offsets+4*int64(at)); err != nil {
		return 0, err
	}
	off := binary.BigEndian.Uint32(b[:])
	if off < idxLarge {
		return int64(off), nil
	}
	if _, err := f.ReadAt(b[:], offsets+4*int64(x.len())+8*int64(off&^idxLarge)); err != nil {
		return 0, err
	}
	if large := binary.BigEndian.Uint64(b[:]); large < 1<<62 {
		return int64(large), nil
	}
	return 0, errBadIdx
}

// offsetOf returns the offset of an object in the pack; errNoObject where the pack
// does not have it.
func (x *idxFile) offsetOf(f io.ReaderAt, id protocol.Blob) (int64, error) {
	at, ok, err := x.find(f, id)
	if err != nil {
		return 0, err
	}
	if !ok {
		return 0, fmt.Errorf("%s: %w", id, errNoObject)
	}
	return x.offsetAt(f, at)
}
