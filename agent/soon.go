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

// A task that was created just now may have no files yet: the log has it first. Who
// asks for one that is younger than freshTask waits for them, at most soonEnough.
const (
	freshTask  = time.Minute
	soonEnough = 5 * time.Second
)

// Soon reads files of a task, and reads again while those of a young task are not
// there. Its error is that of the last reading.
func Soon(ctx context.Context, id protocol.TaskID, read func() error) error {
	err := read()
	if age := time.Since(born(id)); age < -freshTask || age > freshTask {
		return err
	}
	ctx, cancel := pause.Limit(ctx, soonEnough)
	defer cancel()
	for (errors.Is(err, ErrNoTask) || errors.Is(err, fs.ErrNotExist)) && pause.For(ctx, viewPoll) == nil {
		err = read()
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
