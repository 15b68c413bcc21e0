package eventlog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"time"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
)

// Record is an event as it is in the log.
type Record struct {
	Event  protocol.Event
	Line   []byte // as it was written, without its line break; valid until the next record
	Sum    protocol.Sum
	File   string // below the hive
	LineNo int    // in the file, from 1
	Value  any    // what the caller's [Work] returned for the event
}

// Read returns an iterator over all events after a position up to the present end of
// the log, in order, across segments, each checked against the one before. A last
// line without line break is being written at this moment: the end is before it. Read
// may be used while the log is written and sealed. The last pair may hold an error
// instead: a [*Damage], a [*Mismatch] if the position does not fit, [ErrFormat], or
// that of the disk. A position beyond the end without a sum has nothing after it yet.
func Read(disk durable.FS, after Position) iter.Seq2[Record, error] {
	return Map(disk, after, nil)
}

// ReadEvent reads the event with a seq.
func ReadEvent(disk durable.FS, seq protocol.Seq) (protocol.Event, error) {
	for rec, err := range Read(disk, Position{Seq: seq - 1}) {
		return rec.Event, err
	}
	return protocol.Event{}, fmt.Errorf("read event %s: it is not in the log", seq)
}

// Map is [Read] with the result of work in each [Record.Value], computed on several
// cores: ledger.Changes, for example, is most of the cost of reading a log.
func Map(disk durable.FS, after Position, work Work) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		r := newReader(disk, after)
		r.c.ahead.work = work
		defer r.end()
		r.all(yield)
	}
}

// Follow is [Read] for those who act on what they read, and continues at the end: it
// waits until wake has something, or poll is over (0 for no polling), and reads on.
// It yields only what no power cut can take back: whole decisions that are on the
// disk, which it syncs itself. It ends with ctx, without an error, and with
// [durable.ErrSync] if nobody can tell what is on the disk.
func Follow(ctx context.Context, disk durable.FS, after Position, wake <-chan struct{}, poll time.Duration) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		r := newReader(disk, after)
		defer r.end()
		for ctx.Err() == nil && r.sure(func(rec Record, err error) bool {
			return ctx.Err() == nil && yield(rec, err)
		}) {
			r.c.rest()
			wait(ctx, wake, poll)
		}
	}
}

// wait returns on wake, after poll, or at the end of ctx.
func wait(ctx context.Context, wake <-chan struct{}, poll time.Duration) {
	var over <-chan time.Time
	if poll > 0 {
		timer := time.NewTimer(poll)
		defer timer.Stop()
		over = timer.C
	}
	select {
	case <-ctx.Done():
	case <-wake:
	case <-over:
	}
}

// reader reads while the log is written. The file that it has open may be sealed,
// cut, or replaced by a copy at any moment; the names and the sums show that.
type reader struct {
	disk  durable.FS
	c     cursor // c.at is the last event that was given out
	file  durable.File
	info  durable.Info // of file, when it was opened
	first protocol.Seq // of the file
	again bool         // reading failed here once and was started again
	fresh bool         // the open segment was opened anew since the last event
	surety
}

func newReader(disk durable.FS, after Position) *reader {
	return &reader{disk: disk, c: cursor{at: after}}
}

func (r *reader) close() {
	if r.file != nil {
		_ = r.file.Close() // nothing was written to it
		r.file = nil
	}
}

// end releases all that reading took.
func (r *reader) end() {
	r.c.rest()
	r.close()
}

// all yields everything up to the present end, and reports whether to go on
// when there is more.
func (r *reader) all(yield func(Record, error) bool) bool {
	for {
		rec, err := r.next()
		switch {
		case errors.Is(err, io.EOF):
			return true
		case err != nil:
			yield(Record{}, err)
			return false
		case !yield(rec, nil):
			return false
		}
	}
}

// next returns the next event. If something does not fit, it looks for its place once
// more, because a writer may have changed the files meanwhile.
func (r *reader) next() (Record, error) {
	for {
		rec, err := r.step()
		if err == nil || errors.Is(err, io.EOF) {
			if err == nil {
				r.again, r.fresh = false, false
			}
			return rec, err
		}
		r.back()
		r.close()
		if r.again || !retriable(err) {
			return Record{}, err
		}
		r.again = true
	}
}

func retriable(err error) bool {
	var bad *Damage
	return errors.As(err, &bad) || errors.Is(err, fs.ErrNotExist)
}

// step reads one event, passing from file to file.
func (r *reader) step() (Record, error) {
	if r.file == nil {
		if err := r.find(); err != nil {
			return Record{}, err
		}
	}
	for {
		r.before = r.c.at
		rec, err := r.c.read()
		switch {
		case errors.Is(err, io.EOF):
			r.back()
			err = r.ended()
		case err != nil && r.c.name == openName:
			err = r.unlessTorn(err)
		}
		if rec.Event.Seq > 0 || err != nil {
			return rec, err
		}
	}
}

// unlessTorn treats what a crash left at the end of the log as its end, and skips
// what another program wrote there: opening the log for writing sets both aside.
func (r *reader) unlessTorn(err error) error {
	var bad *Damage
	if !errors.As(err, &bad) || bad.Offset == 0 {
		return err
	}
	left, tornErr := torn(r.file, bad.Offset, r.c.at.Sum)
	if tornErr == nil && !left {
		var end int64
		if end, left, tornErr = goesOn(r.file, bad.Offset, r.c.at); left && end > 0 {
			r.c.seek(end) // behind what another program wrote
			return nil
		}
		left = left && r.again // a place in the middle of a line is looked for once more
	}
	if !left || tornErr != nil {
		return errors.Join(err, tornErr)
	}
	r.c.seek(bad.Offset)
	r.c.no--
	r.back()
	return r.ended()
}
