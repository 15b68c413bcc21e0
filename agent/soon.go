package agent

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/hived/hived/internal/pause"
	"github.com/hived/hived/protocol"
)

// A task that was created just now may have no files yet: the log has it first. The
// files of a task that is younger than freshTask are waited for, at most readWithin.
const (
	freshTask  = time.Minute
	readWithin = 5 * time.Second
)

// ReadSoon calls read for the files of a task, again and again while the files of a
// young task do not exist. Its error is that of the last call.
func ReadSoon(ctx context.Context, id protocol.TaskID, read func() error) error {
	err := read()
	if age := time.Since(createdAt(id)); age < -freshTask || age > freshTask {
		return err
	}
	ctx, cancel := pause.Limit(ctx, readWithin)
	defer cancel()
	for (errors.Is(err, ErrNoTask) || errors.Is(err, fs.ErrNotExist)) && pause.For(ctx, viewPoll) == nil {
		err = read()
	}
	return err
}

// createdAt returns when a task was created, which its id begins with.
func createdAt(id protocol.TaskID) time.Time {
	u, err := ulid.ParseStrict(string(id))
	if err != nil {
		return time.Time{}
	}
	return ulid.Time(u.Time())
}
