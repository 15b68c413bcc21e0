package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"github.com/hived/hived/agent"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
)

// order is a command to `hive`: what it asks for and how it went (spec §8).
type order struct {
	Event  string             `json:"event"`
	ID     protocol.MessageID `json:"id"`
	State  string             `json:"state"`         // queued, done, refused
	Seq    protocol.Seq       `json:"seq,omitzero"`  // the event that answers it
	Code   string             `json:"code,omitzero"` // of a refusal
	Detail string             `json:"detail,omitzero"`

	file string
	by   protocol.AgentID
	of   protocol.Seq // the event that accepted the command
}

// orderData is the `data` of a command.
type orderData struct {
	Agent        protocol.AgentID `json:"agent,omitzero"`
	Role         string           `json:"role,omitzero"`
	Caps         []string         `json:"capabilities,omitzero"`
	Conversation string           `json:"conversation,omitzero"`
}

// command sends a command to hive and waits for the event that answers it.
func (a *app) command(ctx context.Context, disk *durable.Disk, event string, data orderData, timeout time.Duration, done string) error {
	box, err := a.box(disk)
	if err != nil {
		return err
	}
	from, err := here(disk)
	if err != nil {
		return err
	}
	_, runs, err := daemon(disk)
	if err != nil {
		return err
	}
	value, err := json.Marshal(data)
	if err != nil {
		return fmt.Errorf("write the command %s: %w", event, err)
	}
	no := false
	sent, err := box.Send(agent.Draft{
		To: []protocol.Address{protocol.Address(protocol.Hive)}, Act: protocol.Request, Subject: event, RequiresReply: &no,
		Event: event, Data: value,
	})
	if err != nil {
		return err
	}
	o := &order{Event: event, ID: sent.ID, State: "queued", file: sent.File, by: box.ID()}
	if !runs {
		err = exitWith(exitTimedOut, "%s is queued as %s: no daemon runs; it is carried out when one does (`hived up`)", event, sent.ID)
		return errors.Join(err, a.answer(o, func(*printer) {}))
	}
	err = waitFor(ctx, disk, from, timeout, o.see)
	switch {
	case err != nil:
		err = fmt.Errorf("%s is queued as %s, and the daemon did not answer: %w", event, sent.ID, err)
	case o.Code != "":
		err = exitWith(exitRefused, "%s was refused: %s: %s", event, o.Code, o.Detail)
	}
	return errors.Join(err, a.answer(o, func(p *printer) {
		if err == nil {
			p.line("%s", done)
		}
	}))
}

// see takes the next event and tells whether it answers the command.
func (o *order) see(ev protocol.Event) bool {
	switch e := ev.Body.(type) {
	case *protocol.QuarantineEvent:
		if e.Agent == o.by && e.Original != nil && e.Original.Name == o.file {
			o.refuse(ev.Seq, string(e.Code), e.Detail)
		}
	case *protocol.DropEvent:
		if o.of > 0 && e.Of == o.of {
			o.refuse(ev.Seq, string(e.Reason), e.Detail)
		}
	case *protocol.AgentEvent:
		o.carriedOut(ev.Seq, e.Of)
	case *protocol.HiveEvent:
		o.carriedOut(ev.Seq, e.Of)
	case *protocol.MessageEvent:
		if e.From == o.by && e.Original != nil && e.Original.Name == o.file {
			o.of = ev.Seq
		} else if o.of > 0 && e.From == protocol.Hive && e.InReplyTo == o.ID {
			o.told(ev.Seq, e)
		}
	}
	return o.State != "queued"
}

func (o *order) carriedOut(seq, of protocol.Seq) {
	if o.of > 0 && of == o.of {
		o.State, o.Seq = "done", seq
	}
}

func (o *order) refuse(seq protocol.Seq, code, detail string) {
	o.State, o.Seq, o.Code, o.Detail = "refused", seq, code, detail
}

// told takes what hive says of the command.
func (o *order) told(seq protocol.Seq, e *protocol.MessageEvent) {
	m, err := protocol.DecodeMessage([]byte(e.Raw))
	if err != nil {
		return
	}
	if code := noticeCode(m); code != string(protocol.CodeOK) {
		o.refuse(seq, code, bodyText(m))
	}
}

// orderTimeout is how long a command waits for its answer by default.
const orderTimeout = 10 * time.Second

func timeoutFlag(c *cobra.Command) *time.Duration {
	return c.Flags().Duration("timeout", orderTimeout, "wait so long for the answer; exit status 4 when none came")
}

func (a *app) continueCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "continue CONVERSATION",
		Short: "Lets a stopped thread go on: its hops count from zero again",
		Args:  takes(1, 1),
	}
	timeout := timeoutFlag(c)
	c.RunE = a.withHive(func(c *cobra.Command, args []string, disk *durable.Disk) error {
		return a.command(c.Context(), disk, "continue", orderData{Conversation: args[0]}, *timeout, "conversation "+protocol.Visible(args[0])+" goes on")
	})
	return c
}

func (a *app) gitCommand() *cobra.Command {
	sub := func(name, event, short, done string) *cobra.Command {
		c := &cobra.Command{Use: name, Short: short, Args: takes(0, 0)}
		timeout := timeoutFlag(c)
		c.RunE = a.withHive(func(c *cobra.Command, _ []string, disk *durable.Disk) error {
			return a.command(c.Context(), disk, event, orderData{}, *timeout, done)
		})
		return c
	}
	return group(&cobra.Command{Use: "git", Short: "Gives a person the repository, and takes it back"},
		sub("pause", "git-pause", "Makes no commits until `hived git resume`", "git is paused: the repository is yours until `hived git resume`"),
		sub("resume", "git-resume", "Commits again, beginning with what waits", "git goes on"),
	)
}
