package durable

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// Where the fields of a linux_dirent64 are.
const (
	direntLen  = 16
	direntType = 18
	direntName = 19
)

// listBuffers hold one getdents answer each.
var listBuffers = sync.Pool{New: func() any { return new([32 << 10]byte) }}

// ReadDir implements FS. It reads the entries itself, because os.File.ReadDir
// stats by path, round the door, on file systems that do not tell types.
func (d *Disk) ReadDir(name string) ([]Entry, error) {
	fd, err := d.openDir(name)
	if err != nil {
		return nil, PathError("readdir", name, err)
	}
	defer unix.Close(fd)                       //nolint:errcheck // nothing was written
	buf := listBuffers.Get().(*[32 << 10]byte) // it holds nothing else
	defer listBuffers.Put(buf)
	var list []Entry
	for {
		n, err := count(func() (int, error) { return unix.Getdents(fd, buf[:]) })
		if err != nil {
			return nil, PathError("readdir", name, err)
		}
		if n == 0 {
			break
		}
		list = appendEntries(list, fd, buf[:n])
	}
	slices.SortFunc(list, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

// appendEntries decodes one answer of getdents.
func appendEntries(list []Entry, dir int, buf []byte) []Entry {
	for len(buf) >= direntName {
		size := int(binary.NativeEndian.Uint16(buf[direntLen:]))
		if size < direntName || size > len(buf) {
			break // the kernel does not do this
		}
		record := buf[:size]
		buf = buf[size:]
		raw, _, _ := bytes.Cut(record[direntName:], []byte{0})
		entry := string(raw)
		if entry == "." || entry == ".." {
			continue
		}
		dt := uint32(record[direntType])
		if dt == unix.DT_UNKNOWN {
			var st unix.Stat_t
			if unix.Fstatat(dir, entry, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
				continue // gone since it was listed
			}
			dt = (st.Mode & unix.S_IFMT) >> 12
		}
		list = append(list, Entry{Name: entry, Type: typeOf(dt)})
	}
	return list
}
