package eventlog

import (
	"errors"
	"io"
	"slices"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
)

// behind passes on the events behind a position, once the event there has proved to
// be the one that is meant.
func behind(after Position, each func(protocol.Event) error) func(Record) error {
	return func(rec Record) error {
		switch {
		case rec.Event.Seq > after.Seq:
			return each(rec.Event)
		case rec.Event.Seq == after.Seq && !after.Sum.IsZero() && rec.Sum != after.Sum:
			return &Mismatch{At: after, Found: rec.Sum}
		}
		return nil
	}
}

// passOver puts the cursor before the file where an event should be, and returns the
// sealed segments from there on. The first lines of the files that it skips show that
// they are there, each following the one before.
func passOver(disk durable.FS, c *cursor, open durable.File, list []protocol.Seq, seq protocol.Seq) ([]protocol.Seq, error) {
	first, err := firstSeq(open)
	if err != nil {
		return nil, err
	}
	from, in := slices.BinarySearch(list, seq)
	if !in {
		from--
	}
	if from+1 == len(list) && first > 0 && first <= seq {
		from++
	}
	if from <= 0 {
		return list, nil
	}
	if list[0] != 1 {
		return nil, missing(segmentPath(1))
	}
	h := &heads{disk: disk, c: cursor{lines: lines{buf: make([]byte, headSize)}}}
	for i, prev := range list[:from] {
		if i+1 < len(list) {
			err = h.sealed(prev, list[i+1])
		} else {
			err = h.file(openName, open, prev, first)
		}
		if err != nil {
			return nil, err
		}
	}
	c.at, c.blind = h.c.at, true
	c.at.Seq--
	return list[from:], nil
}

// headSize is how many bytes of a segment's first line are read at once.
const headSize = 2 << 10

// heads reads the first lines of segments.
type heads struct {
	disk durable.FS
	c    cursor
}

// sealed checks that a sealed segment follows the one that begins with prev.
func (h *heads) sealed(prev, first protocol.Seq) error {
	f, err := h.disk.Open(segmentPath(first))
	if err != nil {
		return err
	}
	return errors.Join(h.file(segmentPath(first), f, prev, first), f.Close())
}

func (h *heads) file(name string, f io.ReaderAt, prev, first protocol.Seq) error {
	c := &h.c
	c.open(name, f)
	c.rest()
	c.at, c.blind = Position{Seq: first - 1}, true
	rec, err := c.read()
	if errors.Is(err, io.EOF) {
		c.no++
		return c.damage(0, errCut)
	}
	if err != nil {
		return err
	}
	e, _ := rec.Event.Body.(*protocol.HiveEvent) // the cursor found it to be one
	switch s := e.Segment; {
	case s != nil && s.First > prev && s.First < first:
		return missing(segmentPath(s.First))
	case s == nil || s.First != prev || s.Last+1 != first || rec.Event.Seq != first:
		c.at.Seq = first - 1
		return c.damage(0, errSegment)
	}
	return nil
}
