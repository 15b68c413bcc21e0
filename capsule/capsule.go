package capsule

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"time"

	"github.com/hived/hived/agent"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

// The environment of a step's command.
const (
	EnvKey    = "HIVE_IDEMPOTENCY_KEY" // one for all attempts, epochs and agents
	EnvStep   = "HIVE_STEP"            // its name; a step has no steps
	EnvOutbox = "HIVE_STEP_OUTBOX"     // the directory for messages that are sent if it is done
)

// Config says whose steps are done, and how long what is waited for.
type Config struct {
	Disk  *durable.Disk // of the hive
	Box   *agent.Box    // of the agent that holds the task
	Task  protocol.TaskID
	Epoch uint64 // under which it has the task

	Users     bool                    // each agent has a Unix user of its own: what another recorded is not run
	Retries   int                     // how often an undo runs again after it has failed
	LockWait  time.Duration           // how long another run of a step is waited for before a person is asked
	Heartbeat time.Duration           // of the hive: heartbeat_timeout
	Backoff   func(int) time.Duration // how long the nth retry waits, from 0
	Runs      func() (bool, error)    // whether a daemon runs
	Note      func(string)            // is told what is waited for; nil: nobody
}

// Capsule is a task in the hands of its holder, who does its steps.
type Capsule struct {
	Config
	origin  protocol.TaskID // the first task of the chain, which has the directory of the steps
	unwinds protocol.TaskID // whose steps the task undoes; empty: it does its own
}

// Unwinds returns the task whose steps this one undoes; empty if it does its own.
func (c *Capsule) Unwinds() protocol.TaskID { return c.unwinds }

var (
	// ErrNoDaemon says that no daemon runs: nothing was begun.
	ErrNoDaemon = errors.New("no daemon runs, so that nothing was run; start it with `hived up`")
	// ErrQueued says that a report is in the outbox and was not answered: it is taken in
	// when the daemon runs again.
	ErrQueued = errors.New("hived does not answer; the report is in the outbox")
	// ErrAsked says that a person was asked what became of the step.
	ErrAsked = errors.New("a person is asked")
	// ErrDoubt says that the step was killed, so that nobody knows whether it was done.
	ErrDoubt = errors.New("is in doubt")
	// ErrOrder says that a step was named out of its turn.
	ErrOrder = errors.New("step-order")
)

// Refused is the error of a step that hive refused.
type Refused struct {
	Code protocol.Code
	Text string
}

// Error implements error.
func (e *Refused) Error() string { return string(e.Code) + ": " + e.Text }

// Failed is the error of a step whose command failed as often as it may.
type Failed struct{ Record *protocol.StepRecord }

// Error implements error.
func (e *Failed) Error() string {
	text := "step " + e.Record.Name + " has failed"
	if e.Record.Exit != nil {
		text += fmt.Sprintf(" with exit status %d", *e.Record.Exit)
	}
	if e.Record.Error != "" {
		text += ": " + e.Record.Error
	}
	return text
}

// Open returns the capsule of a task. The error is [agent.ErrNoTask] where there is no
// such task, and says so where its hive is on a network file system.
func Open(c Config) (*Capsule, error) {
	if err := refuseNetwork(c.Disk.Path(".")); err != nil {
		return nil, err
	}
	v, err := agent.View(c.Disk, c.Task)
	if err != nil {
		return nil, err
	}
	if c.Note == nil {
		c.Note = func(string) {}
	}
	return &Capsule{Config: c, origin: agent.Origin(c.Disk, v), unwinds: v.Unwinds}, nil
}

// records returns the names of the steps that have a record, by their numbers, which
// begin with 1.
func (c *Capsule) records() (names []string, err error) {
	entries, err := c.Disk.ReadDir(protocol.StepsDir(c.origin))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list the steps: %w", err)
	}
	for _, e := range entries {
		number, rest, is := strings.Cut(e.Name, "-")
		name, isRecord := strings.CutSuffix(rest, ".json")
		var n int
		if _, err := fmt.Sscanf(number, "%d", &n); err != nil || !is || !isRecord || n < 1 || path.Base(protocol.StepFile(c.origin, n, name)) != e.Name {
			continue
		}
		for len(names) < n {
			names = append(names, "")
		}
		names[n-1] = name
	}
	return names, nil
}

// recordMost is the largest record that is read, in bytes.
const recordMost = 1 << 20

// record reads the record of a step. A missing or torn one is nil: hive is asked then.
func (c *Capsule) record(n int, name string) *protocol.StepRecord {
	data, _, err := durable.ReadFile(c.Disk, protocol.StepFile(c.origin, n, name), recordMost)
	if err != nil {
		return nil
	}
	r, err := protocol.DecodeStep(data)
	if err != nil || r.N != n || r.Name != name || r.Origin() != c.origin {
		return nil
	}
	return r
}

// late reports whether the task has ended, or is in other hands than those of its agent
// under its epoch, as its files say, which may be behind the log but not before it.
func (c *Capsule) late() (late bool, open *task.OpenQuestion, err error) {
	v, err := agent.View(c.Disk, c.Task)
	if err != nil {
		return false, nil, err
	}
	return v.Epoch > c.Epoch || v.Epoch == c.Epoch && (v.Holder != c.Box.ID() || task.Ended(v.State)), v.Question, nil
}

// Intents lapse after intentWithin; an answer that comes after that is still waited for,
// so that what was granted is run.
const (
	intentWithin = 15 * time.Second
	answerWithin = 10 * time.Second
	pollMost     = 20 * time.Millisecond
)

// report sends a command about the task, and waits until seen says that the files of the
// hive show it, or until hive refuses it. The error is a *[Refused] with the record that
// it names, [ErrNoDaemon] where it lapsed, and [ErrQueued] where it will be taken in
// later.
func (c *Capsule) report(ctx context.Context, event task.Event, data protocol.TaskReport, within time.Duration, seen func(id protocol.MessageID) bool) (protocol.MessageID, *protocol.StepRecord, error) {
	sent, err := c.send(event, data, within)
	if err != nil {
		return "", nil, err
	}
	read := map[string]bool{}
	deadline := time.Now().Add(max(within+time.Second, answerWithin))
	for wait := time.Millisecond; ; wait = min(2*wait, pollMost) {
		if seen(sent.ID) {
			return sent.ID, nil, nil
		}
		if a, found, err := c.Box.TryAnswer(sent.ID, read); err != nil {
			return sent.ID, nil, err
		} else if found {
			return sent.ID, a.Record, &Refused{Code: a.Code, Text: a.Text}
		}
		if time.Now().After(deadline) {
			_, waits := c.Disk.Lstat(protocol.OutboxDir(c.Box.ID()) + "/" + sent.File)
			if within > 0 && waits == nil {
				return sent.ID, nil, ErrNoDaemon // it has lapsed
			}
			return sent.ID, nil, fmt.Errorf("%w as %s", ErrQueued, sent.ID)
		}
		select {
		case <-ctx.Done():
			return sent.ID, nil, fmt.Errorf("wait for the answer to %s: %w", sent.ID, context.Cause(ctx))
		case <-time.After(wait):
		}
	}
}

// send sends a command about the task that hive answers only where it refuses it.
func (c *Capsule) send(event task.Event, data protocol.TaskReport, within time.Duration) (agent.Sent, error) {
	draft, err := agent.Command{Event: event, Task: c.Task, Epoch: c.Epoch, Data: agent.Report(data), Within: within}.Draft(time.Now())
	if err != nil {
		return agent.Sent{}, err
	}
	draft.RequiresReply = new(bool)
	return c.Box.Send(draft)
}
