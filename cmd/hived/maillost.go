package main

import (
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/hived/hived/audit"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/router/decide"
)

// vanishedFlags say what becomes of messages that vanished from an inbox.
type vanishedFlags struct {
	putBack, believe bool
	undelete         time.Duration
	timeout          *time.Duration
}

func (l vanishedFlags) given(c *cobra.Command) bool {
	return l.putBack || l.believe || c.Flags().Changed("undelete")
}

// settleVanished sends the command, as human, that settles what becomes of
// messages that vanished from the acting agent's inbox.
func (a *app) settleVanished(ctx context.Context, disk *durable.Disk, l vanishedFlags) error {
	who := a.who()
	if _, err := a.box(disk); err != nil {
		return err
	}
	a.agent = string(protocol.Human) // who sends the command
	data := commandData{Agent: who}
	switch {
	case l.putBack:
		return a.command(ctx, disk, "inbox-put-back", data, *l.timeout, "what vanished from the inbox of "+string(who)+" is put back")
	case l.believe:
		return a.command(ctx, disk, "inbox-believe", data, *l.timeout, "what vanished from the inbox of "+string(who)+" counts as deleted")
	case l.undelete <= 0:
		return usageError("--undelete %s: give how far back, such as 24h", l.undelete)
	}
	seqs, err := audit.Deleted(disk, who, time.Now().Add(-l.undelete))
	if err != nil {
		return err
	}
	if len(seqs) == 0 {
		return exitWith(protocol.ExitNotFound, "%s deleted nothing within %s; `hived log --kind handled` shows what it handled", who, l.undelete)
	}
	for part := range slices.Chunk(seqs, decide.UndeleteMost) {
		data.Messages = part
		if err := a.command(ctx, disk, "inbox-undelete", data, *l.timeout, "put back into the inbox of "+string(who)+": "+plural(len(part), "message")); err != nil {
			return err
		}
	}
	return nil
}
