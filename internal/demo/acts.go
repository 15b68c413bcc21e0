package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	hiveexample "github.com/hived/hived/hive-example"
	"github.com/hived/hived/internal/pause"
	"github.com/hived/hived/internal/process"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
	"github.com/hived/hived/view"
)

// actLimit is how long the agents of one act may take. They take a few seconds if the
// machine is idle.
const actLimit = time.Minute

// errKilled is why an agent of the second act has ended.
var errKilled = errors.New("killed by the demo")

// acts plays the acts, one after the other. program is hived's own.
func (s *stage) acts(ctx context.Context, home, program string) error {
	if err := firstAct(ctx, home); err != nil {
		return err
	}
	if err := s.secondAct(ctx, home); err != nil {
		return err
	}
	return s.thirdAct(ctx, home, program)
}

// firstAct starts the scripts that talk and waits for them. Whatever still runs
// when time is up is killed, with everything that it started.
func firstAct(ctx context.Context, home string) error {
	ctx, cancel := pause.Limit(ctx, actLimit)
	defer cancel()
	var all errgroup.Group
	failed := make([]error, len(hiveexample.Agents()))
	for i, id := range hiveexample.Agents() {
		all.Go(func() error {
			failed[i] = runAgent(ctx, home, id, hiveexample.Script)
			return nil
		})
	}
	return errors.Join(append(failed, all.Wait())...)
}

// secondAct starts the scripts that work on a task, and directs them.
func (s *stage) secondAct(ctx context.Context, home string) error {
	ctx, cancel := pause.Limit(ctx, actLimit)
	defer cancel()
	all, ctx := errgroup.WithContext(ctx)
	kills := map[protocol.AgentID]context.CancelCauseFunc{}
	for _, id := range hiveexample.Workers() {
		life, kill := context.WithCancelCause(ctx)
		kills[protocol.AgentID(id)] = kill
		all.Go(func() error {
			err := runAgent(life, home, id, hiveexample.Script)
			if errors.Is(context.Cause(life), errKilled) {
				return nil
			}
			return err
		})
	}
	all.Go(func() error { return s.direct(ctx, home, kills) })
	return all.Wait()
}

// direct gives the workers their task, kills the one that holds it at its first
// checkpoint, approves of what the other asks, and lets the first come back when
// the task is completed.
func (s *stage) direct(ctx context.Context, home string, kills map[protocol.AgentID]context.CancelCauseFunc) error {
	if err := asHuman(home, "order", hiveexample.Order); err != nil {
		return err
	}
	step, err := s.await(ctx, task.Progress)
	if err != nil {
		return err
	}
	victim := step.Event.By
	kills[victim](errKilled)
	s.show(time.Now(), Line{Tone: Trouble, Who: string(victim), What: "killed in the middle of its work"})
	if step, err = s.await(ctx, task.PauseForApproval); err != nil {
		return err
	}
	answer := fmt.Sprintf(`{"to": "hive", "event": %q, "task": %q, "data": {"ask": %s, "comment": "Yes, sell them."}}`, task.ApprovalGranted, step.Event.Task, step.Seq)
	if err := asHuman(home, "approval", answer); err != nil {
		return err
	}
	if step, err = s.await(ctx, task.Complete); err != nil {
		return err
	}
	if got := string(step.Event.Result.Value); strings.Join(strings.Fields(got), "") != hiveexample.TaskResult {
		return fmt.Errorf("the result of the task is %s, not %s", protocol.Visible(got), hiveexample.TaskResult)
	}
	return runAgent(ctx, home, string(victim), hiveexample.LateScript)
}

// await waits until this happens to the task.
func (s *stage) await(ctx context.Context, event task.Event) (view.TaskStep, error) {
	for {
		select {
		case step := <-s.tasks:
			e := step.Event
			if e.Event == event {
				return step, nil
			}
			if task.Ended(e.To) {
				return view.TaskStep{}, fmt.Errorf("the task was %s before it came to %s: %s", e.To, event, protocol.Visible(e.Reason))
			}
		case <-ctx.Done():
			return view.TaskStep{}, fmt.Errorf("wait for %s of the task: %w", event, context.Cause(ctx))
		}
	}
}

// asHuman sends what the people of the demo say, as anybody would who has
// nothing but files.
func asHuman(home, name, message string) error {
	file := filepath.Join(home, filepath.FromSlash(protocol.AgentDir(protocol.Human)), "outbox", name)
	err := os.WriteFile(file+".tmp", []byte(message+"\n"), 0o644) //nolint:gosec,forbidigo // people have nothing but files
	if err == nil {
		err = os.Rename(file+".tmp", file+".json") //nolint:forbidigo // as above
	}
	if err != nil {
		return fmt.Errorf("send the %s of human: %w", name, err)
	}
	return nil
}

func runAgent(ctx context.Context, home, id, program string) error {
	var words bytes.Buffer
	err := process.Run(ctx, process.Shell{
		Args: []string{filepath.Join(home, "agents", id, program)}, Dir: home, Out: &words,
		Env: append(environment(), "HIVE_DIR="+home, "HIVE_AGENT="+id),
	})
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("agent %s was stopped: %w", id, context.Cause(ctx))
	}
	return fmt.Errorf("agent %s ended with %w: %s", id, err, protocol.Quote(strings.TrimSpace(words.String())))
}
