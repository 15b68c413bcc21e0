package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hived/hived/proof/bench"
	"github.com/hived/hived/protocol"
)

type benchFlags struct {
	short  bool
	only   []string
	dir    string
	report string
	soak   time.Duration
}

func (a *app) benchCommand() *cobra.Command {
	var f benchFlags
	c := &cobra.Command{
		Use:   "bench",
		Short: "Measures what a hive costs, compared with the loop that everybody writes",
		Long: "Measures what a hive costs, compared with the loop that everybody writes: for each message, read it, write it into the inbox,\nrename the original, append to a log, `git add -A && git commit`. It works in a directory of its own and needs no hive.\n" +
			"The whole suite takes the better part of an hour and 40 GiB; --short takes two minutes. Rows: " + strings.Join(bench.Names(), ", ") + ".",
		Args: argCount(0, 0),
		RunE: func(c *cobra.Command, _ []string) error { return a.bench(c, f) },
	}
	flags := c.Flags()
	flags.BoolVar(&f.short, "short", false, "smaller sizes: two minutes, to see what changed")
	flags.StringSliceVar(&f.only, "only", nil, "only these `rows`")
	flags.StringVar(&f.dir, "dir", "", "work in a new directory below this `directory` (default: the one for temporary files)")
	flags.DurationVar(&f.soak, "soak", 0, "instead: send 200 messages a second for this long, and check that memory, descriptors, goroutines, packs and files stay flat")
	flags.StringVar(&f.report, "report", "", "write the results as a page, with its plots beside it, to this `file` (.md)")
	return c
}

func (a *app) bench(c *cobra.Command, f benchFlags) error {
	for _, name := range f.only {
		if !slices.Contains(bench.Names(), name) {
			return usageError("bench has no row %s%s", protocol.Quote(name), didYouMean(name, bench.Names(), "the rows are "+strings.Join(bench.Names(), ", ")))
		}
	}
	if f.report != "" && filepath.Ext(f.report) != ".md" {
		return usageError("--report %s: the page is Markdown; name a file that ends in .md", protocol.Quote(f.report))
	}
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find the program to measure: %w", err)
	}
	if f.soak != 0 {
		return a.soak(c, f, program)
	}
	machine := bench.MachineAt(f.dir)
	a.note("measuring with %s", machine)
	watch := a.progressBar()
	list, err := bench.Run(c.Context(), bench.Options{Short: f.short, Only: f.only, Dir: f.dir, Program: program, Tell: watch.Tell})
	watch.End()
	if len(list) > 0 {
		err = errors.Join(err, a.reportBench(f, machine, list))
	}
	return err
}

// leastSoak is the shortest soak in which anything shows.
const leastSoak = 10 * time.Second

// soak runs the soak, and fails where something grew with time.
func (a *app) soak(c *cobra.Command, f benchFlags, program string) error {
	if f.soak < leastSoak || f.short || len(f.only) > 0 {
		return usageError("--soak %s: give at least %s, without --short and --only", f.soak, leastSoak)
	}
	machine := bench.MachineAt(f.dir)
	a.note("soaking with %s", machine)
	bar := a.progressBar()
	s, err := bench.RunSoak(c.Context(), bench.Options{Dir: f.dir, Program: program, Tell: bar.Tell}, f.soak)
	bar.End()
	if err != nil {
		return err
	}
	if err := a.answer(s, func(p *printer) { p.line("%s", strings.TrimSpace(s.String())) }); err != nil {
		return err
	}
	if f.report != "" {
		name := pageName(f.report)
		r := bench.NewSoakReport(name, fmt.Sprintf("hived bench --soak %s --report %s", f.soak, name), machine, s)
		if err := r.Write(f.report); err != nil {
			return err
		}
	}
	if !s.OK() {
		return exitWith(protocol.ExitGap, "soak: something grew with time; see which figure is over its limit")
	}
	return nil
}

// pageName returns the name of a page as the page prints it, without directories
// of this machine.
func pageName(file string) string {
	if filepath.IsAbs(file) {
		return filepath.Base(file)
	}
	return filepath.ToSlash(file)
}

// reportBench prints the results and writes the page.
func (a *app) reportBench(f benchFlags, m bench.Machine, list []bench.Result) error {
	err := a.answer(list, func(p *printer) {
		_ = bench.Table(p, list) // Write remembers the error
	})
	if err != nil || f.report == "" {
		return err
	}
	command := "hived bench"
	if f.short {
		command += " --short"
	}
	if len(f.only) > 0 {
		command += " --only " + strings.Join(f.only, ",")
	}
	name := pageName(f.report)
	r := bench.NewReport(name, command+" --report "+name, f.short, m, list)
	return r.Write(f.report)
}

// progressBar shows on standard error how far a run is.
func (a *app) progressBar() *bench.Watch {
	return &bench.Watch{W: a.stderr, Over: isTerminal(a.stderr)}
}
