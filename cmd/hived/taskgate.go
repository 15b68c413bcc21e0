package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/spf13/pflag"

	"github.com/hived/hived/agent"
	"github.com/hived/hived/hive"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/process"
	"github.com/hived/hived/protocol"
)

// gateTimeout is how long a gate may run by default.
const gateTimeout = 10 * time.Minute

// gateFlags say how the gate of a task is run that is reported as completed.
type gateFlags struct {
	run     bool
	timeout time.Duration
}

func (f *gateFlags) register(flags *pflag.FlagSet) {
	flags.BoolVar(&f.run, "run-gate", false, "run the task's gate although its author is not trusted")
	flags.DurationVar(&f.timeout, "gate-timeout", gateTimeout, "how long the gate may run")
}

// passGate runs the gate of the task that a report is about, and puts how it ended into
// the report.
func (a *app) passGate(x *call, f gateFlags) error {
	if f.timeout <= 0 {
		return usageError("--gate-timeout %s: say how long the gate may run, for example 10m", f.timeout)
	}
	id, err := a.taskArg(x.disk, x.args)
	if err != nil {
		return err
	}
	x.report.Gate, err = a.gateResult(x.Context(), x.disk, id, f)
	return err
}

// gateResult runs the gate of a task, if its brief has one, in the acting agent's
// directory, and returns what is reported of it. The gate is a shell
// command that somebody else wrote: it is run only where its author is trusted, or
// the caller says so (spec §8.2).
func (a *app) gateResult(ctx context.Context, disk *durable.Disk, id protocol.TaskID, f gateFlags) (*protocol.GateResult, error) {
	gate, err := agent.GateOf(disk, a.who(), id)
	if gate == nil {
		return nil, err
	}
	trusted, err := gate.Trusted(disk, a.who(), hive.Trust)
	if err != nil {
		return nil, err
	}
	if !trusted && !f.run {
		who := protocol.Visible(cmp.Or(string(gate.Author), "somebody unknown"))
		return nil, exitWith(protocol.ExitRefused, "the gate of %s is a shell command by %s, whom this hive does not trust: `%s`; read it, and give --run-gate if it may run, or have a person put its author into work.trust of hive.yaml", id, who, protocol.Visible(gate.Command))
	}
	exit, err := a.runGate(ctx, disk, id, gate.Command, f.timeout)
	if err != nil {
		return nil, err
	}
	if exit != 0 {
		return nil, exitWith(protocol.ExitRefused, "the gate `%s` ended with exit status %d, so nothing was reported; fix that, or report what is wrong with `hived task fail %s`", protocol.Visible(gate.Command), exit, id)
	}
	return &protocol.GateResult{Exit: &exit, SHA256: protocol.GateSum(gate.Command)}, nil
}

// runGate runs a gate in the acting agent's directory and returns its exit status.
// What it prints goes to standard error.
func (a *app) runGate(ctx context.Context, disk *durable.Disk, id protocol.TaskID, gate string, limit time.Duration) (int, error) {
	dir := disk.Path(".")
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := process.Run(ctx, process.Shell{
		Args: []string{"-c", gate}, Dir: disk.Path(protocol.AgentDir(a.who())), Out: a.stderr,
		Env: append(os.Environ(), "HIVE_DIR="+dir, "HIVE_AGENT="+string(a.who()), "HIVE_TASK="+string(id)),
	})
	if ctx.Err() != nil {
		return 0, exitWith(protocol.ExitTimedOut, "the gate `%s` did not end within %s, so nothing was reported; give it longer with --gate-timeout", protocol.Visible(gate), limit)
	}
	ended, is := errors.AsType[*exec.ExitError](err)
	switch {
	case err == nil:
		return 0, nil
	case !is:
		return 0, fmt.Errorf("run the gate of %s: %w", id, err)
	case ended.ExitCode() >= 0:
		return ended.ExitCode(), nil
	}
	return 128, nil // ended by a signal
}
