// Package process runs shell commands that others wrote, and reports whether a process
// runs. It promises that a command ends with its context, together with everything that
// it started; where the system has no process groups, only the command itself.
package process

import (
	"context"
	"io"
	"os/exec"
	"time"
)

// Shell is a run of sh.
type Shell struct {
	Args []string // of sh
	Dir  string   // in which it works
	Env  []string
	Out  io.Writer // gets its standard output and its standard error
}

// grace is how long Run waits for a command that was ended while other processes still
// have its output open.
const grace = 2 * time.Second

// Run runs a command to its end. The error is that of [exec.Cmd.Run].
func Run(ctx context.Context, s Shell) error {
	c := exec.CommandContext(ctx, "sh", s.Args...) //nolint:gosec // whoever calls has looked at what it runs
	c.Dir, c.Env, c.Stdout, c.Stderr = s.Dir, s.Env, s.Out, s.Out
	c.WaitDelay = grace
	inOwnGroup(c)
	if err := start(c); err != nil {
		return err
	}
	return wait(c, nil)
}
