package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/hived/hived/internal/pause"
	"github.com/hived/hived/proof/child"
	"github.com/hived/hived/protocol"
)

const (
	soakAgents  = 20
	soakRate    = 200 // messages a second
	soakSamples = 240

	// soakYAML has windows that are full after a few minutes of soak: what still
	// grows after that grows for ever.
	soakYAML = "remember: {ids: 10000, conversations: 1000}\nretention: {files: 50}\n"
)

// Soak is the result of a daemon carrying a steady load for a long time.
type Soak struct {
	Seconds  float64 `json:"seconds"`
	Messages int     `json:"messages"` // sent, delivered and handled
	Figures  []Flat  `json:"figures"`
	Samples  int     `json:"samples"`
	plots    []plot
}

// Flat is one figure that must not grow with time.
type Flat struct {
	Name  string  `json:"name"`
	Unit  string  `json:"unit"`
	Early float64 `json:"early"` // median of the second quarter of the time
	Late  float64 `json:"late"`  // median of the last quarter
	Most  float64 `json:"most"`
	Limit float64 `json:"limit"` // for Late
	Flat  bool    `json:"flat"`
}

// OK reports whether nothing grew.
func (s *Soak) OK() bool {
	for _, f := range s.Figures {
		if !f.Flat {
			return false
		}
	}
	return len(s.Figures) > 0
}

// soaked describes the figures, in the order of [moment].
var soaked = []struct {
	name, unit, title string
	share, slack      float64 // how much larger Late may be than Early
}{
	{"resident memory", "MiB", "Resident memory of the daemon under a steady load", 0.15, 4},
	{"descriptors", "", "File descriptors that the daemon holds", 0, 3},
	{"goroutines", "", "Goroutines of the daemon", 0, 3},
	{"packs", "", "Packs in .git/objects/pack", 0.25, 10},
	{"files", "", "Files in the hive, without sealed segments of the log", 0.1, 100},
}

// moment holds the figures at one time.
type moment struct {
	at     float64 // minutes
	values [5]float64
}

// RunSoak has 20 agents send 200 messages a second for the given time, and samples the
// resources of the daemon and the hive. It needs /proc.
func RunSoak(ctx context.Context, opt Options, long time.Duration) (s Soak, err error) {
	b := &bench{sizes: full, program: opt.Program}
	if err := b.lacks(row{needs: proc | process}); err != nil {
		return s, err
	}
	if err := b.open(opt.Dir, nil); err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	dir, err := b.hiveDir(ctx, soakAgents, soakYAML)
	if err != nil {
		return s, err
	}
	d, err := b.up(dir, "--pprof", "127.0.0.1:0")
	if err != nil {
		return s, err
	}
	r := &soaking{dir: dir, daemon: d, traffic: newTraffic(dir, soakAgents, newGenerator(4)), long: long, tell: opt.Tell}
	if err := errors.Join(r.run(ctx), d.Stop()); err != nil {
		return s, fmt.Errorf("soak: %w", err)
	}
	if _, err := b.run(ctx, dir, "verify"); err != nil {
		return s, err
	}
	return r.outcome(), nil
}

type soaking struct {
	dir     string
	daemon  *child.Daemon
	traffic *traffic
	long    time.Duration
	tell    func(Progress)
	samples []moment
}

// run sends at a steady pace, handles what has come, and takes samples.
func (r *soaking) run(ctx context.Context) error {
	url, err := r.profiles(ctx)
	if err != nil {
		return err
	}
	begin := time.Now()
	next := time.Duration(0)
	for gone := time.Duration(0); gone < r.long; gone = time.Since(begin) {
		if err := r.traffic.round(int(gone.Seconds() * soakRate)); err != nil {
			return err
		}
		if gone >= next {
			next += r.long / soakSamples
			if err := r.sample(ctx, url, gone); err != nil {
				return err
			}
			if r.tell != nil {
				r.tell(Progress{Row: "soak", Doing: grouped(int64(r.traffic.taken)) + " messages", Share: gone.Seconds() / r.long.Seconds(), Left: r.long - gone})
			}
		}
		if err := pause.For(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
	return r.traffic.run(ctx, 0, func(int) {})
}

var profilesAt = regexp.MustCompile(`http://[0-9.:]+/debug/pprof/`)

// profiles waits until the daemon has printed the address of its profiles.
func (r *soaking) profiles(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		if url := profilesAt.FindString(r.daemon.Said()); url != "" {
			return url, nil
		}
		if err := pause.For(ctx, 10*time.Millisecond); err != nil {
			return "", fmt.Errorf("the daemon does not say where its profiles are: %s", r.daemon.Said())
		}
	}
}

func (r *soaking) sample(ctx context.Context, url string, at time.Duration) error {
	s := moment{at: at.Minutes()}
	var err error
	if s.values[0], err = resident(r.daemon.PID()); err != nil {
		return err
	}
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", r.daemon.PID()))
	if err != nil {
		return err
	}
	s.values[1] = float64(len(open))
	if s.values[2], err = goroutines(ctx, url); err != nil {
		return err
	}
	if s.values[3], s.values[4], err = holds(r.dir); err != nil {
		return err
	}
	r.samples = append(r.samples, s)
	return nil
}

// goroutines asks a process for the number of its goroutines.
func goroutines(ctx context.Context, url string) (float64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"goroutine?debug=1", nil)
	if err != nil {
		return 0, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close() //nolint:errcheck // only read
	line, err := bufio.NewReader(res.Body).ReadString('\n')
	if err != nil {
		return 0, err
	}
	_, number, ok := strings.Cut(strings.TrimSpace(line), "total ")
	if !ok {
		return 0, fmt.Errorf("the profile of goroutines begins with %q", line)
	}
	return strconv.ParseFloat(number, 64)
}

// holds counts packs, and all files except sealed segments, whose number is meant to
// grow.
func holds(dir string) (packs, files float64, err error) {
	segments := filepath.Join(dir, protocol.PathSegments)
	err = filepath.WalkDir(dir, func(p string, e fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil // it has just been removed
		case err != nil:
			return err
		case e.IsDir() && p == segments:
			return fs.SkipDir
		case e.IsDir():
			return nil
		case strings.HasSuffix(p, ".pack"):
			packs++
		}
		files++
		return nil
	})
	return packs, files, err
}

// outcome compares the samples with the limits.
func (r *soaking) outcome() Soak {
	s := Soak{Seconds: r.long.Seconds(), Messages: r.traffic.taken, Samples: len(r.samples)}
	n := len(r.samples)
	for i, f := range soaked {
		of := func(list []moment) (out []float64) {
			for _, x := range list {
				out = append(out, x.values[i])
			}
			return out
		}
		early, late := median(of(r.samples[n/4:n/2])), median(of(r.samples[n-n/4:]))
		limit := early*(1+f.share) + f.slack
		s.Figures = append(s.Figures, Flat{Name: f.name, Unit: f.unit, Early: early, Late: late, Most: quantile(of(r.samples), 1), Limit: limit, Flat: late <= limit})
		p := plot{name: "soak-" + strings.ReplaceAll(f.name, " ", "-"), title: f.title, x: axis{label: "minutes"}, y: axis{label: strings.TrimSpace(f.name + " " + f.unit), zero: true}}
		line := series{name: fmt.Sprintf("%d messages a second, %d agents", soakRate, soakAgents)}
		for _, x := range r.samples {
			line.points = append(line.points, point{x.at, x.values[i]})
		}
		p.series = []series{line}
		s.plots = append(s.plots, p)
	}
	return s
}

// NewSoakReport writes the page of a soak: name is that of its file, command
// what was run.
func NewSoakReport(name, command string, m Machine, s Soak) Report {
	r := Report{Plots: map[string]string{}, Dir: strings.TrimSuffix(path.Base(name), path.Ext(name))}
	var b strings.Builder
	fmt.Fprintf(&b, "# A long time under load\n\nWritten by `%s`, on a machine with %s.\n\n", command, m)
	fmt.Fprintf(&b, "%d agents sent %d messages a second for %s, %s in all, and handled what they got; `hived verify` found nothing wrong at the end. The windows for ids and conversations were set to sizes that are full after a minute, and retention to 50 files, so that what still grows would grow for ever. A figure is flat if in the last quarter of the time it is within its limit, which is derived from the second quarter. Sealed segments of the log are not counted: they are kept.\n\n",
		soakAgents, soakRate, time.Duration(s.Seconds*float64(time.Second)).Round(time.Second), grouped(int64(s.Messages)))
	b.WriteString("| figure | second quarter | last quarter | limit | most | flat |\n|---|---:|---:|---:|---:|---|\n")
	for _, c := range s.cells() {
		fmt.Fprintf(&b, "| %s |\n", strings.Join(c, " | "))
	}
	for _, p := range s.plots {
		file := p.name + ".svg"
		r.Plots[file] = p.svg()
		fmt.Fprintf(&b, "\n![%s](%s/%s)\n", p.title, r.Dir, file)
	}
	r.Page = b.String()
	return r
}

func (s *Soak) cells() [][]string {
	list := make([][]string, 0, len(s.Figures))
	for _, f := range s.Figures {
		name := f.Name
		if f.Unit != "" {
			name += ", " + f.Unit
		}
		list = append(list, []string{name, figure(f.Early), figure(f.Late), figure(f.Limit), figure(f.Most), map[bool]string{true: "yes", false: "no"}[f.Flat]})
	}
	return list
}

// String returns the result in lines for people.
func (s *Soak) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s messages in %s\n", grouped(int64(s.Messages)), time.Duration(s.Seconds*float64(time.Second)).Round(time.Second))
	for _, c := range s.cells() {
		fmt.Fprintf(&b, "%-20s %8s, then %8s (at most %s is flat): %s\n", c[0], c[1], c[2], c[3], c[5])
	}
	return b.String()
}
