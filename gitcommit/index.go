package gitcommit

import (
	"bytes"
	"crypto/sha1" //nolint:gosec // git checks its index by SHA-1
	"encoding/binary"
	"errors"

	"github.com/hived/hived/protocol"
)

const (
	indexFile = gitDir + "/index"
	tmpIndex  = gitDir + "/" + tmpPrefix + "index"
	mostIndex = 1 << 30 // bytes

	indexHeader = 12
	statBytes   = 40 // ctime, mtime, dev, ino, mode, uid, gid, size
	fixedBytes  = statBytes + sha1.Size + 2
	atCTime     = 0
	atMTime     = 8
	atDev       = 16
	atIno       = 20
	atMode      = 24
	atUID       = 28
	atGID       = 32
	atSize      = 36
	atID        = statBytes
	atFlags     = atID + sha1.Size

	flagExtended = 0x4000
	flagStage    = 0x3000
	flagNameLen  = 0x0fff
)

var errBadIndex = errors.New("not a valid index")

// indexEntry is one entry of an index in the form of version 2 or 3, with its
// padding. An entry of a split index that replaces one of the shared index has
// an empty name.
type indexEntry []byte

func (e indexEntry) flags() uint16     { return binary.BigEndian.Uint16(e[atFlags:]) }
func (e indexEntry) stage() int        { return int(e.flags()&flagStage) >> 12 }
func (e indexEntry) id() protocol.Blob { return protocol.Blob(e[atID:atFlags]) }
func (e indexEntry) mode() uint32      { return binary.BigEndian.Uint32(e[atMode:]) }
func (e indexEntry) mtime() uint32     { return binary.BigEndian.Uint32(e[atMTime:]) }
func (e indexEntry) size() uint32      { return binary.BigEndian.Uint32(e[atSize:]) }

// nameAt returns the offset of the name.
func (e indexEntry) nameAt() int {
	if e.flags()&flagExtended != 0 {
		return fixedBytes + 2
	}
	return fixedBytes
}

func (e indexEntry) name() []byte {
	b := e[e.nameAt():]
	n := int(e.flags() & flagNameLen)
	if n == flagNameLen {
		n = bytes.IndexByte(b, 0)
	}
	return b[:n]
}

// renamed returns a copy of the entry under another name, using the space of out.
func (e indexEntry) renamed(name, out []byte) indexEntry {
	start := e.nameAt()
	out = append(out[:0], e[:start]...)
	out = append(out, name...)
	out = append(out, padding[:entryLen(len(out))-len(out)]...)
	flags := e.flags()&^flagNameLen | uint16(min(len(name), flagNameLen))
	binary.BigEndian.PutUint16(out[atFlags:], flags)
	return out
}

var padding [8]byte

// entryLen returns the length of an entry whose name ends at end: at least one
// NUL follows, up to a multiple of eight.
func entryLen(end int) int { return (end + 8) &^ 7 }

func inIndexOrder(a, b indexEntry) int {
	if c := bytes.Compare(a.name(), b.name()); c != 0 {
		return c
	}
	return a.stage() - b.stage()
}

// readEntry decodes the entry that b begins with, for which version 4 needs the
// name of the previous one. It returns the entry, which may alias b or out, and
// its length in the file.
func readEntry(version uint32, b, lastName, out []byte) (indexEntry, int, error) {
	if len(b) < fixedBytes+2 {
		return nil, 0, errBadIndex
	}
	var e indexEntry
	var n int
	if version == 4 {
		e, n = readCompressed(b, lastName, out)
	} else {
		e, n = readPlain(b)
	}
	if e == nil {
		return nil, 0, errBadIndex
	}
	return e, n, nil
}

func readPlain(b []byte) (indexEntry, int) {
	start := indexEntry(b).nameAt()
	n := int(indexEntry(b).flags() & flagNameLen)
	if n == flagNameLen {
		n = bytes.IndexByte(b[start:], 0)
	}
	size := entryLen(start + n)
	if n < 0 || size > len(b) || bytes.IndexByte(b[start:start+n+1], 0) != n {
		return nil, 0
	}
	return b[:size:size], size
}

// readCompressed decodes an entry of version 4, whose name is encoded as the
// number of bytes to cut off the previous name and a suffix to add.
func readCompressed(b, lastName, out []byte) (indexEntry, int) {
	start := indexEntry(b).nameAt()
	strip, at := 0, start
	for i := 0; ; i++ {
		if at >= len(b) || i > 4 {
			return nil, 0
		}
		c := b[at]
		at++
		strip |= int(c & 0x7f)
		if c&0x80 == 0 {
			break
		}
		strip = (strip + 1) << 7
	}
	n := bytes.IndexByte(b[at:], 0)
	if n < 0 || strip > len(lastName) {
		return nil, 0
	}
	keep := len(lastName) - strip
	if int(indexEntry(b).flags()&flagNameLen) != min(keep+n, flagNameLen) {
		return nil, 0
	}
	out = append(out[:0], b[:start]...)
	out = append(out, lastName[:keep]...)
	out = append(out, b[at:at+n]...)
	out = append(out, padding[:entryLen(len(out))-len(out)]...)
	return out, at + n + 1
}

// fileStat is the stat data of a file in the work tree, as the index stores it.
// Where it is zero, git compares the content.
type fileStat [statBytes]byte

func newIndexEntry(name string, id protocol.Blob, mode uint32, st fileStat) indexEntry {
	e := make(indexEntry, entryLen(fixedBytes+len(name)))
	copy(e, st[:])
	binary.BigEndian.PutUint32(e[atMode:], mode)
	copy(e[atID:], id[:])
	binary.BigEndian.PutUint16(e[atFlags:], uint16(min(len(name), flagNameLen)))
	copy(e[fixedBytes:], name)
	return e
}
