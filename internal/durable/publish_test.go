package durable_test

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/durable/faultfs"
	"github.com/hived/hived/internal/testenv"
)

// TestPublishFails checks that whatever operation of a publication fails, the old
// file is whole, the new one is not there, and nothing else is left behind.
func TestPublishFails(t *testing.T) {
	for _, synced := range []durable.Sync{durable.Unsynced, durable.Synced} {
		whole := faultfs.New()
		testenv.Must(t, durable.Publish(whole, "f", []byte("new"), 0o644, synced))
		want := 3 // create, write, rename
		if synced {
			want = 5
		}
		if whole.Ops() != want {
			t.Errorf("sync %v: %d operations, want %d", synced, whole.Ops(), want)
		}
		for n := 1; n <= whole.Ops(); n++ {
			t.Run(fmt.Sprintf("sync=%v/%d", synced, n), func(t *testing.T) {
				m := faultfs.New()
				testenv.Must(t, durable.Publish(m, "f", []byte("old"), 0o644, true))
				m.FailAt(n, syscall.ENOSPC, 1)
				err := durable.Publish(m, "f", []byte("new"), 0o644, synced)
				if !errors.Is(err, durable.ErrNoSpace) || !errors.Is(err, syscall.ENOSPC) {
					t.Errorf("got %v, want ErrNoSpace", err)
				}
				content := "old"
				if n == 5 { // the directory's sync comes after the rename
					content = "new"
				}
				data, _, err := durable.ReadFile(m, "f", -1)
				if string(data) != content || err != nil {
					t.Errorf("content %q, %v; want %q", data, err, content)
				}
				list, _ := m.ReadDir(".")
				if len(list) != 1 {
					t.Errorf("left behind: %v", list)
				}
			})
		}
	}
}

// TestPublishSurvives checks that after a publication with sync the file survives
// any crash, and that at any moment before there is the old or the new one.
func TestPublishSurvives(t *testing.T) {
	losses := []faultfs.Loss{faultfs.Drop, faultfs.Keep, faultfs.Torn(1), faultfs.Torn(2), faultfs.Torn(3)}
	for _, loss := range losses {
		for n := 1; ; n++ {
			m := faultfs.New()
			testenv.Must(t, durable.Publish(m, "f", []byte("old"), 0o644, true))
			m.CrashAt(n, loss)
			err := durable.Publish(m, "f", []byte("new"), 0o644, true)
			done := err == nil
			data, _, readErr := durable.ReadFile(m.Reboot(), "f", -1)
			got := string(data)
			if readErr != nil || got != "new" && (done || got != "old") {
				t.Errorf("%v at %d: %q, %v", loss, n, got, readErr)
			}
			if done {
				break
			}
			if !errors.Is(err, faultfs.ErrCrashed) {
				t.Errorf("%v at %d: %v", loss, n, err)
			}
		}
	}
}

func TestPublishLongName(t *testing.T) {
	m := faultfs.New()
	name := strings.Repeat("é", 127) + "x"
	m.FailAt(1, syscall.EIO, -1, func(op faultfs.Op, temp string) bool {
		if op == faultfs.OpCreate && (len(temp) > 255 || !strings.HasPrefix(temp, ".") || !strings.HasSuffix(temp, ".tmp")) {
			t.Errorf("temporary name %q", temp)
		}
		return false
	})
	if err := durable.Publish(m, name, nil, 0o644, false); err != nil {
		t.Error(err)
	}
}

func TestPublishAtOnce(t *testing.T) {
	m := faultfs.New()
	var group sync.WaitGroup
	for i := range 20 {
		group.Go(func() {
			if err := durable.Publish(m, "f", []byte(strconv.Itoa(i)), 0o644, true); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if list, _ := m.ReadDir("."); len(list) != 1 {
		t.Errorf("left behind: %v", list)
	}
}

// growing is a disk whose files gain bytes between Stat and Read.
type growing struct {
	durable.FS
	more string
}

func (g growing) Open(name string) (durable.File, error) {
	f, err := g.FS.Open(name)
	return &growingFile{File: f, g: g, name: name}, err
}

type growingFile struct {
	durable.File
	g    growing
	name string
}

func (f *growingFile) Stat() (durable.Info, error) {
	info, err := f.File.Stat()
	if err != nil {
		return info, err
	}
	w, err := f.g.Append(f.name)
	if err != nil {
		return info, err
	}
	_, err = w.Write([]byte(f.g.more))
	return info, errors.Join(err, w.Close())
}

func TestReadFileThatGrows(t *testing.T) {
	for _, tt := range []struct {
		more string
		most int64
		want error
	}{
		{"", 3, nil},
		{"12345", 8, nil},
		{"12345", 7, durable.ErrTooLarge},
		{strings.Repeat("x", 5000), -1, nil},
		{strings.Repeat("x", 5000), 4096, durable.ErrTooLarge},
	} {
		m := faultfs.New()
		testenv.Must(t, durable.Publish(m, "f", []byte("old"), 0o644, false))
		data, info, err := durable.ReadFile(growing{m, tt.more}, "f", tt.most)
		want := "old" + tt.more
		if tt.want != nil {
			want = ""
		}
		if !errors.Is(err, tt.want) || string(data) != want || info.Size != 3 {
			t.Errorf("%d more, at most %d: %d bytes, size %d, %v", len(tt.more), tt.most, len(data), info.Size, err)
		}
	}
}

func TestSentinels(t *testing.T) {
	for _, tt := range []struct{ cause, want error }{
		{syscall.ELOOP, durable.ErrLink},
		{syscall.ENXIO, durable.ErrNotRegular},
		{syscall.EISDIR, durable.ErrNotRegular},
		{syscall.ENOSPC, durable.ErrNoSpace},
		{syscall.EDQUOT, durable.ErrNoSpace},
		{syscall.EROFS, durable.ErrReadOnly},
		{syscall.EACCES, fs.ErrPermission},
	} {
		err := durable.PathError("write", "f", tt.cause)
		if !errors.Is(err, tt.want) || !errors.Is(err, tt.cause) {
			t.Errorf("%v: got %v, want %v", tt.cause, err, tt.want)
		}
		if again := durable.PathError("publish", "f", err); strings.Count(again.Error(), tt.want.Error()) > 1 {
			t.Errorf("its cause is in the text twice: %v", again)
		}
	}
}
