package main

import (
	"github.com/spf13/cobra"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

func (a *app) approveCommand() *cobra.Command {
	return a.vote("approve", string(task.ApprovalGranted), "Lets a task go on that asked for approval")
}

func (a *app) denyCommand() *cobra.Command {
	return a.vote("deny", string(task.ApprovalDenied), "Ends a task that asked for approval")
}

// vote is the answer of a person to a task that asks.
func (a *app) vote(name, event, short string) *cobra.Command {
	var report protocol.TaskReport
	c := &cobra.Command{
		Use:               name + " ID",
		Short:             short,
		Long:              short + ". It is for people: where HIVE_AGENT or HIVE_TASK show that an agent asks, it refuses.",
		Args:              takes(1, 1),
		ValidArgsFunction: a.completeTasks,
	}
	c.Flags().StringVar(&report.Comment, "comment", "", "what the holder should know, in a `sentence`")
	send := a.reporting(c, event, false, true)
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := a.isPerson(name); err != nil {
			return err
		}
		return a.withHive(func(c *cobra.Command, args []string, disk *durable.Disk) error {
			return send(c.Context(), disk, args, report)
		})(c, args)
	}
	return c
}

// isPerson refuses an agent that would approve its own question. Under one Unix
// user nobody can be kept from it; this keeps from doing it by mistake.
func (a *app) isPerson(name string) error {
	for _, v := range []string{"HIVE_AGENT", "HIVE_TASK"} {
		person := v == "HIVE_AGENT" && a.getenv(v) == string(protocol.Human)
		if set := a.getenv(v); set != "" && !person {
			return exitWith(exitRefused, "%s is for people, and %s=%s shows that an agent asks; a person runs it in a shell of his own, without HIVE_AGENT and HIVE_TASK", name, v, protocol.Visible(set))
		}
	}
	return nil
}
