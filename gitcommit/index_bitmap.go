package gitcommit

import (
	"encoding/binary"
	"math/bits"
)

// git stores a set of positions as an EWAH bitmap: words of 64 bits in groups.
// Each group begins with a marker that holds, from the lowest bit, one repeated
// bit, how many words of it come first (32 bits), and how many literal words
// follow (31 bits). The number of bits and the number of words come before the
// words, the position of the last marker after them, 32 bits each.
const (
	bitmapFrame = 12 // bytes around the words
	mostRun     = 1<<32 - 1
	mostLiteral = 1<<31 - 1
	mostBitmap  = 1 << 40 // bits; the sum cannot overflow
)

// readBitmap decodes a set of positions below limit, in ascending order, and
// returns the bytes after it.
func readBitmap(b []byte, limit int) (set []uint32, rest []byte, err error) {
	if len(b) < bitmapFrame {
		return nil, nil, errBadIndex
	}
	count := uint64(binary.BigEndian.Uint32(b[4:]))
	if count*8 > uint64(len(b)-bitmapFrame) { //nolint:gosec // not negative
		return nil, nil, errBadIndex
	}
	words, rest := b[8:8+count*8], b[bitmapFrame+count*8:]
	at := uint64(0)       // position of the next word's first bit
	most := uint64(limit) //nolint:gosec // a number of entries
	for len(words) > 0 {
		marker := binary.BigEndian.Uint64(words)
		words = words[8:]
		run, literals := marker>>1&mostRun, marker>>33&mostLiteral
		if literals*8 > uint64(len(words)) || marker&1 != 0 && at+run*64 > most {
			return nil, nil, errBadIndex
		}
		for end := at + run*64; marker&1 != 0 && at < end; at++ {
			set = append(set, uint32(at)) //nolint:gosec // below the limit
		}
		if marker&1 == 0 {
			at += run * 64
		}
		if set, err = readLiterals(set, words[:literals*8], at, most); err != nil {
			return nil, nil, err
		}
		words = words[literals*8:]
		if at += literals * 64; at > mostBitmap {
			return nil, nil, errBadIndex
		}
	}
	return set, rest, nil
}

func readLiterals(set []uint32, words []byte, at, most uint64) ([]uint32, error) {
	for ; len(words) > 0; words = words[8:] {
		for w := binary.BigEndian.Uint64(words); w != 0; w &= w - 1 {
			pos := at + uint64(bits.TrailingZeros64(w)) //nolint:gosec // below 64
			if pos >= most {
				return nil, errBadIndex
			}
			set = append(set, uint32(pos)) //nolint:gosec // below the limit
		}
		at += 64
	}
	return set, nil
}
