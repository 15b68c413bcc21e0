package router

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
)

// hiveLock keeps other daemons out of the hive. Its zero value keeps nobody out: there
// is no other process on a disk in memory.
type hiveLock struct {
	disk *durable.Disk
	held *durable.Lock
	take func() (*durable.Lock, error)
}

func takeLock(disk *durable.Disk) (hiveLock, error) {
	l := hiveLock{disk: disk, take: func() (*durable.Lock, error) {
		if err := disk.MkdirAll(protocol.PathScratch, 0o755); err != nil {
			return nil, err
		}
		return durable.TakeLock(disk, protocol.LockFile, nil)
	}}
	var err error
	if l.held, err = l.take(); err != nil {
		return hiveLock{}, fmt.Errorf("start hived here: %w", err)
	}
	return l, nil
}

// retake takes the lock again where somebody deleted its file, as `git clean -x` does:
// a second daemon must not find it free.
func (l *hiveLock) retake() error {
	if l.held == nil {
		return nil
	}
	if _, err := l.disk.Lstat(protocol.LockFile); !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	lock, err := l.take()
	if errors.Is(err, fs.ErrNotExist) {
		return nil // .hived is still being deleted: the next rescan tries again
	}
	if err != nil {
		return fmt.Errorf("hold the hive, whose lock was deleted: %w", err)
	}
	old := l.held
	l.held = lock
	return old.Release()
}

func (l *hiveLock) release() error {
	if l.held == nil {
		return nil
	}
	return l.held.Release()
}
