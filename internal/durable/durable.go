// Package durable is the only door to the disk. It promises three things:
//
//   - no name leaves the root it was opened on, and no symbolic link is ever
//     followed below that root (spec §3.2);
//   - a file that is published is either wholly there or not there at all;
//   - success is reported only after what makes it true, and a failed sync
//     stays failed: it is never retried on the same handle.
//
// What it leaves to others: what the files mean, and when a sync is needed.
// Package faultfs below it is the same door to a disk in memory that can
// crash, fill up and lie.
package durable

import (
	"errors"
	"io"
	"io/fs"
	"time"
)

// FS is a disk seen from one root directory. Names are slash-separated and
// relative to the root, "." being the root itself: [fs.ValidPath], but for
// UTF-8, since a directory may hold any bytes and what it lists must open.
// Anything else is [ErrName]. No method follows a symbolic link, in any
// component of a name: a link met on the way is [ErrLink]. As a last element
// links can be described, listed, renamed and removed like anything else, and
// not opened.
//
// All errors are *[fs.PathError] around the cause (of a move, its Path is
// "from -> to"), so errors.Is works with fs.ErrNotExist, fs.ErrExist,
// fs.ErrPermission, [ErrNoSpace], [ErrReadOnly], [ErrLink] and
// [ErrNotRegular], and with the error number of the system beside them.
// An FS may be used by many goroutines at once.
type FS interface {
	// Open opens a regular file for reading. It never blocks: a FIFO, device,
	// socket or directory is [ErrNotRegular], a link is [ErrLink].
	Open(name string) (File, error)
	// Create makes a new file for reading and writing; a taken name is
	// fs.ErrExist. The umask of the process applies to perm here as elsewhere.
	Create(name string, perm fs.FileMode) (File, error)
	// Append opens a regular file for reading and for writing at its end,
	// and makes it (0644) if it is missing.
	Append(name string) (File, error)
	// Lstat describes what has a name, and does not follow a link.
	Lstat(name string) (Info, error)
	// ReadDir lists a directory in name order.
	ReadDir(name string) ([]Entry, error)
	// Mkdir makes one directory; MkdirAll makes the missing parents too and
	// succeeds if all of them exist.
	Mkdir(name string, perm fs.FileMode) error
	MkdirAll(name string, perm fs.FileMode) error
	// Rename moves a file, replacing what had the new name. If both names are
	// links to one file, nothing happens, and both stay (rename(2)).
	Rename(from, to string) error
	// RenameNew moves a file; a taken new name is fs.ErrExist and nothing
	// moves.
	RenameNew(from, to string) error
	// Link gives a file a second name; a taken name is fs.ErrExist.
	Link(from, to string) error
	// Remove deletes a file or an empty directory.
	Remove(name string) error
	// SyncDir makes the names in one directory durable.
	SyncDir(name string) error
	// SyncAll makes everything written below the root so far durable, names
	// and contents, in one go. It may sync more than that. A SyncAll after a
	// failed SyncAll or SyncDir fails too.
	SyncAll() error
}

// File is an open regular file. ReadAt and Stat may be called by many
// goroutines at once, the others by one; Close comes after all of them.
type File interface {
	io.Reader
	io.ReaderAt
	io.Writer
	io.Closer
	// Sync makes the contents durable (fdatasync); the name needs
	// [FS.SyncDir]. After a failed Sync every later Sync fails too.
	Sync() error
	// Truncate cuts the file to size bytes; later writes of an appended file
	// continue from there.
	Truncate(size int64) error
	Stat() (Info, error)
}

// Info describes a name. Dev, Ino, Links and UID are zero if the platform does not
// have them.
type Info struct {
	Name    string // the last element
	Mode    fs.FileMode
	Size    int64 // bytes
	ModTime time.Time
	CTime   time.Time // zero if the platform does not have it
	Dev     uint64
	Ino     uint64
	Links   uint64
	UID     uint32
	GID     uint32
}

// Regular reports whether the name is a regular file.
func (i Info) Regular() bool { return i.Mode.IsRegular() }

// Entry is one name in a directory. Type holds only the type bits.
type Entry struct {
	Name string
	Type fs.FileMode
}

var (
	// ErrName means that a name could leave the root.
	ErrName = errors.New("name is not a relative path below the root")
	// ErrLink means that a component of a name is a symbolic link.
	ErrLink = errors.New("is a symbolic link")
	// ErrNotRegular means that a name is not a regular file.
	ErrNotRegular = errors.New("is not a regular file")
	// ErrTooLarge means that a file is larger than the reader allows.
	ErrTooLarge = errors.New("is too large")
	// ErrNoSpace means that the disk or a quota is full, or out of inodes.
	ErrNoSpace = errors.New("no space left on the disk")
	// ErrReadOnly means that the file system is read-only.
	ErrReadOnly = errors.New("the file system is read-only")
	// ErrSync means that a sync failed: what was written since the last good one
	// may or may not be on the disk, and no retry can tell.
	ErrSync = errors.New("sync failed")
)
