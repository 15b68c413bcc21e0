package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/hived/hived/hive"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/users"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/worker"
	"github.com/hived/hived/worker/adapter"
)

// workFlags are the flags of `hived work`.
type workFlags struct {
	adapter        string
	adapters       bool
	slots          int
	once           bool
	in             string
	timeout, grace time.Duration
}

func (a *app) workCommand() *cobra.Command {
	var f workFlags
	c := &cobra.Command{
		Use:   "work --adapter NAME | hived work --adapters",
		Short: "Takes tasks for an agent, and runs the agent's program for each",
		Long: "Takes tasks for an agent, runs the agent's program for each of them, and reports how that ended, until SIGTERM or SIGINT stops\n" +
			"it: a program that runs then is asked to end, and its task is given back. An adapter says how the program is run and how its\n" +
			"output is read: one of those that --adapters lists, or adapters/NAME.yaml in the hive. An agent has one worker at a time.\n\n" +
			"Exit status of --once: 0 completed, 1 another outcome, 3 nothing to do, 4 no daemon; of --adapters: 0 all can be used, else 1;\n" +
			"75 where the agent has a worker already.",
		Args: argCount(0, 0),
	}
	c.Flags().StringVar(&f.adapter, "adapter", "", "the `name` of the adapter that runs the agent's program")
	c.Flags().BoolVar(&f.adapters, "adapters", false, "list the adapters, and whether their programs can be used")
	c.Flags().IntVar(&f.slots, "slots", 1, "how `many` tasks are executed at one time")
	c.Flags().BoolVar(&f.once, "once", false, "execute one task, and end")
	c.Flags().StringVar(&f.in, "in", "", "the `directory` in which the program works (default: the agent's own)")
	c.Flags().DurationVar(&f.timeout, "timeout", 0, "how long an execution may take (default: the adapter's timeout, else work.timeout)")
	c.Flags().DurationVar(&f.grace, "grace", 0, "how long a program has to end when it is asked to (default work.grace)")
	c.RunE = a.withHive(func(c *cobra.Command, _ []string, disk *durable.Disk) error {
		if f.adapters {
			return a.listAdapters(c.Context(), disk)
		}
		return a.work(c, disk, f)
	})
	return c
}

func (a *app) work(c *cobra.Command, disk *durable.Disk, f workFlags) error {
	switch {
	case f.adapter == "":
		return usageError("say how the agent's program is run: --adapter NAME; `hived work --adapters` lists them")
	case f.slots < 1 || f.slots > protocol.SlotsMost:
		return usageError("--slots %d: write 1 to %d", f.slots, protocol.SlotsMost)
	case f.timeout < 0 || f.grace < 0:
		return usageError("--timeout and --grace are not negative")
	case a.who() == protocol.Human:
		return usageError("a worker works for an agent; name it with --agent, or HIVE_AGENT")
	}
	described, err := adapter.Find(os.DirFS(disk.Path(".")), f.adapter)
	if err != nil {
		return usageError("%w", err)
	}
	home, err := a.agentHive(disk)
	if err != nil {
		return err
	}
	config := worker.Config{
		Home: home, Adapter: described, Slots: f.slots, Once: f.once, Dir: disk.Path(protocol.AgentDir(a.who())), Timeout: f.timeout,
		Grace: home.Settings.Work.Grace, Environ: os.Environ(), Log: a.logger(slog.LevelInfo),
	}
	if c.Flags().Changed("grace") {
		config.Grace = f.grace
	}
	if f.in != "" {
		if config.Dir, err = filepath.Abs(f.in); err != nil {
			return err
		}
		if info, err := os.Stat(config.Dir); err != nil || !info.IsDir() {
			return usageError("--in %s: there is no such directory", protocol.Visible(f.in))
		}
	}
	also, done, err := a.alsoWork(home.Settings.Work.Also)
	defer done()
	if err != nil {
		return err
	}
	config.Also = also
	return a.runWorker(c.Context(), config)
}

func (a *app) runWorker(ctx context.Context, config worker.Config) error {
	w, release, err := worker.New(config)
	if l, is := errors.AsType[*durable.LockedError](err); is {
		return exitWith(protocol.ExitLocked, "%s has a worker already, with process id %d; one is enough: it takes --slots", a.who(), l.PID)
	}
	if err != nil {
		return err
	}
	config.Log.InfoContext(ctx, "the worker works", slog.String("agent", string(a.who())), slog.String("adapter", config.Adapter.Name), slog.Int("slots", config.Slots))
	kind, err := w.Run(ctx)
	err = errors.Join(err, release())
	switch {
	case errors.Is(err, worker.ErrNoDaemon):
		return exitWith(protocol.ExitTimedOut, "%w", err)
	case errors.Is(err, worker.ErrNothing):
		return exitWith(protocol.ExitNotFound, "%s has %w", a.who(), err)
	case err != nil:
		return err
	case config.Once && kind != protocol.OutcomeCompleted:
		return exitWith(protocol.ExitFailed, "the execution ended as %s", cmp.Or(string(kind), "nothing: the task is in other hands, or a person is asked"))
	}
	return nil
}

// agentHive returns what a program that does the agent's tasks needs of a hive.
func (a *app) agentHive(disk *durable.Disk) (h worker.Hive, err error) {
	h.Disk = disk
	if h.Box, err = a.box(disk); err != nil {
		return h, err
	}
	if h.Settings, err = agentSettings(disk); err != nil {
		return h, err
	}
	_, noUsers := disk.Lstat(users.Marker)
	h.Users = noUsers == nil
	h.Runs = func() (bool, error) {
		_, runs, err := hive.Daemon(disk)
		if errors.Is(err, fs.ErrPermission) { // only its owner can see that; the answer will tell
			return true, nil
		}
		return runs, err
	}
	return h, nil
}

// alsoWork opens the other hives whose tasks the worker takes. One in which the agent has
// no mailbox is an error: it was written to be used.
func (a *app) alsoWork(dirs []string) (list []worker.Hive, done func(), err error) {
	var disks []*durable.Disk
	done = func() {
		for _, d := range disks {
			_ = d.Close() // what was written is synced or renamed by now
		}
	}
	for _, dir := range dirs {
		disk, err := durable.Open(dir)
		if err != nil {
			return nil, done, fmt.Errorf("open the hive %s of work.also: %w", protocol.Visible(dir), err)
		}
		disks = append(disks, disk)
		h, err := a.agentHive(disk)
		if err != nil {
			return nil, done, fmt.Errorf("work for %s in %s (work.also): %w", a.who(), protocol.Visible(dir), err)
		}
		list = append(list, h)
	}
	return list, done, nil
}

// adapterAnswer is what --adapters says of one.
type adapterAnswer struct {
	Name    string `json:"name"`
	Program string `json:"program,omitzero"`
	Note    string `json:"note,omitzero"`
	Fault   string `json:"fault,omitzero"` // why it cannot be used
}

// listAdapters lists the adapters, and checks whether they can be used.
func (a *app) listAdapters(ctx context.Context, disk *durable.Disk) error {
	files := os.DirFS(disk.Path("."))
	names, err := adapter.Names(files)
	if err != nil {
		return err
	}
	var list []adapterAnswer
	faults := 0
	for _, name := range names {
		answer := adapterAnswer{Name: name}
		d, err := adapter.Find(files, name)
		if err != nil {
			answer.Fault = err.Error()
		} else {
			answer.Program, answer.Note = d.Expand(d.Run[:1], nil)[0], d.Note
			answer.Fault = checkAdapter(ctx, d, answer.Program)
		}
		if answer.Fault != "" {
			faults++
		}
		list = append(list, answer)
	}
	err = a.answer(list, func(p *printer) {
		rows := [][]string{{"ADAPTER", "PROGRAM", "CAN BE USED"}}
		for _, x := range list {
			can := cmp.Or(x.Fault, "yes")
			if x.Note != "" {
				can += " (" + protocol.Visible(x.Note) + ")"
			}
			rows = append(rows, []string{x.Name, cmp.Or(x.Program, "-"), can})
		}
		p.table(rows)
	})
	if faults > 0 {
		return errors.Join(err, exitWith(protocol.ExitFailed, "%d of %d adapters cannot be used", faults, len(list)))
	}
	return err
}

// checkAdapter returns why the program of an adapter cannot be used; empty if it can.
func checkAdapter(ctx context.Context, d *adapter.Adapter, program string) string {
	if _, err := exec.LookPath(program); err != nil {
		return "there is no program " + protocol.Quote(program) + " in PATH"
	}
	return worker.VersionFault(ctx, d, os.Environ())
}
