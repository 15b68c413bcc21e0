package main

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/hived/hived/agent"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

func (a *app) taskBlock() *cobra.Command {
	return a.taskVerb(verb{
		on: task.BlockOnDependency, use: "block ID --reason R", reason: "what you need to know to go on, in a `sentence`", reaches: true,
		short: "Blocks a task until somebody answers, or until others are completed",
		long:  "Blocks a task: with --needs until those tasks are completed, else until its creator, the lead or a person answers the reason\nwith `hived task answer`, or gives the task up.",
		flags: func(flags *pflag.FlagSet, report *protocol.TaskReport) {
			flags.StringSliceVar(&report.Needs, "needs", nil, "`ids` of tasks that must be completed first")
		},
		fill: func(x *call) error {
			if x.report.Reason == "" && len(x.report.Needs) == 0 {
				return usageError("block needs to say what is waited for: --reason R, or --needs ID")
			}
			return resolveTasks(x.disk, x.report.Needs)
		},
	})
}

func (a *app) taskAnswer() *cobra.Command {
	var ask uint64
	return a.taskVerb(verb{
		on: task.Answer, use: "answer ID TEXT", args: argCount(2, 2),
		short: "Answers what a blocked task needs to know, so that it goes on",
		long:  "Answers what a blocked task needs to know: its holder gets the whole text and goes on. Only its creator, the lead and people may do this.\nWhere the task has asked more than once, --ask names the question that is answered; without it the open one is shown.",
		flags: func(flags *pflag.FlagSet, _ *protocol.TaskReport) { askFlag(flags, &ask) },
		fill: func(x *call) (err error) {
			if x.report.Comment, err = a.readText(x.args[1]); err != nil {
				return err
			}
			x.args = x.args[:1]
			x.report.Ask, err = a.askNumber(x.disk, x.args, protocol.Seq(ask), "task answer", ` "…"`)
			return err
		},
	})
}

func (a *app) taskAmend() *cobra.Command {
	var said agent.BriefChange
	var body, gate, data string
	var approvals int
	var approvers []string
	c := &cobra.Command{
		Use:               "amend ID",
		Short:             "Changes the brief of a task that has not ended; its holder is told",
		Long:              "Changes what the flags name in the brief of a task, which becomes its next version. Its holder is told and goes on under its epoch.\nOnly the task's creator and people may do this. Whom the task is for, what it needs and its priority stay as they are.",
		Args:              argCount(0, 1),
		ValidArgsFunction: a.completeTasks,
	}
	flags := c.Flags()
	flags.StringVar(&said.Title, "title", "", "the `title` from now on")
	flags.StringVar(&body, "body", "", "what is to be done: `TEXT`, - for standard input, or @FILE")
	flags.StringVar(&gate, "gate", "", "a `command` that must succeed before the task counts as completed; empty: none")
	flags.IntVar(&approvals, "approvals", 0, "how `many` must approve what it asks")
	flags.StringSliceVar(&approvers, "approver", nil, "who may approve: agent `ids` and @roles")
	flags.StringVar(&data, "data", "", "for the agent: `JSON`, - for standard input, or @FILE")
	flags.StringVar(&said.Reason, "reason", "", reasonUsage)
	timeout := timeoutFlag(c)
	c.RunE = a.withHive(func(c *cobra.Command, args []string, disk *durable.Disk) error {
		id, err := a.taskArg(disk, args)
		if err != nil {
			return err
		}
		text, err := a.readText(body)
		if err != nil {
			return err
		}
		if said.Data, err = a.readJSON("--data", data); err != nil {
			return err
		}
		said.Approvers = addresses(approvers)
		anything := said.Title != "" || said.Data != nil || len(said.Approvers) > 0
		if flags.Changed("body") {
			said.Body, anything = &text, true
		}
		if flags.Changed("gate") {
			said.Gate, anything = &gate, true
		}
		if flags.Changed("approvals") {
			said.Approvals, anything = &approvals, true
		}
		if !anything {
			return usageError("amend needs to say what changes: --title, --body, --gate, --data, --approvals or --approver")
		}
		return a.runTaskCommand(c.Context(), disk, agent.Command{Event: task.Amend, Task: id, Data: said, Within: *timeout})
	})
	return c
}

func (a *app) taskGiveUp() *cobra.Command {
	var report protocol.TaskReport
	c := &cobra.Command{
		Use:               "give-up ID",
		Short:             "Ends a blocked task that cannot be done: it has failed",
		Long:              "Ends a blocked task that cannot be done: it has failed. Its creator, the lead and people may do this, and its holder at any time.",
		Args:              argCount(0, 1),
		ValidArgsFunction: a.completeTasks,
	}
	c.Flags().StringVar(&report.Reason, "reason", "", reasonUsage)
	timeout := timeoutFlag(c)
	c.RunE = a.withHive(func(c *cobra.Command, args []string, disk *durable.Disk) error {
		id, err := a.taskArg(disk, args)
		if err != nil {
			return err
		}
		t := agent.Command{Event: task.FatalError, Task: id, Data: agent.Report(report), Within: *timeout}
		if v, err := agent.View(disk, id); err == nil && v.Holder == a.who() {
			if t.Epoch, err = a.holderEpoch(disk, 0, id); err != nil {
				return err
			}
		}
		return a.runTaskCommand(c.Context(), disk, t)
	})
	return c
}
