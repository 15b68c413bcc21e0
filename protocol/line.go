package protocol

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Sum chains one line of the log to the one before (spec §5): the first 16
// bytes of SHA-256 over the 32 hex digits of the previous line's sum (nothing
// for the first line) and this line without its sum member and line break.
type Sum [16]byte

// String returns 32 hex digits.
func (s Sum) String() string { return hex.EncodeToString(s[:]) }

// IsZero reports whether there is no sum, as before the first line.
func (s Sum) IsZero() bool { return s == Sum{} }

// ParseSum parses what [Sum.String] returns.
func ParseSum(s string) (Sum, error) {
	var sum Sum
	if len(s) != 2*len(sum) {
		return sum, fmt.Errorf("read sum %s: it has not 32 hex digits", Quote(s))
	}
	if _, err := hex.Decode(sum[:], []byte(s)); err != nil {
		return Sum{}, fmt.Errorf("read sum %s: %w", Quote(s), err)
	}
	return sum, nil
}

// chain returns the sum of a line that lacks only its closing brace.
func chain(prev Sum, open []byte) Sum {
	c, _ := chains.Get().(*chainer)
	c.sha.Reset()
	if !prev.IsZero() {
		hex.Encode(c.buf[:], prev[:])
		c.sha.Write(c.buf[:])
	}
	c.sha.Write(open)
	c.sha.Write(brace)
	sum := Sum(c.sha.Sum(c.buf[:0])[:16])
	chains.Put(c)
	return sum
}

// chainer is kept for the next line: one is needed for each.
type chainer struct {
	sha hash.Hash
	buf [sha256.Size]byte // the sum before in hex, or the sum
}

var (
	chains = sync.Pool{New: func() any { return &chainer{sha: sha256.New()} }}
	brace  = []byte{'}'}
)

const (
	sumMember  = `,"sum":"`
	moreMember = `,"more":true`
)

// tailSize is the length of `,"sum":"<32 hex>"}`.
const tailSize = len(sumMember) + 32 + len(`"}`)

// AppendLine appends an event to dst as a line of the log, line break included, and
// returns its sum, which the next line chains to.
func AppendLine(dst []byte, ev Event, prev Sum) ([]byte, Sum, error) {
	body, err := json.Marshal(ev.Body, jsontext.EscapeForJS(true), json.Deterministic(true))
	if err != nil {
		return dst, Sum{}, fmt.Errorf("write event %d: %w", ev.Seq, err)
	}
	start := len(dst)
	dst = append(dst, `{"seq":`...)
	dst = append(dst, ev.Seq.String()...)
	dst = append(dst, `,"ts":"`...)
	dst = append(dst, Stamp(ev.TS)...)
	dst = append(dst, `","kind":"`...)
	dst = append(dst, ev.Body.Kind()...)
	dst = append(dst, '"')
	if ev.More {
		dst = append(dst, moreMember...)
	}
	if len(body) > 2 {
		dst = append(dst, ',')
		dst = append(dst, body[1:len(body)-1]...)
	}
	sum := chain(prev, dst[start:])
	dst = append(dst, sumMember...)
	dst = hex.AppendEncode(dst, sum[:])
	return append(dst, "\"}\n"...), sum, nil
}

var (
	// ErrLine means that a line is not an event.
	ErrLine = errors.New("not an event")
	// ErrSum means that a line is not the one that was written, or does not
	// follow the line before it.
	ErrSum = errors.New("the line does not fit its sum")
	// ErrUnknownKind means that this version does not know the kind of an event.
	ErrUnknownKind = errors.New("unknown kind of event")
)

// DecodeLine decodes a line of the log, without its line break, and returns the event
// and the sum in it. It does not check the sum: see [CheckLine].
func DecodeLine(line []byte) (Event, Sum, error) {
	frame, sum, err := cutSum(line)
	if err != nil {
		return Event{}, Sum{}, err
	}
	ev, kind, members, err := splitFrame(frame)
	if err != nil {
		return Event{}, Sum{}, err
	}
	if ev.Body = newBody(kind); ev.Body == nil {
		return Event{}, Sum{}, fmt.Errorf("%w %s at seq %d", ErrUnknownKind, Quote(string(kind)), ev.Seq)
	}
	// The decoder copies what it keeps, so the object can be assembled in a buffer
	// that is reused.
	object, _ := objects.Get().(*[]byte)
	*object = append(append(append((*object)[:0], '{'), members...), '}')
	err = json.Unmarshal(*object, ev.Body, json.RejectUnknownMembers(true))
	if cap(*object) <= objectKept {
		objects.Put(object)
	}
	if err != nil {
		return Event{}, Sum{}, fmt.Errorf("%w: seq %d: %w", ErrLine, ev.Seq, err)
	}
	return ev, sum, nil
}

// objectKept bounds the memory that a huge line leaves behind, in bytes.
const objectKept = 1 << 20

var objects = sync.Pool{New: func() any { return new([]byte) }}

// SumOf returns the sum in a line, without its line break, to which the next line
// chains. It checks nothing.
func SumOf(line []byte) (Sum, error) {
	_, sum, err := cutSum(line)
	return sum, err
}

// CheckLine checks that a line, without its line break, fits its own sum and the line
// before it, whose sum is prev, and returns its sum. The error wraps [ErrSum] or
// [ErrLine].
func CheckLine(line []byte, prev Sum) (Sum, error) {
	frame, sum, err := cutSum(line)
	if err != nil {
		return Sum{}, err
	}
	if chain(prev, frame) != sum {
		return Sum{}, ErrSum
	}
	return sum, nil
}

var (
	errNoSum    = fmt.Errorf("%w: it does not end with a sum", ErrLine)
	errSumDigit = fmt.Errorf("%w: its sum is not 32 hex digits", ErrLine)
)

// cutSum removes the sum and the closing brace from the end of a line.
func cutSum(line []byte) (frame []byte, sum Sum, err error) {
	n := len(line) - tailSize
	if n < 0 {
		return nil, Sum{}, errNoSum
	}
	tail := line[n:]
	digits := tail[len(sumMember) : len(sumMember)+32]
	if string(tail[:len(sumMember)]) != sumMember || string(tail[tailSize-2:]) != `"}` {
		return nil, Sum{}, errNoSum
	}
	if _, err := hex.Decode(sum[:], digits); err != nil || hasCapital(digits) {
		return nil, Sum{}, errSumDigit
	}
	return line[:n:n], sum, nil
}

// hasCapital reports whether hex digits have capitals, a second way to write a sum.
func hasCapital(digits []byte) bool {
	for _, c := range digits {
		if c >= 'A' && c <= 'F' {
			return true
		}
	}
	return false
}

// splitFrame parses the fixed frame that AppendLine writes. members is the body as a
// JSON object without its braces.
func splitFrame(frame []byte) (ev Event, kind Kind, members []byte, err error) {
	bad := func(what string) (Event, Kind, []byte, error) {
		return Event{}, "", nil, fmt.Errorf("%w: %s", ErrLine, what)
	}
	frame, ok := bytes.CutPrefix(frame, []byte(`{"seq":`))
	if !ok {
		return bad("it does not begin with seq")
	}
	number, frame, ok := bytes.Cut(frame, []byte(`,"ts":"`))
	if !ok {
		return bad("it has no ts")
	}
	if ev.Seq, err = ParseSeq(string(number)); err != nil || ev.Seq == 0 || number[0] == '0' || number[0] == '+' {
		return bad("its seq is not a number from 1")
	}
	stamp, frame, ok := bytes.Cut(frame, []byte(`","kind":"`))
	if !ok {
		return bad("it has no kind")
	}
	if ev.TS, ok = parseStamp(string(stamp)); !ok {
		return bad("its ts is not a time")
	}
	name, frame, ok := bytes.Cut(frame, []byte(`"`))
	if !ok {
		return bad("its kind does not end")
	}
	if rest, more := bytes.CutPrefix(frame, []byte(moreMember)); more {
		ev.More, frame = true, rest
	}
	if len(frame) > 0 && frame[0] != ',' {
		return bad("its kind is not followed by a comma")
	}
	return ev, Kind(name), bytes.TrimPrefix(frame, []byte{','}), nil
}
