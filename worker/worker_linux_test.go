package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hived/hived/agent"
	"github.com/hived/hived/eventlog"
	"github.com/hived/hived/hive"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/process"
	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/internal/wait"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/router"
	"github.com/hived/hived/task"
	"github.com/hived/hived/worker/adapter"
	"github.com/hived/hived/worker/run"
)

// hiveOf is a hive with a daemon, and two agents, bob and eve.
type hiveOf struct {
	*testing.T
	disk     *durable.Disk
	settings protocol.Settings
}

// newHive returns a hive whose daemon runs until the end of the test.
func newHive(t *testing.T, change func(*protocol.Settings)) *hiveOf {
	t.Helper()
	h := newHiveAlone(t, change)
	r, err := router.New(h.disk, router.Config{Settings: h.settings})
	testenv.Must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := wait.Ended(wait.Longest, "the daemon to stop", ended); err != nil {
			t.Errorf("the daemon ended with %v", err)
		}
	})
	return h
}

// newHiveAlone returns a hive without a daemon.
func newHiveAlone(t *testing.T, change func(*protocol.Settings)) *hiveOf {
	t.Helper()
	disk, err := durable.Open(t.TempDir())
	testenv.Must(t, err)
	t.Cleanup(func() { testenv.Must(t, disk.Close()) })
	h := &hiveOf{T: t, disk: disk, settings: protocol.DefaultSettings()}
	h.settings.Git.CommitDelay = time.Minute
	h.settings.Tasks.Backoff = protocol.Backoff{Base: time.Millisecond, Max: time.Millisecond}
	h.settings.Work.Grace, h.settings.Work.Drain = 10*time.Millisecond, 10*time.Millisecond
	if change != nil {
		change(&h.settings)
	}
	for _, id := range []protocol.AgentID{"bob", "eve"} {
		testenv.Must(t, disk.MkdirAll(protocol.OutboxDir(id), 0o755))
	}
	testenv.Must(t, hive.Init(disk, hive.Options{Settings: h.settings, Template: []byte("# settings\n"), Now: time.Now()}))
	return h
}

// does has somebody give a command about a task, and returns the answer.
func (h *hiveOf) does(who protocol.AgentID, c agent.Command) agent.Answer {
	h.Helper()
	ctx, cancel := context.WithTimeout(h.Context(), wait.Longest)
	defer cancel()
	box, err := agent.Open(h.disk, who)
	testenv.Must(h, err)
	draft, err := c.Draft(time.Now())
	testenv.Must(h, err)
	sent, err := box.Send(draft)
	testenv.Must(h, err)
	a, err := box.Answer(ctx, sent.ID)
	testenv.Must(h, err)
	return a
}

// create makes tasks for bob.
func (h *hiveOf) create(bodies ...string) (ids []protocol.TaskID) {
	h.Helper()
	var list []protocol.TaskSpec
	for _, body := range bodies {
		list = append(list, protocol.TaskSpec{Title: "do it", Body: body, To: []protocol.Address{"bob"}})
	}
	a := h.does(protocol.Human, agent.Command{Event: task.Create, Data: agent.NewTasks{Tasks: list}})
	if a.Code != protocol.CodeOK {
		h.Fatalf("create: %+v", a)
	}
	if len(bodies) == 1 {
		return []protocol.TaskID{a.Task}
	}
	return a.Tasks
}

// worker returns a worker of bob with an adapter, which runs until it is stopped.
func (h *hiveOf) worker(yaml string, change func(*Config)) (stop func()) {
	h.Helper()
	w, release := h.newWorker(yaml, change)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		_, err := w.Run(ctx)
		ended <- errors.Join(err, release())
	}()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := wait.Ended(wait.Longest, "the worker to stop", ended); err != nil {
			h.Errorf("the worker ended with %v", err)
		}
	}
	h.Cleanup(stop)
	return stop
}

func (h *hiveOf) newWorker(yaml string, change func(*Config)) (*Worker, func() error) {
	h.Helper()
	a, err := adapter.Parse("adapters/test.yaml", []byte(yaml))
	testenv.Must(h, err)
	box, err := agent.Open(h.disk, "bob")
	testenv.Must(h, err)
	c := Config{
		Home:    Hive{Disk: h.disk, Box: box, Settings: h.settings, Runs: func() (bool, error) { return true, nil }},
		Adapter: a, Slots: 1, Dir: h.TempDir(), Environ: os.Environ(), Grace: h.settings.Work.Grace, Log: slog.New(slog.DiscardHandler),
	}
	if change != nil {
		change(&c)
	}
	w, release, err := New(c)
	testenv.Must(h, err)
	return w, release
}

const shell = "name: test\nrun: [sh, -c, \"{body}\"]\nprompt: argument\ndirectory: \"{in}\"\nenvironment: [PATH, F]\n"

func (h *hiveOf) view(id protocol.TaskID) *task.View {
	v, err := agent.View(h.disk, id)
	if err != nil {
		return &task.View{}
	}
	return v
}

// until waits until a task is in a state.
func (h *hiveOf) until(id protocol.TaskID, s task.State) {
	h.Helper()
	wait.Until(h.T, "task "+string(id)+" to be "+string(s), func() bool { return h.view(id).State == s })
}

// TestSlots checks that several tasks are executed at one time, each once.
func TestSlots(t *testing.T) {
	h := newHive(t, nil)
	file := filepath.Join(t.TempDir(), "ran")
	t.Setenv("F", file)
	// Three of them wait for each other.
	ids := h.create(slices.Repeat([]string{`echo $HIVE_TASK >>"$F"; while test $(wc -l <"$F") -lt 3; do sleep 0.01; done`}, 12)...)
	h.worker(shell, func(c *Config) { c.Slots = 3 })
	for _, id := range ids {
		h.until(id, task.Completed)
	}
	text, err := os.ReadFile(file)
	testenv.Must(t, err)
	ran := strings.Fields(string(text))
	slices.Sort(ran)
	if len(ran) != 12 || len(slices.Compact(ran)) != 12 {
		t.Errorf("%d executions of 12 tasks: %v", len(ran), ran)
	}
}

// TestBehind checks that a task whose file does not show yet what was reported of it is not
// executed again.
func TestBehind(t *testing.T) {
	h := newHive(t, nil)
	id := h.create("exit 0")[0]
	a := h.does("bob", agent.Command{Event: task.Claim, Task: id, Data: agent.Report{Start: true}})
	h.until(id, task.InProgress)
	w, release := h.newWorker(shell, nil)
	s := w.sites[0]
	s.look(id, time.Now())
	if list := s.ready(); len(list) != 1 || list[0].epoch != a.Epoch {
		t.Fatalf("ready: %v", list)
	}
	x := s.ready()[0]
	w.running[x] = true
	ended{s, x, result{task: id, kind: protocol.OutcomeFailed, through: 1 << 40}}.apply(w, time.Now())
	if list := s.ready(); len(list) != 0 || s.waiting() != 1 {
		t.Errorf("ready: %v, and %d wait", list, s.waiting())
	}
	testenv.Must(t, release())
}

// TestOneWorker checks that an agent has one worker at a time.
func TestOneWorker(t *testing.T) {
	h := newHive(t, nil)
	h.worker(shell, nil)
	box, err := agent.Open(h.disk, "bob")
	testenv.Must(t, err)
	a, err := adapter.Parse("adapters/test.yaml", []byte(shell))
	testenv.Must(t, err)
	if _, _, err := New(Config{Home: Hive{Disk: h.disk, Box: box}, Adapter: a, Slots: 1, Log: slog.New(slog.DiscardHandler)}); !errors.Is(err, durable.ErrLocked) {
		t.Errorf("a second worker: %v", err)
	}
}

// TestManyWorkers checks that of twenty workers with one task one claims it, and nobody is
// refused because another was faster.
func TestManyWorkers(t *testing.T) {
	h := newHive(t, nil)
	const workers = 20
	for i := range workers {
		id := protocol.AgentID(fmt.Sprintf("worker-%02d", i))
		testenv.Must(t, h.disk.MkdirAll(protocol.OutboxDir(id), 0o755))
		box, err := agent.Open(h.disk, id)
		testenv.Must(t, err)
		h.worker(shell, func(c *Config) { c.Home.Box = box })
	}
	count := func() (claimed, completed, idle int, refused []protocol.Code) {
		for _, ev := range h.logged() {
			switch e := ev.Body.(type) {
			case *protocol.TaskEvent:
				switch e.Event {
				case task.Claim, task.Accept:
					claimed++
				case task.Complete:
					completed++
				}
			case *protocol.TaskRejectedEvent:
				if e.Code == protocol.CodeNoTask {
					idle++
				} else {
					refused = append(refused, e.Code)
				}
			}
		}
		return claimed, completed, idle, refused
	}
	wait.Until(t, "all workers to have nothing to do", func() bool { _, _, idle, _ := count(); return idle >= workers })
	_, _, before, _ := count()
	a := h.does(protocol.Human, agent.Command{Event: task.Create, Data: agent.NewTasks{Tasks: []protocol.TaskSpec{{Title: "one", Body: "true"}}}})
	h.until(a.Task, task.Completed)
	claimed, completed, idle, refused := count()
	if claimed != 1 || completed != 1 || len(refused) > 0 {
		t.Errorf("%d claims, %d completions, refused %v", claimed, completed, refused)
	}
	if asked := idle - before; asked > h.settings.Tasks.Offers {
		t.Errorf("%d workers asked for it in vain, and it was offered to %d", asked, h.settings.Tasks.Offers)
	}
}

// TestStopped checks that a worker which is told to stop gives its task back, free of
// charge, and that nothing of it goes on.
func TestStopped(t *testing.T) {
	h := newHive(t, nil)
	file := filepath.Join(t.TempDir(), "pid")
	t.Setenv("F", file)
	id := h.create(`echo $$ >"$F.new"; mv "$F.new" "$F"; exec sleep 600`)[0]
	stop := h.worker(shell, nil)
	wait.Until(t, "the program to begin", func() bool { _, err := os.Stat(file); return err == nil })
	stop()
	h.until(id, task.Unassigned)
	if v := h.view(id); v.Free != 1 || v.Retries != 0 {
		t.Errorf("it counts as %d free, %d retries", v.Free, v.Retries)
	}
	out, err := exec.Command("sh", "-c", "kill -0 $(cat "+file+")").CombinedOutput()
	if err == nil {
		t.Errorf("the program still runs: %s", out)
	}
}

// TestClaimTakenBack checks that a worker which is told to stop takes back the claim that a
// daemon which has ended cannot answer: the task would come to nobody.
func TestClaimTakenBack(t *testing.T) {
	h := newHiveAlone(t, nil)
	var down atomic.Bool
	stop := h.worker(shell, func(c *Config) { c.Home.Runs = func() (bool, error) { return !down.Load(), nil } })
	claims := func() (n int) {
		box, err := agent.Open(h.disk, "bob")
		testenv.Must(t, err)
		names, err := box.Pending()
		testenv.Must(t, err)
		for _, name := range names {
			text, _, err := durable.ReadFile(h.disk, protocol.OutboxDir("bob")+"/"+name, 1<<20)
			if err == nil && strings.Contains(string(text), `"claim"`) {
				n++
			}
		}
		return n
	}
	wait.Until(t, "a claim", func() bool { return claims() == 1 })
	down.Store(true)
	stop()
	if n := claims(); n != 0 {
		t.Errorf("%d claims are left", n)
	}
}

// TestSuspended checks that a program which was suspended, and hears of no signal but the
// last, is ended when its task is cancelled, with what it started.
func TestSuspended(t *testing.T) {
	h := newHive(t, nil)
	file := filepath.Join(t.TempDir(), "pids")
	t.Setenv("F", file)
	id := h.create(`sleep 600 & echo $$ $! >"$F"; kill -STOP $! $$`)[0]
	h.worker(shell, nil)
	var pids []string
	wait.Until(t, "the program to be suspended", func() bool {
		text, err := os.ReadFile(file)
		pids = strings.Fields(string(text))
		if err != nil || len(pids) != 2 {
			return false
		}
		stat, err := os.ReadFile("/proc/" + pids[0] + "/stat")
		return err == nil && strings.Contains(string(stat), ") T ")
	})
	h.does(protocol.Human, agent.Command{Event: task.Cancel, Task: id})
	h.until(id, task.Cancelled)
	for _, pid := range pids {
		if out, err := exec.Command("kill", "-0", pid).CombinedOutput(); err == nil {
			t.Errorf("process %s still runs: %s", pid, out)
		}
	}
}

// TestLeftByAKilledWorker checks that an execution which a dead worker left is ended and
// reported as crashed, once, before its task is executed again; and that an outcome which
// the dead worker had noted is the one that counts.
func TestLeftByAKilledWorker(t *testing.T) {
	for name, noted := range map[string]protocol.OutcomeKind{"without an outcome": "", "with its outcome": protocol.OutcomeCompleted} {
		t.Run(name, func(t *testing.T) {
			h := newHive(t, nil)
			id := h.create("exit 0")[0]
			a := h.does("bob", agent.Command{Event: task.Claim, Task: id, Data: agent.Report{Start: true}})
			box, err := agent.Open(h.disk, "bob")
			testenv.Must(t, err)
			s := newSite(Hive{Disk: h.disk, Box: box}, slog.New(slog.DiscardHandler))
			r := record{Task: id, Epoch: a.Epoch, Run: string(id) + "-left", Adapter: "test"}
			testenv.Must(t, s.note(r, durable.Synced))
			if noted != "" {
				testenv.Must(t, s.conclude(&r, protocol.TaskReport{Outcome: protocol.Outcome{Kind: noted, Adapter: "test"}}))
				_, err := box.Send(*r.Report) // and it was sent before the worker was killed
				testenv.Must(t, err)
			}
			pid := filepath.Join(t.TempDir(), "pid")
			process.Command{Args: []string{"sh", "-c", `(setsid sleep 600 >/dev/null 2>&1 & echo $! >` + pid + `)`}, Env: append(os.Environ(), run.EnvRun+"="+r.Run)}.Do(t.Context())
			h.worker(shell, nil)
			h.until(id, task.Completed)
			task, err := agent.ReadTask(h.disk, id)
			testenv.Must(t, err)
			if want := 1 - len(noted)/9; task.View.Crashes != want || task.View.Retries != want {
				t.Errorf("%d crashes and %d retries, want %d", task.View.Crashes, task.View.Retries, want)
			}
			wait.Until(t, "the program to end", func() bool {
				for _, o := range process.Orphans() { // here they were adopted by this test
					o.Reap()
				}
				return exec.Command("sh", "-c", "kill -0 $(cat "+pid+")").Run() != nil
			})
			wait.Until(t, "the note to go", func() bool { list, err := h.disk.ReadDir(s.runs()); return err == nil && len(list) == 0 })
		})
	}
}

// TestLost checks that the program of a task that went to somebody else is ended, and that
// what it cost is known.
func TestLost(t *testing.T) {
	h := newHive(t, nil)
	file := filepath.Join(t.TempDir(), "pid")
	t.Setenv("F", file)
	a := h.does(protocol.Human, agent.Command{Event: task.Create, Data: agent.NewTask{Title: "t", Body: `echo $$ >"$F.new"; mv "$F.new" "$F"; exec sleep 600`}})
	h.worker(shell, nil)
	wait.Until(t, "the program to begin", func() bool { _, err := os.Stat(file); return err == nil })
	h.does("bob", agent.Command{Event: task.Release, Task: a.Task, Epoch: 1})
	if b := h.does("eve", agent.Command{Event: task.Claim, Task: a.Task, Data: agent.Report{Start: true}}); b.Epoch != 2 {
		t.Fatalf("eve's claim: %+v", b)
	}
	wait.Until(t, "the program to end", func() bool { return exec.Command("sh", "-c", "kill -0 $(cat "+file+")").Run() != nil })
	wait.Until(t, "the outcome to be in the log", func() bool {
		for rec, err := range eventlog.Read(h.disk, eventlog.Position{}) {
			if err != nil {
				return false
			}
			if e, is := rec.Event.Body.(*protocol.TaskRejectedEvent); is && e.Outcome != nil && e.Outcome.Kind == protocol.OutcomeLeaseLost {
				return e.Code == protocol.CodeFenced
			}
		}
		return false
	})
}

// TestOneLogin checks that of many tasks that need a login one asks, and none fails.
func TestOneLogin(t *testing.T) {
	h := newHive(t, nil)
	ids := h.create(slices.Repeat([]string{"echo please log in"}, 100)...)
	h.worker(shell+"patterns: [{in: output, match: 'please log in', outcome: needs-login}]\n", func(c *Config) { c.Slots = 4 })
	asking := func() (n int) {
		for _, id := range ids {
			if v := h.view(id); v.State == task.Paused {
				n++
			} else if task.Ended(v.State) {
				t.Fatalf("task %s is %s", id, v.State)
			}
		}
		return n
	}
	wait.Until(t, "a task to ask", func() bool { return asking() > 0 })
	wait.Until(t, "the others to be given back", func() bool {
		return !slices.ContainsFunc(ids, func(id protocol.TaskID) bool { s := h.view(id).State; return s == task.InProgress || s == task.Pending })
	})
	if n := asking(); n != 1 {
		t.Errorf("%d tasks ask", n)
	}
}

// TestLimited checks that a limit costs nothing, and that at most as many tasks find it as
// are executed at one time.
func TestLimited(t *testing.T) {
	h := newHive(t, nil)
	ids := h.create(slices.Repeat([]string{"echo wait 540 seconds"}, 50)...)
	h.worker(shell+"patterns: [{in: output, match: 'wait (\\d+) seconds', outcome: rate-limited, retry_after: 1}]\n", func(c *Config) { c.Slots = 2 })
	taken := func() (n int) {
		for _, id := range ids {
			if v := h.view(id); v.Epoch > 0 {
				n++
			}
		}
		return n
	}
	member := func() agent.Member {
		list, err := agent.Roster(h.disk)
		testenv.Must(t, err)
		return list[slices.IndexFunc(list, func(m agent.Member) bool { return m.ID == "bob" })]
	}
	wait.Until(t, "the agent to take no task", func() bool { m := member(); return m.Takes != nil && *m.Takes == 0 })
	wait.Until(t, "all tasks to be given back", func() bool {
		return !slices.ContainsFunc(ids, func(id protocol.TaskID) bool { return task.Held(h.view(id).State) })
	})
	if n := taken(); n == 0 || n > 2 {
		t.Errorf("%d tasks were begun", n)
	}
	for _, id := range ids {
		if v := h.view(id); v.Retries != 0 || v.Epoch > 0 && v.Free != 1 {
			t.Errorf("task %s: %d retries, %d free", id, v.Retries, v.Free)
		}
	}
}

// TestOldExecutionsGo checks that what the worker kept of a task goes with the task, and
// nothing else does.
func TestOldExecutionsGo(t *testing.T) {
	h := newHive(t, nil)
	id := h.create("echo hello")[0]
	for _, name := range []string{string(id) + "/1-1", "01M7YW2XY9P0EW1X9MFVTQ8901/1-1", "notes"} {
		testenv.Must(t, h.disk.MkdirAll("agents/bob/.work/"+name, 0o755))
		testenv.Must(t, os.WriteFile(h.disk.Path("agents/bob/.work/"+name+"/out"), []byte("x"), 0o600))
	}
	h.worker(shell, nil)
	h.until(id, task.Completed)
	entries, err := h.disk.ReadDir("agents/bob/.work")
	testenv.Must(t, err)
	var names []string
	for _, e := range entries {
		if e.Name != lockFile && e.Name != "runs" {
			names = append(names, e.Name)
		}
	}
	if want := []string{string(id), "notes"}; !slices.Equal(names, want) {
		t.Errorf("there are %v, want %v", names, want)
	}
}

// execution returns an execution of a task that bob has taken, outside of the worker's
// loop.
func (h *hiveOf) execution(id protocol.TaskID, yaml string) *execution {
	h.Helper()
	a := h.does("bob", agent.Command{Event: task.Claim, Task: id, Data: agent.Report{Start: true}})
	w, release := h.newWorker(yaml, nil)
	s := w.sites[0]
	reading, stop := context.WithCancel(context.Background())
	h.Cleanup(func() { stop(); w.started.Wait(); testenv.Must(h, release()) })
	s.mail = newMail(s.Box, s.Disk, func(notice) {})
	w.started.Go(func() { s.mail.read(reading) })
	return newExecution(w, s, hold{task: id, epoch: a.Epoch, poke: make(chan struct{}, 1)})
}

// outcome waits for the outcome that hived has of a task.
func (h *hiveOf) outcome(id protocol.TaskID) (o *task.LastOutcome) {
	h.Helper()
	wait.Until(h.T, "the outcome", func() bool {
		t, err := agent.ReadTask(h.disk, id)
		if err == nil {
			o = t.Outcome
		}
		return o != nil
	})
	return o
}

// TestUnreadableTask checks that a task whose files are damaged fails by itself, and does
// not keep the program from the others.
func TestUnreadableTask(t *testing.T) {
	h := newHive(t, nil)
	id := h.create("exit 0")[0]
	testenv.Must(t, os.WriteFile(h.disk.Path(protocol.TaskDir(id)+"/"+protocol.TaskBrief), []byte("{"), 0o644))
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond) // as long as it is waited for better files
	defer cancel()
	r := h.execution(id, shell).run(ctx)
	o := h.outcome(id)
	if r.kind != protocol.OutcomeFailed || o.Task != id || o.Kind != r.kind || !strings.Contains(o.Reason, "cannot be read") {
		t.Errorf("it ended as %+v, and hived has %+v", r, o)
	}
	if c := (circuit{}).next(r, time.Now()); c != (circuit{}) {
		t.Errorf("the circuit is %+v", c)
	}
}

// TestTailOfTheProgram checks that the tail of an outcome is that of the program, whatever
// else ran beside it, and that of the gate where that is why it ended so.
func TestTailOfTheProgram(t *testing.T) {
	for rest, want := range map[string]struct {
		kind protocol.OutcomeKind
		tail string
	}{
		"gate: [echo, gate]\ncleanup: [echo, clean]\n":                  {protocol.OutcomeCompleted, "said"},
		"gate: [sh, -c, 'echo gate; exit 1']\ncleanup: [echo, clean]\n": {protocol.OutcomeUnvalidated, "gate"},
	} {
		h := newHive(t, nil)
		id := h.create("echo said")[0]
		h.execution(id, shell+rest).run(t.Context())
		if o := h.outcome(id); o.Kind != want.kind || strings.TrimSpace(o.Tail) != want.tail {
			t.Errorf("%q: it ended as %s with %q, want %+v", rest, o.Kind, o.Tail, want)
		}
	}
}

// TestStoppedAtTheGate checks that an execution whose gate the worker was told to stop is
// interrupted, and costs nothing.
func TestStoppedAtTheGate(t *testing.T) {
	h := newHive(t, nil)
	file := filepath.Join(t.TempDir(), "gate")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		wait.Until(t, "the gate to begin", func() bool { _, err := os.Stat(file); return err == nil })
		cancel()
	}()
	id := h.create("exit 0")[0]
	h.execution(id, shell+"gate: [sh, -c, 'echo x >"+file+"; exec sleep 600']\n").run(ctx)
	if o := h.outcome(id); o.Kind != protocol.OutcomeInterrupted {
		t.Errorf("it ended as %s: %s", o.Kind, o.Reason)
	}
}
