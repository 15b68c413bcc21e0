package eventlog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/failpoint"
	"github.com/hived/hived/protocol"
)

const (
	openName = protocol.PathLog
	// tempName is where a file is written that is going to replace another.
	// What stands there after a crash is of no use to anybody.
	tempName = protocol.PathScratch + "/log.new"

	nameDigits = 12
	nameEnding = ".jsonl"
)

// segmentName is a sealed segment's name below log/, segmentPath below the
// hive (spec §1).
func segmentName(first protocol.Seq) string {
	return fmt.Sprintf("%0*d%s", nameDigits, uint64(first), nameEnding)
}

func segmentPath(first protocol.Seq) string {
	return protocol.PathSegments + "/" + segmentName(first)
}

// segments lists the sealed segments by their first seq, in order. Other files
// below log/, such as foreign-<n>.jsonl, are none.
func segments(disk durable.FS) ([]protocol.Seq, error) {
	entries, err := disk.ReadDir(protocol.PathSegments)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list the segments of the log: %w", err)
	}
	var list []protocol.Seq
	for _, e := range entries {
		digits, ok := strings.CutSuffix(e.Name, nameEnding)
		if !ok || len(digits) < nameDigits {
			continue
		}
		first, err := protocol.ParseSeq(digits)
		if err == nil && first > 0 && segmentName(first) == e.Name {
			list = append(list, first)
		}
	}
	slices.Sort(list)
	return list, nil
}

// openLog opens log.jsonl for reading.
func openLog(disk durable.FS) (durable.File, error) {
	f, err := disk.Open(openName)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, missing(openName)
	case err != nil:
		return nil, fmt.Errorf("open the log: %w", err)
	}
	return f, nil
}

// Newest returns the position in front of the open segment. Whoever begins there
// reads the newest events and no more than one segment of them.
func Newest(disk durable.FS) (Position, error) {
	f, err := openLog(disk)
	if err != nil {
		return Position{}, err
	}
	first, err := firstSeq(f)
	return Position{Seq: max(first, 1) - 1}, errors.Join(err, f.Close())
}

// firstSeq reads the number of a file's first event, 0 where there is none. It
// is a hint, which the sums confirm later.
func firstSeq(f io.ReaderAt) (protocol.Seq, error) {
	var head [40]byte
	n, err := f.ReadAt(head[:], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, fmt.Errorf("read the log: %w", err)
	}
	frame, ok := bytes.CutPrefix(head[:n], []byte(`{"seq":`))
	number, _, whole := bytes.Cut(frame, []byte(","))
	if !ok || !whole {
		return 0, nil
	}
	seq, err := protocol.ParseSeq(string(number))
	if err != nil {
		return 0, nil //nolint:nilerr // who reads the line finds out
	}
	return seq, nil
}

// undoSeal takes away the second name that an interrupted sealing gave to the
// open segment. It is the same file, or a copy of it to which the open segment
// may have gained lines since.
func undoSeal(disk durable.FS, open durable.File) error {
	list, err := segments(disk)
	if err != nil || len(list) == 0 {
		return err
	}
	name := segmentPath(list[len(list)-1])
	f, err := disk.Open(name)
	if err != nil {
		return fmt.Errorf("open a segment of the log: %w", err)
	}
	same, err := samePart(f, open)
	if err = errors.Join(err, f.Close()); err != nil || !same {
		return err
	}
	if err := disk.Remove(name); err != nil {
		return fmt.Errorf("undo the sealing of a segment: %w", err)
	}
	return disk.SyncDir(protocol.PathSegments)
}

// samePart reports whether a is the same file as b, or one or more lines that b
// begins with too.
func samePart(a, b durable.File) (bool, error) {
	ai, err := a.Stat()
	if err != nil {
		return false, err
	}
	bi, err := b.Stat()
	if err != nil {
		return false, err
	}
	if sameFile(ai, bi) {
		return true, nil
	}
	if ai.Size == 0 || ai.Size > bi.Size {
		return false, nil
	}
	return samePrefix(a, b, ai.Size)
}

// samePrefix compares size bytes. Two segments differ in the first of them.
func samePrefix(a, b io.ReaderAt, size int64) (bool, error) {
	abuf, bbuf := make([]byte, 32<<10), make([]byte, 32<<10)
	last := byte(0)
	for off := int64(0); off < size; {
		n := min(int64(len(abuf)), size-off)
		if _, err := a.ReadAt(abuf[:n], off); err != nil && !errors.Is(err, io.EOF) {
			return false, err
		}
		if _, err := b.ReadAt(bbuf[:n], off); err != nil && !errors.Is(err, io.EOF) {
			return false, err
		}
		if !bytes.Equal(abuf[:n], bbuf[:n]) {
			return false, nil
		}
		off, last = off+n, abuf[n-1]
	}
	return last == '\n', nil
}

// sameFile is false where the platform does not tell.
func sameFile(a, b durable.Info) bool {
	return a.Ino != 0 && a.Ino == b.Ino && a.Dev == b.Dev
}

// replace puts the first size bytes of src into the place of a file: synced
// under a temporary name, renamed, and the name synced. At every moment there
// is the old file or the new one.
func replace(disk durable.FS, name string, src io.ReaderAt, size int64) error {
	if err := writeTemp(disk, src, size); err != nil {
		return err
	}
	failpoint.Hit(failpoint.OpenCopied)
	if err := disk.Rename(tempName, name); err != nil {
		return err
	}
	return disk.SyncDir(path.Dir(name))
}

// writeTemp makes the temporary file, durable but for its name.
func writeTemp(disk durable.FS, src io.ReaderAt, size int64) error {
	f, err := createTemp(disk, src)
	if err != nil {
		return err
	}
	err = copyFrom(f, src, 0, size)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		_ = disk.Remove(tempName) // a full disk needs the room; the next one clears it anyway
	}
	return err
}

// newPerm is the mode of a log that replaces none.
const newPerm = 0o644

// ownerPerm is what hived itself needs.
const ownerPerm = 0o600

// createTemp makes the temporary file, with the rights of the log that is there,
// or that src is of: who may not read the log now may not read the next segment
// of it either.
func createTemp(disk durable.FS, src io.ReaderAt) (durable.File, error) {
	if err := clearTemp(disk); err != nil {
		return nil, err
	}
	perm := fs.FileMode(newPerm)
	if f, ok := src.(durable.File); ok {
		if info, err := f.Stat(); err == nil {
			perm = info.Mode.Perm()
		}
	} else if info, err := disk.Lstat(openName); err == nil && info.Regular() {
		perm = info.Mode.Perm()
	}
	return disk.Create(tempName, perm|ownerPerm)
}

// clearTemp makes way for a new temporary file.
func clearTemp(disk durable.FS) error {
	if err := disk.MkdirAll(protocol.PathScratch, 0o755); err != nil {
		return err
	}
	if err := durable.IgnoreNotExist(disk.Remove(tempName)); err != nil {
		return err
	}
	return nil
}

// copyFrom copies the bytes from off to end.
func copyFrom(dst io.Writer, src io.ReaderAt, off, end int64) error {
	buf := make([]byte, min(readSize, end-off))
	for off < end {
		n, err := src.ReadAt(buf[:min(int64(len(buf)), end-off)], off)
		if n == 0 {
			if err == nil || errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return err
		}
		if _, err := dst.Write(buf[:n]); err != nil {
			return err
		}
		off += int64(n)
	}
	return nil
}

// keep saves the bytes from off to end below .hived/, under a name that nothing
// has yet, and gives that name. They are durable before anything replaces them.
func keep(disk durable.FS, name string, src io.ReaderAt, off, end int64) (string, error) {
	if err := disk.MkdirAll(protocol.PathScratch, 0o755); err != nil {
		return "", err
	}
	kept := protocol.PathScratch + "/" + name
	f, err := disk.Create(kept, 0o644)
	for n := 2; errors.Is(err, fs.ErrExist); n++ {
		kept = protocol.PathScratch + "/" + name + "-" + strconv.Itoa(n)
		f, err = disk.Create(kept, 0o644)
	}
	if err != nil {
		return "", err
	}
	err = copyFrom(f, src, off, end)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		_ = disk.Remove(kept) // the bytes are still where they were
		return "", err
	}
	return kept, errors.Join(disk.SyncDir(protocol.PathScratch), disk.SyncDir("."))
}
