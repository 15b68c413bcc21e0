package main

import (
	"context"
	"time"

	"github.com/hived/hived/agent"
	"github.com/hived/hived/internal/pause"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
	"github.com/hived/hived/view"
)

// waitMail waits for hive's answer to a command in the inbox, for an agent with a
// user of its own, which may not read the log (spec §9).
func waitMail(ctx context.Context, box *agent.Box, c *view.Command, timeout time.Duration) error {
	ctx, cancel := pause.Limit(ctx, timeout)
	defer cancel()
	x, err := box.Answer(ctx, c.ID)
	switch {
	case ctx.Err() != nil && err != nil:
		return context.Cause(ctx)
	case err != nil:
		return err
	case x.Code != protocol.CodeOK:
		c.State, c.Seq, c.Code, c.Detail, c.Numbers = view.Refused, x.Seq, x.Code, x.Text, x.Numbers
		return nil
	}
	c.State, c.Seq = view.Done, x.Of
	if x.Task != "" {
		x.Tasks = []protocol.TaskID{x.Task}
	}
	event := protocol.TaskAction(c.Event)
	made := makesTasks(event)
	if made {
		event = task.Create
	}
	for _, id := range x.Tasks {
		e := &protocol.TaskEvent{Task: id, Event: event, To: x.State, Epoch: x.Epoch, Attempt: x.Attempt}
		if c.Tasks = append(c.Tasks, view.TaskStep{Seq: x.Of, Event: e}); made {
			c.Created = append(c.Created, e)
		}
	}
	return nil
}
