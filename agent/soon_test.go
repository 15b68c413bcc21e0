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

// TestSoon: who asks for a task right after it was created waits
// until it has files, for a bounded time; who asks for one that is not there does not.
func TestReadSoon(t *testing.T) {
	none := fmt.Errorf("%w, this one", ErrNoTask)
	torn := fmt.Errorf("read it: %w", fs.ErrNotExist)
	for _, tt := range []struct {
		name  string
		age   time.Duration
		gives []error // of one read after the other; the last for ever
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
