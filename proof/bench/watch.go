package bench

import (
	"fmt"
	"io"
	"time"
)

// Watch shows how far a run is: a line for each row, and on a terminal one line
// that is written over.
type Watch struct {
	W    io.Writer
	Over bool // there is a terminal, where the line before is written over

	row   string
	drawn time.Time
}

// Tell takes what the run says of itself.
func (b *Watch) Tell(p Progress) {
	fresh := p.Row != b.row
	b.row = p.Row
	line := fmt.Sprintf("%s, about %s left", p.Row, p.Left.Round(time.Second))
	switch {
	case !b.Over && fresh:
		_, _ = fmt.Fprintf(b.W, "hived: %s\n", line) // nobody misses it
	case b.Over && (fresh || time.Since(b.drawn) > 100*time.Millisecond):
		b.drawn = time.Now()
		_, _ = fmt.Fprintf(b.W, "%shived: %s (%.0f %%, %s)", eraseLine, line, 100*p.Share, p.Doing) // nobody misses it
	}
}

// eraseLine goes back to the beginning of a terminal's line and empties it.
const eraseLine = "\r\x1b[K"

// End takes away the line that was written over.
func (b *Watch) End() {
	if b.Over {
		_, _ = io.WriteString(b.W, eraseLine) // nobody misses it
	}
}
