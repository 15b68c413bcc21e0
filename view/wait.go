package view

import (
	"context"
	"iter"

	"github.com/hived/hived/eventlog"
	"github.com/hived/hived/protocol"
)

// Folder folds events into one answer. It sees them in the order of the log, each
// once, and reports whether the answer is complete, so that no later event is
// needed. It is not safe for concurrent use.
type Folder interface {
	See(ev protocol.Event) (done bool)
}

// Wait passes the records to the folder until it is done or they end. It returns the
// error that they end with, or the cause of ctx's end.
func Wait(ctx context.Context, records iter.Seq2[eventlog.Record, error], f Folder) error {
	for rec, err := range records {
		if ctx.Err() != nil {
			break
		}
		if err != nil {
			return err
		}
		if f.See(rec.Event) {
			return nil
		}
	}
	return context.Cause(ctx)
}
