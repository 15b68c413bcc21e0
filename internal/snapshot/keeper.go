package snapshot

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"

	"golang.org/x/sync/errgroup"

	"github.com/hived/hived/eventlog"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/failpoint"
	"github.com/hived/hived/ledger"
	"github.com/hived/hived/protocol"
)

const (
	temporary = protocol.SnapshotFile + ".new"
	atLeast   = 32 << 20 // bytes of log between two snapshots
)

// Keeper keeps the newest snapshot near the end of the log. It makes a new one when
// the log has grown by twice the size of the last, so that writing snapshots costs a
// fixed share of what the log costs, however large the state is. It is for one
// goroutine.
type Keeper struct {
	Disk   durable.FS
	Log    *slog.Logger
	Beside *errgroup.Group // where snapshots are made durable
	Least  int64           // bytes of log between two; 32 MiB where zero

	at    protocol.Seq // of the newest
	size  int64        // its size in bytes
	grown int64        // bytes of log sealed since
	done  chan error   // of the one that is being made durable; nil: none is
}

func (s *Keeper) due() bool {
	return s.done == nil && s.grown >= max(cmp.Or(s.Least, atLeast), 2*s.size)
}

// Load returns the state to begin with, and the event as of which it is. Without a
// usable snapshot that is the state before the first event.
func (s *Keeper) Load(remember protocol.RememberSettings) (*ledger.State, eventlog.Position) {
	state, at, size, err := Read(s.Disk, remember)
	switch {
	case err == nil:
		s.at, s.size = at.Seq, size
		return state, at
	case !errors.Is(err, fs.ErrNotExist):
		s.Log.Warn("the snapshot is of no use, the whole log is read", slog.String("error", err.Error()))
	}
	return ledger.New(remember), eventlog.Position{}
}

// Sealed records that a segment of the log was sealed, and begins a snapshot if one is
// due.
func (s *Keeper) Sealed(size int64, state *ledger.State, sum protocol.Sum) {
	if s.grown += size; s.due() {
		s.take(state, sum)
	}
}

// take writes the state as it is now and begins to make it durable in another
// goroutine. sum is that of its last event. A lost snapshot costs only time at the
// next start.
func (s *Keeper) take(state *ledger.State, sum protocol.Sum) {
	grown := s.grown
	s.grown = 0
	f, size, err := s.write(state, sum)
	if err != nil {
		s.grown = grown
		s.Log.Warn("cannot write a snapshot of the state", slog.String("error", err.Error()))
		return
	}
	done := make(chan error, 1)
	s.done, s.at, s.size = done, state.Seq, size
	disk := s.Disk
	s.Beside.Go(func() error {
		failpoint.Hit(failpoint.SnapshotWritten)
		err := f.Sync()
		if err = errors.Join(err, f.Close()); err == nil {
			failpoint.Hit(failpoint.SnapshotSynced)
			err = disk.Rename(temporary, protocol.SnapshotFile)
		}
		if err == nil {
			failpoint.Hit(failpoint.SnapshotRenamed)
			err = disk.SyncDir(protocol.PathScratch)
		}
		done <- err
		return nil
	})
}

// write writes a state under a temporary name.
func (s *Keeper) write(state *ledger.State, sum protocol.Sum) (durable.File, int64, error) {
	if err := durable.IgnoreNotExist(s.Disk.Remove(temporary)); err != nil {
		return nil, 0, err
	}
	f, err := s.Disk.Create(temporary, 0o644)
	if err != nil {
		return nil, 0, err
	}
	w := bufio.NewWriterSize(f, buffer)
	err = state.Encode(w, sum)
	if err == nil {
		err = w.Flush()
	}
	var info durable.Info
	if err == nil {
		info, err = f.Stat()
	}
	if err != nil {
		return nil, 0, errors.Join(err, f.Close(), s.Disk.Remove(temporary))
	}
	return f, info.Size, nil
}

// Done returns the channel with the result of the snapshot that is being made durable,
// for [Keeper.Ended]; nil if there is none.
func (s *Keeper) Done() <-chan error { return s.done }

// Ended records a result from [Keeper.Done]. It returns an error if a sync failed,
// which ends the daemon.
func (s *Keeper) Ended(err error) error {
	s.done = nil
	switch {
	case errors.Is(err, durable.ErrSync):
		return fmt.Errorf("make a snapshot durable: %w", err)
	case err != nil:
		s.at = 0
		s.Log.Warn("cannot write a snapshot of the state", slog.String("error", err.Error()))
	}
	return nil
}

// Last makes the snapshot of a clean stop, and waits for it, so that the next start
// folds nothing.
func (s *Keeper) Last(state *ledger.State, sum protocol.Sum) error {
	if s.done != nil {
		if err := s.Ended(<-s.done); err != nil {
			return err
		}
	}
	if s.at == state.Seq {
		return nil
	}
	s.take(state, sum)
	if s.done == nil {
		return nil
	}
	return s.Ended(<-s.done)
}
