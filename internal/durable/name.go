package durable

import (
	"errors"
	"io/fs"
	"strings"
	"syscall"
)

// PathError is the error that an FS returns for what went wrong with a name:
// it adds the sentinel that belongs to a system error, and keeps both for
// errors.Is. It is exported for other implementations of FS.
func PathError(op, name string, err error) error {
	if s := sentinel(err); s != nil && !errors.Is(err, s) {
		err = &fault{s, err}
	}
	return &fs.PathError{Op: op, Path: name, Err: err}
}

// sentinel finds what a system error means; nil where it stands for itself.
func sentinel(err error) error {
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		return nil
	}
	return meanings[errno]
}

// fault is a system error with what it means here.
type fault struct{ meaning, cause error }

func (f *fault) Error() string   { return f.meaning.Error() + " (" + f.cause.Error() + ")" }
func (f *fault) Unwrap() []error { return []error{f.meaning, f.cause} }

// syncError is what a sync that failed returns, now and from then on.
func syncError(op, name string, err error) error {
	if s := sentinel(err); s != nil {
		err = &fault{s, err}
	}
	return &fs.PathError{Op: op, Path: name, Err: &fault{ErrSync, err}}
}

// moveError names both ends of a move.
func moveError(op, from, to string, err error) error {
	return PathError(op, from+" -> "+to, err)
}

// ValidName reports whether an FS takes the name: see [FS] for the rule. It is
// exported for other implementations of FS.
func ValidName(name string) bool {
	if name == "." {
		return true
	}
	start := 0
	for i := 0; i <= len(name); i++ {
		if i < len(name) && name[i] != '/' {
			if name[i] == 0 {
				return false
			}
			continue
		}
		if e := name[start:i]; e == "" || e == "." || e == ".." {
			return false
		}
		start = i + 1
	}
	return true
}

// split cuts a name into its directory and its last element.
func split(name string) (dir, base string) {
	if i := strings.LastIndexByte(name, '/'); i >= 0 {
		return name[:i], name[i+1:]
	}
	return ".", name
}

// dirMaker is what mkdirAll needs of an FS.
type dirMaker interface {
	Lstat(name string) (Info, error)
	Mkdir(name string, perm fs.FileMode) error
}

// mkdirAll makes a directory and its missing parents. It looks before it
// makes, because nearly always the directory is there already.
func mkdirAll(d dirMaker, name string, perm fs.FileMode) error {
	info, err := d.Lstat(name)
	switch {
	case err == nil:
		return isDir(name, info)
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	dir, _ := split(name)
	if dir != "." {
		if err := mkdirAll(d, dir, perm); err != nil {
			return err
		}
	}
	err = d.Mkdir(name, perm)
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	// Somebody else made it in between.
	if info, err = d.Lstat(name); err != nil {
		return err
	}
	return isDir(name, info)
}

func isDir(name string, info Info) error {
	switch {
	case info.Mode.IsDir():
		return nil
	case info.Mode&fs.ModeSymlink != 0:
		return PathError("mkdir", name, ErrLink)
	default:
		return PathError("mkdir", name, errNotDir)
	}
}
