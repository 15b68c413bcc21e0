package eventlog

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"slices"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
)

// Stats counts what [Check] read.
type Stats struct {
	Events   int
	Segments int   // that are sealed
	Bytes    int64 // in whole lines
	Torn     int64 // bytes after the last whole line: being written, or left by a crash
	Last     protocol.Seq
	Sum      protocol.Sum // of the last event
}

// Check reads the whole log as it is at this moment and reports each place where it
// is not what was written, continuing behind it if it can (spec §5). It calls each
// with the events before the first such place and the results of work; an error from
// each ends the check. Both may be nil. Check may run while the log is written. It
// returns the error of each, of the disk, or [ErrFormat]; damage is reported instead.
func Check(disk durable.FS, work Work, each func(Record) error, report func(*Damage)) (Stats, error) {
	k := &checker{disk: disk, each: each, report: report, c: cursor{sha: sha256.New(), ahead: ahead{work: work}}}
	defer k.c.rest()
	if err := k.run(); err != nil {
		return k.stats, fmt.Errorf("check the log: %w", err)
	}
	k.stats.Last, k.stats.Sum = k.c.at.Seq, k.c.at.Sum
	return k.stats, nil
}

type checker struct {
	disk   durable.FS
	each   func(Record) error
	report func(*Damage)
	c      cursor
	stats  Stats
}

// tell reports damage. No more events are passed on, since the next one does not
// follow.
func (k *checker) tell(bad *Damage) {
	k.each = nil
	k.report(bad)
}

func (k *checker) run() error {
	open, list, err := k.look()
	if err != nil {
		return err
	}
	for _, first := range list {
		if err := k.sealed(first); err != nil {
			return err
		}
	}
	if open == nil {
		return nil
	}
	defer open.Close() //nolint:errcheck // nothing was written to it
	if err := gap(&k.c, open); err != nil {
		if err := k.damaged(err); err != nil {
			return err
		}
		k.c.blind, k.c.done = true, nil
	}
	return k.file(openName, open)
}

// look opens log.jsonl and lists the sealed segments before it. A segment that
// begins where log.jsonl does is being sealed, or its sealing was interrupted.
func (k *checker) look() (durable.File, []protocol.Seq, error) {
	for try := 0; ; try++ {
		open, openErr := openLog(k.disk)
		if openErr != nil {
			if err := k.damaged(openErr); err != nil {
				return nil, nil, err
			}
			list, err := segments(k.disk)
			return nil, list, err
		}
		list, err := segments(k.disk)
		var first protocol.Seq
		if err == nil {
			first, err = firstSeq(open)
		}
		if err != nil {
			return nil, nil, errors.Join(err, open.Close())
		}
		before, newer := split(list, first)
		if newer > 0 && try > 0 {
			k.tell(&Damage{File: segmentPath(newer), Err: errNewer, Remedy: "put the log.jsonl back that belongs to it"})
			newer = 0
		}
		if newer == 0 {
			return open, before, nil
		}
		// A segment may have been sealed in between.
		if err := open.Close(); err != nil {
			return nil, nil, err
		}
	}
}

// split returns the segments before the one that begins with first, and the first
// one after it, 0 if there is none. first is 0 if it is not known.
func split(list []protocol.Seq, first protocol.Seq) (before []protocol.Seq, newer protocol.Seq) {
	if first == 0 {
		return list, 0
	}
	n, same := slices.BinarySearch(list, first)
	before = list[:n]
	if same {
		n++
	}
	if n < len(list) {
		newer = list[n]
	}
	return before, newer
}

var errNewer = errors.New("it begins after log.jsonl does")

// damaged reports an error that is damage, and returns every other one.
func (k *checker) damaged(err error) error {
	var bad *Damage
	if !errors.As(err, &bad) {
		return err
	}
	k.tell(bad)
	return nil
}

func (k *checker) sealed(first protocol.Seq) error {
	k.stats.Segments++
	if first > k.c.at.Seq+1 {
		k.tell(missing(segmentPath(k.c.at.Seq + 1)))
		k.c.blind, k.c.done = true, nil
	}
	f, err := k.disk.Open(segmentPath(first))
	if errors.Is(err, fs.ErrNotExist) {
		k.tell(missing(segmentPath(first)))
		k.c.blind, k.c.done = true, nil
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // nothing was written to it
	if err := k.file(segmentPath(first), f); err != nil {
		return err
	}
	k.c.close(first)
	return nil
}

// file reads one file to its end.
func (k *checker) file(name string, f durable.File) error {
	k.c.open(name, f)
	for {
		rec, err := k.c.read()
		var bad *Damage
		stop := false
		switch {
		case errors.Is(err, io.EOF):
			k.stats.Bytes += k.c.off
			return k.ended()
		case err == nil:
			err = k.event(rec)
		case errors.As(err, &bad):
			stop, err = k.bad(bad)
		}
		if stop || err != nil {
			return err
		}
	}
}

func (k *checker) event(rec Record) error {
	k.stats.Events++
	if k.each == nil {
		return nil
	}
	return k.each(rec)
}

// bad reports a bad line, unless a crash left it at the end. stop is true if nothing
// behind it can be read.
func (k *checker) bad(bad *Damage) (stop bool, err error) {
	if left, err := k.torn(bad); left || err != nil {
		return true, err
	}
	if end, stop, err := k.foreign(bad); end != 0 || err != nil {
		return stop, err
	}
	k.tell(bad)
	k.c.adopt()
	return errors.Is(bad.Err, errLong), nil
}

// ended checks what is behind the last line break of a file.
func (k *checker) ended() error {
	if len(k.c.tail) == 0 && k.c.no > 0 {
		return nil
	}
	k.c.no++
	bad := k.c.damage(k.c.off, errCut)
	left, err := k.torn(bad)
	if !left && err == nil {
		k.tell(bad)
	}
	return err
}

// torn reports whether the open segment ends where the damage is, and counts the
// rest of it as torn.
func (k *checker) torn(bad *Damage) (bool, error) {
	if k.c.name != openName || bad.Offset == 0 {
		return false, nil
	}
	left, err := torn(k.c.f, bad.Offset, k.c.at.Sum)
	if left {
		k.stats.Torn, err = sizeFrom(k.c.f, bad.Offset)
	}
	return left, err
}

// foreign reports what another program wrote into the open segment. The events
// continue behind it, at end, or there are no more, which stops the check; end is 0
// if the damage is something else.
func (k *checker) foreign(bad *Damage) (end int64, stop bool, err error) {
	if k.c.name != openName || bad.Offset == 0 {
		return 0, false, nil
	}
	end, ok, err := goesOn(k.c.f, bad.Offset, k.c.at)
	if !ok || err != nil {
		return 0, false, err
	}
	remedy := oneOfForeign
	if end < 0 {
		remedy = lastForeign
	}
	k.report(&Damage{File: bad.File, Line: bad.Line, Seq: bad.Seq, Offset: bad.Offset, Err: ErrForeign, Remedy: remedy})
	if end < 0 {
		return end, true, nil
	}
	k.c.seek(end)
	return end, false, nil
}

// sizeFrom returns how many bytes a file has from off on.
func sizeFrom(f io.ReaderAt, off int64) (int64, error) {
	n, err := io.Copy(io.Discard, io.NewSectionReader(f, off, math.MaxInt64-off))
	if err != nil {
		return n, fmt.Errorf("read the log: %w", err)
	}
	return n, nil
}
