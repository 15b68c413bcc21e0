package main

import (
	"context"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/hived/hived/agent"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

// waitMail waits until hive answers the command in the inbox, and marks that as
// handled: an agent with a user of its own may not read the log (spec §9).
func (o *order) waitMail(ctx context.Context, box *agent.Box, timeout time.Duration) error {
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
			if err != nil || l.Message == nil || l.Message.From != string(protocol.Hive) || l.Message.InReplyTo != o.ID {
				continue // gone by now, or another's business
			}
			o.answered(l)
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

// answered takes the answer of hive as a message (spec §8.6).
func (o *order) answered(l agent.Letter) {
	if o.told(l.Seq, l.Message); o.State != "queued" {
		return
	}
	var data struct {
		Of      protocol.Seq       `json:"of"`
		Task    protocol.TaskID    `json:"task"`
		Tasks   []protocol.TaskID  `json:"tasks"`
		State   protocol.TaskState `json:"state"`
		Epoch   uint64             `json:"epoch"`
		Attempt int                `json:"attempt"`
	}
	if json.Unmarshal(l.Message.Data, &data) != nil {
		data.Task, data.Tasks = "", nil
	}
	o.State, o.Seq = "done", data.Of
	if data.Task != "" {
		data.Tasks = []protocol.TaskID{data.Task}
	}
	event := protocol.TaskAction(o.Event)
	if event == eventResume {
		event = task.Create
	}
	for _, id := range data.Tasks {
		o.step(taskStep{data.Of, &protocol.TaskEvent{Task: id, Event: event, To: data.State, Epoch: data.Epoch, Attempt: data.Attempt}})
	}
}
