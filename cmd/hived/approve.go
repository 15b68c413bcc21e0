package main

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/hived/hived/agent"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

func (a *app) approveCommand() *cobra.Command {
	return a.vote("approve", task.ApprovalGranted, "Approves what a task asks, so that it goes on")
}

func (a *app) denyCommand() *cobra.Command {
	return a.vote("deny", task.ApprovalDenied, "Denies what a task asks, which ends it: it has failed")
}

// vote makes the command with which a person answers a task's question.
func (a *app) vote(name string, event protocol.TaskAction, short string) *cobra.Command {
	var ask uint64
	var result string
	c := a.taskVerb(verb{
		on: event, use: name + " ID", args: argCount(1, 1),
		short: short,
		long:  short + ". The command is for people: it refuses where HIVE_AGENT or HIVE_TASK shows that an agent runs it.\nWhere the task has asked more than once, --ask names the question that is answered; without it the open one is shown.",
		flags: func(flags *pflag.FlagSet, report *protocol.TaskReport) {
			flags.StringVar(&report.Comment, "comment", "", "what the holder should know, in a `sentence`")
			askFlag(flags, &ask)
			if event == task.ApprovalGranted {
				flags.StringVar(&report.Choice, "choice", "", "which of the question's choices you `choose`, where it has some")
				flags.StringVar(&result, "result", "", "what came of it, for the holder: `JSON`, or else a text")
			}
		},
		fill: func(x *call) (err error) {
			if result != "" {
				x.report.Result = jsonOrText(result)
			}
			x.report.Ask, err = a.askNumber(x.disk, x.args, protocol.Seq(ask), name, "")
			return err
		},
	})
	run := c.RunE
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := a.refuseAgents(name); err != nil {
			return err
		}
		return run(c, args)
	}
	return c
}

// jsonOrText returns what somebody wrote as JSON: what is none is a text.
func jsonOrText(s string) jsontext.Value {
	if v := jsontext.Value(s); v.IsValid() {
		return v
	}
	text, err := jsontext.AppendQuote(nil, s)
	if err != nil { // invalid UTF-8 is replaced
		text, _ = jsontext.AppendQuote(nil, strings.ToValidUTF8(s, "\ufffd"))
	}
	return text
}

func askFlag(flags *pflag.FlagSet, ask *uint64) {
	flags.Uint64Var(ask, "ask", 0, "the `number` of the question that is answered")
}

// askNumber returns the number of the question that a person answers: the one that
// was given, or the only one that the task has asked in its life. With several, to
// take the newest would let an answer to one question pass for an answer to the
// next; the error shows the newest, with the command that answers it.
func (a *app) askNumber(disk durable.FS, args []string, given protocol.Seq, command, words string) (protocol.Seq, error) {
	if given > 0 {
		return given, nil
	}
	id, err := a.taskArg(disk, args)
	if err != nil {
		return 0, err
	}
	v, err := agent.View(disk, id)
	if errors.Is(err, agent.ErrNoTask) || errors.Is(err, fs.ErrNotExist) {
		return 0, nil // the daemon decides whether there is such a task
	}
	if err != nil {
		return 0, fmt.Errorf("find the question: %w; or give --ask N", err)
	}
	q := v.Question
	switch {
	case q == nil: // the daemon says why there is nothing to answer
		return 0, nil
	case v.Asked == 1:
		return q.Ask, nil
	}
	return 0, exitWith(protocol.ExitRefused, "task %s has asked %d times; if you mean question %s, by %s, %s, run: hived %s %s --ask %s%s",
		id, v.Asked, q.Ask, protocol.Visible(string(v.Holder)), protocol.Quote(q.Question), command, id, q.Ask, words)
}

// refuseAgents returns an error where the environment shows that an agent runs
// the command, which would approve its own question. Agents under the same Unix
// user cannot be stopped from doing it; this stops them from doing it by mistake.
func (a *app) refuseAgents(name string) error {
	for _, v := range []string{"HIVE_AGENT", "HIVE_TASK"} {
		person := v == "HIVE_AGENT" && a.getenv(v) == string(protocol.Human)
		if set := a.getenv(v); set != "" && !person {
			return exitWith(protocol.ExitRefused, "%s is for people, and %s=%s shows that an agent runs it; a person runs it in a shell without HIVE_AGENT and HIVE_TASK", name, v, protocol.Visible(set))
		}
	}
	return nil
}
