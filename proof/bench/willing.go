package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hived/hived/protocol"
)

// idleAgents is how many agents have the role that a dull task is for. All but one
// reject it.
const idleAgents = 24

var willingRow = row{
	name: "tasks-willing",
	what: func(sizes) string {
		return fmt.Sprintf("%d idle agents of one role, and one task for the role, with a lease of %s: whoever is offered it rejects it at once, by a file in its outbox, except the one that is asked last, whatever the order, which is willing and takes it. The clock runs from just before the rename of the command that creates the task until the willing one has the offer in its inbox. The task is cancelled then, and the next round begins.",
			idleAgents, workloadSettings().Tasks.Lease)
	},
	behind: "A task is offered to `tasks.offers` agents at a time, and to the next when all of these have rejected it: each offer costs a sync of the log for the offer, and one for the answers. The task pauses only when all agents with free slots were asked.",
	brief:  2 * time.Second, full: 3 * time.Second,
	disk: func(s sizes) int64 { return idleAgents*agentDisk + perMessage(s.rounds*4*idleAgents) },
	measure: func(ctx context.Context, b *bench) (outcome, error) {
		settings := workloadSettings()
		x, err := b.newBoard(ctx, idleAgents, 0, settings, func(float64) {})
		if err != nil {
			return outcome{}, err
		}
		parts, err := b.willing(ctx, x, settings.Tasks.Lease)
		return outcome{parts: parts}, errors.Join(err, x.close())
	},
}

func (b *bench) willing(ctx context.Context, x *board, lease time.Duration) ([]Part, error) {
	human := filepath.Join(x.dir, protocol.OutboxDir(protocol.Human))
	for i := range idleAgents {
		if err := x.write(human, command("agent-add", nil, fmt.Sprintf(`{"agent":%q,"role":"digger"}`, nameOf(i)))); err != nil {
			return nil, err
		}
	}
	if err := x.answers(ctx); err != nil {
		return nil, err
	}
	var leases, took, offers []float64
	for round := range b.sizes.rounds {
		b.tell(float64(round)/float64(b.sizes.rounds), "task %d of %d", round+1, b.sizes.rounds)
		asked, n, err := x.askAll(ctx, human)
		if err != nil {
			return nil, err
		}
		leases, took, offers = append(leases, asked.Seconds()/lease.Seconds()), append(took, ms(asked)), append(offers, float64(n))
	}
	return []Part{
		Part{Name: "until the willing one is asked, longest", Unit: "lease", Baseline: math.NaN(), Hived: slices.Max(leases), Rounds: len(leases)}.atMost(1),
		alone("until the willing one is asked", "ms", took),
		alone("offers that were made by then", "offers", offers),
	}, nil
}

// asking records the offers of one task that all but one reject.
type asking struct {
	task   protocol.TaskID
	open   []protocol.AgentID // agents that have the offer and have not answered it
	at     time.Time          // when the newest of them got it
	offers int
}

// hear records offers. Events are passed on when their files are placed.
func (a *asking) hear(ev protocol.Event) {
	if e, ok := ev.Body.(*protocol.TaskEvent); ok && e.Event == offer {
		a.task, a.offers = e.Task, a.offers+1
	}
	if e, ok := ev.Body.(*protocol.MessageEvent); ok && e.From == protocol.Hive && strings.HasPrefix(e.Subject, string(protocol.CodeTaskOffer)+":") {
		a.open, a.at = append(a.open, e.Delivered...), time.Now()
	}
}

// askAll creates a task and has it rejected until the last of the agents is asked,
// which takes it; then it cancels the task. It returns how long it took until the last
// one was asked, and the number of offers until then.
func (x *board) askAll(ctx context.Context, human string) (took time.Duration, offers int, err error) {
	var a asking
	defer x.alsoHear(a.hear)()
	if err := x.write(human, command("create", nil, `{"title":"dull","body":"nobody likes it","to":["@digger"]}`)); err != nil {
		return 0, 0, err
	}
	begin := time.Now()
	asked := map[protocol.AgentID]bool{}
	for len(asked) < idleAgents {
		if err := x.publish(); err != nil {
			return 0, 0, err
		}
		var open []protocol.AgentID
		what := fmt.Sprintf("the task to be offered to another of %d agents: %d rejected it", idleAgents, len(asked))
		if err := x.until(ctx, what, func() bool {
			open, a.open = a.open, nil
			took, offers = a.at.Sub(begin), a.offers
			return len(open) > 0
		}); err != nil {
			return 0, 0, err
		}
		for _, id := range open {
			asked[id] = true
			event, data := "reject", `{"reason":"it is dull"}`
			if len(asked) == idleAgents { // an agent that is asked for the first time can be the last
				event, data = "accept", "{}"
			}
			if err := x.write(filepath.Join(x.dir, protocol.OutboxDir(id)), command(event, &holding{id: a.task}, data)); err != nil {
				return 0, 0, err
			}
		}
	}
	if err := x.answers(ctx); err != nil {
		return 0, 0, err
	}
	if err := x.write(human, command("cancel", &holding{id: a.task}, "{}")); err != nil {
		return 0, 0, err
	}
	return took, offers, x.answers(ctx)
}

// answers sends the drafts and waits until all are answered.
func (x *board) answers(ctx context.Context) error {
	if err := x.publish(); err != nil {
		return err
	}
	_, err := x.allAnswered(ctx)
	return err
}

// alsoHear calls another function with each event too, until end is called.
func (x *board) alsoHear(hear func(protocol.Event)) (end func()) {
	x.mu.Lock()
	defer x.mu.Unlock()
	before := x.hear
	x.hear = func(ev protocol.Event) { before(ev); hear(ev) }
	return func() {
		x.mu.Lock()
		defer x.mu.Unlock()
		x.hear = before
	}
}
