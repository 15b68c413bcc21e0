package durable

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// file is a File on a bare descriptor: an os.File would cost a registration
// with the poller and a finalizer for each message.
type file struct {
	fd   int
	name string
	err  error // the first failed Sync
}

// Read implements File.
func (f *file) Read(p []byte) (int, error) {
	return f.fill("read", p, func() (int, error) { return unix.Read(f.fd, p) })
}

// ReadAt fills p unless the file ends first.
func (f *file) ReadAt(p []byte, off int64) (n int, err error) {
	for n < len(p) && err == nil {
		var m int
		rest := p[n:]
		at := off + int64(n)
		m, err = f.fill("read", rest, func() (int, error) { return unix.Pread(f.fd, rest, at) })
		n += m
	}
	return n, err
}

// fill does one read and puts its end into the words of io.
func (f *file) fill(op string, p []byte, read func() (int, error)) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	n, err := count(read)
	switch {
	case err != nil:
		return 0, f.wrap(op, err)
	case n == 0:
		return 0, io.EOF
	default:
		return n, nil
	}
}

// Write writes all of p, or tells how much of it.
func (f *file) Write(p []byte) (n int, err error) {
	for {
		m, err := count(func() (int, error) { return unix.Write(f.fd, p[n:]) })
		n += m
		switch {
		case err != nil:
			return n, f.wrap("write", err)
		case n == len(p):
			return n, nil
		case m == 0:
			return n, f.wrap("write", io.ErrUnexpectedEOF)
		}
	}
}

// Sync implements File with fdatasync(2).
func (f *file) Sync() error {
	if f.err == nil {
		if err := onlyErr(func() error { return unix.Fdatasync(f.fd) }); err != nil {
			f.err = syncError("sync", f.name, f.closed(err))
		}
	}
	return f.err
}

// Truncate implements File.
func (f *file) Truncate(size int64) error {
	return f.wrap("truncate", onlyErr(func() error { return unix.Ftruncate(f.fd, size) }))
}

// Stat implements File.
func (f *file) Stat() (Info, error) {
	var st unix.Stat_t
	if err := fstat(f.fd, &st); err != nil {
		return Info{}, f.wrap("stat", err)
	}
	return infoOf(f.name, &st), nil
}

// Close closes the descriptor, once: a second Close must not close what
// has been given the same number since.
func (f *file) Close() error {
	if f.fd < 0 {
		return f.wrap("close", os.ErrClosed)
	}
	err := unix.Close(f.fd)
	f.fd = -1
	return f.wrap("close", err)
}

// BeingWritten asks for a read lease and gives it back at once. The kernel
// grants none while a descriptor for writing is open, and none to those who
// neither own the file nor are privileged.
func (f *file) BeingWritten() (open, known bool) {
	_, err := unix.FcntlInt(uintptr(f.fd), unix.F_SETLEASE, unix.F_RDLCK)
	switch err {
	case nil:
		_, err = unix.FcntlInt(uintptr(f.fd), unix.F_SETLEASE, unix.F_UNLCK)
		return false, err == nil
	case unix.EAGAIN:
		return true, true
	default:
		return false, false
	}
}

// flock takes or gives back the lock of the open file.
func (f *file) flock(how int) error {
	return onlyErr(func() error { return unix.Flock(f.fd, how) })
}

// wrap is nil for nil.
func (f *file) wrap(op string, err error) error {
	if err == nil {
		return nil
	}
	return PathError(op, f.name, f.closed(err))
}

// closed tells a use after Close from other bad descriptors.
func (f *file) closed(err error) error {
	if f.fd < 0 {
		return os.ErrClosed
	}
	return err
}

// count repeats a read or write that a signal interrupted.
func count(call func() (int, error)) (int, error) {
	for {
		n, err := call()
		if err == nil {
			return n, nil
		}
		if err != unix.EINTR { //nolint:errorlint // a bare Errno from the call above
			return 0, err
		}
	}
}
