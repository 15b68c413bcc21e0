// Package run runs an agent's program, or a gate, with all that it starts. It promises that
// when [Program.Do] returns, nothing of that goes on, and that it returns within the
// program's times: Timeout, Grace, Drain and a moment more.
//
// On Linux that holds for every descendant: also for one that left the process group or
// the session, that is no child of the program any more, or that cleared its environment.
// Elsewhere it holds for the process group. What the output means is left to others.
package run

import (
	"bytes"
	"context"
	"slices"
	"time"

	"github.com/hived/hived/internal/process"
)

// EnvRun is the environment variable with the name of a run, by which what is left of it
// is found after its worker died.
const EnvRun = "HIVE_RUN"

// Program is what is run.
type Program struct {
	Args    []string // the program first
	Dir     string
	Env     []string
	In      []byte        // its standard input; nil: it is empty
	Run     string        // the name of the run, unlike that of any other
	Out     *Output       // its standard output; nil: it is thrown away
	Err     *Output       // its standard error
	Timeout time.Duration // then it is ended; zero: never
	Grace   time.Duration // between the signal that asks it to end and the one that ends it
	Drain   time.Duration // how long what it started may outlive it
}

// Ended is how a program ended.
type Ended struct {
	process.Ended

	Killed int // processes that it left, and that were ended
}

// Do runs a program to its end. When ctx ends, or its time is over, it is asked to end,
// and after its grace period ended.
func (p Program) Do(ctx context.Context) Ended {
	f := begin(p.Run)
	defer f.end()
	c := process.Command{
		Args: p.Args, Dir: p.Dir, Env: append(slices.Clip(p.Env), EnvRun+"="+p.Run),
		Timeout: p.Timeout, Grace: p.Grace, Stop: ctx.Done(), Owner: process.Starter,
	}
	var e Ended
	c.After = func(ended time.Time) { e.Killed = f.sweep(ended.Add(p.Drain)) } // which ends its output, too
	if p.In != nil {
		c.In = bytes.NewReader(p.In)
	}
	if p.Out != nil {
		c.Out = p.Out
	}
	if p.Err != nil {
		c.Err = p.Err
	}
	e.Ended = c.Do(ctx)
	return e
}

// EndLeftovers ends what is left of a run whose worker died, and returns how many
// processes that were.
func EndLeftovers(name string) (killed int) { return process.KillByEnv(EnvRun, name) }
