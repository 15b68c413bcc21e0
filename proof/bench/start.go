package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hived/hived/internal/wait"
	"github.com/hived/hived/proof/child"
)

var startRow = row{
	name: "start",
	what: func(s sizes) string {
		return fmt.Sprintf("`hived up`, a process of its own, on the hive with %s of %s, after a clean stop: from its start until a message that waited in an outbox is in its inbox. The baseline is the same on a new hive with as many agents. "+
			"Beside it the same after the daemon was killed.", count(s.agedEvents, "events"), count(s.agedAgents, "agents"))
	},
	behind: "Without a snapshot the whole log is read and folded; with one, only what comes after it. Then every agent's directories are scanned and watched once.",
	needs:  proc | process | past,
	brief:  6 * time.Second, full: 90 * time.Second,
	disk: func(s sizes) int64 { return int64(s.agedAgents) * agentDisk },
	measure: func(ctx context.Context, b *bench) (outcome, error) {
		a, err := b.aged(ctx)
		if err != nil {
			return outcome{}, err
		}
		s := b.sizes
		fresh, err := b.hiveDir(ctx, s.agedAgents, "")
		if err != nil {
			return outcome{}, err
		}
		old := &starter{b: b, dir: a.dir, generator: a.traffic.generator}
		young := &starter{b: b, dir: fresh, generator: newGenerator(9)}
		var after, baseline, killed []float64
		for round := range s.agedRounds {
			b.tell(0.5+0.5*float64(round)/float64(s.agedRounds), "round %d of %d", round+1, s.agedRounds)
			for _, x := range []struct {
				hive    *starter
				end     func(*child.Daemon) error // how this daemon ends, and so how the next one finds the hive
				samples *[]float64
			}{{young, (*child.Daemon).Stop, &baseline}, {old, (*child.Daemon).Kill, &after}, {old, (*child.Daemon).Stop, &killed}} {
				took, err := x.hive.start(ctx, x.end)
				if err != nil {
					return outcome{}, err
				}
				*x.samples = append(*x.samples, took)
			}
		}
		if _, err := takeMail(a.dir, 1); err != nil { // otherwise the next row would find one too many
			return outcome{}, err
		}
		a.events, err = eventsIn(a.dir)
		return outcome{parts: []Part{
			compared("after a stop in good order", "s", baseline, after).atMost(1),
			compared("after a kill", "s", baseline, killed),
		}}, err
	},
}

// starter starts daemons on a hive.
type starter struct {
	b         *bench
	dir       string
	generator *generator
}

// start starts a daemon, returns the seconds until the first message is delivered, and
// ends the daemon; a daemon that delivered nothing is stopped.
func (s *starter) start(ctx context.Context, end func(*child.Daemon) error) (float64, error) {
	if _, err := takeMail(s.dir, 1); err != nil {
		return 0, err
	}
	name, data := s.generator.next(1)
	if err := send(outboxOf(s.dir, 0), name, data); err != nil {
		return 0, err
	}
	begin := time.Now()
	d, err := s.b.up(s.dir)
	if err != nil {
		return 0, err
	}
	err = s.arrived(ctx, d)
	took := time.Since(begin).Seconds()
	if err != nil {
		return took, errors.Join(err, d.Stop())
	}
	return took, end(d)
}

func (s *starter) arrived(ctx context.Context, d *child.Daemon) error {
	var failed error
	err := wait.Condition(ctx, s.b.sizes.longest, nil, "the first message of a new daemon", func() bool {
		list, err := mail(inboxOf(s.dir, 1))
		failed = errors.Join(err, d.Alive())
		return failed != nil || len(list) > 0
	}, d.Said)
	return errors.Join(failed, err)
}
