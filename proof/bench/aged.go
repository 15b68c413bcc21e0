package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/hived/hived/protocol"
	"github.com/hived/hived/view"
)

// aged is a hive with a long history, made once in a run by the daemon itself: the
// rows replay, start and verify use it when it has the events they need, and memory
// makes it older still.
type aged struct {
	dir     string
	traffic *traffic
	events  int // in the log
	// verifyHalf is the peak memory of `hived verify` with half of the events, in MiB.
	verifyHalf float64
}

// About how long it takes to make.
const (
	agedBrief = 6 * time.Second
	agedFull  = 200 * time.Second
)

// agedDisk returns the disk space that it takes, in bytes.
func agedDisk(s sizes) int64 { return perMessage(max(s.agedEvents/2, s.agedMessages)) }

// hiveDir makes a hive for a daemon that is a process of its own.
func (b *bench) hiveDir(ctx context.Context, agents int, yaml string) (string, error) {
	h, err := b.newHive(ctx, agents, yaml)
	if err != nil {
		return "", err
	}
	return h.dir, h.close()
}

// aged returns the hive with as many events as replay, start and verify need. No
// daemon runs. Making it takes up to half of the row's progress.
func (b *bench) aged(ctx context.Context) (*aged, error) {
	if b.old == nil {
		a := &aged{}
		if err := a.make(ctx, b); err != nil {
			return nil, fmt.Errorf("let a hive age: %w", err)
		}
		b.old = a
	}
	return b.old, nil
}

func (a *aged) make(ctx context.Context, b *bench) error {
	agents := b.sizes.agedAgents
	var err error
	if a.dir, err = b.hiveDir(ctx, agents, ""); err != nil {
		return err
	}
	a.traffic = newTraffic(a.dir, agents, newGenerator(8))
	goal := b.sizes.agedEvents
	tell := func(int) {
		b.tell(0.5*float64(2*a.traffic.taken)/float64(goal), "a hive ages: %s of %s events", grouped(int64(2*a.traffic.taken)), grouped(int64(goal)))
	}
	if err := a.grow(ctx, b, goal/2, tell); err != nil {
		return err
	}
	r, err := b.verify(ctx, a.dir)
	if err != nil {
		return err
	}
	a.verifyHalf = r.peak
	return a.grow(ctx, b, goal, tell)
}

// grow lets the daemon run until the log has this many events. Each message makes two:
// one when it is accepted and one when it is handled.
func (a *aged) grow(ctx context.Context, b *bench, events int, tell func(int)) error {
	for a.events < events {
		d, err := b.up(a.dir)
		if err != nil {
			return err
		}
		err = a.traffic.run(ctx, (events-a.events+1)/2, tell)
		if err = errors.Join(err, d.Stop()); err != nil {
			return err
		}
		if a.events, err = eventsIn(a.dir); err != nil {
			return err
		}
	}
	return nil
}

// eventsIn returns the number of events in the log, from the status of a stopped daemon.
func eventsIn(dir string) (int, error) {
	s, err := statusOf(dir)
	return int(s.Seq), err //nolint:gosec // counted from one
}

// statusOf reads the last status that the daemon of a hive wrote.
func statusOf(dir string) (s view.Status, err error) {
	data, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(protocol.StatusFile))) //nolint:gosec // of the bench's own
	if err != nil {
		return s, err
	}
	if err := json.Unmarshal(data, &s); err != nil {
		return s, fmt.Errorf("read the status of a daemon: %w", err)
	}
	return s, nil
}

// writeSettings writes hive.yaml, for the next program that runs on the hive.
func (a *aged) writeSettings(yaml string) error {
	return put(filepath.Join(a.dir, "hive.yaml"), []byte(breakerOff+yaml))
}
