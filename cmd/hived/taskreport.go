package main

import (
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

func (a *app) taskProgress() *cobra.Command {
	var expect time.Duration
	return a.taskVerb(verb{
		on: task.Progress, use: "progress ID --milestone M", reaches: true,
		short: "Reports what was reached, from which a successor can go on",
		flags: func(flags *pflag.FlagSet, _ *protocol.TaskReport) {
			flags.DurationVar(&expect, "expect", 0, "how long this agent may be silent from now on without being missed")
		},
		fill: func(x *call) error {
			switch {
			case !x.reached.given() && expect == 0:
				return usageError("progress needs to say what was reached: --milestone M, and --data with the checkpoint")
			case expect < 0:
				return usageError("--expect %s: give a duration from now, such as 20m", expect)
			case expect > 0:
				x.report.For = expect.String()
			}
			return nil
		},
	})
}

// checkpointFlags are the flags of a report that may carry a checkpoint.
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
	flags.StringVar(&report.Schema, "schema", "", "the name of the checkpoint's form")
	return f
}

// given reports whether the flags carry a milestone or a checkpoint.
func (f *checkpointFlags) given() bool {
	return f.report.Milestone != "" || f.data != "" || f.patch != ""
}

// fillReport reads the checkpoint that the flags name into the report.
func (f *checkpointFlags) fillReport() (err error) {
	if f.data != "" && f.patch != "" {
		return usageError("--data is a whole checkpoint and --patch a change of the last one; give one of them")
	}
	if f.report.Schema != "" && !f.given() {
		return usageError("--schema names the form of a checkpoint; give the checkpoint with --data or --patch")
	}
	if f.report.Checkpoint, err = f.a.readJSON("--data", f.data); err != nil {
		return err
	}
	f.report.Patch, err = f.a.readJSON("--patch", f.patch)
	return err
}

// readJSON returns the JSON value of a flag: the flag itself, standard input for -,
// or the content of @FILE. An empty flag is no value.
func (a *app) readJSON(flag, given string) (jsontext.Value, error) {
	if given == "" {
		return nil, nil
	}
	text, err := a.readText(given)
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
	return a.taskVerb(verb{
		on: task.PauseForApproval, use: "ask ID QUESTION", args: argCount(1, 2), reason: reasonUsage, reaches: true,
		short: "Pauses a task until people have approved",
		flags: func(flags *pflag.FlagSet, report *protocol.TaskReport) {
			flags.StringArrayVar(&report.Choices, "choice", nil, "an `answer` that the question offers; up to 8")
		},
		fill: func(x *call) error {
			last := len(x.args) - 1 // with HIVE_TASK the question may be the only argument
			if x.report.Question = x.args[last]; last == 0 && a.getenv("HIVE_TASK") == "" {
				return usageError("ask needs more arguments: %s", usage(x.Command))
			}
			x.args = x.args[:last]
			return nil
		},
	})
}

// failureCategories are the categories of a failure (spec §8.4).
var failureCategories = []protocol.Category{
	protocol.TransientFailure, protocol.AuthFailure, protocol.SchemaFailure,
	protocol.AmbiguityFailure, protocol.LogicFailure, protocol.UnknownFailure,
}

func (a *app) taskFail() *cobra.Command {
	var category string
	return a.taskVerb(verb{
		on: task.Failure, use: "fail ID --category C", reason: "what went wrong, in a `sentence`", reaches: true,
		short: "Reports a failure; its category decides what happens next",
		flags: func(flags *pflag.FlagSet, report *protocol.TaskReport) {
			flags.StringVar(&category, "category", "", "`"+joinNames(failureCategories)+"`")
			flags.StringVar(&report.Question, "question", "", "of ambiguity: the `question` that a person answers; the reason if left out")
			flags.StringArrayVar(&report.Choices, "choice", nil, "of ambiguity: an `answer` that the question offers; up to 8")
		},
		fill: func(x *call) error {
			x.report.Category = protocol.Category(category)
			if asks := x.report.Question != "" || len(x.report.Choices) > 0; asks && x.report.Category != protocol.AmbiguityFailure {
				return usageError("--question and --choice ask a person, which only --category %s does", protocol.AmbiguityFailure)
			}
			return oneOf(failureCategories, category, "--category %s: it is one of "+joinNames(failureCategories), "unknown where none fits")
		},
	})
}

func (a *app) taskComplete() *cobra.Command {
	var result string
	var gate gateFlags
	return a.taskVerb(verb{
		on: task.Complete, use: "complete ID",
		short: "Runs the task's gate, if it has one, and reports that the work is done, with its result",
		long: "Reports that the work is done, with its result. If the task has a gate, it runs that first, with sh in the agent's\n" +
			"directory, and reports nothing unless the gate exits with 0. A gate is a shell command that somebody else wrote: it is run if\n" +
			"its author is human, the lead, this agent, or named in work.trust of hive.yaml; else it is only shown, and --run-gate runs it.",
		flags: func(flags *pflag.FlagSet, _ *protocol.TaskReport) {
			flags.StringVar(&result, "result", "", "the result, as JSON or text: `TEXT`, - for standard input, or @FILE")
			gate.register(flags)
		},
		fill: func(x *call) (err error) {
			if x.Flags().Changed("result") {
				if x.report.Result, err = a.readResult(result); err != nil {
					return err
				}
			}
			return a.passGate(x, gate)
		},
	})
}
