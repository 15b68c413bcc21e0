// Package torture runs a real hived on a real disk and takes it away, again and
// again, while agents go on working: it counts what they know they sent and what
// they found, and whether log, files and git say the same after each crash. It
// promises that
//
//   - nothing but what an agent saw with its own eyes counts as sent or as read:
//     the daemon's word is held against it, never taken for it;
//   - it works in a directory of its own, and on copies;
//   - what it reports it has counted in that run.
//
// It needs a program, and leaves to its callers which: the one of the user, one
// that kills itself at named points ([failpoint]), or a mutant.
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
	// Dir is where it works: a directory that is there, of the file system that
	// is meant. What it makes there it removes, unless something was found.
	Dir string
	// Hive is copied, and the copies are tortured; empty: new hives are made.
	Hive string
	// For is how long. Crashes, if not zero, ends it earlier; then each damage is
	// done once.
	For     time.Duration
	Crashes int
	// Agents is how many there are; zero: 6.
	Agents int
	// Hostile are the names of those who do harm, see [Hostiles].
	Hostile []string
	// Seed of what is random; the same seed does not give the same run, for
	// there are clocks in it.
	Seed uint64
	// Tell hears what is being done and what was counted; it may be nil.
	Tell func(doing string, r Report)
}

// Report is what a run counted.
type Report struct {
	Messages   int `json:"messages"`   // that agents know they sent, each for one recipient
	Crashes    int `json:"crashes"`    // SIGKILL of the daemon
	Stops      int `json:"stops"`      // SIGTERM, in between
	Lost       int `json:"lost"`       // of the messages: that their recipient never found
	Doubled    int `json:"doubled"`    // that it found twice, or that the log holds twice
	Duplicates int `json:"duplicates"` // that agents sent again on purpose, and nobody may get
	Broken     int `json:"broken"`     // files that are no messages, each to be set aside once
	Tasks      int `json:"tasks"`      // that agents created
	Finished   int `json:"finished"`   // of the tasks: those whose result hived told its holder it took
	Checks     int `json:"checks"`     // that log, files and git say the same
	Damages    int `json:"damages"`    // done to copies
	Noticed    int `json:"noticed"`    // of the damages: those that were told of, or mended
	// Hostile is how often each of those who do harm did it, by their names.
	Hostile map[string]int `json:"hostile,omitzero"`
	// Problems is everything that was not as it has to be, in words.
	Problems []string `json:"problems"`
	// Kept is where the hives are in which a problem was found; empty: nowhere.
	Kept string `json:"kept,omitzero"`
}

// OK tells whether nothing was wrong.
func (r *Report) OK() bool { return r.Lost == 0 && r.Doubled == 0 && len(r.Problems) == 0 }

// String is the report in one line.
func (r *Report) String() string {
	return fmt.Sprintf("%d messages, %d tasks, %d finished, %d crashes, %d stops, %d of %d damages noticed: %d lost, %d doubled",
		r.Messages, r.Tasks, r.Finished, r.Crashes, r.Stops, r.Noticed, r.Damages, r.Lost, r.Doubled)
}

// Deeds is what those did who do harm, in one line; empty: there were none.
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

// next is how often the next hive is to be crashed at most. A copy is crashed for
// as long as there is time: it may be large.
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
	perHive       = 40 // crashes of a new hive, before the next one
	damageShare   = 8  // one part of so many of the time is for damages
)

// Run tortures until the time is over. An error means that it could not go on,
// and not that something was lost: that is in the report.
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
			continue // what is wrong is kept
		}
		if err := os.RemoveAll(h.dir); err != nil {
			return fmt.Errorf("take a hive away: %w", err)
		}
	}
	return context.Cause(ctx)
}

// damaging is how long copies are damaged at least.
func (o *Options) damaging() time.Duration {
	if o.Crashes > 0 {
		return 0
	}
	return o.For / damageShare
}
