package gitcommit

import (
	"encoding/binary"
	"math/bits"
)

// deltaBlock is the length in bytes of the blocks of a base that are indexed. A
// copy of less than half of it would cost what it saves.
const deltaBlock = 16

// deltaMaker encodes git's differences: what to copy from a base and what to insert
// between. It takes linear time and reuses its memory.
type deltaMaker struct {
	table []uint32 // by hash: where a block of the base begins, plus one
	shift int
	base  []byte
	out   []byte
}

// index sets the base of the differences that follow.
func (m *deltaMaker) index(base []byte) {
	m.base = base
	size := bits.Len(uint(max(len(base)/deltaBlock*2, 16) - 1))
	m.shift = 64 - size
	if n := 1 << size; cap(m.table) >= n {
		m.table = m.table[:n]
		clear(m.table)
	} else {
		m.table = make([]uint32, n)
	}
	for at := len(base)/deltaBlock*deltaBlock - deltaBlock; at >= 0; at -= deltaBlock {
		m.table[m.hash(base[at:])] = uint32(at + 1) //nolint:gosec // bounded by the size of an object
	}
}

func (m *deltaMaker) hash(b []byte) uint64 {
	x, y := binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])
	return (x*0x9e3779b97f4a7c15 ^ bits.RotateLeft64(y, 29)) * 0xbf58476d1ce4e5b9 >> m.shift
}

// from returns the difference that turns the base into target, or nil where it
// would be longer than most bytes. The next call overwrites it.
func (m *deltaMaker) from(target []byte, most int) []byte {
	m.out = binary.AppendUvarint(m.out[:0], uint64(len(m.base)))
	m.out = binary.AppendUvarint(m.out, uint64(len(target)))
	written := 0 // bytes of the target that are encoded
	for at := 0; at+deltaBlock <= len(target); {
		from, begin, n := m.match(target, written, at)
		if n == 0 {
			if at++; len(m.out)+at-written > most {
				return nil
			}
			continue
		}
		m.put(target[written:begin])
		m.copy(from, n)
		written = begin + n
		at = written
	}
	m.put(target[written:])
	if len(m.out) > most {
		return nil
	}
	return m.out
}

// match finds the block of the target in the base, and extends the match in both
// directions.
func (m *deltaMaker) match(target []byte, written, at int) (from, begin, n int) {
	i := int(m.table[m.hash(target[at:])]) - 1
	if i < 0 || string(m.base[i:i+deltaBlock]) != string(target[at:at+deltaBlock]) {
		return 0, 0, 0
	}
	end := at + deltaBlock
	for j := i + deltaBlock; end < len(target) && j < len(m.base) && target[end] == m.base[j]; j++ {
		end++
	}
	for at > written && i > 0 && target[at-1] == m.base[i-1] {
		at, i = at-1, i-1
	}
	return i, at, end - at
}

// put inserts bytes that the base does not have.
func (m *deltaMaker) put(b []byte) {
	for len(b) > 0 {
		n := min(len(b), 0x7f)
		m.out = append(append(m.out, byte(n)), b[:n]...)
		b = b[n:]
	}
}

// copy copies bytes of the base.
func (m *deltaMaker) copy(from, n int) {
	for n > 0 {
		size := min(n, 0xffff)
		at := len(m.out)
		m.out = append(m.out, 0x80)
		for i := range 4 {
			if b := byte(from >> (8 * i)); b != 0 { //nolint:gosec // one byte of it
				m.out = append(m.out, b)
				m.out[at] |= 1 << i
			}
		}
		for i := range 2 {
			if b := byte(size >> (8 * i)); b != 0 { //nolint:gosec // one byte of it
				m.out = append(m.out, b)
				m.out[at] |= 0x10 << i
			}
		}
		from, n = from+size, n-size
	}
}
