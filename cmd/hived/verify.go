package main

import (
	"github.com/spf13/cobra"

	"github.com/hived/hived/internal/durable"
)

func (a *app) verifyCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "verify",
		Short: "Holds the log, the files and git against each other, and proves that nothing is missing",
		Long:  "Runs every check there is: the log's chain, the conservation of messages, the files and the git history against the log.\nIt may run beside the daemon. Exit status 6 says that a check found a gap.",
		Args:  takes(0, 0),
		RunE: a.withHive(func(c *cobra.Command, _ []string, disk *durable.Disk) error {
			return a.verify(c.Context(), disk)
		}),
	}
}
