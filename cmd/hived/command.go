package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"github.com/hived/hived/agent"
	"github.com/hived/hived/hive"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/view"
)

// commandData is the `data` of a command about the roster or a thread.
type commandData struct {
	Agent        protocol.AgentID `json:"agent,omitzero"`
	Role         string           `json:"role,omitzero"`
	Caps         []string         `json:"capabilities,omitzero"`
	Slots        int              `json:"slots,omitzero"`
	Conversation string           `json:"conversation,omitzero"`
	Messages     []protocol.Seq   `json:"messages,omitzero"`
}

// command sends a command about the roster or a thread, and prints done when it
// was carried out.
func (a *app) command(ctx context.Context, disk *durable.Disk, event string, data any, timeout time.Duration, done string) error {
	value, err := json.Marshal(data)
	if err != nil {
		return fmt.Errorf("write the command %s: %w", event, err)
	}
	c, err := a.submit(ctx, disk, agent.Draft{Event: event, Data: value}, timeout)
	if c == nil {
		return err
	}
	if c.Agent != nil {
		agent.WaitRoster(ctx, disk, c.Agent)
	}
	return errors.Join(err, a.answer(c, func(p *printer) {
		if err == nil {
			p.line("%s", done)
		}
	}))
}

// submit sends a command to hive and waits for the answer. With a command the
// error says why it was not carried out; without one it was not even sent.
func (a *app) submit(ctx context.Context, disk *durable.Disk, d agent.Draft, timeout time.Duration) (*view.Command, error) {
	box, err := a.box(disk)
	if err != nil {
		return nil, err
	}
	from, err := logPosition(disk)
	_, runs, lockErr := hive.Daemon(disk)
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
	c, f := view.NewCommand(view.Sent{By: box.ID(), ID: sent.ID, File: sent.File, To: d.To}, d.Event)
	if !runs && !byMail {
		lapses := ""
		if !d.ExpiresAt.IsZero() {
			lapses = " before " + timeText(d.ExpiresAt)
		}
		return c, exitWith(protocol.ExitTimedOut, "%s is queued as %s: no daemon runs; it is carried out when one does%s (`hived up`)", d.Event, sent.ID, lapses)
	}
	if byMail {
		err = waitMail(ctx, box, c, timeout)
	} else {
		err = waitFor(ctx, disk, from, timeout, f)
		box.DoneSoon(ctx, c.Answers) // they are printed here, and would be read twice
	}
	if err != nil {
		return c, fmt.Errorf("%s is queued as %s, and the daemon did not answer: %w", d.Event, sent.ID, err)
	}
	return c, refusal(c)
}

// refusal returns the error of a command that was refused, or nil.
func refusal(c *view.Command) error {
	if c.Code == "" {
		return nil
	}
	return exitWith(c.Code.Exit(), "%s was refused: %s: %s", c.Event, c.Code, c.Detail)
}

// commandTimeout is how long a command waits for its answer by default.
const commandTimeout = 10 * time.Second

func timeoutFlag(c *cobra.Command) *time.Duration {
	timeout := new(time.Duration)
	timeoutVar(c, timeout, commandTimeout, "how long to wait for the answer; exit status 4 if none comes")
	return timeout
}

// timeoutVar defines --timeout, which takes no negative duration.
func timeoutVar(c *cobra.Command, timeout *time.Duration, otherwise time.Duration, usage string) {
	*timeout = otherwise
	c.Flags().Var(waitValue{timeout}, "timeout", usage)
}

// waitValue is the value of a flag: a duration of zero or more.
type waitValue struct{ d *time.Duration }

func (v waitValue) Set(text string) error {
	d, err := time.ParseDuration(text)
	if err == nil && d < 0 {
		err = errors.New("a time to wait is not negative")
	}
	if err == nil {
		*v.d = d
	}
	return err
}

// String returns the duration; "0" for none, which help does not show as a default.
func (v waitValue) String() string {
	if v.d == nil || *v.d == 0 {
		return "0"
	}
	return v.d.String()
}

func (waitValue) Type() string { return "duration" }

func (a *app) continueCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "continue [CONVERSATION]",
		Short: "Lets a stopped thread or agent go on; its count starts again at zero",
		Long:  "Lets a stopped thread go on and delivers what was kept of it; with --agent, lets an agent go on whose messages wait because\nit may be in a loop. The count starts again at zero.",
		Args:  argCount(0, 1),
	}
	timeout := timeoutFlag(c)
	id := c.Flags().String("agent", "", "let the agent with this `ID` go on, in all threads")
	c.RunE = a.withHive(func(c *cobra.Command, args []string, disk *durable.Disk) error {
		switch {
		case *id != "" && len(args) > 0:
			return usageError("continue either a conversation or an agent: leave out %s or --agent", protocol.Quote(args[0]))
		case *id != "":
			return a.command(c.Context(), disk, "continue", commandData{Agent: protocol.AgentID(*id)}, *timeout, protocol.Visible(*id)+" goes on")
		case len(args) == 0:
			return usageError("name the conversation that goes on, or --agent ID; `hived status` lists both")
		}
		return a.command(c.Context(), disk, "continue", commandData{Conversation: args[0]}, *timeout, "conversation "+protocol.Visible(args[0])+" goes on")
	})
	return c
}

func (a *app) alertCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "alert CAUSE TEXT",
		Short: "Tells the lead, or a person, what is wrong; the same cause once an hour",
		Long:  "Raises an alert: the lead is told, or a person where there is no lead, and it shows in `hived status` and in the log.\nThe cause is a name of your own, written like an agent's id. Whoever raises it, the same cause is told once in `tasks.alert_every`.",
		Args:  argCount(2, 2),
	}
	timeout := timeoutFlag(c)
	c.RunE = a.withHive(func(c *cobra.Command, args []string, disk *durable.Disk) error {
		data := map[string]string{"cause": args[0], "text": args[1]}
		return a.command(c.Context(), disk, "alert", data, *timeout, "the alert is raised")
	})
	return c
}

func (a *app) gitCommand() *cobra.Command {
	sub := func(name, event, short, done string) *cobra.Command {
		c := &cobra.Command{Use: name, Short: short, Args: argCount(0, 0)}
		timeout := timeoutFlag(c)
		c.RunE = a.withHive(func(c *cobra.Command, _ []string, disk *durable.Disk) error {
			return a.command(c.Context(), disk, event, commandData{}, *timeout, done)
		})
		return c
	}
	return commandGroup(&cobra.Command{Use: "git", Short: "Pauses hived's commits for a person, and resumes them"},
		sub("pause", "git-pause", "Stops commits until `hived git resume`", "git is paused: the repository is yours until `hived git resume`"),
		sub("resume", "git-resume", "Commits again, beginning with what has waited", "git goes on"),
	)
}
