package capsule

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hived/hived/agent"
	"github.com/hived/hived/hive"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/internal/wait"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/router"
	"github.com/hived/hived/task"
)

// hiveOf is a hive on the disk with agents and a running daemon: locks are real.
type hiveOf struct {
	*testing.T
	disk *durable.Disk
	id   protocol.TaskID
	stop func()
}

func newHive(t *testing.T) *hiveOf {
	t.Helper()
	disk, err := durable.Open(t.TempDir())
	testenv.Must(t, err)
	t.Cleanup(func() { testenv.Must(t, disk.Close()) })
	settings := protocol.DefaultSettings()
	settings.Git.CommitDelay = time.Minute
	for _, id := range []protocol.AgentID{"bob", "eve"} {
		testenv.Must(t, disk.MkdirAll(protocol.OutboxDir(id), 0o755))
	}
	testenv.Must(t, hive.Init(disk, hive.Options{Settings: settings, Template: []byte("# settings\n"), Now: time.Now()}))
	h := &hiveOf{T: t, disk: disk}
	h.start(settings)
	return h
}

func (h *hiveOf) start(settings protocol.Settings) {
	h.Helper()
	r, err := router.New(h.disk, router.Config{Settings: settings})
	testenv.Must(h, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	stopped := false
	h.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := wait.Ended(wait.Longest, "the daemon to stop", ended); err != nil {
			h.Errorf("the daemon ended with %v", err)
		}
	}
	h.Cleanup(h.stop)
}

// does has an agent give a command about the task, and returns the answer.
func (h *hiveOf) does(who protocol.AgentID, event task.Event, epoch uint64, data agent.Payload) agent.Answer {
	h.Helper()
	ctx, cancel := context.WithTimeout(h.Context(), wait.Longest)
	defer cancel()
	box, err := agent.Open(h.disk, who)
	testenv.Must(h, err)
	draft, err := agent.Command{Event: event, Task: h.id, Epoch: epoch, Data: data}.Draft(time.Now())
	testenv.Must(h, err)
	sent, err := box.Send(draft)
	testenv.Must(h, err)
	a, err := box.Answer(ctx, sent.ID)
	testenv.Must(h, err)
	if a.Code != protocol.CodeOK {
		h.Fatalf("%s of %s was refused: %s", event, who, a.Text)
	}
	return a
}

// begin makes a task, or takes the one that there is, and returns its capsule.
func (h *hiveOf) begin(who protocol.AgentID) *Capsule {
	h.Helper()
	if h.id == "" {
		h.id = h.does("human", task.Create, 0, agent.NewTask{Title: "deploy"}).Task
	}
	epoch := h.does(who, task.Claim, 0, agent.Report{Start: true}).Epoch
	box, err := agent.Open(h.disk, who)
	testenv.Must(h, err)
	c, err := Open(Config{
		Disk: h.disk, Box: box, Task: h.id, Epoch: epoch, LockWait: 20 * time.Millisecond, Heartbeat: time.Minute,
		Backoff: func(int) time.Duration { return time.Millisecond }, Runs: func() (bool, error) { return true, nil },
	})
	testenv.Must(h, err)
	return c
}

// counted is a step that counts how often it ran, and may check something first.
func counted(n *atomic.Int32, check func()) func(context.Context, string) (string, error) {
	return func(context.Context, string) (string, error) {
		if check != nil {
			check()
		}
		return fmt.Sprint("run ", n.Add(1)), nil
	}
}

// TestStepRunsOnce checks that a step runs when its intent is in its record, and once,
// for whoever holds the task; and that what it returned is returned again.
func TestStepRunsOnce(t *testing.T) {
	h := newHive(t)
	c := h.begin("bob")
	var ran atomic.Int32
	for range 3 {
		got, err := Step(t.Context(), c, "pay", counted(&ran, func() {
			if r := c.record(1, "pay"); r == nil || r.Command == "" || !r.Stands(r.Command) || r.By != "bob" {
				t.Errorf("it ran with the record %+v", r)
			}
		}))
		if got != "run 1" || err != nil {
			t.Fatalf("the step returned %q, %v", got, err)
		}
	}
	h.does("bob", task.Release, c.Epoch, agent.Report{Reason: "home time"})
	late := c
	c = h.begin("eve")
	if got, err := Step(t.Context(), c, "pay", counted(&ran, nil)); got != "run 1" || err != nil || ran.Load() != 1 {
		t.Errorf("the successor got %q, %v, after %d runs", got, err, ran.Load())
	}
	if _, err := Step(t.Context(), late, "pay", counted(&ran, nil)); !refusedAs(err, protocol.CodeFenced) {
		t.Errorf("the late holder got %v", err)
	}
	h.stop()
	if got, err := Step(t.Context(), c, "pay", counted(&ran, nil)); got != "run 1" || err != nil {
		t.Errorf("without a daemon it returned %q, %v", got, err)
	}
}

// TestNothingRunsBeforeItsIntent checks that a step whose intent nobody takes in is not run.
func TestNothingRunsBeforeItsIntent(t *testing.T) {
	h := newHive(t)
	c := h.begin("bob")
	h.stop()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var ran atomic.Int32
	if _, err := Step(ctx, c, "pay", counted(&ran, nil)); !errors.Is(err, context.Canceled) || ran.Load() != 0 {
		t.Errorf("it got %v, after %d runs", err, ran.Load())
	}
}

func refusedAs(err error, code protocol.Code) bool {
	r, is := errors.AsType[*Refused](err)
	return is && r.Code == code
}

// TestHolderThatSlept checks that a holder who stopped between its intent and its run,
// and goes on when a successor has judged the step, runs nothing: whether the successor
// ran it again or asked a person.
func TestHolderThatSlept(t *testing.T) {
	for _, idempotent := range []bool{true, false} {
		t.Run(strconv.FormatBool(idempotent), func(t *testing.T) {
			h := newHive(t)
			c := h.begin("bob")
			var ran atomic.Int32
			slept := &doing{Capsule: c, spec: Spec{Name: "pay", Idempotent: idempotent}, n: 1, tries: 1, work: Work{Run: func(context.Context, Attempt) End { ran.Add(100); return End{} }}}
			testenv.Must(t, slept.step(t.Context()))
			if slept.intent == "" {
				t.Fatal("the first step of a step is not its intent")
			}
			h.does("bob", task.Release, c.Epoch, nil)
			next := h.begin("eve")
			var options []Option[string]
			if idempotent {
				options = append(options, Idempotent[string]())
			}
			_, err := Step(t.Context(), next, "pay", counted(&ran, nil), options...)
			want := int32(1)
			if !idempotent {
				want = 0
			}
			if errors.Is(err, ErrAsked) == idempotent || ran.Load() != want {
				t.Fatalf("the successor got %v, after %d runs", err, ran.Load())
			}
			for err = nil; err == nil && slept.done == nil; {
				err = slept.step(t.Context())
			}
			if !refusedAs(err, protocol.CodeFenced) || ran.Load() != want {
				t.Errorf("whoever had slept got %v, after %d runs", err, ran.Load())
			}
		})
	}
}

// TestHolderThatSleptPastTheEnd checks that a holder who stopped between its intent and its
// run, and goes on when its task has ended, runs nothing.
func TestHolderThatSleptPastTheEnd(t *testing.T) {
	h := newHive(t)
	c := h.begin("bob")
	ran := false
	slept := &doing{Capsule: c, spec: Spec{Name: "pay"}, n: 1, tries: 1, work: Work{Run: func(context.Context, Attempt) End { ran = true; return End{} }}}
	testenv.Must(t, slept.step(t.Context()))
	h.does("bob", task.FatalError, c.Epoch, agent.Report{Reason: "given up"})
	var err error
	for err == nil && slept.done == nil {
		err = slept.step(t.Context())
	}
	if !refusedAs(err, protocol.CodeFenced) || ran {
		t.Errorf("it got %v, and ran: %v", err, ran)
	}
}

// TestDenialIsNoJudgement checks that a step which a person was asked about is not run
// because of a denial: whoever resumes the task asks again.
func TestDenialIsNoJudgement(t *testing.T) {
	h := newHive(t)
	c := h.begin("bob")
	slept := &doing{Capsule: c, spec: Spec{Name: "pay"}, n: 1, tries: 1}
	testenv.Must(t, slept.step(t.Context()))
	var ran atomic.Int32
	if _, err := Step(t.Context(), c, "pay", counted(&ran, nil)); !errors.Is(err, ErrAsked) {
		t.Fatalf("the doubt got %v", err)
	}
	v, err := agent.View(h.disk, h.id)
	testenv.Must(t, err)
	h.does("human", task.ApprovalDenied, 0, agent.Report{Ask: v.Question.Ask})
	h.id = h.does("human", task.Resume, 0, nil).Task
	next := h.begin("eve")
	if _, err := Step(t.Context(), next, "pay", counted(&ran, nil)); !errors.Is(err, ErrAsked) || ran.Load() != 0 {
		t.Errorf("whoever resumed it got %v, after %d runs", err, ran.Load())
	}
}

// runs begins a step and returns when it runs: its end, and what lets it end.
func runs(c *Capsule, ran *atomic.Int32) (ended chan error, goOn chan struct{}) {
	running := make(chan struct{})
	ended, goOn = make(chan error, 1), make(chan struct{})
	go func() {
		_, err := Step(context.Background(), c, "pay", counted(ran, func() { close(running); <-goOn }))
		ended <- err
	}()
	<-running
	return ended, goOn
}

// TestLockOfAnotherRun checks that a step which somebody still runs is waited for, and
// that a person is asked then; and that the answer wait waits until its end, which counts.
func TestLockOfAnotherRun(t *testing.T) {
	h := newHive(t)
	c := h.begin("bob")
	var ran atomic.Int32
	first, goOn := runs(c, &ran)
	h.does("bob", task.Release, c.Epoch, nil)
	next := h.begin("eve")
	if _, err := Step(t.Context(), next, "pay", counted(&ran, nil), Idempotent[string]()); !errors.Is(err, ErrAsked) {
		t.Fatalf("beside another run: %v", err)
	}
	v, err := agent.View(h.disk, h.id)
	testenv.Must(t, err)
	if q := v.Question; q == nil || strings.Join(q.Choices, " ") != "wait happened again" {
		t.Fatalf("the question is %+v", q)
	}
	h.does("human", task.ApprovalGranted, 0, agent.Report{Ask: v.Question.Ask, Choice: "wait"})
	second := make(chan string, 1)
	go func() {
		got, err := Step(context.Background(), next, "pay", counted(&ran, nil), Idempotent[string]())
		second <- fmt.Sprint(got, " ", err)
	}()
	close(goOn)
	if err := <-first; err != nil {
		t.Errorf("the first run got %v", err)
	}
	if got := <-second; got != "run 1 <nil>" || ran.Load() != 1 {
		t.Errorf("whoever waited got %s, after %d runs", got, ran.Load())
	}
}

// TestLockThatIsGone checks that a step whose lock was removed while it was under way is
// not run: whoever runs it may hold the file that was removed.
func TestLockThatIsGone(t *testing.T) {
	h := newHive(t)
	c := h.begin("bob")
	slept := &doing{Capsule: c, spec: Spec{Name: "pay"}, n: 1, tries: 1}
	testenv.Must(t, slept.step(t.Context()))
	testenv.Must(t, h.disk.Remove(protocol.LockOf(protocol.StepFile(c.origin, 1, "pay"))))
	var ran atomic.Int32
	if _, err := Step(t.Context(), c, "pay", counted(&ran, nil), Idempotent[string]()); !errors.Is(err, ErrAsked) || ran.Load() != 0 {
		t.Errorf("it got %v, after %d runs", err, ran.Load())
	}
	v, err := agent.View(h.disk, h.id)
	testenv.Must(t, err)
	h.does("human", task.ApprovalGranted, 0, agent.Report{Ask: v.Question.Ask, Choice: "again"})
	if got, err := Step(t.Context(), c, "pay", counted(&ran, nil)); got != "run 1" || err != nil {
		t.Errorf("after the answer it got %q, %v", got, err)
	}
}

// TestStepFails checks that a function which fails runs again as often as it may, and
// whenever the step is named again.
func TestStepFails(t *testing.T) {
	h := newHive(t)
	c := h.begin("bob")
	runs := 0
	do := func(context.Context, string) (int, error) {
		if runs++; runs < 4 {
			return 0, errors.New("no network")
		}
		return runs, nil
	}
	_, err := Step(t.Context(), c, "fetch", do, Retries[int](1))
	if failed, is := errors.AsType[*Failed](err); !is || runs != 2 || !strings.Contains(failed.Error(), "no network") {
		t.Fatalf("after %d runs: %v", runs, err)
	}
	if n, err := Step(t.Context(), c, "fetch", do, Retries[int](1)); n != 4 || err != nil {
		t.Errorf("named again it returned %d, %v", n, err)
	}
}

// TestStepIsVerified checks that a step whose end nobody saw is judged by its function.
func TestStepIsVerified(t *testing.T) {
	for _, there := range []bool{true, false} {
		t.Run(strconv.FormatBool(there), func(t *testing.T) {
			h := newHive(t)
			c := h.begin("bob")
			slept := &doing{Capsule: c, spec: Spec{Name: "pay"}, n: 1, tries: 1}
			testenv.Must(t, slept.step(t.Context()))
			var ran atomic.Int32
			got, err := Step(t.Context(), c, "pay", counted(&ran, nil), Verified(func(context.Context, string) (string, bool, error) { return "found", there, nil }))
			want := "run 1"
			if there {
				want = "found"
			}
			if got != want || err != nil {
				t.Errorf("it returned %q, %v", got, err)
			}
		})
	}
}

// TestVerifiedAnew checks that what a verify command said counts for the run before it was
// asked, and for none after: a run that was killed when it had its effect is not followed
// by another.
func TestVerifiedAnew(t *testing.T) {
	h := newHive(t)
	c := h.begin("bob")
	slept := &doing{Capsule: c, spec: Spec{Name: "pay"}, n: 1, tries: 1}
	testenv.Must(t, slept.step(t.Context()))
	paid := 0
	work := Work{
		Run: func(context.Context, Attempt) End { paid++; return End{Signal: "KILL"} },
		Verify: func(context.Context, string) (int, []byte) {
			if paid > 0 {
				return 0, []byte("paid")
			}
			return 1, nil
		},
	}
	r, err := c.Do(t.Context(), Spec{Name: "pay", Verify: "was it paid?", Retries: 3}, work)
	if err != nil || paid != 1 || r.Output == nil || r.Output.Text != "paid" {
		t.Errorf("it was paid %d times: %+v, %v", paid, r, err)
	}
}

// TestWorkIsTidied checks that a step leaves nothing in the agent's directory when its end is
// in the log, and that what is left of tasks that are no more goes with the next one.
func TestWorkIsTidied(t *testing.T) {
	h := newHive(t)
	c := h.begin("bob")
	old := protocol.WorkDir(c.Box.ID()) + "/01M7YW2XY9P0EW1X9MFVTQ8901-1-1.outbox/deep"
	testenv.Must(t, h.disk.MkdirAll(old, 0o755))
	testenv.Must(t, durable.Publish(h.disk, old+"/1.json", []byte("{}"), 0o644, durable.Unsynced))
	testenv.Must(t, h.disk.MkdirAll(protocol.WorkDir(c.Box.ID())+"/my-notes", 0o755))
	sends := `mkdir "$HIVE_STEP_OUTBOX/more"; echo '{"to": "eve", "subject": "hi"}' >"$HIVE_STEP_OUTBOX/1.json"`
	for _, name := range []string{"one", "two"} {
		testenv.Must(t, c.Command(t.Context(), Spec{Name: name, Argv: []string{"sh", "-c", sends}}, &strings.Builder{}, &strings.Builder{}))
	}
	left := func() (names []string) {
		entries, err := h.disk.ReadDir(protocol.WorkDir(c.Box.ID()))
		testenv.Must(t, err)
		for _, e := range entries {
			names = append(names, e.Name)
		}
		return names
	}
	if got, want := left(), []string{string(c.Task) + "-1.pass", "my-notes"}; !slices.Equal(got, want) {
		t.Errorf("after two steps there is %v, want %v", got, want)
	}
	h.does("bob", task.Release, c.Epoch, nil)
	c = h.begin("bob")
	testenv.Must(t, c.Command(t.Context(), Spec{Name: "one", Argv: []string{"true"}}, &strings.Builder{}, &strings.Builder{}))
	if got, want := left(), []string{string(c.Task) + "-2.pass", "my-notes"}; !slices.Equal(got, want) {
		t.Errorf("under the next epoch there is %v, want %v", got, want)
	}
}

// TestMessagesOfAnEarlierTask checks that the messages which a killed run left are sent when
// its step is found to be done, also by a task that resumes the one it ran for.
func TestMessagesOfAnEarlierTask(t *testing.T) {
	h := newHive(t)
	c := h.begin("bob")
	pay := `echo '{"to": "eve", "subject": "paid"}' >"$HIVE_STEP_OUTBOX/1.json"; kill -9 $$`
	err := c.Command(t.Context(), Spec{Name: "pay", Argv: []string{"sh", "-c", pay}}, &strings.Builder{}, &strings.Builder{})
	if !errors.Is(err, ErrAsked) {
		t.Fatalf("a step that was killed got %v", err)
	}
	v, err := agent.View(h.disk, h.id)
	testenv.Must(t, err)
	h.does("human", task.ApprovalDenied, 0, agent.Report{Ask: v.Question.Ask})
	h.id = h.does("human", task.Resume, 0, nil).Task
	c = h.begin("bob")
	testenv.Must(t, c.Command(t.Context(), Spec{Name: "pay", Argv: []string{"false"}, Verify: "exit 0"}, &strings.Builder{}, &strings.Builder{}))
	eve, err := agent.Open(h.disk, "eve")
	testenv.Must(t, err)
	wait.Until(t, "eve to be told that it was paid", func() bool {
		list, err := eve.Inbox()
		return err == nil && slices.ContainsFunc(list, func(x agent.Delivery) bool { return x.Message.Subject == "paid" })
	})
}

// TestOptionsOfAStep checks that the record has the command that undoes a step, and that
// a run may leave a step out that an earlier one had begun.
func TestOptionsOfAStep(t *testing.T) {
	h := newHive(t)
	c := h.begin("bob")
	var ran atomic.Int32
	for _, name := range []string{"one", "two"} {
		_, err := Step(t.Context(), c, name, counted(&ran, nil), Undo[string]("undo "+name))
		testenv.Must(t, err)
	}
	if r := c.record(2, "two"); r == nil || r.Undo != "undo two" {
		t.Errorf("the record is %+v", r)
	}
	h.does("bob", task.Release, c.Epoch, nil)
	c = h.begin("eve")
	if _, err := Step(t.Context(), c, "three", counted(&ran, nil)); !errors.Is(err, ErrOrder) {
		t.Errorf("a step out of its turn got %v", err)
	}
	if got, err := Step(t.Context(), c, "three", counted(&ran, nil), Skip[string]("one", "two")); got != "run 3" || err != nil {
		t.Errorf("it returned %q, %v", got, err)
	}
}

// TestRecordThatIsDamaged checks that a step whose record is missing, torn or forged is
// not run again where the log says that it was done: hive's refusal has the record.
func TestRecordThatIsDamaged(t *testing.T) {
	forged := `{"n": 1, "name": "pay", "round": 1, "try": 1, "status": %q, "task": "T", "by": "bob", "epoch": 1, "key": "%s:pay", "started_at": "2026-11-23T00:00:00Z"}`
	for name, text := range map[string]string{
		"empty": "", "torn": `{"n": 1, "na`, "of another step": `{"n": 2, "name": "pay", "key": "x:pay"}`, "missing": "-",
		"forged as undone": fmt.Sprintf(forged, "undone", "%s"), "forged as failed": fmt.Sprintf(forged, "failed", "%s"), "forged as begun": fmt.Sprintf(forged, "executing", "%s"),
	} {
		t.Run(name, func(t *testing.T) {
			h := newHive(t)
			c := h.begin("bob")
			var ran atomic.Int32
			_, err := Step(t.Context(), c, "pay", counted(&ran, nil))
			testenv.Must(t, err)
			path := protocol.StepFile(c.origin, 1, "pay")
			if text == "-" {
				testenv.Must(t, h.disk.Remove(path))
			} else {
				testenv.Must(t, durable.Publish(h.disk, path, []byte(strings.ReplaceAll(text, "%s", string(c.origin))), 0o644, durable.Unsynced))
			}
			if got, err := Step(t.Context(), c, "pay", counted(&ran, nil), Idempotent[string]()); got != "run 1" || err != nil || ran.Load() != 1 {
				t.Errorf("it returned %q, %v, after %d runs", got, err, ran.Load())
			}
		})
	}
}

// TestLockThatWasReplaced checks that a lock which was replaced while a step runs is no
// lock: nothing is run beside it.
func TestLockThatWasReplaced(t *testing.T) {
	h := newHive(t)
	c := h.begin("bob")
	var ran atomic.Int32
	first, goOn := runs(c, &ran)
	lock := protocol.LockOf(protocol.StepFile(c.origin, 1, "pay"))
	testenv.Must(t, h.disk.Remove(lock))
	beside := &doing{Capsule: c, spec: Spec{Name: "pay"}, n: 1, tries: 1}
	if err := beside.step(t.Context()); err != nil || beside.state != lockMissing {
		t.Errorf("without its file the lock is %d, %v", beside.state, err)
	}
	close(goOn)
	if err := <-first; err != nil || ran.Load() != 1 {
		t.Errorf("the run got %v, after %d runs", err, ran.Load())
	}
}
