package ledger

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"hash"
	"io"
	"math"
	"time"
)

// A snapshot is a sequence of varints (7 bits a byte, lowest first), fixed
// numbers of eight bytes (lowest first), and texts and bytes, preceded by their
// length where it is not known. It ends with the SHA-256 of everything before.

// buffered is how many bytes are read and written at once, and the length of the
// longest text.
const buffered = 1 << 16

var (
	errTooLong = errors.New("a text is too long for it")
	errShort   = errors.New("it ends too early")
	errNumber  = errors.New("a number is not written as it should be")
	errSum     = errors.New("its checksum does not fit")
	errMore    = errors.New("something follows behind its end")
)

// sink writes a snapshot. The first error stays.
type sink struct {
	w   io.Writer
	sum hash.Hash
	buf []byte
	err error
}

func newSink(w io.Writer) *sink {
	return &sink{w: w, sum: sha256.New(), buf: make([]byte, 0, 2*buffered)}
}

func (o *sink) fail(err error) {
	if o.err == nil {
		o.err = err
	}
}

// passOn empties the buffer if it has no room for so many bytes more.
func (o *sink) passOn(more int) {
	if len(o.buf)+more <= buffered {
		return
	}
	o.sum.Write(o.buf)
	if o.err == nil {
		_, err := o.w.Write(o.buf)
		o.fail(err)
	}
	o.buf = o.buf[:0]
}

func (o *sink) bytes(b []byte) {
	if len(b) > buffered {
		o.fail(errTooLong)
		return
	}
	o.passOn(len(b))
	o.buf = append(o.buf, b...)
}

func (o *sink) number(n uint64) {
	o.passOn(binary.MaxVarintLen64)
	o.buf = binary.AppendUvarint(o.buf, n)
}

func (o *sink) fixed(n uint64) {
	o.passOn(8)
	o.buf = binary.LittleEndian.AppendUint64(o.buf, n)
}

func (o *sink) text(s string) {
	if len(s) > buffered {
		o.fail(errTooLong)
		return
	}
	o.number(uint64(len(s)))
	o.passOn(len(s))
	o.buf = append(o.buf, s...)
}

// long writes bytes of any length.
func (o *sink) long(b []byte) {
	o.number(uint64(len(b)))
	for len(b) > 0 {
		n := min(len(b), buffered)
		o.bytes(b[:n])
		b = b[n:]
	}
}

func (o *sink) flag(set bool) {
	var n uint64
	if set {
		n = 1
	}
	o.number(n)
}

func (o *sink) instant(i instant) { o.fixed(uint64(i)) } //nolint:gosec // the same bits

func (o *sink) time(t time.Time) {
	o.fixed(uint64(t.Unix()))        //nolint:gosec // the same bits
	o.number(uint64(t.Nanosecond())) //nolint:gosec // not negative
}

// close writes the checksum.
func (o *sink) close() error {
	o.passOn(buffered)
	sum := o.sum.Sum(nil)
	o.bytes(sum)
	o.passOn(buffered)
	return o.err
}

// source reads a snapshot, which may be damaged in any way. It takes no more
// memory than there are bytes to read. The first error stays, and from then on
// every value is zero.
type source struct {
	r               io.Reader // nil: what is in the buffer is all
	sum             hash.Hash
	buf             []byte
	summed, at, end int // of the buffer
	err             error
}

func newSource(r io.Reader) *source {
	return &source{r: r, sum: sha256.New(), buf: make([]byte, buffered)}
}

func (in *source) fail(err error) {
	if err != nil && in.err == nil {
		in.err = err
	}
}

// check fails unless something holds.
func (in *source) check(holds bool, otherwise string) {
	if !holds {
		in.fail(errors.New(otherwise))
	}
}

// fill makes sure that so many bytes are in the buffer.
func (in *source) fill(n uint64) bool {
	switch {
	case in.err != nil:
		return false
	case n <= uint64(in.end-in.at): //nolint:gosec // not negative
		return true
	case in.r == nil || n > uint64(len(in.buf)):
		in.fail(errShort)
		return false
	}
	in.sum.Write(in.buf[in.summed:in.at])
	in.end = copy(in.buf, in.buf[in.at:in.end])
	in.summed, in.at = 0, 0
	more, err := io.ReadAtLeast(in.r, in.buf[in.end:], int(n)-in.end) //nolint:gosec // at most the buffer
	in.end += more
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = errShort
	}
	if err != nil {
		in.fail(err)
	}
	return err == nil
}

// take returns the next bytes, until the next call; none after an error.
func (in *source) take(n uint64) []byte {
	if !in.fill(n) {
		return nil
	}
	b := in.buf[in.at : in.at+int(n)] //nolint:gosec // at most the buffer
	in.at += int(n)                   //nolint:gosec // at most the buffer
	return b
}

func (in *source) bytes(b []byte) { copy(b, in.take(uint64(len(b)))) }

func (in *source) byte() byte {
	var b [1]byte
	in.bytes(b[:])
	return b[0]
}

func (in *source) number() uint64 {
	var n uint64
	for shift := 0; ; shift += 7 {
		b := in.byte()
		if b == 0 && shift > 0 || shift == 63 && b > 1 {
			in.fail(errNumber)
			return 0
		}
		n |= uint64(b&0x7f) << shift
		if b < 0x80 {
			return n
		}
	}
}

// short reads a number of 32 bits.
func (in *source) short() uint32 {
	n := in.number()
	if n > math.MaxUint32 {
		in.fail(errNumber)
		return 0
	}
	return uint32(n)
}

func (in *source) fixed() uint64 {
	var b [8]byte
	in.bytes(b[:])
	return binary.LittleEndian.Uint64(b[:])
}

func (in *source) text() string { return string(in.take(in.number())) }

// long reads bytes of any length, piece by piece, so that a wrong length costs no
// memory.
func (in *source) long() []byte {
	var all []byte
	for n := in.number(); n > 0 && in.err == nil; {
		part := min(n, buffered)
		all = append(all, in.take(part)...)
		n -= part
	}
	return all
}

func (in *source) flag() bool {
	n := in.number()
	in.check(n <= 1, "a flag is neither yes nor no")
	return n == 1
}

func (in *source) instant() instant { return instant(in.fixed()) } //nolint:gosec // the same bits

func (in *source) time() time.Time {
	s, ns := in.fixed(), in.short()
	in.check(ns < uint32(time.Second), "a time has too many nanoseconds")
	return time.Unix(int64(s), int64(ns)).UTC() //nolint:gosec // the same bits
}

// close compares what was read with its checksum.
func (in *source) close() error {
	in.sum.Write(in.buf[in.summed:in.at])
	in.summed = in.at
	sum := in.sum.Sum(nil)
	want := in.take(sha256.Size)
	switch {
	case in.err != nil:
		return in.err
	case !bytes.Equal(sum, want):
		return errSum
	case in.fill(1):
		return errMore
	case !errors.Is(in.err, errShort):
		return in.err
	}
	return nil
}
