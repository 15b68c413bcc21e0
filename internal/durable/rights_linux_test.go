package durable_test

import (
	"io/fs"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hived/hived/internal/durable"
)

func TestSetRights(t *testing.T) {
	disk, err := durable.Open(t.TempDir())
	check(t, err)
	defer disk.Close()
	me := durable.Rights{UID: uint32(os.Getuid()), GID: uint32(os.Getgid())}
	check(t, disk.Mkdir("dir", 0o755))
	check(t, os.WriteFile(disk.Path("file"), nil, 0o644))
	for name, mode := range map[string]fs.FileMode{"dir": 0o770 | fs.ModeSticky | fs.ModeSetgid, "file": 0o600} {
		want := me
		want.Mode = mode
		check(t, disk.SetRights(name, want))
		info, err := disk.Lstat(name)
		check(t, err)
		diff(t, info.Rights(), want)
	}

	// What an agent may put in the place of a file or a directory.
	check(t, os.Symlink("file", disk.Path("link")))
	check(t, os.Symlink("dir", disk.Path("dirlink")))
	check(t, os.Link(disk.Path("file"), disk.Path("second")))
	check(t, unix.Mkfifo(disk.Path("fifo"), 0o600))
	for name, want := range map[string]error{"link": durable.ErrLink, "dirlink/x": durable.ErrLink, "second": durable.ErrHardLink, "fifo": durable.ErrNotRegular, "none": fs.ErrNotExist, "../x": durable.ErrName} {
		checkIs(t, disk.SetRights(name, me), want)
	}
	info, err := disk.Lstat("file")
	check(t, err)
	diff(t, info.Mode.Perm(), fs.FileMode(0o600))
}

// TestSetRightsOfAnother checks that the owner is set, and then the mode: a change
// of owner alone takes the setgid bit off.
func TestSetRightsOfAnother(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("giving files away needs root")
	}
	disk, err := durable.Open(t.TempDir())
	check(t, err)
	defer disk.Close()
	check(t, disk.Mkdir("dir", 0o755))
	want := durable.Rights{UID: 70001, GID: 70002, Mode: 0o770 | fs.ModeSetgid}
	check(t, disk.SetRights("dir", want))
	info, err := disk.Lstat("dir")
	check(t, err)
	diff(t, info.Rights(), want)
}
