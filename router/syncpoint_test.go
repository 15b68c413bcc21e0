package router

import (
	"errors"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hived/hived/internal/durable/faultfs"
	"github.com/hived/hived/protocol"
)

// TestSyncPoints checks that what was placed is synced once, five seconds after the first
// placement, that what comes during a sync is due after it, and that a failed sync is an
// error.
func TestSyncPoints(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		disk := faultfs.New()
		var beside errgroup.Group
		s := syncPoints{disk: disk, beside: &beside}
		begin := time.Now()
		due := func(what string, settled protocol.Seq, want time.Time) {
			t.Helper()
			if got := s.due(settled); !got.Equal(want) {
				t.Errorf("%s: due at %s, want %s", what, got, want)
			}
		}
		due("nothing was placed", 0, time.Time{})
		s.notePlaced(7)
		s.notePlaced(8)
		due("something was placed", 0, begin.Add(syncEvery))
		due("all of it is settled", 8, time.Time{})
		s.begin(8)
		s.notePlaced(9)
		due("a sync is under way", 0, time.Time{})
		if err := s.ended(<-s.done); err != nil {
			t.Error(err)
		}
		due("placed during a sync", 8, begin.Add(syncEvery))
		s.begin(8) // before the newest event
		if err := s.ended(<-s.done); err != nil {
			t.Error(err)
		}
		due("placed beyond a sync", 8, time.Now().Add(syncEvery))
		disk.FailAt(1, syscall.EIO, 1, func(op faultfs.Op, _ string) bool { return op == faultfs.OpSyncAll })
		s.begin(9)
		if err := s.ended(<-s.done); !errors.Is(err, syscall.EIO) {
			t.Errorf("a failed sync returned %v", err)
		}
		if err := beside.Wait(); err != nil {
			t.Error(err)
		}
	})
}
