package agent

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/durable/faultfs"
	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/protocol"
)

// TestAlive checks that everything an agent does is a sign of life, also where the
// daemon does not run.
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
		disk := newHive(t, "alice")
		put(t, disk, protocol.AliveFile("alice"), "")
		age(t, disk.Path(protocol.AliveFile("alice")), time.Hour)
		does(open(t, disk))
		if a := ageOf(t, disk.Path(protocol.AliveFile("alice"))); a > time.Minute {
			t.Errorf("after %s the last sign of life is %s old", name, a)
		}
	}
}

// TestAliveBesideABeat checks that Alive leaves the file alone while a program
// keeps beating, and removes the period when none does any more.
func TestAliveBesideABeat(t *testing.T) {
	disk := newHive(t, "alice")
	file := protocol.AliveFile("alice")
	if err := Alive(disk, "nobody"); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(filepath.Dir(disk.Path(protocol.AliveFile("nobody")))); err == nil {
		t.Error("an agent's directory was made")
	}
	over, cancel := context.WithCancel(context.Background())
	cancel()
	beat := string(protocol.Beat(30 * time.Second))
	for _, x := range []struct {
		old  time.Duration
		want string
	}{{0, beat}, {50 * time.Second, beat}, {61 * time.Second, ""}} {
		testenv.Must(t, open(t, disk).KeepAlive(over, 2*time.Minute, func() bool { return true }))
		if got := content(t, disk, file); got != beat {
			t.Fatalf("a beat is %q", got)
		}
		age(t, disk.Path(file), x.old)
		testenv.Must(t, Alive(disk, "alice"))
		if got := content(t, disk, file); got != x.want {
			t.Errorf("%s after a beat the file holds %q, want %q", x.old, got, x.want)
		}
	}
	age(t, disk.Path(file), time.Hour)
	if err := Alive(disk, "alice"); err != nil || ageOf(t, disk.Path(file)) > time.Minute {
		t.Errorf("an empty file was not touched: %v", err)
	}
}

// TestKeepAlive checks that an agent that keeps beating writes how often, and stops
// when lives returns false or the context ends.
func TestKeepAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := faultfs.New()
		disk.SetClock(time.Now)
		testenv.Must(t, disk.MkdirAll(protocol.OutboxDir("alice"), 0o755))
		begun, asked := time.Now(), 0
		last := func() (time.Duration, time.Duration) {
			text, info, err := durable.ReadFile(disk, protocol.AliveFile("alice"), -1)
			testenv.Must(t, err)
			return info.ModTime.Sub(begun), protocol.BeatOf(text)
		}
		lives := func() bool { asked++; return asked <= 3 }
		if err := open(t, disk).KeepAlive(t.Context(), time.Minute, lives); err != nil || asked != 4 || time.Since(begun) != 45*time.Second {
			t.Errorf("KeepAlive ended after %d calls of lives and %s with %v", asked, time.Since(begun), err)
		}
		if at, every := last(); at != 30*time.Second || every != 15*time.Second {
			t.Errorf("the last beat came after %s, with the period %s", at, every)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond/2)
		defer cancel()
		begun = time.Now()
		if err := open(t, disk).KeepAlive(ctx, time.Nanosecond, func() bool { return true }); err != nil {
			t.Error(err)
		}
		if at, every := last(); at != 2*time.Millisecond || every != time.Millisecond {
			t.Errorf("the last beat came after %s, with the period %s", at, every)
		}
		if err := open(t, &noAppend{disk}).KeepAlive(t.Context(), time.Minute, func() bool { return true }); !errors.Is(err, fs.ErrInvalid) || !strings.HasPrefix(err.Error(), "show that alice lives: ") {
			t.Errorf("on a disk that refuses writes: %v", err)
		}
	})
}

// noAppend is a disk on which no file can be opened for writing.
type noAppend struct{ durable.FS }

func (*noAppend) Append(string) (durable.File, error) { return nil, fs.ErrInvalid }

func age(t *testing.T, name string, by time.Duration) {
	t.Helper()
	then := time.Now().Add(-by)
	testenv.Must(t, os.Chtimes(name, then, then))
}

func ageOf(t *testing.T, name string) time.Duration {
	t.Helper()
	info, err := os.Lstat(name)
	testenv.Must(t, err)
	return time.Since(info.ModTime())
}
