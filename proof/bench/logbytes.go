package bench

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/hived/hived/protocol"
)

// By how many bytes the log may grow.
const (
	patchMost = 2 << 10
	holdMost  = 2 << 10
)

// checkpointBytes is about the size of the checkpoint that is patched.
const checkpointBytes = 200 << 10

var logBytesRow = row{
	name: "log-bytes",
	what: func(s sizes) string {
		return fmt.Sprintf("What the log grows by, with the messages that carry the commands: report %d of a task against report 2 (the baseline), each with a milestone of 10 bytes; a patch of 10 bytes on a checkpoint of %d KiB; and holding and releasing one of %d agents, by commands without an id or white space. `settled` events, which depend on the clock, do not count. One run: it is counted, not timed.",
			s.reports, checkpointBytes>>10, s.rosterAgents)
	},
	behind: "An event has the content of its command and its result.",
	brief:  4 * time.Second, full: 8 * time.Second,
	disk: func(s sizes) int64 {
		return int64(s.rosterAgents)*agentDisk + int64(s.reports)*messageDisk + 64*checkpointBytes
	},
	measure: func(ctx context.Context, b *bench) (outcome, error) {
		x, err := b.newBoard(ctx, b.sizes.rosterAgents, 1, workloadSettings(), func(float64) {})
		if err != nil {
			return outcome{}, err
		}
		parts, err := b.logBytes(ctx, x.counted())
		return outcome{parts: parts}, errors.Join(err, x.close())
	},
}

func (b *bench) logBytes(ctx context.Context, x *counter) ([]Part, error) {
	human := filepath.Join(x.dir, protocol.OutboxDir(protocol.Human))
	if _, err := x.grows(ctx, outboxOf(x.dir, 0), command("claim", nil, "{}")); err != nil {
		return nil, err
	}
	x.mu.Lock()
	h := x.has[protocol.AgentID(nameOf(0))]
	x.mu.Unlock()
	report := func(data string) (float64, error) {
		return x.grows(ctx, outboxOf(x.dir, 0), command("progress", &h, data))
	}
	if _, err := x.grows(ctx, outboxOf(x.dir, 0), command("start", &h, "{}")); err != nil {
		return nil, err
	}
	var second, last float64
	for i := 1; i <= b.sizes.reports; i++ {
		b.tell(0.8*float64(i)/float64(b.sizes.reports), "report %d of %d", i, b.sizes.reports)
		grew, err := report(fmt.Sprintf(`{"milestone":"step %05d"}`, i))
		if err != nil {
			return nil, err
		}
		if last = grew; i == 2 {
			second = grew
		}
	}
	b.tell(0.8, "a large checkpoint and a small patch")
	if _, err := report(`{"milestone":"all of it","checkpoint":{"n":1,"text":"` + strings.Repeat("word ", checkpointBytes/5) + `"}}`); err != nil {
		return nil, err
	}
	patch, err := report(`{"milestone":"a bit","patch":{"n":2}}`)
	if err != nil {
		return nil, err
	}
	b.tell(0.9, "an agent is held and released")
	about := fmt.Sprintf(`{"agent":%q}`, nameOf(1))
	held, err := x.grows(ctx, human, command("agent-hold", nil, about))
	if err != nil {
		return nil, err
	}
	released, err := x.grows(ctx, human, command("agent-release", nil, about))
	return []Part{
		compared(fmt.Sprintf("report %d of a task", b.sizes.reports), "bytes", []float64{second}, []float64{last}).timesAtMost(1.1),
		alone("a patch of 10 bytes", "bytes", []float64{patch}).atMost(patchMost),
		alone("holding and releasing one agent", "bytes", []float64{held + released}).atMost(holdMost),
	}, err
}

// counter counts by how many bytes the log grows. Sync points do not count, because
// they depend on the clock and not on what was sent.
type counter struct {
	*board
	bytes int // guarded by mu
	err   error
}

func (x *board) counted() *counter {
	c := &counter{board: x}
	x.mu.Lock()
	defer x.mu.Unlock()
	tell := x.hear
	x.hear = func(ev protocol.Event) {
		tell(ev)
		if e, ok := ev.Body.(*protocol.HiveEvent); ok && e.Action == protocol.Settled {
			return
		}
		line, _, err := protocol.AppendLine(nil, ev, protocol.Sum{})
		c.bytes, c.err = c.bytes+len(line), errors.Join(c.err, err)
	}
	return c
}

// grows sends a command and returns by how many bytes the log grew until it was
// answered and committed.
func (c *counter) grows(ctx context.Context, outbox, text string) (float64, error) {
	before, err := c.size()
	if err != nil {
		return 0, err
	}
	if err := c.write(outbox, text); err != nil {
		return 0, err
	}
	if _, _, err := c.timed(ctx); err != nil {
		return 0, err
	}
	after, err := c.size()
	return float64(after - before), err
}

func (c *counter) size() (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bytes, c.err
}
