package main

import (
	"context"
	"time"

	"github.com/hived/hived/agent"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/view"
)

// waitMail waits until hive answers the command in the inbox, and marks that as
// handled: an agent with a user of its own may not read the log (spec §9).
func waitMail(ctx context.Context, box *agent.Box, c *view.Command, timeout time.Duration) error {
	ctx, cancel := limit(ctx, timeout)
	defer cancel()
	tick := time.NewTicker(followPoll)
	defer tick.Stop()
	seen := map[string]bool{}
	for {
		names, err := box.Unread()
		if err != nil {
			return err
		}
		for _, name := range names {
			if seen[name] {
				continue
			}
			seen[name] = true
			l, err := box.Read(name)
			if err != nil || l.Message == nil || l.Message.From != string(protocol.Hive) || l.Message.InReplyTo != c.ID {
				continue // gone by now, or another's business
			}
			c.Answer(l.Seq, l.Message)
			_, err = box.Done(name)
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}
