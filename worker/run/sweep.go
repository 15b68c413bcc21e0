package run

import (
	"sync"
	"time"

	"github.com/hived/hived/internal/process"
)

// family is all that belongs to one run. Whatever a program starts, and whoever of them
// ends, the rest is adopted by this program: so what is left when the program has ended
// are orphans and what they have started.
type family struct{ name string }

var live = struct {
	sync.Mutex
	runs map[string]bool
}{runs: map[string]bool{}}

func begin(name string) family {
	process.AdoptOrphans()
	live.Lock()
	defer live.Unlock()
	live.runs[name] = true
	return family{name}
}

func (f family) end() {
	live.Lock()
	defer live.Unlock()
	delete(live.runs, f.name)
}

// has reports whether an orphan belongs to the run. One that has cleared its environment
// says nothing: it belongs to the run that ends if no other is under way, and else it is
// ended with the last of them.
func (f family) has(o process.Orphan) bool {
	if name, says := o.Env(EnvRun); says {
		return name == f.name
	}
	live.Lock()
	defer live.Unlock()
	return len(live.runs) == 1
}

const (
	sweepEvery = time.Millisecond // at first; each wait is twice as long,
	sweepSlow  = 20 * time.Millisecond
	sweepMost  = 5 * time.Second // after that moment what hangs in the kernel is left to it
)

// sweep waits until nothing of the run is left, ends what is left after a moment, and
// returns how many it ended.
func (f family) sweep(after time.Time) (killed int) {
	dead := map[process.Orphan]bool{}
	unsure := 0
	for wait := sweepEvery; ; wait = min(2*wait, sweepSlow) {
		left, silent := f.left()
		if silent { // one that just becomes another program says nothing either
			unsure++
		}
		if len(left) == 0 && (!silent || unsure > 2) || time.Since(after) > sweepMost {
			return killed
		}
		for _, o := range left {
			if time.Now().Before(after) {
				break
			}
			if o.Kill(); !dead[o] {
				dead[o] = true
				killed++
			}
		}
		time.Sleep(wait) //nolint:forbidigo // nothing tells when an orphan ends
	}
}

// left returns what is left of the run, and whether there are orphans beside that do not
// say to which run they belong.
func (f family) left() (list []process.Orphan, silent bool) {
	for _, o := range process.Orphans() {
		if o.Reap() {
			continue
		}
		if f.has(o) {
			list = append(list, o)
			continue
		}
		_, says := o.Env(EnvRun)
		silent = silent || !says
	}
	return list, silent
}
