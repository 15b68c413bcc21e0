package main

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hived/hived/hive"
	"github.com/hived/hived/proof/bench"
	"github.com/hived/hived/proof/torture"
	"github.com/hived/hived/protocol"
)

type tortureFlags struct {
	minutes float64
	dir     string
	seed    uint64
	hostile map[string]*bool // by the names of the hostile parties
}

func (a *app) tortureCommand() *cobra.Command {
	var f tortureFlags
	c := &cobra.Command{
		Use:   "torture",
		Short: "Kills daemons and damages copies of a hive, and proves that nothing was lost",
		Long: "Starts daemons on hives of its own, kills them at random while agents go on, damages copies, and compares what the agents\nknow with the log, the files and git. With --hive it works on copies of that hive, whose daemon must not run;\n" +
			"HIVE_DIR and the current directory are ignored. Exit status 6 means that something was lost, doubled or not noticed.",
		Args: argCount(0, 0),
		RunE: func(c *cobra.Command, _ []string) error { return a.torture(c, f) },
	}
	flags := c.Flags()
	flags.Float64Var(&f.minutes, "minutes", 2, "how long to run, roughly")
	flags.StringVar(&f.dir, "dir", "", "work in a new directory below this `directory` (default: the one for temporary files)")
	flags.Uint64Var(&f.seed, "seed", 1, "the `number` that the random choices start from")
	f.hostile = map[string]*bool{}
	for _, h := range torture.Hostiles() {
		f.hostile[h.Name] = flags.Bool(h.Name, false, strings.ReplaceAll(h.What, "`", "")) // pflag takes a quoted word as the name of the value
	}
	return c
}

func (a *app) torture(c *cobra.Command, f tortureFlags) error {
	const most = 7 * 24 * 60
	if !(f.minutes > 0 && f.minutes <= most) {
		return usageError("--minutes %v: give a number of minutes, more than 0 and at most %d", f.minutes, most)
	}
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find the program to torture: %w", err)
	}
	o := torture.Options{Program: program, Dir: f.dir, For: time.Duration(f.minutes * float64(time.Minute)), Seed: f.seed}
	for _, h := range torture.Hostiles() {
		if *f.hostile[h.Name] {
			o.Hostile = append(o.Hostile, h.Name)
		}
	}
	if a.hive != "" {
		if o.Hive, err = a.stoppedHive(); err != nil {
			return err
		}
	}
	begin := time.Now()
	bar := a.progressBar()
	o.Tell = func(doing string, r torture.Report) {
		gone := time.Since(begin)
		bar.Tell(bench.Progress{Row: doing, Doing: fmt.Sprintf("%d crashes, %d checks", r.Crashes, r.Checks), Share: gone.Seconds() / o.For.Seconds(), Left: o.For - gone})
	}
	r, err := torture.Run(c.Context(), o)
	bar.End()
	if err != nil {
		return fmt.Errorf("torture: %w", err)
	}
	if err := a.answer(r, func(p *printer) {
		for _, text := range r.Problems {
			p.line("%s", protocol.Visible(text))
		}
		if text := r.Deeds(); text != "" {
			p.line("%s", text)
		}
		p.line("%s", r.String())
	}); err != nil || r.OK() {
		return err
	}
	return exitWith(protocol.ExitGap, "torture found %s; the hives are in %s", plural(len(r.Problems), "problem"), r.Kept)
}

// stoppedHive returns the directory of a hive that no daemon runs in: a copy that
// is made while files move is not the hive at any one moment.
func (a *app) stoppedHive() (string, error) {
	disk, err := a.openAt("")
	if err != nil {
		return "", err
	}
	defer disk.Close() //nolint:errcheck // only read
	pid, held, err := hive.Daemon(disk)
	if err != nil {
		return "", err
	}
	if held {
		return "", &lockHeldError{fmt.Sprintf("copy %s: the daemon with process id %d runs; stop it with `hived down`; the copies take only a moment", disk.Path("."), pid)}
	}
	return disk.Path("."), nil
}
