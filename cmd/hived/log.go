package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/hived/hived/eventlog"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
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
		Long:  "Prints the event log, one event a line; with --json the lines as they stand in the log.\nA reader that keeps its place gives --after SEQ:SUM: a log that is not the one it read before is said to be so.",
		Args:  takes(0, 0),
		RunE: a.withHive(func(c *cobra.Command, _ []string, disk *durable.Disk) error {
			return a.log(c.Context(), disk, f)
		}),
	}
	flags := c.Flags()
	flags.StringVar(&f.after, "after", "", "begin after this `SEQ or SEQ:SUM`")
	flags.Uint64Var(&f.until, "until", 0, "end with this `seq`")
	flags.BoolVarP(&f.follow, "follow", "f", false, "go on with what is appended, and print only what no power cut takes back")
	flags.StringSliceVar(&f.kinds, "kind", nil, "only events of this `kind`")
	flags.StringVar(&f.of, "of", "", "only events that this `agent` takes part in")
	flags.StringVar(&f.conversation, "conversation", "", "only events of this conversation's `id`")
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
	if err := knownAgent(disk, f.of); err != nil {
		return err
	}
	records := eventlog.Read(disk, after)
	if f.follow {
		records = eventlog.Follow(ctx, disk, after, nil, followPoll)
	}
	for rec, err := range records {
		if ctx.Err() != nil {
			return nil // whoever follows ends it
		}
		if err != nil {
			return err
		}
		if f.until > 0 && rec.Event.Seq > protocol.Seq(f.until) {
			return nil
		}
		if wanted.fits(rec.Event) {
			a.logLine(rec)
		}
		if a.out.err != nil || f.until > 0 && rec.Event.Seq == protocol.Seq(f.until) {
			return nil
		}
	}
	return wanted.missed(f)
}

// missed tells of a conversation that the whole log does not have.
func (f *filter) missed(said logFlags) error {
	if f.conversation == "" || f.seen || said.after != "" {
		return nil
	}
	return exitWith(exitNotFound, "the log has no conversation %s; `hived log --kind message --json` names them", protocol.Quote(said.conversation))
}

// knownAgent refuses the name of nobody, where the roster can be read.
func knownAgent(disk durable.FS, name string) error {
	if id, err := protocol.ParseAgentID(name); name == "" || err == nil && id.Reserved() {
		return nil
	}
	if _, err := find(disk, name); exitStatus(err) == exitNotFound {
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

// eventLine writes an event for people.
func (a *app) eventLine(ev protocol.Event) string {
	kind := ev.Body.Kind()
	return fmt.Sprintf("%6d  %s  %s  %s", ev.Seq, a.style.paint(dim, clock(ev.TS)), a.style.paint(kindColour(kind), fmt.Sprintf("%-10s", kind)), protocol.Summary(ev))
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

// filter knows which events are wanted.
type filter struct {
	kinds        []string
	of           protocol.AgentID
	conversation protocol.ConversationID
	members      map[protocol.Seq]bool // messages of the conversation
	seen         bool                  // the conversation
}

func newFilter(f logFlags) (*filter, error) {
	known := make([]string, 0, len(protocol.Kinds()))
	for _, k := range protocol.Kinds() {
		known = append(known, string(k))
	}
	for _, k := range f.kinds {
		if !slices.Contains(known, k) {
			return nil, usageError("there is no kind %s of events%s", protocol.Quote(k), didYouMean(k, known, "there are "+list(known)))
		}
	}
	return &filter{
		kinds: f.kinds, of: protocol.AgentID(f.of), conversation: protocol.ConversationID(f.conversation),
		members: map[protocol.Seq]bool{},
	}, nil
}

// fits must see the events in order: what became of a message belongs to its
// conversation.
func (f *filter) fits(ev protocol.Event) bool {
	p := protocol.Handle[part](ev, parts{})
	inThread := f.conversation == "" || p.conversation == f.conversation || f.members[p.of]
	f.seen = f.seen || inThread
	if kind := ev.Body.Kind(); f.conversation != "" && inThread && (kind == protocol.KindMessage || kind == protocol.KindDelivered) {
		f.members[ev.Seq] = true
	}
	return inThread &&
		(len(f.kinds) == 0 || slices.Contains(f.kinds, string(ev.Body.Kind()))) &&
		(f.of == "" || slices.Contains(p.agents, f.of))
}

// part is whom and what an event concerns.
type part struct {
	agents       []protocol.AgentID
	conversation protocol.ConversationID
	of           protocol.Seq
}

// parts has it for each kind of event.
type parts struct{}

func (parts) OnHive(_ protocol.Event, e *protocol.HiveEvent) part {
	return part{[]protocol.AgentID{e.By, e.Agent}, e.Conversation, e.Of}
}

func (parts) OnAgent(_ protocol.Event, e *protocol.AgentEvent) part {
	return part{[]protocol.AgentID{e.Agent, e.By}, "", e.Of}
}

func (parts) OnMessage(_ protocol.Event, e *protocol.MessageEvent) part {
	who := append(append([]protocol.AgentID{e.From}, e.Delivered...), agents(e.To)...)
	if e.Kept != nil {
		who = append(who, e.Kept.To...)
	}
	return part{who, e.Conversation, 0}
}

func (parts) OnDrop(_ protocol.Event, e *protocol.DropEvent) part {
	return part{append(agents(e.To), e.From), e.Conversation, e.Of}
}

func (parts) OnQuarantine(_ protocol.Event, e *protocol.QuarantineEvent) part {
	return part{[]protocol.AgentID{e.Agent}, "", 0}
}

func (parts) OnDuplicate(_ protocol.Event, e *protocol.DuplicateEvent) part {
	return part{[]protocol.AgentID{e.Agent}, "", e.Of}
}

func (parts) OnHandled(_ protocol.Event, e *protocol.HandledEvent) part {
	return part{[]protocol.AgentID{e.Agent}, "", e.Of}
}

func (parts) OnDelivered(_ protocol.Event, e *protocol.DeliveredEvent) part {
	return part{append([]protocol.AgentID{e.From}, e.To...), e.Conversation, e.Of}
}

func (parts) OnFile(_ protocol.Event, e *protocol.FileEvent) part {
	return part{[]protocol.AgentID{e.By}, "", 0}
}

func (parts) OnTask(_ protocol.Event, e *protocol.TaskEvent) part {
	return part{append([]protocol.AgentID{e.By}, e.Agents...), protocol.TaskConversation(e.Task), e.Of}
}

func (parts) OnTaskRejected(_ protocol.Event, e *protocol.TaskRejectedEvent) part {
	return part{[]protocol.AgentID{e.By}, protocol.TaskConversation(protocol.TaskID(e.Task)), e.Of}
}

func (parts) OnAlert(_ protocol.Event, e *protocol.AlertEvent) part {
	return part{[]protocol.AgentID{e.Agent}, "", 0}
}

func agents(to []protocol.Address) []protocol.AgentID {
	out := make([]protocol.AgentID, 0, len(to))
	for _, address := range to {
		out = append(out, protocol.AgentID(address))
	}
	return out
}

// errStop ends reading the log early.
var errStop = errors.New("enough")

// eachEvent calls do for the events of the log until it gives an error;
// errStop ends the reading without one.
func eachEvent(disk durable.FS, do func(protocol.Event) error) error {
	for rec, err := range eventlog.Read(disk, eventlog.Position{}) {
		if err == nil {
			err = do(rec.Event)
		}
		if errors.Is(err, errStop) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}
