package follow

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/hived/hived/gitcommit"
)

// indexer holds how far git's index is behind history, and what the last update cost.
type indexer struct {
	stale bool          // the index is to be updated
	fresh bool          // there were commits since the last update
	at    time.Time     // end of the last update
	took  time.Duration // duration of the last update
	read  time.Time     // end of the last update with stat data
}

// The index is one file, written whole however little changed. So that it takes at
// most 1/indexShare of the committer's time, the next update waits for indexShare
// times the duration of the last, but no longer than indexRestMost: an update that
// a stalled disk delayed says nothing about the cost of the index.
const (
	indexShare    = 50
	indexRestMost = 30 * time.Second
	// It is not updated more often than this while there are commits to make, or
	// while what is left waits for files to grow older or for a lock.
	indexBusy = time.Second
)

// due returns how long to wait before the next update of the index; wait is how
// long the next commit waits.
func (x *indexer) due(now time.Time, wait time.Duration) time.Duration {
	if !x.stale {
		return forever
	}
	if x.at.IsZero() {
		return 0
	}
	rest := min(x.took, indexRestMost/indexShare) * indexShare
	if wait < forever || !x.fresh {
		rest = max(rest, indexBusy)
	}
	return max(0, rest-now.Sub(x.at))
}

// updateIndex updates the index if it is due.
func (f *Follower) updateIndex(ctx context.Context, x *indexer, wait time.Duration) {
	begin := time.Now()
	if x.due(begin, wait) > 0 {
		return
	}
	x.fresh = false
	if wait == committed && begin.Sub(x.read) < indexReads {
		f.indexError(ctx, f.repo.SyncNames(ctx)) // it stays stale, without stat data
	} else {
		x.stale = f.syncIndex(ctx)
		x.read = time.Now()
	}
	x.at = time.Now()
	x.took = x.at.Sub(begin)
}

// indexReads is how long the index may lack stat data of new files while there are
// commits to make.
const indexReads = 10 * time.Second

// syncIndex updates git's index and reports whether it is still stale.
func (f *Follower) syncIndex(ctx context.Context) bool {
	more, err := f.repo.SyncIndex(ctx)
	f.indexError(ctx, err)
	return more || err != nil
}

func (f *Follower) indexError(ctx context.Context, err error) {
	if err != nil && !errors.Is(err, gitcommit.ErrLocked) && ctx.Err() == nil {
		f.cfg.Log.WarnContext(ctx, "git index is behind", slog.String("error", err.Error()))
	}
}
