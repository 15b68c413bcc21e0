package gitcommit

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"
	"time"

	"github.com/go-git/go-billy/v5"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/cache"
	"github.com/go-git/go-git/v5/storage/filesystem"
	"github.com/go-git/go-git/v5/storage/filesystem/dotgit"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
)

const (
	cacheBytes  = 8 << 20
	mostObject  = 512 << 20 // bytes of an object that is held in memory
	gitDir      = ".git"
	objectsDir  = gitDir + "/objects"
	packDir     = objectsDir + "/pack"
	mostSmall   = 1 << 20 // bytes of HEAD, a ref, a config
	mostPackRef = 256 << 20
)

// store reads objects out of the repository. git may repack at any moment, so
// what is not found is looked for once more with fresh eyes.
type store struct {
	fs      durable.FS
	objects *filesystem.ObjectStorage
}

func newStore(fs durable.FS) *store {
	s := &store{fs: fs}
	s.reopen()
	return s
}

func (s *store) reopen() {
	door := &door{fs: s.fs}
	s.objects = filesystem.NewObjectStorage(dotgit.New(door), cache.NewObjectLRU(cacheBytes))
}

// read gives an object whose bytes are those that its id promises.
func (s *store) read(id protocol.Blob, want kind) ([]byte, error) {
	data, err := s.once(id, want)
	if err == nil {
		return data, nil
	}
	s.reopen()
	if data, err = s.once(id, want); err != nil {
		return nil, fmt.Errorf("read %s %s from git: %w: %w; `hived repair` rebuilds the repository from the log", want, id, ErrDamaged, err)
	}
	return data, nil
}

func (s *store) once(id protocol.Blob, want kind) ([]byte, error) {
	o, err := s.objects.EncodedObject(plumbing.AnyObject, plumbing.Hash(id))
	if err != nil {
		return nil, err
	}
	if kind(o.Type()) != want { //nolint:gosec // a git object type is one digit
		return nil, fmt.Errorf("it is a %s", o.Type())
	}
	if o.Size() > mostObject {
		return nil, durable.ErrTooLarge
	}
	r, err := o.Reader()
	if err != nil {
		return nil, err
	}
	defer r.Close() //nolint:errcheck // only read
	data, err := io.ReadAll(io.LimitReader(r, mostObject))
	if err != nil {
		return nil, err
	}
	if objectID(want, data) != id {
		return nil, errors.New("its bytes have another hash")
	}
	return data, nil
}

func (s *store) tree(id protocol.Blob) ([]byte, error) { return s.read(id, kindTree) }

func (s *store) commit(id protocol.Blob) (*commit, error) {
	data, err := s.read(id, kindCommit)
	if err != nil {
		return nil, err
	}
	return decodeCommit(id, data)
}

// root gives the entries of a commit's root tree; none for the zero commit.
func (s *store) root(id protocol.Blob) ([]entry, error) {
	if id.IsZero() {
		return nil, nil
	}
	c, err := s.commit(id)
	if err != nil {
		return nil, err
	}
	data, err := s.tree(c.tree)
	if err != nil {
		return nil, err
	}
	return decodeTree(data)
}

// readSmall reads a whole file of at most so many bytes.
func readSmall(disk durable.FS, name string, most int64) ([]byte, error) {
	data, _, err := durable.ReadFile(disk, name, most)
	return data, err
}

// door shows .git to go-git through [durable.FS], for reading only.
type door struct {
	fs durable.FS
}

var errReadOnly = errors.New("this door is for reading only")

func inGit(name string) string {
	return path.Join(gitDir, strings.ReplaceAll(name, "\\", "/"))
}

func (d *door) Open(name string) (billy.File, error) {
	f, err := d.fs.Open(inGit(name))
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &doorFile{SectionReader: io.NewSectionReader(f, 0, info.Size), file: f, name: name}, nil
}

func (d *door) OpenFile(name string, flag int, _ os.FileMode) (billy.File, error) {
	if flag != os.O_RDONLY {
		return nil, errReadOnly
	}
	return d.Open(name)
}

func (d *door) Lstat(name string) (os.FileInfo, error) {
	info, err := d.fs.Lstat(inGit(name))
	if err != nil {
		return nil, err
	}
	return doorInfo{Info: info}, nil
}

func (d *door) Stat(name string) (os.FileInfo, error) { return d.Lstat(name) }

// ReadDir hides packs without an index: after a crash there may be one, and
// go-git would then read no pack at all.
func (d *door) ReadDir(name string) ([]os.FileInfo, error) {
	entries, err := d.fs.ReadDir(inGit(name))
	if err != nil {
		return nil, err
	}
	there := make(map[string]bool, len(entries))
	for _, e := range entries {
		there[e.Name] = true
	}
	out := make([]os.FileInfo, 0, len(entries))
	for _, e := range entries {
		if stem, ok := strings.CutSuffix(e.Name, ".pack"); ok && !there[stem+".idx"] {
			continue
		}
		out = append(out, doorInfo{Info: durable.Info{Name: e.Name, Mode: e.Type}})
	}
	return out, nil
}

func (d *door) Join(elem ...string) string                  { return path.Join(elem...) }
func (d *door) Root() string                                { return "/" }
func (d *door) Readlink(string) (string, error)             { return "", errReadOnly }
func (d *door) Create(string) (billy.File, error)           { return nil, errReadOnly }
func (d *door) Rename(string, string) error                 { return errReadOnly }
func (d *door) Remove(string) error                         { return errReadOnly }
func (d *door) MkdirAll(string, os.FileMode) error          { return errReadOnly }
func (d *door) Symlink(string, string) error                { return errReadOnly }
func (d *door) TempFile(string, string) (billy.File, error) { return nil, errReadOnly }
func (d *door) Chroot(string) (billy.Filesystem, error)     { return nil, errReadOnly }

type doorFile struct {
	*io.SectionReader
	file durable.File
	name string
}

func (f *doorFile) Name() string              { return f.name }
func (f *doorFile) Close() error              { return f.file.Close() }
func (f *doorFile) Write([]byte) (int, error) { return 0, errReadOnly }
func (f *doorFile) Truncate(int64) error      { return errReadOnly }
func (f *doorFile) Lock() error               { return errReadOnly }
func (f *doorFile) Unlock() error             { return errReadOnly }

type doorInfo struct{ durable.Info }

func (i doorInfo) Name() string      { return i.Info.Name }
func (i doorInfo) Size() int64       { return i.Info.Size }
func (i doorInfo) Mode() os.FileMode { return i.Info.Mode }
func (i doorInfo) IsDir() bool       { return i.Info.Mode.IsDir() }
func (i doorInfo) Sys() any          { return nil }

func (i doorInfo) ModTime() time.Time { return i.Info.ModTime }
