package eventlog

import (
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
)

// ended decides at the end of a file what comes next: it returns nil if there is more
// to read, and io.EOF if not.
func (r *reader) ended() error {
	if r.c.name != openName {
		if len(r.c.tail) > 0 {
			r.c.no++
			return r.c.damage(r.c.off, errCut)
		}
		return r.cross()
	}
	if r.c.no == 0 { // log.jsonl is never without its first line
		r.c.no++
		return r.c.damage(0, errCut)
	}
	if r.fresh {
		r.fresh = false
		return io.EOF
	}
	info, err := r.disk.Lstat(openName)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return missing(openName)
	case err != nil:
		return fmt.Errorf("read the log: %w", err)
	case sameFile(info, r.info):
		return io.EOF
	}
	return r.reopen()
}

// reopen continues in the file that has the name of ours now: ours was sealed, or
// made durable again by a starting daemon. If the platform cannot tell files apart, it
// may still be the same one.
func (r *reader) reopen() error {
	f, first, err := r.openFirst()
	if err != nil {
		return err
	}
	if first < r.first {
		return errors.Join(f.Close(), r.find()) // an older log was put in its place
	}
	name := openName
	if first > r.first {
		name = segmentPath(r.first)
		if err = f.Close(); err != nil {
			return err
		}
		if f, err = r.disk.Open(name); err != nil {
			return fmt.Errorf("read the log: %w", err)
		}
	}
	off, no := r.c.off, r.c.no
	r.fresh = true
	err = r.use(f, name, r.first)
	r.c.seek(off)
	r.c.no = no
	return err
}

// openFirst opens log.jsonl and returns the seq of its first event, 0 if that cannot
// be read.
func (r *reader) openFirst() (durable.File, protocol.Seq, error) {
	f, err := openLog(r.disk)
	if err != nil {
		return nil, 0, err
	}
	first, err := firstSeq(f)
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, first, nil
}

// use reads from another file, from its beginning.
func (r *reader) use(f durable.File, name string, first protocol.Seq) error {
	r.close()
	r.file, r.first = f, first
	r.durable, r.named = 0, false
	r.c.open(name, f)
	var err error
	r.info, err = f.Stat()
	return err
}

// cross opens the file that begins behind the last event. A segment has its name
// below log/ before log.jsonl is replaced, so looking in this order misses nothing.
func (r *reader) cross() error {
	f, first, err := r.openFirst()
	if err != nil {
		return err
	}
	next := r.c.at.Seq + 1
	if first == 0 { // who reads on finds out why
		if _, err := r.disk.Lstat(segmentPath(next)); errors.Is(err, fs.ErrNotExist) {
			first = next
		}
	}
	if first == next {
		return r.use(f, openName, first)
	}
	if err := f.Close(); err != nil {
		return err
	}
	if first > 0 && first < next {
		return r.find()
	}
	return r.useSealed(next)
}

// useSealed opens a sealed segment.
func (r *reader) useSealed(first protocol.Seq) error {
	f, err := r.disk.Open(segmentPath(first))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return missing(segmentPath(first))
	case err != nil:
		return fmt.Errorf("read the log: %w", err)
	}
	return r.use(f, segmentPath(first), first)
}

// find opens the file that holds the last event, and seeks behind it.
func (r *reader) find() error {
	at := r.c.at
	if at.Seq == 0 {
		return r.cross()
	}
	f, first, err := r.openFirst()
	if err != nil {
		return err
	}
	if first > 0 && first <= at.Seq {
		err = r.use(f, openName, first)
	} else if err = f.Close(); err == nil {
		err = r.findSealed(at.Seq)
	}
	if err != nil {
		return err
	}
	return r.skip()
}

// findSealed opens the segment that should hold an event.
func (r *reader) findSealed(seq protocol.Seq) error {
	list, err := segments(r.disk)
	if err != nil {
		return err
	}
	for len(list) > 0 && list[len(list)-1] > seq {
		list = list[:len(list)-1]
	}
	if len(list) == 0 {
		return missing(segmentPath(1))
	}
	return r.useSealed(list[len(list)-1])
}

// skip passes the lines up to the last event and compares its sum with the
// position's. Lines before it are not checked: each reader begins somewhere.
func (r *reader) skip() error {
	at := r.c.at
	for seq := r.first; seq <= at.Seq; seq++ {
		var err error
		r.c.raw, err = r.c.next()
		if errors.Is(err, io.EOF) {
			return r.beyond()
		}
		if err != nil {
			return err
		}
		r.c.no++
		if seq == r.first || seq == at.Seq {
			if err := r.peek(seq); err != nil {
				return err
			}
		}
	}
	return nil
}

// peek reads a line without knowing the one before it.
func (r *reader) peek(seq protocol.Seq) error {
	ev, sum, err := protocol.DecodeLine(r.c.raw[:len(r.c.raw)-1])
	if errors.Is(err, protocol.ErrUnknownKind) {
		err = fmt.Errorf("%w: %w; use that one", ErrFormat, err)
	}
	if err == nil && ev.Seq != seq {
		err = fmt.Errorf("%w: the event has seq %d", protocol.ErrLine, ev.Seq)
	}
	if err == nil && r.c.no == 1 {
		err = r.c.head(ev)
	}
	at := &r.c.at
	switch {
	case errors.Is(err, ErrFormat):
		return fmt.Errorf("%s line %d: %w", r.c.name, r.c.no, err)
	case err != nil:
		bad := r.c.damage(r.c.off-int64(len(r.c.raw)), err)
		bad.Seq = seq
		return bad
	case seq != at.Seq:
	case at.Sum.IsZero():
		at.Sum = sum
	case at.Sum != sum:
		return &Mismatch{At: *at, Found: sum}
	}
	return nil
}

// beyond returns the error of a file that ends before the position.
func (r *reader) beyond() error {
	at := r.c.at
	if r.c.name != openName {
		r.c.no++
		bad := r.c.damage(r.c.off, errCut)
		bad.Seq = r.first + protocol.Seq(r.c.no) - 1 //nolint:gosec // no is positive
		return bad
	}
	r.close()
	if at.Sum.IsZero() {
		return io.EOF // nothing stands after it yet
	}
	return &Mismatch{At: at}
}
