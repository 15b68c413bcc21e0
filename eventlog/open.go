package eventlog

import (
	"errors"
	"fmt"
	"io"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
)

// Recovery is what [Open] had to repair.
type Recovery struct {
	// Torn is where the torn last line was moved to, below the hive; empty if
	// there was none (spec §5). Nobody was ever told that its event was
	// accepted. The caller logs it.
	Torn      string
	TornBytes int64
}

// Open reads the whole log, checks every line, and calls each with every event; an
// error from each ends it. Before it trusts the open segment it makes it durable
// again: after a failed sync, what is read back may not be on the disk. It undoes a
// sealing that a crash interrupted, and sets aside a torn last line and what another
// program wrote between the events of the open segment, see [Log.Foreign]. For any
// other damage the error is a [*Damage], and for a log of another version
// [ErrFormat]. Nothing else may write to the hive meanwhile.
//
// With Options.After it reads from the beginning of the segment where that position
// is, and only the first lines of the segments before it, which show whether one is
// missing. If the position is not one of this log, the error is a [*Mismatch], and
// no end was cut: the caller opens it again without the position.
func Open(disk durable.FS, opt Options, each func(protocol.Event) error) (*Log, Recovery, error) {
	l := newLog(disk, opt)
	found, err := l.open(behind(opt.After, each), opt.After)
	if err != nil {
		if l.file != nil {
			err = errors.Join(err, l.file.Close())
		}
		return nil, Recovery{}, fmt.Errorf("open the log: %w", err)
	}
	return l, found, nil
}

func (l *Log) open(each func(Record) error, after Position) (Recovery, error) {
	if err := settle(l.disk); err != nil {
		return Recovery{}, err
	}
	list, err := segments(l.disk)
	if err != nil {
		return Recovery{}, err
	}
	c := &cursor{sha: l.sha}
	defer c.rest()
	if l.file, err = l.disk.Append(openName); err != nil {
		return Recovery{}, err
	}
	if list, err = passOver(l.disk, c, l.file, list, after.Seq); err != nil {
		return Recovery{}, err
	}
	for _, first := range list {
		if err := readSealed(l.disk, c, first, each); err != nil {
			return Recovery{}, err
		}
	}
	if err := gap(c, l.file); err != nil {
		return Recovery{}, err
	}
	l.first = c.at.Seq + 1
	c.open(openName, l.file)
	found, err := l.readOpen(c, each, after)
	l.at, l.size, l.format = c.at, c.off, c.format
	return found, err
}

// settle brings the files into the state that they have if nothing went wrong, with
// every byte of the open segment durable.
func settle(disk durable.FS) error {
	f, err := openLog(disk)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // nothing was written to it
	if err := undoSeal(disk, f); err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	return replace(disk, openName, f, info.Size)
}

// readSealed reads one sealed segment as a whole.
func readSealed(disk durable.FS, c *cursor, first protocol.Seq, each func(Record) error) error {
	if first > c.at.Seq+1 {
		return missing(segmentPath(c.at.Seq + 1))
	}
	f, err := disk.Open(segmentPath(first))
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // nothing was written to it
	c.open(segmentPath(first), f)
	if err := readAll(c, each); err != nil {
		return err
	}
	if len(c.tail) > 0 || c.no == 0 {
		c.no++
		return c.damage(c.off, errCut)
	}
	c.close(first)
	return nil
}

// readAll reads to the last line break of a file.
func readAll(c *cursor, each func(Record) error) error {
	for {
		rec, err := c.read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = each(rec)
		}
		if err != nil {
			return err
		}
	}
}

// readOpen reads the open segment and repairs its end.
func (l *Log) readOpen(c *cursor, each func(Record) error, after Position) (Recovery, error) {
	bad, err := l.readToTear(c, each)
	if err == nil && c.at.Seq < after.Seq {
		err = &Mismatch{At: after}
	}
	if err != nil || bad < 0 {
		return Recovery{}, err
	}
	info, err := l.file.Stat()
	if err != nil {
		return Recovery{}, err
	}
	kept, err := keep(l.disk, tornName(c.at.Seq+1), l.file, bad, info.Size)
	if err != nil {
		return Recovery{}, fmt.Errorf("set a torn line aside: %w", err)
	}
	// The cut needs no sync: the next Append has one, and until then the same
	// is torn again.
	c.seek(bad)
	return Recovery{Torn: kept, TornBytes: info.Size - bad}, l.file.Truncate(bad)
}

// gap finds out whether a sealed segment is missing before the open one.
func gap(c *cursor, open io.ReaderAt) error {
	first, err := firstSeq(open)
	if err == nil && first > c.at.Seq+1 {
		err = missing(segmentPath(c.at.Seq + 1))
	}
	return err
}

// readToTear reads the open segment, removes foreign bytes, and returns the offset
// where what a crash left begins, -1 if it left nothing.
func (l *Log) readToTear(c *cursor, each func(Record) error) (int64, error) {
	w := decisionReader{c: c, each: each}
	for {
		err := w.read()
		var bad *Damage
		switch {
		case err == nil && len(c.tail) == 0 && c.no > 0:
			return w.back(-1)
		case err == nil:
			c.no++
			bad = c.damage(c.off, errCut)
		case !errors.As(err, &bad):
			return -1, err
		}
		if bad.Offset == 0 {
			return -1, bad // a new file is renamed over log.jsonl when its first line is durable
		}
		left, err := torn(c.f, bad.Offset, c.at.Sum)
		if err != nil {
			return -1, err
		}
		if left {
			return w.back(bad.Offset)
		}
		foreign, err := l.strip(c, bad)
		if err != nil {
			return -1, err
		}
		if !foreign {
			return -1, bad
		}
	}
}

// decisionReader passes on the events of a decision once its last one was read: a crash can
// have left the first of them whole and the others not, and then nobody was told
// about any of them (spec §5).
type decisionReader struct {
	c    *cursor
	each func(Record) error
	held []Record
	// Where the held events begin.
	off int64
	no  int
	at  Position
}

func (w *decisionReader) read() error {
	for {
		if len(w.held) == 0 {
			w.off, w.no, w.at = w.c.off, w.c.no, w.c.at
		}
		rec, err := w.c.read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		w.held = append(w.held, rec)
		if rec.Event.More {
			continue
		}
		for _, rec := range w.held {
			rec.Line = nil // it is not there any more
			if err := w.each(rec); err != nil {
				return err
			}
		}
		w.held = w.held[:0]
	}
}

// back returns where the torn end begins: at bad, or where the incomplete decision
// begins.
func (w *decisionReader) back(bad int64) (int64, error) {
	if len(w.held) == 0 {
		return bad, nil
	}
	w.c.seek(w.off)
	w.c.no, w.c.at = w.no, w.at
	w.c.sha.Reset()
	_, err := io.Copy(w.c.sha, io.NewSectionReader(w.c.f, 0, w.off))
	return w.off, err
}
