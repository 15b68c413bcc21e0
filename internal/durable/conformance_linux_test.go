package durable_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/durable/faultfs"
	"github.com/hived/hived/internal/testenv"
)

// disk is what the table runs on: an FS with a way to plant what an FS refuses
// to make.
type disk struct {
	durable.FS
	symlink func(name, target string) error
	special func(name string, mode fs.FileMode) error
}

func realDisk(t *testing.T, open func(string) (*durable.Disk, error)) disk {
	t.Helper()
	d, err := open(t.TempDir())
	testenv.Must(t, err)
	t.Cleanup(func() { check(t, d.Close()) })
	return disk{
		FS:      d,
		symlink: func(name, target string) error { return os.Symlink(target, d.Path(name)) },
		special: func(name string, mode fs.FileMode) error {
			kind, ok := map[fs.FileMode]uint32{fs.ModeNamedPipe: unix.S_IFIFO, fs.ModeSocket: unix.S_IFSOCK}[mode]
			if !ok {
				return fmt.Errorf("cannot plant a %v", mode)
			}
			return unix.Mknod(d.Path(name), kind|0o644, 0)
		},
	}
}

func memDisk() disk {
	m := faultfs.New()
	return disk{FS: m, symlink: m.Symlink, special: m.Special}
}

// everyDisk runs a test on the real disk, on the real disk with an old kernel,
// and in memory.
func everyDisk(t *testing.T, test func(t *testing.T, d disk)) {
	t.Helper()
	t.Run("disk", func(t *testing.T) { test(t, realDisk(t, durable.Open)) })
	t.Run("plain", func(t *testing.T) { test(t, realDisk(t, durable.OpenPlain)) })
	t.Run("mem", func(t *testing.T) { test(t, memDisk()) })
	t.Run("near", func(t *testing.T) { test(t, nearDisk(t)) })
}

// nearDisk returns a directory of the real disk that is kept open.
func nearDisk(t *testing.T) disk {
	t.Helper()
	d := realDisk(t, durable.Open)
	check(t, d.MkdirAll("kept/open", 0o755))
	near, done := durable.Near(d.FS, "kept/open")
	t.Cleanup(done)
	if near == d.FS {
		t.Error("the directory is not kept open")
	}
	return disk{
		FS:      below{near, "kept/open/"},
		symlink: func(name, target string) error { return d.symlink("kept/open/"+name, target) },
		special: func(name string, mode fs.FileMode) error { return d.special("kept/open/"+name, mode) },
	}
}

// below shows a directory of a disk as a disk.
type below struct {
	durable.FS
	dir string
}

func (b below) at(name string) string {
	if name == "." {
		return b.dir[:len(b.dir)-1]
	}
	return b.dir + name
}

func (b below) Open(name string) (durable.File, error) { return b.FS.Open(b.at(name)) }

func (b below) Append(name string) (durable.File, error) { return b.FS.Append(b.at(name)) }

func (b below) Lstat(name string) (durable.Info, error) { return b.FS.Lstat(b.at(name)) }

func (b below) ReadDir(name string) ([]durable.Entry, error) { return b.FS.ReadDir(b.at(name)) }

func (b below) Mkdir(name string, perm fs.FileMode) error { return b.FS.Mkdir(b.at(name), perm) }

func (b below) MkdirAll(name string, perm fs.FileMode) error { return b.FS.MkdirAll(b.at(name), perm) }

func (b below) Rename(from, to string) error { return b.FS.Rename(b.at(from), b.at(to)) }

func (b below) RenameNew(from, to string) error { return b.FS.RenameNew(b.at(from), b.at(to)) }

func (b below) Link(from, to string) error { return b.FS.Link(b.at(from), b.at(to)) }

func (b below) Remove(name string) error { return b.FS.Remove(b.at(name)) }

func (b below) SyncDir(name string) error { return b.FS.SyncDir(b.at(name)) }

func (b below) Create(n string, p fs.FileMode) (durable.File, error) { return b.FS.Create(b.at(n), p) }

// TestNear checks that names outside the directory are found as always, that
// something else than a directory is not kept open, and that what is kept open is
// closed.
func TestNear(t *testing.T) {
	d := realDisk(t, durable.Open)
	check(t, d.MkdirAll("in/deep", 0o755))
	check(t, d.Mkdir("out", 0o755))
	check(t, d.symlink("link", "in"))
	put(t, d, "out/x", "x")
	before := descriptors(t)
	near, done := durable.Near(d.FS, "in")
	check(t, near.RenameNew("out/x", "in/deep/x"))
	check(t, near.Rename("in/deep/x", "in/y"))
	diff(t, get(t, near, "in/y"), "x")
	diff(t, names(t, near, "in"), "deep y")
	kept, err := near.Lstat("in")
	check(t, err)
	plain, err := d.Lstat("in")
	check(t, err)
	diff(t, kept, plain)
	diff(t, names(t, near, "."), "in link out")
	checkIs(t, near.Rename("in/y", "in/../../y"), durable.ErrName)
	if descriptors(t) != before+1 {
		t.Errorf("%d descriptors are open, %d before", descriptors(t), before)
	}
	done()
	for _, dir := range []string{"link", "nothing", "in/y", "."} {
		same, done := durable.Near(d.FS, dir)
		if same != d.FS {
			t.Errorf("%s is kept open", dir)
		}
		done()
	}
	if descriptors(t) != before {
		t.Errorf("%d descriptors are open, %d before", descriptors(t), before)
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	check(t, err)
	return len(list)
}

func check(t *testing.T, err error) {
	t.Helper()
	testenv.Must(t, err)
}

func checkIs(t *testing.T, err error, wants ...error) {
	t.Helper()
	for _, want := range wants {
		if !errors.Is(err, want) {
			t.Errorf("got error %v, want %v", err, want)
		}
	}
	var pathErr *fs.PathError
	if len(wants) > 0 && !errors.As(err, &pathErr) {
		t.Errorf("error %v is not a *fs.PathError", err)
	}
}

func put(t *testing.T, d durable.FS, name, data string) {
	t.Helper()
	check(t, durable.Publish(d, name, []byte(data), 0o644, false))
}

func get(t *testing.T, d durable.FS, name string) string {
	t.Helper()
	data, _, err := durable.ReadFile(d, name, -1)
	check(t, err)
	return string(data)
}

func names(t *testing.T, d durable.FS, dir string) string {
	t.Helper()
	list, err := d.ReadDir(dir)
	check(t, err)
	var out []string
	for _, e := range list {
		out = append(out, e.Name)
	}
	return strings.Join(out, " ")
}

func diff(t *testing.T, got, want any) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("want -, got +:\n%s", d)
	}
}

// byName has every method that takes a name, to be called with bad ones.
var byName = map[string]func(d durable.FS, name string) error{
	"open":       func(d durable.FS, n string) error { return closing(d.Open(n)) },
	"create":     func(d durable.FS, n string) error { return closing(d.Create(n, 0o644)) },
	"append":     func(d durable.FS, n string) error { return closing(d.Append(n)) },
	"lstat":      func(d durable.FS, n string) error { _, err := d.Lstat(n); return err },
	"readdir":    func(d durable.FS, n string) error { _, err := d.ReadDir(n); return err },
	"mkdir":      func(d durable.FS, n string) error { return d.Mkdir(n, 0o755) },
	"mkdirall":   func(d durable.FS, n string) error { return d.MkdirAll(n, 0o755) },
	"remove":     func(d durable.FS, n string) error { return d.Remove(n) },
	"syncdir":    func(d durable.FS, n string) error { return d.SyncDir(n) },
	"rename":     func(d durable.FS, n string) error { return d.Rename(n, "new") },
	"rename-to":  func(d durable.FS, n string) error { return d.Rename("file", n) },
	"renamenew":  func(d durable.FS, n string) error { return d.RenameNew(n, "new") },
	"rename-new": func(d durable.FS, n string) error { return d.RenameNew("file", n) },
	"link":       func(d durable.FS, n string) error { return d.Link(n, "new") },
	"link-to":    func(d durable.FS, n string) error { return d.Link("file", n) },
	"publish":    func(d durable.FS, n string) error { return durable.Publish(d, n, nil, 0o644, true) },
	"readfile":   func(d durable.FS, n string) error { _, _, err := durable.ReadFile(d, n, 1); return err },
}

func closing(f durable.File, err error) error {
	if err != nil {
		return err
	}
	return f.Close()
}

func TestBadNames(t *testing.T) {
	everyDisk(t, func(t *testing.T, d disk) {
		t.Helper()
		put(t, d, "file", "x")
		for _, name := range []string{"", "/", "/etc/passwd", "..", "../x", "a/../../x", "a/..", "./a", "a/.", "a//b", "a/", "a\x00b"} {
			for op, do := range byName {
				if err := do(d, name); !errors.Is(err, durable.ErrName) {
					t.Errorf("%s %q: got %v, want ErrName", op, name, err)
				}
			}
		}
		diff(t, names(t, d, "."), "file")
	})
}

func TestLinksOnTheWay(t *testing.T) {
	everyDisk(t, func(t *testing.T, d disk) {
		t.Helper()
		check(t, d.MkdirAll("dir/sub", 0o755))
		put(t, d, "file", "x")
		put(t, d, "dir/sub/file", "x")
		check(t, d.symlink("inside", "dir"))
		check(t, d.symlink("outside", "/etc"))
		check(t, d.symlink("up", ".."))
		check(t, d.symlink("dir/again", "sub"))
		for _, name := range []string{"inside/sub/file", "inside/new", "outside/passwd", "up/x", "dir/again/file", "dir/again/new"} {
			for op, do := range byName {
				if err := do(d, name); !errors.Is(err, durable.ErrLink) {
					t.Errorf("%s %q: got %v, want ErrLink", op, name, err)
				}
			}
		}
		diff(t, names(t, d, "dir/sub"), "file")
		diff(t, names(t, d, "."), "dir file inside outside up")
	})
}

func TestLinkAsLastElement(t *testing.T) {
	everyDisk(t, func(t *testing.T, d disk) {
		t.Helper()
		put(t, d, "file", "x")
		check(t, d.Mkdir("dir", 0o755))
		check(t, d.symlink("to-file", "file"))
		check(t, d.symlink("to-dir", "dir"))
		check(t, d.symlink("to-nothing", "nothing"))
		for _, name := range []string{"to-file", "to-dir", "to-nothing"} {
			for _, op := range []string{"open", "append", "readdir", "syncdir", "readfile", "mkdirall"} {
				checkIs(t, byName[op](d, name), durable.ErrLink)
			}
			for _, op := range []string{"create", "mkdir", "link-to", "rename-new"} {
				checkIs(t, byName[op](d, name), fs.ErrExist)
			}
			info, err := d.Lstat(name)
			check(t, err)
			diff(t, info.Mode.Type(), fs.ModeSymlink)
		}
		diff(t, names(t, d, "."), "dir file to-dir to-file to-nothing")
		check(t, d.Rename("to-file", "dir/bad"))
		check(t, d.RenameNew("to-dir", "dir/worse"))
		check(t, d.Remove("to-nothing"))
		diff(t, names(t, d, "."), "dir file")
		diff(t, get(t, d, "file"), "x")
	})
}

func TestNotRegular(t *testing.T) {
	everyDisk(t, func(t *testing.T, d disk) {
		t.Helper()
		check(t, d.Mkdir("dir", 0o755))
		check(t, d.special("fifo", fs.ModeNamedPipe))
		check(t, d.special("socket", fs.ModeSocket))
		for _, name := range []string{"dir", "fifo", "socket"} {
			checkIs(t, byName["open"](d, name), durable.ErrNotRegular)
			checkIs(t, byName["append"](d, name), durable.ErrNotRegular)
			checkIs(t, byName["create"](d, name), fs.ErrExist)
		}
		checkIs(t, byName["readdir"](d, "fifo"), syscall.ENOTDIR)
		checkIs(t, byName["mkdirall"](d, "fifo"), syscall.ENOTDIR)
		checkIs(t, byName["open"](d, "fifo/x"), syscall.ENOTDIR)
		list, err := d.ReadDir(".")
		check(t, err)
		diff(t, list, []durable.Entry{{Name: "dir", Type: fs.ModeDir}, {Name: "fifo", Type: fs.ModeNamedPipe}, {Name: "socket", Type: fs.ModeSocket}})
		check(t, d.Rename("fifo", "dir/bad-fifo"))
		diff(t, names(t, d, "dir"), "bad-fifo")
	})
}

func TestFiles(t *testing.T) {
	everyDisk(t, func(t *testing.T, d disk) {
		t.Helper()
		checkIs(t, byName["open"](d, "a"), fs.ErrNotExist)
		f, err := d.Create("a", 0o600)
		check(t, err)
		write(t, f, "hello world")
		checkIs(t, byName["create"](d, "a"), fs.ErrExist)
		buf := make([]byte, 8)
		n, err := f.ReadAt(buf, 6)
		diff(t, string(buf[:n])+fmt.Sprint(err), "worldEOF")
		n, err = f.ReadAt(buf, 0)
		diff(t, string(buf[:n])+fmt.Sprint(err), "hello wo<nil>")
		check(t, f.Truncate(5))
		check(t, f.Sync())
		check(t, f.Close())
		checkIs(t, f.Close(), fs.ErrClosed)
		checkIs(t, f.Sync(), fs.ErrClosed)

		f, err = d.Append("a")
		check(t, err)
		write(t, f, ", you")
		check(t, f.Truncate(6))
		write(t, f, " me")
		check(t, f.Close())
		diff(t, get(t, d, "a"), "hello, me")

		f, err = d.Append("b")
		check(t, err)
		info, err := f.Stat()
		check(t, err)
		diff(t, []any{info.Name, info.Mode, info.Size, info.Regular(), info.Links}, []any{"b", fs.FileMode(0o644), int64(0), true, uint64(1)})
		check(t, f.Close())

		f, err = d.Open("a")
		check(t, err)
		_, err = f.Write([]byte("x"))
		checkIs(t, err, syscall.EBADF)
		checkIs(t, f.Truncate(0), syscall.EINVAL)
		all, err := io.ReadAll(f)
		check(t, err)
		diff(t, string(all), "hello, me")
		check(t, f.Close())
		_, err = f.Read(buf)
		checkIs(t, err, fs.ErrClosed)
	})
}

func write(t *testing.T, f durable.File, data string) {
	t.Helper()
	n, err := f.Write([]byte(data))
	check(t, err)
	diff(t, n, len(data))
}

func TestNamesAreBytes(t *testing.T) {
	everyDisk(t, func(t *testing.T, d disk) {
		t.Helper()
		for _, name := range []string{"\xff\xfe.json", "a\nb", "-rf", "\x1b[31m", "\u202Etxt.json", " ", "...", "..a", `back\slash`} {
			put(t, d, name, name)
			diff(t, get(t, d, name), name)
			diff(t, names(t, d, "."), name)
			check(t, d.Remove(name))
		}
	})
}

func TestMoves(t *testing.T) {
	everyDisk(t, func(t *testing.T, d disk) {
		t.Helper()
		check(t, d.MkdirAll("a/b", 0o755))
		check(t, d.MkdirAll("a/b/c/d", 0o755))
		check(t, d.MkdirAll(".", 0o755))
		put(t, d, "a/one", "one")
		put(t, d, "a/b/two", "two")
		checkIs(t, d.RenameNew("a/one", "a/b/two"), fs.ErrExist)
		checkIs(t, d.Link("a/one", "a/b/two"), fs.ErrExist)
		diff(t, get(t, d, "a/b/two"), "two")
		check(t, d.RenameNew("a/one", "a/b/one"))
		check(t, d.Rename("a/b/one", "a/b/two"))
		diff(t, get(t, d, "a/b/two"), "one")
		diff(t, names(t, d, "a")+"|"+names(t, d, "a/b"), "b|c two")
		checkIs(t, d.Rename("a/none", "a/x"), fs.ErrNotExist)
		checkIs(t, d.RenameNew("a/none", "a/x"), fs.ErrNotExist)
		checkIs(t, d.Link("a/none", "a/x"), fs.ErrNotExist)
		checkIs(t, d.Rename("a/b/two", "none/x"), fs.ErrNotExist)
		checkIs(t, d.Rename("a/b/two", "a/b/c"), durable.ErrNotRegular)
		check(t, d.Link("a/b/two", "a/three"))
		info, err := d.Lstat("a/three")
		check(t, err)
		other, err := d.Lstat("a/b/two")
		check(t, err)
		diff(t, []any{info.Links, info.Ino, info.Dev}, []any{uint64(2), other.Ino, other.Dev})
		check(t, d.Rename("a/three", "a/b/two")) // links of one file: nothing happens
		diff(t, names(t, d, "a"), "b three")
		checkIs(t, d.Remove("a/b"), syscall.ENOTEMPTY)
		checkIs(t, d.Remove("a/none"), fs.ErrNotExist)
		check(t, d.Remove("a/b/c/d"))
		check(t, d.Remove("a/b/two"))
		check(t, d.Rename("a/b", "moved"))
		diff(t, names(t, d, ".")+"|"+names(t, d, "moved"), "a moved|c")
		checkIs(t, d.Mkdir("moved", 0o755), fs.ErrExist)
		checkIs(t, d.Mkdir("no/dir", 0o755), fs.ErrNotExist)
		checkIs(t, d.MkdirAll("a/three/x", 0o755), syscall.ENOTDIR)
		check(t, d.SyncDir("moved/c"))
		check(t, d.SyncDir("."))
		check(t, d.SyncAll())
		checkIs(t, d.SyncDir("none"), fs.ErrNotExist)
	})
}

func TestReadFile(t *testing.T) {
	everyDisk(t, func(t *testing.T, d disk) {
		t.Helper()
		for _, size := range []int{0, 1, 511, 4096, 70000} {
			want := strings.Repeat("x", size)
			put(t, d, "f", want)
			for _, most := range []int64{int64(size), int64(size) + 1, -1} {
				data, info, err := durable.ReadFile(d, "f", most)
				check(t, err)
				diff(t, []any{string(data), info.Size, info.Name}, []any{want, int64(size), "f"})
			}
			if size > 0 {
				data, info, err := durable.ReadFile(d, "f", int64(size)-1)
				checkIs(t, err, durable.ErrTooLarge)
				diff(t, []any{data, info.Size}, []any{[]byte(nil), int64(size)})
			}
		}
	})
}

func TestReadDirOfMany(t *testing.T) {
	everyDisk(t, func(t *testing.T, d disk) {
		t.Helper()
		var want []durable.Entry
		for i := range 700 { // the system returns them in several pieces
			name := fmt.Sprintf("%05d-%s", i, strings.Repeat("n", i%90))
			check(t, closing(d.Create(name, 0o644)))
			want = append(want, durable.Entry{Name: name})
		}
		list, err := d.ReadDir(".")
		check(t, err)
		diff(t, list, want)
	})
}

func TestBeingWritten(t *testing.T) {
	everyDisk(t, func(t *testing.T, d disk) {
		t.Helper()
		put(t, d, "f", "x")
		r, err := d.Open("f")
		check(t, err)
		defer func() { check(t, r.Close()) }()
		open, known := durable.BeingWritten(r)
		if !known {
			t.Skip("the file system grants no leases")
		}
		diff(t, open, false)
		w, err := d.Append("f")
		check(t, err)
		open, known = durable.BeingWritten(r)
		diff(t, []bool{open, known}, []bool{true, true})
		check(t, w.Close())
		open, known = durable.BeingWritten(r)
		diff(t, []bool{open, known}, []bool{false, true})
	})
}
