package durable

// OpenPlain opens a disk as on a kernel without openat2 and renameat2.
func OpenPlain(dir string) (*Disk, error) {
	d, err := Open(dir)
	if err == nil {
		d.plain = true
	}
	return d, err
}

// AppendEntries decodes an answer of getdents.
func AppendEntries(dir int, buf []byte) []Entry { return appendEntries(nil, dir, buf) }

// TakeLockPausing is TakeLock with a pause that the test gives.
var TakeLockPausing = takeLock

// Claim locks an open lock file.
func Claim(d *Disk, name string, f File) error { return claim(d, name, f.(lockable), nil) }

// ErrMoved is the error for a lock file that lost its name.
var ErrMoved = errMoved
