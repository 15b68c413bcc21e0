package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
)

// ErrNoTask says that the hive has no directory for the task that was named. It
// may have ended long ago, or be so new that its files are not written yet.
var ErrNoTask = protocol.NewError(protocol.CodeUnknownTask, "there is no task")

// AmbiguousTask is the error of a beginning or end that several task ids have. It is
// [ErrAmbiguous] as well.
type AmbiguousTask struct {
	Said string            // the text that should name one task
	Fits []protocol.TaskID // the tasks that it fits, at least two, in the order of their ids
}

// Error implements error.
func (e *AmbiguousTask) Error() string {
	return fmt.Sprintf("%s fits %d tasks, %s and %s among them; write more of the id", protocol.Quote(e.Said), len(e.Fits), e.Fits[0], e.Fits[1])
}

// Unwrap makes it an [ErrAmbiguous].
func (e *AmbiguousTask) Unwrap() error { return ErrAmbiguous }

// Tasks lists the tasks that have a directory (spec §8.8) in the order of their
// ids, which is that of their creation. A hive without tasks is no error.
func Tasks(disk durable.FS) ([]protocol.TaskID, error) {
	entries, err := disk.ReadDir(protocol.PathTasks)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list the tasks: %w", err)
	}
	var list []protocol.TaskID
	for _, e := range entries {
		if id, err := protocol.ParseTaskID(e.Name); err == nil && e.Type.IsDir() {
			list = append(list, id)
		}
	}
	return list, nil
}

// FindTask returns the task that a text names, in upper or lower case. A whole id is
// returned as it is, whether there is such a task or not: the coordinator knows
// that. Otherwise it is the only task with a directory that the text fits, see
// [protocol.TaskID.Matches]. The error is [ErrNoTask] where no task fits, and an
// *[AmbiguousTask] where several do.
func FindTask(disk durable.FS, said string) (protocol.TaskID, error) {
	if id, err := protocol.ParseTaskID(strings.ToUpper(said)); err == nil {
		return id, nil
	}
	known, err := Tasks(disk)
	if err != nil {
		return "", err
	}
	var fit []protocol.TaskID
	for _, id := range known {
		if id.Matches(said) {
			fit = append(fit, id)
		}
	}
	switch len(fit) {
	case 0:
		return "", fmt.Errorf("%w %s", ErrNoTask, protocol.Quote(said))
	case 1:
		return fit[0], nil
	}
	return "", &AmbiguousTask{said, fit}
}
