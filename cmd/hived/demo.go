package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hived/hived/hive"
	hiveexample "github.com/hived/hived/hive-example"
	"github.com/hived/hived/internal/demo"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/router"
)

func (a *app) demoCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "demo [DIR]",
		Short: "Lets six small agents work in a hive of their own, and shows the traffic live",
		Long:  "Makes the example hive in a new directory (default: hive-demo), starts its agents, which are shell scripts,\nand shows the traffic live. First three of them write a text together. Then two have a task: the one that takes it\nis killed, and the other goes on. Then a worker is killed in the middle of a task of five steps, and none happens twice.\nThe hive stays, for you to look at.",
		Args:  argCount(0, 1),
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
		return exitWith(protocol.ExitRefused, "run the demo in %s: the directory is not empty; name another: hived demo DIR", protocol.Quote(dir))
	}
	if err := demo.Copy(dir); err != nil {
		return fmt.Errorf("copy the example: %w", err)
	}
	_, _, err := makeHive(dir, hive.Options{}) //nolint:contextcheck // a hive is made whole or not at all
	if err != nil {
		return err
	}
	disk, err := durable.Open(dir)
	if err != nil {
		return fmt.Errorf("open the hive: %w", err)
	}
	defer disk.Close() //nolint:errcheck // the router has synced what it wrote
	values, err := hive.Settings(disk)
	if err != nil {
		return err
	}
	start := time.Now()
	cfg := router.Config{Settings: values, Log: a.logger(slog.LevelInfo), Version: version()}
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find the program of hived: %w", err)
	}
	seen, err := demo.Play(ctx, disk, cfg, program, a.demoLine)
	if err != nil {
		return explainLock(err)
	}
	return a.demoResult(disk, dir, seen, time.Since(start))
}

// demoLine prints one line of the demo.
func (a *app) demoLine(l demo.Line) {
	if a.json {
		return
	}
	colour, own := map[demo.Tone]string{demo.Quiet: dim, demo.Notice: yellow, demo.Trouble: red, demo.Step: bold}[l.Tone]
	if !own {
		colour = kindColour(l.Kind)
	}
	if l.Whom != "" {
		l.Whom = "→ " + l.Whom
	}
	columns := strings.TrimRight(fmt.Sprintf("%-8s %-15s %s", l.Who, l.Whom, l.What), " ")
	a.out.line("%s  %s", a.style.paint(dim, fmt.Sprintf("%6.2fs", l.Since.Seconds())), a.style.paint(colour, columns))
}

// demoJSON is what the demo prints with --json.
type demoJSON struct {
	Hive    string  `json:"hive"`
	Seconds float64 `json:"seconds"`
	demo.Seen
	Result string `json:"result"`
}

// demoResult prints what the agents wrote and where to look.
func (a *app) demoResult(disk *durable.Disk, dir string, seen demo.Seen, took time.Duration) error {
	result, err := demo.Result(disk, dir)
	if err != nil {
		return err
	}
	out := demoJSON{dir, took.Seconds(), seen, result}
	return a.answer(out, func(p *printer) {
		p.line("")
		p.line("%s", a.style.paint(bold, hiveexample.Result))
		p.line("")
		p.line("    %s", strings.ReplaceAll(strings.TrimSpace(result), "\n", "\n    "))
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
			{"    cat " + dir + "/tasks/*/task.json", "the lives of the tasks"},
			{"    hived --hive " + dir + " verify", "proof that nothing is missing"},
		})
	})
}
