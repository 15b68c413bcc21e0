package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hived/hived/internal/pause"
)

var memoryRow = row{
	name: "memory",
	what: func(s sizes) string {
		return fmt.Sprintf("Resident memory and CPU time of the daemon of a hive with %s behind it, while its %s are idle for %s: of the daemon that carried at least the last half of them, and of one that was started again. The baseline is the daemon of a new hive with as many agents.",
			count(s.agedMessages, "messages"), count(s.agedAgents, "agents"), s.quiet)
	},
	behind: "What is kept for each of the last million ids that senders chose, of the million messages that can be answered, and of each file of .sent/ and .done/, is about 100 MiB; the rest is the program, what Go's collector needs for its own work, and garbage. After a busy time there are also pages that a few small objects keep from being released. The CPU time goes into checking every agent's directories every `rescan`.",
	needs:  proc | process | past,
	brief:  18 * time.Second, full: 450 * time.Second,
	disk: func(s sizes) int64 { return int64(s.agedAgents) * agentDisk },
	measure: func(ctx context.Context, b *bench) (outcome, error) {
		s := b.sizes
		fresh, err := b.hiveDir(ctx, s.agedAgents, "")
		if err != nil {
			return outcome{}, err
		}
		young, err := b.idleDaemon(ctx, fresh, nil)
		if err != nil {
			return outcome{}, err
		}
		a, err := b.aged(ctx)
		if err != nil {
			return outcome{}, err
		}
		old, err := b.idleDaemon(ctx, a.dir, a.carry(b))
		if err != nil {
			return outcome{}, err
		}
		again, err := b.idleDaemon(ctx, a.dir, nil)
		if err != nil {
			return outcome{}, err
		}
		return outcome{parts: []Part{
			compared("resident, after it carried them", "MiB", young.resident, old.resident).atMost(128),
			compared("resident, started anew", "MiB", young.resident, again.resident).atMost(128),
			compared("CPU, after it carried them", "% of a core", []float64{young.cpu}, []float64{old.cpu}).atMost(1),
			compared("CPU, started anew", "% of a core", []float64{young.cpu}, []float64{again.cpu}).atMost(1),
		}}, nil
	},
}

// carry has the agents of the aged hive send the missing messages, and at least half
// of all messages, under the same daemon.
func (a *aged) carry(b *bench) func(context.Context) error {
	return func(ctx context.Context) error {
		n := max(b.sizes.agedMessages-a.traffic.taken, b.sizes.agedMessages/2)
		return a.traffic.run(ctx, n, func(taken int) {
			b.tell(0.5+0.3*float64(taken)/float64(n), "%s more messages of %s", grouped(int64(taken)), grouped(int64(n)))
		})
	}
}

// idleUse is what an idle daemon uses.
type idleUse struct {
	resident []float64 // MiB, sampled while it is idle
	cpu      float64   // % of a core
}

// idleDaemon runs a daemon, lets it work, waits until it is idle, and measures it for
// a while.
func (b *bench) idleDaemon(ctx context.Context, dir string, work func(context.Context) error) (idleUse, error) {
	d, err := b.up(dir)
	if err != nil {
		return idleUse{}, err
	}
	if work != nil {
		err = work(ctx)
	}
	var use idleUse
	if err == nil {
		use, err = b.measureIdle(ctx, dir, d.PID())
	}
	return use, errors.Join(err, d.Stop())
}

func (b *bench) measureIdle(ctx context.Context, dir string, pid int) (idleUse, error) {
	var use idleUse
	if err := b.calm(ctx, dir, pid); err != nil {
		return use, err
	}
	begin, err := used(pid)
	if err != nil {
		return use, err
	}
	const samples = 20
	since := time.Now()
	for range samples {
		if err := pause.For(ctx, b.sizes.quiet/samples); err != nil {
			return use, err
		}
		now, err := resident(pid)
		if err != nil {
			return use, err
		}
		use.resident = append(use.resident, now)
	}
	end, err := used(pid)
	use.cpu = 100 * (end - begin).Seconds() / time.Since(since).Seconds()
	return use, err
}

// calm waits until a daemon is idle: until it has written its status, and twice in a
// row uses next to no CPU time, or little and not much less than before. It gives up
// after sizes.patience tries.
func (b *bench) calm(ctx context.Context, dir string, pid int) error {
	step := b.sizes.quiet / 4
	var last, before time.Duration
	quiet := 0
	for tries := 0; tries < b.sizes.patience && quiet < 2; tries++ {
		if err := pause.For(ctx, step); err != nil {
			return err
		}
		now, err := used(pid)
		if err != nil {
			return err
		}
		quiet++
		use := now - last
		idle := use <= step*3/200 || use <= step/20 && use >= before*4/5
		if s, err := statusOf(dir); err != nil || s.PID != pid || !idle {
			quiet = 0
		}
		last, before = now, use
	}
	return nil
}
