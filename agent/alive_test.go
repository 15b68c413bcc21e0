package agent

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hived/hived/protocol"
)

// Whatever an agent does shows that it lives, also where the daemon does not run.
func TestAlive(t *testing.T) {
	over, cancel := context.WithCancel(context.Background())
	cancel()
	for name, does := range map[string]func(b *Box){
		"send":  func(b *Box) { _, _ = b.Send(Draft{To: []protocol.Address{"bob"}, Subject: "s"}) },
		"inbox": func(b *Box) { _, _ = b.Inbox() },
		"read":  func(b *Box) { _, _ = b.Read("x") },
		"done":  func(b *Box) { _, _ = b.Done("x") },
		"wait":  func(b *Box) { _ = b.Wait(over, nil) },
	} {
		disk := hive(t, "alice")
		put(t, disk, protocol.AliveFile("alice"), "")
		age(t, disk.Path(protocol.AliveFile("alice")), time.Hour)
		does(open(t, disk))
		if a := ageOf(t, disk.Path(protocol.AliveFile("alice"))); a > time.Minute {
			t.Errorf("after %s its last sign of life is %s old", name, a)
		}
	}
}

// A program that keeps beating is left alone; a period that nobody keeps any more
// is taken out.
func TestAliveBesideABeat(t *testing.T) {
	disk := hive(t, "alice")
	file := protocol.AliveFile("alice")
	if err := Alive(disk, "nobody"); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(filepath.Dir(disk.Path(protocol.AliveFile("nobody")))); err == nil {
		t.Error("an agent was made")
	}
	beat := string(protocol.Beat(30 * time.Second))
	for _, x := range []struct {
		old  time.Duration
		want string
	}{{0, beat}, {50 * time.Second, beat}, {61 * time.Second, ""}} {
		if err := Beat(disk, "alice", 30*time.Second); err != nil {
			t.Fatal(err)
		}
		if got := content(t, disk, file); got != beat {
			t.Fatalf("a beat is %q", got)
		}
		age(t, disk.Path(file), x.old)
		if err := Alive(disk, "alice"); err != nil {
			t.Fatal(err)
		}
		if got := content(t, disk, file); got != x.want {
			t.Errorf("%s after a beat the file holds %q, want %q", x.old, got, x.want)
		}
	}
	age(t, disk.Path(file), time.Hour)
	if err := Alive(disk, "alice"); err != nil || ageOf(t, disk.Path(file)) > time.Minute {
		t.Errorf("an empty file was not touched: %v", err)
	}
}

func age(t *testing.T, name string, by time.Duration) {
	t.Helper()
	then := time.Now().Add(-by)
	if err := os.Chtimes(name, then, then); err != nil {
		t.Fatal(err)
	}
}

func ageOf(t *testing.T, name string) time.Duration {
	t.Helper()
	info, err := os.Lstat(name)
	if err != nil {
		t.Fatal(err)
	}
	return time.Since(info.ModTime())
}
