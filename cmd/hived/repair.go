package main

import (
	"context"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/hived/hived/audit"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/process"
	"github.com/hived/hived/internal/users"
	"github.com/hived/hived/protocol"
)

func (a *app) repairCommand() *cobra.Command {
	var opt audit.RepairOptions
	c := &cobra.Command{
		Use:   "repair",
		Short: "Mends what can be mended, and says what it did; no daemon may run",
		Long:  "Makes the files and git agree with the log again, and the log with itself where git still has what it lost.\nNothing is deleted: what is replaced is kept below .hived/. At the end it checks what `hived verify` checks;\nexit status 1 means that something is still wrong.",
		Args:  argCount(0, 0),
		RunE: a.withHive(func(c *cobra.Command, _ []string, disk *durable.Disk) error {
			return a.repair(c.Context(), disk, opt)
		}),
	}
	c.Flags().BoolVar(&opt.Adopt, "adopt", false, "where the log or its end is lost for good, go on from the files as they are")
	return c
}

func (a *app) repair(ctx context.Context, disk *durable.Disk, opt audit.RepairOptions) error {
	process.OthersMayRead()
	opt.Settings, opt.Version = a.settings(disk), version()
	r, err := audit.Repair(ctx, disk, opt)
	if err != nil {
		return explainLock(err)
	}
	if err := users.Close(ctx, disk, a.logger(slog.LevelInfo)); err != nil { // the files that repair made have open rights
		return err
	}
	err = a.answer(r, func(p *printer) {
		for _, done := range r.Done {
			p.line("%s %s", a.style.paint(green, "mended  "), done)
		}
		for _, left := range r.Left {
			p.line("%s", a.findingLine(left))
		}
		if len(r.Done) == 0 && len(r.Left) == 0 {
			p.line("there was nothing to mend")
		}
	})
	if err != nil || len(r.Left) == 0 && r.Report.OK() {
		return err
	}
	return exitWith(protocol.ExitFailed, "repair left %s", plural(max(1, len(r.Left)), "fault"))
}
