package bench

import (
	"fmt"
	"io"
	"time"
)

// Watch shows the progress of a run: a line for each row, or on a terminal one line that
// is overwritten.
type Watch struct {
	W    io.Writer
	Over bool // W is a terminal, on which the last line is overwritten

	row   string
	drawn time.Time
}

// Tell shows the progress of the run.
func (b *Watch) Tell(p Progress) {
	fresh := p.Row != b.row
	b.row = p.Row
	line := fmt.Sprintf("%s, about %s left", p.Row, p.Left.Round(time.Second))
	switch {
	case !b.Over && fresh:
		_, _ = fmt.Fprintf(b.W, "hived: %s\n", line) // progress may get lost
	case b.Over && (fresh || time.Since(b.drawn) > 100*time.Millisecond):
		b.drawn = time.Now()
		_, _ = fmt.Fprintf(b.W, "%shived: %s (%.0f %%, %s)", eraseLine, line, 100*p.Share, p.Doing) // progress may get lost
	}
}

// eraseLine moves to the beginning of a terminal's line and clears it.
const eraseLine = "\r\x1b[K"

// End removes the line that was overwritten.
func (b *Watch) End() {
	if b.Over {
		_, _ = io.WriteString(b.W, eraseLine) // progress may get lost
	}
}
