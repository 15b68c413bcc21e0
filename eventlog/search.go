package eventlog

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/hived/hived/protocol"
)

// How far the search for a changed byte goes. For the longest line it takes seconds,
// with one bit changed as with any change of a byte.
const (
	mendTime  = 20 * time.Second // for all lines together
	bitsLine  = 16 << 10         // longest line that is searched for a changed bit, in bytes
	bytesLine = 4 << 10          // longest line that is searched for a changed byte
)

// patch is one byte that should be another.
type patch struct {
	off int64
	is  byte
}

// patched is a file as it will be once it is mended.
type patched struct {
	f       io.ReaderAt
	size    int64
	patches []patch
	torn    bool  // its end was cut off
	taken   int64 // bytes that were taken out
}

// take removes a span. All patches are before it.
func (p *patched) take(s span) {
	p.f = leftOut{p.f, s}
	p.size -= s.to - s.from
	p.taken += s.to - s.from
}

// change adds a patch and returns the byte that it replaces.
func (p *patched) change(to patch) byte {
	var was [1]byte
	_, _ = p.f.ReadAt(was[:], to.off) // it was read when it was searched
	p.patches = append(p.patches, to)
	return was[0]
}

// ReadAt implements [io.ReaderAt].
func (p *patched) ReadAt(b []byte, off int64) (int, error) {
	whole := len(b)
	b = b[:max(0, min(int64(whole), p.size-off))]
	n, err := p.f.ReadAt(b, off)
	for _, x := range p.patches {
		if i := x.off - off; i >= 0 && i < int64(n) {
			b[i] = x.is
		}
	}
	if err == nil && n < whole {
		err = io.EOF
	}
	return n, err
}

// search looks for the one byte that, when it is changed, makes the line at off
// fit its sum and the line before. The byte may be a line break, or have become
// one.
func search(f io.ReaderAt, off int64, prev protocol.Sum, until time.Time) (patch, bool, error) {
	text := make([]byte, 2*bitsLine)
	n, err := f.ReadAt(text, off)
	if err != nil && !errors.Is(err, io.EOF) {
		return patch{}, false, err
	}
	text = text[:n]
	end := bytes.IndexByte(text, '\n')
	switch {
	case end < 0:
		end = n
	case end < n:
		end++ // the line break may be the wrong one
	}
	s := searcher{text: text, prev: prev, until: until}
	for _, pass := range []struct {
		longest int
		values  func(was byte) []byte
	}{{bitsLine, oneBit}, {bytesLine, anyByte}} {
		if end > pass.longest {
			continue
		}
		if i := s.try(end, pass.values); i >= 0 {
			return patch{off + int64(i), text[i]}, true, nil
		}
	}
	return patch{}, false, nil
}

type searcher struct {
	text  []byte // from the beginning of the bad line on
	prev  protocol.Sum
	until time.Time
}

// try changes each of the first n bytes in turn, and leaves the change that
// fits in place. It gives its index, -1 where there is none.
func (s *searcher) try(n int, values func(was byte) []byte) int {
	for i := range n {
		if time.Now().After(s.until) {
			return -1
		}
		was := s.text[i]
		for _, v := range values(was) {
			s.text[i] = v
			if s.fits() {
				return i
			}
		}
		s.text[i] = was
	}
	return -1
}

func (s *searcher) fits() bool {
	line, _, whole := bytes.Cut(s.text, []byte{'\n'})
	if !whole {
		return false
	}
	_, err := protocol.CheckLine(line, s.prev)
	return err == nil
}

// oneBit returns the values that differ from a byte in one bit.
func oneBit(was byte) []byte {
	v := make([]byte, 0, 8)
	for bit := range 8 {
		v = append(v, was^1<<bit)
	}
	return v
}

// anyByte returns all other values.
func anyByte(was byte) []byte {
	v := make([]byte, 0, 256)
	for b := range 256 {
		v = append(v, byte(b))
	}
	return slices.Delete(v, int(was), int(was)+1)
}
