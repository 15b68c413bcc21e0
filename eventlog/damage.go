package eventlog

import (
	"errors"
	"fmt"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
)

var (
	// ErrMissing means that the hive has no log.jsonl, which is damage (spec
	// §5). It is wrapped in a [*Damage].
	ErrMissing = errors.New("the file is missing")
	// ErrFormat means that another version of hived wrote the log: its format
	// or the kind of an event is unknown here (spec §5).
	ErrFormat = errors.New("the log was written by another version of hived")
	// ErrBroken is returned by every call after a sync of the log, or the cut
	// of a half-written line, has failed: nobody knows what is on the disk
	// until [Open] has read it (invariant 6). It wraps [durable.ErrSync].
	ErrBroken = fmt.Errorf("the log takes no more events until it is opened again: %w", durable.ErrSync)
)

var (
	errCut     = errors.New("the line is cut off")
	errLong    = errors.New("the line is over 64 MiB long")
	errSegment = errors.New("the line does not fit the sealed segment before it")
	errHead    = errors.New("the first line of the file does not tell the format of the log")
	errClosed  = errors.New("the log is closed")

	errFormatBack = errors.New("its format is lower than that of the segment before it")
)

// Damage is a place where the log is not what was written (spec §5).
type Damage struct {
	File   string       // below the hive
	Line   int          // in the file, from 1; 0 if it is about the whole file
	Seq    protocol.Seq // of the event that should be there
	Offset int64        // of the line in the file, in bytes
	Remedy string       // what to do; empty for `hived repair`
	Err    error        // what is wrong
}

// Error returns one line: what is wrong, where, and what to do.
func (d *Damage) Error() string {
	remedy := d.Remedy
	if remedy == "" {
		remedy = "run `hived repair`"
	}
	if d.Line == 0 {
		return fmt.Sprintf("the log is damaged: %s: %v: %s", d.File, d.Err, remedy)
	}
	return fmt.Sprintf("the log is damaged: %s line %d (seq %d): %v: %s", d.File, d.Line, d.Seq, d.Err, remedy)
}

// Unwrap returns Err.
func (d *Damage) Unwrap() error { return d.Err }

// Mismatch is the error that a reader's position is not one of this log: the log was
// restored from a backup, or a power cut took back an event that was not durable yet
// when it was read.
type Mismatch struct {
	At    Position     // what the reader asked for
	Found protocol.Sum // the sum there; zero if the log is shorter
}

// Error returns one line.
func (m *Mismatch) Error() string {
	if m.Found.IsZero() {
		return fmt.Sprintf("read the log after %s: it ends before: begin again from an earlier position", m.At)
	}
	return fmt.Sprintf("read the log after %s: the sum of that event is %s here: begin again from an earlier position", m.At, m.Found)
}
