package faultfs_test

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/durable/faultfs"
	"github.com/hived/hived/internal/testenv"
)

// script runs a small language, so that a case reads as what happens to a disk:
// "create f", "append f text", "write f text" (create and write), "sync f", "trunc
// f n", "mv a b", "ln a b", "rm f", "mkdir d", "syncdir d", "syncall".
func script(t *testing.T, m *faultfs.Mem, lines ...string) error {
	t.Helper()
	for _, line := range lines {
		if err := step(m, strings.Fields(line)); err != nil {
			return err
		}
	}
	return nil
}

func step(m *faultfs.Mem, w []string) error {
	switch w[0] {
	case "write":
		f, err := m.Create(w[1], 0o644)
		return onFile(f, err, func(f durable.File) error { _, err := f.Write([]byte(w[2])); return err })
	case "append":
		f, err := m.Append(w[1])
		return onFile(f, err, func(f durable.File) error { _, err := f.Write([]byte(w[2])); return err })
	case "sync":
		f, err := m.Append(w[1])
		return onFile(f, err, durable.File.Sync)
	case "trunc":
		f, err := m.Append(w[1])
		return onFile(f, err, func(f durable.File) error { return f.Truncate(int64(len(w[2]))) })
	case "mv":
		return m.Rename(w[1], w[2])
	case "ln":
		return m.Link(w[1], w[2])
	case "rm":
		return m.Remove(w[1])
	case "mkdir":
		return m.Mkdir(w[1], 0o755)
	case "syncdir":
		return m.SyncDir(w[1])
	case "syncall":
		return m.SyncAll()
	}
	return fmt.Errorf("no such step: %v", w)
}

func onFile(f durable.File, err error, do func(durable.File) error) error {
	if err != nil {
		return err
	}
	return errors.Join(do(f), f.Close())
}

// tree returns the content of a disk as "name=content" of every file and "name/" of
// every directory, in name order.
func tree(t *testing.T, d durable.FS, dir string) string {
	t.Helper()
	list, err := d.ReadDir(dir)
	testenv.Must(t, err)
	var out []string
	for _, e := range list {
		name := strings.TrimPrefix(dir+"/"+e.Name, "./")
		if e.Type.IsDir() {
			out = append(out, name+"/")
			if inner := tree(t, d, name); inner != "" {
				out = append(out, inner)
			}
			continue
		}
		data, _, err := durable.ReadFile(d, name, -1)
		testenv.Must(t, err)
		out = append(out, name+"="+string(data))
	}
	return strings.Join(out, " ")
}

func TestPowerCut(t *testing.T) {
	for name, tt := range map[string]struct {
		steps []string
		drop  string // what a disk that drops everything unsynced shows
		keep  string // what the death of the process leaves
	}{
		"nothing synced":            {[]string{"write f x"}, "", "f=x"},
		"data without name":         {[]string{"write f x", "sync f"}, "", "f=x"},
		"name without data":         {[]string{"write f x", "syncdir ."}, "f=", "f=x"},
		"both":                      {[]string{"write f x", "sync f", "syncdir ."}, "f=x", "f=x"},
		"all":                       {[]string{"mkdir d", "write d/f x", "syncall"}, "d/ d/f=x", "d/ d/f=x"},
		"directory without name":    {[]string{"mkdir d", "write d/f x", "sync d/f", "syncdir d"}, "", "d/ d/f=x"},
		"written on":                {[]string{"write f x", "syncall", "append f y"}, "f=x", "f=xy"},
		"cut and written":           {[]string{"write f abc", "syncall", "trunc f 1", "append f Z"}, "f=abc", "f=aZ"},
		"cut, written, synced":      {[]string{"write f abc", "syncall", "trunc f 1", "append f Z", "sync f"}, "f=aZ", "f=aZ"},
		"renamed, not synced":       {[]string{"write f x", "syncall", "mv f g"}, "f=x", "g=x"},
		"renamed, synced":           {[]string{"write f x", "syncall", "mv f g", "syncdir ."}, "g=x", "g=x"},
		"zero-length trap":          {[]string{"write f old", "syncall", "write t new", "mv t f", "syncdir ."}, "f=", "f=new"},
		"careful replacement":       {[]string{"write f old", "syncall", "write t new", "sync t", "mv t f", "syncdir ."}, "f=new", "f=new"},
		"moved, synced at the new":  {[]string{"mkdir a", "mkdir b", "write a/f x", "syncall", "mv a/f b/f", "syncdir b"}, "a/ b/ b/f=x", "a/ b/ b/f=x"},
		"moved, synced at the old":  {[]string{"mkdir a", "mkdir b", "write a/f x", "syncall", "mv a/f b/f", "syncdir a"}, "a/ b/ b/f=x", "a/ b/ b/f=x"},
		"made, moved, synced":       {[]string{"mkdir a", "mkdir b", "syncall", "write a/f x", "sync a/f", "mv a/f b/f", "syncdir b"}, "a/ b/ b/f=x", "a/ b/ b/f=x"},
		"moved away for good":       {[]string{"mkdir a", "mkdir b", "syncall", "write a/f x", "mv a/f b/f", "syncdir b", "syncall"}, "a/ b/ b/f=x", "a/ b/ b/f=x"},
		"removed, not synced":       {[]string{"write f x", "syncall", "rm f"}, "f=x", ""},
		"removed, synced":           {[]string{"write f x", "syncall", "rm f", "syncdir ."}, "", ""},
		"second name, not synced":   {[]string{"mkdir d", "write f x", "syncall", "ln f d/g", "append f y", "sync f"}, "d/ f=xy", "d/ d/g=xy f=xy"},
		"second name, synced":       {[]string{"mkdir d", "write f x", "syncall", "ln f d/g", "syncdir d", "rm f"}, "d/ d/g=x f=x", "d/ d/g=x"},
		"other directories' names":  {[]string{"mkdir a", "mkdir b", "syncall", "write a/f x", "write b/f x", "syncdir b"}, "a/ b/ b/f=", "a/ a/f=x b/ b/f=x"},
		"directory renamed":         {[]string{"mkdir a", "write a/f x", "syncall", "mv a b"}, "a/ a/f=x", "b/ b/f=x"},
		"directory renamed, synced": {[]string{"mkdir a", "write a/f x", "syncall", "mv a b", "syncdir ."}, "b/ b/f=x", "b/ b/f=x"},
	} {
		t.Run(name, func(t *testing.T) {
			for loss, want := range map[faultfs.Loss]string{faultfs.Drop: tt.drop, faultfs.Keep: tt.keep} {
				m := faultfs.New()
				testenv.Must(t, script(t, m, tt.steps...))
				m.CrashAt(0, loss)
				left := m.Reboot()
				if diff := cmp.Diff(want, tree(t, left, ".")); diff != "" {
					t.Errorf("%v: want -, got +:\n%s", loss, diff)
				}
				// What the death of the process left can still be lost.
				if diff := cmp.Diff(tt.drop, tree(t, left.Copy().Reboot(), ".")); diff != "" {
					t.Errorf("%v, then a power cut: want -, got +:\n%s", loss, diff)
				}
				// The disk goes on.
				if err := script(t, left, "write new n", "syncall"); err != nil {
					t.Error(err)
				}
				again := strings.TrimSpace(strings.Replace(tree(t, left.Reboot(), "."), "new=n", "", 1))
				if diff := cmp.Diff(want, strings.TrimSpace(again)); diff != "" {
					t.Errorf("%v, second crash: want -, got +:\n%s", loss, diff)
				}
			}
		})
	}
}

func TestCrashAt(t *testing.T) {
	m := faultfs.New()
	testenv.Must(t, script(t, m, "write f x", "syncall"))
	f, err := m.Append("f")
	testenv.Must(t, err)
	before := m.Ops()
	m.CrashAt(2, faultfs.Keep)
	testenv.Must(t, script(t, m, "append f y"))
	_, errLstat := m.Lstat("f")
	if errLstat != nil {
		t.Errorf("before the crash: %v", errLstat)
	}
	_, writeErr := f.Write([]byte("z"))
	_, errOpen := m.Open("f")
	_, errLstat = m.Lstat("f")
	_, errRead := m.ReadDir(".")
	for i, err := range []error{writeErr, errOpen, errLstat, errRead, m.Remove("f"), m.SyncDir("."), m.SyncAll(), m.MkdirAll("d", 0o755), f.Sync(), f.Close()} {
		if !errors.Is(err, faultfs.ErrCrashed) {
			t.Errorf("call %d after the crash: %v", i, err)
		}
	}
	if n := m.Ops() - before; n != 2 {
		t.Errorf("%d operations, want 2", n)
	}
	left := m.Reboot()
	if got := tree(t, left, "."); got != "f=xy" || left.Ops() != 0 {
		t.Errorf("left %q after %d operations", got, left.Ops())
	}
}

// TestTorn checks that torn disks differ by seed but not from run to run, and lie
// between what was synced and what was written.
func TestTorn(t *testing.T) {
	var all strings.Builder
	for seed := range uint64(200) {
		var first string
		for run := range 2 {
			m := faultfs.New()
			m.CrashAt(9, faultfs.Torn(seed))
			err := script(t, m, "write log abc", "syncall", "mkdir d", "append log defg", "write d/t data", "mv d/t d/f")
			if !errors.Is(err, faultfs.ErrCrashed) && err != nil {
				t.Fatal(err)
			}
			got := tree(t, m.Reboot(), ".")
			if run == 0 {
				first = got
			}
			if got != first || got != tree(t, m.Reboot(), ".") {
				t.Errorf("seed %d: %q and %q", seed, first, got)
			}
		}
		fmt.Fprintf(&all, "[%s]", first)
		if !strings.Contains(first, "log=abc") || strings.Contains(first, "d/t") && strings.Contains(first, "d/f") {
			t.Errorf("seed %d: %q", seed, first)
		}
	}
	for _, want := range []string{"[log=abc]", "[log=abcdefg]", "[log=abcde]", "[d/ log=abc", " d/f=data ", " d/f= ", " d/f=da ", " d/t=data ", " d/t= "} {
		if !strings.Contains(all.String(), want) {
			t.Errorf("never seen: %q", want)
		}
	}
}

func TestFailAt(t *testing.T) {
	for name, tt := range map[string]struct {
		n, times int
		op       faultfs.Op
		steps    []string
		want     string // one digit a step: 0 good, 1 failed
		tree     string
	}{
		"once":           {1, 1, "", []string{"write f x", "write g x"}, "10", "g=x"},
		"third":          {3, 1, "", []string{"write f x", "write g x", "write h x"}, "010", "f=x h=x"},
		"twice":          {1, 2, "", []string{"mkdir a", "mkdir b", "mkdir c"}, "110", "c/"},
		"for ever":       {2, -1, "", []string{"mkdir a", "mkdir b", "mkdir c"}, "011", "a/"},
		"rename only":    {1, 1, faultfs.OpRename, []string{"write f x", "mv f g", "mv f h"}, "010", "h=x"},
		"write only":     {2, 1, faultfs.OpWrite, []string{"write f x", "write g x", "write h x"}, "010", "f=x g= h=x"},
		"second syncdir": {2, 1, faultfs.OpSyncDir, []string{"syncdir .", "mkdir a", "syncdir ."}, "001", "a/"},
		"remove":         {1, 1, faultfs.OpRemove, []string{"mkdir a", "rm a"}, "01", "a/"},
		"link":           {1, 1, faultfs.OpLink, []string{"write f x", "ln f g"}, "01", "f=x"},
		"truncate":       {1, 1, faultfs.OpTruncate, []string{"write f x", "trunc f 1"}, "01", "f=x"},
	} {
		t.Run(name, func(t *testing.T) {
			m := faultfs.New()
			m.FailAt(tt.n, syscall.EIO, tt.times, func(op faultfs.Op, _ string) bool { return tt.op == "" || op == tt.op })
			for i, s := range tt.steps {
				var want error
				if tt.want[i] == '1' {
					want = syscall.EIO
				}
				if err := script(t, m, s); !errors.Is(err, want) {
					t.Errorf("%s: got %v, want %v", s, err, want)
				}
			}
			if got := tree(t, m, "."); got != tt.tree {
				t.Errorf("got %q, want %q", got, tt.tree)
			}
			m.Heal()
			if err := m.Mkdir("healed", 0o755); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestFailedSyncLoses checks that what a failed sync should have saved is lost,
// whatever is synced later.
func TestFailedSyncLoses(t *testing.T) {
	t.Run("file", func(t *testing.T) {
		m := faultfs.New()
		testenv.Must(t, script(t, m, "write f one", "syncall", "append f two"))
		f, err := m.Append("f")
		testenv.Must(t, err)
		m.FailAt(1, syscall.EIO, 1)
		for range 2 { // the second meets no fault, and fails too
			err := f.Sync()
			if !errors.Is(err, durable.ErrSync) || !errors.Is(err, syscall.EIO) {
				t.Errorf("got %v, want ErrSync", err)
			}
		}
		if got := tree(t, m, "."); got != "f=onetwo" {
			t.Errorf("running: %q", got) // programs read what is in memory
		}
		testenv.Must(t, script(t, m, "append f three", "sync f", "syncall"))
		if got := tree(t, m.Reboot(), "."); got != "f=one\x00\x00\x00three" {
			t.Errorf("after the crash: %q", got)
		}
	})
	for _, call := range []string{"syncdir .", "syncall"} {
		t.Run(call, func(t *testing.T) {
			m := faultfs.New()
			m.FailAt(1, syscall.EIO, 1, func(op faultfs.Op, _ string) bool { return op == faultfs.Op(strings.Fields(call)[0]) })
			if err := script(t, m, "write f x", "sync f", call); !errors.Is(err, durable.ErrSync) {
				t.Errorf("got %v, want ErrSync", err)
			}
			if err := m.SyncAll(); !errors.Is(err, durable.ErrSync) {
				t.Errorf("second sync: %v", err)
			}
			if err := m.SyncDir("."); err != nil {
				t.Error(err)
			}
			if got := tree(t, m.Reboot(), "."); got != "" {
				t.Errorf("after the crash: %q", got)
			}
		})
	}
}

func TestShortWrite(t *testing.T) {
	m := faultfs.New()
	m.ShortWrite(2, syscall.ENOSPC, func(_ faultfs.Op, name string) bool { return name == "g" })
	testenv.Must(t, script(t, m, "write f abcd", "write g ab"))
	f, err := m.Append("g")
	testenv.Must(t, err)
	n, err := f.Write([]byte("cdefgh"))
	if n != 3 || !errors.Is(err, durable.ErrNoSpace) {
		t.Errorf("wrote %d, %v", n, err)
	}
	if got := tree(t, m, "."); got != "f=abcd g=abcde" {
		t.Errorf("got %q", got)
	}
}

func TestCapacity(t *testing.T) {
	m := faultfs.New()
	m.Capacity(10)
	if err := script(t, m, "write f 12345", "ln f g"); err != nil { // two names, one file
		t.Fatal(err)
	}
	f, err := m.Append("f")
	testenv.Must(t, err)
	n, err := f.Write([]byte("6789012"))
	if n != 5 || !errors.Is(err, durable.ErrNoSpace) || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("wrote %d, %v", n, err)
	}
	n, err = f.Write([]byte("x"))
	if n != 0 || !errors.Is(err, durable.ErrNoSpace) {
		t.Errorf("wrote %d, %v", n, err)
	}
	if err := f.Truncate(11); !errors.Is(err, durable.ErrNoSpace) {
		t.Errorf("grown: %v", err)
	}
	testenv.Must(t, script(t, m, "trunc f 12", "append f XY", "mkdir d"))
	if got := tree(t, m, "."); got != "d/ f=12XY g=12XY" {
		t.Errorf("got %q", got)
	}
}

func TestClockAndNumbers(t *testing.T) {
	m := faultfs.New()
	now := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	m.SetClock(func() time.Time { return now })
	testenv.Must(t, script(t, m, "mkdir d", "write d/f x"))
	now = now.Add(time.Minute)
	testenv.Must(t, script(t, m, "mkdir d/e", "append d/f x"))
	now = now.Add(time.Minute)
	testenv.Must(t, script(t, m, "rm d/e", "mv d/f d/g", "write d/h x", "rm d/h", "write d/i x", "syncall"))
	dir, _ := m.Lstat("d")
	file, _ := m.Lstat("d/g")
	last, _ := m.Lstat("d/i")
	if !dir.ModTime.Equal(now) || !file.ModTime.Equal(now.Add(-time.Minute)) || !file.CTime.Equal(now) {
		t.Errorf("times %v, %v, %v", dir.ModTime, file.ModTime, file.CTime)
	}
	left := m.Reboot()
	same, _ := left.Lstat("d/i")
	testenv.Must(t, script(t, left, "write new x"))
	later, _ := left.Lstat("new")
	if dir.Ino >= file.Ino || file.Ino >= last.Ino || same.Ino != last.Ino || later.Ino <= last.Ino {
		t.Errorf("inodes %d %d %d %d %d", dir.Ino, file.Ino, last.Ino, same.Ino, later.Ino)
	}
	if same.Links != 1 || last.Links != 1 || file.Links != 1 {
		t.Errorf("links %d %d %d", same.Links, last.Links, file.Links)
	}
}

func TestPlanted(t *testing.T) {
	m := faultfs.New()
	testenv.Must(t, errors.Join(m.Symlink("l", "../etc"), m.Special("dev", fs.ModeDevice)))
	if m.Ops() != 0 {
		t.Errorf("planting counts as %d operations", m.Ops())
	}
	if err := m.Symlink("l", "x"); !errors.Is(err, fs.ErrExist) {
		t.Error(err)
	}
	left := m.Reboot()
	for name, want := range map[string]error{"l": durable.ErrLink, "dev": durable.ErrNotRegular} {
		if _, err := left.Open(name); !errors.Is(err, want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestManyAtOnce crashes under many goroutines, for the race detector, and checks
// that nothing that was reported durable is missing.
func TestManyAtOnce(t *testing.T) {
	m := faultfs.New()
	m.CrashAt(300, faultfs.Torn(7))
	var mu sync.Mutex
	var done []string
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			for k := range 20 {
				name := fmt.Sprintf("f-%d-%d", i, k)
				if durable.Publish(m, name, []byte(name), 0o644, true) != nil {
					return
				}
				mu.Lock()
				done = append(done, name)
				mu.Unlock()
			}
		})
	}
	group.Wait()
	left := m.Reboot()
	for _, name := range done {
		if data, _, err := durable.ReadFile(left, name, -1); string(data) != name {
			t.Errorf("%s: %q, %v", name, data, err)
		}
	}
	if len(done) == 0 || len(done) > 60 {
		t.Errorf("%d published before the crash", len(done))
	}
}

// TestCopy checks that a power cut takes from a copy what it would take from the
// disk, and that neither changes with the other.
func TestCopy(t *testing.T) {
	m := faultfs.New()
	before := []string{"mkdir d", "write f abc", "write d/s s", "syncall", "append f d", "ln f d/g", "mv d/s s"}
	testenv.Must(t, script(t, m, before...))
	for loss, want := range map[faultfs.Loss]string{faultfs.Drop: "d/ d/s=s f=abc", faultfs.Keep: "d/ d/g=abcd f=abcd s=s"} {
		c := m.Copy()
		testenv.Must(t, script(t, m.Copy(), "append d/g e", "rm s", "syncall"))
		c.CrashAt(0, loss)
		if diff := cmp.Diff(want, tree(t, c.Reboot(), ".")); diff != "" {
			t.Errorf("%v: want -, got +:\n%s", loss, diff)
		}
	}
}

// TestReopen checks that a later process does not get the error of a failed sync,
// and does not save what that sync should have saved.
func TestReopen(t *testing.T) {
	m := faultfs.New()
	testenv.Must(t, script(t, m, "write f x"))
	m.FailAt(1, syscall.EIO, 1)
	for range 2 {
		if err := m.SyncAll(); !errors.Is(err, durable.ErrSync) {
			t.Fatal(err)
		}
	}
	m.Reopen()
	testenv.Must(t, m.SyncAll())
	if diff := cmp.Diff("", tree(t, m.Reboot(), ".")); diff != "" {
		t.Errorf("want -, got +:\n%s", diff)
	}
}
