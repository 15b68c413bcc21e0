package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
)

// aliveEvery is the least time between two touches of the alive file by a [Box].
const aliveEvery = time.Second

// noteAlive gives a sign of life because the agent does something. Its failure does
// not stop what the agent does.
func (b *Box) noteAlive() {
	b.mu.Lock()
	due := time.Since(b.touched) >= aliveEvery
	if due {
		b.touched = time.Now()
	}
	b.mu.Unlock()
	if due {
		_ = Alive(b.disk, b.id)
	}
}

// Alive touches an agent's alive file (spec §8.3). A file in which a program keeps
// beating is left as it is; the period in the file of one that has stopped is
// removed, or hived would wait for the next beat. A call by another user than the
// agent's own is no sign of life and does nothing.
func Alive(disk durable.FS, id protocol.AgentID) error {
	if box, err := disk.Lstat(protocol.OutboxDir(id)); err != nil || os.Geteuid() >= 0 && box.UID != uint32(os.Geteuid()) { //nolint:gosec // not negative
		return nil //nolint:nilerr // not yet an agent, or not this one
	}
	name := protocol.AliveFile(id)
	if text, info, err := durable.ReadFile(disk, name, protocol.AliveMost); err == nil {
		if every := protocol.BeatOf(text); every > 0 && time.Since(info.ModTime) < 2*every {
			return nil
		}
	}
	return touch(disk, name, nil)
}

// beatsPerTimeout is how often KeepAlive beats within heartbeat_timeout. Two is the
// least that counts as beating (spec §8.3).
const beatsPerTimeout = 4

// KeepAlive gives signs of life again and again while lives returns true, and says
// in the alive file how often, so that a holder is missed after heartbeat_timeout
// and not only after turn_heartbeat (spec §8.3). It beats four times within that
// timeout, at most once a millisecond. When ctx ends it returns nil.
func (b *Box) KeepAlive(ctx context.Context, timeout time.Duration, lives func() bool) error {
	every := max(timeout/beatsPerTimeout, time.Millisecond)
	tick := time.NewTicker(every)
	defer tick.Stop()
	for lives() {
		if err := touch(b.disk, protocol.AliveFile(b.id), protocol.Beat(every)); err != nil {
			return fmt.Errorf("show that %s lives: %w", b.id, err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
	return nil
}

// touch writes into a file in place: a new file would make the daemon scan all of
// the agent's own files.
func touch(disk durable.FS, name string, text []byte) error {
	f, err := disk.Append(name)
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, durable.ErrNotRegular) || errors.Is(err, durable.ErrLink) {
		return durable.Publish(disk, name, text, 0o644, durable.Unsynced) // somebody else made it
	}
	if err != nil {
		return err
	}
	err = f.Truncate(0)
	if err == nil && len(text) > 0 {
		_, err = f.Write(text)
	}
	return errors.Join(err, f.Close())
}
