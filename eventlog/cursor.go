package eventlog

import (
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/hived/hived/protocol"
)

// cursor reads the events of the log's files one after the other and checks
// every line: its sum, which chains it to the line before, its number, and at
// the beginning of a file the format and the segment before.
type cursor struct {
	lines
	name  string // of the file
	no    int    // number in the file of the last line that was read
	at    Position
	raw   []byte            // the last line that was read, with its line break
	blind bool              // the line before is not known: take the next one as it is
	sha   hash.Hash         // over the file; nil where nobody asks for it
	done  *protocol.Segment // the file before, where it was read as a whole
}

// open goes on with another file, from its beginning.
func (c *cursor) open(name string, f io.ReaderAt) {
	if c.buf == nil {
		c.lines = newLines(f, 0)
	}
	c.seek(0)
	c.f, c.name, c.no, c.raw = f, name, 0, nil
	if c.sha != nil {
		c.sha.Reset()
	}
}

// close ends a sealed segment, which the next file has to confirm.
func (c *cursor) close(first protocol.Seq) {
	c.done = &protocol.Segment{
		Name:   segmentName(first),
		First:  first,
		Last:   c.at.Seq,
		SHA256: hex.EncodeToString(c.sha.Sum(nil)),
	}
}

// read gives the next event. io.EOF is the end of the file, with off behind the
// last line break. After a *Damage the cursor stands behind the bad line.
func (c *cursor) read() (Record, error) {
	start := c.off
	var err error
	if c.raw, err = c.next(); err != nil {
		if errors.Is(err, errLong) {
			c.no++
			return Record{}, c.damage(start, err)
		}
		return Record{}, err
	}
	c.no++
	line := c.raw[:len(c.raw)-1]
	ev, sum, err := c.check(line)
	switch {
	case errors.Is(err, ErrFormat):
		return Record{}, fmt.Errorf("%s line %d: %w", c.name, c.no, err)
	case err != nil:
		return Record{}, c.damage(start, err)
	}
	c.at, c.blind, c.done = Position{ev.Seq, sum}, false, nil
	if c.sha != nil {
		c.sha.Write(c.raw)
	}
	return Record{Event: ev, Line: line, Sum: sum, File: c.name, LineNo: c.no}, nil
}

// check looks at one line.
func (c *cursor) check(line []byte) (protocol.Event, protocol.Sum, error) {
	if !c.blind {
		if _, err := protocol.CheckLine(line, c.at.Sum); err != nil {
			return protocol.Event{}, protocol.Sum{}, err
		}
	}
	ev, sum, err := protocol.DecodeLine(line)
	switch {
	case err != nil && !c.blind:
		// The line is the one that was written, and we cannot read it.
		return ev, sum, fmt.Errorf("%w: %w", ErrFormat, err)
	case err != nil:
		return ev, sum, err
	case !c.blind && ev.Seq != c.at.Seq+1:
		return ev, sum, fmt.Errorf("the event has seq %d", ev.Seq)
	case c.no == 1:
		err = c.head(ev)
	}
	return ev, sum, err
}

// head checks the first event of a file.
func (c *cursor) head(ev protocol.Event) error {
	first, ok := ev.Body.(*protocol.HiveEvent)
	switch {
	case !ok || first.Format == 0:
		return errHead
	case first.Format != protocol.LogFormat:
		return fmt.Errorf("%w: format %d", ErrFormat, first.Format)
	case c.done != nil && (first.Segment == nil || *first.Segment != *c.done):
		return errSegment
	}
	return nil
}

// adopt believes the bad line that was just read as far as it can be read, so
// that the next one can be checked.
func (c *cursor) adopt() {
	c.done = nil
	if c.sha != nil {
		c.sha.Write(c.raw)
	}
	if len(c.raw) > 0 {
		if ev, sum, err := protocol.DecodeLine(c.raw[:len(c.raw)-1]); err == nil {
			c.at, c.blind = Position{ev.Seq, sum}, false
			return
		}
	}
	c.at, c.blind = Position{Seq: c.at.Seq + 1}, true
}

func (c *cursor) damage(off int64, err error) *Damage {
	return &Damage{File: c.name, Line: c.no, Seq: c.at.Seq + 1, Offset: off, Err: err}
}

// missing says that a whole file is not there.
func missing(name string) *Damage {
	d := &Damage{File: name, Err: ErrMissing}
	if name == openName {
		d.Remedy = "bring it back from a copy, or let `hived repair --adopt` begin a new log from the files as they stand"
	}
	return d
}
