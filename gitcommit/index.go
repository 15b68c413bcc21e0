package gitcommit

import (
	"bytes"
	"crypto/sha1" //nolint:gosec // git checks its index by SHA-1
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

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

// indexEntry is one entry of an index in the form of version 2 or 3, with its
// padding; raw is never written to.
type indexEntry struct {
	name string
	raw  []byte
}

func (e indexEntry) flags() uint16 { return binary.BigEndian.Uint16(e.raw[atFlags:]) }
func (e indexEntry) stage() int    { return int(e.flags()&flagStage) >> 12 }
func (e indexEntry) id() protocol.Blob {
	return protocol.Blob(e.raw[atID:atFlags])
}
func (e indexEntry) mode() uint32 { return binary.BigEndian.Uint32(e.raw[atMode:]) }

// parsedIndex is an index without the extensions that a change would make
// untrue.
type parsedIndex struct {
	entries []indexEntry
	kept    []byte // extensions that stay true, as they are
}

var (
	errBadIndex   = errors.New("not a valid index")
	errSplitIndex = errors.New("it is in a form that hived does not write")
)

// parseIndex reads the index versions 2, 3 and 4.
func parseIndex(data []byte) (*parsedIndex, error) {
	if len(data) < indexHeader+sha1.Size || string(data[:4]) != "DIRC" {
		return nil, errBadIndex
	}
	body, sum := data[:len(data)-sha1.Size], data[len(data)-sha1.Size:]
	// index.skipHash leaves the checksum zero.
	if want := sha1.Sum(body); !bytes.Equal(want[:], sum) && protocol.Blob(sum) != (protocol.Blob{}) { //nolint:gosec // git checks its index by SHA-1
		return nil, fmt.Errorf("%w: its checksum is wrong", errBadIndex)
	}
	version, count := binary.BigEndian.Uint32(data[4:]), int(binary.BigEndian.Uint32(data[8:]))
	if version < 2 || version > 4 || count > len(body)/fixedBytes {
		return nil, errBadIndex
	}
	p := &parsedIndex{entries: make([]indexEntry, 0, count)}
	// One string holds all the names, so that they need one allocation.
	text := string(body)
	at, prev := indexHeader, ""
	for range count {
		var e indexEntry
		var n int
		var err error
		if version == 4 {
			e, n, err = readCompressed(body[at:], prev)
		} else {
			e, n, err = readPlain(body[at:], text[at:])
		}
		if err != nil {
			return nil, err
		}
		if len(p.entries) > 0 && inIndexOrder(p.entries[len(p.entries)-1], e) >= 0 {
			return nil, fmt.Errorf("%w: its entries are out of order", errBadIndex)
		}
		p.entries = append(p.entries, e)
		at, prev = at+n, e.name
	}
	var err error
	p.kept, err = keptExtensions(body[at:])
	return p, err
}

// nameStart gives where the name of an entry begins.
func nameStart(b []byte) (int, error) {
	if len(b) < fixedBytes {
		return 0, errBadIndex
	}
	if binary.BigEndian.Uint16(b[atFlags:])&flagExtended == 0 {
		return fixedBytes, nil
	}
	if len(b) < fixedBytes+2 {
		return 0, errBadIndex
	}
	return fixedBytes + 2, nil
}

// entryLen gives the length of an entry whose name ends at end: at least one
// NUL follows, up to a multiple of eight.
func entryLen(end int) int { return (end + 8) &^ 7 }

func readPlain(b []byte, text string) (indexEntry, int, error) {
	start, err := nameStart(b)
	if err != nil {
		return indexEntry{}, 0, err
	}
	n := bytes.IndexByte(b[start:], 0)
	if n <= 0 || entryLen(start+n) > len(b) {
		return indexEntry{}, 0, errBadIndex
	}
	size := entryLen(start + n)
	return indexEntry{name: text[start : start+n], raw: b[:size:size]}, size, nil
}

// readCompressed reads an entry of version 4, whose name is given as what to
// cut off the one before and what to add.
func readCompressed(b []byte, prev string) (indexEntry, int, error) {
	start, err := nameStart(b)
	if err != nil {
		return indexEntry{}, 0, err
	}
	strip, at := 0, start
	for i := 0; ; i++ {
		if at >= len(b) || i > 4 {
			return indexEntry{}, 0, errBadIndex
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
	if n < 0 || strip > len(prev) || strip == len(prev) && n == 0 {
		return indexEntry{}, 0, errBadIndex
	}
	name := prev[:len(prev)-strip] + string(b[at:at+n])
	raw := make([]byte, entryLen(start+len(name)))
	copy(raw, b[:start])
	copy(raw[start:], name)
	return indexEntry{name: name, raw: raw}, at + n + 1, nil
}

// keptExtensions picks the extensions that a change of entries leaves true. The
// others are hints that git makes again; one that git demands to be understood
// is refused.
func keptExtensions(b []byte) ([]byte, error) {
	var kept []byte
	for len(b) > 0 {
		if len(b) < 8 {
			return nil, errBadIndex
		}
		size := uint64(binary.BigEndian.Uint32(b[4:])) + 8
		if size > uint64(len(b)) {
			return nil, errBadIndex
		}
		switch {
		case string(b[:4]) == "REUC": // how a person resolved conflicts
			kept = append(kept, b[:size]...)
		case b[0] < 'A' || b[0] > 'Z':
			return nil, fmt.Errorf("%w (extension %s)", errSplitIndex, protocol.Quote(string(b[:4])))
		}
		b = b[size:]
	}
	return kept, nil
}

func inIndexOrder(a, b indexEntry) int {
	if c := strings.Compare(a.name, b.name); c != 0 {
		return c
	}
	return a.stage() - b.stage()
}

// encodeIndex gives the file's bytes: version 3 where an entry needs it, else 2.
func encodeIndex(p *parsedIndex) []byte {
	n := indexHeader + len(p.kept) + sha1.Size
	version := uint32(2)
	for i := range p.entries {
		n += len(p.entries[i].raw)
		if p.entries[i].flags()&flagExtended != 0 {
			version = 3
		}
	}
	out := append(make([]byte, 0, n), "DIRC"...)
	out = binary.BigEndian.AppendUint32(out, version)
	out = binary.BigEndian.AppendUint32(out, uint32(len(p.entries))) //nolint:gosec // counted from memory
	for i := range p.entries {
		out = append(out, p.entries[i].raw...)
	}
	out = append(out, p.kept...)
	sum := sha1.Sum(out) //nolint:gosec // git checks its index by SHA-1
	return append(out, sum[:]...)
}

// fileStat is what the index remembers of a file in the work tree. The zero
// one makes git compare the content by itself.
type fileStat [statBytes]byte

func newIndexEntry(name string, id protocol.Blob, mode uint32, st fileStat) indexEntry {
	raw := make([]byte, entryLen(fixedBytes+len(name)))
	copy(raw, st[:])
	binary.BigEndian.PutUint32(raw[atMode:], mode)
	copy(raw[atID:], id[:])
	binary.BigEndian.PutUint16(raw[atFlags:], uint16(min(len(name), flagNameLen)))
	copy(raw[fixedBytes:], name)
	return indexEntry{name: name, raw: raw}
}

// patch is what an index is to hold for one path; a nil entry removes it.
type patch struct {
	name  string
	entry *indexEntry
}

// apply merges patches, sorted by name, into the entries. A path that comes
// takes the place of what cannot stand beside it: its other stages, what is
// below it, and the file whose directory it now needs.
func (p *parsedIndex) apply(patches []patch) {
	if len(patches) == 0 {
		return
	}
	files := make(map[string]bool) // names that become files
	dirs := make(map[string]bool)  // names that become directories
	for _, c := range patches {
		if c.entry == nil {
			continue
		}
		files[c.name] = true
		for d := parentOf(c.name); d != "" && !dirs[d]; d = parentOf(d) {
			dirs[d] = true
		}
	}
	out := make([]indexEntry, 0, len(p.entries)+len(patches))
	i := 0
	for _, e := range p.entries {
		for i < len(patches) && patches[i].name < e.name {
			out = appendEntry(out, patches[i].entry)
			i++
		}
		replaced := i < len(patches) && patches[i].name == e.name
		if replaced || dirs[e.name] || below(e.name, files) {
			continue
		}
		out = append(out, e)
	}
	for ; i < len(patches); i++ {
		out = appendEntry(out, patches[i].entry)
	}
	p.entries = out
}

func appendEntry(out []indexEntry, e *indexEntry) []indexEntry {
	if e == nil {
		return out
	}
	return append(out, *e)
}

func parentOf(name string) string {
	return name[:max(strings.LastIndexByte(name, '/'), 0)]
}

func below(name string, files map[string]bool) bool {
	for d := parentOf(name); d != ""; d = parentOf(d) {
		if files[d] {
			return true
		}
	}
	return false
}

func (p *parsedIndex) find(name string) (indexEntry, bool) {
	i, ok := slices.BinarySearchFunc(p.entries, name, func(e indexEntry, n string) int { return strings.Compare(e.name, n) })
	if !ok || p.entries[i].stage() != 0 {
		return indexEntry{}, false
	}
	return p.entries[i], true
}
