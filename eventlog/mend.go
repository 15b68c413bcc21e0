package eventlog

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"time"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
)

// Mended is one thing that [Mend] repaired.
type Mended struct {
	File string       // below the hive
	Line int          // 0 for the whole file
	Seq  protocol.Seq // of the event in that line, or of the file's first
	What string       // one line for a person
	Kept string       // where the replaced bytes are kept; empty if there were none
}

// Mend repairs what the log itself allows to repair beyond doubt: a line that fits
// its sum again when one byte is changed, a torn last line, and, if sealed is not nil,
// a sealed segment whose bytes sealed returns (the history in git has them; name is
// its path in the hive). A repair counts only if all sums fit. What is replaced is
// kept below .hived/. The first thing that cannot be mended ends Mend with a
// [*Damage] that says what a person can do; what was mended before stays mended. The
// caller holds the hive's lock.
func Mend(disk durable.FS, sealed func(name string) ([]byte, error)) ([]Mended, error) {
	m := &mender{disk: disk, sealed: sealed, c: cursor{sha: sha256.New()}, until: time.Now().Add(mendTime)}
	defer m.c.rest()
	if err := m.run(); err != nil {
		return m.done, fmt.Errorf("mend the log: %w", err)
	}
	return m.done, nil
}

type mender struct {
	disk   durable.FS
	sealed func(name string) ([]byte, error)
	c      cursor
	until  time.Time // when all searching ends
	done   []Mended
}

func (m *mender) run() error {
	open, err := openLog(m.disk)
	if err != nil {
		return final(err)
	}
	err = undoSeal(m.disk, open)
	first, firstErr := firstSeq(open)
	if err = errors.Join(err, firstErr, open.Close()); err != nil {
		return err
	}
	list, err := segments(m.disk)
	if err != nil {
		return err
	}
	for _, s := range list {
		if err := m.gap(s); err != nil {
			return err
		}
		if err := m.segment(s); err != nil {
			return err
		}
	}
	if err := m.gap(first); err != nil {
		return err
	}
	return final(m.file(openName))
}

// gap restores the segments that are missing before the one that begins with next.
func (m *mender) gap(next protocol.Seq) error {
	for m.c.at.Seq+1 < next {
		first := m.c.at.Seq + 1
		if err := m.restore(first, missing(segmentPath(first))); err != nil {
			return err
		}
	}
	return nil
}

// segment mends one sealed segment, by itself or from what sealed returns.
func (m *mender) segment(first protocol.Seq) error {
	at, done := m.c.at, m.c.done
	err := m.file(segmentPath(first))
	var bad *Damage
	if errors.As(err, &bad) && first == at.Seq+1 {
		m.c.at, m.c.done = at, done
		return m.restore(first, bad)
	}
	if err != nil {
		return final(err)
	}
	m.c.close(first)
	return nil
}

// restore writes a sealed segment with the bytes that sealed returns, if they follow
// what was read before.
func (m *mender) restore(first protocol.Seq, bad *Damage) error {
	if m.sealed == nil {
		return final(bad)
	}
	name := segmentPath(first)
	data, err := m.sealed(name)
	if err != nil {
		bad.Err = fmt.Errorf("%w, and there is no other copy: %w", bad.Err, err)
		return final(bad)
	}
	m.c.open(name, bytes.NewReader(data))
	wrong, err := readThrough(&m.c)
	if err != nil {
		return err
	}
	if wrong != nil {
		bad.Err = fmt.Errorf("%w, and the other copy does not fit: %w", bad.Err, wrong.Err)
		return final(bad)
	}
	kept, err := m.keep(name)
	if err != nil {
		return err
	}
	if err := m.disk.MkdirAll(protocol.PathSegments, 0o755); err != nil {
		return err
	}
	if err := replace(m.disk, name, bytes.NewReader(data), int64(len(data))); err != nil {
		return err
	}
	m.done = append(m.done, Mended{File: name, Seq: first, What: "brought back from a copy that fits all sums", Kept: kept})
	m.c.close(first)
	return nil
}

// keep saves a file that is about to be replaced, if there is one.
func (m *mender) keep(name string) (string, error) {
	f, err := m.disk.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer f.Close() //nolint:errcheck // nothing was written to it
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	return keep(m.disk, "damaged-"+path.Base(name), f, 0, info.Size)
}

// file reads a file, finds a repair for each bad place, and rewrites the file if all
// of it fits.
func (m *mender) file(name string) error {
	f, err := m.disk.Open(name)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // nothing was written to it
	info, err := f.Stat()
	if err != nil {
		return err
	}
	p := &patched{f: f, size: info.Size}
	at, done := m.c.at, m.c.done
	var found []Mended
	for {
		m.c.at, m.c.done = at, done
		m.c.open(name, p)
		bad, err := readThrough(&m.c)
		if err != nil {
			return err
		}
		if bad == nil {
			return m.save(name, p, info.Size, found)
		}
		mended, err := m.fix(p, bad)
		if err != nil {
			return err
		}
		found = append(found, mended)
	}
}

// readThrough reads a file, and returns its first damage.
func readThrough(c *cursor) (*Damage, error) {
	err := readAll(c, func(Record) error { return nil })
	var bad *Damage
	switch {
	case errors.As(err, &bad):
		return bad, nil
	case err != nil:
		return nil, err
	case len(c.tail) > 0 || c.no == 0:
		c.no++
		return c.damage(c.off, errCut), nil
	}
	return nil, nil
}

// fix finds out what is wrong at one place, and patches it.
func (m *mender) fix(p *patched, bad *Damage) (Mended, error) {
	mended := Mended{File: bad.File, Line: bad.Line, Seq: bad.Seq}
	if bad.File == openName && bad.Offset > 0 {
		left, err := torn(p, bad.Offset, m.c.at.Sum)
		if err != nil {
			return mended, err
		}
		if left {
			mended.What = fmt.Sprintf("a torn last line of %d bytes was cut off", p.size-bad.Offset)
			p.torn, p.size = true, bad.Offset
			return mended, nil
		}
		end, foreign, err := goesOn(p, bad.Offset, m.c.at)
		if err != nil {
			return mended, err
		}
		if foreign {
			if end < 0 {
				bad.Err, bad.Remedy = ErrForeign, lastForeign
				return mended, bad
			}
			mended.What = fmt.Sprintf("%d bytes that another program wrote there were taken out; no event is lost", end-bad.Offset)
			mended.Kept, err = keep(m.disk, foreignName(bad.Seq), p, bad.Offset, end)
			p.take(span{bad.Offset, end, bad.Seq})
			return mended, err
		}
	}
	fix, ok, err := search(p, bad.Offset, m.c.at.Sum, m.until)
	if err != nil {
		return mended, err
	}
	if !ok {
		return mended, bad
	}
	was := p.change(fix)
	mended.What = fmt.Sprintf("byte %d of the file was %#02x and is %#02x again, as the sum of the line says", fix.off, was, fix.is)
	return mended, nil
}

// save writes the mended file after the bytes that it replaces are safe.
func (m *mender) save(name string, p *patched, size int64, found []Mended) error {
	if len(found) == 0 {
		return nil
	}
	var kept string
	var err error
	switch {
	case len(p.patches) > 0 || p.torn && p.taken > 0:
		kept, err = m.keep(name)
	case p.torn:
		kept, err = keep(m.disk, tornName(m.c.at.Seq+1), p.f, p.size, size)
	}
	if err != nil {
		return err
	}
	if err := replace(m.disk, name, p, p.size); err != nil {
		return err
	}
	for i := range found {
		if found[i].Kept == "" {
			found[i].Kept = kept
		}
	}
	m.done = append(m.done, found...)
	return nil
}

// final adds what a person can do about damage that cannot be mended.
func final(err error) error {
	var bad *Damage
	if !errors.As(err, &bad) {
		return err
	}
	if bad.Remedy == lastForeign {
		return err
	}
	bad.Remedy = "it cannot be mended from the log alone: put " + bad.File + " back from a backup"
	if bad.File == openName && bad.Line > 1 {
		bad.Remedy += fmt.Sprintf(", or keep a copy and cut it after line %d, which loses the events from %d on, if hived wrote what follows", bad.Line-1, bad.Seq)
	}
	return err
}
