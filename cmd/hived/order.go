package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"github.com/hived/hived/agent"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

// order is a command to `hive`: what it asks for and how it went (spec §8).
type order struct {
	Event  string             `json:"event"`
	ID     protocol.MessageID `json:"id"`
	State  string             `json:"state"`         // queued, done, refused
	Seq    protocol.Seq       `json:"seq,omitzero"`  // the event that answers it
	Code   string             `json:"code,omitzero"` // of a refusal
	Detail string             `json:"detail,omitzero"`

	file     string
	by       protocol.AgentID
	of       protocol.Seq // the event that accepted the command
	did      *protocol.AgentEvent
	tasks    []taskStep            // what it did: the last event of each task
	created  []*protocol.TaskEvent // tasks that it made
	rejected *protocol.TaskRejectedEvent
	answers  []string // files in the inbox with what hive answered
	warning  string   // what hive says of it although it was carried out
}

// orderData is the `data` of a command about the roster or a thread.
type orderData struct {
	Agent        protocol.AgentID `json:"agent,omitzero"`
	Role         string           `json:"role,omitzero"`
	Caps         []string         `json:"capabilities,omitzero"`
	Slots        int              `json:"slots,omitzero"`
	Conversation string           `json:"conversation,omitzero"`
	Messages     []protocol.Seq   `json:"messages,omitzero"`
}

// command gives a command about the roster or a thread, and prints done when it
// was carried out.
func (a *app) command(ctx context.Context, disk *durable.Disk, event string, data orderData, timeout time.Duration, done string) error {
	value, err := json.Marshal(data)
	if err != nil {
		return fmt.Errorf("write the command %s: %w", event, err)
	}
	o, err := a.give(ctx, disk, agent.Draft{Event: event, Data: value}, timeout)
	if o == nil {
		return err
	}
	if o.did != nil {
		showing(ctx, disk, o.did)
	}
	return errors.Join(err, a.answer(o, func(p *printer) {
		if err == nil {
			p.line("%s", done)
		}
	}))
}

// give sends a command to hive and waits for what answers it. With an order the
// error says why it was not carried out; without one it was not even sent.
func (a *app) give(ctx context.Context, disk *durable.Disk, d agent.Draft, timeout time.Duration) (*order, error) {
	box, err := a.box(disk)
	if err != nil {
		return nil, err
	}
	from, err := here(disk)
	_, runs, lockErr := daemon(disk)
	err = cmp.Or(err, lockErr)
	byMail := errors.Is(err, fs.ErrPermission)
	if err != nil && !byMail {
		return nil, err
	}
	d.To, d.Act, d.Subject, d.RequiresReply = []protocol.Address{protocol.Address(protocol.Hive)}, protocol.Request, d.Event, &byMail
	sent, err := box.Send(d)
	if err != nil {
		return nil, err
	}
	o := &order{Event: d.Event, ID: sent.ID, State: "queued", file: sent.File, by: box.ID()}
	if !runs && !byMail {
		lapses := ""
		if !d.ExpiresAt.IsZero() {
			lapses = " before " + clock(d.ExpiresAt)
		}
		return o, exitWith(exitTimedOut, "%s is queued as %s: no daemon runs; it is carried out when one does%s (`hived up`)", d.Event, sent.ID, lapses)
	}
	if byMail {
		err = o.waitMail(ctx, box, timeout)
	} else {
		err = waitFor(ctx, disk, from, timeout, o)
		o.handle(ctx, box)
	}
	if err != nil {
		return o, fmt.Errorf("%s is queued as %s, and the daemon did not answer: %w", d.Event, sent.ID, err)
	}
	return o, o.refusal()
}

// refusal is the error of a command that was not carried out.
func (o *order) refusal() error {
	if o.Code == "" {
		return nil
	}
	status := exitRefused
	if o.Code == string(protocol.CodeUnknownTask) {
		status = exitNotFound
	}
	return exitWith(status, "%s was refused: %s: %s", o.Event, o.Code, o.Detail)
}

// See takes the next event and tells whether the command is answered, with all
// that was decided on it.
func (o *order) See(ev protocol.Event) bool {
	switch e := ev.Body.(type) {
	case *protocol.QuarantineEvent:
		if e.Agent == o.by && e.Original != nil && e.Original.Name == o.file {
			o.refuse(ev.Seq, string(e.Code), e.Detail)
		}
	case *protocol.DropEvent:
		if o.causes(e.Of) {
			o.refuse(ev.Seq, string(e.Reason), e.Detail)
		}
	case *protocol.AgentEvent:
		if o.carriedOut(ev.Seq, e.Of) {
			o.did = e
		}
	case *protocol.HiveEvent:
		o.carriedOut(ev.Seq, e.Of)
	case *protocol.TaskEvent:
		if o.carriedOut(ev.Seq, e.Of) {
			o.step(taskStep{ev.Seq, e})
		}
	case *protocol.TaskRejectedEvent:
		if o.causes(e.Of) {
			o.refuse(ev.Seq, string(e.Code), e.Detail)
			o.rejected = e
		}
	case *protocol.MessageEvent:
		o.seeMessage(ev.Seq, e)
	}
	return o.State != "queued" && !ev.More
}

// seeMessage knows the command itself, and what hive says of it before anything
// else does.
func (o *order) seeMessage(seq protocol.Seq, e *protocol.MessageEvent) {
	if e.From == o.by && e.Original != nil && e.Original.Name == o.file {
		o.of = seq
		return
	}
	if o.of == 0 || e.From != protocol.Hive || e.InReplyTo != o.ID {
		return
	}
	m, err := protocol.DecodeMessage([]byte(e.Raw))
	if err != nil {
		return
	}
	code := noticeCode(m)
	warns := code == string(protocol.CodeNobodyEligible)
	switch {
	case warns:
		o.warning = m.Text()
	case o.State == "queued":
		o.told(seq, m)
	}
	if (warns || code == string(protocol.CodeOK) || code == o.Code) && slices.Contains(e.Delivered, o.by) {
		o.answers = append(o.answers, e.File)
	}
}

// handle marks what hive answered as handled: it is printed, and would be read
// twice.
func (o *order) handle(ctx context.Context, box *agent.Box) {
	ctx, cancel := limit(ctx, time.Second)
	defer cancel()
	tick := time.NewTicker(followPoll)
	defer tick.Stop()
	for len(o.answers) > 0 {
		if _, err := box.Done(o.answers[0]); !errors.Is(err, agent.ErrNotFound) {
			o.answers = o.answers[1:]
			continue
		}
		select { // the log has it before the inbox
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// showing waits until the roster shows what was done: the log has it first, and
// who looks next must not find the roster of before. Where another command is
// quicker it is never seen there, and that is no fault of this one.
func showing(ctx context.Context, disk durable.FS, did *protocol.AgentEvent) {
	ctx, cancel := limit(ctx, time.Second)
	defer cancel()
	tick := time.NewTicker(followPoll)
	defer tick.Stop()
	for {
		list, err := roster(disk)
		if err != nil || slices.ContainsFunc(list, func(m member) bool { return m.shows(did) }) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// shows tells whether a line of the roster has what an event says.
func (m member) shows(e *protocol.AgentEvent) bool {
	switch e.Action {
	case protocol.Joined, protocol.Changed:
		return m.ID == e.Agent && m.Joined != "" && m.Role == e.Role && m.Slots == e.Slots && slices.Equal(m.Caps, e.Caps)
	case protocol.Held:
		return m.ID == e.Agent && m.Status == "held"
	case protocol.Archived:
		return m.ID == e.Agent && m.Status == "archived"
	case protocol.Released, protocol.Restored:
		return m.ID == e.Agent && m.Status == "active"
	case protocol.LeadSet:
		return m.Lead == (m.ID == e.Agent) && (m.Lead || e.Agent == "")
	case protocol.InboxMissing, protocol.InboxBelieved, protocol.InboxPutBack, protocol.InboxUndeleted:
		return true // it does not show them
	}
	return true
}

// causes tells whether an event with that `of` came of the command.
func (o *order) causes(of protocol.Seq) bool { return o.of > 0 && of == o.of }

// carriedOut takes an event with that `of`, and tells whether it came of the
// command.
func (o *order) carriedOut(seq, of protocol.Seq) bool {
	if !o.causes(of) {
		return false
	}
	o.State, o.Seq = "done", seq
	return true
}

// taskStep is what a command did to a task.
type taskStep struct {
	seq   protocol.Seq
	event *protocol.TaskEvent
}

// step keeps the last event of each task, and the tasks in the order in which
// they came up.
func (o *order) step(s taskStep) {
	if s.event.Event == task.Create {
		o.created = append(o.created, s.event)
	}
	for i, before := range o.tasks {
		if before.event.Task == s.event.Task {
			o.tasks[i] = s
			return
		}
	}
	o.tasks = append(o.tasks, s)
}

func (o *order) refuse(seq protocol.Seq, code, detail string) {
	o.State, o.Seq, o.Code, o.Detail = "refused", seq, code, detail
}

// told takes what hive says of the command.
func (o *order) told(seq protocol.Seq, m *protocol.Message) {
	if code := noticeCode(m); code != string(protocol.CodeOK) {
		o.refuse(seq, code, m.Text())
	}
}

// orderTimeout is how long a command waits for its answer by default.
const orderTimeout = 10 * time.Second

func timeoutFlag(c *cobra.Command) *time.Duration {
	return c.Flags().Duration("timeout", orderTimeout, "wait so long for the answer; exit status 4 when none came")
}

func (a *app) continueCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "continue [CONVERSATION]",
		Short: "Lets a stopped thread, or agent, go on: its count begins at zero",
		Long:  "Lets a thread go on that was stopped, and has delivered what was kept of it; with --agent an agent whose messages wait because it may be in a loop. The count begins at zero.",
		Args:  takes(0, 1),
	}
	timeout := timeoutFlag(c)
	id := c.Flags().String("agent", "", "let this `ID` go on, whatever the thread")
	c.RunE = a.withHive(func(c *cobra.Command, args []string, disk *durable.Disk) error {
		switch {
		case *id != "" && len(args) > 0:
			return usageError("continue either a conversation or an agent: leave out %s or --agent", protocol.Quote(args[0]))
		case *id != "":
			return a.command(c.Context(), disk, "continue", orderData{Agent: protocol.AgentID(*id)}, *timeout, protocol.Visible(*id)+" goes on")
		case len(args) == 0:
			return usageError("say which conversation goes on, or --agent ID; `hived status` lists both")
		}
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

// noticeCode is the `data.code` of what hive says (spec §4.6).
func noticeCode(m *protocol.Message) string {
	var data struct {
		Code string `json:"code"`
	}
	if json.Unmarshal(m.Data, &data) != nil {
		return ""
	}
	return data.Code
}
