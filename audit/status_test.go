package audit

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/ledger"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/view"
)

// statusOf returns a hive's directory that holds nothing but the status of a daemon
// with process id 7.
func statusOf(t *testing.T, status string) *durable.Disk {
	t.Helper()
	disk, err := durable.Open(t.TempDir())
	testenv.Must(t, err)
	t.Cleanup(func() { _ = disk.Close() })
	testenv.Must(t, disk.MkdirAll(".hived", 0o755))
	testenv.Must(t, durable.Publish(disk, protocol.StatusFile, []byte(status), 0o644, true))
	return disk
}

func TestRunning(t *testing.T) {
	const said = `{"pid":7,"at":"2026-11-21T11:00:00Z","problems":["x"]}`
	at := time.Date(2026, 11, 21, 11, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		name string
		said string
		pid  int
		age  time.Duration
		left room
		want []string // the problems, each by a part of it
	}{
		{"fresh", said, 7, time.Second, hasRoom, []string{"x"}},
		{"silent", said, 7, 11 * time.Second, hasRoom, []string{"x", "not written its status for 11s"}},
		{"of another daemon", said, 8, time.Second, hasRoom, []string{"not written its status yet"}},
		{"full, and said so itself", said, 7, time.Second, noRoom, []string{"x"}},
		{"full, and cannot say so", said, 7, 11 * time.Second, noRoom, []string{"x", "the disk is full: make room; intake then goes on by itself; this status is 11s old"}},
		{"full from the start", said, 8, time.Second, noRoom, []string{"the disk is full"}},
		{
			"no .git", `{"pid":7,"at":"2026-11-21T11:00:00Z","git":"no config; hived init --adopt","problems":["git: no config; hived init --adopt"]}`, 7, 0, hasRoom,
			[]string{"git: there is no .git; delivery goes on, `hived repair`"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := running(statusOf(t, tt.said), tt.pid, at.Add(tt.age), tt.left).Problems
			if len(got) != len(tt.want) {
				t.Fatalf("problems %q, want %q", got, tt.want)
			}
			for i, part := range tt.want {
				if !strings.Contains(got[i], part) {
					t.Errorf("problem %q, want %q in it", got[i], part)
				}
			}
		})
	}
}

func TestHeldOutboxes(t *testing.T) {
	got := heldOutboxes([]view.Agent{
		{ID: "a", Status: ledger.Active, Pending: 3},
		{ID: "b", Status: ledger.OnHold, Pending: 1},
		{ID: "c", Status: ledger.OnHold, Pending: 2},
		{ID: "d", Status: ledger.OnHold},
	})
	want := []string{
		"1 file of b waits because it is held: `hived agent release b`",
		"2 files of c wait because it is held: `hived agent release c`",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}
