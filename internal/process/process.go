// Package process runs shell commands that others wrote, and knows whether a process
// runs. It promises that a command ends with its context, and all with it that it
// started; where the system has no process groups, the command itself.
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
	Out  io.Writer // gets what it prints, and what it says of errors
}

// grace is how long a command that was ended is waited for where others still hold
// what it prints to.
const grace = 2 * time.Second

// Run runs a command to its end. Its error is that of [exec.Cmd.Run].
func Run(ctx context.Context, s Shell) error {
	c := exec.CommandContext(ctx, "sh", s.Args...) //nolint:gosec // whoever calls has looked at what it runs
	c.Dir, c.Env, c.Stdout, c.Stderr = s.Dir, s.Env, s.Out, s.Out
	c.WaitDelay = grace
	inOwnGroup(c)
	return c.Run()
}
