package eventlog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"unicode/utf8"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
)

// Foreign is a run of bytes in the open segment that another program wrote there.
type Foreign struct {
	Kept  string       // where they are now, below the hive
	Bytes int64        // how many
	Seq   protocol.Seq // of the event that they were before
}

var (
	// ErrForeign means that another program wrote into log.jsonl. It is wrapped in a
	// [*Damage].
	ErrForeign = errors.New("it holds bytes that hived did not write")
	errShrunk  = errors.New("log.jsonl is shorter than what hived made durable in it: something else cut it; bring it back from a copy")
	errCrowded = errors.New("another program writes to log.jsonl all the time: stop it; only hived may")
)

// What can be done about foreign bytes if events follow, and if they are the last:
// then nobody can tell whether there was an event.
const (
	oneOfForeign = "stop whatever writes to log.jsonl; `hived up` and `hived repair` set it aside below .hived/, and lose no event"
	lastForeign  = "stop whatever writes to log.jsonl; `hived up` sets it aside below .hived/; if an event stood there, put log.jsonl back from a backup first"
)

func foreignName(seq protocol.Seq) string { return "foreign-" + seq.String() }

// span is a part of a file, before an event.
type span struct {
	from, to int64
	seq      protocol.Seq
}

// foreignFrom finds foreign bytes in the open segment, which has size bytes, from off
// on, where the line is not the event after at. Each run of them ends where that event
// begins, or with the file. No run means that the damage is something else.
func foreignFrom(f io.ReaderAt, size, off int64, at Position) ([]span, error) {
	var list []span
	c := cursor{at: at}
	c.open(openName, f)
	c.seek(off)
	c.no = 1 // the head of the file was read
	defer c.rest()
	for {
		_, err := c.read()
		var bad *Damage
		switch {
		case err == nil:
			continue
		case errors.Is(err, io.EOF):
			return list, nil // the caller judges what is behind the last line break
		case !errors.As(err, &bad):
			return nil, err
		}
		end, ok, err := goesOn(f, bad.Offset, c.at)
		if !ok || err != nil {
			return list, err
		}
		if end < 0 {
			return append(list, span{bad.Offset, size, c.at.Seq + 1}), nil
		}
		list = append(list, span{bad.Offset, end, c.at.Seq + 1})
		c.seek(end)
	}
}

// goesOn finds the next event after a position, behind a line that is not that
// event, perhaps in the middle of one. Taking away what is before it loses nothing:
// the next event chains to the position itself, and no event with a later number is
// there. If there is no next event, end is negative, and the bytes are foreign only if
// all whole lines are foreign text.
func goesOn(f io.ReaderAt, off int64, at Position) (end int64, ok bool, err error) {
	next := at.Seq + 1
	head := []byte(eventHead + next.String() + ",")
	l := newLines(f, off)
	for whole, text := 0, true; ; whole++ {
		from := l.off
		line, err := l.next()
		switch {
		case errors.Is(err, io.EOF):
			return -1, whole > 0 && text && !endsWrong(l.tail, at.Sum), nil
		case errors.Is(err, errLong):
			return 0, false, nil
		case err != nil:
			return 0, false, err
		}
		for i := 0; ; i++ {
			n := bytes.Index(line[i:], head)
			if n < 0 {
				break
			}
			i += n
			if _, err := protocol.CheckLine(line[i:len(line)-1], at.Sum); err == nil {
				end = from + int64(i)
				return end, end > off, nil
			}
		}
		if claims(line) > next {
			return 0, false, nil
		}
		text = text && foreignText(line, head)
	}
}

const eventHead = `{"seq":`

// claims returns the number in a line that begins like an event.
func claims(line []byte) protocol.Seq {
	rest, ok := bytes.CutPrefix(line, []byte(eventHead))
	if !ok {
		return 0
	}
	number, _, _ := bytes.Cut(rest, []byte{','})
	n, err := protocol.ParseSeq(string(number))
	if err != nil {
		return 0
	}
	return n
}

// foreignText reports whether a whole line is foreign text, or the beginning of the
// next event, which a crash tore, followed by foreign text: it cannot be what is left
// of an event, whatever happened to that on the disk.
func foreignText(line, head []byte) bool {
	line = line[:len(line)-1]
	hex, run := 0, 0 // the longest row of hex digits where the sum of an event stands
	for _, c := range line[max(0, len(line)-len(protocol.Sum{}.String())-len(`"}`)):] {
		if run++; bytes.IndexByte([]byte("0123456789abcdef"), c) < 0 {
			run = 0
		}
		hex = max(hex, run)
	}
	event := hex >= 12 || !bytes.HasPrefix(line, head) && (bytes.Contains(line, []byte(`"kind":"`)) || bytes.Contains(line, []byte(`"ts":"`)))
	return !event && utf8.Valid(line) && bytes.IndexFunc(line, func(r rune) bool { return r < ' ' && r != '\t' && r != '\r' }) < 0
}

// leftOut is a file with some bytes left out.
type leftOut struct {
	f io.ReaderAt
	span
}

// ReadAt implements [io.ReaderAt].
func (w leftOut) ReadAt(b []byte, off int64) (int, error) {
	cut := w.to - w.from
	if off >= w.from {
		return w.f.ReadAt(b, off+cut)
	}
	n := min(int64(len(b)), w.from-off)
	had, err := w.f.ReadAt(b[:n], off)
	if err != nil && !errors.Is(err, io.EOF) || int64(had) < n || n == int64(len(b)) {
		return had, err
	}
	more, err := w.f.ReadAt(b[n:], w.to)
	return had + more, err
}

// strip removes spans from the open segment with one synced copy, and returns where
// they are kept. Nothing is written to the segment meanwhile.
func strip(disk durable.FS, f io.ReaderAt, size int64, list []span) ([]Foreign, error) {
	var out []Foreign
	for _, s := range list {
		kept, err := keep(disk, foreignName(s.seq), f, s.from, s.to)
		if err != nil {
			return out, err
		}
		out = append(out, Foreign{Kept: kept, Bytes: s.to - s.from, Seq: s.seq})
	}
	rest := f
	for _, s := range slices.Backward(list) { // offsets before a cut stay as they are
		rest = leftOut{rest, s}
		size -= s.to - s.from
	}
	return out, replace(disk, openName, rest, size)
}

// Foreign returns the foreign bytes that were set aside since the last call.
func (l *Log) Foreign() []Foreign {
	list := l.foreign
	l.foreign = nil
	return list
}

// clear removes what another program wrote behind the last event.
func (l *Log) clear(size int64) error {
	switch {
	case size < l.size:
		return l.broken(errShrunk)
	case size == l.size:
		return nil
	}
	return l.setAside(l.size, size)
}

// setAside keeps the end of the open segment from an offset on, and cuts it off.
func (l *Log) setAside(from, size int64) error {
	kept, err := keep(l.disk, foreignName(l.Next()), l.file, from, size)
	if err != nil {
		if errors.Is(err, durable.ErrSync) {
			err = l.broken(err)
		}
		return fmt.Errorf("set aside what another program wrote into log.jsonl: %w", err)
	}
	if err := l.file.Truncate(from); err != nil {
		return l.broken(err)
	}
	l.foreign = append(l.foreign, Foreign{Kept: kept, Bytes: size - from, Seq: l.Next()})
	return nil
}

// alone makes sure that what was just written is right behind the last event, and
// nothing else. again is true if it must be written again: foreign bytes came in
// between, and all of it was cut off. None of it was acknowledged yet.
func (l *Log) alone() (again bool, err error) {
	info, err := l.file.Stat()
	end := l.size + int64(len(l.buf))
	switch {
	case err != nil:
		return false, l.broken(err)
	case info.Size == end:
		return false, nil
	case info.Size < end:
		return false, l.broken(errShrunk)
	}
	mine := make([]byte, len(l.buf))
	if _, err := l.file.ReadAt(mine, l.size); err != nil {
		return false, l.broken(err)
	}
	if bytes.Equal(mine, l.buf) {
		return false, l.setAside(end, info.Size)
	}
	return true, l.setAside(l.size, info.Size)
}

// strip removes foreign bytes from the open segment while it is read, from the bad
// line on, and lets the cursor continue there. It reports whether there were any.
func (l *Log) strip(c *cursor, bad *Damage) (bool, error) {
	info, err := l.file.Stat()
	if err != nil {
		return false, err
	}
	list, err := foreignFrom(l.file, info.Size, bad.Offset, c.at)
	if err != nil || len(list) == 0 {
		return false, err
	}
	found, err := strip(l.disk, l.file, info.Size, list)
	if err != nil {
		return false, fmt.Errorf("set aside what another program wrote into log.jsonl: %w", err)
	}
	f, err := l.disk.Append(openName)
	if err != nil {
		return false, err
	}
	old := l.file
	l.file, c.f = f, f
	l.foreign = append(l.foreign, found...)
	c.seek(bad.Offset)
	c.no--
	return true, old.Close()
}
