package eventlog

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"time"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/failpoint"
	"github.com/hived/hived/protocol"
)

// Options are the settings of a log.
type Options struct {
	SegmentBytes int64 // size at which the open segment is due for sealing; 0 is 8 MiB
	// After is the last event that the caller of [Open] knows: Open passes on
	// what comes after it, and does not read the segments before it. [Create]
	// ignores it.
	After Position
}

// bufferKept bounds the memory that a huge batch leaves behind, in bytes.
const bufferKept = 16 << 20

// Log is the log, open for writing. It is for one goroutine, which holds the hive's
// lock. [Create] makes a new one, [Open] opens one.
type Log struct {
	disk  durable.FS
	limit int64 // of the open segment, in bytes

	file   durable.File // the open segment, for appending
	first  protocol.Seq // of its first event
	format int          // of its lines
	size   int64        // of what is durable in it
	sha    hash.Hash    // over that
	at     Position     // the last durable event
	buf    []byte
	err    error // why nothing more is taken

	foreign []Foreign // set aside, and not returned by [Log.Foreign] yet
}

func newLog(disk durable.FS, opt Options) *Log {
	limit := opt.SegmentBytes
	if limit <= 0 {
		limit = 8 << 20
	}
	return &Log{disk: disk, limit: limit, sha: sha256.New()}
}

// Create begins a log with the given events, as seq 1 and following, durable when it
// returns. The first of them is a `hive` event with Format. If there is a log
// already, or a sealed segment of one, the error is [fs.ErrExist].
func Create(disk durable.FS, opt Options, ts time.Time, bodies ...protocol.Body) (*Log, []protocol.Event, error) {
	l := newLog(disk, opt)
	evs := make([]protocol.Event, len(bodies))
	for i, body := range bodies {
		evs[i] = protocol.Event{Seq: protocol.Seq(i + 1), TS: ts, Body: body}
	}
	if err := l.create(evs); err != nil {
		return nil, nil, fmt.Errorf("create the log: %w", err)
	}
	return l, evs, nil
}

func (l *Log) create(evs []protocol.Event) error {
	if len(evs) == 0 {
		return errHead
	}
	if first, ok := evs[0].Body.(*protocol.HiveEvent); !ok || protocol.CheckFormat(first.Format) != nil {
		return errHead
	} else {
		l.format = first.Format
	}
	list, err := segments(l.disk)
	if err != nil {
		return err
	}
	if len(list) > 0 {
		return fmt.Errorf("%s: %w", segmentPath(list[0]), fs.ErrExist)
	}
	sums, err := l.encode(evs, l.format)
	if err != nil {
		return err
	}
	if err := writeTemp(l.disk, bytes.NewReader(l.buf), int64(len(l.buf))); err != nil {
		return err
	}
	// A log that is there already is not replaced.
	if err := l.disk.RenameNew(tempName, openName); err != nil {
		return errors.Join(err, l.disk.Remove(tempName))
	}
	if err := l.disk.SyncDir("."); err != nil {
		return err
	}
	if l.file, err = l.disk.Append(openName); err != nil {
		return err
	}
	l.first = 1
	l.advance(evs, sums)
	return nil
}

// Append makes events durable, with one write and one sync for all of them, and
// returns their sums. Their seqs are Next and following. If it fails, none of them is
// in the log, and the same seqs can be appended again; on a full disk the error is
// [durable.ErrNoSpace]. If a sync fails, or the cut of what was half written, nobody
// knows what is in the log: the error is [ErrBroken], from then on for every call.
func (l *Log) Append(evs []protocol.Event) ([]protocol.Sum, error) {
	if l.err != nil {
		return nil, l.err
	}
	if len(evs) == 0 {
		return nil, nil
	}
	sums, err := l.encode(evs, l.format)
	if err == nil {
		err = l.write()
	}
	if err != nil {
		return nil, fmt.Errorf("append seq %d: %w", evs[0].Seq, err)
	}
	l.advance(evs, sums)
	return sums, nil
}

// encode fills the buffer with the lines of events, for a segment of a format. An
// event that such a segment cannot hold is a bug of the caller.
func (l *Log) encode(evs []protocol.Event, format int) ([]protocol.Sum, error) {
	if cap(l.buf) > bufferKept {
		l.buf = nil
	}
	l.buf = l.buf[:0]
	sums := make([]protocol.Sum, len(evs))
	at := l.at
	for i, ev := range evs {
		if ev.Seq != at.Seq+1 {
			return nil, fmt.Errorf("event %d does not follow event %d", ev.Seq, at.Seq)
		}
		if needs := protocol.FormatOf(ev); needs > format {
			return nil, fmt.Errorf("event %d needs a log of format %d, and its segment has format %d", ev.Seq, needs, format)
		}
		var err error
		if l.buf, at.Sum, err = protocol.AppendLine(l.buf, ev, at.Sum); err != nil {
			return nil, err
		}
		at.Seq, sums[i] = ev.Seq, at.Sum
	}
	return sums, nil
}

// writeTries bounds how often foreign bytes may come in between.
const writeTries = 8

// write makes the buffer durable behind the last event, and removes what others wrote
// to the file.
func (l *Log) write() error {
	info, err := l.file.Stat()
	if err == nil {
		err = l.clear(info.Size)
	}
	if err != nil {
		return err
	}
	for try := 1; ; try++ {
		if _, err := l.file.Write(l.buf); err != nil {
			return l.cutBack(err)
		}
		again, err := l.alone()
		switch {
		case err != nil && l.err == nil:
			// What is half done is cut off: none of it was acknowledged.
			return l.cutBack(err)
		case err != nil:
			return err
		}
		if !again {
			break
		}
		if try == writeTries {
			return errCrowded
		}
	}
	failpoint.Hit(failpoint.LogWritten)
	if err := l.file.Sync(); err != nil {
		return l.broken(err)
	}
	failpoint.Hit(failpoint.LogSynced)
	return nil
}

// cutBack removes what was half written.
func (l *Log) cutBack(err error) error {
	if cut := l.file.Truncate(l.size); cut != nil {
		return l.broken(errors.Join(err, cut))
	}
	return err
}

// advance records that the buffer is durable.
func (l *Log) advance(evs []protocol.Event, sums []protocol.Sum) {
	l.sha.Write(l.buf)
	l.size += int64(len(l.buf))
	last := len(evs) - 1
	l.at = Position{evs[last].Seq, sums[last]}
}

// broken makes every later call fail.
func (l *Log) broken(cause error) error {
	l.err = fmt.Errorf("%w: %w", ErrBroken, cause)
	return l.err
}

// Next returns the seq of the next event.
func (l *Log) Next() protocol.Seq { return l.at.Seq + 1 }

// Sum returns the sum of the last event.
func (l *Log) Sum() protocol.Sum { return l.at.Sum }

// Format returns the format of the open segment.
func (l *Log) Format() int { return l.format }

// Size returns the size of the open segment in bytes.
func (l *Log) Size() int64 { return l.size }

// Due reports whether the open segment has reached the size for sealing.
func (l *Log) Due() bool { return l.size >= l.limit }

// Close closes the file. Everything that was accepted is durable already.
func (l *Log) Close() error {
	if errors.Is(l.err, errClosed) {
		return nil
	}
	l.err = errClosed
	return l.file.Close()
}
