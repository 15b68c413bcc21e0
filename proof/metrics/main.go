// Command metrics prints figures on the size and the shape of hived's source: what
// each is now, and the most that it may be. It counts in the module of the working
// directory.
//
//	go run ./proof/metrics            prints the figures, and the places of some
//	go run ./proof/metrics -places    prints the places of all that have any
//	go run ./proof/metrics -check     also fails if a figure is too large
//
// Which package may import which, and which packages are pure, is checked by
// `go test ./internal/archtest`.
package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"text/tabwriter"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "metrics:", err)
		os.Exit(1) //nolint:forbidigo // this is a main program
	}
}

func run(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("metrics", flag.ContinueOnError)
	check := flags.Bool("check", false, "fail if a figure is too large")
	places := flags.Bool("places", false, "print the places of every figure that has any")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return nil
	case err != nil:
		return err
	}
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	s, err := load(os.DirFS(root))
	if err != nil {
		return err
	}
	list := measure(s)
	if err := table(out, list); err != nil {
		return err
	}
	for _, m := range list {
		if len(m.places) > 0 && (m.listed || *places) {
			if _, err := fmt.Fprintf(out, "\n%s:\n  %s\n", m.name, strings.Join(m.places, "\n  ")); err != nil {
				return err
			}
		}
	}
	if *check {
		return missed(list)
	}
	return nil
}

// figures are what is counted, and the limits of docs/adr/0037-figures-that-are-held.md.
// A commit that needs a higher one raises it here and says in its body what for.
var figures = []figure{
	{name: "Router: fields", limit: 16, count: fields("router", "Router")},
	{name: "Router's core: fields", limit: 16, count: fields("router", "core")},
	{name: "Router: methods", limit: 55, count: methods("router", "Router")},
	{name: "router: lines", limit: 3000, count: lines("router")},
	{name: "cmd/hived: lines", limit: 5600, count: lines("cmd/hived")},
	{name: "functions over 60 lines", limit: 0, count: longFunctions, listed: true},
	{name: "type switches on event bodies", limit: 6, count: bodySwitches, listed: true},
	{name: "packages with a table of codes", limit: 1, count: codeTables, listed: true},
	{name: "router/decide: exported", limit: 15, count: exported("router/decide")},
	{name: "router/place: exported", limit: 15, count: exported("router/place")},
	{name: "router/agenda: exported", limit: 15, count: exported("router/agenda")},
	{name: "router/clock: exported", limit: 15, count: exported("router/clock")},
	{name: "view: exported", limit: 15, count: exported("view")},
	{name: "hive: exported", limit: 15, count: exported("hive")},
	{name: "gitcommit/follow: exported", limit: 15, count: exported("gitcommit/follow")},
	{name: "internal/memory: exported", limit: 15, count: exported("internal/memory")},
	{name: "internal/snapshot: exported", limit: 15, count: exported("internal/snapshot")},
	{name: "functions with a bool parameter", limit: 25, count: boolParameters},
	{name: "modules that go.mod requires", limit: 33, count: requirements},
	{name: "lines of code", limit: 78000, count: allLines},
	{name: "lines of tests", limit: 69000, count: testLines},
}

type figure struct {
	name   string
	limit  int  // the most that it may be
	listed bool // its places are always printed
	count  func(*source) tally
}

// tally is the result of a count.
type tally struct {
	n      int
	places []string // what was counted, where that is worth a line
	absent bool     // the package or type to count in is not there
}

type measured struct {
	figure
	tally
}

func measure(s *source) (out []measured) {
	for _, f := range figures {
		out = append(out, measured{f, f.count(s)})
	}
	return out
}

// tooLarge reports whether the figure is beyond its limit.
func (m measured) tooLarge() bool { return m.n > m.limit }

// table prints a line for each figure.
func table(out io.Writer, list []measured) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, err := fmt.Fprint(w, "now\twanted\t\t figure\n")
	for _, m := range list {
		now, mark := strconv.Itoa(m.n), ""
		if m.absent {
			now = "–"
		}
		if m.tooLarge() {
			mark = "too large"
		}
		_, failed := fmt.Fprintf(w, "%s\t≤ %d\t%s\t %s\n", now, m.limit, mark, m.name)
		err = cmp.Or(err, failed)
	}
	return cmp.Or(err, w.Flush())
}

// missed returns an error that names each figure that is too large, or that counts in
// something that is gone.
func missed(list []measured) error {
	var errs []error
	for _, m := range list {
		switch {
		case m.absent:
			errs = append(errs, fmt.Errorf("%s: there is nothing of this name to count in", m.name))
		case m.tooLarge():
			errs = append(errs, fmt.Errorf("%s: %d is more than %d", m.name, m.n, m.limit))
		}
	}
	return errors.Join(errs...)
}

// moduleRoot returns the directory of go.mod: the working directory or one above it.
func moduleRoot() (string, error) {
	here, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir := here; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("there is no go.mod in %s or above; run this in hived's source", here)
		}
	}
}
