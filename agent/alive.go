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

// aliveEvery is how often the methods of a [Box] touch the alive file at most.
const aliveEvery = time.Second

// alive shows that the agent lives because it does something. That it cannot be
// shown is no reason not to do it.
func (b *Box) alive() {
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

// Alive touches an agent's alive file (spec §8.3). A file that a program keeps
// beating is left as it is; the period of one that has stopped is taken out, or
// hived would wait for the next beat. Another user than the agent's own does not
// show that it lives: then nothing happens.
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

// beatsPerTimeout is how often within heartbeat_timeout KeepAlive beats. Twice is
// the least that counts as beating (spec §8.3).
const beatsPerTimeout = 4

// KeepAlive shows that the agent lives, again and again, for as long as lives
// reports that what it stands for does, and says in the alive file how often: its
// holder is missed after heartbeat_timeout then, and not after turn_heartbeat only
// (spec §8.3). It beats four times within that timeout, at most each millisecond.
// When ctx ends it returns nil.
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

// touch writes into a file in place: a new one would have the daemon look through
// all of the agent's own files.
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
