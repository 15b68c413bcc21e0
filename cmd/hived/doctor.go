package main

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/hived/hived/audit"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
)

func (a *app) doctorCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "doctor",
		Short: "Checks the machine and the hive, and says what to do about each finding",
		Long:  "Checks the machine and the hive for what is wrong or soon will be. Outside of a hive it checks the machine only.\nExit status 1 means that something is wrong now.",
		Args:  argCount(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			disk, err := a.open()
			if exitStatus(err) == protocol.ExitNotFound && a.hive == "" && a.getenv("HIVE_DIR") == "" {
				disk, err = durable.Open(".")
			}
			if err != nil {
				return err
			}
			defer disk.Close() //nolint:errcheck // nothing was written
			return a.showFindings(audit.Doctor(c.Context(), disk))
		},
	}
}

func (a *app) showFindings(findings []audit.Finding) error {
	err := a.answer(findings, func(p *printer) {
		for _, f := range findings {
			p.line("%s", a.findingLine(f))
		}
	})
	isFault := func(f audit.Finding) bool { return f.Level == protocol.LevelFault }
	if err != nil || !slices.ContainsFunc(findings, isFault) {
		return err
	}
	return exitWith(protocol.ExitFailed, "doctor found something wrong; each finding says what to do")
}
