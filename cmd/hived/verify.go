package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/hived/hived/audit"
	"github.com/hived/hived/hive"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
)

func (a *app) verifyCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "verify",
		Short: "Compares the log, the files and git, and proves that nothing is missing",
		Long:  "Runs every check there is: the log's chain, the conservation of messages, the files and the git history against the log.\nIt changes nothing and may run beside the daemon. Exit status 6 means that a check found a gap.",
		Args:  argCount(0, 0),
		RunE: a.withHive(func(c *cobra.Command, _ []string, disk *durable.Disk) error {
			return a.verify(c.Context(), disk)
		}),
	}
}

func (a *app) verify(ctx context.Context, disk *durable.Disk) error {
	r, err := audit.Verify(ctx, disk, audit.Options{Settings: a.settings(disk)})
	if err != nil {
		return err
	}
	if err := a.answer(r, func(p *printer) { a.showReport(p, r) }); err != nil || r.OK() {
		return err
	}
	return exitWith(protocol.ExitGap, "verify found %s; `hived repair` mends what can be mended", plural(len(r.Findings), "fault"))
}

// settings returns the hive's settings, or the defaults where they cannot be
// read: a check must not depend on them.
func (a *app) settings(disk durable.FS) protocol.Settings {
	s, err := hive.Settings(disk)
	if err != nil {
		a.note("%s; going on with the defaults", protocol.Visible(err.Error()))
		return protocol.DefaultSettings()
	}
	return s
}

func (a *app) showReport(p *printer, r audit.Report) {
	for _, f := range r.Findings {
		p.line("%s", a.findingLine(f))
	}
	for _, f := range r.Notes {
		p.line("%s", a.findingLine(f))
	}
	p.line("log      event %d, sum %s", r.Seq, r.Sum)
	p.line("git      through event %d, %d commits", r.GitSeq, r.Commits)
	p.line("messages %d accepted: %d deliveries, %d dropped, %d kept; %d handled, %d unread", r.Messages, r.Deliveries, r.Drops, r.Kept, r.Handled, r.Unread)
	p.line("files    %d compared byte for byte", r.Files)
	if r.OK() {
		p.line("%s", a.style.paint(green, "nothing is missing"))
	}
}

// findingLine formats a finding, its level first.
func (a *app) findingLine(f audit.Finding) string {
	colour := dim
	switch f.Level {
	case protocol.LevelOK:
		colour = green
	case protocol.LevelNote:
	case protocol.LevelWarning:
		colour = yellow
	case protocol.LevelFault:
		colour = red
	}
	return a.style.paint(colour, fmt.Sprintf("%-8s", f.Level)) + " " + f.String()
}

// plural formats a count with its noun.
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
