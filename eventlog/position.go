package eventlog

import (
	"errors"
	"fmt"
	"strings"

	"github.com/hived/hived/protocol"
)

// Position is a reader's place in the log: behind the event with this seq, 0 being
// the beginning. Sum is that event's sum, zero if it is not given.
type Position struct {
	Seq protocol.Seq
	Sum protocol.Sum
}

// String returns SEQ or SEQ:SUM (spec §5).
func (p Position) String() string {
	if p.Sum.IsZero() {
		return p.Seq.String()
	}
	return p.Seq.String() + ":" + p.Sum.String()
}

var errNoSum = errors.New("there is no event 0 and no sum of it")

// ParsePosition reads SEQ or SEQ:SUM, the sum being 32 hex digits.
func ParsePosition(s string) (Position, error) {
	number, digits, given := strings.Cut(s, ":")
	seq, err := protocol.ParseSeq(number)
	if err != nil {
		return Position{}, fmt.Errorf("read position %s: write SEQ or SEQ:SUM: %w", protocol.Quote(s), err)
	}
	if !given {
		return Position{Seq: seq}, nil
	}
	sum, err := protocol.ParseSum(digits)
	if err == nil && (seq == 0 || sum.IsZero()) {
		err = errNoSum
	}
	if err != nil {
		return Position{}, fmt.Errorf("read position %s: write SEQ or SEQ:SUM: %w", protocol.Quote(s), err)
	}
	return Position{seq, sum}, nil
}
