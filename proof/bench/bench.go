package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"time"
)

// Options of [Run].
type Options struct {
	Short bool     // smaller sizes, which take two minutes in all
	Only  []string // names of rows; all if empty
	Dir   string   // where the files go; if empty, the system's directory for temporary files
	// Program is a hived to run as a child process. If it is empty, the rows that
	// need one are not measured, and say so.
	Program string
	// Tell is called with the progress of the run. It may be nil.
	Tell func(Progress)
}

// Progress says how far a run is.
type Progress struct {
	Row   string
	Doing string        // within the row
	Share float64       // of the whole run, 0 to 1
	Left  time.Duration // estimated
}

// Names returns the names of the rows in their order.
func Names() []string {
	list := make([]string, len(rows))
	for i, r := range rows {
		list[i] = r.name
	}
	return list
}

// Run measures the chosen rows in their order. If the machine lacks what a row needs,
// the row's result says so. The error is the first of any other kind; the results are
// returned with it.
func Run(ctx context.Context, opt Options) ([]Result, error) {
	s := full
	if opt.Short {
		s = brief
	}
	return run(ctx, opt, s)
}

func run(ctx context.Context, opt Options, s sizes) (list []Result, err error) {
	var picked []row
	for _, r := range rows {
		if len(opt.Only) == 0 || slices.Contains(opt.Only, r.name) {
			picked = append(picked, r)
		}
	}
	b := &bench{sizes: s, program: opt.Program}
	if err := b.open(opt.Dir, picked); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	clock := newClock(opt, picked)
	for _, r := range picked {
		b.tell = clock.begin(r)
		result, failed := b.row(ctx, r)
		if ctx.Err() != nil {
			return list, fmt.Errorf("measure %s: %w", r.name, context.Cause(ctx))
		}
		if failed != nil && err == nil {
			err = fmt.Errorf("measure %s: %w", r.name, failed)
		}
		list = append(list, result)
		clock.end()
	}
	return list, err
}

// bench is one run.
type bench struct {
	sizes   sizes
	program string
	dir     string // everything is below it
	dirs    int
	tell    func(share float64, format string, args ...any)
	old     *aged  // nil until a row needs it
	tasks   *board // nil until a row needs it
}

// row measures one row. If this machine lacks something, the result says so.
func (b *bench) row(ctx context.Context, r row) (Result, error) {
	out, err := outcome{}, b.lacks(r)
	if err == nil {
		out, err = r.measure(ctx, b)
	}
	if err != nil {
		out = outcome{parts: append(out.parts, unmeasured(r.name, "", err.Error()))}
	}
	result := rowResult(r.name, r.what(b.sizes), out.parts)
	result.behind, result.plots = r.behind, out.plots
	if lacking := lack(""); errors.As(err, &lacking) {
		err = nil
	}
	return result, err
}

// lack is the error that a machine does not have what a row needs.
type lack string

func (l lack) Error() string { return string(l) }

func (b *bench) lacks(r row) error {
	if r.needs&git != 0 {
		if _, err := gitProgram(); err != nil {
			return err
		}
	}
	if r.needs&proc != 0 {
		if err := checkProc(); err != nil {
			return lack(err.Error())
		}
	}
	if r.needs&process != 0 && b.program == "" {
		return lack("there is no hived program to start")
	}
	return nil
}

// gitProgram returns the path of git.
func gitProgram() (string, error) {
	p, err := exec.LookPath("git")
	if err != nil {
		return "", lack("there is no git program here")
	}
	return p, nil
}

// open makes the directory of the run, and fails if there is not enough room.
func (b *bench) open(dir string, picked []row) error {
	if dir == "" {
		dir = os.TempDir()
	}
	var need int64
	aged := false
	for _, r := range picked {
		need += r.disk(b.sizes)
		aged = aged || r.needs&past != 0
	}
	if aged {
		need += agedDisk(b.sizes)
	}
	if free, known := freeBytes(dir); known && free < need {
		return fmt.Errorf("measure in %s: %s MiB are free and about %s are needed; name a larger disk with --dir, or fewer rows with --only, or say --short", dir, grouped(free>>20), grouped(need>>20))
	}
	var err error
	if b.dir, err = os.MkdirTemp(dir, "hived-bench-"); err != nil {
		return fmt.Errorf("measure in %s: %w; name another directory with --dir", dir, err)
	}
	return nil
}

// close deletes the files of all rounds. That is not done earlier because on some
// file systems a large deletion slows down the next minutes.
func (b *bench) close() error {
	var err error
	if b.tasks != nil {
		err = b.tasks.close()
	}
	return errors.Join(err, os.RemoveAll(b.dir))
}

// fresh makes a new directory.
func (b *bench) fresh() (string, error) {
	b.dirs++
	dir := filepath.Join(b.dir, strconv.Itoa(b.dirs))
	return dir, mkdirs(dir)
}

// clock estimates how long a run still takes, from the known cost of the rows and the
// speed of this machine so far.
type clock struct {
	hear   func(Progress)
	costs  map[string]time.Duration // of each row
	all    time.Duration
	behind time.Duration // estimates of the rows that are done
	now    string
	began  time.Time
}

func newClock(opt Options, picked []row) *clock {
	c := &clock{hear: opt.Tell, costs: map[string]time.Duration{}, began: time.Now()}
	if c.hear == nil {
		c.hear = func(Progress) {}
	}
	aged := false
	for _, r := range picked {
		cost, aging := r.full, agedFull
		if opt.Short {
			cost, aging = r.brief, agedBrief
		}
		if r.needs&past != 0 && !aged {
			aged = true
			cost += aging
		}
		c.costs[r.name] = cost
		c.all += cost
	}
	return c
}

func (c *clock) begin(r row) func(share float64, format string, args ...any) {
	c.now = r.name
	return c.tell
}

func (c *clock) tell(share float64, format string, args ...any) {
	done := c.behind + time.Duration(min(share, 1)*float64(c.costs[c.now]))
	left := c.all - done
	if done > c.all/50 {
		left = time.Duration(float64(left) * float64(time.Since(c.began)) / float64(done))
	}
	c.hear(Progress{Row: c.now, Doing: fmt.Sprintf(format, args...), Share: float64(done) / float64(max(c.all, 1)), Left: left})
}

func (c *clock) end() { c.behind += c.costs[c.now] }
