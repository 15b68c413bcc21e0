package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/hived/hived/agent"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/process"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
	"github.com/hived/hived/worker/adapter"
	"github.com/hived/hived/worker/classify"
	"github.com/hived/hived/worker/envelope"
	"github.com/hived/hived/worker/prompt"
	"github.com/hived/hived/worker/run"
)

// execution is one run of the agent's program for a task.
type execution struct {
	*site

	hold
	config   Config
	circuits *circuits
	log      *slog.Logger

	t      *agent.Task
	record record
	dir    string // of its files, below the hive
	began  time.Time
	seen   classify.Seen
	prompt prompt.Prompt
	gate   *protocol.GateResult
	tail   string // the end of what the program wrote, or of the gate that failed
}

// result is what the worker needs to know of an execution that has ended.
type result struct {
	hive       string
	task       protocol.TaskID
	kind       protocol.OutcomeKind // empty: nothing was executed
	retryAfter time.Duration
	ask        protocol.Seq // the question that it asked
	through    protocol.Seq // the report that task.json does not show yet
}

func newExecution(w *Worker, s *site, h hold) *execution {
	return &execution{
		site: s, hold: h, config: w.Config, circuits: w.circuits,
		log:    s.log.With(slog.String("task", string(h.task)), slog.Uint64("epoch", h.epoch)),
		record: record{Task: h.task, Epoch: h.epoch, Adapter: w.Adapter.Name, Run: fmt.Sprintf("%s-%d-%s", h.task, h.epoch, ulid.Make().String()[16:])},
	}
}

// The causes for which a program is ended.
var (
	errCancelled = errors.New("the task is cancelled")
	errLost      = errors.New("the task is in other hands")
)

// run executes the task and reports how that ended.
func (x *execution) run(ctx context.Context) result {
	r := result{hive: x.Disk.Path("."), task: x.task}
	x.began = time.Now()
	x.record.Began = x.began.UTC()
	switch err := x.prepare(ctx); {
	case errors.Is(err, errLost), errors.Is(err, errAsked):
		r.through = x.through
		return r
	case errors.Is(err, errUnreadable): // no fault of the program
		x.seen.NoPrompt = err.Error()
	case err != nil:
		x.log.ErrorContext(ctx, "the task cannot be executed", slog.Any("error", err))
		x.seen.Unusable = err.Error()
	}
	x.log.InfoContext(ctx, "begins", slog.String("title", x.title()))
	verdict := x.attempt(ctx)
	return x.report(ctx, verdict)
}

func (x *execution) title() string {
	if x.t == nil {
		return ""
	}
	return protocol.Visible(x.t.View.Title)
}

// attempt runs the program, a second time with another login where that is needed and the
// adapter has one, and judges how it ended.
func (x *execution) attempt(ctx context.Context) classify.Verdict {
	if x.seen.Unusable != "" || x.seen.NoPrompt != "" {
		return classify.Classify(x.seen)
	}
	if x.t.View.CancelRequested {
		return x.stopped(errCancelled)
	}
	watched, end := context.WithCancelCause(ctx)
	defer end(nil)
	watching := make(chan struct{})
	go func() {
		defer close(watching)
		x.watch(watched, end)
	}()
	defer func() { end(nil); <-watching }()
	if x.t.View.Unwinds != "" {
		return x.unwind(watched)
	}
	v := x.program(watched)
	if v.Kind == protocol.OutcomeNeedsLogin && len(x.config.Adapter.Rotate) > 0 && watched.Err() == nil {
		x.log.InfoContext(ctx, "another login is tried")
		if _, ok := x.command(watched, x.config.Adapter.Rotate, "rotate"); ok {
			v = x.program(watched)
		}
	}
	if v.Kind == protocol.OutcomeCompleted {
		v = x.pass(watched)
	}
	if c := x.config.Adapter.Cleanup; len(c) > 0 {
		x.command(context.WithoutCancel(ctx), c, "cleanup")
	}
	return v
}

// errUnreadable says that files of the task stay unreadable, so that nobody can work on it.
var errUnreadable = errors.New("the files of the task cannot be read")

// readWithin is how long the files of a task may be behind the answer to its claim.
const readWithin = 10 * time.Second

// prepare reads the task, starts it where that was not done, and makes its directory and
// its record.
func (x *execution) prepare(ctx context.Context) error {
	if err := x.read(ctx); err != nil {
		return err
	}
	switch v := &x.t.View; v.State {
	case task.InProgress:
	case task.Paused, task.Blocked, task.Retrying:
		if !v.CancelRequested {
			return errLost // it was ready a moment ago, and waits by now
		}
	case task.Pending, task.Stalled:
		event := task.Start
		if x.t.View.State == task.Stalled {
			event = task.Recovered
		}
		a, err := x.mail.ask(context.WithoutCancel(ctx), agent.Command{Event: event, Task: x.task, Epoch: x.epoch, Within: claimWithin}, claimWithin+5*time.Second)
		if err != nil || a.Code != protocol.CodeOK {
			x.log.WarnContext(ctx, "the task cannot be started", slog.String("code", string(a.Code)), slog.Any("error", err))
			return errLost
		}
	default:
		return errLost
	}
	if !x.t.View.CancelRequested {
		if err := x.mayRun(ctx); err != nil {
			return err
		}
	}
	x.dir = fmt.Sprintf("%s/%s/%d-%d", x.work(), x.task, x.epoch, x.t.View.Attempt)
	if err := x.Disk.MkdirAll(x.dir, 0o700); err != nil {
		return fmt.Errorf("make the directory of the execution: %w", err)
	}
	return x.note(x.record, durable.Unsynced)
}

// read reads the task as soon as its files show that the agent has it.
func (x *execution) read(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, readWithin)
	defer cancel()
	tick := time.NewTicker(mailPoll)
	defer tick.Stop()
	for {
		if x.t, err = agent.ReadTask(x.Disk, x.task); err == nil {
			switch v := &x.t.View; {
			case v.Epoch > x.epoch, v.Epoch == x.epoch && v.Holder != x.Box.ID():
				return errLost
			case v.Epoch == x.epoch && len(x.t.Problems) == 0:
				return nil
			}
		}
		select {
		case <-ctx.Done():
			if x.t != nil && x.t.View.Epoch == x.epoch {
				return fmt.Errorf("%w: %s", errUnreadable, protocol.Visible(errors.Join(x.t.Problems...).Error()))
			}
			return errLost // nobody says that the agent has it
		case <-tick.C:
		}
	}
}

// watchEvery is how often the task of a program that runs is looked at.
const watchEvery = 500 * time.Millisecond

// watch ends the program if the task is cancelled, or is in other hands.
func (x *execution) watch(ctx context.Context, end context.CancelCauseFunc) {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	var last time.Time
	for {
		info, err := x.Disk.Lstat(protocol.TaskDir(x.task) + "/" + protocol.TaskView)
		if err == nil && (!info.ModTime.Equal(last) || time.Since(last) < settledAfter) {
			last = info.ModTime
			if v, err := agent.View(x.Disk, x.task); err == nil {
				if cause := x.over(v); cause != nil {
					end(cause)
					return
				}
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-x.poke:
			last = time.Time{}
		case <-tick.C:
		}
	}
}

// over returns why the program is to be ended. Where the agent itself said what becomes of
// the task, it may go on to its end.
func (x *execution) over(v *task.View) error {
	byAgent := len(v.History) > 0 && v.History[len(v.History)-1].By == x.Box.ID()
	switch {
	case v.Epoch > x.epoch:
		return errLost
	case v.CancelRequested:
		return errCancelled
	case v.Holder == x.Box.ID(), byAgent:
		return nil
	case v.State == task.Cancelled:
		return errCancelled
	}
	return errLost
}

// program runs the agent's program, and judges how it ended, but for the gate.
func (x *execution) program(ctx context.Context) classify.Verdict {
	a := x.config.Adapter
	x.seen = classify.Seen{Unusable: x.circuits.usable(func() string { return VersionFault(ctx, a, x.config.Environ) })}
	if x.seen.Unusable != "" {
		return classify.Classify(x.seen)
	}
	input, err := x.makePrompt()
	if err != nil {
		x.seen.NoPrompt = err.Error()
		return classify.Classify(x.seen)
	}
	p := x.prepared(a.Run, a.Timeout)
	if a.Prompt == adapter.PromptStdin {
		p.In = input
	}
	ended := x.do(ctx, p, "")
	x.tail = ended.tail
	ran := adapter.Ran{Exit: ended.Exit, Signal: ended.Signal, Output: ended.out, Errors: ended.failed, Result: x.file(fileResult)}
	s := &x.seen
	s.Exit, s.Signal, s.TimedOut, s.Reading = ended.Exit, ended.Signal, ended.TimedOut, a.Read(ran)
	if (ended.Exit == process.ExitNoProgram || ended.Exit == process.ExitCannotRun) && ended.Err != nil {
		s.Unusable = ended.Err.Error()
	}
	if ended.Stopped && !s.TimedOut {
		x.stopped(context.Cause(ctx))
	}
	if s.Envelope, err = envelope.Read(x.Disk, x.dir+"/"+fileOutcome, ended.out); err != nil {
		x.log.WarnContext(ctx, "the envelope counts as none", slog.Any("error", err))
	}
	return classify.Classify(x.seen)
}

// stopped notes why the worker has ended a program, and returns what that alone amounts to.
func (x *execution) stopped(cause error) classify.Verdict {
	s := &x.seen
	s.Cancelled, s.LeaseLost = errors.Is(cause, errCancelled), errors.Is(cause, errLost)
	s.Stopped = !s.Cancelled && !s.LeaseLost
	return classify.Classify(classify.Seen{Cancelled: s.Cancelled, LeaseLost: s.LeaseLost, Stopped: s.Stopped})
}

// The files of an execution.
const (
	filePrompt  = "prompt"
	fileOutcome = "outcome.json" // the agent's envelope
	fileResult  = "result"
	fileOut     = "out"
	fileErr     = "err"
)

// makePrompt makes the prompt, and writes it where the program finds it.
func (x *execution) makePrompt() (text []byte, err error) {
	if x.prompt, err = x.promptOf(); err != nil {
		return nil, err
	}
	for _, name := range []string{fileOutcome, fileResult} { // of an attempt before this one
		_ = x.Disk.Remove(x.dir + "/" + name)
	}
	return x.prompt.Text, durable.Publish(x.Disk, x.dir+"/"+filePrompt, x.prompt.Text, 0o600, durable.Unsynced)
}

// The longest prompts, in bytes. An argument may have 128 KiB on Linux.
const (
	promptMost   = 1 << 20
	argumentMost = 120 << 10
)

// promptOf makes the prompt from the files of the task and of those that it needs.
func (x *execution) promptOf() (prompt.Prompt, error) {
	t := x.t
	in := prompt.Input{Title: t.Brief.Title, Body: t.Brief.Body, Data: t.Brief.Data}
	if c := t.Checkpoint; c != nil {
		in.Milestone, in.Checkpoint = c.Milestone, c.Data
	}
	for _, s := range t.Steps {
		in.Steps = append(in.Steps, prompt.Step{Name: s.Name, Status: string(s.Status)})
	}
	for _, id := range t.View.Needs {
		if n, err := agent.ReadTask(x.Disk, id); err == nil { // else its files were swept
			in.Needs = append(in.Needs, prompt.Need{ID: string(id), Title: n.View.Title, Result: n.Result})
		}
	}
	for _, q := range t.Answers {
		for _, a := range q.Answers {
			in.Answers = append(in.Answers, prompt.Answer{Question: q.Question, Choice: a.Choice, Comment: a.Comment, Result: a.Result})
		}
	}
	if o := t.Outcome; o != nil {
		in.Last = &prompt.Last{Outcome: string(o.Kind), Reason: o.Reason, Tail: o.Tail}
	}
	most := promptMost
	if x.config.Adapter.Prompt == adapter.PromptArgument {
		most = argumentMost
		if body := x.variables()[adapter.VarBody]; len(body) > most {
			return prompt.Prompt{}, &prompt.TooLong{Bytes: len(body), Most: most}
		}
	}
	return prompt.Make(in, most)
}

// variables are those of the adapter's arguments.
func (x *execution) variables() map[string]string {
	body := x.t.Brief.Body
	if body == "" {
		body = x.t.Brief.Title
	}
	return map[string]string{
		adapter.VarIn: x.config.Dir, adapter.VarPrompt: string(x.prompt.Text), adapter.VarBody: body,
		adapter.VarPromptFile: x.Disk.Path(x.dir + "/" + filePrompt), adapter.VarResultFile: x.Disk.Path(x.dir + "/" + fileResult),
	}
}

// prepared returns a program with the times and the environment of the execution.
func (x *execution) prepared(args []string, timeout time.Duration) run.Program {
	a, vars := x.config.Adapter, x.variables()
	dir := x.config.Dir
	if a.Directory != "" {
		dir = a.Expand([]string{a.Directory}, vars)[0]
	}
	if timeout == 0 {
		timeout = x.Settings.Work.Timeout
	}
	if x.config.Timeout > 0 {
		timeout = x.config.Timeout
	}
	return run.Program{
		Args: a.Expand(args, vars), Dir: dir, Env: x.environ(), Run: x.record.Run,
		Timeout: timeout, Grace: x.config.Grace, Drain: x.Settings.Work.Drain,
	}
}

// environ returns the environment of the agent's program: what the adapter lets in, and
// what names the task.
func (x *execution) environ() []string {
	env := slices.DeleteFunc(x.config.Adapter.Environ(x.config.Environ), func(v string) bool { return strings.HasPrefix(v, "HIVE_") })
	return append(env,
		"HIVE_DIR="+x.Disk.Path("."), "HIVE_AGENT="+string(x.Box.ID()), "HIVE_TASK="+string(x.task),
		fmt.Sprintf("HIVE_EPOCH=%d", x.epoch), envelope.Variable+"="+x.Disk.Path(x.dir+"/"+fileOutcome),
	)
}

// ran is how a program ended, and what is kept of what it wrote.
type ran struct {
	run.Ended

	out, failed []byte // its standard output, its standard error
	tail        string // the end of one of them, for people
}

// do runs a program to its end, with what it writes in files.
func (x *execution) do(ctx context.Context, p run.Program, suffix string) (r ran) {
	outputs, done, err := x.outputs(suffix)
	defer done()
	if err != nil {
		return ran{Ended: run.Ended{Ended: process.Ended{Exit: process.ExitCannotRun, Err: err}}}
	}
	p.Out, p.Err = outputs[0], outputs[1]
	r.Ended = p.Do(ctx)
	r.out, r.failed = x.settle(ctx, outputs)
	most := x.Settings.Work.Tail
	if r.tail = run.Tail(r.out, most); strings.TrimSpace(r.tail) == "" || r.Exit != 0 && len(r.failed) > 0 {
		r.tail = run.Tail(r.failed, most)
	}
	return r
}

// settle returns what is kept of standard output and standard error.
func (x *execution) settle(ctx context.Context, outputs [2]*run.Output) (out, failed []byte) {
	var texts [2][]byte
	for i, o := range outputs {
		var err error
		if texts[i], err = o.Settle(); err != nil {
			x.log.WarnContext(ctx, "what the program wrote is not all there", slog.Any("error", err))
		}
	}
	return texts[0], texts[1]
}

// outputs opens the files for standard output and standard error.
func (x *execution) outputs(suffix string) (list [2]*run.Output, done func(), err error) {
	var files []*os.File
	done = func() {
		for _, f := range files {
			_ = f.Close() // what was read of it is known
		}
	}
	for i, name := range []string{fileOut, fileErr} {
		f, err := os.OpenFile(filepath.Join(x.Disk.Path(x.dir), name+suffix), os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600) //nolint:gosec,forbidigo // what the program writes need not be there whole
		if err != nil {
			return list, done, fmt.Errorf("keep what the program writes: %w", err)
		}
		files = append(files, f)
		list[i] = run.NewOutput(f, x.Settings.Work.Output)
	}
	return list, done, nil
}

// command runs a command of the adapter beside the agent's program, and reports whether it
// ended well.
func (x *execution) command(ctx context.Context, args []string, what string) (r ran, ok bool) {
	r = x.do(ctx, x.prepared(args, commandTimeout), "."+what)
	if ok = r.Exit == 0 && r.Signal == ""; !ok {
		x.log.WarnContext(ctx, "a command of the adapter failed", slog.String("command", what), slog.Int("exit", r.Exit), slog.String("tail", protocol.Visible(r.tail)))
	}
	return r, ok
}

// commandTimeout is how long a rotate or cleanup command may run.
const commandTimeout = 2 * time.Minute

// resultMost is the largest result file that is read, in bytes.
const resultMost = 256 << 10

// file reads a file that the program may have left.
func (x *execution) file(name string) []byte {
	text, _, err := durable.ReadFile(x.Disk, x.dir+"/"+name, resultMost)
	if err != nil {
		return nil // it is not there, no file, or too large to be a result
	}
	return text
}
