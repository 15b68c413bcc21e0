package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/hived/hived/eventlog"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/view"
)

type logFlags struct {
	after        string
	until        uint64
	follow       bool
	kinds        []string
	of           string
	conversation string
}

func (a *app) logCommand() *cobra.Command {
	var f logFlags
	c := &cobra.Command{
		Use:   "log",
		Short: "Prints the event log, one event a line",
		Long:  "Prints the event log, one event a line; with --json the lines as they are in the log.\nA reader that keeps its place gives --after SEQ:SUM, which fails if the log is not the one that it read before.",
		Args:  argCount(0, 0),
		RunE: a.withHive(func(c *cobra.Command, _ []string, disk *durable.Disk) error {
			return a.log(c.Context(), disk, f)
		}),
	}
	flags := c.Flags()
	flags.StringVar(&f.after, "after", "", "begin after this `SEQ or SEQ:SUM`")
	flags.Uint64Var(&f.until, "until", 0, "end with this `seq`")
	flags.BoolVarP(&f.follow, "follow", "f", false, "go on with what is appended, and print only what a power cut cannot undo")
	flags.StringSliceVar(&f.kinds, "kind", nil, "only events of this `kind`")
	flags.StringVar(&f.of, "of", "", "only events that this `agent` takes part in")
	flags.StringVar(&f.conversation, "conversation", "", "only events of the conversation with this `id`")
	return c
}

func (a *app) log(ctx context.Context, disk durable.FS, f logFlags) error {
	after, err := eventlog.ParsePosition(f.after)
	if f.after == "" {
		after, err = eventlog.Position{}, nil
	}
	if err != nil {
		return usageError("--after: %w", err)
	}
	wanted, err := newFilter(f)
	if err != nil {
		return err
	}
	if err := checkAgent(disk, f.of); err != nil {
		return err
	}
	records := eventlog.Read(disk, after)
	if f.follow {
		records = eventlog.Follow(ctx, disk, after, nil, followPoll)
	}
	for rec, err := range records {
		if ctx.Err() != nil {
			return nil // the reader has interrupted it
		}
		if err != nil {
			return err
		}
		if f.until > 0 && rec.Event.Seq > protocol.Seq(f.until) {
			return nil
		}
		if wanted.Wants(rec.Event) {
			a.logLine(rec)
		}
		if a.out.err != nil || f.until > 0 && rec.Event.Seq == protocol.Seq(f.until) {
			return nil
		}
	}
	return checkConversation(wanted, f)
}

// checkConversation returns an error where the log was read from its beginning
// and does not have the conversation that was asked for.
func checkConversation(wanted *view.Filter, f logFlags) error {
	if f.conversation == "" || wanted.Found || f.after != "" {
		return nil
	}
	return exitWith(protocol.ExitNotFound, "the log has no conversation %s; `hived log --kind message --json` names them", protocol.Quote(f.conversation))
}

// checkAgent returns an error for a name that is not on the roster, where the
// roster can be read.
func checkAgent(disk durable.FS, name string) error {
	if id, err := protocol.ParseAgentID(name); name == "" || err == nil && id.Reserved() {
		return nil
	}
	if _, err := findMember(disk, name); exitStatus(err) == protocol.ExitNotFound {
		return err
	}
	return nil
}

func (a *app) logLine(rec eventlog.Record) {
	if a.json {
		a.out.line("%s", rec.Line)
		return
	}
	a.out.line("%s", a.eventLine(rec.Event))
}

// eventLine formats an event for people.
func (a *app) eventLine(ev protocol.Event) string {
	kind := ev.Body.Kind()
	return fmt.Sprintf("%6d  %s  %s  %s", ev.Seq, a.style.paint(dim, timeText(ev.TS)), a.style.paint(kindColour(kind), fmt.Sprintf("%-10s", kind)), protocol.Summary(ev))
}

func kindColour(k protocol.Kind) string {
	switch k {
	case protocol.KindMessage, protocol.KindDelivered:
		return cyan
	case protocol.KindHandled:
		return green
	case protocol.KindTask:
		return blue
	case protocol.KindDrop, protocol.KindQuarantine, protocol.KindAlert, protocol.KindTaskRejected:
		return red
	case protocol.KindDuplicate, protocol.KindAgent:
		return yellow
	case protocol.KindHive, protocol.KindFile:
	}
	return dim
}

// newFilter makes the filter that the flags describe.
func newFilter(f logFlags) (*view.Filter, error) {
	wanted := &view.Filter{Agent: protocol.AgentID(f.of), Thread: protocol.ConversationID(f.conversation)}
	for _, k := range f.kinds {
		if err := oneOf(protocol.Kinds(), k, "there is no kind %s of events", "there are "+joinNames(protocol.Kinds())); err != nil {
			return nil, err
		}
		wanted.Kinds = append(wanted.Kinds, protocol.Kind(k))
	}
	return wanted, nil
}
