package router_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/durable/faultfs"
	strides "github.com/hived/hived/internal/sweep"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/router"
)

// failure is a way in which operations fail.
type failure struct {
	name  string
	err   error
	times int                   // < 0: until the disk is healed, a while after the first
	short bool                  // only writes fail, after they have written half
	only  func(faultfs.Op) bool // nil: every operation
}

// healing is how long a disk fails until it is healed.
const healing = 10 * time.Second

var failures = []failure{
	{name: "EIO once", err: syscall.EIO, times: 1},
	{name: "full disk, once", err: durable.ErrNoSpace, times: 1, only: grows},
	{name: "EIO, half a write", err: syscall.EIO, times: 1, short: true},
	{name: "full disk, half a write", err: durable.ErrNoSpace, times: 1, short: true},
	{name: "EIO until healed", err: syscall.EIO, times: -1},
	{name: "full disk, 20 times", err: durable.ErrNoSpace, times: 20, only: grows},
	{name: "full disk until healed", err: durable.ErrNoSpace, times: -1, only: grows},
	{name: "ENOSPC of any operation", err: durable.ErrNoSpace, times: 1},
}

// grows reports whether an operation takes room on a disk.
func grows(op faultfs.Op) bool {
	return op == faultfs.OpCreate || op == faultfs.OpWrite || op == faultfs.OpMkdir || op == faultfs.OpLink
}

// hit is a failure that was planned on a disk, and the operation that it hit.
type hit struct {
	failure
	k int // operations up to the first that may fail

	mu    sync.Mutex
	left  int // failures to come; < 0 until the disk is healed
	op    faultfs.Op
	name  string // of the first operation that failed
	names bool   // a sync of names failed
}

func (h *hit) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return string(h.op) + " " + h.name
}

// install has a disk fail with what is left of the failure.
func (h *hit) install(disk *faultfs.Mem) {
	if h.short {
		disk.ShortWrite(1, h.err, h.fires)
	} else {
		disk.FailAt(1, h.err, -1, h.fires)
	}
}

// fires reports whether an operation fails, and counts it.
func (h *hit) fires(op faultfs.Op, name string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.k--; h.k > 0 || h.left == 0 || h.only != nil && !h.only(op) || h.short && op != faultfs.OpWrite {
		return false
	}
	if h.op == "" {
		h.op, h.name = op, name
		if h.left < 0 {
			time.AfterFunc(healing, h.heal)
		}
	}
	h.left = max(h.left-1, -1)
	h.names = h.names || op == faultfs.OpSyncDir || op == faultfs.OpSyncAll
	return true
}

func (h *hit) heal() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.left = 0
}

// remount reports, once, whether the file system has to be mounted anew.
func (h *hit) remount() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	names := h.names
	h.names = false
	return names
}

// judge checks that daemons ended because of failures that must end one, and of no others
// (spec §3.5, §3.6, §6.7; invariants 5 to 7 of the architecture).
func (h *hit) judge(ends []ending) error {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	log := h.name == protocol.PathLog || h.name == protocol.PathScratch+"/log.new"
	saves := h.op == faultfs.OpSync || h.op == faultfs.OpSyncDir || h.op == faultfs.OpSyncAll
	for _, e := range ends {
		if e.started && h.only != nil {
			wrong("a full disk ended a daemon: %w", e.err)
		}
	}
	switch {
	case h.times != 1:
	case len(ends) > 1:
		wrong("it ended %d daemons", len(ends))
	case len(ends) == 0 && (h.op == faultfs.OpSyncAll || log && (h.op == faultfs.OpSync || h.op == faultfs.OpWrite && errors.Is(h.err, syscall.EIO))):
		wrong("no daemon ended")
	case len(ends) == 1 && !log && !saves && h.op != "" && !strings.HasPrefix(h.name, protocol.PathSegments):
		wrong("it ended a daemon: %w", ends[0].err)
	}
	return errors.Join(errs...)
}

// fault is what goes wrong in a life at one operation.
type fault struct {
	name string
	on   func(l *life, k int) error
}

// crash returns a crash of the disk, after which the life goes on from what is left.
func crash(how faultfs.Loss) fault {
	return fault{how.String(), func(l *life, k int) error {
		l.disk.CrashAt(k, how)
		err := l.live()
		l.ends, l.disk = nil, l.disk.Reboot()
		switch {
		case errors.Is(err, faultfs.ErrCrashed):
			return nil
		case err != nil:
			return err
		}
		// The crash came when the life was over, or in git, whose troubles end no daemon;
		// a committer makes more or fewer operations each time.
		return l.daemon(context.Background(), day{}, true)
	}}
}

// fail returns a failure of operations: whoever made them tries again, and a daemon that
// ends is started again. When nothing fails any more, a daemon runs once more.
func fail(f failure) fault {
	return fault{f.name, func(l *life, k int) error {
		l.hit = &hit{failure: f, k: k, left: f.times}
		l.hit.install(l.disk)
		err := l.live()
		l.hit.heal()
		ends := l.ends
		l.ends = nil
		if err == nil {
			err = l.daemon(context.Background(), day{}, true)
		}
		return errors.Join(err, l.hit.judge(ends))
	}}
}

// after follows each fault. It goes on with the life to its end, and checks that nothing
// is wrong then, nor after a power cut, which must take nothing that a daemon left when it
// stopped cleanly.
func after(l *life) error {
	if err := errors.Join(l.live(), l.check()); err != nil {
		return l.told(err)
	}
	l.disk.CrashAt(0, faultfs.Drop)
	l.disk = l.disk.Reboot()
	if err := errors.Join(l.daemon(context.Background(), day{}, true), l.check()); err != nil {
		return l.told(fmt.Errorf("after a power cut at the end: %w", err))
	}
	return l.told(nil)
}

// told adds to err the daemons that did not end well, though nothing failed any more.
func (l *life) told(err error) error {
	for _, e := range l.ends {
		err = errors.Join(err, fmt.Errorf("a daemon ended: %w", e.err))
	}
	return err
}

// job is one life with a fault.
type job struct {
	from *life
	k    int // the operation of the fault, counted from there
	fault
}

// morning is the life at the beginning of a day, and how many operations the
// day has.
type morning struct {
	*life
	ops int
}

// mornings goes through a life without a fault, and returns the mornings of its days. A
// life with a fault begins at one of them and ends with the day after, or with the last
// one if everything is tried.
func mornings(t *testing.T, c *course) (list []morning) {
	t.Helper()
	if err := bubble(t, func() error {
		l, err := newLife(c)
		var sent [][]string
		for err == nil && l.day < len(c.days) {
			m := morning{l.fork(), 0}
			if m.until = len(c.days); !strides.Everything() {
				m.until = max(c.settled, min(l.day+2, len(c.days)))
			}
			list = append(list, m)
			before := l.disk.Ops()
			l.until = l.day + 1
			err = l.live()
			list[len(list)-1].ops = l.disk.Ops() - before
			var got map[string]string
			if err == nil {
				got, err = l.delivered()
			}
			sent = append(sent, slices.Collect(maps.Keys(got)))
		}
		for i := range list {
			if err == nil {
				list[i].sent = sent[list[i].until-1]
			}
		}
		return l.told(err)
	}); err != nil {
		t.Fatal(err)
	}
	return list
}

// shards is how many parts of a sweep run at once.
const shards = 4

// sweep runs jobs, and what follows each.
func sweep(t *testing.T, jobs []job) {
	t.Helper()
	old := debug.SetGCPercent(800) // nearly all of a life's memory is garbage
	var ops atomic.Int64
	var failed atomic.Bool // one broken life is enough
	t.Cleanup(func() {
		debug.SetGCPercent(old)
		t.Logf("%d lives, %d operations", len(jobs), ops.Load())
	})
	for s := range shards {
		t.Run(strconv.Itoa(s), func(t *testing.T) {
			t.Parallel()
			for i := s; i < len(jobs) && !failed.Load(); i += shards {
				j := jobs[i]
				l := j.from.fork()
				if err := bubble(t, func() error {
					pause(time.Until(l.now))
					begun := l.disk
					err := j.on(l, j.k)
					if err == nil {
						err = after(l)
					}
					ops.Add(int64(begun.Ops() + l.disk.Ops()))
					return err
				}); err != nil {
					failed.Store(true)
					t.Errorf("day %d, operation %d, %s, %v:\n%v", j.from.day+1, j.k, j.name, l.hit, err)
				}
			}
		})
	}
}

// plan returns the jobs of a sweep over the operations of every day.
func plan(list []morning, faults []fault, dense strides.Name) (jobs []job) {
	turn := 0
	for _, m := range list {
		for k := 1; k <= m.ops; k += strides.Of(dense) {
			for i, f := range faults {
				if strides.Everything() || i == turn%len(faults) {
					jobs = append(jobs, job{m.life, k, f})
				}
			}
			turn++
		}
	}
	return jobs
}

// crashes has a power cut that takes what was not synced, the death of the daemon, and a
// power cut that takes a different part of it each time.
var crashes = []fault{crash(faultfs.Drop), crash(faultfs.Keep), {"torn", func(l *life, k int) error {
	return crash(faultfs.Torn(uint64(k))).on(l, k)
}}}

// TestWholeHiveCrashes crashes a whole hive at its operations.
func TestWholeHiveCrashes(t *testing.T) {
	t.Parallel()
	sweep(t, plan(mornings(t, mail), crashes, strides.HiveCrashes))
}

// TestWholeHiveFails has the operations of a whole hive fail.
func TestWholeHiveFails(t *testing.T) {
	t.Parallel()
	sweep(t, plan(mornings(t, mail), failing(), strides.HiveFails))
}

func failing() (faults []fault) {
	for _, f := range failures {
		faults = append(faults, fail(f))
	}
	return faults
}

// TestWholeHiveCrashesAgain crashes a whole hive, then the next daemon at every
// operation of its recovery, and sometimes the one after that too.
func TestWholeHiveCrashesAgain(t *testing.T) {
	t.Parallel()
	sweep(t, crashAgain(t, mail, strides.Of(strides.HiveRecoveries), 1))
}

// crashAgain returns the jobs of crashes at every step-th operation of a course, each with
// second crashes at every denser-th operation of the recovery.
func crashAgain(t *testing.T, c *course, step, denser int) (jobs []job) {
	t.Helper()
	turn := 0
	for _, m := range mornings(t, c) {
		for k := step / 2; k <= m.ops; k += step {
			l := m.fork()
			n := 0 // number of operations of the recovery
			if err := bubble(t, func() error {
				err := crashes[turn%len(crashes)].on(l, k)
				probe := l.fork()
				if err == nil {
					n, err = probe.recovers()
				}
				l.now = time.Now()
				return err
			}); err != nil {
				t.Fatal(err)
			}
			for j := 1; j <= n; j += denser {
				jobs = append(jobs, job{l, j, recrash(turn + j)})
			}
			turn++
		}
	}
	return jobs
}

// recovers returns the number of operations of a start.
func (l *life) recovers() (ops int, err error) {
	ctx, stop := context.WithCancel(context.Background())
	stop()
	r, err := router.New(l.disk, router.Config{Settings: lifeSettings()})
	if err != nil {
		return 0, err
	}
	ops = l.disk.Ops()
	return ops, r.Run(ctx)
}

// recrash returns a crash, in one of three turns followed by another a little later.
func recrash(turn int) fault {
	first, second := crashes[turn%len(crashes)], crashes[turn/len(crashes)%len(crashes)]
	return fault{first.name + " after a crash", func(l *life, k int) error {
		err := first.on(l, k)
		if err == nil && turn%3 == 0 {
			err = second.on(l, 1+k*7%41)
		}
		return err
	}}
}
