package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/hived/hived/agent"
	"github.com/hived/hived/hive"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

type createFlags struct {
	file, body, data string
	to, approvers    []string
	spec             protocol.TaskSpec
}

func (a *app) taskCreate() *cobra.Command {
	var f createFlags
	c := &cobra.Command{
		Use:   "create TITLE | --file FILE",
		Short: "Creates a task, or all tasks of a file, and prints their ids",
		Long: "Creates a task and prints its id. With --file it creates all tasks of a YAML or JSON file, or none. The file holds\n" +
			"one task, a list of tasks, or {tasks: […]}; its tasks may need each other by name. A task in a file may have\n" +
			"name, title, body, to, needs, priority, gate, approvals, approvers and data.",
		Example: "  hived task create \"fix the build\" --to @go --body @report.txt --gate \"go test ./...\"\n  hived task create --file tasks.yaml",
		Args:    argCount(0, 1),
	}
	timeout := timeoutFlag(c)
	flags := c.Flags()
	flags.StringVar(&f.file, "file", "", "a `FILE` in YAML or JSON, or - for standard input")
	flags.StringVar(&f.body, "body", "", "what is to be done: `TEXT`, - for standard input, or @FILE")
	flags.StringSliceVar(&f.to, "to", nil, "who may have it: agent `ids` and @roles (default any agent)")
	flags.StringSliceVar(&f.spec.Needs, "needs", nil, "`ids` of tasks that must be completed first")
	flags.IntVar(&f.spec.Priority, "priority", 0, "a whole `number`: the higher one is done first")
	flags.StringVar(&f.spec.Gate, "gate", "", "a `command` that must succeed before the task counts as completed")
	flags.IntVar(&f.spec.Approvals, "approvals", 0, "how `many` must approve what it asks (default 1)")
	flags.StringSliceVar(&f.approvers, "approver", nil, "who may approve: agent `ids` and @roles (default human)")
	flags.StringVar(&f.data, "data", "", "for the agent: `JSON`, - for standard input, or @FILE")
	c.RunE = a.withHive(func(c *cobra.Command, args []string, disk *durable.Disk) error {
		data, err := a.createPayload(c, disk, f, args)
		if err != nil {
			return err
		}
		return a.runTaskCommand(c.Context(), disk, agent.Command{Event: task.Create, Data: data, Within: *timeout})
	})
	return c
}

// createPayload returns the `data` of the command, from the flags or the file.
func (a *app) createPayload(c *cobra.Command, disk durable.FS, f createFlags, args []string) (agent.Payload, error) {
	if f.file == "" {
		if len(args) == 0 || strings.TrimSpace(args[0]) == "" {
			return nil, usageError("create needs a title, or --file FILE: %s", usage(c))
		}
		return a.taskFromFlags(disk, f, args[0])
	}
	for _, name := range []string{"body", "to", "needs", "priority", "gate", "approvals", "approver", "data"} {
		if c.Flags().Changed(name) {
			return nil, usageError("--%s and --file do not go together; write it into the file", name)
		}
	}
	if len(args) > 0 {
		return nil, usageError("a title and --file do not go together; write it into the file")
	}
	given := f.file
	if given != "-" {
		given = "@" + given
	}
	text, err := a.readText(given)
	if err != nil {
		return nil, err
	}
	specs, err := hive.ParseTasks([]byte(text))
	if err != nil {
		return nil, usageError("read %s: %w", protocol.Quote(f.file), err)
	}
	return agent.NewTasks{Tasks: specs}, nil
}

// taskFromFlags returns the one task that the flags describe.
func (a *app) taskFromFlags(disk durable.FS, f createFlags, title string) (agent.Payload, error) {
	spec := f.spec
	spec.Title = title
	var err error
	if spec.Body, err = a.readText(f.body); err != nil {
		return nil, err
	}
	if spec.Data, err = a.readJSON("--data", f.data); err != nil {
		return nil, err
	}
	if err := resolveTasks(disk, spec.Needs); err != nil {
		return nil, err
	}
	spec.To, spec.Approvers = addresses(f.to), addresses(f.approvers)
	return agent.NewTask(spec), nil
}

func addresses(given []string) []protocol.Address {
	var list []protocol.Address
	for _, s := range given {
		list = append(list, protocol.Address(strings.TrimSpace(s)))
	}
	return list
}
