package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

// Origin returns the first task of the chain that a task belongs to: the directory of the
// steps is its. Where task.json does not say it, as of a task that was created in a log of
// an earlier format, it is found from one task to the one that it resumes.
func Origin(disk durable.FS, v *task.View) protocol.TaskID {
	for v.Origin == "" && v.Resumes != "" {
		before, err := View(disk, v.Resumes)
		if err != nil {
			return v.Resumes // it was swept
		}
		v = before
	}
	if v.Origin != "" {
		return v.Origin
	}
	return v.ID
}

// readSteps reads the records of the steps of the chain that a task belongs to, in the
// order of their numbers, or notes which cannot be read.
func (t *Task) readSteps(disk durable.FS) {
	dir := protocol.StepsDir(Origin(disk, &t.View))
	entries, err := disk.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Problems = append(t.Problems, fmt.Errorf("list the steps: %w", err))
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name, ".json") {
			continue
		}
		data, _, err := durable.ReadFile(disk, dir+"/"+e.Name, maxTaskFile)
		if err == nil {
			var r *protocol.StepRecord
			if r, err = protocol.DecodeStep(data); err == nil {
				t.Steps = append(t.Steps, *r)
				continue
			}
		}
		t.Problems = append(t.Problems, fmt.Errorf("read %s/%s: %w; `hived verify` says more", dir, e.Name, err))
	}
}
