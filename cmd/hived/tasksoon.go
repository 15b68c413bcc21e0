package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
)

// A task that was created just now may have no files yet: the log has it first. Who
// asks for one that is younger than freshTask waits for them, at most soonEnough.
const (
	freshTask  = time.Minute
	soonEnough = 5 * time.Second
)

// soon reads the files of a task, and waits for them if the task was created just
// now and a daemon runs. Where none does it says that what was sent is queued.
func soon(ctx context.Context, disk *durable.Disk, id protocol.TaskID, read func() error) error {
	_, runs, err := daemon(disk)
	if err != nil || runs {
		return retried(ctx, id, read)
	}
	if err = read(); exitStatus(err) == exitNotFound {
		return &exitError{exitNotFound, fmt.Errorf("%w; no daemon runs: a task that was sent is queued until `hived up`", err)}
	}
	return err
}

// retried reads again while the files of a young task are not there.
func retried(ctx context.Context, id protocol.TaskID, read func() error) error {
	err := read()
	if age := time.Since(born(id)); age < -freshTask || age > freshTask {
		return err
	}
	ctx, cancel := limit(ctx, soonEnough)
	defer cancel()
	tick := time.NewTicker(followPoll)
	defer tick.Stop()
	for exitStatus(err) == exitNotFound || errors.Is(err, fs.ErrNotExist) {
		select {
		case <-ctx.Done():
			return err
		case <-tick.C:
			err = read()
		}
	}
	return err
}

// born is when a task was created: its id begins with that.
func born(id protocol.TaskID) time.Time {
	u, err := ulid.ParseStrict(string(id))
	if err != nil {
		return time.Time{}
	}
	return ulid.Time(u.Time())
}
