package hive

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/pause"
	"github.com/hived/hived/protocol"
)

// Is reports whether a directory is a hive, by what every hive has. A missing log is
// damage, and the directory is still a hive.
func Is(dir string) bool {
	is := func(name string) bool {
		_, err := os.Lstat(filepath.Join(dir, filepath.FromSlash(name)))
		return err == nil
	}
	return is(protocol.PathAgents) && (is(protocol.PathLog) || is(protocol.PathScratch) || is(protocol.PathProtocol))
}

// Find returns the hive that a directory lies in: itself, or the nearest above it.
func Find(dir string) (hive string, found bool) {
	for ; ; dir = filepath.Dir(dir) {
		if Is(dir) {
			return dir, true
		}
		if dir == filepath.Dir(dir) {
			return "", false
		}
	}
}

// IsOlder reports whether it is a hive of the older layout that was not taken over
// yet (spec §1.6): its log is not hived's, nor a damaged log of hived's.
func IsOlder(disk durable.FS) bool { return hasOlderRegistry(disk) && !hasEvents(disk) }

// Daemon reports whether a daemon holds the hive, and its process id.
func Daemon(disk *durable.Disk) (pid int, runs bool, err error) {
	pid, runs, err = durable.Holder(disk, protocol.LockFile)
	if errors.Is(err, fs.ErrPermission) {
		return 0, false, fmt.Errorf("see whether a daemon runs: %w; that is for the owner of the hive", err)
	}
	if err != nil {
		return 0, false, fmt.Errorf("see whether a daemon runs: %w", err)
	}
	return pid, runs, nil
}

// Stop asks the daemon that holds the hive, which must have that process id, to stop
// cleanly, and waits until it has.
func Stop(ctx context.Context, disk *durable.Disk, pid int) error {
	if pid <= 1 {
		return errors.New("stop the daemon: the lock does not say which process it is; stop it where it runs")
	}
	p, err := os.FindProcess(pid)
	if err == nil {
		err = p.Signal(syscall.SIGTERM)
	}
	if err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop the daemon with process id %d: %w; stop it where it runs", pid, err)
	}
	for {
		now, runs, err := Daemon(disk)
		if err != nil {
			return err
		}
		if !runs || now != pid && now != 0 {
			return nil
		}
		if err := pause.For(ctx, stopPoll); err != nil {
			return fmt.Errorf("the daemon with process id %d still runs: %w; it may be writing to a slow disk", pid, err)
		}
	}
}

// stopPoll is how often Stop checks whether the daemon has ended.
const stopPoll = 20 * time.Millisecond

// hasOlderRegistry reports whether registry.json is an older hive's: hived's own
// names its format.
func hasOlderRegistry(disk durable.FS) bool {
	data, _, err := durable.ReadFile(disk, protocol.PathRegistry, 64<<20)
	if err != nil {
		return false
	}
	var r struct {
		GodID  jsontext.Value `json:"godId"`
		Format jsontext.Value `json:"format"`
	}
	return json.Unmarshal(data, &r) == nil && r.GodID != nil && r.Format == nil
}

// hasEvents reports whether the log begins as hived's does, or cannot be read.
func hasEvents(disk durable.FS) bool {
	f, err := disk.Open(protocol.PathLog)
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist)
	}
	defer f.Close() //nolint:errcheck // only read
	head := make([]byte, 64<<10)
	n, err := f.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return true
	}
	line, _, _ := bytes.Cut(head[:n], []byte{'\n'})
	_, _, err = protocol.DecodeLine(line)
	return err == nil
}
