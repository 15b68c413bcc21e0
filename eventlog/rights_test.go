package eventlog

import (
	"io/fs"
	"os"
	"testing"

	"github.com/hived/hived/internal/durable"
)

// A log that is closed to others stays so, whatever hived writes in its place:
// at a start, when a segment is sealed, and when somebody deleted it.
func TestRightsStay(t *testing.T) {
	dir := t.TempDir()
	disk, err := durable.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer disk.Close()
	small(t, disk)
	perm := func(when string, want fs.FileMode) {
		t.Helper()
		info, err := disk.Lstat(openName)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode.Perm() != want {
			t.Errorf("%s: mode %04o, want %04o", when, info.Mode.Perm(), want)
		}
	}
	perm("made", 0o644)
	if err := os.Chmod(disk.Path(openName), 0o600); err != nil {
		t.Fatal(err)
	}
	l, _, _, err := open(disk)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	perm("opened", 0o600)
	seal(t, l)
	perm("sealed", 0o600)
	if err := disk.Remove(openName); err != nil {
		t.Fatal(err)
	}
	if restored, err := l.Hold(); err != nil || !restored {
		t.Fatalf("restored %v, %v", restored, err)
	}
	perm("restored", 0o600)
	add(t, l, 1)
}
