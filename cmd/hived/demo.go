package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	hiveexample "github.com/hived/hived/hive-example"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/router"
	"github.com/hived/hived/settings"
)

// demoLimit is as long as the agents of the demo may talk.
const demoLimit = 20 * time.Second

func (a *app) demoCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "demo [DIR]",
		Short: "Lets three small agents talk in a hive of their own, and shows the traffic live",
		Long:  "Makes the example hive in a new directory (default: hive-demo), starts its three agents, which are shell scripts,\nand shows the traffic live. The hive stays, to be looked at.",
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
	home, err := makeHive(dir, false) //nolint:contextcheck // a hive is made whole or not at all
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

// demoSeen is what the demo counts.
type demoSeen struct {
	Messages, Deliveries, Handled, Dropped, SetAside int
}

// play runs the daemon and the agents until the agents have ended, shows the
// traffic, and returns when everything is committed.
func (a *app) play(ctx context.Context, disk *durable.Disk, values protocol.Settings, home string) (demoSeen, error) {
	// The loop must not wait for a terminal; no demo has that many events.
	events := make(chan protocol.Event, 4096)
	cfg := router.Config{
		Settings: values, Log: a.logger(false), Version: version(),
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
	var seen demoSeen
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
		a.traffic(events, &seen)
		return nil
	})
	err = runAgents(running, home)
	end()
	return seen, errors.Join(err, all.Wait())
}

// traffic prints what happens, one line an event that people care for.
func (a *app) traffic(events <-chan protocol.Event, seen *demoSeen) {
	var start time.Time
	for ev := range events {
		if start.IsZero() {
			start = ev.TS
		}
		show := true
		switch e := ev.Body.(type) {
		case *protocol.MessageEvent:
			seen.Messages++
			seen.Deliveries += len(e.Delivered)
		case *protocol.HandledEvent:
			seen.Handled++
		case *protocol.DropEvent:
			seen.Dropped++
		case *protocol.QuarantineEvent:
			seen.SetAside++
		default:
			show = false
		}
		if show && !a.json {
			a.out.line("%s", a.trafficLine(ev, ev.TS.Sub(start)))
		}
	}
}

// trafficLine writes an event as columns: when, who, to whom, what.
func (a *app) trafficLine(ev protocol.Event, after time.Duration) string {
	var who, whom, what string
	colour := kindColour(ev.Body.Kind())
	switch e := ev.Body.(type) {
	case *protocol.MessageEvent:
		who, whom, what = string(e.From), list(e.To), string(e.Act)+"  "+protocol.Visible(e.Subject)
		if e.From == protocol.Hive {
			colour = yellow
		}
	case *protocol.HandledEvent:
		who, what = string(e.Agent), "handled "+shorten(string(e.ID))
		colour = dim
	case *protocol.DropEvent:
		who, whom, what = string(e.From), list(e.To), "dropped: "+string(e.Reason)
	case *protocol.QuarantineEvent:
		who, what = string(e.Agent), "set aside: "+string(e.Code)
	}
	if whom != "" {
		whom = "→ " + whom
	}
	return a.style.paint(dim, fmt.Sprintf("%6.2fs", after.Seconds())) + "  " +
		a.style.paint(colour, fmt.Sprintf("%-8s %-12s %s", who, whom, what))
}

func shorten(id string) string {
	if len(id) > 12 {
		return "…" + id[len(id)-8:]
	}
	return id
}

// runAgents starts the scripts and waits for them. Whatever still runs when
// time is up is killed, with everything that it started.
func runAgents(ctx context.Context, home string) error {
	ctx, cancel := limit(ctx, demoLimit)
	defer cancel()
	var all errgroup.Group
	failed := make([]error, len(hiveexample.Agents()))
	for i, id := range hiveexample.Agents() {
		all.Go(func() error {
			failed[i] = runAgent(ctx, home, id)
			return nil
		})
	}
	return errors.Join(append(failed, all.Wait())...)
}

func runAgent(ctx context.Context, home, id string) error {
	script := filepath.Join(home, "agents", id, hiveexample.Script)
	c := exec.CommandContext(ctx, "sh", script) //nolint:gosec // the example's own script
	c.Dir = home
	c.Env = append(slices.DeleteFunc(os.Environ(), func(kv string) bool { return strings.HasPrefix(kv, "HIVE_") }), "HIVE_DIR="+home, "HIVE_AGENT="+id)
	var words bytes.Buffer
	c.Stdout, c.Stderr = &words, &words
	c.WaitDelay = 2 * time.Second
	inOwnGroup(c)
	err := c.Run()
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("agent %s was stopped: %w", id, context.Cause(ctx))
	}
	return fmt.Errorf("agent %s ended with %w: %s", id, err, protocol.Quote(strings.TrimSpace(words.String())))
}

// demoJSON is what the demo prints with --json.
type demoJSON struct {
	Hive       string  `json:"hive"`
	Seconds    float64 `json:"seconds"`
	Messages   int     `json:"messages"`
	Deliveries int     `json:"deliveries"`
	Handled    int     `json:"handled"`
	Dropped    int     `json:"dropped"`
	SetAside   int     `json:"set_aside"`
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
	out := demoJSON{dir, took.Seconds(), seen.Messages, seen.Deliveries, seen.Handled, seen.Dropped, seen.SetAside, string(data)}
	return a.answer(out, func(p *printer) {
		p.line("")
		p.line("%s", a.style.paint(bold, hiveexample.Result))
		p.line("")
		p.line("    %s", strings.ReplaceAll(strings.TrimSpace(string(data)), "\n", "\n    "))
		p.line("")
		p.line("%d messages accepted, %d deliveries, %d handled, %d dropped, %d set aside, all of it committed, in %.1f s.",
			seen.Messages, seen.Deliveries, seen.Handled, seen.Dropped, seen.SetAside, took.Seconds())
		p.line("The hive is %s. Look at it:", dir)
		p.line("")
		p.table([][]string{
			{"    git -C " + dir + " log --stat", "every change, with its sequence numbers"},
			{"    hived --hive " + dir + " log", "every event (the file is log.jsonl)"},
			{"    hived --hive " + dir + " inbox", "what people were told"},
			{"    hived --hive " + dir + " trace ID", "the life of one message"},
			{"    hived --hive " + dir + " verify", "proof that nothing is missing"},
		})
	})
}
