package durable

// Near returns the same disk for much work in one directory, which is kept open:
// names at or below it, still given in full, are then found without walking to
// it each time. The work must be short. Whoever renames the directory meanwhile
// takes along what is written, as he does to any file that is just being
// written there; whoever replaces it has two directories. done gives the
// directory back, after the last use. Where keeping it open is of no use or
// not possible, the disk itself comes back.
func Near(disk FS, dir string) (near FS, done func()) {
	if d, ok := disk.(interface {
		keepNear(dir string) (FS, func(), error)
	}); ok && dir != "." {
		if near, done, err := d.keepNear(dir); err == nil {
			return near, done
		}
	}
	return disk, func() {}
}
