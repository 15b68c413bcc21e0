// Package torture runs a real hived on a real disk and kills it again and again
// while agents go on working. It counts what the agents know they sent and what
// they found, and checks after each crash that log, files and git agree. It
// promises that
//
//   - only what an agent observed itself counts as sent or read: what the daemon
//     says is compared with that, never used instead of it;
//   - it works in a directory of its own, and on copies;
//   - everything that it reports was counted in that run.
//
// The caller chooses the program: the user's, one that kills itself at named
// points ([failpoint]), or a mutant.
//
// [failpoint]: https://pkg.go.dev/github.com/hived/hived/internal/failpoint
package torture

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Options of [Run].
type Options struct {
	// Program is the hived to torture.
	Program string
	// Dir is an existing directory to work in, on the file system to be tested.
	// What it makes there it removes, unless it found a problem.
	Dir string
	// Hive is copied, and the copies are tortured; if empty, new hives are made.
	Hive string
	// For is how long to run. Crashes, if not zero, is a number of crashes that
	// ends the run earlier; each kind of damage is then done once.
	For     time.Duration
	Crashes int
	// Agents is the number of agents; zero means 6.
	Agents int
	// Hostile holds the names of the hostile agents and programs, see [Hostiles].
	Hostile []string
	// Seed seeds what is random. The same seed does not give the same run, because
	// clocks take part in it.
	Seed uint64
	// Tell is called with what is being done and what was counted so far; it may be nil.
	Tell func(doing string, r Report)
}

// Report is what a run counted.
type Report struct {
	Messages   int `json:"messages"`   // that agents know they sent, counted for each recipient
	Crashes    int `json:"crashes"`    // SIGKILL of the daemon
	Stops      int `json:"stops"`      // SIGTERM, in between
	Lost       int `json:"lost"`       // messages that their recipient never found
	Doubled    int `json:"doubled"`    // messages that it found twice, or that are in the log twice
	Duplicates int `json:"duplicates"` // that agents sent again on purpose, and that nobody may get
	Broken     int `json:"broken"`     // files that are no messages, each of which must be set aside once
	Tasks      int `json:"tasks"`      // that agents created
	Finished   int `json:"finished"`   // tasks whose holder was told by hived that the result is accepted
	Checks     int `json:"checks"`     // that log, files and git agree
	Damages    int `json:"damages"`    // done to copies
	Noticed    int `json:"noticed"`    // damages that were reported or repaired
	// Hostile is how often each hostile agent or program did harm, by its name.
	Hostile map[string]int `json:"hostile,omitzero"`
	// Problems is everything that was wrong, in words.
	Problems []string `json:"problems"`
	// Kept is the directory of the hives in which a problem was found; empty if there was none.
	Kept string `json:"kept,omitzero"`
}

// OK reports whether nothing was wrong.
func (r *Report) OK() bool { return r.Lost == 0 && r.Doubled == 0 && len(r.Problems) == 0 }

// String returns the report in one line.
func (r *Report) String() string {
	return fmt.Sprintf("%d messages, %d tasks, %d finished, %d crashes, %d stops, %d of %d damages noticed: %d lost, %d doubled",
		r.Messages, r.Tasks, r.Finished, r.Crashes, r.Stops, r.Noticed, r.Damages, r.Lost, r.Doubled)
}

// Deeds returns how often each of the hostile did harm, in one line; empty if there
// were none.
func (r *Report) Deeds() string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(r.Hostile)) {
		list = append(list, fmt.Sprintf("%s %d", name, r.Hostile[name]))
	}
	return strings.Join(list, ", ")
}

func (r *Report) problem(format string, args ...any) {
	const most = 100
	if len(r.Problems) < most {
		r.Problems = append(r.Problems, fmt.Sprintf(format, args...))
	}
}

// next returns the most crashes of the next hive. A copy is crashed for as long as
// there is time, because it may be large.
func (o *Options) next(crashed int) int {
	most := perHive
	if o.Hive != "" {
		most = math.MaxInt
	}
	if o.Crashes > 0 {
		most = min(most, o.Crashes-crashed)
	}
	return most
}

const (
	defaultAgents = 6
	perHive       = 40 // crashes of a new hive before the next one is made
	damageShare   = 8  // one part in this many of the time is for damages
)

// Run tortures hives until the time is over. An error means that it could not go
// on, not that something was lost: that is in the report.
func Run(ctx context.Context, o Options) (Report, error) {
	r := Report{Problems: []string{}}
	if o.Agents == 0 {
		o.Agents = defaultAgents
	}
	if o.Tell == nil {
		o.Tell = func(string, Report) {}
	}
	work, err := os.MkdirTemp(o.Dir, "hived-torture-")
	if err != nil {
		return r, fmt.Errorf("make a directory to work in: %w", err)
	}
	if err := o.hives(ctx, work, &r); err != nil {
		return r, errors.Join(err, os.RemoveAll(work))
	}
	if !r.OK() {
		r.Kept = work
		return r, nil
	}
	return r, os.RemoveAll(work)
}

// hives tortures one hive after the other.
func (o *Options) hives(ctx context.Context, work string, r *Report) error {
	random := rand.New(rand.NewPCG(o.Seed, 1)) //nolint:gosec // nothing is secret
	killing, cancel := context.WithTimeout(ctx, o.For-o.For/damageShare)
	defer cancel()
	for n := 0; n == 0 || killing.Err() == nil && (o.Crashes == 0 || r.Crashes < o.Crashes); n++ {
		h, err := newHive(ctx, *o, filepath.Join(work, fmt.Sprintf("hive-%d", n)))
		if err != nil {
			return err
		}
		if err := h.kills(killing, random, o.next(r.Crashes), r); err != nil {
			return err
		}
		if n == 0 {
			if err := h.damages(ctx, random, o.damaging(), r); err != nil {
				return err
			}
		}
		if !r.OK() {
			continue // the hive is kept for inspection
		}
		if err := os.RemoveAll(h.dir); err != nil {
			return fmt.Errorf("remove a hive: %w", err)
		}
	}
	return context.Cause(ctx)
}

// damaging returns the least time for which copies are damaged.
func (o *Options) damaging() time.Duration {
	if o.Crashes > 0 {
		return 0
	}
	return o.For / damageShare
}
