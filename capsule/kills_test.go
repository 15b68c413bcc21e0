//go:build linux

package capsule

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hived/hived/agent"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

var kills = flag.Int("kills", 0, "TestKills: how many programs are killed; 0: skip it")

// envEffect makes this test's program the command of a step: it notes in that directory
// what it does.
const envEffect = "CAPSULE_TEST_EFFECTS"

// effect is the command of a step: it notes an overlap if another run of the step is at
// work, and its effect, after a while and before another. With a receiver that honours
// the key it has no effect the second time.
func effect(dir string, args []string) int {
	step, honoured := args[0], args[1] == "key"
	id, _, _ := strings.Cut(os.Getenv(EnvKey), ":")
	name := filepath.Join(dir, id+"-"+step)
	if args[1] == "undo" {
		note(filepath.Join(dir, id+".undone"), step)
		name += ".undone"
	}
	alone, err := os.OpenFile(name+".running", os.O_CREATE|os.O_RDWR, 0o644)
	if err == nil {
		err = unix.Flock(int(alone.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	}
	if err != nil {
		note(filepath.Join(dir, "overlaps"), name)
	}
	<-time.After(time.Duration(rand.IntN(3000)) * time.Microsecond)
	if !honoured || os.Mkdir(filepath.Join(dir, os.Getenv(EnvKey)), 0o755) == nil {
		note(name, "done")
	}
	if args[1] == "undo" {
		return 0
	}
	<-time.After(time.Duration(rand.IntN(3000)) * time.Microsecond)
	note(filepath.Join(os.Getenv(EnvOutbox), "1.json"), fmt.Sprintf(`{"to": "box", "subject": "%s-%s"}`, os.Getenv("HIVE_TASK"), step))
	_, _ = fmt.Fprintln(os.Stdout, "output of", step)
	return 0
}

func note(name, line string) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err == nil {
		_, err = f.WriteString(line + "\n")
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		panic(err)
	}
}

// verifyEffect says whether a step has its effect, which its undo takes away.
const verifyEffect = `--verify "test -s $F -a ! -s $F.undone"`

// stepsOfACapsule are the flags of its ten steps, and what the command is told.
var stepsOfACapsule = []struct{ flags, command string }{
	{"", "key"},
	{verifyEffect, "plain"},
	{"--idempotent", "plain"},
	{"", "plain"},
	{"", "key"},
	{verifyEffect, "plain"},
	{"", "plain"},
	{"--idempotent", "plain"},
	{"", "plain"},
	{"", "key"},
}

// cattle is a hive whose programs are killed.
type cattle struct {
	*testing.T
	hived, dir, effects string
	disk                *durable.Disk
	killed              atomic.Int32

	mu      sync.Mutex
	daemon  *exec.Cmd
	running map[*exec.Cmd]bool // scripts
	tasks   []string           // that were completed
	undone  []string           // that were given up, and whose steps were undone
}

// TestKills does capsules of ten steps while their commands, the hived step that runs
// them, the scripts and the daemon are killed, by agents that take tasks from one another
// while the killed one's programs go on. What the steps did is counted outside of the
// hive: once for those with a key that is honoured, with a verify command, or whose
// question a person answers, at least once for the idempotent, and never two at one time.
// The message that a step leaves is sent once, if the step was done by a run that ended.
func TestKills(t *testing.T) {
	if *kills == 0 {
		t.Skip("takes a minute; -kills 100 runs it")
	}
	c := &cattle{T: t, dir: filepath.Join(t.TempDir(), "hive"), effects: t.TempDir(), running: map[*exec.Cmd]bool{}}
	c.hived = filepath.Join(t.TempDir(), "hived")
	c.do(exec.Command("go", "build", "-o", c.hived, "github.com/hived/hived/cmd/hived"))
	c.do(exec.Command(c.hived, "init", c.dir))
	agents := []string{"ann", "bob", "cyd", "dan"}
	for _, id := range agents {
		testenv.Must(t, os.MkdirAll(filepath.Join(c.dir, "agents", id+"1", "outbox"), 0o755))
		testenv.Must(t, os.MkdirAll(filepath.Join(c.dir, "agents", id+"2", "outbox"), 0o755))
	}
	testenv.Must(t, os.WriteFile(filepath.Join(c.dir, "hive.yaml"), []byte("inbox_cap: 1000000\ntasks: {step_lock_wait: 50ms}\n"), 0o644))
	testenv.Must(t, os.MkdirAll(filepath.Join(c.dir, "agents", "box", "outbox"), 0o755))
	disk, err := durable.Open(c.dir)
	testenv.Must(t, err)
	defer disk.Close()
	c.disk = disk
	c.up()
	ctx, cancel := context.WithCancel(t.Context())
	var sides sync.WaitGroup
	sides.Go(func() { c.kill(ctx) })
	sides.Go(func() { c.answer(ctx) })
	var work sync.WaitGroup
	for _, id := range agents {
		work.Go(func() {
			for i := 0; (int(c.killed.Load()) < *kills || i < 4) && !t.Failed(); i++ {
				c.capsule(id, i%2 == 1)
			}
		})
	}
	work.Wait()
	cancel()
	sides.Wait()
	c.mu.Lock()
	_ = c.daemon.Process.Signal(syscall.SIGTERM)
	_ = c.daemon.Wait()
	c.mu.Unlock()
	c.count()
	c.do(exec.Command(c.hived, "--hive", c.dir, "verify"))
}

func (c *cattle) do(x *exec.Cmd) {
	c.Helper()
	if out, err := x.CombinedOutput(); err != nil {
		c.Fatalf("%s: %v\n%s", x, err, out)
	}
}

func (c *cattle) up() {
	d := exec.Command(c.hived, "--hive", c.dir, "up")
	testenv.Must(c, d.Start())
	c.mu.Lock()
	c.daemon = d
	c.mu.Unlock()
}

// kill kills a program, again and again.
func (c *cattle) kill(ctx context.Context) {
	for int(c.killed.Load()) < *kills {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Duration(20+rand.IntN(80)) * time.Millisecond):
		}
		if rand.IntN(5) == 0 {
			_ = c.daemon.Process.Kill()
			_ = c.daemon.Wait()
			c.killed.Add(1)
			c.up()
			continue
		}
		if pid := c.victim(); pid > 0 && syscall.Kill(pid, syscall.SIGKILL) == nil {
			c.killed.Add(1)
		}
	}
}

// victim returns a script, the hived step of one, or the command of that.
func (c *cattle) victim() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	for x := range c.running {
		pid := x.Process.Pid
		for range rand.IntN(3) {
			if children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid)); err == nil {
				if list := strings.Fields(string(children)); len(list) > 0 {
					pid, _ = strconv.Atoi(list[0])
				}
			}
		}
		return pid
	}
	return 0
}

// answer is the person who is asked: whoever looks outside whether it happened.
func (c *cattle) answer(ctx context.Context) {
	for ctx.Err() == nil {
		ids, _ := agent.Tasks(c.disk)
		for _, id := range ids {
			v, err := agent.View(c.disk, id)
			if err != nil || v.State != task.Paused || v.Question == nil {
				continue
			}
			choice := "again"
			name, done := askedAbout(v.Question.Question), "happened"
			of := cmp.Or(v.Unwinds, id)
			if slices.Contains(v.Question.Choices, "left") { // about an undo
				name, done = name+".undone", "undone"
			}
			switch {
			case c.has(of, name):
				choice = done
			case v.Question.Choices[0] == "wait":
				choice = "wait"
			case v.Unwinds != "" && done == "happened":
				choice = "undone"
			}
			_ = exec.Command(c.hived, "--hive", c.dir, "approve", string(id), "--ask", v.Question.Ask.String(), "--choice", choice, "--result", "as a person saw").Run()
		}
		<-time.After(10 * time.Millisecond)
	}
}

// askedAbout returns the name of the step that a question is about.
func askedAbout(question string) string {
	_, rest, _ := strings.Cut(question, ", ")
	name, _, _ := strings.Cut(rest, ",")
	return name
}

func (c *cattle) has(id protocol.TaskID, step string) bool {
	_, err := os.Stat(filepath.Join(c.effects, string(id)+"-"+step))
	return !errors.Is(err, fs.ErrNotExist)
}

// capsule creates a task and has it done by two agents in turns: whoever is killed begins
// again, or gives the task back, and the other goes on beside what the first left running.
// One that is to be given up is given up when its script was killed, or in the end, and
// its steps are undone in the same way.
func (c *cattle) capsule(id string, givenUp bool) {
	var created string
	c.until("create", func() bool {
		out, _ := c.hivedAs("human", "", 0, "task", "create", "capsule of "+id, "--to", id+"1", "--to", id+"2", "--json")
		_, rest, found := strings.Cut(out, `"tasks":[{"id":"`)
		if found {
			created, _, _ = strings.Cut(rest, `"`)
		}
		return found
	})
	end := c.take(id, created, func(who string, epoch int) bool {
		if c.script(who, created, epoch) == nil && !givenUp {
			_, err := c.hivedAs(who, created, epoch, "task", "complete", created)
			return err == nil
		}
		if givenUp {
			_, _ = c.hivedAs(who, created, epoch, "task", "give-up", created) // it is looked whether it is
		}
		return false
	})
	if end.State == task.Completed {
		c.keep(&c.tasks, created)
		return
	}
	c.keep(&c.undone, created)
	if end.UnwoundBy == "" {
		return // no step of it was begun
	}
	c.take(id, string(end.UnwoundBy), func(who string, epoch int) bool {
		if c.runs(who, string(end.UnwoundBy), epoch, exec.Command(c.hived, "step", "--unwind")) != nil {
			return false
		}
		_, err := c.hivedAs(who, string(end.UnwoundBy), epoch, "task", "complete", string(end.UnwoundBy))
		return err == nil
	})
}

func (c *cattle) keep(list *[]string, id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	*list = append(*list, id)
}

// take has two agents work on a task in turns until it has ended, and returns how. work
// reports whether it ended it.
func (c *cattle) take(id, about string, work func(who string, epoch int) bool) (v *task.View) {
	who, epoch := id+"1", 0
	claim := func() bool {
		out, err := c.hivedAs(who, "", 0, "task", "claim", about, "--start")
		_, n, found := strings.Cut(out, "export HIVE_EPOCH=")
		if err == nil && found {
			epoch, _ = strconv.Atoi(strings.TrimSpace(n))
			return true
		}
		v, err := agent.View(c.disk, protocol.TaskID(about))
		if err != nil || string(v.Holder) != who || v.State != task.InProgress {
			return false
		}
		epoch = int(v.Epoch) // it was taken, and the answer was lost
		return true
	}
	c.until("claim", claim)
	c.until("end", func() bool {
		var err error
		v, err = agent.View(c.disk, protocol.TaskID(about))
		switch {
		case err != nil || v.State == task.Paused:
			return false
		case task.Ended(v.State):
			return true
		case v.State == task.Unassigned, v.State == task.Offered: // a release whose answer was lost
			c.until("claim again", claim)
			return false
		case work(who, epoch):
		case rand.IntN(3) == 0:
			if _, err := c.hivedAs(who, about, epoch, "task", "release", about); err == nil {
				who = id + strconv.Itoa(1+rand.IntN(2))
				c.until("claim again", claim)
			}
		}
		return false
	})
	if c.Failed() {
		out, _ := c.hivedAs("human", "", 0, "task", "show", about)
		c.Logf("%s: %s", who, out)
	}
	return v
}

// hivedAs runs a command as an agent that has a task.
func (c *cattle) hivedAs(who, id string, epoch int, args ...string) (string, error) {
	x := exec.Command(c.hived, args...)
	x.Env = append(os.Environ(), "HIVE_DIR="+c.dir, "HIVE_AGENT="+who, "HIVE_TASK="+id)
	if who == "human" {
		x.Env = append(os.Environ(), "HIVE_DIR="+c.dir)
	}
	if epoch > 0 {
		x.Env = append(x.Env, "HIVE_EPOCH="+strconv.Itoa(epoch))
	}
	out, err := x.Output()
	return string(out), err
}

// script does the ten steps, in a program that may be killed.
func (c *cattle) script(who, id string, epoch int) error {
	var text strings.Builder
	text.WriteString("set -e\n")
	for i, s := range stepsOfACapsule {
		fmt.Fprintf(&text, "F=%s/%s-s%d; %s step s%d --undo '%s s%d undo' %s -- %s s%d %s\n", c.effects, id, i, c.hived, i, os.Args[0], i, s.flags, os.Args[0], i, s.command)
	}
	return c.runs(who, id, epoch, exec.Command("sh", "-c", text.String()))
}

// runs runs a program of an agent that may be killed.
func (c *cattle) runs(who, id string, epoch int, x *exec.Cmd) error {
	x.Env = append(os.Environ(), "HIVE_DIR="+c.dir, "HIVE_AGENT="+who, "HIVE_TASK="+id, "HIVE_EPOCH="+strconv.Itoa(epoch), envEffect+"="+c.effects)
	var said strings.Builder
	x.Stderr = &said
	if err := x.Start(); err != nil {
		return err
	}
	c.mu.Lock()
	c.running[x] = true
	c.mu.Unlock()
	err := x.Wait()
	c.mu.Lock()
	delete(c.running, x)
	c.mu.Unlock()
	if err != nil {
		c.Logf("%s of %s, epoch %d: %v: %s", id, who, epoch, err, strings.TrimSpace(said.String()))
	}
	return err
}

// until repeats something that a killed daemon may not answer.
func (c *cattle) until(what string, done func() bool) {
	for end := time.Now().Add(time.Minute); !done(); <-time.After(20 * time.Millisecond) {
		if time.Now().After(end) {
			c.Errorf("%s does not succeed", what)
			return
		}
	}
}

// sent returns how often each subject is among the messages that the steps sent.
func (c *cattle) sent() map[string]int {
	box, err := agent.Open(c.disk, "box")
	testenv.Must(c, err)
	list, err := box.Inbox()
	testenv.Must(c, err)
	n := map[string]int{}
	for _, l := range list {
		n[l.Message.Subject]++
	}
	return n
}

// count compares what the steps did with what they should have done.
func (c *cattle) count() {
	if data, err := os.ReadFile(filepath.Join(c.effects, "overlaps")); err == nil {
		c.Errorf("two runs of a step at one time: %s", data)
	}
	again, byPerson := 0, 0
	sent := c.sent()
	for _, id := range c.tasks {
		for i, s := range stepsOfACapsule {
			data, _ := os.ReadFile(fmt.Sprintf("%s/%s-s%d", c.effects, id, i))
			switch n := strings.Count(string(data), "\n"); {
			case n == 0, n > 1 && !strings.Contains(s.flags, "idempotent"):
				c.Errorf("step s%d of %s was done %d times", i, id, n)
			case n > 1:
				again++
			}
			record, _, err := durable.ReadFile(c.disk, protocol.StepFile(protocol.TaskID(id), i+1, fmt.Sprintf("s%d", i)), -1)
			testenv.Must(c, err)
			r, err := protocol.DecodeStep(record)
			testenv.Must(c, err)
			n := sent[fmt.Sprintf("%s-s%d", id, i)]
			switch {
			case r.How == protocol.JudgedPerson:
				byPerson++
			case n == 0 && r.How == "":
				c.Errorf("step s%d of %s was done, and its message was not sent", i, id)
			}
			if n > 1 {
				c.Errorf("step s%d of %s sent its message %d times", i, id, n)
			}
		}
	}
	c.countUndone()
	c.Logf("%d capsules, %d programs killed; %d idempotent steps ran more than once, %d were answered by a person", len(c.tasks), c.killed.Load(), again, byPerson)
}

// countUndone checks that what was done of the capsules that were given up was undone, each
// step once, and the last one first.
func (c *cattle) countUndone() {
	steps := 0
	for _, id := range c.undone {
		var want []string
		for i, s := range slices.Backward(stepsOfACapsule) {
			name := fmt.Sprintf("%s/%s-s%d", c.effects, id, i)
			done, _ := os.ReadFile(name)
			undone, _ := os.ReadFile(name + ".undone")
			n, u := strings.Count(string(done), "\n"), strings.Count(string(undone), "\n")
			if n > 1 && !strings.Contains(s.flags, "idempotent") || u != min(n, 1) {
				c.Errorf("step s%d of %s was done %d times, and undone %d times", i, id, n, u)
			}
			if n > 0 {
				want = append(want, fmt.Sprintf("s%d", i))
			}
		}
		order, _ := os.ReadFile(filepath.Join(c.effects, id+".undone"))
		if got := slices.Compact(strings.Fields(string(order))); !slices.Equal(got, want) {
			c.Errorf("the steps of %s were undone in the order %v, want %v", id, got, want)
		}
		steps += len(want)
	}
	c.Logf("%d capsules were given up, and %d steps undone", len(c.undone), steps)
}
