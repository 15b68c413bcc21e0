package router

import (
	"fmt"

	"github.com/hived/hived/protocol"
)

// onlyTask returns the task of a hive that has one.
func (s *scene) onlyTask() (protocol.TaskID, error) {
	list, err := s.disk.ReadDir(protocol.PathTasks)
	if err != nil || len(list) != 1 {
		return "", fmt.Errorf("there are %d tasks: %w", len(list), err)
	}
	return protocol.TaskID(list[0].Name), nil
}

// reports has alice send an event of the only task, under its first epoch.
func (s *scene) reports(file, event, data string) error {
	id, err := s.onlyTask()
	if err != nil {
		return err
	}
	return send("alice", file, fmt.Sprintf(`{"to":"hive","id":%q,"event":%q,"task":%q,"epoch":1,"data":%s}`, file, event, id, data))(s)
}

// taskInProgress has alice work on a task of which she has begun a step.
func taskInProgress(s *scene) error {
	err := s.play([]deed{send("human", "new", `{"to":"hive","event":"create","data":{"title":"deploy","to":["alice"]}}`), run})
	if err != nil {
		return err
	}
	for _, event := range []string{"accept", "start"} {
		if err := s.reports(event, event, `{}`); err != nil {
			return err
		}
	}
	if err := s.reports("step-one", "step_started", `{"step":{"name":"one","argv":["make"],"boot":"b1"}}`); err != nil {
		return err
	}
	return run(s)
}

// stepEnds has the step that alice has begun end.
func stepEnds(s *scene) error {
	return s.reports("step-one-ends", "step_ended", `{"step":{"n":1,"command":"step-one","exit":0}}`)
}

// stepBegins has alice begin another step.
func stepBegins(s *scene) error {
	return s.reports("step-two", "step_started", `{"step":{"name":"two","boot":"b1"}}`)
}

// stepsRecorded checks the records of both steps, and that their locks are there.
func stepsRecorded(s *scene) error {
	id, err := s.onlyTask()
	if err != nil {
		return err
	}
	for n, want := range []protocol.StepRecord{
		{Name: "one", Status: protocol.StepDone, Command: "step-one"}, {Name: "two", Status: protocol.StepExecuting, Command: "step-two"},
	} {
		path := protocol.StepFile(id, n+1, want.Name)
		text, err := s.read(path)
		if err != nil {
			return err
		}
		r, err := protocol.DecodeStep([]byte(text))
		if err != nil || r.Status != want.Status || r.Command != want.Command {
			return fmt.Errorf("the record of step %s is %+v: %w", want.Name, r, err)
		}
		if _, err := s.disk.Lstat(protocol.LockOf(path)); err != nil {
			return fmt.Errorf("the lock of step %s: %w", want.Name, err)
		}
	}
	return nil
}
