package torture

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/hived/hived/internal/failpoint"
	"github.com/hived/hived/internal/sweep"
	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/internal/wait"
	"github.com/hived/hived/proof/child"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

var kills = flag.Int("kills", sweep.Of(sweep.Kills), "how often TestKills kills a daemon")

var (
	onlyHostile    = flag.String("hostile", someHostile(), "who do harm in TestHostile, with commas")
	hostileSeed    = flag.Uint64("hostile.seed", 1, "what is random in TestHostile begins with this number")
	hostileCrashes = flag.Int("hostile.crashes", sweep.Of(sweep.Hostile), "how often the daemon is taken away in TestHostile at least")
)

// someHostile are the hostile of a plain run, in which one crash has to do; other runs
// have all at once.
func someHostile() string {
	if sweep.Of(sweep.Hostile) == 1 {
		return "mover,same-ids"
	}
	var names []string
	for _, x := range Hostiles() {
		names = append(names, x.Name)
	}
	return strings.Join(names, ",")
}

var programs struct {
	dir         string
	plain, fail func() (string, error)
}

func TestMain(m *testing.M) {
	testenv.Cheap()
	flag.Parse()
	dir, err := os.MkdirTemp("", "hived-torture-")
	if err != nil {
		panic(err)
	}
	programs.dir = dir
	programs.fail = sync.OnceValues(func() (string, error) { return build("hived-failpoint", "-ldflags", failpoint.Arm) })
	if programs.plain = programs.fail; *kills > 1 { // without its variable the one does what the other does
		programs.plain = sync.OnceValues(func() (string, error) { return build("hived") })
	}
	code := m.Run()
	if err := os.RemoveAll(dir); err != nil && code == 0 {
		panic(err)
	}
	if code == 0 {
		if err := goleak.Find(); err != nil {
			panic(err)
		}
	}
	os.Exit(code)
}

// build makes a program of the source that is tested.
func build(name string, flags ...string) (string, error) {
	out := filepath.Join(programs.dir, name)
	args := append([]string{"build", "-o", out}, flags...)
	if said, err := exec.Command("go", append(args, "github.com/hived/hived/cmd/hived")...).CombinedOutput(); err != nil {
		return "", errors.New(string(said))
	}
	return out, nil
}

func program(t *testing.T, made func() (string, error)) string {
	t.Helper()
	p, err := made()
	testenv.Must(t, err)
	return p
}

// judge fails a test if the report names a problem.
func judge(t *testing.T, r *Report) {
	t.Helper()
	t.Log(r.String())
	for _, p := range r.Problems {
		t.Error(p)
	}
	if r.Lost > 0 || r.Doubled > 0 {
		t.Errorf("%d lost, %d doubled", r.Lost, r.Doubled)
	}
}

// TestKills kills a daemon at random while agents go on, compares what they know with
// the log and the log with files and git, and runs git fsck. The long form: go test ./proof/torture -run TestKills -kills 1000 -timeout 60m
func TestKills(t *testing.T) {
	t.Parallel()
	r, err := Run(t.Context(), Options{Program: program(t, programs.plain), Dir: t.TempDir(), For: time.Hour, Crashes: *kills, Seed: 1})
	testenv.Must(t, err)
	judge(t, &r)
	long := *kills > 1 // one kill may come before much has happened
	if r.Messages == 0 || r.Crashes < *kills || long && (r.Tasks == 0 || r.Checks == 0 || r.Damages < len(allDamages)) {
		t.Errorf("there was not enough to it: %+v", r)
	}
}

// atStop are failpoints that are reached at a clean stop, and rarely before.
var atStop = map[failpoint.Point]bool{
	failpoint.CheckpointSynced: true, failpoint.SnapshotWritten: true, failpoint.SnapshotSynced: true, failpoint.SnapshotRenamed: true,
}

// TestFailpoints kills a daemon at each failpoint, and the daemon that follows it at
// the same one.
func TestFailpoints(t *testing.T) {
	t.Parallel()
	for i, point := range failpoint.Points() {
		if i%sweep.Of(sweep.Failpoints) != 0 {
			continue
		}
		t.Run(string(point), func(t *testing.T) {
			t.Parallel()
			dieAt(t, point)
		})
	}
}

func dieAt(t *testing.T, point failpoint.Point) {
	t.Helper()
	h, err := newHive(t.Context(), Options{Program: program(t, programs.fail), Agents: 4}, filepath.Join(t.TempDir(), "hive"))
	testenv.Must(t, err)
	h.crowd.pace = 10 * time.Millisecond
	end := h.work(t.Context(), rand.New(rand.NewPCG(1, 1)))
	for range 2 {
		if died, err := h.until(t, point, failpoint.Variable+"="+string(point)); err != nil {
			t.Fatal(err)
		} else if !died {
			t.Errorf("the daemon never came to %s", point)
		}
	}
	testenv.Must(t, end())
	var r Report
	testenv.Must(t, h.finish(t.Context(), &r))
	judge(t, &r)
	if r.Messages == 0 {
		t.Error("nobody sent anything")
	}
}

// until runs an armed daemon until it dies, and reports whether it did. A daemon that
// reaches its failpoint only at a clean stop is stopped.
func (h *hive) until(t *testing.T, point failpoint.Point, env string) (died bool, err error) {
	t.Helper()
	if err := h.logged.read(h.dir); err != nil {
		return false, err
	}
	starts := h.logged.starts
	d, err := child.Start(h.program, h.dir, child.Options{Env: []string{env}})
	if err != nil {
		return false, err
	}
	if atStop[point] {
		if err := h.started(t.Context(), d, starts); err != nil {
			return false, errors.Join(err, d.Kill())
		}
	} else {
		select {
		case <-d.Ended():
		case <-time.After(wait.Longest):
		}
	}
	err = d.Stop()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		if strings.Contains(exit.String(), "killed") {
			return true, nil
		}
	}
	return false, err
}

// TestHostile lets the hostile do harm to hives whose daemons are killed, and compares
// what the others sent with what they found. One alone:
// go test ./proof/torture -run TestHostile -hostile echo
func TestHostile(t *testing.T) {
	t.Parallel()
	var names []string
	for _, x := range Hostiles() {
		if slices.Contains(strings.Split(*onlyHostile, ","), x.Name) {
			names = append(names, x.Name)
		}
	}
	var r Report
	random := rand.New(rand.NewPCG(*hostileSeed, 1))
	dir := t.TempDir()
	const hives = 4 // at most, before it is told that somebody did nothing
	idle := func(name string) bool { return r.Hostile[name] == 0 }
	long := *hostileCrashes > 1 // one kill may come before much has happened
	for n := 0; n == 0 || r.OK() && (r.Crashes < *hostileCrashes || long && n < hives && slices.ContainsFunc(names, idle)); n++ {
		h, err := newHive(t.Context(), Options{Program: program(t, programs.plain), Agents: defaultAgents, Hostile: names, Tell: func(string, Report) {}}, filepath.Join(dir, fmt.Sprintf("hive-%d", n)))
		testenv.Must(t, err)
		h.bears(t, random, &r)
	}
	judge(t, &r)
	t.Log(r.Deeds())
	if i := slices.IndexFunc(names, idle); long && i >= 0 {
		t.Errorf("%s did nothing", names[i])
	}
}

// bears kills the daemon of a hive until that was done often enough and each of the
// hostile has done harm, or the hive is full.
func (h *hive) bears(t *testing.T, random *rand.Rand, r *Report) {
	t.Helper()
	const most = 40 // lives
	long := *hostileCrashes > 1
	end := h.work(t.Context(), random)
	for n := 0; n < most && !h.full() && (r.Crashes < *hostileCrashes || long && !h.crowd.known.did(h.hostile)); n++ {
		testenv.Must(t, h.crash(t.Context(), random, r))
	}
	testenv.Must(t, end())
	testenv.Must(t, h.finish(t.Context(), r))
}

// TestFinishWithTheHostile checks that the report names a harmless agent that was
// stopped, an echoing one that was not, and a question that was answered in time to
// no effect.
func TestFinishWithTheHostile(t *testing.T) {
	h, err := newHive(t.Context(), Options{Program: "true", Agents: 3, Hostile: []string{"echo", "late-answers"}}, filepath.Join(t.TempDir(), "hive"))
	testenv.Must(t, err)
	for _, e := range []protocol.Body{
		&protocol.MessageEvent{From: crowdNames + "1", Kept: &protocol.Kept{Reason: protocol.HopCap}},
		&protocol.DropEvent{From: crowdNames + "2", Reason: protocol.InboxFull},
		&protocol.AlertEvent{Code: protocol.CodeEchoCap, Agent: crowdNames + "3"},
		&protocol.AlertEvent{Code: protocol.CodeEchoCap, Agent: crowdNames + "echo-1"},
		&protocol.MessageEvent{From: crowdNames + "echo-1"},
		&protocol.TaskEvent{Task: "one", Event: task.PauseForApproval},
	} {
		h.logged.note(protocol.Event{Seq: 7, Body: e})
	}
	h.logged.from[stranger("echo-2")] = echoesMost
	h.crowd.known.approves(question{"one", 7})
	h.crowd.known.inTime(question{"one", 7})
	var r Report
	h.stopped(&r)
	h.crowd.known.questions(&h.logged.tasks, &r)
	want := []string{
		"torture-1, which does not echo endlessly, was stopped: hop-cap",
		"torture-2, which does not echo endlessly, was stopped: inbox-full",
		"torture-3, which does not echo endlessly, was stopped: echo-cap",
		"1 messages of torture-echo-1 were accepted after it was stopped",
		"torture-echo-2, which broadcasts back, was not stopped within 600 messages",
		"question 7 of task one was approved in time, and never granted",
	}
	if diff := cmp.Diff(want, r.Problems); diff != "" {
		t.Error(diff)
	}
}

// TestExcused checks that only those findings of `hived verify` are excused that
// somebody hostile caused.
func TestExcused(t *testing.T) {
	h := &hive{crowd: newCrowd("", 1, 0), hostile: []string{"deleter", "person"}}
	h.crowd.known.handles("torture-1", "a.json")
	const (
		missing = "fault    file-missing agents/torture-deleter/inbox/a.json: it is not there\n"
		planted = "fault    file-planted agents/torture-1/inbox/a.json: hived did not deliver it\n"
	)
	for said, want := range map[string]bool{
		missing + "         a remedy\n" + planted:                                                   true,
		missing + "fault    file-missing agents/torture-1/inbox/a.json: it is not there\n":          false,
		planted + "fault    file-planted agents/torture-1/inbox/b.json: hived did not deliver it\n": false,
		"fault    file-altered agents/torture-1/inbox/a.json: it holds other bytes\n":               false,
		"hived: cannot verify": false,
	} {
		if got := h.excused(said); got != want {
			t.Errorf("%q: %t", said, got)
		}
	}
	h.hostile = nil
	if h.excused(missing) || h.excused(planted) {
		t.Error("it is excused where nobody did it")
	}
}

// TestFinish checks that the report names what is lost, doubled, astray, or not set
// aside once.
func TestFinish(t *testing.T) {
	k := newKnown()
	k.send("a-1", []protocol.AgentID{"b", "c"})
	k.send("a-2", []protocol.AgentID{"b"})
	k.breaks("a", "x.json")
	k.breaks("a", "y.json")
	k.find("b", "a-1", "1.json")
	k.find("b", "a-1", "1.json") // a crash took back its move
	k.find("b", "a-2", "2.json")
	k.find("b", "a-2", "3.json")
	k.find("d", "a-2", "4.json")
	said := newAccepted()
	said.times = map[string]int{"a-1": 1, "a-2": 2}
	said.aside = map[string]int{"a/x.json": 1}
	var r Report
	k.finish(nil, &r)
	k.setAside(said, &r)
	said.holds([]string{"a-1", "a-2", "a-3"}, &r)
	want := Report{Messages: 3, Lost: 1, Doubled: 1, Broken: 2, Problems: []string{
		"lost: a-1 never reached c",
		"doubled: a-2 reached b as [2.json 3.json]",
		"a-2 reached d, to whom it was not sent",
		"a/y.json is no message and was set aside 0 times",
		"a-3 is neither in its outbox nor in the log",
		"a-2 is in the log 2 times",
	}}
	if diff := cmp.Diff(want, r); diff != "" {
		t.Error(diff)
	}
	if r.OK() {
		t.Error("it says that all is well")
	}
}

// TestFinishWithTasks checks that the report names a task that was created twice or
// never, an epoch with two holders, a task that ended twice, and a confirmation that
// is not in the log.
func TestFinishWithTasks(t *testing.T) {
	k, said := newKnown(), newAccepted()
	for _, key := range []string{"a-1", "a-2", "a-3", "a-4", "a-8"} {
		k.creates(key)
	}
	said.note(protocol.Event{Seq: 8, Body: &protocol.MessageEvent{From: crowdNames + "1", Raw: `{"body":"a-8 "}`}})
	said.note(protocol.Event{Seq: 9, Body: &protocol.TaskRejectedEvent{By: crowdNames + "1", Code: protocol.CodeTooDeep, Of: 8}})
	for _, key := range []string{"a-1", "a-2", "a-3", "a-8"} { // nobody knows whether a-4 was sent
		k.send(key, nil)
	}
	k.takes(taken{"one", 1, crowdNames + "1"})
	k.takes(taken{"two", 1, crowdNames + "1"})
	k.finishes(finished{"one", crowdNames + "1", "a-5"})
	k.finishes(finished{"two", crowdNames + "1", "a-6"})
	result := func(key string) *protocol.TaskOutput {
		return &protocol.TaskOutput{Value: jsontext.Value(`{"key":"` + key + `"}`)}
	}
	for _, e := range []*protocol.TaskEvent{
		{Task: "one", Event: task.Create, By: crowdNames + "1", Spec: &protocol.TaskSpec{Title: "a-1"}},
		{Task: "two", Event: task.Create, By: crowdNames + "1", Spec: &protocol.TaskSpec{Title: "a-2"}},
		{Task: "three", Event: task.Create, By: crowdNames + "1", Spec: &protocol.TaskSpec{Title: "a-2"}},
		{Task: "one", Event: task.Accept, By: crowdNames + "1", Epoch: 1},
		{Task: "one", Event: task.Complete, By: crowdNames + "1", Epoch: 1, To: task.Completed, Result: result("a-5")},
		{Task: "two", Event: task.Accept, By: crowdNames + "2", Epoch: 1},
		{Task: "two", Event: task.Claim, By: crowdNames + "3", Epoch: 1},
		{Task: "two", Event: task.Complete, By: crowdNames + "2", Epoch: 1, To: task.Completed, Result: result("a-7")},
		{Task: "two", Event: task.FatalError, By: crowdNames + "3", Epoch: 1, To: task.Failed},
	} {
		said.note(protocol.Event{Body: e})
	}
	var r Report
	k.tasks(&said.tasks, &r)
	said.holds(nil, &r)
	want := Report{Tasks: 3, Finished: 2, Problems: []string{
		"the task a-3 was never created",
		"task two with epoch 1 was given to torture-1, and the log does not say so",
		"the result a-6 of task two by torture-1 was accepted, and the log does not say so",
		"the task a-2 was created 2 times",
		"two, epoch 1 began 2 times",
		"task two ended 2 times",
	}}
	if diff := cmp.Diff(want, r); diff != "" {
		t.Error(diff)
	}
}

// TestTasksAreDone checks that with a daemon that lives, the crowd creates tasks,
// takes them and completes them.
func TestTasksAreDone(t *testing.T) {
	t.Parallel()
	h, err := newHive(t.Context(), Options{Program: program(t, programs.plain), Agents: 3}, filepath.Join(t.TempDir(), "hive"))
	testenv.Must(t, err)
	h.crowd.pace = 5 * time.Millisecond
	d, err := child.Start(h.program, h.dir, child.Options{})
	testenv.Must(t, err)
	end := h.work(t.Context(), rand.New(rand.NewPCG(1, 1)))
	wait.Receive(t, "a task to be finished", h.crowd.known.ends, d.Said)
	testenv.Must(t, errors.Join(end(), d.Stop()))
	var r Report
	testenv.Must(t, h.finish(t.Context(), &r))
	judge(t, &r)
}

// TestDaemonThatLoses checks that the report names a hived that accepts nothing, and
// one that does not notice the damage to a copy.
func TestDaemonThatLoses(t *testing.T) {
	t.Parallel()
	h, err := newHive(t.Context(), Options{Program: program(t, programs.plain), Agents: 3}, filepath.Join(t.TempDir(), "hive"))
	testenv.Must(t, err)
	h.crowd.known.send("torture-1-1", []protocol.AgentID{"torture-2"}) // as if it had been written
	var r Report
	testenv.Must(t, h.finish(t.Context(), &r))
	if r.Lost != 1 || r.OK() {
		t.Errorf("it says %s", r.String())
	}
	r = Report{}
	nothing := func(string, *rand.Rand) error { return nil }
	for _, after := range []string{"", refused} {
		d := damage{"what nobody can notice", nothing, after}
		testenv.Must(t, h.damage(t.Context(), d, h.dir+"-copy"+after, rand.New(rand.NewPCG(1, 1)), &r))
	}
	if r.Damages != 2 || r.Noticed != 0 || len(r.Problems) != 2 {
		t.Errorf("it says %+v", r)
	}
}
