package capsule

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/hived/hived/agent"
	"github.com/hived/hived/internal/pause"
	"github.com/hived/hived/internal/process"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

// Spec is what a caller says about a step.
type Spec struct {
	Name       string
	Argv       []string // for people; what it runs is in [Work]
	CWD        string
	Verify     string // a shell command: is the effect there? 0 yes, 1 no
	Undo       string // a shell command that undoes it
	Idempotent bool   // it may run again whatever became of it
	Retries    int    // how often it runs again after it failed
	Timeout    time.Duration
	Skip       []string // steps that were begun before and are left out
}

// Attempt is one run of a step.
type Attempt struct {
	Key  string   // the idempotency key
	N    int      // the number of the step
	Try  int      // which run of it this is, from 1
	Lock *os.File // to be inherited by the command, so that its end frees it
}

// End is how a run of a step ended.
type End struct {
	Exit        int                  // of the command; not where Signal is set
	Signal      string               // that ended it, so that nobody knows what it has done
	Error       string               // the end of its standard error
	Output      *protocol.StepOutput // its standard output; nil: none
	Send        []string             // messages that are sent if the step is done
	Interrupted bool                 // the caller is to stop: whatever became of the step is judged by the next run
}

// Work carries out what a step consists of.
type Work struct {
	Run func(ctx context.Context, a Attempt) End
	// Verify runs the verify command and returns its exit status and its output.
	Verify func(ctx context.Context, key string) (exit int, output []byte)
	// Left returns the messages that the last run of a step left, whose end nobody saw.
	// Nil: it leaves none.
	Left func(r *protocol.StepRecord) []string
	// Forget is called when the end of a step is in its record: what its last run left is
	// not needed any more. Nil: it leaves nothing.
	Forget func(r *protocol.StepRecord)
}

// Do does a step and returns its record, with its output, or returns the record of the
// run that did it before. Of a command that fails the error is a *[Failed], of one that
// was killed [ErrDoubt], of a question to a person [ErrAsked], of a step out of its turn
// [ErrOrder], and that of report where hive refuses it or does not answer.
func (c *Capsule) Do(ctx context.Context, spec Spec, w Work) (*protocol.StepRecord, error) {
	if bad := protocol.BadStepName(spec.Name); bad != "" {
		return nil, &protocol.Malformed{Reason: bad}
	}
	known, err := c.records()
	if err != nil {
		return nil, err
	}
	n, err := turn(known, c.lastNamed(), spec.Name, spec.Skip)
	if err != nil {
		return nil, err
	}
	d := &doing{Capsule: c, spec: spec, work: w, n: n, tries: spec.Retries + 1}
	if spec.Verify != "" {
		d.evidence = evidenceUnknown
	}
	defer d.release()
	for d.done == nil && err == nil {
		err = d.step(ctx)
	}
	return d.done, err
}

// doing is one call of Do.
type doing struct {
	*Capsule
	spec     Spec
	work     Work
	n        int
	tries    int                  // runs that are left
	intent   protocol.MessageID   // that has not run yet
	told     *protocol.StepRecord // that came with a refusal, to be judged next
	last     *protocol.StepRecord // that was judged last
	lock     *os.File
	state    lockState
	evidence evidence
	found    []byte // what the verify command printed
	unwind   bool   // it is to be undone, and not done
	refusals int
	rounds   int
	done     *protocol.StepRecord
}

func (d *doing) release() {
	if d.lock != nil {
		_ = d.lock.Close() // it was only read
		d.lock = nil
	}
	d.state = lockUntried
}

// roundsMost is how often a step is judged for each time that it may run. A step that is
// killed and verified takes seven.
const roundsMost = 30

// situation looks at all that decides what is to be done.
func (d *doing) situation() (situation, error) {
	late, question, err := d.late()
	if err != nil {
		return situation{}, err
	}
	r := d.told
	if d.told = nil; r == nil {
		r = d.record(d.n, d.spec.Name)
	}
	d.last = r
	if d.rounds++; d.rounds > roundsMost*(d.spec.Retries+1) {
		return situation{}, fmt.Errorf("step %s %w: what hive says of it does not come to an end; `hived trace` shows it", d.spec.Name, ErrDoubt)
	}
	s := situation{record: r, intent: d.intent, late: late, lock: d.state, evidence: d.evidence, idempotent: d.spec.Idempotent, tries: d.tries}
	s.foreign = r != nil && d.Users && r.By != d.Box.ID()
	if r == nil {
		return s, nil
	}
	s.asked = r.Ask > 0 && question != nil && question.Ask == r.Ask
	if (d.unwind || r.Status == protocol.StepDone) && r.Output != nil {
		_, err := r.Output.Data()
		s.gone = err != nil
	}
	return s, nil
}

// step judges once, and does what that says.
func (d *doing) step(ctx context.Context) error {
	s, err := d.situation()
	if err != nil {
		return err
	}
	verdict := judge(s)
	if d.unwind {
		verdict = judgeUndo(s)
	}
	switch verdict {
	case intend:
		return d.begin(ctx, s)
	case execute:
		return d.execute(ctx)
	case takeLock:
		return d.tryLock()
	case waitLock:
		return d.waitLock(ctx, d.LockWait)
	case waitEnd:
		d.Note("step " + d.spec.Name + " still runs elsewhere, and is waited for, as a person said")
		return d.waitLock(ctx, 0)
	case verify:
		return d.verify(ctx)
	case endDone:
		return d.reportEnd(ctx, s.record.Command, protocol.TaskReport{Step: &protocol.StepReport{How: protocol.JudgedVerified, Output: protocol.NewStepOutput(d.found)}, Send: d.left()})
	case endUndone:
		return d.reportEnd(ctx, s.record.Command, protocol.TaskReport{Step: &protocol.StepReport{How: protocol.JudgedVerified}, Unwind: true})
	case ask:
		return d.ask(ctx)
	case answer, passOver, asking, giveUp, lost, lateEpoch, wrongTask:
	}
	return d.settle(verdict, s.record)
}

// settle ends the doing of a step about which nothing more is to be done now.
func (d *doing) settle(v verdict, r *protocol.StepRecord) error {
	switch v {
	case answer:
		d.done = r
		return d.named(d.n)
	case passOver:
		d.done = r
		return nil
	case asking:
		return fmt.Errorf("%w what became of step %s: question %s; run this again when `approved` comes", ErrAsked, d.spec.Name, r.Ask)
	case giveUp:
		if r.Status == protocol.StepFailed {
			return &Failed{r}
		}
		return fmt.Errorf("step %s %w: its command was ended (%s); run this again", d.spec.Name, ErrDoubt, r.Signal)
	case lost:
		return lostRecord(d.n, d.spec.Name)
	case lateEpoch:
		return &Refused{protocol.CodeFenced, "the task has ended or is in other hands, so that nothing was run; stop, and change nothing more"}
	case wrongTask:
		return fmt.Errorf("step %s is being undone, so that it cannot be done; finish or cancel the task that undoes it", d.spec.Name)
	case intend, execute, takeLock, verify, endDone, endUndone, waitLock, waitEnd, ask:
	}
	return errors.New("capsule: no such verdict")
}

func (d *doing) tryLock() error {
	f, state, err := tryLock(d.Disk.Path(protocol.LockOf(protocol.StepFile(d.origin, d.n, d.spec.Name))))
	if err != nil {
		return err
	}
	if state == lockOwn && d.intent == "" && d.last != nil && process.EnvLives(EnvKey, d.last.Key) {
		_ = f.Close() // it was only read
		f, state = nil, lockHeld
	}
	d.lock, d.state = f, state
	return nil
}

// quiet is how long a step says that its holder is silent, renewAt how long before the
// end of that it says so again, and lockPause how often a held lock is tried.
const (
	quiet     = 30 * time.Minute
	renewAt   = 10 * time.Minute
	lockPause = 50 * time.Millisecond
)

// waitLock waits until the lock is free, and then asks a person, or waits without limit
// if that is zero, and renews meanwhile how long the holder is silent.
func (d *doing) waitLock(ctx context.Context, most time.Duration) error {
	limited := most > 0 || d.last == nil || d.last.How != protocol.JudgedPerson
	deadline, renew := time.Now().Add(most), time.Now().Add(quiet-renewAt)
	for d.state == lockHeld {
		switch now := time.Now(); {
		case limited && !now.Before(deadline):
			return d.ask(ctx)
		case now.After(renew):
			renew = now.Add(quiet - renewAt)
			d.renew()
		}
		if err := pause.For(ctx, lockPause); err != nil {
			return err
		}
		if err := d.tryLock(); err != nil {
			return err
		}
	}
	return nil
}

// renew says that the holder goes on being silent. Nobody waits for an answer.
func (d *doing) renew() {
	if _, err := d.send(task.Progress, protocol.TaskReport{For: quiet.String()}, 0); err != nil {
		d.Note("hived could not be told that the step goes on: " + err.Error())
	}
}

func (d *doing) verify(ctx context.Context) error {
	key := d.last.Key
	if d.unwind {
		key = protocol.StepKey(d.origin, d.last.Name, d.last.Round)
	}
	exit, output := d.work.Verify(ctx, key)
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	switch d.found = output; exit {
	case 0:
		d.evidence = evidenceThere
	case 1:
		d.evidence = evidenceMissing
	default:
		d.evidence = evidenceUnclear
	}
	return nil
}

// begin reports that the step begins, or its undo, and waits until the record has that
// intent.
func (d *doing) begin(ctx context.Context, s situation) error {
	if runs, err := d.Runs(); err != nil {
		return err
	} else if !runs {
		return ErrNoDaemon
	}
	data := d.intends(s)
	if d.unwind {
		data = d.intendsUndo(s)
	}
	id, record, err := d.report(ctx, task.StepStarted, data, intentWithin, func(id protocol.MessageID) bool {
		d.find()
		r := d.record(d.n, d.spec.Name)
		return r != nil && r.Command == id
	})
	if err != nil {
		return d.refused(err, record)
	}
	if d.intent = id; d.lock == nil {
		d.state = lockUntried // the lock may be there by now
	}
	if d.unwind {
		return nil
	}
	return d.named(d.n)
}

// intends returns the report that the step begins.
func (d *doing) intends(s situation) protocol.TaskReport {
	silent := quiet
	if d.spec.Timeout > 0 {
		silent = min(d.spec.Timeout+time.Minute, time.Hour)
	}
	return protocol.TaskReport{
		Again: judgementOf(s), For: silent.String(),
		Step: &protocol.StepReport{
			Name: d.spec.Name, Argv: d.spec.Argv, CWD: d.spec.CWD, Verify: d.spec.Verify, Undo: d.spec.Undo, Idempotent: d.spec.Idempotent,
			Boot: bootID(), PID: os.Getpid(),
		},
	}
}

// find finds the number that hive gave to a new step.
func (d *doing) find() {
	if d.record(d.n, d.spec.Name) != nil {
		return
	}
	names, err := d.records()
	for i, name := range names {
		if err == nil && name == d.spec.Name {
			d.n = i + 1
		}
	}
}

// refusalsMost is how many refusals that come with a record are judged again.
const refusalsMost = 3

// refused judges again with the record that came with a refusal; any other error is
// returned.
func (d *doing) refused(err error, record *protocol.StepRecord) error {
	if d.refusals++; record == nil || d.refusals > refusalsMost {
		return err
	}
	d.n, d.told = record.N, record
	return nil
}

// execute runs the step under its lock, and reports how it ended.
func (d *doing) execute(ctx context.Context) error {
	beating, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		_ = d.Box.KeepAlive(beating, d.Heartbeat, func() bool { return true }) // a missing heartbeat is seen by hived
	}()
	ticker := time.NewTicker(quiet - renewAt)
	defer ticker.Stop()
	ended := make(chan End, 1)
	go func() { ended <- d.work.Run(ctx, Attempt{Key: d.last.Key, N: d.n, Try: d.last.Try, Lock: d.lock}) }()
	var e End
	for running := true; running; {
		select {
		case e = <-ended:
			running = false
		case <-ticker.C:
			d.renew()
		}
	}
	stop()
	intent := d.intent
	d.intent = ""
	d.tries--
	if d.evidence != evidenceNone { // what was seen before it ran
		d.evidence = evidenceUnknown
	}
	r := protocol.StepReport{Signal: e.Signal, Error: e.Error}
	if e.Signal == "" {
		r.Exit, r.Output = &e.Exit, e.Output
	}
	if err := d.reportEnd(ctx, intent, protocol.TaskReport{Step: &r, Send: e.Send}); err != nil {
		return err
	}
	if now := d.record(d.n, d.spec.Name); now != nil && now.Status == d.wanted() && now.Command == intent {
		d.done = now // whoever has the task by now: this run did it
		if d.unwind {
			return nil
		}
		return d.named(d.n)
	}
	if e.Interrupted {
		return fmt.Errorf("step %s %w: it was interrupted; the next run judges it", d.spec.Name, ErrDoubt)
	}
	return d.backOff(ctx)
}

// wanted returns the status in which the step is to be.
func (d *doing) wanted() protocol.StepStatus {
	if d.unwind {
		return protocol.StepUndone
	}
	return protocol.StepDone
}

// backOff waits before a step that has failed runs again.
func (d *doing) backOff(ctx context.Context) error {
	r := d.record(d.n, d.spec.Name)
	what := "step " + d.spec.Name
	switch {
	case r == nil || d.tries <= 0:
		return nil
	case d.unwind && r.Status == protocol.StepDone:
		what = "the undo of " + what
	case r.Status != protocol.StepFailed:
		return nil
	}
	wait := d.Backoff(d.spec.Retries - d.tries)
	d.Note(fmt.Sprintf("%s has failed, and runs again in %s", what, wait))
	return pause.For(ctx, wait)
}

// left returns the messages that the last run left, where it was one of this agent.
func (d *doing) left() []string {
	if d.work.Left == nil || d.last.By != d.Box.ID() {
		return nil
	}
	return d.work.Left(d.last)
}

// reportEnd reports how the run of an intent ended, and waits until the record says so.
// What has run is reported also when the caller is to stop.
func (d *doing) reportEnd(ctx context.Context, intent protocol.MessageID, r protocol.TaskReport) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*answerWithin)
	defer cancel()
	r.Step.N, r.Step.Command = d.n, intent
	r.Step.Error = strings.ToValidUTF8(r.Step.Error, "�")
	before := d.last.EndedAt // of an end that left it in doubt
	_, record, err := d.report(ctx, task.StepEnded, r, 0, func(protocol.MessageID) bool {
		now := d.record(d.n, d.spec.Name)
		return now != nil && (!now.Underway() || now.Command != intent || !now.EndedAt.Equal(before))
	})
	if err != nil {
		return d.refused(err, record)
	}
	if now := d.record(d.n, d.spec.Name); now != nil && !now.Underway() && d.work.Forget != nil {
		d.work.Forget(now)
	}
	return nil
}

// ask asks a person what became of the step, and returns the error that says so. The
// lock is kept until the question is in the record, so that whoever waits for it finds
// that the intent stands no more. It is also waited for in the files of the task, where
// people read it; it may be answered by then.
func (d *doing) ask(ctx context.Context) error {
	report := protocol.TaskReport{Step: &protocol.StepReport{N: d.n, Command: d.last.Command}, Choices: d.choices()}
	before, err := agent.View(d.Disk, d.Task)
	if err != nil {
		return err
	}
	_, record, err := d.report(ctx, task.PauseForApproval, report, 0, func(protocol.MessageID) bool {
		r := d.record(d.n, d.spec.Name)
		v, err := agent.View(d.Disk, d.Task)
		return err == nil && v.LastAsk > before.LastAsk && r != nil && (r.Ask > d.last.Ask || r.How == protocol.JudgedPerson)
	})
	if err != nil {
		return d.refused(err, record)
	}
	return fmt.Errorf("%w %s; run this again when `approved` comes", ErrAsked, d.doubt())
}

// choices returns the answers that a question about the step offers; none where the usual
// ones do.
func (d *doing) choices() []string {
	switch {
	case d.unwind:
		return d.undoChoices()
	case d.last.Status == protocol.StepDone:
		return []string{"again", "without"}
	case d.state != lockHeld:
		return nil
	case d.last.Status == protocol.StepFailed:
		return []string{"wait", "again"}
	}
	return []string{"wait", "happened", "again"}
}
