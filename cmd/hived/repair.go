package main

import (
	"github.com/spf13/cobra"

	"github.com/hived/hived/internal/durable"
)

func (a *app) repairCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "repair",
		Short: "Mends what can be mended, and says what it did; no daemon may run",
		Args:  takes(0, 0),
		RunE: a.withHive(func(c *cobra.Command, _ []string, disk *durable.Disk) error {
			return a.repair(c.Context(), disk)
		}),
	}
}
