package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	hiveexample "github.com/hived/hived/hive-example"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/router"
	"github.com/hived/hived/settings"
	"github.com/hived/hived/view"
)

func (a *app) demoCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "demo [DIR]",
		Short: "Lets five small agents work in a hive of their own, and shows the traffic live",
		Long:  "Makes the example hive in a new directory (default: hive-demo), starts its agents, which are shell scripts,\nand shows the traffic live. First three of them write a text together. Then two have a task: the one that takes it\nis killed, and the other goes on. The hive stays, to be looked at.",
		Args:  takes(0, 1),
		RunE: func(c *cobra.Command, args []string) error {
			dir := "hive-demo"
			if len(args) > 0 {
				dir = args[0]
			}
			return a.demo(c.Context(), dir)
		},
	}
}

func (a *app) demo(ctx context.Context, dir string) error {
	if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
		return exitWith(exitRefused, "run the demo in %s: the directory is not empty; say another: hived demo DIR", protocol.Quote(dir))
	}
	if err := copyExample(dir); err != nil {
		return fmt.Errorf("copy the example: %w", err)
	}
	home, _, err := makeHive(dir, false) //nolint:contextcheck // a hive is made whole or not at all
	if err != nil {
		return err
	}
	disk, err := durable.Open(dir)
	if err != nil {
		return fmt.Errorf("open the hive: %w", err)
	}
	defer disk.Close() //nolint:errcheck // the router has synced what it wrote
	values, err := settings.Load(disk)
	if err != nil {
		return err
	}
	start := time.Now()
	seen, err := a.play(ctx, disk, values, home)
	if err != nil {
		return err
	}
	return a.demoResult(disk, dir, seen, time.Since(start))
}

// copyExample writes the example's files.
func copyExample(dir string) error {
	const top = "hive"
	return fs.WalkDir(hiveexample.Files, top, func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		to := filepath.Join(dir, filepath.FromSlash(strings.TrimPrefix(name, top)))
		if e.IsDir() {
			return os.MkdirAll(to, 0o755) //nolint:gosec // a hive is as readable as any directory
		}
		data, err := hiveexample.Files.ReadFile(name)
		if err != nil {
			return err
		}
		perm := fs.FileMode(0o644)
		if path.Ext(name) == ".sh" {
			perm = 0o755
		}
		return os.WriteFile(to, data, perm)
	})
}

// play runs the daemon and the agents until the agents have ended, shows the
// traffic, and returns when everything is committed.
func (a *app) play(ctx context.Context, disk *durable.Disk, values protocol.Settings, home string) (demoSeen, error) {
	// The loop must not wait for a terminal; no demo has that many events.
	events := make(chan protocol.Event, 4096)
	cfg := router.Config{
		Settings: values, Log: a.logger(slog.LevelInfo), Version: version(),
		OnEvent: func(ev protocol.Event) {
			select {
			case events <- ev:
			default:
			}
		},
	}
	r, err := router.New(disk, cfg)
	if err != nil {
		return demoSeen{}, locked(err)
	}
	on := &demoStage{a: a, tasks: make(chan view.TaskStep, cap(events))}
	running, end := context.WithCancel(ctx)
	defer end()
	var all errgroup.Group
	all.Go(func() error {
		defer close(events)
		err := r.Run(running)
		end() // without a daemon the agents would wait in vain
		return err
	})
	all.Go(func() error {
		on.follow(events)
		return nil
	})
	err = on.acts(running, home)
	end()
	err = errors.Join(err, all.Wait())
	return on.seen, err
}

// demoJSON is what the demo prints with --json.
type demoJSON struct {
	Hive       string  `json:"hive"`
	Seconds    float64 `json:"seconds"`
	Messages   int     `json:"messages"`
	Deliveries int     `json:"deliveries"`
	Handled    int     `json:"handled"`
	Dropped    int     `json:"dropped"`
	Kept       int     `json:"kept"`
	SetAside   int     `json:"set_aside"`
	TaskSteps  int     `json:"task_steps"`
	Refused    int     `json:"refused"`
	Result     string  `json:"result"`
}

// demoResult shows what the agents wrote and where to look.
func (a *app) demoResult(disk *durable.Disk, dir string, seen demoSeen, took time.Duration) error {
	data, _, err := durable.ReadFile(disk, hiveexample.Result, 1<<20)
	if err != nil {
		return fmt.Errorf("the agents ended without a result: %w", err)
	}
	if !bytes.Equal(data, hiveexample.Want()) {
		return fmt.Errorf("%s is not what the agents should have written; look into %s", hiveexample.Result, dir)
	}
	out := demoJSON{dir, took.Seconds(), seen.Messages, seen.Deliveries, seen.Handled, seen.Dropped, seen.Kept, seen.SetAside, seen.Steps, seen.Refused, string(data)}
	return a.answer(out, func(p *printer) {
		p.line("")
		p.line("%s", a.style.paint(bold, hiveexample.Result))
		p.line("")
		p.line("    %s", strings.ReplaceAll(strings.TrimSpace(string(data)), "\n", "\n    "))
		p.line("")
		p.line("%d messages accepted, %d deliveries, %d handled, %d dropped, %d kept, %d set aside, %d steps of a task, %d reports refused,",
			seen.Messages, seen.Deliveries, seen.Handled, seen.Dropped, seen.Kept, seen.SetAside, seen.Steps, seen.Refused)
		p.line("all of it committed, in %.1f s.", took.Seconds())
		p.line("The hive is %s. Look at it:", dir)
		p.line("")
		p.table([][]string{
			{"    git -C " + dir + " log --stat", "every change, with its sequence numbers"},
			{"    hived --hive " + dir + " log", "every event (the file is log.jsonl)"},
			{"    hived --hive " + dir + " inbox", "what people were told"},
			{"    hived --hive " + dir + " trace ID", "the life of one message"},
			{"    cat " + dir + "/tasks/*/task.json", "the life of the task"},
			{"    hived --hive " + dir + " verify", "proof that nothing is missing"},
		})
	})
}
