package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/hived/hived/agent"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

// workSlots is how many tasks are done at one time.
const workSlots = 50

var workRow = row{
	name: "work",
	what: func(s sizes) string {
		return fmt.Sprintf("%s that do nothing, done by `hived work --adapter shell --slots %d`, a process each, from the first claim in the log to the last completion; in turns with the baseline, one program that sends the same commands, as many under way at a time, reads the answers and starts no process. "+
			"Then one task whose program writes %s, by `hived work --once`, in turns with the baseline, `cat` of as many bytes into a file; and the most memory that the worker has, against one whose program writes nothing.", count(s.work, "tasks"), workSlots, count(s.workOutput>>20, "MiB"))
	},
	behind: "The system, which starts two processes for each task: sh, and what it runs. Of the output the worker keeps the beginning and the end, and writes them to a file.",
	needs:  process | proc,
	brief:  12 * time.Second, full: 60 * time.Second,
	disk: func(s sizes) int64 {
		return int64(2*s.rounds*s.work)*6*fileDisk + int64(2*s.rounds)*perMessage(6*s.work) + 2*int64(s.workOutput) + agentDisk
	},
	measure: func(ctx context.Context, b *bench) (outcome, error) {
		h, err := b.newHive(ctx, 1, "")
		if err != nil {
			return outcome{}, err
		}
		settings := workloadSettings()
		settings.InboxCap = 100_000
		if err := h.up(ctx, settings); err != nil {
			return outcome{}, errors.Join(err, h.close())
		}
		parts, err := b.work(ctx, h)
		return outcome{parts: parts}, errors.Join(err, h.close())
	},
}

func (b *bench) work(ctx context.Context, h *testbed) ([]Part, error) {
	box, err := agent.Open(h.disk, protocol.AgentID(nameOf(0)))
	if err != nil {
		return nil, err
	}
	people, err := agent.Open(h.disk, protocol.Human)
	if err != nil {
		return nil, err
	}
	x := &workplace{testbed: h, b: b, box: box, people: people, mail: make(chan struct{}, 1)}
	h.hear = x.see
	var byHand, worked []float64
	for round := range b.sizes.rounds {
		b.tell(float64(round)/float64(2*b.sizes.rounds), "round %d of %d", round+1, b.sizes.rounds)
		rate, err := x.round(ctx, x.byHand)
		if err != nil {
			return nil, err
		}
		byHand = append(byHand, rate)
		if rate, err = x.round(ctx, x.byWorker); err != nil {
			return nil, err
		}
		worked = append(worked, rate)
	}
	parts, err := x.output(ctx)
	return append([]Part{compared("tasks", "tasks/s", byHand, worked).timesAtLeast(0.4)}, parts...), err
}

// workplace is a hive with one agent that does tasks.
type workplace struct {
	*testbed
	b      *bench
	box    *agent.Box
	people *agent.Box
	mail   chan struct{} // something was put into an inbox

	// Guarded by mu of the testbed.
	first, last time.Time // of a claim, and of a completion, in this round
	done        int
}

// see counts what is done. It is called with mu held.
func (x *workplace) see(ev protocol.Event) {
	e, ok := ev.Body.(*protocol.TaskEvent)
	switch {
	case !ok:
		select {
		case x.mail <- struct{}{}:
		default:
		}
	case e.Event == task.Claim && x.first.IsZero():
		x.first = ev.TS
	case e.Event == task.Complete:
		x.last = ev.TS
		x.done++
	}
}

// round makes tasks, has them done, and returns how many were done in a second.
func (x *workplace) round(ctx context.Context, do func(ctx context.Context, n int) error) (float64, error) {
	n := x.b.sizes.work
	x.mu.Lock()
	x.first, x.last, x.done = time.Time{}, time.Time{}, 0
	x.mu.Unlock()
	if err := x.create(ctx, n, "true"); err != nil {
		return 0, err
	}
	err := do(ctx, n)
	x.mu.Lock()
	defer x.mu.Unlock()
	return float64(n) / x.last.Sub(x.first).Seconds(), err
}

// create makes tasks with a body.
func (x *workplace) create(ctx context.Context, n int, body string) error {
	list := make([]protocol.TaskSpec, n)
	for i := range list {
		list[i] = protocol.TaskSpec{Title: "nothing " + strconv.Itoa(i), Body: body, To: []protocol.Address{protocol.Address(x.box.ID())}}
	}
	id, err := x.send(x.people, agent.Command{Event: task.Create, Data: agent.NewTasks{Tasks: list}})
	if err != nil {
		return err
	}
	a, err := x.people.Answer(ctx, id)
	if err == nil && a.Code != protocol.CodeOK {
		err = fmt.Errorf("the tasks are refused: %s: %s", a.Code, a.Text)
	}
	return err
}

// send sends a command about a task.
func (x *workplace) send(box *agent.Box, c agent.Command) (protocol.MessageID, error) {
	d, err := c.Draft(time.Now())
	if err != nil {
		return "", err
	}
	sent, err := box.Send(d)
	return sent.ID, err
}

// byWorker has a worker do the tasks.
func (x *workplace) byWorker(ctx context.Context, n int) error {
	in, err := x.b.fresh()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, x.b.program, "--hive", x.dir, "--agent", string(x.box.ID()), "work", "--adapter", "shell", "--slots", strconv.Itoa(workSlots), "--in", in) //nolint:gosec // the program that is measured
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start a worker: %w", err)
	}
	err = x.until(ctx, "the worker to do its tasks", func() bool { return x.done >= n })
	stop := cmd.Process.Signal(os.Interrupt)
	if ended := cmd.Wait(); ended != nil && err == nil {
		err = fmt.Errorf("the worker ended with %w: %s", ended, said.String())
	}
	return errors.Join(err, stop)
}

// byHand does the tasks by their commands alone.
func (x *workplace) byHand(ctx context.Context, n int) error {
	slots := agent.Draft{To: []protocol.Address{protocol.Address(protocol.Hive)}, Act: protocol.Request, Event: "agent-slots", Data: fmt.Appendf(nil, `{"slots": %d}`, workSlots)}
	if _, err := x.box.Send(slots); err != nil {
		return err
	}
	asked := min(n, workSlots)
	for range asked {
		if err := x.claim(); err != nil {
			return err
		}
	}
	for done := 0; done < n; {
		if err := x.box.Wait(ctx, x.mail); err != nil {
			return err
		}
		more, err := x.readMail()
		if err != nil {
			return err
		}
		done += more
		for ; more > 0 && asked < n; asked, more = asked+1, more-1 {
			if err := x.claim(); err != nil {
				return err
			}
		}
	}
	return x.until(ctx, "the tasks to be done", func() bool { return x.done >= n })
}

// claim asks for a task.
func (x *workplace) claim() error {
	_, err := x.send(x.box, agent.Command{Event: task.Claim, Data: agent.Report{Start: true}})
	return err
}

// readMail handles what is unread, and returns how many tasks it says are completed.
func (x *workplace) readMail() (completed int, err error) {
	names, err := x.box.Unread()
	if err != nil {
		return 0, err
	}
	for _, name := range names {
		is, err := x.step(name)
		if err != nil {
			return 0, err
		}
		if is {
			completed++
		}
	}
	return completed, nil
}

// step handles a message, and reports whether it says that a task is completed.
func (x *workplace) step(name string) (completed bool, err error) {
	l, err := x.box.Done(name)
	if err != nil {
		return false, err
	}
	a, of, is := l.Said()
	switch {
	case !is || of == "" || a.Task == "": // an offer
		return false, nil
	case a.Code != protocol.CodeOK:
		return false, fmt.Errorf("a command is refused: %s: %s", a.Code, a.Text)
	case a.State == task.Completed:
		return true, nil
	}
	exit := 0
	_, err = x.send(x.box, agent.Command{Event: task.ReportOutcome, Task: a.Task, Epoch: a.Epoch, Data: agent.Report{
		Reason: "exit status 0", Outcome: protocol.Outcome{Kind: protocol.OutcomeCompleted, Adapter: "shell", Exit: &exit, DurationMS: 1},
	}})
	return false, err
}

// output measures a program that writes very much.
func (x *workplace) output(ctx context.Context) ([]Part, error) {
	dir, err := x.b.fresh()
	if err != nil {
		return nil, err
	}
	source := filepath.Join(dir, "source")
	if err := writeLines(source, x.b.sizes.workOutput); err != nil {
		return nil, err
	}
	var cat, worked, small, large []float64
	rounds := min(x.b.sizes.rounds, 3)
	for round := range rounds {
		x.b.tell(0.5+float64(round)/float64(2*rounds), "output, round %d of %d", round+1, rounds)
		begin := time.Now()
		if out, err := exec.CommandContext(ctx, "sh", "-c", `cat "$1" >"$1.copy"`, "sh", source).CombinedOutput(); err != nil { //nolint:gosec // a file of our own
			return nil, fmt.Errorf("copy the output: %w: %s", err, out)
		}
		cat = append(cat, ms(time.Since(begin)))
		much, err := x.once(ctx, "cat '"+source+"'")
		if err != nil {
			return nil, err
		}
		worked, large = append(worked, ms(much.took)), append(large, much.peak)
		none, err := x.once(ctx, "true")
		if err != nil {
			return nil, err
		}
		small = append(small, none.peak)
	}
	return []Part{
		compared("much output", "ms", cat, worked).timesAtMost(2),
		compared("memory", "MiB", small, large).timesAtMost(3),
	}, nil
}

// once has a worker do one task.
func (x *workplace) once(ctx context.Context, body string) (ran, error) {
	if err := x.create(ctx, 1, body); err != nil {
		return ran{}, err
	}
	return x.b.run(ctx, x.dir, "--agent", string(x.box.ID()), "work", "--adapter", "shell", "--once")
}

// writeLines writes a file of lines.
func writeLines(name string, size int) error {
	f, err := os.Create(name) //nolint:gosec,forbidigo // a file of the bench's own, outside of any hive
	if err != nil {
		return err
	}
	block := bytes.Repeat([]byte("this line is one of very many\n"), 1<<15)
	for size > 0 && err == nil {
		block = block[:min(size, len(block))]
		_, err = f.Write(block)
		size -= len(block)
	}
	return errors.Join(err, f.Close())
}
