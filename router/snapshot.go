package router

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
	"github.com/hived/hived/internal/snapshot"
	"github.com/hived/hived/ledger"
	"github.com/hived/hived/protocol"
)

const (
	snapshotTemp    = protocol.SnapshotFile + ".new"
	snapshotAtLeast = 32 << 20 // bytes of log between two snapshots
)

// snapshots keeps the newest snapshot near the end of the log. There is a new
// one when the log has grown by twice the size of the last, so that writing
// them stays a part of what the log costs, however large the state is.
type snapshots struct {
	disk   durable.FS
	log    *slog.Logger
	beside *errgroup.Group // where they are made durable
	least  int64           // bytes of log between two; zero: snapshotAtLeast
	at     protocol.Seq    // of the newest
	size   int64           // its size in bytes
	grown  int64           // bytes of log sealed since
	done   chan error      // of the one that is being made durable; nil: none is
}

func (s *snapshots) due() bool {
	return s.done == nil && s.grown >= max(cmp.Or(s.least, snapshotAtLeast), 2*s.size)
}

// load returns the state to begin with, and the event that it is the state at.
// Without a snapshot that can be used that is the state before the first event.
func (s *snapshots) load(remember protocol.RememberSettings) (*ledger.State, eventlog.Position) {
	state, at, size, err := snapshot.Read(s.disk, remember)
	switch {
	case err == nil:
		s.at, s.size = at.Seq, size
		return state, at
	case !errors.Is(err, fs.ErrNotExist):
		s.log.Warn("the snapshot is of no use, the whole log is read", slog.String("error", err.Error()))
	}
	return ledger.New(remember), eventlog.Position{}
}

// sealed takes note of a segment of the log that was sealed, and begins a snapshot
// where one is due.
func (s *snapshots) sealed(size int64, state *ledger.State, sum protocol.Sum) {
	if s.grown += size; s.due() {
		s.take(state, sum)
	}
}

// take writes the state as it is now and begins to make it durable, beside the
// loop. sum is that of its last event. What is lost with a snapshot is the time of
// the next start.
func (s *snapshots) take(state *ledger.State, sum protocol.Sum) {
	grown := s.grown
	s.grown = 0
	f, size, err := s.write(state, sum)
	if err != nil {
		s.grown = grown
		s.log.Warn("cannot write a snapshot of the state", slog.String("error", err.Error()))
		return
	}
	done := make(chan error, 1)
	s.done, s.at, s.size = done, state.Seq, size
	disk := s.disk
	s.beside.Go(func() error {
		failpoint.Hit(failpoint.SnapshotWritten)
		err := f.Sync()
		if err = errors.Join(err, f.Close()); err == nil {
			failpoint.Hit(failpoint.SnapshotSynced)
			err = disk.Rename(snapshotTemp, protocol.SnapshotFile)
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
func (s *snapshots) write(state *ledger.State, sum protocol.Sum) (durable.File, int64, error) {
	if err := durable.IgnoreNotExist(s.disk.Remove(snapshotTemp)); err != nil {
		return nil, 0, err
	}
	f, err := s.disk.Create(snapshotTemp, 0o644)
	if err != nil {
		return nil, 0, err
	}
	w := bufio.NewWriterSize(f, snapshot.Buffer)
	err = state.Encode(w, sum)
	if err == nil {
		err = w.Flush()
	}
	var info durable.Info
	if err == nil {
		info, err = f.Stat()
	}
	if err != nil {
		return nil, 0, errors.Join(err, f.Close(), s.disk.Remove(snapshotTemp))
	}
	return f, info.Size, nil
}

// taken ends a snapshot. A failed sync ends the daemon, as everywhere.
func (s *snapshots) taken(err error) error {
	s.done = nil
	switch {
	case errors.Is(err, durable.ErrSync):
		return fmt.Errorf("make a snapshot durable: %w", err)
	case err != nil:
		s.at = 0
		s.log.Warn("cannot write a snapshot of the state", slog.String("error", err.Error()))
	}
	return nil
}

// last takes that of a clean stop: the next start folds nothing.
func (s *snapshots) last(state *ledger.State, sum protocol.Sum) error {
	if s.done != nil {
		if err := s.taken(<-s.done); err != nil {
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
	return s.taken(<-s.done)
}
