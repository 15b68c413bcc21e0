package eventlog

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/failpoint"
	"github.com/hived/hived/protocol"
)

// Seal closes the open segment and begins the next one with the `sealed` event
// that it returns, with its sum (spec §5). The old segment gets its second name
// below log/ before a synced new file is renamed over log.jsonl, so that at no
// moment there is no log, and a crash between the two is undone by [Open]. When
// it fails before the rename, as on a full disk, the segment stays open and
// takes events as before; when a sync fails, the log is broken. The new segment
// has the given format, which is that of the old one or a later one.
func (l *Log) Seal(ts time.Time, format int) (protocol.Event, protocol.Sum, error) {
	if l.err != nil {
		return protocol.Event{}, protocol.Sum{}, l.err
	}
	if format < l.format || protocol.CheckFormat(format) != nil {
		return protocol.Event{}, protocol.Sum{}, fmt.Errorf("seal a segment of format %d before one of format %d", l.format, format)
	}
	ev := protocol.Event{Seq: l.Next(), TS: ts, Body: &protocol.HiveEvent{
		Action: protocol.Sealed,
		Format: format,
		Segment: &protocol.Segment{
			Name:   segmentName(l.first),
			First:  l.first,
			Last:   l.at.Seq,
			SHA256: hex.EncodeToString(l.sha.Sum(nil)),
		},
	}}
	sums, err := l.encode([]protocol.Event{ev}, format)
	if err == nil {
		err = l.seal()
	}
	if err != nil {
		return protocol.Event{}, protocol.Sum{}, fmt.Errorf("seal segment %s: %w", segmentName(l.first), err)
	}
	l.first, l.size, l.format = ev.Seq, 0, format
	l.sha.Reset()
	l.advance([]protocol.Event{ev}, sums)
	return ev, sums[0], nil
}

// seal makes the buffer the new open segment.
func (l *Log) seal() error {
	// A cut after a failed write was not synced, and from now on the file has
	// to stay as it is.
	if info, err := l.file.Stat(); err != nil {
		return err
	} else if err := l.clear(info.Size); err != nil {
		return err
	}
	if err := l.file.Sync(); err != nil {
		return l.broken(err)
	}
	if err := l.secondName(); err != nil {
		return l.giveUp(err)
	}
	failpoint.Hit(failpoint.SealNamed)
	next, err := l.nextFile()
	if err != nil {
		return l.giveUp(err)
	}
	failpoint.Hit(failpoint.SealWritten)
	if err := l.disk.Rename(tempName, openName); err != nil {
		return l.giveUp(errors.Join(err, next.Close()))
	}
	failpoint.Hit(failpoint.SealRenamed)
	old := l.file
	// Whoever opens log.jsonl from now on finds the new file: what others wrote
	// into the old one before is cut off.
	info, err := old.Stat()
	if err == nil && info.Size != l.size {
		if err = l.clear(info.Size); err == nil {
			err = old.Sync()
		}
	}
	l.file = next
	if err := errors.Join(err, l.disk.SyncDir(".")); err != nil {
		return l.broken(err)
	}
	_ = old.Close() // all of it is durable, and read-only from now on
	return nil
}

// giveUp leaves the segment open. What it cannot remove now, the next Open removes.
func (l *Log) giveUp(cause error) error {
	if errors.Is(cause, durable.ErrSync) {
		return l.broken(cause)
	}
	_ = undoSeal(l.disk, l.file)
	_ = clearTemp(l.disk)
	return cause
}

// secondName gives the open segment its name below log/, durably.
func (l *Log) secondName() error {
	if err := l.disk.MkdirAll(protocol.PathSegments, 0o755); err != nil {
		return err
	}
	// Not every file system keeps the order of changes: log/ has to be there
	// before log.jsonl is replaced.
	if err := l.disk.SyncDir("."); err != nil {
		return err
	}
	name := segmentPath(l.first)
	err := l.disk.Link(openName, name)
	if err != nil && !errors.Is(err, fs.ErrExist) && !errors.Is(err, durable.ErrNoSpace) {
		err = l.copyTo(name) // a file system without links
	}
	if err != nil {
		return err
	}
	return l.disk.SyncDir(protocol.PathSegments)
}

func (l *Log) copyTo(name string) error {
	if err := writeTemp(l.disk, l.file, l.size); err != nil {
		return err
	}
	return l.disk.RenameNew(tempName, name)
}

// nextFile writes the new segment under its temporary name and returns it open for
// appending.
func (l *Log) nextFile() (durable.File, error) {
	made, err := createTemp(l.disk, l.file)
	if err == nil {
		err = made.Close()
	}
	if err != nil {
		return nil, err
	}
	f, err := l.disk.Append(tempName)
	if err != nil {
		return nil, err
	}
	_, err = f.Write(l.buf)
	if err == nil {
		err = f.Sync()
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
