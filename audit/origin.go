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

// visitPuts calls visit with each change that puts a file into the versioned tree,
// with its git id, through the event until (0 is the end of the log).
func visitPuts(ctx context.Context, disk durable.FS, until protocol.Seq, visit func(protocol.Event, protocol.Change) error) error {
	for rec, err := range effects(disk, eventlog.Position{}, changesOf) {
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
				return ignoreStop(err)
			}
		}
	}
	return nil
}

// newCheckpoints returns what restores whole checkpoints from the patches in a log.
func newCheckpoints(disk durable.FS) *ledger.Checkpoints {
	return ledger.NewCheckpoints(func(seq protocol.Seq) (protocol.Event, error) {
		return eventlog.ReadEvent(disk, seq)
	})
}

// origins finds where the wanted contents came from. What no event put, such as
// git's trees, is not in the result.
func origins(ctx context.Context, disk durable.FS, want map[protocol.Blob]bool) (map[protocol.Blob]origin, error) {
	out := map[protocol.Blob]origin{}
	if len(want) == 0 {
		return out, nil
	}
	err := visitPuts(ctx, disk, 0, func(ev protocol.Event, c protocol.Change) error {
		if _, known := out[c.Blob]; known || !want[c.Blob] {
			return nil
		}
		out[c.Blob] = origin{seq: ev.Seq, id: ev.Refs().Message, path: c.Path}
		if len(out) == len(want) {
			return errStop
		}
		return nil
	})
	return out, err
}

// errStop ends visitPuts without an error.
var errStop = errors.New("enough was read")

func ignoreStop(err error) error {
	if errors.Is(err, errStop) {
		return nil
	}
	return err
}
