package protocol

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Sum chains one line of the log to the one before (spec §5): the first 16
// bytes of SHA-256 over the 32 hex digits of the previous line's sum (nothing
// for the first line) and this line without its sum member and line break.
type Sum [16]byte

// String gives 32 hex digits.
func (s Sum) String() string { return hex.EncodeToString(s[:]) }

// IsZero tells whether there is no sum: before the first line.
func (s Sum) IsZero() bool { return s == Sum{} }

// ParseSum reads what [Sum.String] writes.
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

func chain(prev Sum, line []byte) Sum {
	h := sha256.New()
	if !prev.IsZero() {
		var text [32]byte
		hex.Encode(text[:], prev[:])
		h.Write(text[:])
	}
	h.Write(line)
	var full [32]byte
	return Sum(h.Sum(full[:0])[:16])
}

const sumMember = `,"sum":"`

// tailSize is the length of `,"sum":"<32 hex>"}`.
const tailSize = len(sumMember) + 32 + len(`"}`)

// AppendLine writes an event as a line of the log, line break included, and
// gives its sum, which the next line chains to.
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
	if len(body) > 2 {
		dst = append(dst, ',')
		dst = append(dst, body[1:len(body)-1]...)
	}
	dst = append(dst, '}')
	sum := chain(prev, dst[start:])
	dst = append(dst[:len(dst)-1], sumMember...)
	dst = hex.AppendEncode(dst, sum[:])
	return append(dst, "\"}\n"...), sum, nil
}

var (
	// ErrLine refuses a line that is not an event.
	ErrLine = errors.New("not an event")
	// ErrSum says that a line is not the one that was written, or does not
	// follow the line before it.
	ErrSum = errors.New("the line does not fit its sum")
	// ErrUnknownKind refuses an event that this version does not know.
	ErrUnknownKind = errors.New("unknown kind of event")
)

// DecodeLine reads a line of the log, without its line break, and gives the
// sum that stands in it. It does not check the sum: see [CheckLine].
func DecodeLine(line []byte) (Event, Sum, error) {
	ev, kind, rest, sum, err := splitLine(line)
	if err != nil {
		return Event{}, Sum{}, err
	}
	if ev.Body = newBody(kind); ev.Body == nil {
		return Event{}, Sum{}, fmt.Errorf("%w %s at seq %d: it was written by a newer hived, use that one", ErrUnknownKind, Quote(string(kind)), ev.Seq)
	}
	if err := json.Unmarshal(rest, ev.Body, json.RejectUnknownMembers(true)); err != nil {
		return Event{}, Sum{}, fmt.Errorf("%w: seq %d: %w", ErrLine, ev.Seq, err)
	}
	return ev, sum, nil
}

// CheckLine tells whether a line fits its own sum and the line before it.
func CheckLine(line []byte, prev Sum) (Sum, error) {
	_, _, _, sum, err := splitLine(line)
	if err != nil {
		return Sum{}, err
	}
	bare := append(line[:len(line)-tailSize:len(line)-tailSize], '}')
	if chain(prev, bare) != sum {
		return Sum{}, ErrSum
	}
	return sum, nil
}

// splitLine takes apart the fixed frame that AppendLine writes. rest is the
// body as a JSON object.
func splitLine(line []byte) (ev Event, kind Kind, rest []byte, sum Sum, err error) {
	bad := func(what string) (Event, Kind, []byte, Sum, error) {
		return Event{}, "", nil, Sum{}, fmt.Errorf("%w: %s", ErrLine, what)
	}
	frame, ok := bytes.CutPrefix(line, []byte(`{"seq":`))
	if !ok || len(frame) < tailSize {
		return bad("it does not begin with seq or is cut off")
	}
	tail := frame[len(frame)-tailSize:]
	if !bytes.HasPrefix(tail, []byte(sumMember)) || !bytes.HasSuffix(tail, []byte(`"}`)) {
		return bad("it does not end with a sum")
	}
	if sum, err = ParseSum(string(tail[len(sumMember) : len(sumMember)+32])); err != nil {
		return bad("its sum is not 32 hex digits")
	}
	frame = frame[:len(frame)-tailSize]
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
	if ev.TS, err = time.Parse(stampLayout, string(stamp)); err != nil {
		return bad("its ts is not a time")
	}
	name, frame, ok := bytes.Cut(frame, []byte(`"`))
	if !ok {
		return bad("its kind does not end")
	}
	if len(frame) == 0 {
		return ev, Kind(name), []byte("{}"), sum, nil
	}
	if frame[0] != ',' {
		return bad("its kind is not followed by a comma")
	}
	rest = make([]byte, 0, len(frame)+1)
	rest = append(append(append(rest, '{'), frame[1:]...), '}')
	return ev, Kind(name), rest, sum, nil
}
