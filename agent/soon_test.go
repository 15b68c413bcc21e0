package agent

import (
	"fmt"
	"io/fs"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/hived/hived/protocol"
)

// TestReadSoon checks that a read of a task that was just created waits, for a
// bounded time, until it has files, and that a read of any other does not wait.
func TestReadSoon(t *testing.T) {
	none := fmt.Errorf("%w, this one", ErrNoTask)
	torn := fmt.Errorf("read it: %w", fs.ErrNotExist)
	for _, tt := range []struct {
		name  string
		age   time.Duration
		gives []error // of the reads in order; the last for all others too
		want  error
		took  time.Duration
	}{
		{"it is there", 0, []error{nil}, nil, 0},
		{"it comes soon", time.Second, []error{none, none, torn, nil}, nil, 3 * viewPoll},
		{"it does not come", 0, []error{none}, none, readWithin},
		{"it is old", 2 * freshTask, []error{none, nil}, none, 0},
		{"it is damaged", 0, []error{fs.ErrInvalid, nil}, fs.ErrInvalid, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begun := time.Now()
				id := protocol.TaskID(ulid.MustNew(ulid.Timestamp(begun.Add(-tt.age)), nil).String())
				left := tt.gives
				err := ReadSoon(t.Context(), id, func() error {
					err := left[0]
					left = left[min(1, len(left)-1):]
					return err
				})
				if took := time.Since(begun); err != tt.want || took != tt.took { //nolint:errorlint // the very same
					t.Errorf("after %v: %v", took, err)
				}
			})
		})
	}
}
