package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/hived/hived/capsule"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
)

// stepFlags are the flags of `hived step`.
type stepFlags struct {
	spec   capsule.Spec
	failAs string
	epoch  uint64
	unwind bool
}

func (a *app) stepCommand() *cobra.Command {
	var f stepFlags
	c := &cobra.Command{
		Use:   "step NAME [flags] -- COMMAND… | hived step --unwind",
		Short: "Runs a command as a step of the task, once, however often the task is begun again",
		Long: "Runs a command as a step of the task that HIVE_TASK names, and keeps its output. A step that was done is not run again: its\n" +
			"output is printed. A script names its steps in the same order each time, from the first. Where nobody knows whether the\n" +
			"command was done, --verify finds out, --idempotent lets it run again, and else a person is asked. The command's environment\n" +
			"has HIVE_IDEMPOTENCY_KEY, the same for all attempts: give it to whatever must not be done twice. The arguments and the output\n" +
			"stay in the log and in git: write no secrets into them.\n\n" +
			"A task that ends without being completed, and that did steps with --undo, is undone by a task of its own: with --unwind its\n" +
			"holder undoes these steps, the last one first. An undo gets the step's output as standard input.\n\n" +
			"Exit status: 0 done, now or before, 1 the command failed, 2 wrong usage, 3 no such task, 4 no daemon: nothing was run, or\n" +
			"the end waits in the outbox, 5 refused, or in doubt: a person is asked.",
		Args: argCount(0, -1),
	}
	flags := c.Flags()
	flags.StringVar(&f.spec.Verify, "verify", "", "a shell `command` that says whether the step was done: exit 0 yes, with its output, 1 no")
	flags.BoolVar(&f.spec.Idempotent, "idempotent", false, "the command may run again whatever became of it")
	flags.StringVar(&f.spec.Undo, "undo", "", "a shell `command` that undoes the step")
	flags.IntVar(&f.spec.Retries, "retries", 0, "how often the command runs again after it has failed")
	flags.DurationVar(&f.spec.Timeout, "timeout", 0, "end the command after this long; the step is in doubt then")
	flags.StringVar(&f.failAs, "fail-as", "", "report the task as failed with this `category` when the command has failed")
	flags.StringArrayVar(&f.spec.Skip, "skip", nil, "leave out the step of this `name`, which was begun before; may be repeated")
	flags.BoolVar(&f.unwind, "unwind", false, "undo the steps of the task that HIVE_TASK is to undo")
	flags.Uint64Var(&f.epoch, "epoch", 0, "the epoch under which this agent has the task (else HIVE_EPOCH)")
	c.RunE = a.withHive(func(c *cobra.Command, args []string, disk *durable.Disk) error {
		if f.unwind {
			return a.unwind(c, args, disk, f)
		}
		if err := a.stepArgs(c, args, &f); err != nil {
			return err
		}
		return a.step(c.Context(), disk, f)
	})
	return c
}

// stepArgs checks the arguments of a step.
func (a *app) stepArgs(c *cobra.Command, args []string, f *stepFlags) error {
	if len(args) == 0 {
		return usageError("a step has a name: hived step NAME -- COMMAND…")
	}
	f.spec.Name, f.spec.Argv = args[0], args[1:]
	if err := a.withinTask(); err != nil {
		return err
	}
	switch dash := c.ArgsLenAtDash(); {
	case protocol.BadStepName(f.spec.Name) != "":
		return usageError("%s", protocol.BadStepName(f.spec.Name))
	case dash != 1 || len(args) < 2:
		return usageError("write the command after two hyphens: hived step %s -- COMMAND…", f.spec.Name)
	case len(f.spec.Verify) > protocol.StepTextMost || len(f.spec.Undo) > protocol.StepTextMost:
		return usageError("--verify and --undo may have %d bytes; put it into a script and name that", protocol.StepTextMost)
	case f.spec.Retries < 0 || f.spec.Timeout < 0:
		return usageError("--retries and --timeout are not negative")
	}
	if f.failAs != "" {
		return oneOf(failureCategories, f.failAs, "--fail-as %s: it is one of "+joinNames(failureCategories), "unknown where none fits")
	}
	return nil
}

// withinTask refuses a step outside a task, or within a step.
func (a *app) withinTask() error {
	switch {
	case a.getenv(capsule.EnvStep) != "":
		return usageError("this runs within step %s, and a step has no steps; end that step first", protocol.Quote(a.getenv(capsule.EnvStep)))
	case a.getenv("HIVE_TASK") == "":
		return usageError("a step belongs to a task: export HIVE_TASK and HIVE_EPOCH as `hived task claim` prints them")
	}
	return nil
}

// unwind undoes the steps that the task is to undo.
func (a *app) unwind(c *cobra.Command, args []string, disk *durable.Disk, f stepFlags) error {
	other := ""
	c.Flags().Visit(func(x *pflag.Flag) {
		if x.Name != "unwind" && x.Name != "epoch" && c.LocalNonPersistentFlags().Lookup(x.Name) != nil {
			other = "--" + x.Name
		}
	})
	if len(args) > 0 || other != "" {
		return usageError("--unwind undoes the steps as they were recorded, and takes nothing but --epoch, not %s", cmp.Or(other, strings.Join(args, " ")))
	}
	if err := a.withinTask(); err != nil {
		return err
	}
	cp, err := a.capsule(disk, f.epoch)
	if err != nil {
		return err
	}
	if cp.Unwinds() == "" {
		return usageError("this task undoes nothing; claim the one that does: `hived task show` of the task to undo names it")
	}
	if err := cp.Unwind(c.Context(), a.out.w, a.stderr); err != nil {
		return a.stepError(c.Context(), cp, f, err)
	}
	return nil
}

func (a *app) step(ctx context.Context, disk *durable.Disk, f stepFlags) error {
	cp, err := a.capsule(disk, f.epoch)
	if err != nil {
		return err
	}
	if cp.Unwinds() != "" {
		return usageError("this task undoes what %s did, and does no steps; run `hived step --unwind`", cp.Unwinds())
	}
	if f.spec.CWD, err = os.Getwd(); err != nil {
		return fmt.Errorf("find the directory of the step: %w", err)
	}
	if err := cp.Command(ctx, f.spec, a.out.w, a.stderr); err != nil {
		return a.stepError(ctx, cp, f, err)
	}
	return nil
}

// capsule opens the task that HIVE_TASK names.
func (a *app) capsule(disk *durable.Disk, epoch uint64) (*capsule.Capsule, error) {
	h, err := a.agentHive(disk)
	if err != nil {
		return nil, err
	}
	id, err := a.taskArg(disk, nil)
	if err != nil {
		return nil, err
	}
	if epoch, err = a.holderEpoch(disk, epoch, id); err != nil {
		return nil, err
	}
	cp, err := h.Capsule(id, epoch, func(text string) { a.note("%s", text) })
	return cp, hintTaskList(err)
}

// stepError returns the error of a step with its exit status, and reports the task as
// failed where the caller wants that.
func (a *app) stepError(ctx context.Context, cp *capsule.Capsule, f stepFlags, err error) error {
	failed, isFailed := errors.AsType[*capsule.Failed](err)
	_, isRefused := errors.AsType[*capsule.Refused](err)
	switch {
	case isFailed && f.failAs != "":
		return errors.Join(exitWith(protocol.ExitFailed, "%w", err), cp.Fail(ctx, protocol.Category(f.failAs), failed))
	case isFailed:
		return exitWith(protocol.ExitFailed, "%w", err)
	case errors.Is(err, capsule.ErrNoDaemon), errors.Is(err, capsule.ErrQueued):
		return exitWith(protocol.ExitTimedOut, "%w", err)
	case errors.Is(err, capsule.ErrOrder):
		return usageError("%w", err)
	case isRefused, errors.Is(err, capsule.ErrAsked), errors.Is(err, capsule.ErrDoubt):
		return exitWith(protocol.ExitRefused, "%w", err)
	}
	return err
}
