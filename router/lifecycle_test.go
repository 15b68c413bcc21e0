package router

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/hived/hived/eventlog"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/durable/faultfs"
	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/protocol"
)

// slowDisk is a disk on which one kind of sync takes until the test lets it end.
type slowDisk struct {
	*faultfs.Mem
	file  string      // the file with slow syncs; empty: syncs of the whole disk are slow
	fast  atomic.Bool // syncs are no longer slow
	begun chan func() // gets, for each slow sync, the function that lets it end
}

func (d *slowDisk) wait() {
	if d.fast.Load() {
		return
	}
	goOn := make(chan struct{})
	d.begun <- func() { close(goOn) }
	<-goOn
}

func (d *slowDisk) SyncAll() error {
	if d.file == "" {
		d.wait()
	}
	return d.Mem.SyncAll()
}

func (d *slowDisk) Create(name string, perm fs.FileMode) (durable.File, error) {
	f, err := d.Mem.Create(name, perm)
	if err == nil && name == d.file {
		f = &slowFile{f, d}
	}
	return f, err
}

type slowFile struct {
	durable.File
	disk *slowDisk
}

func (f *slowFile) Sync() error {
	f.disk.wait()
	return f.File.Sync()
}

// sendMuch has alice send more than a segment of the log holds.
func sendMuch(t *testing.T, disk durable.FS, id string) {
	t.Helper()
	put(t, disk, "agents/alice/outbox/"+id+".json", fmt.Sprintf(`{"id":%q,"to":"bob","body":%q}`, id, strings.Repeat("x", 8<<10)))
}

func justStop(_ *testing.T, _ *slowDisk, stop func()) { stop() }

// breakLog has a sync of the log fail, which ends the daemon.
func breakLog(t *testing.T, disk *slowDisk, _ func()) {
	t.Helper()
	failed := failLog(disk, faultfs.OpSync, syscall.EIO)
	sendMuch(t, disk, "next")
	<-failed
}

// fillAndStop stops a daemon whose log has no room.
func fillAndStop(t *testing.T, disk *slowDisk, stop func()) {
	t.Helper()
	full := failLog(disk, faultfs.OpWrite, syscall.ENOSPC)
	sendMuch(t, disk, "next")
	<-full
	stop()
}

// failLog has an operation on the log fail from now on. The channel is closed when it first
// fails.
func failLog(disk *slowDisk, on faultfs.Op, with error) <-chan struct{} {
	failed := make(chan struct{})
	once := sync.OnceFunc(func() { close(failed) })
	disk.FailAt(1, with, -1, func(op faultfs.Op, name string) bool {
		log := op == on && (name == protocol.PathLog || name == protocol.PathScratch+"/log.new") // its name before it was put in place
		if log {
			once()
		}
		return log
	})
	return failed
}

// TestRunWaitsForItsSync checks that Run does not return and the hive stays locked while a
// sync is still running, in whatever way the daemon ends.
func TestRunWaitsForItsSync(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		file string
		end  func(t *testing.T, disk *slowDisk, stop func())
		want error
	}{
		{"a stop, and the disk", "", justStop, nil},
		{"a stop, and a snapshot", protocol.SnapshotFile + ".new", justStop, nil},
		{"a broken log, and the disk", "", breakLog, eventlog.ErrBroken},
		{"a broken log, and a snapshot", protocol.SnapshotFile + ".new", breakLog, eventlog.ErrBroken},
		{"a stop of a full disk, and a snapshot", protocol.SnapshotFile + ".new", fillAndStop, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			lockDisk, err := durable.Open(t.TempDir())
			testenv.Must(t, err)
			defer lockDisk.Close()
			take := func() (*durable.Lock, error) { return durable.TakeLock(lockDisk, protocol.LockFile, nil) }
			synctest.Test(t, func(t *testing.T) {
				// The hive is in memory, but its lock is on a disk that has locks.
				disk := &slowDisk{Mem: memHive(t), file: tt.file, begun: make(chan func(), 1)}
				settings := memSettings()
				settings.Log.SegmentBytes = 4 << 10
				r, err := open(disk, Config{Settings: settings}, noWatcher{})
				testenv.Must(t, err)
				r.lock, err = takeLock(lockDisk)
				testenv.Must(t, err)
				r.events.snapshot.Least = 1
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- r.Run(ctx) }()
				sendMuch(t, disk, "first")
				goOn := <-disk.begun
				tt.end(t, disk, cancel)
				synctest.Wait()
				select {
				case err := <-ended:
					t.Errorf("the daemon ended before its sync: %v", err)
					ended <- err
				default:
				}
				if lock, err := take(); !errors.Is(err, durable.ErrLocked) {
					t.Errorf("the lock was free before the sync ended: %v, %v", lock, err)
				}
				disk.fast.Store(true)
				goOn()
				if err := <-ended; !errors.Is(err, tt.want) {
					t.Errorf("the daemon ended with %v", err)
				}
				lock, err := take()
				testenv.Must(t, err)
				if err := lock.Release(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
