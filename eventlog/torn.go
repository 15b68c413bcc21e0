package eventlog

import (
	"bytes"
	"errors"
	"io"

	"github.com/hived/hived/protocol"
)

// torn reports whether what stands in the open segment from start on, where the
// first line is not the next event, can be what a crash left of a write that
// nobody was told of: a line without line break, and whole lines only where
// each of them has a hole. A whole line with something else in the place of its
// line break was durable once: that is damage.
func torn(f io.ReaderAt, start int64, prev protocol.Sum) (bool, error) {
	l := newLines(f, start)
	for whole := 0; ; whole++ {
		off := l.off
		line, err := l.next()
		switch {
		case errors.Is(err, errLong):
			return false, nil
		case errors.Is(err, io.EOF):
			return whole > 0 || !endsWrong(l.tail, prev), nil
		case err != nil:
			return false, err
		case !hole(line, off, start):
			return false, nil
		}
	}
}

// sector is the least that a disk writes, in bytes.
const sector = 512

// hole reports whether a line that stands at off has NULs from the beginning of
// the write, or of a sector, up to the end of a sector. So a file system shows
// blocks that it never wrote; a byte that merely turned into NUL is damage.
func hole(line []byte, off, start int64) bool {
	for i := 0; ; {
		n := bytes.IndexByte(line[i:], 0)
		if n < 0 {
			return false
		}
		from := i + n
		i = from
		for line[i] == 0 { // ends at the line break at the latest
			i++
		}
		a, b := off+int64(from), off+int64(i)
		if (a == start || a%sector == 0) && b%sector == 0 {
			return true
		}
	}
}

// endsWrong reports whether a tail is a whole line but for its last byte.
func endsWrong(tail []byte, prev protocol.Sum) bool {
	n := len(tail) - 1
	if n < 0 || tail[n] == 0 {
		return false
	}
	_, err := protocol.CheckLine(tail[:n], prev)
	return err == nil
}

func tornName(seq protocol.Seq) string { return "torn-" + seq.String() }
