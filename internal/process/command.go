package process

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"runtime"
	"time"
)

// Command is a program that runs in a process group of its own.
type Command struct {
	Args    []string // the program first
	Dir     string
	Env     []string
	In      io.Reader             // its standard input; nil: it is empty
	Out     io.Writer             // its standard output
	Err     io.Writer             // its standard error
	Inherit []*os.File            // that it gets as descriptors 3 and on
	Signals <-chan os.Signal      // are passed on to the group; nil: none
	Timeout time.Duration         // then it is ended; zero: never
	Grace   time.Duration         // between the signal that asks it to end and the one that ends it
	Stop    <-chan struct{}       // closed: it is asked to end; nil: never
	After   func(ended time.Time) // is called when its first process has ended, while its output is still read; on Linux
	Owner   Owner                 // what becomes of it when this program is killed
}

// Owner says what becomes of a command when the program that runs it is killed.
type Owner int

// The owners.
const (
	Nobody  Owner = iota // it goes on
	Starter              // it is killed too; on Linux
)

// Ended is how a command ended.
type Ended struct {
	Exit     int    // its exit status; 127 where there is no such program, 126 where it cannot be run
	Signal   string // the name of the signal that ended it, such as KILL; empty: it exited by itself
	TimedOut bool
	Stopped  bool  // it was asked to end by Stop, before it ended and before its time was over
	Err      error // why it could not be run, or its output not be read
}

// The exit statuses of a shell for programs that it cannot run.
const (
	ExitCannotRun = 126
	ExitNoProgram = 127
)

// Do runs a command to its end, also where ctx ends before: whoever wants that passes on a
// signal, or gives Stop.
func (c Command) Do(ctx context.Context) Ended {
	x := exec.CommandContext(context.WithoutCancel(ctx), c.Args[0], c.Args[1:]...) //nolint:gosec // whoever calls has said what it runs
	x.Dir, x.Env, x.Stdin, x.Stdout, x.Stderr, x.ExtraFiles = c.Dir, c.Env, c.In, c.Out, c.Err, c.Inherit
	x.WaitDelay = grace
	leadGroup(x, c.Owner)
	begun, done := make(chan error), make(chan error, 1)
	go func() {
		if c.Owner == Starter { // the kernel watches the thread that started it
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
		}
		err := start(x)
		begun <- err
		if err == nil {
			err := wait(x, c.After)
			if c.Owner == Starter {
				endGroup(x)
			}
			done <- err
		}
	}()
	if err := <-begun; err != nil {
		if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
			return Ended{Exit: ExitNoProgram, Err: err}
		}
		return Ended{Exit: ExitCannotRun, Err: err}
	}
	return c.follow(x, done)
}

// follow waits for the end of a command that was started, and ends it where that is due.
func (c Command) follow(x *exec.Cmd, done <-chan error) (e Ended) {
	var late, kill <-chan time.Time
	if c.Timeout > 0 {
		timer := time.NewTimer(c.Timeout)
		defer timer.Stop()
		late = timer.C
	}
	ask := func() {
		late, c.Stop = nil, nil
		askGroup(x.Process)
		kill = time.After(c.Grace)
	}
	for {
		select {
		case err := <-done:
			e.Exit, e.Signal, e.Err = howItEnded(x.ProcessState, err)
			return e
		case s := <-c.Signals:
			signalGroup(x.Process, s)
		case <-late:
			e.TimedOut = true
			ask()
		case <-c.Stop:
			e.Stopped = true
			ask()
		case <-kill:
			kill = nil
			killGroup(x.Process)
		}
	}
}

// howItEnded returns the exit status of a process that ended, or the signal that ended
// it. Output that was still open after the grace period is no error of the command.
func howItEnded(s *os.ProcessState, err error) (exit int, signal string, problem error) {
	if _, is := errors.AsType[*exec.ExitError](err); !is && err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		problem = err
	}
	if s == nil {
		return ExitCannotRun, "", problem
	}
	return s.ExitCode(), endSignal(s), problem
}
