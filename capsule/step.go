package capsule

import (
	"context"
	"fmt"

	"github.com/go-json-experiment/json"

	"github.com/hived/hived/agent"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

// Option says more about a step.
type Option[T any] func(*goStep[T])

type goStep[T any] struct {
	spec   Spec
	verify func(ctx context.Context, key string) (T, bool, error)
}

// Idempotent says that a step may run again whatever became of it.
func Idempotent[T any]() Option[T] { return func(s *goStep[T]) { s.spec.Idempotent = true } }

// Retries says how often a step runs again after it returned an error.
func Retries[T any](n int) Option[T] { return func(s *goStep[T]) { s.spec.Retries = max(n, 0) } }

// Undo is the shell command that undoes a step.
func Undo[T any](command string) Option[T] { return func(s *goStep[T]) { s.spec.Undo = command } }

// Skip names steps that were begun before and are left out by this run.
func Skip[T any](names ...string) Option[T] {
	return func(s *goStep[T]) { s.spec.Skip = append(s.spec.Skip, names...) }
}

// Verified is asked about a step that was begun and whose end nobody saw: whether its
// effect is there, and if so what the step would have returned. An error leaves it open.
func Verified[T any](is func(ctx context.Context, key string) (T, bool, error)) Option[T] {
	return func(s *goStep[T]) { s.verify, s.spec.Verify = is, "a function of the program" }
}

// Step does a step of a task and returns what it returned, now or when it was done
// before: as JSON that is in the log. do gets the step's idempotency key, which is the
// same for all attempts, epochs and agents. The errors are those of [Capsule.Do].
func Step[T any](ctx context.Context, c *Capsule, name string, do func(ctx context.Context, key string) (T, error), options ...Option[T]) (T, error) {
	s := goStep[T]{spec: Spec{Name: name}}
	for _, o := range options {
		o(&s)
	}
	var value T
	record, err := c.Do(ctx, s.spec, Work{
		Run: func(ctx context.Context, a Attempt) End {
			v, err := do(ctx, a.Key)
			if err != nil {
				return End{Exit: 1, Error: err.Error()}
			}
			output, err := json.Marshal(v)
			if err != nil {
				return End{Exit: 1, Error: "what it returned cannot be kept: " + err.Error()}
			}
			return End{Output: protocol.NewStepOutput(output)}
		},
		Verify: func(ctx context.Context, key string) (int, []byte) {
			v, there, err := s.verify(ctx, key)
			if err != nil {
				return 2, nil
			}
			output, err := json.Marshal(v)
			switch {
			case err != nil:
				return 2, nil
			case there:
				return 0, output
			}
			return 1, nil
		},
	})
	if err != nil {
		return value, err
	}
	output, err := c.Output(record)
	if err == nil && len(output) > 0 {
		err = json.Unmarshal(output, &value)
	}
	if err != nil {
		return value, fmt.Errorf("read what step %s returned: %w", name, err)
	}
	return value, nil
}

// Output returns what a step wrote to its standard output.
func (c *Capsule) Output(r *protocol.StepRecord) ([]byte, error) {
	if r.Output == nil {
		return nil, nil
	}
	return r.Output.Data()
}

// Fail reports that the task has failed because of a step (spec §8.4).
func (c *Capsule) Fail(ctx context.Context, category protocol.Category, failed *Failed) error {
	_, _, err := c.report(ctx, task.Failure, protocol.TaskReport{Category: category, Reason: failed.Error()}, 0, func(protocol.MessageID) bool {
		v, err := agent.View(c.Disk, c.Task)
		return err == nil && v.State != task.InProgress
	})
	return err
}
