package demo

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	hiveexample "github.com/hived/hived/hive-example"
	"github.com/hived/hived/internal/pause"
	"github.com/hived/hived/internal/process"
	"github.com/hived/hived/task"
)

// killedAfter is the step after whose end the worker is killed.
const killedAfter = 3

// thirdAct has a worker do a task of five steps, kills it after the third, and starts
// another, which does the rest. What the steps leave outside the hive shows that each
// happened once.
func (s *stage) thirdAct(ctx context.Context, home, program string) error {
	ctx, cancel := pause.Limit(ctx, actLimit)
	defer cancel()
	outside, err := os.MkdirTemp("", "hived-demo-")
	if err != nil {
		return fmt.Errorf("make a directory outside the hive: %w", err)
	}
	defer os.RemoveAll(outside) //nolint:errcheck // a temporary directory
	if err := os.Symlink(program, filepath.Join(outside, "hived")); err != nil {
		return fmt.Errorf("put hived into the PATH of the baker: %w", err)
	}
	order := fmt.Sprintf(`{"to": "hive", "event": %q, "data": {"title": "Bake a loaf", "to": [%q], "body": %q}}`,
		task.Create, hiveexample.Baker, "sh "+hiveexample.Recipe+" "+quoteWord(outside))
	if err := asHuman(home, "second-order", order); err != nil {
		return err
	}
	all, ctx := errgroup.WithContext(ctx)
	all.Go(func() error { return s.bake(ctx, all, home, outside) })
	if err := all.Wait(); err != nil {
		return err
	}
	return s.countSteps(outside)
}

// quoteWord returns a text as one word of a shell command.
func quoteWord(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// bake starts a worker, kills it, and has another one end what it began.
func (s *stage) bake(ctx context.Context, all *errgroup.Group, home, outside string) error {
	signals := make(chan os.Signal, 1)
	all.Go(func() error { return runWorker(ctx, home, outside, signals) })
	for range killedAfter {
		if _, err := s.await(ctx, task.StepEnded); err != nil {
			return err
		}
	}
	signals <- os.Kill
	s.show(time.Now(), Line{Tone: Trouble, Who: hiveexample.Baker, What: fmt.Sprintf("its worker is killed after step %d of %d", killedAfter, len(hiveexample.RecipeSteps()))})
	life, stop := context.WithCancel(ctx)
	defer stop()
	all.Go(func() error { return runWorker(life, home, outside, nil) })
	_, err := s.await(ctx, task.Complete)
	return err
}

// runWorker runs a worker for the baker until ctx ends, or one of the signals ends it.
func runWorker(ctx context.Context, home, outside string, signals <-chan os.Signal) error {
	var words strings.Builder
	ended := process.Command{
		Args: []string{filepath.Join(outside, "hived"), "work", "--adapter", "shell"}, Dir: home,
		Env: append(environment(), "HIVE_DIR="+home, "HIVE_AGENT="+hiveexample.Baker, "PATH="+outside+string(os.PathListSeparator)+os.Getenv("PATH")),
		Out: &words, Err: &words, Signals: signals, Stop: ctx.Done(), Grace: actLimit / 4, Owner: process.Starter,
	}.Do(context.WithoutCancel(ctx))
	switch {
	case ended.Err != nil:
		return fmt.Errorf("run a worker: %w", ended.Err)
	case ended.Stopped, ended.Signal == "KILL" && signals != nil, ended.Exit == 0 && ended.Signal == "":
		return nil
	}
	return fmt.Errorf("the worker ended with exit status %d %s: %s", ended.Exit, ended.Signal, strings.TrimSpace(words.String()))
}

// environment is this program's, without the variables that name a hive or an agent.
func environment() []string {
	return slices.DeleteFunc(os.Environ(), func(kv string) bool { return strings.HasPrefix(kv, "HIVE_") })
}

// countSteps shows what the steps left outside the hive. It is an error if one of them did
// not happen once.
func (s *stage) countSteps(outside string) error {
	text, err := os.ReadFile(filepath.Join(outside, hiveexample.Loaf)) //nolint:gosec // a directory of our own
	if err != nil {
		return fmt.Errorf("see what the steps of the baker left: %w", err)
	}
	got := strings.Fields(string(text))
	if want := hiveexample.RecipeSteps(); !slices.Equal(got, want) {
		return fmt.Errorf("the steps %v happened, each once was wanted: %v", got, want)
	}
	s.show(time.Now(), Line{Tone: Notice, Who: hiveexample.Baker, What: "counted outside the hive, each step happened once: " + strings.Join(got, ", ")})
	return nil
}
