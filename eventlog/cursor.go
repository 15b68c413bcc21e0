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
	ahead  ahead
	way    int    // bytes that were read line by line
	name   string // of the file
	format int    // of the file
	no     int    // number of the last line that was read in the file
	at     Position
	raw    []byte            // the last line that was read, with its line break
	blind  bool              // the line before is not known: accept the next one as it is
	sha    hash.Hash         // over the file; nil if it is not needed
	done   *protocol.Segment // the file before, if it was read as a whole
}

// open continues with another file, from its beginning.
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

// close ends a sealed segment; the next file must confirm it.
func (c *cursor) close(first protocol.Seq) {
	c.done = &protocol.Segment{
		Name:   segmentName(first),
		First:  first,
		Last:   c.at.Seq,
		SHA256: hex.EncodeToString(c.sha.Sum(nil)),
	}
}

// seek goes on from off, in the same file.
func (c *cursor) seek(off int64) {
	c.ahead.drop()
	c.lines.seek(off)
}

// rest stops the workers.
func (c *cursor) rest() {
	c.ahead.stop()
	c.way = 0
}

// line reads the next line into raw. The hint is nil if the line was not read ahead.
func (c *cursor) line() (*hint, error) {
	h := c.ahead.take()
	if h == nil && c.way >= aheadFrom && c.ahead.start(c.f, c.off, c.at.Sum) {
		c.lines.seek(c.off)
		h = c.ahead.take()
	}
	if h != nil {
		c.raw = h.line
		c.off += int64(len(h.line))
		return h, nil
	}
	var err error
	c.raw, err = c.next()
	c.way += len(c.raw)
	return nil, err
}

// read returns the next event, or io.EOF at the end of the file, with off behind the
// last line break. After a *Damage the cursor is behind the bad line.
func (c *cursor) read() (Record, error) {
	start := c.off
	hint, err := c.line()
	if err != nil {
		if errors.Is(err, errLong) {
			c.no++
			return Record{}, c.damage(start, err)
		}
		return Record{}, err
	}
	c.no++
	line := c.raw[:len(c.raw)-1]
	ev, sum, value, err := c.check(line, hint)
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
	return Record{Event: ev, Line: line, Sum: sum, File: c.name, LineNo: c.no, Value: value}, nil
}

// check checks one line, or uses the hint about it.
func (c *cursor) check(line []byte, h *hint) (ev protocol.Event, sum protocol.Sum, value any, err error) {
	known := h != nil && h.fits && !c.blind && h.prev == c.at.Sum
	if known {
		ev, sum, value = h.ev, h.sum, h.value
	} else if ev, sum, err = c.decode(line); err != nil {
		return ev, sum, nil, err
	}
	switch {
	case !c.blind && ev.Seq != c.at.Seq+1:
		err = fmt.Errorf("the event has seq %d", ev.Seq)
	case c.no == 1:
		err = c.head(ev)
	}
	if err == nil && !known && c.ahead.work != nil {
		value = c.ahead.work(ev)
	}
	return ev, sum, value, err
}

// decode reads one line and, if the one before is known, checks its sum.
func (c *cursor) decode(line []byte) (protocol.Event, protocol.Sum, error) {
	if c.blind {
		return protocol.DecodeLine(line)
	}
	if _, err := protocol.CheckLine(line, c.at.Sum); err != nil {
		return protocol.Event{}, protocol.Sum{}, err
	}
	ev, sum, err := protocol.DecodeLine(line)
	if err != nil {
		// The line is the one that was written, and we cannot read it.
		err = fmt.Errorf("%w: %w; use that one", ErrFormat, err)
	}
	return ev, sum, err
}

// head checks the first event of a file.
func (c *cursor) head(ev protocol.Event) error {
	first, ok := ev.Body.(*protocol.HiveEvent)
	switch {
	case !ok || first.Format == 0:
		return errHead
	case protocol.CheckFormat(first.Format) != nil:
		return fmt.Errorf("%w: %w", ErrFormat, protocol.CheckFormat(first.Format))
	case first.Format < c.format:
		return errFormatBack // hived never goes back
	case c.done != nil && (first.Segment == nil || *first.Segment != *c.done):
		return errSegment
	}
	c.format = first.Format
	return nil
}

// adopt takes what can be read of the bad line that was just read, so that the next
// one can be checked.
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

// missing returns the damage that a whole file is missing.
func missing(name string) *Damage {
	d := &Damage{File: name, Err: ErrMissing}
	if name == openName {
		d.Remedy = "bring it back from a copy, or let `hived repair --adopt` begin a new log from the files as they stand"
	}
	return d
}
