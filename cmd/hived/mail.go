package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/hived/hived/agent"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/pause"
	"github.com/hived/hived/protocol"
)

// deliveryJSON is one delivery as `inbox` and `read` print it.
type deliveryJSON struct {
	ID       protocol.MessageID `json:"id"`
	File     string             `json:"file"`
	Path     string             `json:"path"`
	Done     bool               `json:"done"`
	Seq      protocol.Seq       `json:"seq,omitzero"`
	Received time.Time          `json:"received_at,omitzero"`
	Message  jsontext.Value     `json:"message,omitzero"` // as delivered
	Bad      string             `json:"bad,omitzero"`     // why the file is no message
	Over     string             `json:"over,omitzero"`    // why it no longer asks for anything
}

func toJSON(l agent.Delivery) deliveryJSON {
	out := deliveryJSON{ID: l.ID(), File: l.File, Path: l.Path, Done: l.Done, Seq: l.Seq, Received: l.Received, Over: l.Over}
	if l.Bad != nil {
		out.Bad = l.Bad.Error()
	} else {
		out.Message = l.Raw
	}
	return out
}

func (a *app) inboxCommand() *cobra.Command {
	var all bool
	var lost vanishedFlags
	c := &cobra.Command{
		Use:   "inbox",
		Short: "Lists the messages of an inbox in the order of acceptance",
		Long: "Lists the messages of an inbox in the order of acceptance.\n" +
			"With --put-back, --believe or --undelete people settle what becomes of messages that vanished from it.",
		Args: argCount(0, 0),
	}
	lists := a.withBox(func(_ *cobra.Command, _ []string, box *agent.Box) error {
		look := box.Inbox
		if all {
			look = box.InboxAndDone
		}
		list, err := look()
		if err != nil {
			return err
		}
		return a.showInbox(list)
	})
	settles := a.withHive(func(c *cobra.Command, _ []string, disk *durable.Disk) error {
		return a.settleVanished(c.Context(), disk, lost)
	})
	c.RunE = func(c *cobra.Command, args []string) error {
		given := slices.DeleteFunc([]string{"--all", "--put-back", "--believe", "--undelete"}, func(name string) bool { return !c.Flags().Changed(name[2:]) })
		if len(given) > 1 {
			return usageError("%s exclude each other: give only one of them", strings.Join(given, " and "))
		}
		if lost.given(c) {
			return settles(c, args)
		}
		return lists(c, args)
	}
	flags := c.Flags()
	flags.BoolVar(&all, "all", false, "list the handled ones too")
	flags.BoolVar(&lost.putBack, "put-back", false, "deliver again what vanished, unless it is believed to be deleted")
	flags.BoolVar(&lost.believe, "believe", false, "believe that the agent deleted what vanished")
	flags.DurationVar(&lost.undelete, "undelete", 0, "deliver again what the agent deleted within this `duration`")
	lost.timeout = timeoutFlag(c)
	return c
}

func (a *app) showInbox(list []agent.Delivery) error {
	out := make([]deliveryJSON, 0, len(list))
	rows := make([][]string, 0, len(list))
	for _, l := range list {
		out = append(out, toJSON(l))
		state := "unread"
		switch {
		case l.Done:
			state = "done"
		case l.Over != "":
			state = "over"
		}
		row := []string{string(l.ID()), state, timeText(l.Received), "?", "", "not a message: read it and move it away"}
		if m := l.Message; m != nil {
			row = []string{string(l.ID()), state, timeText(l.Received), protocol.Visible(m.From), string(m.Act), protocol.Visible(subject(m))}
		}
		rows = append(rows, row)
	}
	return a.answer(out, func(p *printer) { p.table(rows) })
}

// subject returns the subject, or else the beginning of the body.
func subject(m *protocol.Message) string {
	if m.Subject != "" {
		return protocol.Fit(m.Subject, 80)
	}
	text, _, _ := strings.Cut(m.Text(), "\n")
	return protocol.Fit(text, 80)
}

func (a *app) readCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "read ID",
		Short: "Shows one message; reading consumes nothing",
		Long:  "Shows one message, by its id, its file's name or the beginning of either. Reading consumes nothing:\n`hived done ID` marks it as handled. With --json it prints the delivered message as it stands in the inbox.",
		Args:  argCount(1, 1),
		RunE: a.withBox(func(_ *cobra.Command, args []string, box *agent.Box) error {
			l, err := box.Read(args[0])
			if err != nil {
				return err
			}
			return a.answer(toJSON(l), func(p *printer) { p.delivery(l) })
		}),
	}
}

// delivery prints a message, with nothing in it that a terminal could act on.
func (p *printer) delivery(l agent.Delivery) {
	p.line("file:          %s", protocol.Visible(l.Path))
	m := l.Message
	if m == nil {
		p.line("not a message: %s", protocol.Visible(l.Bad.Error()))
		p.body(string(l.Raw))
		return
	}
	to := make([]string, 0, len(m.To))
	for _, address := range m.To {
		to = append(to, string(address))
	}
	row := func(name, value string) {
		if value != "" {
			p.line("%-15s%s", name+":", protocol.Visible(value))
		}
	}
	row("over", l.Over)
	row("id", string(m.ID))
	row("from", m.From)
	row("to", strings.Join(to, ", "))
	row("act", string(m.Act))
	row("subject", m.Subject)
	row("conversation", string(m.Conversation))
	row("in reply to", string(m.InReplyTo))
	row("received", timeText(l.Received))
	switch {
	case l.Over != "":
	case m.From == string(protocol.Hive): // hive takes commands and no replies
		row("wants", answerCommands(m))
	case m.RequiresReply:
		row("wants", "a reply: hived send --reply-to "+string(m.ID)+" --to "+m.From+" …")
	}
	if !m.ExpiresAt.IsZero() {
		row("expires", timeText(m.ExpiresAt))
	}
	row("event", m.Event)
	row("data", string(m.Data))
	if l.Over != "" { // the body shows commands that would be refused now
		row("body", "left out, because what it asks is over; --json prints it")
		return
	}
	p.body(m.Text())
}

// answerCommands returns the commands that answer the question in a notice, or
// nothing where the notice asks none.
func answerCommands(m *protocol.Message) string {
	var data struct {
		Code protocol.Code
		Task protocol.TaskID
		Ask  protocol.Seq

		Choices []string
	}
	if json.Unmarshal(m.Data, &data, json.MatchCaseInsensitiveNames(true)) != nil || data.Ask == 0 {
		return ""
	}
	id, err := protocol.ParseTaskID(string(data.Task))
	switch {
	case err != nil:
	case data.Code == protocol.CodeApprovalAsked || data.Code == protocol.CodeReminder:
		if len(data.Choices) > 0 {
			return fmt.Sprintf("an answer: hived approve %s --ask %s --choice one of %s, or hived deny %s --ask %s", id, data.Ask, choicesText(data.Choices), id, data.Ask)
		}
		return fmt.Sprintf("an answer: hived approve %s --ask %s, or hived deny %s --ask %s", id, data.Ask, id, data.Ask)
	case data.Code == protocol.CodeSpecify:
		return fmt.Sprintf("an answer: hived task answer %s --ask %s \"…\"", id, data.Ask)
	}
	return ""
}

// body prints a message's body below an empty line.
func (p *printer) body(body string) {
	if body == "" {
		return
	}
	p.line("")
	p.lines("", body)
}

// lines prints the lines of a text, each behind a margin.
func (p *printer) lines(margin, text string) {
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		p.line("%s%s", margin, protocol.Visible(strings.ReplaceAll(line, "\t", "    ")))
	}
}

func (a *app) doneCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "done ID...",
		Short: "Marks messages as handled: moves them to inbox/.done",
		Args:  argCount(1, -1),
		RunE: a.withBox(func(_ *cobra.Command, args []string, box *agent.Box) error {
			var failed []error
			done := make([]deliveryJSON, 0, len(args))
			for _, name := range args {
				l, err := box.Done(name)
				if err != nil {
					failed = append(failed, err)
					continue
				}
				l.Raw = nil
				done = append(done, toJSON(l))
			}
			err := a.answer(done, func(p *printer) {
				for _, l := range done {
					p.line("%s", l.ID)
				}
			})
			return errors.Join(append(failed, err)...)
		}),
	}
}

func (a *app) waitCommand() *cobra.Command {
	var timeout time.Duration
	c := &cobra.Command{
		Use:   "wait",
		Short: "Waits until the inbox holds something that is not over, and lists it",
		Args:  argCount(0, 0),
		RunE: a.withBox(func(c *cobra.Command, _ []string, box *agent.Box) error {
			ctx, cancel := pause.Limit(c.Context(), timeout)
			defer cancel()
			if err := box.Wait(ctx, nil); err != nil {
				return err
			}
			list, err := box.Inbox()
			if err != nil {
				return err
			}
			return a.showInbox(list)
		}),
	}
	timeoutVar(c, &timeout, 0, "give up after this `duration` with exit status 4 (default: never)")
	return c
}
