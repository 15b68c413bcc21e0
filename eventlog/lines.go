package eventlog

import (
	"bytes"
	"errors"
	"io"
)

// readSize is how many bytes are read at once.
const readSize = 256 << 10

// maxLine bounds the length of a line, in bytes. The longest that hived writes holds
// a message of the largest size with every byte escaped. Tests lower it.
var maxLine = 64 << 20

// lines reads a file line by line, each in place in one buffer. It can be called
// again after the end, because the file may have grown.
type lines struct {
	f    io.ReaderAt
	buf  []byte // buf[r:w] was read and not given out
	r, w int
	off  int64  // of buf[r] in the file
	tail []byte // what was behind the last line break when the file ended
}

func newLines(f io.ReaderAt, off int64) lines {
	return lines{f: f, off: off, buf: make([]byte, readSize)}
}

// next returns a line with its line break, valid until the next call. What is behind
// the last line break is no line yet: then next returns io.EOF, with off at its
// beginning.
func (l *lines) next() ([]byte, error) {
	seen := 0
	for {
		if i := bytes.IndexByte(l.buf[l.r+seen:l.w], '\n'); i >= 0 {
			line := l.buf[l.r : l.r+seen+i+1]
			l.r += len(line)
			l.off += int64(len(line))
			return line, nil
		}
		seen = l.w - l.r
		if err := l.fill(); err != nil {
			// The writer may cut what stands there and write something else, so
			// that it must not be put together with what comes later.
			l.tail = l.buf[l.r:l.w]
			l.r, l.w = 0, 0
			return nil, err
		}
	}
}

// fill reads more behind what the buffer holds.
func (l *lines) fill() error {
	if l.r > 0 {
		l.w = copy(l.buf, l.buf[l.r:l.w])
		l.r = 0
	}
	if l.w >= maxLine {
		return errLong
	}
	if l.w == len(l.buf) {
		l.buf = append(l.buf, make([]byte, len(l.buf))...)
	}
	n, err := l.f.ReadAt(l.buf[l.w:], l.off+int64(l.w))
	l.w += n
	if n > 0 && errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// seek goes on from off.
func (l *lines) seek(off int64) {
	l.r, l.w, l.off = 0, 0, off
}
