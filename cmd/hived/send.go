package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/hived/hived/agent"
	"github.com/hived/hived/hive"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/view"
)

// maxBody is the largest text that --body reads, which is the largest message
// that settings can allow.
const maxBody = 16 << 20

type sendFlags struct {
	to                        []string
	act, subject, body        string
	replyTo, conversation, id string
	needsHuman                bool
	expires, timeout          time.Duration
	wait                      string
}

func (a *app) sendCommand() *cobra.Command {
	var f sendFlags
	c := &cobra.Command{
		Use:   "send --to ID[,ID]",
		Short: "Sends one message and prints its id",
		Long: "Writes one message into the outbox and prints its id. The daemon need not run: the message waits for it.\n" +
			"With --wait it follows the log until the message is accepted, handled by all who got it, or answered;\n" +
			"exit status 5 means that it was refused or dropped, and the error says why; 4 that the wait timed out.",
		Example: "  hived send --to bob --act request --subject \"build it\" --body @plan.md\n  make 2>&1 | hived send --to human --act failure --subject make --body -",
		Args:    argCount(0, 0),
		RunE: a.withHive(func(c *cobra.Command, _ []string, disk *durable.Disk) error {
			return a.send(c.Context(), disk, f)
		}),
	}
	flags := c.Flags()
	flags.StringSliceVar(&f.to, "to", nil, "agent ids, @role, broadcast, lead, human or hive")
	flags.StringVar(&f.act, "act", "", "request, inform, propose, query, agree, refuse, done, failure, cancel or not-understood (default inform)")
	flags.StringVar(&f.subject, "subject", "", "one line")
	flags.StringVar(&f.body, "body", "", "`TEXT`, - for standard input, or @FILE")
	flags.StringVar(&f.replyTo, "reply-to", "", "`id` of the message that this one answers")
	flags.StringVar(&f.conversation, "conversation", "", "the thread's `id`")
	flags.StringVar(&f.id, "id", "", "an `id` of your own: sending it again is harmless")
	flags.BoolVar(&f.needsHuman, "needs-human", false, "send human a copy")
	flags.DurationVar(&f.expires, "expires", 0, "drop it if it is accepted later than this `duration` from now")
	flags.StringVar(&f.wait, "wait", "", "wait for this `stage`: accepted, handled or reply")
	timeoutVar(c, &f.timeout, time.Minute, "how long to wait; 0 is for ever")
	return c
}

func (a *app) send(ctx context.Context, disk *durable.Disk, f sendFlags) error {
	until, err := parseStage(f.wait)
	if err != nil {
		return err
	}
	if len(f.to) == 0 {
		return usageError("send needs a recipient: --to ID, @role, broadcast, lead or human")
	}
	if f.expires < 0 {
		return usageError("--expires %s: that is in the past; give a duration from now, such as 1h", f.expires)
	}
	if until == view.Replied && !slices.ContainsFunc(f.to, func(to string) bool { return strings.TrimSpace(to) != string(protocol.Hive) }) {
		return usageError("--wait reply: hive answers commands only, which `hived agent`, `hived continue` and `hived git` send")
	}
	box, err := a.box(disk)
	if err != nil {
		return err
	}
	draft, err := a.draft(f, time.Now())
	if err != nil {
		return err
	}
	if values, err := hive.Settings(disk); err == nil {
		draft.MaxBytes = values.MaxMessageBytes
	}
	return a.post(ctx, disk, box, draft, until, f.timeout)
}

func (a *app) draft(f sendFlags, now time.Time) (agent.Draft, error) {
	text, err := a.readText(f.body)
	if err != nil {
		return agent.Draft{}, err
	}
	d := agent.Draft{
		ID: protocol.MessageID(f.id), Conversation: protocol.ConversationID(f.conversation), InReplyTo: protocol.MessageID(f.replyTo),
		Act: protocol.Act(f.act), Subject: f.subject, NeedsHuman: f.needsHuman,
	}
	for _, to := range f.to {
		d.To = append(d.To, protocol.Address(strings.TrimSpace(to)))
	}
	if text != "" {
		d.Body = agent.Text(text)
	}
	if f.expires > 0 {
		d.ExpiresAt = now.Add(f.expires).UTC()
	}
	return d, nil
}

// readText returns the text of a flag: the flag itself, standard input for -, or
// the content of @FILE.
func (a *app) readText(given string) (string, error) {
	var from io.Reader
	name, isFile := strings.CutPrefix(given, "@")
	switch {
	case given == "-":
		from, name = a.stdin, "standard input"
	case isFile:
		f, err := os.Open(name) //nolint:gosec // the person named the file
		if err != nil {
			return "", exitWith(protocol.ExitNotFound, "read the file: %w", err)
		}
		defer f.Close() //nolint:errcheck // nothing was written
		from = f
	default:
		return given, nil
	}
	data, err := io.ReadAll(io.LimitReader(from, maxBody+1))
	switch {
	case err != nil:
		return "", fmt.Errorf("read %s: %w", name, err)
	case len(data) > maxBody:
		return "", usageError("read %s: it is larger than %d bytes; put it into a file and send its name", name, maxBody)
	case !utf8.Valid(data):
		return "", usageError("read %s: it is not valid UTF-8; put it into a file and send its name", name)
	}
	return string(data), nil
}

// post sends a message, waits until it has come as far as until, and prints what
// became of it.
func (a *app) post(ctx context.Context, disk *durable.Disk, box *agent.Box, d agent.Draft, until view.State, timeout time.Duration) error {
	from, err := logPosition(disk)
	_, runs, lockErr := hive.Daemon(disk)
	err = cmp.Or(err, lockErr)
	if errors.Is(err, fs.ErrPermission) {
		if until != view.Queued {
			return fmt.Errorf("wait for the message: %w; only the owner of this hive may read the log: leave out --wait, and read in the inbox what becomes of it", err)
		}
		runs, err = true, nil // an agent that may not look is not told whether one runs
	}
	if err != nil {
		return err
	}
	sent, err := box.Send(d)
	if err != nil {
		return err
	}
	m, f := view.NewMessage(view.Sent{By: box.ID(), ID: sent.ID, File: sent.File, To: d.To}, until)
	if !a.json {
		a.out.line("%s", sent.ID) // at once, so that whoever waits knows what it waits for
	}
	if !runs {
		a.note("no daemon runs: the message is queued until one does (`hived up`)")
	}
	if until == view.Queued {
		return a.answer(m, func(*printer) {})
	}
	err = waitFor(ctx, disk, from, timeout, f)
	explain(m)
	if err == nil {
		err = notDelivered(m)
	} else {
		err = fmt.Errorf("wait until %s is %s: it is %s: %w", sent.ID, stageWord(until), m.State, err)
	}
	return errors.Join(err, a.answer(m, func(p *printer) { p.message(m, until) }))
}
