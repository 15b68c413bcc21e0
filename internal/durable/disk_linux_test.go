package durable_test

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hived/hived/internal/durable"
)

func TestOpenRoot(t *testing.T) {
	dir := t.TempDir()
	check(t, os.Symlink(dir, dir+"/self"))
	d, err := durable.Open(dir + "/self") // the path to the root may have a link
	check(t, err)
	diff(t, d.Path("a/b"), dir+"/self/a/b")
	diff(t, d.Path("../../x"), dir+"/self/x")
	check(t, d.Close())
	_, err = d.Lstat("x")
	checkIs(t, err, unix.EBADF)
	_, err = durable.Open(dir + "/none")
	checkIs(t, err, os.ErrNotExist)
}

func TestDevice(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("making a device needs root")
	}
	d := realDisk(t, durable.Open)
	raw := d.FS.(*durable.Disk)
	// /dev/full would fail a read or write; it must not get that far.
	if err := unix.Mknod(raw.Path("dev"), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 7))); err != nil {
		t.Skipf("making a device: %v", err)
	}
	for _, op := range []string{"open", "append", "readfile"} {
		checkIs(t, byName[op](d, "dev"), durable.ErrNotRegular)
	}
}

// smallDisk returns a small file system of its own.
func smallDisk(t *testing.T, options string) (*durable.Disk, string) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("mounting a small file system needs root")
	}
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
		t.Skipf("mounting a small file system: %v", err)
	}
	t.Cleanup(func() { check(t, unix.Unmount(dir, unix.MNT_DETACH)) })
	d, err := durable.Open(dir)
	check(t, err)
	t.Cleanup(func() { check(t, d.Close()) })
	return d, dir
}

func TestNoSpace(t *testing.T) {
	d, _ := smallDisk(t, "size=64k,nr_inodes=10")
	put(t, d, "old", "old")
	err := durable.Publish(d, "old", make([]byte, 1<<20), 0o644, true)
	checkIs(t, err, durable.ErrNoSpace, syscall.ENOSPC)
	diff(t, names(t, d, "."), "old")
	diff(t, get(t, d, "old"), "old")
	for i := 0; err == nil || i == 0; i++ {
		err = d.Mkdir(strconv.Itoa(i), 0o755) // out of inodes
	}
	checkIs(t, err, durable.ErrNoSpace)
}

func TestReadOnly(t *testing.T) {
	d, dir := smallDisk(t, "size=64k")
	put(t, d, "f", "x")
	check(t, unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	checkIs(t, durable.Publish(d, "g", nil, 0o644, false), durable.ErrReadOnly, syscall.EROFS)
	checkIs(t, d.Rename("f", "g"), durable.ErrReadOnly)
	checkIs(t, byName["append"](d, "f"), durable.ErrReadOnly)
	diff(t, get(t, d, "f"), "x")
}

// TestLeaseDoesNotBlock checks that opening a file for writing fails at once, and
// does not wait, if another process has a read lease.
func TestLeaseDoesNotBlock(t *testing.T) {
	d := realDisk(t, durable.Open)
	put(t, d, "f", "x")
	f, err := os.Open(d.FS.(*durable.Disk).Path("f"))
	check(t, err)
	defer func() { check(t, f.Close()) }()
	if _, err := unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_RDLCK); err != nil {
		t.Skipf("taking a lease: %v", err)
	}
	checkIs(t, byName["append"](d, "f"), unix.EAGAIN)
}

func TestSyncFailureIsSticky(t *testing.T) {
	d, err := durable.Open(t.TempDir())
	check(t, err)
	check(t, d.Close()) // a way to make the kernel refuse
	first := d.SyncAll()
	checkIs(t, first, durable.ErrSync, unix.EBADF)
	if second := d.SyncAll(); !errors.Is(second, first) {
		t.Errorf("second SyncAll: %v", second)
	}
	reopened, err := durable.Open(t.TempDir())
	check(t, err)
	check(t, reopened.SyncAll())
	check(t, reopened.Close())
}

// FuzzEntries decodes any answer of getdents: it comes from the kernel, and from
// whoever wrote the file system behind it.
func FuzzEntries(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("\x01\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x18\x00\x08name\x00"))
	f.Fuzz(func(t *testing.T, buf []byte) {
		for _, e := range durable.AppendEntries(-1, buf) {
			if e.Name == "." || e.Name == ".." || strings.Contains(e.Name, "\x00") {
				t.Errorf("entry %q", e.Name)
			}
		}
	})
}

func FuzzNames(f *testing.F) {
	for _, name := range []string{".", "a/b", "..", "a/../b", "/", "\xff", ""} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		local := filepath.IsLocal(name) && filepath.Clean(name) == name && !strings.Contains(name, "\x00")
		if durable.ValidName(name) != local {
			t.Errorf("ValidName(%q) = %v", name, !local)
		}
	})
}
