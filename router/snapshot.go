package router

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"log/slog"

	"github.com/hived/hived/eventlog"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/failpoint"
	"github.com/hived/hived/ledger"
	"github.com/hived/hived/protocol"
)

const (
	// SnapshotFile holds the state at one event, so that a start need not fold
	// what comes before it (spec §3, recovery). It may be deleted at any time.
	SnapshotFile    = protocol.PathScratch + "/snapshot"
	snapshotTemp    = SnapshotFile + ".new"
	snapshotBuffer  = 1 << 20
	snapshotAtLeast = 32 << 20 // bytes of log between two snapshots
)

// snapshots keeps the newest snapshot near the end of the log. There is a new
// one when the log has grown by twice the size of the last, so that writing
// them stays a part of what the log costs, however large the state is.
type snapshots struct {
	least int64        // bytes of log between two; zero: snapshotAtLeast
	at    protocol.Seq // of the newest
	size  int64        // its size in bytes
	grown int64        // bytes of log sealed since
	done  chan error   // of the one that is being made durable; nil: none is
}

func (s *snapshots) due() bool {
	return s.done == nil && s.grown >= max(cmp.Or(s.least, snapshotAtLeast), 2*s.size)
}

// fromSnapshot gives the state to begin with, and the event that it is the state
// at. Without a snapshot that can be used that is the state before the first
// event.
func (r *Router) fromSnapshot() (*ledger.State, eventlog.Position) {
	state, at, size, err := readSnapshot(r.disk, r.cfg.Settings.Remember)
	switch {
	case err == nil:
		r.snapshot.at, r.snapshot.size = at.Seq, size
		return state, at
	case !isNotExist(err):
		r.cfg.Log.Warn("the snapshot is of no use, the whole log is read", slog.String("error", err.Error()))
	}
	return ledger.New(r.cfg.Settings.Remember), eventlog.Position{}
}

func readSnapshot(disk durable.FS, remember protocol.RememberSettings) (*ledger.State, eventlog.Position, int64, error) {
	f, err := disk.Open(SnapshotFile)
	if err != nil {
		return nil, eventlog.Position{}, 0, err
	}
	defer f.Close() //nolint:errcheck // only read
	info, err := f.Stat()
	if err != nil {
		return nil, eventlog.Position{}, 0, err
	}
	state, sum, err := ledger.Decode(bufio.NewReaderSize(f, snapshotBuffer), remember)
	if err != nil {
		return nil, eventlog.Position{}, 0, fmt.Errorf("read %s: %w", SnapshotFile, err)
	}
	return state, eventlog.Position{Seq: state.Seq, Sum: sum}, info.Size, nil
}

// takeSnapshot writes the state as it is now and begins to make it durable,
// beside the loop. What is lost with a snapshot is the time of the next start.
func (r *Router) takeSnapshot() {
	at, grown := r.state.Seq, r.snapshot.grown
	r.snapshot.grown = 0
	f, size, err := r.writeSnapshot()
	if err != nil {
		r.snapshot.grown = grown
		r.cfg.Log.Warn("cannot write a snapshot of the state", slog.String("error", err.Error()))
		return
	}
	done := make(chan error, 1)
	r.snapshot.done, r.snapshot.at, r.snapshot.size = done, at, size
	disk := r.disk
	go func() {
		failpoint.Hit(failpoint.SnapshotWritten)
		err := f.Sync()
		if err = errors.Join(err, f.Close()); err == nil {
			failpoint.Hit(failpoint.SnapshotSynced)
			err = disk.Rename(snapshotTemp, SnapshotFile)
		}
		if err == nil {
			failpoint.Hit(failpoint.SnapshotRenamed)
			err = disk.SyncDir(protocol.PathScratch)
		}
		done <- err
	}()
}

// writeSnapshot writes the state under a temporary name.
func (r *Router) writeSnapshot() (durable.File, int64, error) {
	if err := r.disk.Remove(snapshotTemp); err != nil && !isNotExist(err) {
		return nil, 0, err
	}
	f, err := r.disk.Create(snapshotTemp, 0o644)
	if err != nil {
		return nil, 0, err
	}
	w := bufio.NewWriterSize(f, snapshotBuffer)
	err = r.state.Encode(w, r.events.Sum())
	if err == nil {
		err = w.Flush()
	}
	var info durable.Info
	if err == nil {
		info, err = f.Stat()
	}
	if err != nil {
		return nil, 0, errors.Join(err, f.Close(), r.disk.Remove(snapshotTemp))
	}
	return f, info.Size, nil
}

// snapshotTaken ends a snapshot. A failed sync ends the daemon, as everywhere.
func (r *Router) snapshotTaken(err error) error {
	r.snapshot.done = nil
	switch {
	case errors.Is(err, durable.ErrSync):
		return fmt.Errorf("make a snapshot durable: %w", err)
	case err != nil:
		r.snapshot.at = 0
		r.cfg.Log.Warn("cannot write a snapshot of the state", slog.String("error", err.Error()))
	}
	return nil
}

// lastSnapshot is the one of a clean stop: the next start folds nothing.
func (r *Router) lastSnapshot() error {
	if r.snapshot.done != nil {
		if err := r.snapshotTaken(<-r.snapshot.done); err != nil {
			return err
		}
	}
	if r.snapshot.at == r.state.Seq {
		return nil
	}
	r.takeSnapshot()
	if r.snapshot.done == nil {
		return nil
	}
	return r.snapshotTaken(<-r.snapshot.done)
}
