package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/hived/hived/agent"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
	"github.com/hived/hived/worker/adapter"
	"github.com/hived/hived/worker/classify"
)

// errAsked says that a person is asked before anything of a task runs.
var errAsked = errors.New("a person is asked")

// choiceRun is the answer that lets a shell command run whose author is not trusted.
const choiceRun = "run"

// mayRun asks a person, before the agent begins, about shell commands in the task that
// somebody wrote whom the hive does not trust: its gate, and, where agents have users of
// their own, a body that is run as a shell command.
func (x *execution) mayRun(ctx context.Context) error {
	for _, c := range x.foreign() {
		trusted, err := c.Trusted(x.Disk, x.Box.ID(), x.trust)
		if err != nil {
			return err
		}
		if !trusted && !x.allowed(c.Command) {
			return x.askToRun(ctx, c)
		}
	}
	return nil
}

// foreign returns the shell commands that the task brings along.
func (x *execution) foreign() (list []agent.Gate) {
	if g, err := agent.GateOf(x.Disk, x.Box.ID(), x.task); err == nil && g != nil {
		list = append(list, *g)
	}
	if x.Users && x.t.View.Unwinds == "" && slices.ContainsFunc(x.config.Adapter.Run, func(arg string) bool { return strings.Contains(arg, "{"+adapter.VarBody+"}") }) {
		list = append(list, agent.Gate{Command: x.variables()[adapter.VarBody], Author: agent.BodyAuthor(x.Disk, &x.t.Brief)})
	}
	return list
}

func (x *execution) trust(durable.FS) ([]protocol.AgentID, error) { return x.Settings.Work.Trust, nil }

// allowed reports whether a person has let a command run for this task: exactly this text.
func (x *execution) allowed(command string) bool {
	return slices.ContainsFunc(x.t.Answers, func(q protocol.Question) bool {
		return strings.Contains(q.Question, protocol.GateSum(command)) && len(q.Answers) > 0 && q.Answers[len(q.Answers)-1].Choice == choiceRun
	})
}

// commandShown is how much of a command a question shows, in characters.
const commandShown = 1000

func (x *execution) askToRun(ctx context.Context, c agent.Gate) error {
	who := "somebody unknown"
	if c.Author != "" {
		who = string(c.Author)
	}
	question := fmt.Sprintf("The task has a shell command by %s, whom this hive does not trust, and %s would run it: `%s` (SHA-256 %s). May it run? A denial fails the task.",
		who, x.Box.ID(), protocol.Visible(protocol.Fit(c.Command, commandShown)), protocol.GateSum(c.Command))
	a, err := x.mail.ask(context.WithoutCancel(ctx), agent.Command{
		Event: task.PauseForApproval, Task: x.task, Epoch: x.epoch, Data: agent.Report{Question: question, Choices: []string{choiceRun}},
	}, readWithin)
	if err != nil {
		return err
	}
	x.log.InfoContext(ctx, "a person is asked whether a command may run", slog.String("author", who), slog.String("code", string(a.Code)))
	x.through = a.Of
	return errAsked
}

// gateTimeout is how long a gate may run.
const gateTimeout = 10 * time.Minute

// pass runs the adapter's gate and that of the task, and judges the execution, which is
// completed but for them.
func (x *execution) pass(ctx context.Context) classify.Verdict {
	if gate := x.config.Adapter.Gate; len(gate) > 0 {
		if r, ok := x.command(ctx, gate, "gate"); !ok {
			if r.Stopped {
				return x.stopped(context.Cause(ctx))
			}
			x.seen.Gate, x.tail = classify.GateFailed, r.tail
			return classify.Classify(x.seen)
		}
	}
	v, err := agent.View(x.Disk, x.task)
	if err != nil || v.State != task.InProgress { // the agent said itself what becomes of the task
		return classify.Classify(x.seen)
	}
	gate, err := agent.GateOf(x.Disk, x.Box.ID(), x.task)
	if err != nil || gate == nil {
		return classify.Classify(x.seen)
	}
	if trusted, err := gate.Trusted(x.Disk, x.Box.ID(), x.trust); err != nil || !trusted && !x.allowed(gate.Command) {
		x.seen.Gate, x.tail = classify.GateFailed, "the gate was changed while the agent worked, by somebody whom this hive does not trust"
		return classify.Classify(x.seen)
	}
	p := x.prepared(nil, gateTimeout)
	p.Args, p.Dir, p.Timeout = []string{"sh", "-c", gate.Command}, x.config.Dir, gateTimeout
	r := x.do(ctx, p, ".gate")
	if r.Stopped { // the gate did not come to its end
		return x.stopped(context.Cause(ctx))
	}
	exit := r.Exit
	if r.Signal != "" || r.TimedOut || exit < 0 {
		exit = 128
	}
	x.gate = &protocol.GateResult{Exit: &exit, SHA256: protocol.GateSum(gate.Command)}
	if x.seen.Gate = classify.GatePassed; exit != 0 {
		x.seen.Gate = classify.GateFailed
		x.tail = protocol.Fit(fmt.Sprintf("the gate `%s` ended with exit status %d:\n%s", gate.Command, exit, r.tail), protocol.TailMost)
	}
	return classify.Classify(x.seen)
}
