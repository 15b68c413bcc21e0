package main

import (
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/hived/hived/agent"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

func (a *app) taskProgress() *cobra.Command {
	var report protocol.TaskReport
	var expect time.Duration
	c := &cobra.Command{
		Use:               "progress ID --milestone M",
		Short:             "Reports what was reached; whoever comes next goes on from it",
		Args:              takes(0, 1),
		ValidArgsFunction: a.completeTasks,
	}
	reached := a.checkpointFlags(c, &report)
	c.Flags().DurationVar(&expect, "expect", 0, "nothing will be heard of this agent for so long, and that is no fault")
	send := a.reporting(c, task.Progress)
	c.RunE = a.withHive(func(c *cobra.Command, args []string, disk *durable.Disk) error {
		switch {
		case !reached.said() && expect == 0:
			return usageError("progress needs to say what was reached: --milestone M, and --data with the checkpoint")
		case expect < 0:
			return usageError("--expect %s: say how long from now", expect)
		}
		if err := reached.read(); err != nil {
			return err
		}
		if expect > 0 {
			report.For = expect.String()
		}
		return send(c.Context(), disk, args, report)
	})
	return c
}

// checkpointFlags are those of a report that may bring a checkpoint along.
type checkpointFlags struct {
	a           *app
	report      *protocol.TaskReport
	data, patch string
}

func (a *app) checkpointFlags(c *cobra.Command, report *protocol.TaskReport) *checkpointFlags {
	f := &checkpointFlags{a: a, report: report}
	flags := c.Flags()
	flags.StringVar(&report.Milestone, "milestone", "", "what was reached, in a few `words`")
	flags.StringVar(&f.data, "data", "", "the checkpoint, all that a successor needs: `JSON`, - for standard input, or @FILE")
	flags.StringVar(&f.patch, "patch", "", "what changed in the last checkpoint, an RFC 7396 merge patch: `JSON`, - or @FILE")
	flags.StringVar(&report.Schema, "schema", "", "what the form of the checkpoint is called")
	return f
}

// said tells whether the flags say what was reached.
func (f *checkpointFlags) said() bool {
	return f.report.Milestone != "" || f.data != "" || f.patch != ""
}

// read puts the checkpoint that the flags name into the report.
func (f *checkpointFlags) read() (err error) {
	if f.data != "" && f.patch != "" {
		return usageError("--data is a whole checkpoint and --patch a change of the last one; give one of them")
	}
	if f.report.Schema != "" && !f.said() {
		return usageError("--schema names the form of a checkpoint; give the checkpoint with --data or --patch")
	}
	if f.report.Checkpoint, err = f.a.value("--data", f.data); err != nil {
		return err
	}
	f.report.Patch, err = f.a.value("--patch", f.patch)
	return err
}

// value gives the JSON that a flag means: itself, - for standard input, or the
// content of @FILE. Nothing said is no value.
func (a *app) value(flag, said string) (jsontext.Value, error) {
	if said == "" {
		return nil, nil
	}
	text, err := a.text(said)
	if err != nil {
		return nil, err
	}
	v := jsontext.Value(text)
	if !v.IsValid() {
		return nil, usageError("%s is %s; write JSON, for example '{\"done\": 3}'", flag, protocol.Quote(text))
	}
	return v, nil
}

func (a *app) taskAsk() *cobra.Command {
	var report protocol.TaskReport
	c := &cobra.Command{
		Use:               "ask ID QUESTION",
		Short:             "Pauses a task until people have approved",
		Args:              takes(1, 2),
		ValidArgsFunction: a.completeTasks,
	}
	c.Flags().StringVar(&report.Reason, "reason", "", "why, in a `sentence`")
	reached := a.checkpointFlags(c, &report)
	send := a.reporting(c, task.PauseForApproval)
	c.RunE = a.withHive(func(c *cobra.Command, args []string, disk *durable.Disk) error {
		last := len(args) - 1 // with HIVE_TASK it is the only one
		if report.Question = args[last]; last == 0 && a.getenv("HIVE_TASK") == "" {
			return usageError("ask needs more: %s", usage(c))
		}
		if err := reached.read(); err != nil {
			return err
		}
		return send(c.Context(), disk, args[:last], report)
	})
	return c
}

func (a *app) taskFail() *cobra.Command {
	var report protocol.TaskReport
	var category string
	categories := []protocol.Category{
		protocol.TransientFailure, protocol.AuthFailure, protocol.SchemaFailure,
		protocol.AmbiguityFailure, protocol.LogicFailure, protocol.UnknownFailure,
	}
	c := &cobra.Command{
		Use:               "fail ID --category C",
		Short:             "Reports a failure; where it goes is decided by its category",
		Args:              takes(0, 1),
		ValidArgsFunction: a.completeTasks,
	}
	c.Flags().StringVar(&category, "category", "", "`"+list(categories)+"`")
	c.Flags().StringVar(&report.Reason, "reason", "", "what went wrong, in a `sentence`")
	reached := a.checkpointFlags(c, &report)
	send := a.reporting(c, task.Failure)
	c.RunE = a.withHive(func(c *cobra.Command, args []string, disk *durable.Disk) error {
		if report.Category = protocol.Category(category); !slices.Contains(categories, report.Category) {
			known := make([]string, 0, len(categories))
			for _, k := range categories {
				known = append(known, string(k))
			}
			return usageError("--category %s: it is one of %s%s", protocol.Quote(category), list(categories), didYouMean(category, known, "unknown where none fits"))
		}
		if err := reached.read(); err != nil {
			return err
		}
		return send(c.Context(), disk, args, report)
	})
	return c
}

func (a *app) taskComplete() *cobra.Command {
	var result string
	c := &cobra.Command{
		Long: "Reports that the work is done, with its result. Where the task has a gate it runs that first, with sh in the agent's\n" +
			"directory, and reports nothing unless it ends with 0. A gate is a shell command that somebody else wrote: it is run if\n" +
			"its author is human, the lead, this agent, or named in work.trust of hive.yaml; else it is shown, and --run-gate runs it.",
		Use:               "complete ID",
		Short:             "Runs the task's gate, if it has one, and reports that the work is done, with its result",
		Args:              takes(0, 1),
		ValidArgsFunction: a.completeTasks,
	}
	c.Flags().StringVar(&result, "result", "", "what came of it, JSON or else text: `TEXT`, - for standard input, or @FILE")
	var gate gateFlags
	c.Flags().BoolVar(&gate.run, "run-gate", false, "run the task's gate although its author is not trusted")
	c.Flags().DurationVar(&gate.timeout, "gate-timeout", gateTimeout, "how long the gate may run")
	send := a.reporting(c, task.Complete)
	c.RunE = a.withHive(func(c *cobra.Command, args []string, disk *durable.Disk) error {
		if gate.timeout <= 0 {
			return usageError("--gate-timeout %s: say how long the gate may run, for example 10m", gate.timeout)
		}
		id, err := a.aboutTask(disk, args)
		if err != nil {
			return err
		}
		var report protocol.TaskReport
		if c.Flags().Changed("result") {
			text, err := a.text(result)
			if err != nil {
				return err
			}
			if report.Result = jsontext.Value(text); !report.Result.IsValid() {
				report.Result = agent.Text(text)
			}
		}
		if report.Gate, err = a.passGate(c.Context(), disk, id, gate); err != nil {
			return err
		}
		return send(c.Context(), disk, args, report)
	})
	return c
}
