package eventlog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// surety is what a reader knows of the open segment that a power cut cannot take
// back, and what it read of a decision that is not whole yet.
type surety struct {
	durable int64    // so many bytes of the file are on the disk
	named   bool     // its name is
	before  Position // behind which the last read began
	held    []Record
	// Where the held events begin.
	off int64
	no  int
	at  Position
}

// sure is [reader.all] for those who act on what they read: it gives out whole
// decisions that are on the disk. The reader syncs the open segment itself, because
// its writer tells nobody how far it came, and may be dead. A sealed segment was
// durable when it got its name.
func (r *reader) sure(yield func(Record, error) bool) bool {
	for {
		rec, err := r.next()
		if err == nil && r.c.name == openName {
			if r.hold(rec); rec.Event.More {
				continue
			}
			if err = r.sync(); err == nil {
				if !r.release(yield) {
					return false
				}
				continue
			}
		}
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

// hold keeps the event that was just read until its decision is whole.
func (r *reader) hold(rec Record) {
	s := &r.surety
	if len(s.held) == 0 {
		s.off, s.no, s.at = r.c.off-int64(len(r.c.raw)), r.c.no-1, s.before
	}
	if rec.Event.More {
		rec.Line = bytes.Clone(rec.Line) // it is good until the next one is read
	}
	s.held = append(s.held, rec)
}

// release yields what is held, if it is on the disk. If it is not, its writer took
// it back meanwhile, as it does when the disk is full: it is read again.
func (r *reader) release(yield func(Record, error) bool) bool {
	s := &r.surety
	if s.durable < r.c.off {
		r.back()
		return true
	}
	held := s.held
	s.held = nil
	for _, rec := range held {
		if !yield(rec, nil) {
			return false
		}
	}
	clear(held)
	s.held = held[:0]
	return true
}

// back goes to the beginning of a decision that is not whole: who opens the log for
// writing may set it aside.
func (r *reader) back() {
	s := &r.surety
	if len(s.held) == 0 {
		return
	}
	r.c.seek(s.off)
	r.c.no, r.c.at = s.no, s.at
	s.held = s.held[:0]
}

// sync makes durable what was read of the open segment, unless it is. A sync that
// fails leaves in doubt what is on the disk, for its writer too.
func (r *reader) sync() error {
	s := &r.surety
	if r.c.off <= s.durable {
		return nil
	}
	was, err := r.file.Stat()
	if err == nil {
		err = r.file.Sync()
	}
	if err == nil && !s.named {
		err = r.disk.SyncDir(".")
	}
	if err != nil {
		return fmt.Errorf("what follows event %d may not be on the disk, and is not handed out: %w", s.at.Seq, err)
	}
	is, err := r.file.Stat()
	if err != nil {
		return fmt.Errorf("read the log: %w", err)
	}
	s.named, s.durable = true, min(was.Size, is.Size)
	return nil
}
