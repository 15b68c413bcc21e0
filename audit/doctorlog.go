package audit

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
)

// tailBytes is how much of the end of a segment is read first.
const tailBytes = 64 << 10

// log checks the end of the open segment.
func (d *doctor) log() {
	ev, torn, err := lastEvent(d.disk, protocol.PathLog)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		d.add(found(protocol.CodeLogMissing, protocol.PathLog, "the file is missing"))
		return
	case err != nil:
		d.add(found(protocol.CodeLogDamaged, protocol.PathLog, "its last line: %v; `hived verify` reads all of it", err))
		return
	}
	d.last = ev.TS
	if torn > 0 && !d.running {
		d.add(found(protocol.CodeLogTorn, protocol.PathLog, "it ends with %d bytes that are not a whole line", torn))
		return
	}
	d.addOK(protocol.CodeLogDamaged, protocol.PathLog, "it ends with event %d; `hived verify` reads all of it", ev.Seq)
}

// segments looks for gaps between the sealed segments, by their names and last
// lines.
func (d *doctor) segments() {
	list, err := d.disk.ReadDir(protocol.PathSegments)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		d.add(found(protocol.CodeSegmentMissing, protocol.PathSegments, "%v", err))
		return
	}
	next := protocol.Seq(1)
	gap := func(first protocol.Seq) {
		if first > next {
			d.add(found(protocol.CodeSegmentMissing, fmt.Sprintf("%s/%012d.jsonl", protocol.PathSegments, next), "the events %d to %d are in no file", next, first-1))
		}
	}
	for _, e := range list {
		if !isSegment(e.Name) {
			continue
		}
		p := protocol.PathSegments + "/" + e.Name
		first, _ := protocol.ParseSeq(e.Name[:12]) // twelve digits are a number
		gap(first)
		last, _, err := lastEvent(d.disk, p)
		if err != nil {
			d.add(found(protocol.CodeLogDamaged, p, "its last line: %v; `hived verify` reads all of it", err))
			next = first + 1
			continue
		}
		next = last.Seq + 1
	}
	if first, err := firstEvent(d.disk, protocol.PathLog); err == nil {
		gap(first.Seq)
	}
}

// lastEvent reads the last whole line of a segment, and returns how many bytes
// follow it.
func lastEvent(disk durable.FS, name string) (ev protocol.Event, torn int64, err error) {
	f, err := disk.Open(name)
	if err != nil {
		return ev, 0, err
	}
	defer f.Close() //nolint:errcheck // only read
	info, err := f.Stat()
	if err != nil {
		return ev, 0, err
	}
	for n := int64(tailBytes); ; n *= 4 {
		from := max(info.Size-n, 0)
		buf := make([]byte, info.Size-from)
		if _, err := f.ReadAt(buf, from); err != nil && !errors.Is(err, io.EOF) {
			return ev, 0, err
		}
		end := bytes.LastIndexByte(buf, '\n')
		begin := bytes.LastIndexByte(buf[:max(end, 0)], '\n')
		if end < 0 || begin < 0 && from > 0 {
			if from > 0 {
				continue
			}
			return ev, 0, errNoLine
		}
		ev, _, err := protocol.DecodeLine(buf[begin+1 : end])
		return ev, int64(len(buf) - end - 1), err
	}
}

var errNoLine = errors.New("there is none")

// firstEvent reads the first line of a segment.
func firstEvent(disk durable.FS, name string) (protocol.Event, error) {
	f, err := disk.Open(name)
	if err != nil {
		return protocol.Event{}, err
	}
	defer f.Close() //nolint:errcheck // only read
	buf := make([]byte, tailBytes)
	n, err := f.ReadAt(buf, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return protocol.Event{}, err
	}
	line, _, ok := bytes.Cut(buf[:n], []byte{'\n'})
	if !ok {
		return protocol.Event{}, errNoLine
	}
	ev, _, err := protocol.DecodeLine(line)
	return ev, err
}
