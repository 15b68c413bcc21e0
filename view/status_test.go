package view

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/durable/faultfs"
	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/protocol"
)

func statusIn(t *testing.T, data []byte) (Status, error) {
	t.Helper()
	disk := faultfs.New()
	testenv.Must(t, disk.MkdirAll(protocol.PathScratch, 0o755))
	testenv.Must(t, durable.Publish(disk, protocol.StatusFile, data, 0o644, false))
	return ReadStatus(disk)
}

// TestReadStatus checks that problems are codes and values, and that what an older
// daemon wrote in words stays as it is.
func TestReadStatus(t *testing.T) {
	s, err := statusIn(t, []byte(`{"pid":7,"problems":["watching: no more: 8192","disk-full","git: it waits","git-unusable: no .git","not-writable: 3","task-stopped: 01M7","the disk is full, so: make room","git"]}`))
	testenv.Must(t, err)
	want := []Problem{
		{NotWatching, "no more: 8192"},
		{DiskFull, ""},
		{GitWaits, "it waits"},
		{GitUnusable, "no .git"},
		{NotWritable, "3"},
		{TaskStopped, "01M7"},
		{"", "the disk is full, so: make room"},
		{GitWaits, ""},
	}
	if diff := cmp.Diff(want, s.Trouble); diff != "" || s.PID != 7 {
		t.Errorf("process %d (-want +got):\n%s", s.PID, diff)
	}
	if _, err := ReadStatus(faultfs.New()); err == nil {
		t.Error("a status was read, and there is none")
	}
}

// FuzzStatus checks that a status of any bytes is read or refused.
func FuzzStatus(f *testing.F) {
	f.Add([]byte(`{"pid":7,"seq":3,"watching":"watching","problems":[],"agents":[{"id":"alice","unread":2}]}`))
	f.Add([]byte(`{"problems":["git","git: ",": git"]}`))
	f.Add([]byte(`{"pid":1e99}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := statusIn(t, data)
		switch {
		case err == nil && len(s.Trouble) != len(s.Problems):
			t.Errorf("%q became %q", s.Problems, s.Trouble)
		case err != nil && (s.PID != 0 || s.Agents != nil):
			t.Errorf("%+v with %v", s, err)
		}
	})
}
