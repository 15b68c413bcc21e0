package audit

import (
	"context"
	"errors"

	"github.com/hived/hived/eventlog"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/ledger"
	"github.com/hived/hived/protocol"
)

// origin is where content came into the hive: the first event that put it.
type origin struct {
	seq  protocol.Seq
	id   protocol.MessageID
	path string
}

// puts visits what every event puts into the versioned tree, by its git id.
func puts(ctx context.Context, disk durable.FS, until protocol.Seq, visit func(protocol.Event, protocol.Change) error) error {
	for rec, err := range effects(disk, eventlog.Position{}, named) {
		switch {
		case err != nil:
			return err
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case until > 0 && rec.Event.Seq > until:
			return nil
		}
		for _, c := range effectOf(rec).changes {
			if c.Op != protocol.Put {
				continue
			}
			if err := visit(rec.Event, c); err != nil {
				return ignoreEnough(err)
			}
		}
	}
	return nil
}

// wholesOf makes checkpoints whole whose patches a log holds.
func wholesOf(disk durable.FS) *ledger.Wholes {
	return ledger.NewWholes(func(seq protocol.Seq) (protocol.Event, error) {
		return eventlog.ReadEvent(disk, seq)
	})
}

// origins finds where some content came from. What no event put, such as
// git's trees, is not in the answer.
func origins(ctx context.Context, disk durable.FS, want map[protocol.Blob]bool) (map[protocol.Blob]origin, error) {
	out := map[protocol.Blob]origin{}
	if len(want) == 0 {
		return out, nil
	}
	err := puts(ctx, disk, 0, func(ev protocol.Event, c protocol.Change) error {
		if _, known := out[c.Blob]; known || !want[c.Blob] {
			return nil
		}
		out[c.Blob] = origin{seq: ev.Seq, id: ev.Refs().Message, path: c.Path}
		if len(out) == len(want) {
			return errEnough
		}
		return nil
	})
	return out, err
}

// errEnough ends a walk through the log.
var errEnough = errors.New("enough was read")

func ignoreEnough(err error) error {
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}
