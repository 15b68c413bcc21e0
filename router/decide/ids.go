package decide

import (
	"fmt"
	"io"
	"time"

	"github.com/oklog/ulid/v2"
)

// ids generates ULIDs, each larger than the one before even if the clock goes back
// (spec §3, order).
type ids struct {
	entropy io.Reader
	last    ulid.ULID
}

// newIDs returns a generator that goes on after last, the largest id so far.
func newIDs(entropy io.Reader, last ulid.ULID) *ids { return &ids{entropy: entropy, last: last} }

// next returns an id for a time.
func (g *ids) next(now time.Time) (ulid.ULID, error) {
	var id ulid.ULID
	ms := ulid.Timestamp(now)
	if ms > g.last.Time() {
		var err error
		if id, err = ulid.New(ms, g.entropy); err != nil {
			return id, fmt.Errorf("draw an id: %w", err)
		}
	} else {
		id = g.last
		for i := len(id) - 1; i >= 0; i-- {
			id[i]++
			if id[i] != 0 {
				break
			}
		}
	}
	g.last = id
	return id, nil
}
