package agent

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hived/hived/hive"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/durable/faultfs"
	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/internal/wait"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/router"
	"github.com/hived/hived/task"
)

// withHive runs a story in a hive with the agent bob and a running daemon, on a
// disk in memory and in a bubble where hours pass at once.
func withHive(t *testing.T, tell func(s *story)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		disk := faultfs.New()
		disk.SetClock(time.Now)
		settings := protocol.DefaultSettings()
		settings.Git.CommitDelay = time.Minute
		testenv.Must(t, disk.MkdirAll(protocol.OutboxDir("bob"), 0o755))
		testenv.Must(t, hive.Init(disk, hive.Options{Settings: settings, Template: []byte("# settings\n"), Now: time.Now()}))
		r, err := router.New(disk, router.Config{Settings: settings})
		testenv.Must(t, err)
		ctx, stop := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- r.Run(ctx) }()
		defer func() {
			stop()
			if err := wait.Ended(wait.Longest, "the daemon to stop", ended); err != nil {
				t.Errorf("the daemon ended with %v", err)
			}
		}()
		tell(&story{t: t, disk: disk})
	})
}

// tool does one task from its claim to its result, with this package and, of the
// rest of the module, only types.
func tool(ctx context.Context, disk durable.FS, who protocol.AgentID, work func(brief *task.Brief) string) error {
	box, err := Open(disk, who)
	if err != nil {
		return err
	}
	claimed, err := carryOut(ctx, box, Command{Event: task.Claim})
	if err != nil {
		return err
	}
	if _, err = carryOut(ctx, box, Command{Event: task.Start, Task: claimed.Task, Epoch: claimed.Epoch}); err != nil {
		return err
	}
	brief, err := Brief(disk, claimed.Task)
	if err != nil {
		return err
	}
	_, err = carryOut(ctx, box, Command{Event: task.Complete, Task: claimed.Task, Epoch: claimed.Epoch, Data: Report{Result: Text(work(brief))}})
	return err
}

// carryOut sends a command and waits for the answer; a refusal is an error.
func carryOut(ctx context.Context, box *Box, c Command) (Answer, error) {
	draft, err := c.Draft(time.Now())
	if err != nil {
		return Answer{}, err
	}
	sent, err := box.Send(draft)
	if err != nil {
		return Answer{}, err
	}
	answer, err := box.Answer(ctx, sent.ID)
	if err == nil && answer.Code != protocol.CodeOK {
		err = fmt.Errorf("%s was refused: %s: %s", c.Event, answer.Code, answer.Text)
	}
	return answer, err
}

func TestToolOfThirtyLines(t *testing.T) {
	t.Parallel()
	withHive(t, func(s *story) {
		s.does("human", Command{Event: task.Create, Data: NewTask{Title: "mend it", Body: "the roof"}})
		testenv.Must(s.t, tool(s.t.Context(), s.disk, "bob", func(b *task.Brief) string { return b.Body + " is mended" }))
		s.until(task.Completed)
		whole, err := ReadTask(s.disk, s.task)
		if err != nil || string(whole.Result) != `"the roof is mended"` || len(whole.Problems) > 0 {
			s.t.Errorf("%+v, %v", whole, err)
		}
		if err := tool(s.t.Context(), s.disk, "bob", nil); err == nil || !strings.HasPrefix(err.Error(), "claim was refused: no-task: ") {
			s.t.Errorf("without a task: %v", err)
		}
		box, err := Open(s.disk, "bob")
		testenv.Must(s.t, err)
		s.task, s.epoch = "", 0
		s.does("human", Command{Event: task.Create, Data: NewTask{Title: "for people", To: []protocol.Address{"human"}}})
		a, err := carryOut(s.t.Context(), box, Command{Event: task.Claim})
		if want := (protocol.TaskNumbers{Open: 1, NotForYou: 1}); err == nil || a.Numbers == nil || *a.Numbers != want {
			s.t.Errorf("the numbers are %+v, %v; want %+v", a.Numbers, err, want)
		}
	})
}

// story acts on one task.
type story struct {
	t     *testing.T
	disk  durable.FS
	task  protocol.TaskID
	epoch uint64 // of its holder, by hive's last answer
}

// does sends a command about the task, and fails the test unless it is carried out.
func (s *story) does(who protocol.AgentID, c Command) {
	s.t.Helper()
	c.Task = s.task
	if NeedsEpoch(c.Event) || c.Event == task.FatalError && who != protocol.Human {
		c.Epoch = s.epoch
	}
	box, err := Open(s.disk, who)
	testenv.Must(s.t, err)
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Hour)
	defer cancel()
	a, err := carryOut(ctx, box, c)
	if err != nil || a.Of == 0 {
		s.t.Fatalf("%s by %s: %+v, %v", c.Event, who, a, err)
	}
	if a.Task != "" {
		s.task, s.epoch = a.Task, a.Epoch
	} else if len(a.Tasks) > 0 {
		s.task = a.Tasks[0]
	}
}

// step waits for the record of a step, and returns it.
func (s *story) step(path string) *protocol.StepRecord {
	s.t.Helper()
	for late := time.Now().Add(24 * time.Hour); ; <-time.After(time.Second) {
		data, _, err := durable.ReadFile(s.disk, path, -1)
		if err == nil {
			record, err := protocol.DecodeStep(data)
			testenv.Must(s.t, err)
			return record
		}
		if time.Now().After(late) {
			s.t.Fatalf("there is no record %s: %v", path, err)
		}
	}
}

// until waits until the task is in a state, and returns its view.
func (s *story) until(state task.State) *task.View {
	s.t.Helper()
	for late := time.Now().Add(24 * time.Hour); ; <-time.After(time.Second) {
		v, err := View(s.disk, s.task)
		if err == nil && v.State == state {
			return v
		}
		if time.Now().After(late) {
			s.t.Fatalf("the task is not %s: %+v, %v", state, v, err)
		}
	}
}

// TestCommandsAreCarriedOut checks that each command that this package drafts is
// carried out where the table has a row for it, and leads to the state in the
// table.
func TestCommandsAreCarriedOut(t *testing.T) {
	t.Parallel()
	const bob = protocol.AgentID("bob")
	say := func(event protocol.TaskAction, data Payload) Command { return Command{Event: event, Data: data} }
	type act struct {
		who protocol.AgentID
		Command
	}
	started := []act{{bob, say(task.Claim, nil)}, {bob, say(task.Start, nil)}}
	then := func(more ...act) []act { return append(slices.Clip(started), more...) }
	ask := act{bob, say(task.PauseForApproval, Report{Question: "may I?"})}
	block := act{bob, say(task.BlockOnDependency, Report{Reason: "which?"})}
	begin := act{bob, say(task.StepStarted, Report{Step: &protocol.StepReport{Name: "build", Argv: []string{"make"}}})}
	undoable := act{bob, say(task.StepStarted, Report{Step: &protocol.StepReport{Name: "build", Undo: "make clean"}})}
	done := act{bob, say(task.StepEnded, Report{Step: &protocol.StepReport{N: 1, Exit: new(int)}})}
	list := commands(t)
	for event, tt := range map[protocol.TaskAction]struct {
		acts  []act
		after task.State // to wait for before the last act, if any
		want  task.State
	}{
		task.Create:             {nil, "", task.Offered},
		task.Claim:              {started[:1], "", task.Pending},
		task.Accept:             {[]act{{bob, say(task.Accept, nil)}}, task.Offered, task.Pending},
		task.Reject:             {[]act{{bob, say(task.Reject, Report{Reason: "no"})}}, task.Offered, task.Unassigned},
		task.Start:              {started, "", task.InProgress},
		task.Recovered:          {then(act{bob, say(task.Recovered, nil)}), task.Stalled, task.InProgress},
		task.Progress:           {then(act{bob, say(task.Progress, Report{Milestone: "half", Checkpoint: []byte(`{"n":1}`), For: "5m"})}), "", task.InProgress},
		task.PauseForApproval:   {then(ask), "", task.Paused},
		task.BlockOnDependency:  {then(block), "", task.Blocked},
		task.TransientError:     {then(act{bob, say(task.TransientError, Report{Reason: "busy"})}), "", task.Retrying},
		task.Failure:            {then(act{bob, say(task.Failure, Report{Category: protocol.UnknownFailure, Reason: "?"})}), "", task.Blocked},
		task.Release:            {then(act{bob, say(task.Release, Report{Reason: "later"})}), "", task.Unassigned},
		task.Complete:           {then(act{bob, say(task.Complete, Report{Result: []byte(`{"ok":true}`)})}), "", task.Completed},
		task.ReportOutcome:      {then(act{bob, say(task.ReportOutcome, Report{Outcome: protocol.Outcome{Kind: protocol.OutcomeUnusable}})}), "", task.Unassigned},
		task.StepStarted:        {then(begin), "", task.InProgress},
		task.StepEnded:          {then(begin, done), "", task.InProgress},
		task.CancelledEvent:     {then(act{protocol.Human, say(task.Cancel, nil)}, act{bob, say(task.CancelledEvent, nil)}), "", task.Cancelled},
		task.FatalError:         {then(act{bob, say(task.FatalError, Report{Reason: "lost"})}), "", task.Failed},
		task.ApprovalGranted:    {then(ask, act{protocol.Human, say(task.ApprovalGranted, Report{Comment: "do"})}), task.Paused, task.InProgress},
		task.ApprovalDenied:     {then(ask, act{protocol.Human, say(task.ApprovalDenied, Report{})}), task.Paused, task.Failed},
		task.Answer:             {then(block, act{protocol.Human, say(task.Answer, Report{Comment: "that one"})}), task.Blocked, task.InProgress},
		task.DependencyResolved: {then(block, act{protocol.Human, say(task.DependencyResolved, nil)}), task.Blocked, task.InProgress},
		task.Amend:              {then(act{protocol.Human, say(task.Amend, BriefChange{Title: "another"})}), "", task.InProgress},
		task.Cancel:             {[]act{{protocol.Human, say(task.Cancel, Report{Reason: "no need"})}}, "", task.Cancelled},
		task.Unwind:             {then(undoable, done, act{bob, say(task.Complete, nil)}, act{protocol.Human, say(task.Unwind, nil)}), "", task.Offered},
		task.Resume:             {then(act{bob, say(task.FatalError, nil)}, act{protocol.Human, say(task.Resume, Report{Family: true})}), "", task.Offered},
	} {
		if _, known := list[event]; !known {
			t.Errorf("the specification has no %s", event)
		}
		delete(list, event)
		t.Run(string(event), func(t *testing.T) {
			t.Parallel()
			withHive(t, func(s *story) {
				s.does(protocol.Human, say(task.Create, NewTask{Title: "t"}))
				for i, a := range tt.acts {
					if i == len(tt.acts)-1 && tt.after != "" {
						v := s.until(tt.after)
						if r, is := a.Data.(Report); is && v.Question != nil {
							r.Ask = v.Question.Ask
							a.Data = r
						}
					}
					if r, is := a.Data.(Report); is && r.Step != nil && r.Step.N > 0 {
						ends := *r.Step
						ends.Command = s.step(protocol.StepFile(s.task, 1, "build")).Command
						r.Step = &ends
						a.Data = r
					}
					s.does(a.who, a.Command)
				}
				s.until(tt.want)
			})
		})
	}
	if len(list) > 0 {
		t.Errorf("commands in the specification that no row tries: %v", list)
	}
}
