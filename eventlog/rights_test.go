package eventlog

import (
	"io/fs"
	"os"
	"testing"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/testenv"
)

// TestRightsStay checks that a log that others may not read stays so, whatever
// hived writes in its place: at a start, when a segment is sealed, and when
// somebody deleted it.
func TestRightsStay(t *testing.T) {
	dir := t.TempDir()
	disk, err := durable.Open(dir)
	testenv.Must(t, err)
	defer disk.Close()
	small(t, disk)
	perm := func(when string, want fs.FileMode) {
		t.Helper()
		info, err := disk.Lstat(openName)
		testenv.Must(t, err)
		if info.Mode.Perm() != want {
			t.Errorf("%s: mode %04o, want %04o", when, info.Mode.Perm(), want)
		}
	}
	perm("made", 0o644)
	testenv.Must(t, os.Chmod(disk.Path(openName), 0o600))
	l, _, _, err := open(disk)
	testenv.Must(t, err)
	defer l.Close()
	perm("opened", 0o600)
	seal(t, l)
	perm("sealed", 0o600)
	testenv.Must(t, disk.Remove(openName))
	if restored, err := l.Hold(); err != nil || !restored {
		t.Fatalf("restored %v, %v", restored, err)
	}
	perm("restored", 0o600)
	add(t, l, 1)
}
