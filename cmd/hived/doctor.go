package main

import (
	"github.com/spf13/cobra"

	"github.com/hived/hived/internal/durable"
)

func (a *app) doctorCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "doctor",
		Short: "Checks the machine and the hive, and says what to do about each finding",
		Args:  takes(0, 0),
		RunE: a.withHive(func(c *cobra.Command, _ []string, disk *durable.Disk) error {
			return a.doctor(c.Context(), disk)
		}),
	}
}
