package durable

import (
	"errors"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"sync/atomic"
)

// ReadFile reads a whole regular file of at most `most` bytes (no limit where
// most < 0), and tells what it was when it was opened. A larger file is
// [ErrTooLarge] before anything of it is read, or as soon as it grows past the
// limit while it is read (spec §3.2). On an error it returns no bytes; the
// Info is good as soon as the file could be opened.
func ReadFile(disk FS, name string, most int64) ([]byte, Info, error) {
	f, err := disk.Open(name)
	if err != nil {
		return nil, Info{}, err
	}
	defer f.Close() //nolint:errcheck // nothing was written
	info, err := f.Stat()
	if err != nil {
		return nil, Info{}, err
	}
	if most >= 0 && info.Size > most {
		return nil, info, PathError("read", name, ErrTooLarge)
	}
	data, err := ReadAll(f, info.Size, most)
	if errors.Is(err, ErrTooLarge) {
		err = PathError("read", name, err)
	}
	return data, info, err
}

// maxFirstRead bounds what a size that was only claimed (a sparse file has any
// size) makes us allocate.
const maxFirstRead = 16 << 20

// ReadAll reads to the end of r, which claims to hold size bytes, and at most
// `most` bytes (no limit where most < 0): more is [ErrTooLarge], with no bytes.
func ReadAll(r io.Reader, size, most int64) ([]byte, error) {
	// With room for one byte more, a read that comes back short at the claimed
	// size saves the read that would only say io.EOF.
	first := min(size, maxFirstRead)
	if most >= 0 {
		first = min(first, most)
	}
	buf := make([]byte, 0, first+1)
	for {
		n, err := r.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		switch {
		case most >= 0 && int64(len(buf)) > most:
			return nil, ErrTooLarge
		case errors.Is(err, io.EOF):
			return buf, nil
		case err != nil:
			return nil, err
		case len(buf) < cap(buf) && int64(len(buf)) >= size:
			return buf, nil
		case len(buf) == cap(buf):
			buf = slices.Grow(buf, 512)
		}
	}
}

// IgnoreNotExist returns err, but nil where it says that a name is not there.
func IgnoreNotExist(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Sync is whether a file is durable, name and contents, when it is published, or a
// power cut may leave it empty (spec §3.6).
type Sync bool

// The values of [Sync].
const (
	Synced   Sync = true
	Unsynced Sync = false
)

// Publish makes a file appear under its name with all of its data, replacing what was
// there: temporary name in the same directory, write, rename. On an error before the
// rename nothing has changed and the temporary file is removed; an error of the
// directory's sync leaves the new file in place.
func Publish(disk FS, name string, data []byte, perm fs.FileMode, sync Sync) error {
	if err := publish(disk, name, data, perm, sync); err != nil {
		return PathError("publish", name, err)
	}
	return nil
}

func publish(disk FS, name string, data []byte, perm fs.FileMode, sync Sync) error {
	if !ValidName(name) {
		return ErrName
	}
	f, temp, err := createTemp(disk, name, perm)
	if err != nil {
		return err
	}
	if err = writeTo(f, data, sync); err == nil {
		err = disk.Rename(temp, name)
	}
	if err != nil {
		_ = disk.Remove(temp) // the first error is the one to tell
		return err
	}
	if sync {
		dir, _ := split(name)
		return disk.SyncDir(dir)
	}
	return nil
}

// writeTo writes, syncs and closes.
func writeTo(f File, data []byte, sync Sync) error {
	_, err := f.Write(data)
	if err == nil && sync {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// temps numbers the temporary files of this process. Other processes may use
// the same numbers: Create refuses a taken name, and the next one is tried.
var temps atomic.Uint64

// maxTempBase keeps a temporary name, with its marks and number, well within
// the 255 bytes that a file system takes.
const maxTempBase = 200

// createTemp makes a new file beside name that nothing takes for a message:
// it is a dot-file and ends in .tmp (spec §1).
func createTemp(disk FS, name string, perm fs.FileMode) (File, string, error) {
	dir, base := split(name)
	prefix := "." + base[:min(len(base), maxTempBase)] + "."
	if dir != "." {
		prefix = dir + "/" + prefix
	}
	for {
		temp := prefix + strconv.FormatUint(temps.Add(1), 36) + ".tmp"
		f, err := disk.Create(temp, perm)
		if !errors.Is(err, fs.ErrExist) {
			return f, temp, err
		}
	}
}
