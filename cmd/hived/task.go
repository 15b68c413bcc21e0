package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/hived/hived/agent"
	"github.com/hived/hived/hive"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/pause"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
	"github.com/hived/hived/view"
)

func (a *app) taskCommand() *cobra.Command {
	return commandGroup(&cobra.Command{Use: "task", Short: "Work that survives the death of the agent that does it"},
		a.taskCreate(), a.taskList(), a.taskShow(), a.taskClaim(),
		a.taskAccept(),
		a.taskVerb(verb{on: task.Reject, reason: reasonUsage, short: "Declines a task that was offered"}),
		a.taskVerb(verb{on: task.Start, reason: reasonUsage, short: "Begins the work"}),
		a.taskProgress(), a.taskAsk(), a.taskBlock(), a.taskFail(), a.taskComplete(),
		a.taskAnswer(), a.taskAmend(), a.taskGiveUp(), a.taskOutcome(),
		a.taskVerb(verb{on: task.Release, reason: reasonUsage, short: "Gives a task back; its checkpoint is kept", reaches: true}),
		a.taskVerb(verb{on: task.Cancel, reason: reasonUsage, short: "Asks the holder of a task to stop; ends a task that nobody works on"}),
		a.taskVerb(verb{on: task.CancelledEvent, reason: reasonUsage, short: "Confirms, as the holder, that the work has ended"}),
		a.taskIsCancelled(),
		a.taskVerb(verb{on: task.Resume, short: "Makes a new task that goes on from one that has ended", flags: func(flags *pflag.FlagSet, report *protocol.TaskReport) {
			flags.BoolVar(&report.Family, "family", false, "also resume what failed with it: the tasks that it needed, and those that needed it")
		}}),
		a.taskVerb(verb{on: task.Unwind, reason: reasonUsage, short: "Has another task undo the steps of one that has ended"}),
		a.taskDiagram(), a.taskStats(),
	)
}

// taskAnswer is what became of a command about a task.
type taskAnswer struct {
	ID      protocol.TaskID     `json:"id,omitzero"`
	State   protocol.TaskState  `json:"state,omitzero"` // of the task; queued: no daemon has seen the command
	Epoch   uint64              `json:"epoch,omitzero"`
	Attempt int                 `json:"attempt,omitzero"`
	Event   protocol.TaskAction `json:"event"` // what happened; for a refusal, what was asked for
	Seq     protocol.Seq        `json:"seq,omitzero"`
	Message protocol.MessageID  `json:"message"`       // the command
	Code    string              `json:"code,omitzero"` // of a refusal
	Detail  string              `json:"detail,omitzero"`
	Warning string              `json:"warning,omitzero"` // where nobody can take the new task
	Tasks   []createdTask       `json:"tasks,omitzero"`   // for create and resume

	*protocol.TaskNumbers `json:",inline"` // for a claim that finds no task
}

type createdTask struct {
	Name  string          `json:"name,omitzero"`
	ID    protocol.TaskID `json:"id"`
	Title string          `json:"title,omitzero"`
}

// runTaskCommand sends a command about a task, waits until the task's files show
// its effect, and prints the result.
func (a *app) runTaskCommand(ctx context.Context, disk *durable.Disk, t agent.Command) error {
	draft, err := draftTask(disk, t)
	if err != nil {
		return err
	}
	c, err := a.submit(ctx, disk, draft, t.Within)
	if c == nil {
		return err
	}
	waitForViews(ctx, disk, c.Tasks)
	answer := answerOf(t, c)
	if answer.Warning = c.Warning; answer.Warning != "" && !a.json {
		a.note("%s", answer.Warning)
	}
	return errors.Join(err, a.answer(answer, func(p *printer) {
		switch {
		case err != nil:
		case t.Event == task.Accept || t.Event == task.Claim:
			a.note("%s is %s, epoch %d", answer.ID, answer.State, answer.Epoch)
			p.line("export HIVE_TASK=%s", answer.ID)
			p.line("export HIVE_EPOCH=%d", answer.Epoch)
		default:
			showState(p, answer)
		}
	}))
}

// draftTask drafts a command about a task, with the hive's limit on its size.
func draftTask(disk durable.FS, t agent.Command) (agent.Draft, error) {
	d, err := t.Draft(time.Now())
	if err != nil {
		return d, err
	}
	if values, err := hive.Settings(disk); err == nil {
		d.MaxBytes = values.MaxMessageBytes
	}
	return d, nil
}

// makesTasks reports whether the answer to a command names the tasks that it made.
func makesTasks(event task.Event) bool {
	return event == task.Create || event == task.Resume || event == task.Unwind
}

// answerOf summarizes how far a command about a task came. Where the command named
// no task, the answer is about the one that it changed.
func answerOf(t agent.Command, c *view.Command) taskAnswer {
	out := taskAnswer{ID: t.Task, Event: protocol.TaskAction(c.Event), Seq: c.Seq, Message: c.ID, Code: string(c.Code), Detail: c.Detail, TaskNumbers: c.Numbers}
	if c.State == view.Queued {
		out.State = "queued"
	}
	if c.Rejected != nil {
		out.State = c.Rejected.State
	}
	about := t.Task
	if makesTasks(t.Event) {
		for _, e := range c.Created {
			made := createdTask{ID: e.Task}
			if e.Spec != nil {
				made.Name, made.Title = e.Spec.Name, e.Spec.Title
			}
			out.Tasks = append(out.Tasks, made)
		}
	}
	switch {
	case len(out.Tasks) > 0:
		about = out.Tasks[0].ID
	case about == "" && len(c.Tasks) > 0:
		about = c.Tasks[0].Event.Task
	}
	i := slices.IndexFunc(c.Tasks, func(s view.TaskStep) bool { return s.Event.Task == about })
	if i < 0 {
		return out
	}
	e := c.Tasks[i].Event
	out.ID, out.State, out.Epoch, out.Attempt, out.Event, out.Seq = e.Task, e.To, e.Epoch, e.Attempt, e.Event, c.Tasks[i].Seq
	return out
}

// waitForViews waits, at most a second, until the files of tasks show the given
// steps: the log has them first, and the next command must not read an old state.
func waitForViews(ctx context.Context, disk durable.FS, done []view.TaskStep) {
	ctx, cancel := pause.Limit(ctx, time.Second)
	defer cancel()
	for _, s := range done {
		if _, err := agent.WaitView(ctx, disk, s.Event.Task, s.Seq); err != nil {
			return
		}
	}
}

// showState prints the state of a task; for a new task its id, and for several new
// ones also their names or titles.
func showState(p *printer, t taskAnswer) {
	if len(t.Tasks) == 1 {
		p.line("%s", t.ID)
		return
	}
	for _, made := range t.Tasks {
		p.line("%s %s", protocol.Visible(cmp.Or(made.Name, made.Title)), made.ID)
	}
	if len(t.Tasks) > 0 {
		return
	}
	line := fmt.Sprintf("%s is %s", t.ID, t.State)
	switch t.Event {
	case task.Cancel:
		if !task.Ended(t.State) {
			line += " until its holder confirms that it has ended"
		}
	case task.ApprovalVote:
		line += ": more must approve"
	}
	p.line("%s", line)
}

// verb describes a command that reports something about one task.
type verb struct {
	on      protocol.TaskAction
	use     string // usage; empty: the event and ID
	short   string
	long    string
	args    cobra.PositionalArgs // nil: the task, or nothing where HIVE_TASK names it
	reason  string               // usage of --reason; empty: there is no such flag
	reaches bool                 // the report may carry a checkpoint
	flags   func(*pflag.FlagSet, *protocol.TaskReport)
	fill    func(*call) error // fills the report from flags and arguments; may be nil
}

// call is one call of a verb.
type call struct {
	*cobra.Command

	disk    *durable.Disk
	args    []string // the task, if named; fill removes all other arguments
	report  *protocol.TaskReport
	reached *checkpointFlags // nil where the report carries no checkpoint
}

func (a *app) taskVerb(v verb) *cobra.Command {
	var report protocol.TaskReport
	c := &cobra.Command{Use: cmp.Or(v.use, string(v.on)+" ID"), Short: v.short, Long: v.long, Args: v.args, ValidArgsFunction: a.completeTasks}
	if c.Args == nil {
		c.Args = argCount(0, 1)
	}
	if v.reason != "" {
		c.Flags().StringVar(&report.Reason, "reason", "", v.reason)
	}
	var reached *checkpointFlags
	if v.reaches {
		reached = a.checkpointFlags(c, &report)
	}
	if v.flags != nil {
		v.flags(c.Flags(), &report)
	}
	timeout := timeoutFlag(c)
	var epoch uint64
	if agent.NeedsEpoch(v.on) {
		c.Flags().Uint64Var(&epoch, "epoch", 0, "the `number` that accept or claim printed (else HIVE_EPOCH, else that of this agent's only accept or claim)")
	}
	c.RunE = a.withHive(func(c *cobra.Command, args []string, disk *durable.Disk) (err error) {
		x := &call{c, disk, args, &report, reached}
		if v.fill != nil {
			err = v.fill(x)
		}
		if err == nil && v.reaches {
			err = reached.fillReport()
		}
		if err != nil {
			return err
		}
		t := agent.Command{Event: v.on, Within: *timeout}
		if t.Task, err = a.taskArg(disk, x.args); err != nil {
			return err
		}
		if agent.NeedsEpoch(v.on) {
			if t.Epoch, err = a.holderEpoch(disk, epoch, t.Task); err != nil {
				return err
			}
		}
		t.Data = agent.Report(report)
		return a.runTaskCommand(c.Context(), disk, t)
	})
	return c
}

// reasonUsage is the usage of --reason where a command has nothing to add.
const reasonUsage = "why, in a `sentence`"

func (a *app) taskClaim() *cobra.Command {
	c := &cobra.Command{
		Use:               "claim [ID]",
		Short:             "Takes a task; without an ID, the best one that this agent may have",
		Args:              argCount(0, 1),
		ValidArgsFunction: a.completeTasks,
	}
	timeout := timeoutFlag(c)
	var report protocol.TaskReport
	begins := startFlags(c.Flags(), &report)
	c.RunE = a.withHive(func(c *cobra.Command, args []string, disk *durable.Disk) error {
		t := agent.Command{Event: task.Claim, Within: *timeout}
		err := begins()
		if err == nil && len(args) > 0 {
			t.Task, err = resolveTask(disk, args[0])
		}
		if err != nil {
			return err
		}
		t.Data = agent.Report(report)
		return a.runTaskCommand(c.Context(), disk, t)
	})
	return c
}

func (a *app) taskAccept() *cobra.Command {
	var begins func() error
	return a.taskVerb(verb{
		on: task.Accept, reason: reasonUsage, short: "Takes a task that was offered; the first wins",
		flags: func(flags *pflag.FlagSet, report *protocol.TaskReport) { begins = startFlags(flags, report) },
		fill:  func(*call) error { return begins() },
	})
}

// startFlags are the flags of a command that takes a task, to start it at once. The
// function that it returns fills the report from them.
func startFlags(flags *pflag.FlagSet, report *protocol.TaskReport) (fill func() error) {
	var expect time.Duration
	flags.BoolVar(&report.Start, "start", false, "start it at once, instead of with a command of its own")
	flags.DurationVar(&expect, "expect", 0, "with --start: how long this agent may be silent from now on without being missed")
	return func() error {
		switch {
		case expect < 0:
			return usageError("--expect %s: give a duration from now, such as 20m", expect)
		case expect > 0 && !report.Start:
			return usageError("--expect says how long you are silent at work; add --start, which begins it")
		case expect > 0:
			report.For = expect.String()
		}
		return nil
	}
}
