package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"time"

	"github.com/hived/hived/protocol"
)

// tasksInHand is how many tasks each agent holds when all timers fire, and
// batchEvents how many events a batch of messages has (spec §3): no message may
// have to wait for more.
const (
	tasksInHand = 10
	batchEvents = 512
)

var taskTimersRow = row{
	name: "tasks-timers",
	what: func(s sizes) string {
		return fmt.Sprintf("%d agents have taken %d tasks each when the daemon starts again, so that all of their leases run from the same moment: %s are due at once, and each writes an event, a notice and a file. Meanwhile one message after the other is sent, from its rename into the outbox until it is in the inbox. The baseline is the messages that were sent before.",
			s.timerAgents, tasksInHand, count(tasksInHand*s.timerAgents, "reminders"))
	},
	behind: "A message that arrives while 64 timers are carried out waits until these are on the disk, and comes before the next. One that is sent at their end may be heard of only after the next 64 have begun, and waits for these too. Each timer is three events.",
	brief:  12 * time.Second, full: 60 * time.Second,
	disk: func(s sizes) int64 {
		return int64(s.timerAgents) * (agentDisk + tasksInHand*6*fileDisk + tasksInHand*messageDisk)
	},
	measure: func(ctx context.Context, b *bench) (outcome, error) {
		settings := workloadSettings()
		settings.Tasks.Lease = time.Hour
		b.tell(0, "%d agents take tasks", b.sizes.timerAgents)
		// There are more tasks than needed, so that no agent has to take one that is
		// offered to others.
		x, err := b.newBoard(ctx, b.sizes.timerAgents, (tasksInHand+settings.Tasks.Offers)*b.sizes.timerAgents, settings, func(share float64) { b.tell(share/3, "tasks are created") })
		if err != nil {
			return outcome{}, err
		}
		out, err := b.timers(ctx, x)
		return out, errors.Join(err, x.close())
	},
}

func (b *bench) timers(ctx context.Context, x *board) (outcome, error) {
	if err := b.takeTasks(ctx, x); err != nil {
		return outcome{}, err
	}
	if err := x.down(); err != nil {
		return outcome{}, err
	}
	settings := workloadSettings()
	settings.InboxCap = 1 << 20               // nobody reads here
	settings.Tasks.Lease = b.sizes.lease      // agents are reminded after two thirds of it
	settings.Tasks.Backoff.Base = time.Minute // and tasks that they lose are not offered again at once
	settings.Tasks.Backoff.Max = 2 * time.Minute
	if err := x.up(ctx, settings); err != nil {
		return outcome{}, err
	}
	var idle, busy []float64
	most, events := 0, 0
	begun, fired, all := time.Now(), 0, tasksInHand*b.sizes.timerAgents
	for fired < all {
		if waited := time.Since(begun); waited > b.sizes.longest {
			return outcome{}, fmt.Errorf("wait for the timers of %d tasks: %d fired within %s\n%s", all, fired, waited.Round(time.Second), x.story())
		}
		p, err := x.probe(ctx)
		if err != nil {
			return outcome{}, err
		}
		if p.begun == 0 && p.ended == 0 {
			idle = append(idle, ms(p.wait))
		} else {
			busy = append(busy, ms(p.wait))
			most, events = max(most, p.ended-p.begun), max(events, p.events)
		}
		fired = p.ended
		b.tell(0.7+0.3*float64(fired)/float64(all), "%d of %d timers", fired, all)
	}
	return outcome{parts: []Part{
		alone("events that a message waited for, at most", "events", []float64{float64(events)}).atMost(batchEvents),
		alone("timers that it waited for, at most", "timers", []float64{float64(most)}),
		compared("wait of a message, median", "ms", idle, busy),
		{Name: "wait of a message, longest", Unit: "ms", Baseline: slices.Max(append(idle, 0)), Hived: slices.Max(append(busy, 0)), Reached: math.NaN(), Rounds: len(busy)},
	}}, nil
}

// takeTasks has every agent take tasksInHand tasks.
func (b *bench) takeTasks(ctx context.Context, x *board) error {
	human := filepath.Join(x.dir, protocol.OutboxDir(protocol.Human))
	for i := range x.agents {
		if err := x.write(human, command("agent-add", nil, fmt.Sprintf(`{"agent":%q,"slots":%d}`, nameOf(i), tasksInHand))); err != nil {
			return err
		}
	}
	for k := range 1 + tasksInHand {
		b.tell(1.0/3+float64(k)/float64(3*tasksInHand+3), "%d agents take tasks", x.agents)
		if _, _, err := x.timed(ctx); err != nil {
			return err
		}
		for i := range x.agents {
			if k == tasksInHand {
				break
			}
			if err := x.write(outboxOf(x.dir, i), command("claim", nil, "{}")); err != nil {
				return err
			}
		}
	}
	return nil
}

// probed is the result of sending one message.
type probed struct {
	wait         time.Duration
	begun, ended int // timers that had fired when it was sent, and when it was decided
	events       int // of all kinds, in between
}

// probe sends a message and waits until it is in the inbox.
func (x *board) probe(ctx context.Context) (probed, error) {
	name, data := x.generator.next(1)
	temp := filepath.Join(outboxOf(x.dir, 0), ".probe.tmp")
	if err := put(temp, data); err != nil {
		return probed{}, err
	}
	x.mu.Lock()
	p, n, seq := probed{begun: x.timers}, x.probes, x.last
	x.mu.Unlock()
	begin := time.Now()
	if err := move(temp, filepath.Join(outboxOf(x.dir, 0), "p"+name)); err != nil {
		return probed{}, err
	}
	err := x.until(ctx, "a message to be delivered", func() bool { return x.probes > n })
	x.mu.Lock()
	defer x.mu.Unlock()
	p.wait, p.ended, p.events = x.probedAt.Sub(begin), x.before, int(x.probedAs-seq)-1 //nolint:gosec // a log is shorter than 2^63
	return p, err
}
